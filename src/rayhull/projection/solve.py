"""One call: every part is solved, judged, solved again where it must be, and put together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection import compiled
from rayhull.projection.plan import Given, Part
from rayhull.projection.problem import EMPTY, SOLVED, UNSOLVED, Found, Rhs
from rayhull.projection.solver import Way
from rayhull.projection.solvers import external, least_distance, least_violation
from rayhull.projection.solvers.generic import ActiveSet, DualNewton

NOTHING = torch.empty(0)


@dataclass(frozen=True, eq=False)
class Info:
    """What was found out on the way. Shape: every tensor has the batch shape of x.

    Attributes:
        residual: the KKT residual of each sample, relative to the numbers involved; at most 1e-10 for our solvers.
        steps: iterations, the most over the blocks of a sample.
        ways: how each kind of block was solved.
        fallback: samples that a second solver had to answer.
        infeasible: samples with no feasible point, answered by the least violation.
    """

    residual: Tensor
    steps: Tensor
    ways: tuple[str, ...]
    fallback: Tensor
    infeasible: Tensor


class Call:
    """The state of one call, kept for its derivatives."""

    def __init__(self, parts: list[Part], infeasible: str, warm: list[Found] | None = None) -> None:
        self.parts, self.infeasible, self.warm = parts, infeasible, warm
        self.found: list[Found] = []
        self.fallback: list[Tensor] = []  # samples that a second solver answered
        self.empty: list[Tensor] = []  # samples that have no feasible point

    def run(self, x: Tensor, given: Given) -> Tensor:
        """Nearest points. Shape: (n, D) → (n, D)."""
        n, out = x.shape[0], _empty_like(x)
        for k, part in enumerate(self.parts):
            rhs = part.rhs(given, n, x.device)
            found = part.way.solve_in_place(x, part.index, rhs, out)
            if found is None or not found.solved:
                found = self._solve(part, k, x, rhs, out)
            self.found.append(found)
        return out

    def _solve(self, part: Part, k: int, x: Tensor, rhs: Rhs, out: Tensor) -> Found:
        """Blocks gathered, solved, solved again where they must be, and written to ``out``."""
        y = part.to_standard(part.gather(x))
        warm = None if self.warm is None else (self.warm[k].active, self.warm[k].state)
        found = part.way.solve(y, rhs, warm)
        if not found.solved:
            self._solve_again(part, y, rhs, found)
        part.scatter(part.to_plain(found.z), out)
        found.z = NOTHING  # not needed any more
        return found

    def _solve_again(self, part: Part, y: Tensor, rhs: Rhs, found: Found) -> None:
        """Fill in what the first solver did not answer, or raise with the names of the samples."""
        tried = [part.way.name]
        doubtful = part.way.confirm_empty(y, rhs, found)
        found.status[doubtful] = UNSOLVED
        for way in _fallbacks(part.way):
            left = (found.status == UNSOLVED).nonzero()[:, 0]
            if not len(left):
                break
            tried.append(way.name)
            some = rhs.take(left)
            again = way.solve(y[left], some)
            again.status[way.confirm_empty(y[left], some, again)] = UNSOLVED
            better = again.status != UNSOLVED
            _write(found, left[better], again, better)
            self.fallback.append(left[better] // part.count)
        lost = (found.status == UNSOLVED).nonzero()[:, 0] // part.count
        if len(lost):
            worst = float(found.residual[found.status == UNSOLVED].max())
            raise UnverifiedError(
                f"No certified nearest point for {_names(lost)}: the KKT residual is {worst:.1e} after "
                f"{', '.join(tried)}. Are the numbers of very different sizes, or rows nearly parallel?"
            )
        none = (found.status == EMPTY).nonzero()[:, 0]
        if len(none) and self.infeasible == "raise":
            raise EmptySetError(
                f"No point satisfies the right-hand sides and bounds of {_names(none // part.count)}. "
                'Check b, b_eq, lower and upper, or ask for infeasible="least" to get the least violation.'
            )
        if len(none):
            self.empty.append(none // part.count)
            found.z[none] = least_violation.solve(part.way, y[none], rhs.take(none))
            found.active[none], found.state[none] = False, 1  # a constant: no gradient flows
            found.status[none], found.residual[none] = SOLVED, float("nan")

    def info(self, batch: tuple[int, ...]) -> Info:
        if not self.found:  # an empty batch
            none = torch.zeros(batch)
            return Info(none.double(), none.long(), (), none.bool(), none.bool())
        n = math.prod(batch)
        residual, steps = (
            torch.stack([getattr(f, name).reshape(n, -1).amax(1) for f in self.found]).amax(0).reshape(batch)
            for name in ("residual", "steps")
        )
        fallback, empty = (_mask(v, residual).reshape(batch) for v in (self.fallback, self.empty))
        return Info(residual, steps, tuple(p.way.name for p in self.parts), fallback, empty)


def _empty_like(x: Tensor) -> Tensor:
    """NumPy's memory where it can be had: it asks for huge pages, and fills 60 MB four times as fast as torch's."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.from_numpy(np.empty(x.shape, np.float32 if x.dtype == torch.float32 else np.float64))


def _mask(samples: list[Tensor], like: Tensor) -> Tensor:
    """True for the samples that are named."""
    mask = torch.zeros(like.numel(), dtype=torch.bool, device=like.device)
    for named in samples:
        mask[named] = True
    return mask


def _fallbacks(way: Way) -> list[Way]:
    """Who is asked next: our other solvers, then those that are installed."""
    ways: list[Way] = []
    if compiled.available() and not isinstance(way, ActiveSet):
        ways.append(ActiveSet(way.problem))
    if not isinstance(way, DualNewton):
        ways.append(DualNewton(way.problem))
    ways.append(least_distance.LeastDistance(way.problem))
    installed = [name for name in ("daqp", "piqp") if external.installed(name)]
    return ways + [external.External(way.problem, name) for name in installed if name != way.name]


def _write(found: Found, where: Tensor, again: Found, which: Tensor) -> None:
    for name in ("z", "active", "state", "residual", "steps", "status"):
        getattr(found, name)[where] = getattr(again, name)[which]


def _names(samples: Tensor, most: int = 8) -> str:
    numbers = torch.unique(samples).tolist()
    text = ", ".join(map(str, numbers[:most]))
    more = f" and {len(numbers) - most} others" if len(numbers) > most else ""
    return f"sample{'s' if len(numbers) > 1 else ''} {text}{more}"
