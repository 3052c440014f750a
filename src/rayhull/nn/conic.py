"""The way into a block with cones: steps towards the nearest point, then a shrink of each group that rules tie.

The gauge of a cone from the base point is |e| - w for constant e and w (:mod:`rayhull.sets.conic_interior`), so that
the shrink is that of rows; from the centres of balls that share nothing it is the nearest point itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.maps.coefficients import without_carefully
from rayhull.maps.shrink import EPS, gamma, pull, roundoff
from rayhull.maps.steps import ROOT, clamped
from rayhull.nn.constants import Constants, Factory, Product
from rayhull.nn.steps import Steps
from rayhull.nn.strict import Finish, limit_of
from rayhull.nn.ways import in_reach
from rayhull.projection.conic import right_hand_sides
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.conic_interior import Rules, joined
from rayhull.sets.frame import DEPENDENT, Frame, equality_basis, inside, units_seen
from rayhull.sets.products import tied_columns
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

ROUND = 1e-12  # how far from a multiple of the identity EᵀE of a round ball may be
REACH = 2.0**36  # units beyond which a point is brought nearer on its way to the base point: squares stay finite


class RuleProduct(Constants, Rules):
    """Rules as a module: (g·y, E y) by gathering entries or by a product.

    Args:
        matrix: in place of the rules' own, such as that of directions seen from a base point.
        wide: in float64, and :meth:`sized` is asked for.
    """

    def __init__(self, rules: Rules, factory: Factory, matrix: Array | None = None, *, wide: bool = False) -> None:
        super().__init__(factory)
        rows = sp.csr_array(rules.matrix if matrix is None else matrix)
        self.product = Product(rows, factory, wide=wide)
        self.sizes = Product(abs(rows), factory, wide=wide) if wide else None
        self.even, self.in_order = rules.even, bool((np.diff(self.product.order) > 0).all())
        self.index("back", np.argsort(self.product.order))
        self.constant("offsets", rules.offsets, wide=wide)
        for name in ("numbers", "tails", "rule", "centred"):
            self.index(name, getattr(rules, name))

    def lifted(self, x: Tensor, *, size: bool = False) -> Tensor:
        product: Any = self.sizes if size else self.product
        found: Tensor = product(x)
        return found if self.in_order else found.index_select(-1, self.back)


class ConicSteps(Steps):
    """Steps whose clamp takes t onto cones, too, then a shrink of each group that rules tie."""

    def __init__(self, S: ConvexSet, base: Array, units: Array, steps: int, factory: Factory) -> None:
        P: Any = S
        frame = inside(P, base)
        super().__init__(P, frame, units, steps, factory, kernel=False)
        self.S, self.steps, self.shrinks, self.reach = S, steps, True, REACH * float(units.max())
        self.follows |= {"h", "centre"}
        self.constant("heads", S.heads)
        rows = frame.loose if self.has_equalities else frame.loose[S.layout.is_stated(frame.loose)]
        rules = Rules(S, rows)  # bounds alone are clamped
        self.rules, self.view = (RuleProduct(rules, factory, matrix) for matrix in (None, rules.seen_from(base)))
        self._tie(rules)

    def _tie(self, rules: Rules) -> None:
        """Which coordinates and rules belong together: each such group is shrunk alone."""
        S, count = self.S, len(rules.numbers)
        ties = np.array([rules.matrix[rules.rule == i].any(0) for i in range(count)])
        equal = sp.vstack([S.equality_rows.matrix, S.rows.matrix[np.flatnonzero(S.implicit)]])
        rows, columns = np.nonzero(np.vstack([ties, equal.toarray() != 0]))
        of = np.unique(tied_columns(rows, columns, S.dim), return_inverse=True)[1]
        self.groups = int(of.max()) + 1
        own = of[ties.argmax(1)]  # the group of each rule
        members = np.where(own == np.arange(self.groups)[:, None], np.arange(count), count)
        self.index("members", np.sort(members, 1)[:, : np.bincount(own).max()])
        self.index("group_of", of)

    def _take_rows(self, P: Any, frame: Frame, stretch: float, band: Array | None) -> None:
        self.cones = RuleProduct(P.alone, self.factory)
        self.index("is_ball", np.array([cone.is_ball for cone in P.cones]))
        self.alone = P.alone
        super()._take_rows(P, frame, stretch, band)
        self.constant("low", np.append(self.exact["low"], P.alone.at(frame.base) * self.exact["weight"]))

    def _take_factor(self, rows: sp.csr_array, null: Array | None) -> None:
        """Cones of unit norm along the equalities, after the rows."""
        matrix, rule = self.alone.matrix, self.alone.rule
        seen = matrix if null is None else matrix @ null
        every = range(len(self.alone.numbers))
        along, whole = (np.array([np.linalg.norm(own[rule == i], 2) for i in every]) for own in (seen, matrix))
        sizes = np.where(along > DEPENDENT * whole, along, whole)[rule]  # equalities may leave a cone constant
        self.constant("weight", ROOT / sizes)
        super()._take_factor(sp.csr_array(sp.vstack([rows, matrix / sizes[:, None]])), null)

    def onto(self, t: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Rows between their limits; of cones, whose s at the base point follows low, t + s in the cone or ball."""
        m, C = high.shape[-1], len(self.is_ball)
        s, rows = low[..., m:], clamped(t[..., :m], low[..., :m], high)
        v = t[..., m:] + s
        head, length = v[..., :C], self.cones.lengths(v)
        head = torch.where(length <= head, head, (head + length).clamp_min(0.0) / 2)
        head = torch.where(self.is_ball, s[..., :C], head)
        outside = length > head  # inside no quotient: the derivative of one by a tiny length is not finite
        length = torch.where(outside, length, 1.0).clamp_min(torch.finfo(t.dtype).tiny)
        share = torch.where(outside, head / length, 1.0)
        return torch.cat([rows, head - s[..., :C], v[..., C:] * self.cones.spread(share) - s[..., C:]], -1)

    def _limits(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        low, high = super()._limits(base, sides)
        return joined([low, self._at_base(self.cones, sides) * self.weight]), high

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        base = self.base if sides.base is None else sides.base
        return super().forward(base + in_reach(u - base, self.reach), sides)

    def _at_base(self, rules: Rules, sides: Sides) -> Any:
        base = self.base if sides.base is None else sides.base
        return rules.at(base, right_hand_sides(self.S, sides, self.heads), sides.centre)

    def _share(self, y: Tensor, sides: Sides) -> Tensor:
        """1 / max(1, gauge) of each coordinate's group."""
        rules = self.rules
        seen = self.view.lifted(y) if sides is NONE else rules.boosted(self._at_base(rules, sides), rules.lifted(y))
        every = rules.excess(seen) * (1 + 8 * torch.finfo(y.dtype).eps)  # what rounding may add afterwards
        if self.groups == 1:
            return self.shrink(every.amax(-1, keepdim=True))
        own = torch.cat([every, torch.zeros_like(every[..., :1])], -1)[..., self.members]
        return self.shrink(own.amax(-1)).index_select(-1, self.group_of)

    def slack(self, sides: Sides) -> Tensor:
        low, high = self._room(self.base if sides.base is None else sides.base, sides)
        return joined([high, -low, -self.rules.excess(self._at_base(self.rules, sides))])


def round_centre(S: ConvexSet) -> Array | None:
    """The centres of round balls that share no coordinate, where there is no other rule: the shrink from there is the
    nearest point."""
    places, point = np.sort(np.concatenate([cone.index for cone in S.cones])), np.zeros(S.dim)
    if len(S.rows) or len(S.equality_rows) or not np.array_equal(places, np.arange(S.dim)):
        return None
    for cone in S.cones:
        gram = cone.E.T @ cone.E
        if not cone.is_ball or np.abs(gram - gram[0, 0] * np.eye(len(gram))).max() > ROUND * gram[0, 0]:
            return None
        point[cone.index] = -cone.E.T @ cone.f / gram[0, 0]
    return point


def units_of(S: ConvexSet, base: Array, scale: float) -> Array:
    """One length for all coordinates: how far Dikin's ellipsoid at the base point reaches, or the data's scale."""
    seen = sp.csr_array(S.rules.seen_from(base))
    return units_seen(S, seen, np.ones(seen.shape[0]), equality_basis(S, S.implicit), scale)


class ConicPull(Finish):
    """Points inside up to rounding → points inside, pulled towards q + s r: q inside, r a direction that gains slack.

    Every rule is a convex φ(x) <= 0, whose value in floats is off by at most κ T(|x|), rounding x included, with T the
    same rule of the sizes of all numbers: docs/strict.md.
    """

    def __init__(self, S: ConvexSet, factory: Factory) -> None:
        super().__init__(S.polyhedron, factory)
        rules, ray, q = S.rules, S.interior_direction, S.centre.point
        self.S, self.rules, self.moving = S, RuleProduct(rules, factory, wide=True), ray is not None
        self.terms = max(S.dim, rules.tails.shape[1]) + 8
        r, size = np.zeros(S.dim) if ray is None else ray, rules.sized(abs(q))
        for name, values in {"heads": S.heads, "start": q, "along": r}.items():
            self.constant(name, values, wide=True)
        taken = size / np.maximum(-rules.excess(rules.at(q)) - gamma(self.terms) * size, 1e-300)
        if self.moving:  # at q + s r the slack has grown by s times its rate at least
            rate = -rules.excess(rules.lifted(r)) * (1 - 1e-9)
            taken = np.maximum(taken, rules.sized(abs(r), constants=False) / np.maximum(rate, 1e-300))
        self.taken = float(taken.max())
        self.keep_numbers()

    def loss(self, dtype: torch.dtype) -> float:
        return 64 * self.numbers_of(dtype)[0] * self.taken

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        """κ for evaluation in float64 and one rounding to the dtype, the smallest normal number, the largest one."""
        return [4 * gamma(self.terms) + 8 * roundoff(dtype), torch.finfo(dtype).tiny, limit_of(dtype)]

    def forward(self, x: Tensor, dtype: torch.dtype, start: Tensor | None = None, sides: Sides | None = None) -> Tensor:
        """With the sides of each sample from its own base point, and NaN where that has not enough slack."""
        rules, (share, tiny, limit) = self.rules, self.read(dtype)
        given = () if sides is None else (right_hand_sides(self.S, sides, self.heads), sides.centre)
        start = self.start if start is None else start.double()
        away = x.double() - start
        away = without_carefully(away, self.equal) if self.has_equalities else away
        size, largest = away.abs(), away.abs().amax(-1, keepdim=True)
        follows = sides is None and self.moving
        base = start + largest.clamp_max(limit / 4) * self.along if follows else start
        own = rules.sized(base.abs(), *given)
        left = -rules.excess(rules.at(base, *given)) - gamma(self.terms) * own
        # far points are cut, so that rounding takes less than an eighth of every slack
        room = (left / 8 - 2 * share * rules.sized(base.abs() + start.abs(), *given)).clamp_min(0.0)
        most = (room / (2 * share * rules.sized(size, constants=False)).clamp_min(1e-300)).clamp_max(1.0)
        x = start + away * torch.minimum(most.amin(-1, keepdim=True), limit / 8 / largest.clamp_min(1e-300))
        lost = share * rules.sized(x.abs() + base.abs() + tiny, *given)
        excess = ((rules.excess(rules.at(x, *given)) + 2 * lost) / (left - lost)).amax(-1) + 8 * EPS
        found = pull(x, base, torch.where(excess > 8 * EPS, excess, 0.0 * excess), limit).to(dtype)
        if sides is None:
            return found
        return torch.where((left > 128 * share * own).all(-1, keepdim=True), found, torch.full_like(found, torch.nan))
