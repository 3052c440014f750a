"""The way into a block with cones: steps towards the nearest point, then a shrink of each group that rules tie.

Balls and round cones that share no coordinate have their nearest points in closed form. The gauge of a cone seen from
the base point is |e| - w for constant e and w (:mod:`rayhull.sets.cones`), so that the shrink is that of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.maps.coefficients import without, without_carefully
from rayhull.maps.shrink import EPS, factor, gamma, pull, roundoff, smooth_factor
from rayhull.maps.steps import ROOT, Factor, clamped, in_tensor_operations
from rayhull.maps.steps import factor as factor_of
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.scaling import Product, Slack, _divided
from rayhull.nn.strict import Finish, limit_of
from rayhull.nn.ways import Seen, value_of
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.cones import boosted, gauge, lengths
from rayhull.sets.conic_interior import interior_direction
from rayhull.sets.frame import equality_basis, round_coordinates
from rayhull.sets.products import tied_columns
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

ROUND = 1e-12  # how far from a multiple of the identity E Eᵀ of a round cone may be
REACH = 2.0**36  # units beyond which a point is brought nearer on its way to the base point: squares stay finite


class Cones(Constants):
    """(g·y, E y) of every cone, in one batch for each size; ``wide``: whether it stays in float64."""

    def __init__(self, S: ConvexSet, factory: Factory, *, wide: bool = False) -> None:
        super().__init__(factory)
        self.batches = S.batches
        for i, group in enumerate(S.batches):
            self.index(f"index{i}", group.index.ravel())
            self.index(f"numbers{i}", group.numbers)
            self.constant(f"rows{i}", group.rows.swapaxes(1, 2), wide=wide)  # (K, j, 1 + k)
            self.constant(f"offsets{i}", group.offsets, wide=wide)

    def lifted(self, i: int, y: Tensor, matrix: Tensor | None = None) -> Tensor:
        """Shape: (\\*, n) → (\\*, K, 1 + k)"""
        matrix = getattr(self, f"rows{i}") if matrix is None else matrix
        own = y.index_select(-1, getattr(self, f"index{i}")).reshape(*y.shape[:-1], len(matrix), 1, matrix.shape[1])
        return (own @ matrix).squeeze(-2)

    def offsets(self, i: int, sides: Sides) -> Tensor:
        """(h, f) for the sides of each sample. Shape: (\\*, K, 1 + k)"""
        stated: Tensor = getattr(self, f"offsets{i}")
        head, tail = stated[..., :1], stated[..., 1:]
        if sides.centre is not None and self.batches[i].is_centred:
            tail = -self.lifted(i, sides.centre)[..., 1:]
        if sides.h is not None:
            head = sides.h.index_select(-1, getattr(self, f"numbers{i}")).unsqueeze(-1)
        return joined([head, tail])

    def at(self, x: Tensor, sides: Sides) -> list[Tensor]:
        """s = (g·x + h, E x + f) of every batch."""
        return [self.lifted(i, x) + self.offsets(i, sides) for i in range(len(self.batches))]


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Along the last axis, whatever batch dimensions each has."""
    batch = torch.broadcast_shapes(*(v.shape[:-1] for v in parts))  # type: ignore[no-untyped-call]
    return torch.cat([v.expand(*batch, v.shape[-1]) for v in parts], -1)


def rows_of(S: ConvexSet, sides: Sides, stated: Sequence[Tensor]) -> Tensor:
    """Right-hand sides of all of ``S.rows``; ``stated``: b, upper and lower."""
    b, upper, lower = (v if w is None else w for v, w in zip(stated, (sides.b, sides.upper, sides.lower), strict=True))
    layout = S.layout
    return joined([b[..., layout.inequalities], upper[..., layout.upper], -lower[..., layout.lower]])


