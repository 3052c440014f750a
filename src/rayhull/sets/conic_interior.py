"""Points strictly inside rows and cones, and what follows from one: directions, samples, how far the set reaches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from rayhull.errors import EmptySetError, RayhullError
from rayhull.exact.numbers import Array
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.cones import ConvexSet, gauge
from rayhull.sets.conic import Conic
from rayhull.sets.frame import equality_basis, homogeneous
from rayhull.sets.interior import REACH, Centre, affine_hull, onto_equalities
from rayhull.sets.polyhedron import Polyhedron

DEEP = 1e-3  # slack with which the centres of balls will do
SHALLOW = 0.01  # the share of the deepest point's slack that a centre has at least
TOUCHES = 1e-7  # the depth, in units of the cone, up to which a set has no interior that floats could use
CHAIN = 60  # steps of a random chain


class Along:
    """A set along its equalities, x = x0 + N y, with rows and cones of unit size: s = c + G y."""

    def __init__(self, S: ConvexSet) -> None:
        P = S.polyhedron
        self.S, self.implicit = S, P.centre.implicit if len(P.rows) else np.zeros(0, bool)
        E, e = affine_hull(P, self.implicit)
        equal = equality_basis(P, self.implicit)
        self.null = scipy.linalg.null_space(equal.T) if equal.shape[1] else np.eye(S.dim)
        self.start = onto_equalities(E, e, S.stated_centre[None])[0]
        A, b, _ = P.rows.take(np.flatnonzero(~self.implicit)).unit
        self.G, self.c = [-(A @ self.null)[:, None]], [(b - A @ self.start)[:, None]]
        for group in S.batches:
            unit = 1 / group.size[0]
            self.G.append((group.rows @ self.null[group.index]) * unit[:, None, None])
            self.c.append(group.at(self.start[None])[0] * unit[:, None])

    @one_blas_thread()
    def deepest(self) -> tuple[Array, float]:
        """A point with slack, in units of the rows and cones, and that slack: the start, else where it is largest."""
        start = np.zeros(self.null.shape[1])
        if (at_start := self.depth(start)) > DEEP:
            return start, at_start
        heads = [np.zeros((*g.shape[:2], 1)) for g in self.G]
        for head in heads:
            head[:, 0] = -1.0
        q = self.null.shape[1]
        cap = np.append(np.zeros(q), -1.0)[None, None]  # 1 - t >= 0
        G = [np.concatenate([g, head], -1) for g, head in zip(self.G, heads, strict=True)] + [cap]
        c = [v[None] for v in self.c] + [np.ones((1, 1, 1))]
        touch, towards = 1e-9 * np.ones(q + 1), np.append(np.zeros(q), 1.0)
        found = Conic(G, c, touch, towards[None]).solve(np.zeros((1, q + 1)))
        return found.y[0, :-1], float(found.y[0, -1])

    @one_blas_thread()
    def centred(self, y: Array, ridge: float, towards: Array | float = 0.0) -> Array:
        """The minimiser of the log barrier with a ridge, as a point; nearer to y where steps ended outside."""
        D = np.full(len(y), ridge)
        found = Conic(self.G, [v[None] for v in self.c], D, D * np.broadcast_to(towards, D.shape)[None])
        step = found.solve(y[None], level=1.0).y[0] - y
        shares = (share for share in 0.5 ** np.arange(50) if self.depth(y + share * step) > SHALLOW * self.depth(y))
        return np.asarray(self.start + self.null @ (y + next(shares, 0.0) * step))

    def depth(self, y: Array) -> float:
        """The least slack of a row or a cone, in their units."""
        each = (g @ y + c for g, c in zip(self.G, self.c, strict=True))
        return min(float((s[:, 0] - np.linalg.norm(s[:, 1:], axis=1)).min(initial=np.inf)) for s in each)

    def worst(self, y: Array) -> str:
        """The cone with the least slack."""
        depth: dict[int, float] = {}
        for group, g, c in zip(self.S.batches, self.G[1:], self.c[1:], strict=True):
            s = g @ y + c
            depth |= dict(zip(group.numbers.tolist(), s[:, 0] - np.linalg.norm(s[:, 1:], axis=1), strict=True))
        return self.S.cones[min(depth, key=lambda i: depth[i])].name


def refuse_if_empty(S: ConvexSet) -> None:
    """Raise where no point of the rows is in all cones."""
    along = Along(S)
    y, depth = along.deepest()
    if depth < -TOUCHES:
        worst = along.worst(y)
        raise EmptySetError(
            f"These rows and cones have no common point: at best {worst} is exceeded by {-depth:.2g} of its scale. Is "
            "a sign the other way round, or a radius too small?",
            [worst],
        )


def centre(S: ConvexSet) -> Centre:
    """The analytic centre, of unit scale where the set is unbounded; a set without interior is refused."""
    along = Along(S)
    y, depth = along.deepest()
    if depth <= TOUCHES:
        raise RayhullError(
            f"the set has no interior that floats could use: {along.worst(y)} touches the other rules in a point or a "
            "face. Maps into the set need a point strictly inside: give it more slack, or state the point or face as "
            "equalities."
        )
    size = 1.0 + float(np.abs(y).max(initial=0.0))
    return Centre(along.centred(y, 1e-3 / size**2 if S.is_bounded else 1 / size**2, y), along.implicit)


def conic_base_point(S: ConvexSet, scale: float = 1.0) -> Array:
    """A point well inside (d,), of the given scale where the set is unbounded."""
    if S.is_bounded:
        return S.centre.point
    along = Along(S)
    ridge = sum(len(g) for g in along.G) / S.dim / scale**2
    return along.centred(along.null.T @ (S.centre.point - along.start), ridge, -along.null.T @ along.start)


def is_bounded(S: ConvexSet) -> bool:
    """Whether {a·y <= 0, |e_i·y| <= g·y} holds 0 alone: every ray of the set is one of these."""
    rows, equal = [S.rows.matrix.toarray()], [S.equality_rows.matrix.toarray()]
    for cone in S.cones:
        wide = np.zeros((len(cone.E) + 1, S.dim))
        wide[:, cone.index] = np.vstack([cone.E, cone.g])
        if cone.is_ball:
            equal.append(wide[:-1])
        else:
            rows += [wide[:-1] - wide[-1], -wide[:-1] - wide[-1]]
    return Polyhedron(np.vstack(rows), A_eq=np.vstack(equal), shape=S.dim).is_bounded


def interior_direction(S: ConvexSet) -> Array | None:
    """A direction r, max|r| = 1, along which every row and every cone gains slack; None where there is none."""
    if S.is_bounded or any(cone.is_ball for cone in S.cones):
        return None
    rays = homogeneous(S.polyhedron, np.arange(len(S.rows)), np.zeros(0, np.int64))
    cones = [replace(cone, f=0 * cone.f, h=0.0, form=None, centre=None) for cone in S.cones]
    along = Along(ConvexSet(rays & Polyhedron(lower=-1, upper=1, shape=S.dim), cones, check=False))
    y, depth = along.deepest()
    if depth <= TOUCHES:
        return None
    point = along.start + along.null @ y
    return np.asarray(point / np.abs(point).max())


def hit_and_run(S: ConvexSet, n: int, rng: np.random.Generator) -> Array:
    """n points (n, d), each a chain of its own from the centre."""
    middle, basis = S.centre, Along(S).null
    x = np.tile(middle.point, (n, 1))
    for _ in range(CHAIN + min(S.dim, 100)):
        step = rng.standard_normal((n, basis.shape[1])) @ basis.T
        step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300)
        forward, backward = reach(S, x, step), reach(S, x, -step)
        x = x + step * ((forward + backward) * rng.random(n) - backward)[:, None] * (1 - 1e-9)
    return onto_equalities(*affine_hull(S.polyhedron, middle.implicit), x + 1e-12 * (middle.point - x))


def reach(S: ConvexSet, x: Array, step: Array) -> Array:
    """How far each x inside may follow its step (n, d) → (n,); unbounded directions are cut off."""
    A, b, _ = S.rows.take(np.flatnonzero(~S.centre.implicit)).unit
    rate, slack = (A @ step.T).T, np.maximum(b - (A @ np.atleast_2d(x).T).T, 1e-300)
    used = [(rate / slack).max(1, initial=0.0)]
    used += [gauge(group.at(np.atleast_2d(x)), group.lifted(step)).max(1) for group in S.batches]
    longest = REACH * max(1.0, float(np.abs(S.centre.point).max()))
    return np.asarray(1 / np.maximum(np.max(used, axis=0), 1 / longest))
