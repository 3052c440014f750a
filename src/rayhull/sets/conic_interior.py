r"""Points strictly inside rows and cones, and what follows from one: directions, whether the set is bounded.

Newton steps, of many samples at once, on the barrier

.. math:: -\tfrac12 \sum \log(s_0^2 - |s_1|^2) + \tfrac12 y^T D y - r \cdot y, \qquad s = c + G y

of all rules. Seen from y by the boost, a rule adds the rows (w, e) to W, and the Hessian is WᵀW + D. The deepest point
has one more coordinate, the slack that every rule has at least.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import EmptySetError, RayhullError
from rayhull.exact.numbers import Array
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.frame import homogeneous
from rayhull.sets.interior import Centre, affine_hull, hull_basis, onto_equalities
from rayhull.sets.polyhedron import Polyhedron

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet

DEEP = 1e-3  # slack with which the centres of balls will do
TOUCHES = 1e-7  # the depth, in units of the rules, up to which a set has no interior that floats could use
WEIGHTS = 10.0 ** np.arange(10)  # of the missing depth beside the barrier
NEWTON, CLOSE = 60, 1e-10  # at most so many steps, and the decrement at which they end


class Along:
    """The rules of a set along its equalities, x = start + N y, of unit size: s = c + G y."""

    def __init__(self, S: ConvexSet) -> None:
        self.S, self.rules, self.null = S, S.rules, hull_basis(S, S.implicit)
        self.start = onto_equalities(*affine_hull(S, S.implicit), S.stated_centre[None])[0]
        G = self.rules.matrix @ self.null
        squares = np.bincount(self.rules.rule, (G**2).sum(1))
        self.unit = 1 / np.sqrt(np.maximum(squares, 1e-300))[self.rules.rule]
        self.G, self.c = G * self.unit[:, None], self.rules.at(self.start) * self.unit

    def depth(self, y: Array, c: Array | None = None) -> Array:
        """The slack of every rule, in its unit. Shape: (n, q) → (n, R)"""
        return -self.rules.excess((self.c if c is None else c) + y @ self.G.T)

    @one_blas_thread()
    def deepest(self, c: Array | None = None) -> tuple[Array, Array]:
        """Points (n, q) with slack, in units of the rules, and that slack (n,): the start, else where it is largest."""
        c, q, heads = self.c[None] if c is None else c, self.null.shape[1], len(self.rules.numbers)
        y = np.zeros((len(c), q + 1))
        slack = self.depth(y[:, :q], c).min(1)
        if (slack > DEEP).all():
            return y[:, :q], slack
        y[:, q] = slack - 1
        lift = np.append(self.G, -1.0 * (np.arange(len(self.G)) < heads)[:, None], 1)  # s less t of each head
        for weight in WEIGHTS:  # of (1 - t)²
            ridge = np.append(np.full(q, 0.01 / (1 + np.abs(c).max()) ** 2), weight)
            y = self.newton(y, ridge, np.append(np.zeros(q), weight), lift, c)
            slack = self.depth(y[:, :q], c).min(1)
            if (slack > DEEP).all():
                break
        return y[:, :q], slack

    def newton(self, y: Array, ridge: Array, pull: Array, G: Array, c: Array) -> Array:
        """The minimisers of the barrier with a ridge (q,) and a pull, from points inside (n, q)."""
        rules, heads = self.rules, len(self.rules.numbers)
        for _ in range(NEWTON):
            s = c + y @ G.T
            W = rules.boosted(s[:, None], G.T)  # (n, q, M)
            slope = W[..., :heads].sum(-1) - ridge * y + pull
            hessian = W @ W.swapaxes(1, 2) + np.diag(ridge)
            size = 1 / np.sqrt(np.einsum("nii->ni", hessian))  # a thin set's own units
            hessian = hessian * size[:, None] * size[:, :, None] + 1e-15 * np.eye(len(ridge))
            step = size * np.linalg.solve(hessian, (size * slope)[..., None])[..., 0]
            used = rules.excess(rules.boosted(s, step @ G.T)).max(1)
            after = y + step / np.maximum(2 * used, 1.0)[:, None]
            inside = (rules.excess(c + after @ G.T) < 0).all(1)  # else it is as deep as floats resolve
            y = np.where(inside[:, None], after, y)
            if (((slope * step).sum(1) < CLOSE) | ~inside).all():
                break
        return y

    @one_blas_thread()
    def centred(self, y: Array, ridge: float, towards: Array) -> Array:
        """The minimiser of the barrier with a ridge, as a point."""
        found = self.newton(y[None], np.full(len(y), ridge), ridge * towards, self.G, self.c[None])
        return np.asarray(self.start + self.null @ found[0])

    def inside(self) -> tuple[Array, float, str]:
        """The deepest point (q,), its slack, and the cone with the least there."""
        y, slack = self.deepest()
        worst = self.depth(y)[0, : len(self.S.cones)].argmin()
        return y[0], float(slack[0]), self.S.cones[worst].name


def refuse_if_empty(S: ConvexSet) -> None:
    """Raise where no point of the rows is in all cones."""
    _, depth, worst = Along(S).inside()
    if depth < -TOUCHES:
        raise EmptySetError(
            f"These rows and cones have no common point: at best {worst} is exceeded by {-depth:.2g} of its scale. Is "
            "a sign the other way round, or a radius too small?",
            [worst],
        )


def centre(S: ConvexSet) -> Centre:
    """The analytic centre, of unit scale where the set is unbounded; a set without interior is refused."""
    along = Along(S)
    y, depth, worst = along.inside()
    if depth <= TOUCHES:
        raise RayhullError(
            f"the set has no interior that floats could use: {worst} touches the other rules in a point or a "
            "face. Maps into the set need a point strictly inside: give it more slack, or state the point or face as "
            "equalities."
        )
    size = 1.0 + float(np.abs(y).max(initial=0.0))
    return Centre(along.centred(y, 1e-3 / size**2 if S.is_bounded else 1 / size**2, y), S.implicit)


def conic_base_point(S: ConvexSet, scale: float = 1.0) -> Array:
    """A point well inside (d,), of the given scale where the set is unbounded."""
    if S.is_bounded:
        return S.centre.point
    along = Along(S)
    ridge = len(along.rules.numbers) / S.dim / scale**2
    return along.centred(along.null.T @ (S.centre.point - along.start), ridge, -along.null.T @ along.start)


def is_bounded(S: ConvexSet) -> bool:
    """Whether the set contains no ray and no line, as far as linear programs tell.

    Every ray has {a·y <= 0, |e_i·y| <= g·y}: is that 0 alone?
    """
    rows, equal = [S.rows.matrix.toarray()], [S.equality_rows.matrix.toarray()]
    for i, cone in enumerate(S.cones):
        E, g = S.alone.matrix[S.alone.tails[i, : len(cone.f)]], S.alone.matrix[i]
        if cone.is_ball:
            equal.append(E)
        else:
            rows += [E - g, -E - g]
    return Polyhedron(np.vstack(rows), A_eq=np.vstack(equal), shape=S.dim).is_bounded


def interior_direction(S: ConvexSet) -> Array | None:
    """A direction r, max|r| = 1, along which every row and every cone gains slack; None where there is none."""
    if S.is_bounded or any(cone.is_ball for cone in S.cones):
        return None
    rays = homogeneous(S.polyhedron, np.arange(len(S.rows)), np.zeros(0, np.int64))
    cones = [replace(cone, f=0 * cone.f, h=0.0, form=None, centre=None) for cone in S.cones]
    along = Along(type(S)(rays & Polyhedron(lower=-1, upper=1, shape=S.dim), cones, check=False))
    y, depth, _ = along.inside()
    if depth <= TOUCHES:
        return None
    point = along.start + along.null @ y
    return np.asarray(point / np.abs(point).max())
