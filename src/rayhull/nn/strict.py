"""Strict closings that move the finished point: an interval's clamp, a pull towards a base point; and which one serves.

docs/strict.md has the proofs.
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
from rayhull.maps.strict import EPS, gamma, pull, roundoff
from rayhull.nn.base_point import View, homogeneous
from rayhull.nn.closing import (
    DTYPES,
    Closing,
    Finishing,
    How,
    StrictReach,
    StrictShrink,
    limit_of,
    refuse_thin,
    short,
    slack_below,
)
from rayhull.nn.constants import Factory
from rayhull.nn.gauge import Gauge
from rayhull.nn.tail import Fields
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class StrictInterval(Finishing):
    """x → min(max(x, low), high) with low and high rounded inwards. Shape: (\\*, 1) → (\\*, 1), in dtype"""

    def __init__(self, P: Polyhedron, view: View | None, factory: Factory) -> None:
        super().__init__(P, view, factory)
        self.low, self.high = exact_interval(P)
        self.keep_numbers()
        self.empty_in = {dtype for dtype in DTYPES if operator.gt(*self.numbers_of(dtype))}

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        return [_inwards(self.low, dtype, up=True), _inwards(self.high, dtype, up=False)]

    def check(self, dtype: torch.dtype) -> None:
        super().check(dtype)
        if dtype in self.empty_in:
            stated = f"[{_as_float(self.low, -math.inf)}, {_as_float(self.high, math.inf)}]"
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


def _as_float(end: Fraction | None, infinity: float) -> float:
    return infinity if end is None else float(end)


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
        own |= {"moving": self.moving, "apex": self.conic, "from": self.exact("start"), "along": self.exact("along")}
        for name, gauge in (("loose", self.loose), ("tight", self.tight)):
            own |= {} if gauge is None else gauge.tail_fields(name)
        return super().tail_fields(dtype) | own


def interior_ray(P: Polyhedron) -> Array | None:
    """A direction r, max|r| = 1, along which every row gains slack; None for a set that has none."""
    if P.is_bounded:
        return None
    rays = homogeneous(P, np.arange(len(P.rows)), np.zeros(0, np.int64))
    middle = rays.centre
    if middle.implicit.any():
        return None
    return np.asarray(middle.point / np.abs(middle.point).max())


def strict_closing(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The strict closing of a block; a set whose interior is empty for another reason than equalities is refused."""
    if not len(P.rows):
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
