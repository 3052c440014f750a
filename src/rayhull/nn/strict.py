"""Strict closings: what comes out is inside in rational arithmetic. docs/strict.md has the proofs.

A shrink with margins where every row has slack at the base point; elsewhere the finished point is moved, by an
interval's clamp or a pull towards a base point. The numbers of a proof are derived from the rows once.
"""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.coefficients import without_carefully
from rayhull.maps.shrink import EPS, gamma, inwards, pull, roundoff, smooth_factor, strict_factor
from rayhull.nn.base_point import View, equality_basis, interior_ray, refuse_thin, slack_below
from rayhull.nn.closing import Closing, Gauge, How, ordinary
from rayhull.nn.constants import Factory
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MOST_LOSS = 0.5  # a set that loses more than half of its slack to rounding is refused


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
        return {"clean": self.exact["equal"], "origin": self.exact["hull"]} if self.has_equalities else {}


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
    """No inequality, or a cone's that hold already: the factor that keeps x = q + t z from overflowing."""

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


class StrictInterval(Finishing):
    """x → min(max(x, low), high) with low and high rounded inwards. Shape: (\\*, 1) → (\\*, 1), in dtype"""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        self.low, self.high = exact_interval(P)
        self.keep_numbers()
        self.empty_in = {dtype for dtype in DTYPES if operator.gt(*self.numbers_of(dtype))}

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        return [inwards(self.low, dtype, up=True), inwards(self.high, dtype, up=False)]

    def check(self, dtype: torch.dtype) -> None:
        super().check(dtype)
        if dtype in self.empty_in:
            low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
            stated = f"[{float(low)}, {float(high)}]"
            raise RayhullError(f"strict=True: no {short(dtype)} number lies in {stated}: use a wider dtype.")

    def finish(self, x: Tensor, how: How) -> Tensor:
        if self.shrinks and not how.shrinking:
            return x.to(how.dtype)
        low, high = self.read(how.dtype)
        return x.clamp(low, high).to(how.dtype)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return super().tail_fields(dtype) | {"finish": "interval", "finish_numbers": self.numbers_of(dtype)}