def onto_cone(head: Tensor, tail: Tensor, slope: Tensor | float) -> tuple[Tensor, Tensor]:
    """The nearest point of |tail| <= slope · head. Shape: head (\\*), tail (\\*, k)

    Examples:
        >>> import torch
        >>> from rayhull.nn.conic import onto_cone
        >>> onto_cone(torch.tensor(0.0), torch.tensor([2.0, 0.0]), 1.0)
        (tensor(1.), tensor([1., 0.]))
    """
    length = lengths(tail)
    along = torch.clamp_min((head + slope * length) / (1 + slope**2), 0.0)
    head = torch.where(length <= slope * head, head, along)
    return head, onto_ball(tail, slope * head)


def onto_ball(tail: Tensor, radius: Tensor) -> Tensor:
    """The nearest point of |tail| <= radius."""
    length = lengths(tail)
    share = torch.where(length > radius, radius / torch.clamp_min(length, torch.finfo(length.dtype).tiny), 1.0)
    return tail * share.unsqueeze(-1)


class ConicSteps(Seen):
    """x0 + s c → steps towards the nearest point of rows and cones, then a shrink; or round cones in closed form.

    Args:
        S: the block.
        base, units: x0 and s, flat.
        steps: how many.
    """

    has_base = True
    equal: Tensor
    b: Tensor
    upper: Tensor
    lower: Tensor
    order: Tensor
    inverse_slack: Tensor
    back: Tensor
    members: Tensor
    group_of: Tensor
    norms: Tensor
    A: Tensor

    def __init__(self, S: ConvexSet, base: Array, units: Array, steps: int, factory: Factory) -> None:
        super().__init__(base, units, factory)
        P, implicit = S.polyhedron, S.centre.implicit
        equal, loose = equality_basis(P, implicit), np.flatnonzero(~implicit)
        self.S, self.steps, self.cones, self.is_closed = S, steps, Cones(S, factory), is_round(S)
        self.has_equalities, self.bounded = (
            equal.shape[1] > 0,
            bool(np.isfinite([P.lower_bounds, P.upper_bounds]).any()),
        )
        self.follows = frozenset({"h", "centre"} | ({"b", "lower", "upper"} if not implicit.any() else set()))
        self.constant("equal", equal)
        for name, side in (("b", P.inequalities.rhs), ("upper", P.upper_bounds), ("lower", P.lower_bounds)):
            self.constant(name, side)
        loose = loose if self.has_equalities else loose[P.layout.is_stated(loose)]  # bounds alone are clamped
        slack = P.rows.rhs[loose] - P.rows.matrix[loose] @ base
        self.rows = Product(_divided(P.rows.matrix[loose], slack), factory)
        order = loose[self.rows.order]
        self.index("order", order)
        self.constant("inverse_slack", 1 / slack[self.rows.order])
        for i, group in enumerate(S.batches):
            w, e = boosted(group.at(base[None])[0][:, None], group.rows.swapaxes(1, 2))  # seen from the base point
            self.constant(f"seen{i}", np.concatenate([w[..., None], e], -1))
        self.index("back", np.argsort(np.concatenate([group.index.ravel() for group in S.batches])))
        self._tie(S, order)
        if steps and not self.is_closed:
            self._take_factor(S, equal)

    def _tie(self, S: ConvexSet, order: Array) -> None:
        """Which coordinates, rows and cones belong together: each such group is shrunk alone."""
        of = components(S)
        kinds = [of[S.rows.indices[S.rows.indptr[order]]], *(of[group.index[:, 0]] for group in S.batches)]
        table = np.concatenate(kinds)
        self.groups = int(of.max()) + 1
        members = [np.flatnonzero(table == g) for g in range(self.groups)]
        width = max(max((len(m) for m in members), default=0), 1)
        padded = np.full((self.groups, width), len(table))
        for g, m in enumerate(members):
            padded[g, : len(m)] = m
        self.index("members", padded.ravel())
        self.index("group_of", of)

    def _take_factor(self, S: ConvexSet, equal: Array) -> None:
        """Rows of unit length along the equalities, cones of unit norm, in the factor of the steps."""
        P, null = S.polyhedron, scipy.linalg.null_space(equal.T) if self.has_equalities else None
        onto = np.eye(S.dim) if null is None else null @ null.T
        numbers = np.arange(len(P.layout.inequalities))
        A = P.rows.matrix[numbers].toarray()
        lengths_ = np.maximum(np.linalg.norm(A @ onto, axis=1), 1e-300)
        blocks = [A @ onto / lengths_[:, None]]
        for i, group in enumerate(S.batches):
            wide = np.zeros((*group.rows.shape[:2], S.dim))
            np.put_along_axis(wide, np.repeat(group.index[:, None], wide.shape[1], 1), group.rows, 2)
            size = np.linalg.norm(wide @ onto, 2, axis=(1, 2))
            self.constant(f"weight{i}", ROOT / size[:, None])
            kept = wide[:, 1:] if group.is_ball else wide
            blocks.append((kept @ onto / size[:, None, None]).reshape(-1, S.dim))
        for name, part in factor_of(np.vstack(blocks), null, bounded=self.bounded)._asdict().items():
            self.constant(f"{name}_", part)
        self.constant("norms", ROOT / lengths_)
        self.constant("A", A)

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        if self.is_closed:
            return self._in_closed_form(u, sides)
        base = self.base if sides.base is None else sides.base
        at, y, (low, high) = self.cones.at(base, sides), u - base, self._bounds(sides)
        y = y * (REACH * self.units.amax(0) / y.abs().amax(-1, keepdim=True).clamp_min(1e-30)).clamp_max(1.0)
        if self.steps:
            y = self._approached(y, base, sides, at)
        if self.has_equalities:
            y = without(y, self.equal)
        elif self.bounded:
            y = clamped(y, low - base, high - base)
        x = base + (y * self._shares(y, base, sides, at) if self.shrinking else y)
        return value_of(clamped(x.detach(), low, high), x) if self.bounded and self.shrinking else x

    def _bounds(self, sides: Sides) -> tuple[Tensor, Tensor]:
        lower: Tensor = self.lower if sides.lower is None else sides.lower
        return lower, self.upper if sides.upper is None else sides.upper

    def _slack_shares(self, base: Tensor, sides: Sides) -> Tensor:
        """The slack of the rows at each sample's base point, over the stated one."""
        rhs = rows_of(self.S, sides, (self.b, self.upper, self.lower)).index_select(-1, self.order)
        return rhs * self.inverse_slack - self.rows(base)

    def _shares(self, y: Tensor, base: Tensor, sides: Sides, at: list[Tensor]) -> Tensor:
        """1 / max(1, gauge) of each coordinate's group."""
        if sides is NONE:
            seen = [self.cones.lifted(i, y, getattr(self, f"seen{i}")) for i in range(len(at))]
            parts = [lengths(v[..., 1:]) - v[..., 0] for v in seen]
        else:
            parts = [gauge(s, self.cones.lifted(i, y)) for i, s in enumerate(at)]
        if len(self._index["order"]):
            values = self.rows(y)
            parts.insert(0, values if sides is NONE else values / self._slack_shares(base, sides))
        every = joined(parts) * (1 + 8 * torch.finfo(y.dtype).eps)  # what rounding may add afterwards
        if self.groups == 1:
            worst = every.amax(-1, keepdim=True)
        else:
            padded = torch.cat([every, torch.zeros_like(every[..., :1])], -1).index_select(-1, self.members)
            worst = padded.reshape(*every.shape[:-1], self.groups, -1).amax(-1)
        share = smooth_factor(worst) if self.smooth else factor(worst)
        return share if self.groups == 1 else share.index_select(-1, self.group_of)

    def _approached(self, y: Tensor, base: Tensor, sides: Sides, at: list[Tensor]) -> Tensor:
        b = (self.b if sides.b is None else sides.b)[..., self.S.layout.inequalities]
        high = (b - base @ self.A.mT) * self.norms
        low = torch.full_like(high, -torch.inf)
        if self.bounded:
            lower, upper = (ROOT * (bound - base) for bound in self._bounds(sides))
            low, high = joined([lower, low]), joined([upper, high])
        scaled = [s * getattr(self, f"weight{i}") for i, s in enumerate(at)]

        def onto(t: Tensor, low: Tensor, high: Tensor) -> Tensor:
            parts, start = [clamped(t[..., : low.shape[-1]], low, high)], low.shape[-1]
            for group, s in zip(self.cones.batches, scaled, strict=True):
                K, k = group.offsets.shape
                k -= group.is_ball
                own = t[..., start : start + K * k].reshape(*t.shape[:-1], K, k) + s[..., group.is_ball :]
                if group.is_ball:
                    found = onto_ball(own, s[..., 0])
                else:
                    head, tail = onto_cone(own[..., 0], own[..., 1:], 1.0)
                    found = torch.cat([head.unsqueeze(-1), tail], -1)
                parts.append((found - s[..., group.is_ball :]).flatten(-2))
                start += K * k
            return torch.cat(parts, -1)

        constants = Factor(*(getattr(self, f"{name}_") for name in Factor._fields))
        return in_tensor_operations(y, constants, low, high, self.steps, onto=onto)

    def _in_closed_form(self, u: Tensor, sides: Sides) -> Tensor:
        """Each cone alone, by rows with E Eᵀ = a² I and E g = 0 that span its coordinates."""
        points = []
        for i, group in enumerate(self.cones.batches):
            rows: Tensor = getattr(self.cones, f"rows{i}")  # (K, j, 1 + k)
            s = self.cones.offsets(i, sides)
            v, squares = self.cones.lifted(i, u) + s, rows.square().sum(-2)
            a = squares[:, 1:].sqrt()
            if group.is_ball:
                head, tail = v[..., 0], onto_ball(v[..., 1:], s[..., 0])
            else:
                b = squares[:, 0].sqrt()
                head, tail = onto_cone(v[..., 0] / b, v[..., 1:] / a, b / a[:, 0])
                head, tail = head * b, tail * a
            found = (torch.cat([head.unsqueeze(-1), tail], -1) - s) / squares.clamp_min(1e-30)
            points.append((found.unsqueeze(-2) @ rows.mT).squeeze(-2).flatten(-2))
        return torch.cat(points, -1).index_select(-1, self.back)

    def slack(self, sides: Sides) -> Slack | None:
        base = self.base if sides.base is None else sides.base
        at = self.cones.at(base, sides)
        depth = [s[..., 0] if self.is_closed else s[..., 0] - lengths(s[..., 1:]) for s in at]
        if len(self._index["order"]):
            depth.append(self._slack_shares(base, sides))
        low, high = self._bounds(sides)
        return Slack(joined(depth), *((high - base, base - low) if self.bounded else (None, None)))


