r"""Rows and cones seen from a point inside, points strictly inside, and what follows from one.

A cone |E x + f| <= g·x + h is as simple as a linear row, which is a cone without E. With s = (g·x0 + h, E x0 + f) at a
point x0 inside, a Lorentz boost B takes s to (√(sᵀJs), 0), and with (w, e) = B (g·y, E y) / √(sᵀJs)

.. math:: x_0 + y \text{ inside} \iff |e| - w \le 1

so that |e| - w is the share of the slack that y uses up, the gauge. The barrier -½ Σ log(s_0² - |s_1|²) of all rules
has the Hessian WᵀW, W the rows (w, e) seen from a point; Newton steps on it, with a ridge, find points inside.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import EmptySetError, RayhullError
from rayhull.exact.numbers import Array
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.interior import Centre, affine_hull, hull_basis, onto_equalities
from rayhull.sets.membership import _namespace
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import is_torch

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

DEEP = 1e-3  # slack with which the centres of balls will do
TOUCHES = 1e-7  # the depth, in units of the rules, up to which a set has no interior that floats could use
WEIGHTS = 10.0 ** np.arange(10)  # of the missing depth beside the barrier
FIXED = 1e-24  # squares up to this share of its own are of a rule that equalities leave constant
OPEN = 1e30  # the right-hand side of a row that says nothing
FAINT = 1e-8  # a ridge that moves the centre of a bounded set by next to nothing
NEWTON, CLOSE = 60, 1e-10  # at most so many steps, and the decrement at which they end


class Rules:
    """Some cones and rows of a set in one vector s: g·x + h of cones and rows (cones without E), then E x + f of cones.

    Its attributes are arrays, or the tensors of a module.

    Args:
        rows: numbers of ``S.rows``, by default of all that are no equalities.
    """

    def __init__(self, S: ConvexSet, rows: Array | None = None) -> None:
        rows = np.flatnonzero(~S.implicit) if rows is None else rows
        C, R, sizes = len(S.cones), len(S.cones) + len(rows), [len(cone.f) for cone in S.cones]
        self.even = len(set(sizes)) == 1  # whether all cones have as many places
        self.numbers = np.append(np.arange(C), C + rows)  # (R,) which rules of the set: its cones, then S.rows
        self.rule = np.append(np.arange(R), np.repeat(np.arange(C), sizes))  # (M,) of each place
        self.tails = np.full((C, max(sizes)), len(self.rule))  # (C, k) the places of E x + f, M where it has fewer
        self.tails[np.arange(max(sizes)) < np.array(sizes)[:, None]] = np.arange(R, len(self.rule))
        self.matrix: Array = np.zeros((len(self.rule), S.dim))  # (M, d) g and E
        self.matrix[C:R] = -S.rows.matrix[rows].toarray()
        for i, cone in enumerate(S.cones):
            self.matrix[np.ix_(self.rule == i, cone.index)] = np.vstack([cone.g, cone.E])
        self.offsets = np.concatenate([[cone.h for cone in S.cones], S.rows.rhs[rows], *(cone.f for cone in S.cones)])
        # (M,) whether it is E x + f of a ball or an ellipsoid, whose centre may come with the sample
        self.centred = np.repeat([False, *(cone.centre is not None for cone in S.cones)], [R, *sizes])

    def like(self, x: Any) -> Rules:
        """The same for points that are tensors."""
        found = copy.copy(self)
        for name in ("matrix", "offsets", "centred") if is_torch(x) else ():
            setattr(found, name, _namespace(x).as_tensor(getattr(self, name), device=x.device))
        return found

    def lifted(self, x: Any, *, size: bool = False) -> Any:
        """(g·x, E x), or of the sizes of all numbers. Shape: (\\*, d) → (\\*, M)"""
        return x @ (abs(self.matrix) if size else self.matrix).T

    def constants(self, h: Any) -> Any:
        """s at 0, with the right-hand sides h (\\*, rules of the set) where they are given. Shape: (\\*, M)"""
        return self.offsets if h is None else joined([h[..., self.numbers], self.offsets[len(self.numbers) :]])

    def at(self, x: Any, h: Any = None, centre: Any = None) -> Any:
        """s at x; centre (\\*, d). Shape: (\\*, d) → (\\*, M)"""
        s = self.constants(h)
        if centre is not None:
            s = _namespace(x).where(self.centred, -self.lifted(centre), s)
        return self.lifted(x) + s

    def sized(self, X: Any, h: Any = None, centre: Any = None, *, constants: bool = True) -> Any:
        """T(X) = ‖|E| X + |f|‖ + |g|·X + |h|, what rounding errors at |x| <= X are a share of. Shape: → (\\*, R)"""
        s = self.lifted(X, size=True)
        s = s + abs(self.constants(h)) if constants else s
        s = s if centre is None else s + self.lifted(abs(centre), size=True)
        return self.lengths(s) + s[..., : len(self.numbers)]

    def tail(self, v: Any) -> Any:
        """E x + f of each cone. Shape: (\\*, M) → (\\*, cones, k)"""
        if self.even:
            return v[..., len(self.numbers) :].reshape(*v.shape[:-1], *self.tails.shape)
        return joined([v, 0 * v[..., :1]])[..., self.tails]

    def spread(self, values: Any) -> Any:
        """A number of each cone for every place of its tail. Shape: (\\*, R) → (\\*, M - R)"""
        if not self.even:
            return values[..., self.rule[len(self.numbers) :]]
        shape = *values.shape[:-1], *self.tails.shape
        every = _namespace(values).broadcast_to(values[..., : len(self.tails), None], shape)
        return every.reshape(*shape[:-2], len(self.rule) - len(self.numbers))

    def with_rows(self, v: Any) -> Any:
        """Numbers of the cones, and 0 for the rows."""
        rows = self.offsets[len(self.tails) : len(self.numbers)]
        return joined([v, 0 * rows]) if len(rows) else v

    def inner(self, u: Any, v: Any) -> Any:
        """The inner products of the tails of every rule. Shape: (\\*, M) → (\\*, R)"""
        return self.with_rows((self.tail(u) * self.tail(v)).sum(-1))

    def lengths(self, s: Any) -> Any:
        """|E x + f| of every rule; its derivative at 0 is 0. Shape: (\\*, M) → (\\*, R)"""
        tail = self.tail(s)
        return self.with_rows(tail.norm(dim=-1) if is_torch(s) else np.linalg.norm(tail, axis=-1))

    def excess(self, s: Any) -> Any:
        """|E x + f| - g·x - h. Shape: (\\*, M) → (\\*, R)"""
        return self.lengths(s) - s[..., : len(self.numbers)]

    def boosted(self, s: Any, v: Any) -> Any:
        """(w, e) of directions v = (g·y, E y) seen from s inside; their :meth:`excess` |e| - w is the gauge.

        1 / gauge is how far v may be followed from s. Shape: (\\*, M)
        """
        R, length = len(self.numbers), self.lengths(s)
        size = ((s[..., :R] - length) * (s[..., :R] + length)) ** 0.5
        size = joined([size, self.spread(size)])
        s, v = s / size, v / size
        head, along = s[..., :R], self.inner(s, v)
        turn = along / (1 + head) - v[..., :R]
        return joined([head * v[..., :R] - along, v[..., R:] + s[..., R:] * self.spread(turn)])

    def seen_from(self, base: Array) -> Array:
        """The matrix that gives (w, e) of directions from a point inside."""
        return np.asarray(self.boosted(self.at(base), self.matrix.T).T)

    def newton(self, y: Array, ridge: Array, pull: Array) -> Array:
        """The minimiser of the barrier + ½ Σ ridge y² - pull·y, from a point inside (q,)."""
        for _ in range(NEWTON):
            W = self.seen_from(y)
            slope = W[: len(self.numbers)].sum(0) - ridge * y + pull
            hessian = W.T @ W + np.diag(ridge)
            size = 1 / np.sqrt(np.diag(hessian))  # a thin set's own units
            hessian = hessian * size * size[:, None] + 1e-15 * np.eye(len(ridge))
            step = size * np.linalg.solve(hessian, size * slope)
            after = y + step / max(2 * self.excess(W @ step).max(), 1.0)
            if not (self.excess(self.at(after)) < 0).all():  # as deep as floats resolve
                break
            y = after
            if slope @ step < CLOSE:
                break
        return y


def joined(parts: Sequence[Any]) -> Any:
    """Along the last axis, whatever batch dimensions each has."""
    xp = _namespace(parts[0])
    lead = xp.broadcast_shapes(*(v.shape[:-1] for v in parts))
    return xp.concatenate([xp.broadcast_to(v, (*lead, v.shape[-1])) for v in parts], -1)


class Along(Rules):
    """The rules of a set along its equalities, x = start + N y, of unit size; ``stated``: as they are at x.

    Args:
        implicit: the rows that are taken for equalities, by default all that hold with equality everywhere.
    """

    def __init__(self, S: ConvexSet, implicit: Array | None = None) -> None:
        implicit = S.implicit if implicit is None else implicit
        super().__init__(S, np.flatnonzero(~implicit))
        self.stated = copy.copy(self)
        self.names, self.null = [cone.name for cone in S.cones], hull_basis(S, implicit)
        self.start = onto_equalities(*affine_hull(S, implicit), S.stated_centre[None])[0]
        s, G = self.at(self.start), self.matrix @ self.null
        along, whole = (np.bincount(self.rule, (v**2).sum(1)) for v in (G, self.matrix))
        self.unit = 1 / np.sqrt(np.where(along > FIXED * whole, along, whole))[self.rule]
        told = (along > FIXED * whole) & (self.offsets[: len(along)] < OPEN)
        lost = np.where(told, self.sized(abs(self.start)) * self.unit[: len(along)], 0.0)
        self.rounding = 1e-14 * float(np.linalg.norm(lost))  # of the offsets
        self.matrix, self.offsets = G * self.unit[:, None], s * self.unit

    @cached_property
    @one_blas_thread()
    def deepest(self) -> tuple[Array, float, str]:
        """A point (q,), its slack and the cone with the least: the start, else where the slack is largest.

        One more coordinate is the slack that every rule has at least.
        """
        q, deeper = self.null.shape[1], copy.copy(self)
        deeper.matrix = np.append(self.matrix, -1.0 * (np.arange(len(self.rule)) < len(self.numbers))[:, None], 1)
        slack = -self.excess(self.offsets)
        y = np.append(np.zeros(q), slack.min() - 1)
        ridge = np.full(q + 1, 0.01 / (1 + np.abs(self.offsets).max()) ** 2)
        for weight in WEIGHTS:  # of (1 - t)²
            if slack.min() > DEEP:
                break
            ridge[q] = weight
            y = deeper.newton(y, ridge, np.append(np.zeros(q), weight))
            slack = -self.excess(self.at(y[:q]))
        return y[:q], float(slack.min()), self.names[slack[: len(self.names)].argmin()]

    @one_blas_thread()
    def minimiser(self, y: Array, ridge: float, towards: Array) -> Array:
        """The minimiser of the barrier with a ridge, as a point."""
        return np.asarray(self.start + self.null @ self.newton(y, np.full(len(y), ridge), ridge * towards))


def loose(S: ConvexSet) -> Along:
    """The rules along the stated equalities alone: with sides of a sample no row has to hold with equality."""
    return Along(S, np.zeros_like(S.implicit)) if S.implicit.any() else S.along


def refuse_if_empty(S: ConvexSet) -> None:
    """Raise where no point of the rows is in all cones."""
    _, depth, worst = S.along.deepest
    if depth < -TOUCHES:
        raise EmptySetError(
            f"These rows and cones have no common point: at best {worst} is exceeded by {-depth:.2g} of its scale. Is "
            "a sign the other way round, or a radius too small?",
            [worst],
        )


def centre(S: ConvexSet) -> Centre:
    """The analytic centre, of unit scale where the set is unbounded; a set without interior is refused."""
    y, depth, worst = S.along.deepest
    if depth <= TOUCHES:
        raise RayhullError(
            f"the set has no interior that floats could use: {worst} touches the other rules in a point or a "
            "face. Maps into the set need a point strictly inside: give it more slack, or state the point or face as "
            "equalities."
        )
    size = 1.0 + float(np.abs(y).max(initial=0.0))
    return Centre(S.along.minimiser(y, (1e-3 if S.is_bounded else 1) / size**2, y), S.implicit)


def conic_base_point(S: ConvexSet, scale: float = 1.0) -> Array:
    """A point well inside (d,), of the given scale where the set is unbounded."""
    if S.is_bounded:
        return S.centre.point
    along, ridge = S.along, len(S.along.numbers) / S.dim / scale**2
    return along.minimiser(along.null.T @ (S.centre.point - along.start), ridge, -along.null.T @ along.start)


@one_blas_thread()
def is_bounded(S: ConvexSet) -> bool:
    """Whether the set contains no ray and no line: a linear program on rows around the cones says so, or the barrier.

    Every ray has ``{a·y <= 0, |e_i·y| <= g·y}``: is that 0 alone? Along a ray that cones leave, the Newton decrement is
    1 at least wherever one is, so that a smaller one shows that there is none.
    """
    heads, E = np.split(S.alone.matrix, [len(S.cones)])
    g = S.alone.spread(heads.T).T  # 0 of balls, whose rows hold with equality then
    rows = np.vstack([S.rows.matrix.toarray(), E - g, -E - g])
    if Polyhedron(rows, A_eq=S.equality_rows.matrix, shape=S.dim).is_bounded:
        return True
    along, (y, depth, _) = S.along, S.along.deepest
    if depth <= TOUCHES:
        return False
    ridge = np.full(len(y), FAINT / (1.0 + np.abs(y).max(initial=0.0)) ** 2)
    W = along.seen_from(along.newton(y, ridge, ridge * y))
    W = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
    step, _, rank, _ = np.linalg.lstsq(W, np.arange(len(W)) < len(along.numbers), rcond=None)
    return bool(rank == len(y) and np.linalg.norm(W @ step) < 0.5)


def interior_direction(S: ConvexSet) -> Array | None:
    """A direction r, max|r| = 1, along which every row and every cone gains slack; None where there is none."""
    if S.is_bounded or any(cone.is_ball for cone in S.cones):
        return None
    rays = Along(S)
    rays.offsets = 0 * rays.offsets
    y, depth, _ = rays.deepest
    direction = rays.null @ y
    size = np.abs(direction).max()
    return np.asarray(direction / size) if depth > TOUCHES * size else None
