"""The strict closings of a block: constants derived from its rows once; docs/strict.md has the proofs."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.shrink import smooth_factor
from rayhull.maps.strict import EPS, gamma, pull, roundoff, strict_factor
from rayhull.nn.base_point import View, homogeneous
from rayhull.nn.closing import Closing, How, ordinary
from rayhull.nn.constants import Factory
from rayhull.nn.gauge import Gauge
from rayhull.nn.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MOST_LOSS = 0.5  # a set that loses more than half of its slack to rounding is refused


class Strict(Closing):
    """Base: what the closings below share. ``check(dtype)`` refuses a dtype that cannot resolve the set."""

    largest = 0.0  # max|base point|, where it does not follow the point
    moves_sides = False

    def loss(self, dtype: torch.dtype) -> float:
        """The share of the slack at the base point that rounding takes."""
        return 0.0

    def check(self, dtype: torch.dtype) -> None:
        if dtype not in DTYPES:
            raise TypeError(f"strict=True knows {', '.join(map(_short, DTYPES))}, got {_short(dtype)}.")
        loss = 1.0 if self.largest > _limit(dtype) else self.loss(dtype)
        if not loss < MOST_LOSS:
            raise RayhullError(
                f"strict=True: {_short(dtype)} is too coarse for this set: rounding takes {loss:.0%} of the slack "
                f"around its interior point (less than {MOST_LOSS:.0%} is needed). Use a wider dtype, scale the set, "
                "or state narrow directions as equalities."
            )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _limit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max / 4


class StrictShrink(Strict):
    """The factor t of x = q + t z for directions z seen from the centre q: shrink and strictness in one product.

    Shape: z (\\*, n) → t (\\*)
    """

    shrinks = True

    def __init__(self, P: Polyhedron, view: View, factory: Factory) -> None:
        super().__init__(factory)
        numbers, base = np.arange(len(P.rows)), view.base
        slack = slack_below(P, numbers, base)
        refuse_thin(P, numbers, slack)
        self.gauge = Gauge(P, numbers, slack, factory)
        matrix = abs(P.rows.matrix[numbers])
        self.steepest = float((matrix.sum(1) / slack).max())  # max ‖a‖₁ / σ
        self.at_base = float((matrix @ np.abs(base) / slack).max())  # max |a|·|q| / σ
        self.entries = int(np.diff(matrix.indptr).max())
        self.largest = float(np.abs(base).max())

    def loss(self, dtype: torch.dtype) -> float:
        u = roundoff(dtype)
        return u * (self.at_base + torch.finfo(dtype).tiny * self.steepest) + 16 * EPS

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        if not how.shrinking:
            return None
        margin = (gamma(self.entries) + roundoff(how.dtype)) * self.steepest
        gauge, limit = self.gauge(y), _limit(how.dtype)
        bound = strict_factor(gauge, y.abs().amax(-1), margin, self.loss(how.dtype), limit)
        return torch.minimum(bound, smooth_factor(gauge)) if how.smooth else bound


class StrictReach(Strict):
    """No inequality, only equalities or nothing at all: the factor that keeps x = q + t z from overflowing."""

    def __init__(self, base: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.largest = float(np.abs(base).max())

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        limit = _limit(how.dtype)
        return limit / y.abs().amax(-1).clamp_min(limit)


class Finishing(Strict):
    """A strict closing that moves the point that an ordinary one left inside up to rounding."""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(factory)
        self.before = ordinary(P, view, factory)
        self.shrinks = self.before.shrinks

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        return self.before.scale(y, base, sides, how)


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
        self.follows = self.conic or direction is not None
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

    def _least_slack(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> Array:
        """What is left at the base point for every s: the slack is linear in s."""
        slack = slack_below(P, numbers, point)
        if self.conic:
            return np.minimum(slack, slack_below(P, numbers, np.zeros(P.dim)))  # least at one of the ends
        if direction is not None:  # σ + s ρ >= (1 + s) min(σ, ρ)
            gain = slack_below(P, numbers, point + direction) - P.rows.rhs[numbers] + P.rows.matrix[numbers] @ point
            return np.minimum(slack, gain * (1 - 2.0**-20))
        return slack

    def _rounding_share(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> float:
        """max |a|·|base point| / slack over the rows and over s: what a unit of rounding takes of the slack."""
        matrix = abs(P.rows.matrix[numbers])
        if self.conic:
            return self.loose_steepest * self.reach
        share = matrix @ np.abs(point) / slack_below(P, numbers, point)
        if direction is not None:  # (p + s r) / (σ + s ρ) is at most the larger of p / σ and r / ρ
            share = np.maximum(share, matrix @ np.abs(direction) / -(P.rows.matrix[numbers] @ direction))
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

    def finish(self, x: Tensor, how: How) -> Tensor:
        dtype = how.dtype
        limit, tiny = _limit(dtype), torch.finfo(dtype).tiny
        margin = gamma(self.entries) + 3 * roundoff(dtype)
        size = x.abs().amax(-1)
        scale = size.clamp(tiny, min(self.reach, limit)) if self.follows else torch.zeros_like(size)
        farthest = size + scale + (self.largest + tiny)  # bounds x, the base point and their difference
        excess = torch.full_like(size, -1.0)
        if self.loose is not None and how.shrinking:
            excess = self.loose(x) + margin * self.loose_steepest * farthest + 8 * EPS * self.offset
            excess = excess if self.conic else excess / (1.0 + scale)
        if self.tight is not None:
            over = (self.tight(x) + margin * self.tight_steepest * (size + scale)) / scale
            excess = torch.maximum(excess, over)
        base = torch.addcmul(self.start, scale.unsqueeze(-1), self.along) if self.follows else self.start
        inside = pull(x, base, (excess + 8 * EPS) / (1 - self.loss(dtype)), limit)
        if self.conic:  # 0 is in the set
            inside = torch.where((size < tiny).unsqueeze(-1), torch.zeros_like(x), inside)
        return inside.to(dtype)


def interior_ray(P: Polyhedron) -> Array | None:
    """A direction r, max|r| = 1, along which every row gains slack; None for a set that has none."""
    if P.is_bounded:
        return None
    rays = homogeneous(P, np.arange(len(P.rows)), np.zeros(0, np.int64))
    middle = rays.centre
    if middle.implicit.any():
        return None
    return np.asarray(middle.point / np.abs(middle.point).max())


def slack_below(P: Polyhedron, numbers: Array, point: Array) -> Array:
    """Lower bounds of b - a·point for the given rows: float64, with its own rounding error taken off."""
    matrix, rhs = P.rows.matrix[numbers], P.rows.rhs[numbers]
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


class StrictInterval(Finishing):
    """x → min(max(x, low), high) with low and high rounded inwards. Shape: (\\*, 1) → (\\*, 1), in dtype"""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        low, high = exact_interval(P)
        self.limits = {dtype: (_inwards(low, dtype, up=True), _inwards(high, dtype, up=False)) for dtype in DTYPES}
        self.stated = f"[{'-inf' if low is None else float(low)}, {'inf' if high is None else float(high)}]"

    def check(self, dtype: torch.dtype) -> None:
        low, high = self.limits[dtype]
        if not low <= high:
            raise RayhullError(f"strict=True: no {_short(dtype)} number lies in {self.stated}: use a wider dtype.")

    def finish(self, x: Tensor, how: How) -> Tensor:
        if self.shrinks and not how.shrinking:
            return x.to(how.dtype)
        low, high = self.limits[how.dtype]
        return x.clamp(low, high).to(how.dtype)


def exact_interval(P: Polyhedron) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of a set with one coordinate, from all of its rows; None where there is none."""
    data, rhs = P.rows.exact
    ends = [(Fraction(int(b), int(a)), int(a) > 0) for a, b in zip(data, rhs, strict=True)]
    lows = [value for value, is_upper in ends if not is_upper]
    highs = [value for value, is_upper in ends if is_upper]
    return max(lows, default=None), min(highs, default=None)


def _inwards(bound: Fraction | None, dtype: torch.dtype, up: bool) -> float:
    """The nearest number of dtype that is >= bound (up) or <= bound; the largest one where there is no bound."""
    largest = float(torch.finfo(dtype).max)
    if bound is None:
        return -largest if up else largest
    number = torch.tensor(float(bound), dtype=torch.float64).to(dtype)
    number = number.clamp(-largest, largest)
    towards = torch.tensor(largest if up else -largest, dtype=dtype)
    while (Fraction(number.item()) < bound) if up else (Fraction(number.item()) > bound):
        after = torch.nextafter(number, towards)
        if after == number:
            return float("inf") if up else float("-inf")
        number = after
    return float(number.item())


def strict_closing(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The strict closing of a block; a set whose interior is empty for another reason than equalities is refused."""
    if not len(P.rows):
        return StrictReach(np.zeros(P.dim) if view is None else view.base, factory)
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