def components(S: ConvexSet) -> Array:
    """The number of the group of each coordinate: rows, equalities and cones tie (d,)."""
    rows, columns, at = [], [], 0
    for part in (S.inequalities, S.equalities):
        rows.append(at + part.row_of_entry)
        columns.append(part.indices)
        at += len(part)
    for cone in S.cones:
        rows.append(np.full(len(cone.index), at))
        columns.append(cone.index)
        at += 1
    labels = tied_columns(np.concatenate(rows), np.concatenate(columns), S.dim)
    return np.unique(labels, return_inverse=True)[1]


def is_round(S: ConvexSet) -> bool:
    """Whether every coordinate is in one cone, in no row, and every cone a ball or round around its axis."""
    places = np.concatenate([cone.index for cone in S.cones])
    if len(S.rows) or len(S.equality_rows) or len(places) != S.dim or len(np.unique(places)) != S.dim:
        return False
    for group in S.batches:
        if group.rows.shape[1] - group.is_ball != group.rows.shape[2]:
            return False
        gram = group.rows @ group.rows.swapaxes(1, 2)
        gram[:, 0, 0] = size = gram[:, 1, 1]
        if np.abs(gram - size[:, None, None] * np.eye(gram.shape[1])).max() > ROUND * size.max():
            return False
    return True


