"""All ways into a set side by side, for those who want to choose."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.nn.base_point import coordinates_at, seen_from_inside
from rayhull.nn.choice import METHODS
from rayhull.nn.costs import estimate
from rayhull.nn.map_into import MapInto
from rayhull.nn.trial import Trial

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

BATCH, BUDGET = 256, 2000  # samples of a timing, generators of a conversion


@dataclass(frozen=True)
class Row:
    """One way in.

    Attributes:
        error: what is left of noise on points of the set, over what the nearest points leave; None where coefficients
            are not coordinates, so that no noise can be put on them.
        estimate: microseconds a sample by sizes alone, the figure that ``auto`` weighs (:mod:`rayhull.nn.costs`).
        microseconds: a sample, forwards and backwards, in a batch of 256 on this machine.
        strict: whether ``strict=True`` is possible.
        note: how each kind of block is met, or why the way is not possible.
    """

    method: str
    error: float | None
    estimate: float | None
    microseconds: float | None
    strict: bool
    note: str

    def __str__(self) -> str:
        error = "" if self.error is None else f"{self.error:.2f}"
        estimated, timed = ("" if cost is None else f"{cost:.2g}" for cost in (self.estimate, self.microseconds))
        strict = "yes" if self.strict else "no"
        return f"{self.method:<11} {error:>6} {estimated:>9} {timed:>9}  {strict:<6}  {self.note}"


class Comparison(tuple[Row, ...]):
    """The rows of :func:`compare`; printed, a table."""

    def __repr__(self) -> str:
        head = f"{'method':<11} {'error':>6} {'estimate':>9} {'µs':>9}  {'strict':<6}  way"
        return "\n".join([head, *map(str, self)])


def compare(P: Polyhedron) -> Comparison:
    """Every way into the set: how well points near it come back, what it costs, whether it can be strict.

    The first row is what ``method="auto"`` takes. Errors near 1 learn as the nearest point does; an error of 10 learns
    badly. Estimates are of sizes, forwards; times are of this machine, now, forwards and backwards.

    Examples:
        >>> import rayhull as rh
        >>> table = rh.compare(rh.Polyhedron([[1, 1, -1], [1, -2, 0]], 1, lower=-1, upper=1))
        >>> [row.method for row in table]
        ['auto', 'rays', 'vertices', 'order', 'shift', 'shrink', 'approach', 'projection']
        >>> bool({row.method: row.error for row in table}["projection"] < 1.001)
        True
    """
    view = seen_from_inside(P)
    trial = Trial.of(P, view.base, coordinates_at(P, view, 1.0, diagonal=True))
    return Comparison(_row(P, method, trial) for method in METHODS)


def _row(P: Polyhedron, method: str, trial: Trial) -> Row:
    try:
        into = MapInto(P, method=method, max_generators=BUDGET, dtype=torch.float64)
    except RayhullError as error:
        return Row(method, None, None, None, False, str(error).split(": ")[0])
    note = "; ".join(part.describe() for part in into.blocks())
    estimated = sum(estimate(part) for part in into.blocks())
    return Row(method, _error(into, trial), estimated, _microseconds(into), _can_be_strict(into), note)


@torch.no_grad()
def _error(into: MapInto, trial: Trial) -> float | None:
    if not into.identity_inside:
        return None

    def points(noisy: Tensor) -> Tensor:
        return into(into.coefficients_of(noisy.reshape(-1, *into.polyhedron.shape))).flatten(1)

    return trial.amplification(points)


def _microseconds(into: MapInto) -> float:
    c = torch.randn(BATCH, into.coefficients, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    c.requires_grad_()
    into(c).sum().backward()  # what is worked out once
    begun = time.perf_counter()
    into(c).sum().backward()
    return 1e6 * (time.perf_counter() - begun) / BATCH


def _can_be_strict(into: MapInto) -> bool:
    try:
        into.strict = True
    except RayhullError:
        return False
    return True
