"""The last step of a block, one interface for all of them: the shrink, ordinary and strict.

docs/strict.md has the proofs; the constants of a strict closing are derived from the rows once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.cone import without_carefully
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.strict import EPS, gamma, roundoff, strict_factor
from rayhull.nn.base_point import View, equality_basis
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.gauge import Gauge
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.nn.base_point import View
    from rayhull.sets.polyhedron import Polyhedron

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MOST_LOSS = 0.5  # a set that loses more than half of its slack to rounding is refused


class How(NamedTuple):
    """The switches of a layer, and the dtype of what comes out."""

    dtype: torch.dtype
    shrinking: bool = True
    smooth: bool = False


class Closing(Constants):
    """From a direction y to a point x of the block: y' = clean(y), x = finish(x0 + scale(y') · y').

    This one does nothing, for directions that end in the set by themselves. Shape: y, x (\\*, count, n).
    """

    shrinks = False  # whether some row is met by shrinking
    moves_sides = True  # whether b, lower and upper of a sample can be followed

    def clean(self, y: Tensor) -> Tensor:
        """The direction as this closing wants it."""
        return y

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        """The largest factor (\\*, count) that keeps x0 + factor · y inside, None for 1."""
        return None

    def finish(self, x: Tensor, how: How) -> Tensor:
        """The point in the dtype that comes out."""
        return x.to(how.dtype)

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold the promise."""

    def tail_fields(self, dtype: torch.dtype) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return {}


class Shrink(Closing):
    """x = x0 + y / max(1, gauge(y))."""

    def __init__(self, P: Polyhedron, view: View, factory: Factory) -> None:
        super().__init__(factory)
        self.gauge = Gauge(P, view.loose, view.slack, factory)
        self.shrinks = len(view.loose) > 0

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        if not how.shrinking or not (self.shrinks or sides.given):
            return None
        gauge = self.gauge(y, self.gauge.slack_of(base, sides) if sides.given else None)
        return smooth_factor(gauge) if how.smooth else factor(gauge)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return {"scale": "shrink"} | self.gauge.tail_fields("shrink") if self.shrinks else {}