def units_of(S: ConvexSet, base: Array, scale: float) -> Array:
    """One length for all coordinates: how far Dikin's ellipsoid at the base point reaches, or the data's scale."""
    P, loose = S.polyhedron, np.flatnonzero(~S.centre.implicit)
    parts, slack = [P.rows.matrix[loose]], [P.rows.rhs[loose] - P.rows.matrix[loose] @ base]
    for group in S.batches:
        w, e = boosted(group.at(base[None])[0][:, None], group.rows.swapaxes(1, 2))
        seen = np.concatenate([w[..., None], e], -1).swapaxes(1, 2)  # (K, 1 + k, j)
        K, k, j = seen.shape
        places = np.arange(K * k).repeat(j), group.index[:, None].repeat(k, 1).ravel()
        parts.append(sp.csr_array((seen.ravel(), places), shape=(K * k, S.dim)))
        slack.append(np.ones(K * k))
    size, equal = None if S.is_bounded else scale, equality_basis(P, S.centre.implicit)
    matrix = round_coordinates(sp.csr_array(sp.vstack(parts)), np.concatenate(slack), size, equal=equal)
    unit = float(np.sqrt((matrix**2).sum() / S.dim))
    width = P.upper_bounds - P.lower_bounds
    return np.where(width > 0, np.minimum(unit, width), unit)