def exact_interval(P: Polyhedron) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of a set with one coordinate, from all of its rows; None where there is none."""
    data, rhs = P.rows.exact
    ends = [(Fraction(int(b), int(a)), int(a) > 0) for a, b in zip(data, rhs, strict=True)]
    lows = [value for value, is_upper in ends if not is_upper]
    highs = [value for value, is_upper in ends if is_upper]
    return max(lows, default=None), min(highs, default=None)


class StrictPull(Finishing):
    """Points that are inside up to rounding → points that are inside, pulled towards a base point q + s r.

    That base point follows the point where the set allows it, so that the pull is relative to the point at every scale:

    - the set contains 0 and rows hold with equality there: q = 0, r the centre, s = max|x| (at most 1 centre away);
    - its rays have an interior direction: q the centre, r that direction, s = max|x|;
    - elsewhere: q the centre, s = 0.

    Shape: x (\\*, n) → (\\*, n)
    """

    start: Tensor
    along: Tensor

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        numbers = np.arange(len(P.rows))
        point, direction = P.centre.point, None
        size = float(np.abs(point).max())
        tight = numbers[P.rows.rhs[numbers] == 0]
        self.conic = bool((P.rows.rhs >= 0).all()) and not P.equality_rows.rhs.any() and len(tight) > 0
        loose = numbers[P.rows.rhs[numbers] != 0] if self.conic else numbers
        if not self.conic:
            direction = interior_ray(P)
        self.moving = self.conic or direction is not None
        self.largest = 0.0 if self.conic else size
        self.reach = size if self.conic and len(loose) else np.inf  # the largest s
        along = point / size if self.conic else np.zeros(P.dim) if direction is None else direction
        self.constant("start", np.zeros(P.dim) if self.conic else point)
        self.constant("along", along)
        self.entries = int(np.diff(P.rows.matrix.indptr)[numbers].max())
        self.tight: Gauge | None = None
        self.loose: Gauge | None = None
        self.tight_steepest = self.loose_steepest = self.offset = self.share = 0.0
        if self.conic:
            self._take_tight(P, tight, slack_below(P, tight, along))
        if len(loose):
            self._take_loose(P, loose, self._least_slack(P, loose, point, direction))
            self.share = self._rounding_share(P, loose, point, direction)
        self.keep_numbers()

    def _least_slack(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> Array:
        """What is left at the base point for every s: the slack is linear in s."""
        slack = slack_below(P, numbers, point)
        if self.conic:
            return np.minimum(slack, slack_below(P, numbers, np.zeros(P.dim)))  # least at one of the ends
        if direction is not None:  # σ + s ρ >= (1 + s) min(σ, ρ)
            return np.minimum(slack, slack_below(P, numbers, direction, cone=True))
        return slack

    def _rounding_share(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> float:
        """max |a|·|base point| / slack over the rows and over s: what a unit of rounding takes of the slack."""
        matrix = abs(P.rows.matrix[numbers])
        if self.conic:
            return self.loose_steepest * self.reach
        share = matrix @ np.abs(point) / slack_below(P, numbers, point)
        if direction is not None:  # (p + s r) / (σ + s ρ) is at most the larger of p / σ and r / ρ
            gain = slack_below(P, numbers, direction, cone=True)
            share = np.maximum(share, matrix @ np.abs(direction) / gain)
        return float(share.max())

    def _take_tight(self, P: Polyhedron, numbers: Array, slack: Array) -> None:
        refuse_thin(P, numbers, slack)
        self.tight = Gauge(P, numbers, slack, self.factory)
        self.tight_steepest = float((abs(P.rows.matrix[numbers]).sum(1) / slack).max())

    def _take_loose(self, P: Polyhedron, numbers: Array, slack: Array) -> None:
        refuse_thin(P, numbers, slack)
        self.loose = Gauge(P, numbers, slack, self.factory, offset=True)
        self.loose_steepest = float((abs(P.rows.matrix[numbers]).sum(1) / slack).max())
        self.offset = float((np.abs(P.rows.rhs[numbers]) / slack).max())

    def loss(self, dtype: torch.dtype) -> float:
        u, tiny = roundoff(dtype), torch.finfo(dtype).tiny
        return 2 * u * max(self.tight_steepest, self.share + self.loose_steepest * tiny)

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        margin, limit, tiny = gamma(self.entries) + 3 * roundoff(dtype), limit_of(dtype), torch.finfo(dtype).tiny
        constant = margin * self.loose_steepest * (self.largest + tiny) + 8 * EPS * self.offset
        slopes = [margin * self.loose_steepest, margin * self.tight_steepest]
        return [*slopes, constant, 1.0 - self.loss(dtype), tiny, min(self.reach, limit), limit]

    def finish(self, x: Tensor, how: How) -> Tensor:
        loose_slope, tight_slope, constant, kept, tiny, reach, limit = self.read(how.dtype)
        size = x.abs().amax(-1)
        scale = size.clamp(tiny, reach) if self.moving else torch.zeros_like(size)
        farthest = size + scale  # with the size of the start, it bounds x, the base point and their difference
        excess = torch.full_like(size, -1.0)
        if self.loose is not None and how.shrinking:
            excess = self.loose(x) + loose_slope * farthest + constant
            excess = excess if self.conic else excess / (1.0 + scale)
        if self.tight is not None:
            excess = torch.maximum(excess, (self.tight(x) + tight_slope * farthest) / scale)
        base = torch.addcmul(self.start, scale.unsqueeze(-1), self.along) if self.moving else self.start
        inside = pull(x, base, (excess + 8 * EPS) / kept, limit)
        if self.conic:  # 0 is in the set
            inside = torch.where((size < tiny).unsqueeze(-1), torch.zeros_like(x), inside)
        return inside.to(how.dtype)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        own: Fields = {"finish": "pull", "finish_numbers": self.numbers_of(dtype)}
        own |= {"moving": self.moving, "apex": self.conic, "from": self.exact["start"], "along": self.exact["along"]}
        for name, gauge in (("loose", self.loose), ("tight", self.tight)):
            own |= {} if gauge is None else gauge.tail_fields(name)
        return super().tail_fields(dtype) | own


def strict_closing(P: Polyhedron, view: View | None, factory: Factory, inside_exactly: bool = False) -> Closing:
    """The strict closing of a block; a set whose interior is empty for another reason than equalities is refused."""
    if not len(P.rows) or inside_exactly:
        return StrictReach(P, view, factory)
    if P.dim == 1:
        return StrictInterval(P, view, factory)
    hidden = np.flatnonzero(P.centre.implicit)
    if len(hidden):
        names = ", ".join(P.rows.names[i] for i in hidden[:4])
        raise RayhullError(
            f"strict=True: {len(hidden)} inequalities hold with equality on the whole set ({names}), which floats "
            "cannot do exactly. State them as equalities (A_eq), which hold up to a stated number of ulps."
        )
    if view is not None and len(view.loose) == len(P.rows):
        return StrictShrink(P, view, factory)
    return StrictPull(P, view, factory)