def ordinary(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The closing of a layer that is inside up to rounding; ``view`` None: the direction is the point itself."""
    return Closing(factory) if view is None else Shrink(P, view, factory)


class Strict(Closing):
    """Base: what the closings below share. ``check(dtype)`` refuses a dtype that cannot resolve the set.

    The numbers of a proof depend on the dtype that comes out. They are kept as rows of a float64 buffer, one row for
    each of DTYPES, and not as Python's floats, which the ONNX exporter would round to float32.
    """

    largest = 0.0  # max|base point|, where it does not follow the point
    moves_sides = False
    numbers: Tensor
    equal: Tensor
    hull: Tensor

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(factory)
        equal = equality_basis(P, np.zeros(len(P.rows), bool)) if view is None else view.equal
        self.has_equalities = equal.shape[1] > 0
        if self.has_equalities:
            self.constant("equal", equal)
            self.constant("hull", P.centre.point if view is None else np.zeros(P.dim))

    def loss(self, dtype: torch.dtype) -> float:
        """The share of the slack at the base point that rounding takes."""
        return 0.0

    def check(self, dtype: torch.dtype) -> None:
        if dtype not in DTYPES:
            raise TypeError(f"strict=True knows {', '.join(map(short, DTYPES))}, got {short(dtype)}.")
        loss = 1.0 if self.largest > limit_of(dtype) else self.loss(dtype)
        if not loss < MOST_LOSS:
            raise RayhullError(
                f"strict=True: {short(dtype)} is too coarse for this set: rounding takes {loss:.0%} of the slack "
                f"around its interior point (less than {MOST_LOSS:.0%} is needed). Use a wider dtype, scale the set, "
                "or state narrow directions as equalities."
            )

    def clean(self, y: Tensor) -> Tensor:
        """y without what rounding left of it outside the equalities: their error is relative to y, not to coefficients.

        A direction of the affine hull stays; a point (``view`` None) is seen from a point of the hull.
        """
        return self.hull + without_carefully(y - self.hull, self.equal) if self.has_equalities else y

    def keep_numbers(self) -> None:
        """Write down ``numbers_of`` every dtype that the set can be resolved in."""
        self.constant("numbers", np.array([self.numbers_of(dtype) for dtype in DTYPES]))

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        """What ``scale`` and ``finish`` need to know of the dtype that comes out."""
        raise NotImplementedError

    def read(self, dtype: torch.dtype) -> tuple[Tensor, ...]:
        return self.numbers[DTYPES.index(dtype)].unbind()

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return {"clean": self.exact("equal"), "origin": self.exact("hull")} if self.has_equalities else {}


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def limit_of(dtype: torch.dtype) -> float:
    """The largest size of what comes out: sums of a few stay finite."""
    return torch.finfo(dtype).max / 4


class StrictShrink(Strict):
    """The factor t of x = q + t z for directions z seen from the centre q: shrink and strictness in one product.

    Shape: z (\\*, n) → t (\\*)
    """

    shrinks = True

    def __init__(self, P: Polyhedron, view: View, factory: Factory) -> None:
        super().__init__(P, view, factory)
        numbers, base = np.arange(len(P.rows)), view.base
        slack = slack_below(P, numbers, base)
        refuse_thin(P, numbers, slack)
        self.gauge = Gauge(P, numbers, slack, factory)
        matrix = abs(P.rows.matrix[numbers])
        self.steepest = float((matrix.sum(1) / slack).max())  # max ‖a‖₁ / σ
        self.at_base = float((matrix @ np.abs(base) / slack).max())  # max |a|·|q| / σ
        self.entries = int(np.diff(matrix.indptr).max())
        self.largest = float(np.abs(base).max())
        self.keep_numbers()

    def loss(self, dtype: torch.dtype) -> float:
        u = roundoff(dtype)
        return u * (self.at_base + torch.finfo(dtype).tiny * self.steepest) + 16 * EPS

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        margin = (gamma(self.entries) + roundoff(dtype)) * self.steepest
        return [margin, 1.0 - self.loss(dtype), limit_of(dtype)]

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        if not how.shrinking:
            return None
        gauge = self.gauge(y)
        bound = strict_factor(gauge, y.abs().amax(-1), *self.read(how.dtype))
        return torch.minimum(bound, smooth_factor(gauge)) if how.smooth else bound

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        own = {"scale": "strict shrink", "scale_numbers": self.numbers_of(dtype)}
        return super().tail_fields(dtype) | own | self.gauge.tail_fields("shrink")


class StrictReach(Strict):
    """No inequality, only equalities or nothing at all: the factor that keeps x = q + t z from overflowing."""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        self.largest = 0.0 if view is None else float(np.abs(view.base).max())
        self.keep_numbers()

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        return [limit_of(dtype)]

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        (limit,) = self.read(how.dtype)
        return limit / torch.maximum(y.abs().amax(-1), limit)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return super().tail_fields(dtype) | {"scale": "reach", "scale_numbers": self.numbers_of(dtype)}


class Finishing(Strict):
    """A strict closing that moves the point that an ordinary one left inside up to rounding."""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        self.before = ordinary(P, view, factory)
        self.shrinks = self.before.shrinks

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        return self.before.scale(y, base, sides, how)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return super().tail_fields(dtype) | (self.before.tail_fields(dtype) or {})


def slack_below(P: Polyhedron, numbers: Array, point: Array, *, cone: bool = False) -> Array:
    """Lower bounds of b - a·point, or of 0 - a·point, for the given rows: float64, less its own rounding error."""
    matrix = P.rows.matrix[numbers]
    rhs = np.zeros(len(numbers)) if cone else P.rows.rhs[numbers]
    size = abs(matrix) @ np.abs(point) + np.abs(rhs)
    return np.asarray(rhs - matrix @ point - (np.diff(matrix.indptr) + 8) * 2 * EPS * size)


def refuse_thin(P: Polyhedron, numbers: Array, slack: Array) -> None:
    """Raise where a row has no slack at the interior point that float64 can prove."""
    if (slack <= 0).any():
        worst = P.rows.names[numbers[int(slack.argmin())]]
        raise RayhullError(
            f"strict=True needs an interior point with provable slack in every row, and {worst} has none: the set is "
            "too thin for float64. State the narrow directions as equalities."
        )