class ConicPull(Finish):
    """Points inside up to rounding → points inside, pulled towards q + s r: q inside, r a direction that gains slack.

    Every rule is a convex φ(x) <= 0, whose value in floats is off by at most κ T(|x|), rounding x included, with T the
    same rule of the sizes of all numbers: docs/strict.md.
    """

    b: Tensor
    upper: Tensor
    lower: Tensor
    order: Tensor
    start: Tensor
    along: Tensor
    middle: Tensor
    least: Tensor
    gain: Tensor
    rows: Product
    sizes: Product

    def __init__(self, S: ConvexSet, factory: Factory) -> None:
        super().__init__(S.polyhedron, factory)
        self.S, self.cones, self.has_rows = S, Cones(S, factory, wide=True), len(S.rows) > 0
        self.rows, self.sizes = (Product(m, factory, wide=True) for m in (S.rows.matrix, abs(S.rows.matrix)))
        self.index("order", self.rows.order)
        for name, side in (("b", S.inequalities.rhs), ("upper", S.upper_bounds), ("lower", S.lower_bounds)):
            self.constant(name, side, wide=True)
        ray = interior_direction(S)
        self.terms, self.moving = max(S.dim, *(len(cone.E) for cone in S.cones)) + 8, ray is not None
        self.constant("start", S.centre.point, wide=True)
        self.constant("along", np.zeros(S.dim) if ray is None else ray, wide=True)
        self.constant("middle", S.stated_centre, wide=True)
        q, r = (torch.as_tensor(self.exact[name]) for name in ("start", "along"))
        size = self._sized(q.abs(), NONE).numpy()
        self.constant("least", -self._values(q, NONE).numpy() - gamma(self.terms) * size, wide=True)
        gain = self._values(q, NONE) - self._values(q + r, NONE)  # φ is convex, and falls as fast further on
        self.constant("gain", np.maximum(gain.numpy() * (1 - 1e-9), 0.0) * self.moving, wide=True)
        taken = size / np.maximum(self.exact["least"], 1e-300)
        if self.moving:
            taken = np.maximum(taken, self._sized(r.abs(), NONE, constants=False).numpy() / self.exact["gain"])
        self.taken = float(taken.max())
        self.keep_numbers()

    def loss(self, dtype: torch.dtype) -> float:
        return 64 * self.numbers_of(dtype)[0] * self.taken

    def numbers_of(self, dtype: torch.dtype) -> list[float]:
        """κ for evaluation in float64 and one rounding to the dtype, the smallest normal number, the largest one."""
        return [4 * gamma(self.terms) + 8 * roundoff(dtype), torch.finfo(dtype).tiny, limit_of(dtype)]

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        away = self.clean(x.double()) - self.start
        largest = away.abs().amax(-1, keepdim=True).clamp_max(self.read(dtype)[2] / 4)
        scale = largest if self.moving else 0.0 * largest
        left, base = self.least + scale * self.gain, self.start + scale * self.along
        return self._pulled(self.start, away, base, left, dtype, NONE)

    def per_sample(self, x: Tensor, start: Tensor | None, sides: Sides, dtype: torch.dtype) -> Tensor:
        """The same for the sides of each sample, from its base point; NaN where that has not enough slack."""
        start = (self.start if start is None else start).double().expand(x.shape)
        away = x.double() - start
        away = without_carefully(away, self.equal) if self.has_equalities else away
        size = self._sized(start.abs(), sides)
        left = -self._values(start, sides) - gamma(self.terms) * size
        found = self._pulled(start, away, start, left, dtype, sides)
        held = (left > 128 * self.read(dtype)[0] * size).all(-1, keepdim=True)
        return torch.where(held, found, torch.full_like(found, torch.nan))

    def _pulled(
        self, start: Tensor, away: Tensor, base: Tensor, left: Tensor, dtype: torch.dtype, sides: Sides
    ) -> Tensor:
        share, tiny, limit = self.read(dtype)
        size = away.abs()  # far points are cut, so that rounding takes less than an eighth of every slack
        room = (left / 8 - 2 * share * self._sized(base.abs() + start.abs(), sides)).clamp_min(0.0)
        most = (room / (2 * share * self._sized(size, sides, constants=False)).clamp_min(1e-300)).clamp_max(1.0)
        farthest = limit / 8 / size.amax(-1, keepdim=True).clamp_min(1e-300)
        x = start + away * torch.minimum(most.amin(-1, keepdim=True), farthest)
        lost = share * self._sized(x.abs() + base.abs() + tiny, sides)
        excess = ((self._values(x, sides) + 2 * lost) / (left - lost)).amax(-1) + 8 * EPS
        return pull(x, base, torch.where(excess > 8 * EPS, excess, 0.0 * excess), limit).to(dtype)

    def _rhs(self, sides: Sides) -> Tensor:
        return rows_of(self.S, sides, (self.b, self.upper, self.lower)).index_select(-1, self.order)

    def _values(self, x: Tensor, sides: Sides) -> Tensor:
        """φ of every rule: (\\*, n) → (\\*, rules)"""
        parts = [lengths(s[..., 1:]) - s[..., 0] for s in self.cones.at(x, sides)]
        return joined([*parts, self.rows(x) - self._rhs(sides)] if self.has_rows else parts)

    def _sized(self, X: Tensor, sides: Sides, *, constants: bool = True) -> Tensor:
        """T: the same of the sizes of all numbers, X >= |x|."""
        one, centre = (1.0 if constants else 0.0), (self.middle if sides.centre is None else sides.centre).abs()
        parts = []
        for i in range(len(self.cones.batches)):
            rows = getattr(self.cones, f"rows{i}").abs()
            s = self.cones.lifted(i, X + one * centre, rows) + one * self.cones.offsets(i, sides).abs()
            parts.append(lengths(s[..., 1:]) + s[..., 0])
        return joined([*parts, self.sizes(X) + one * self._rhs(sides).abs()] if self.has_rows else parts)
