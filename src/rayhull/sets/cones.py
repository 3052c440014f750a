"""Balls, ellipsoids, quadratic rows and second-order cones |E x + f| <= g·x + h beside the rows of a polyhedron."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rayhull.exact.numbers import Array, floats_as_integers
from rayhull.sets import conic_interior, interior, membership, plotting
from rayhull.sets.conic_interior import Along, Rules
from rayhull.sets.description import blocks
from rayhull.sets.expressions import Expression, Rule, broadcast, expression
from rayhull.sets.polyhedron import PointSet, Polyhedron
from rayhull.sets.products import apart_from
from rayhull.sets.reading import GivenSides, Shape, as_array, as_shape, refuse_unless_finite
from rayhull.sets.rows import count

EPS = 2.0**-53  # the unit roundoff of float64
SHORT = 1 - 1e-5  # of the way to the boundary, where a cone has no gauge
SINGULAR = 1e-13  # eigenvalues of Q below this share of the largest are rounding errors of 0


@dataclass(frozen=True, eq=False)
class Cone:
    """|E x + f| <= g·x + h on a few coordinates; numbers are taken as the floats that they are.

    A quadratic form is judged as it was stated: ½ yᵀQ y + q·y + r <= ½ radius² with y = x - centre.
    """

    index: Array  # (j,) flat coordinates
    E: Array  # (k, j)
    f: Array  # (k,)
    g: Array  # (j,)
    h: float
    name: str
    centre: Array | None = None  # (j,) of a ball or an ellipsoid
    form: tuple[Array, Array, float] | None = None  # Q, q, r
    radius: float = 0.0  # of an ellipsoid

    @property
    def is_ball(self) -> bool:
        """Whether its right-hand side is a number."""
        return not self.g.any()

    def exact_excess(self, x: Array, h: Array | None, centre: Array | None) -> Array:
        """Integers, positive outside and nowhere else. Shape: x (n, j), h (1 or n,), centre (1 or n, j) → (n,)"""
        if self.form is None or (self.centre is None and h is not None):  # h of a quadratic row is its cone's
            f = self.f if centre is None else -centre  # of a ball, whose E is the identity
            (X, F, H, E, G), one = _integers(x, f, self.h if h is None else h, self.E, self.g)
            U, V = X.dot(E.T) + one * F, X.dot(G) + one * H
            return np.asarray((U * U).sum(-1) - V * abs(V))
        c = np.zeros(1) if self.centre is None else self.centre if centre is None else centre
        (X, C, H, Q, q, r), one = _integers(x, c, self.radius if h is None else h, *self.form)
        Y = X - C
        return np.asarray((Y.dot(Q) * Y).sum(-1) + 2 * one * (Y.dot(q) + one * r) - one * H * abs(H))


def _integers(*arrays: Any) -> tuple[list[Array], int]:
    """Floats as Python integers over one power of two, and that power."""
    floats = [np.asarray(v, np.float64) for v in arrays]
    flat, shift = floats_as_integers(np.concatenate([v.ravel() for v in floats]))
    parts = np.split(flat.astype(object), np.cumsum([v.size for v in floats])[:-1])
    return [part.reshape(v.shape) for part, v in zip(parts, floats, strict=True)], 1 << shift


class ConvexSet(PointSet):
    """Rows and cones together: what ``&`` makes of a Polyhedron and a ball, an ellipsoid, a quadratic row or a cone.

    Args:
        polyhedron: the rows and bounds.
        cones: second-order rows.
        check: False where the set cannot be empty.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> S = rh.ball(2, d=2) & rh.Polyhedron([[1, 1]], [1])
        >>> S.contains(np.array([[0.2, 0.3], [0.0, -2.0], [1.9, 1.9]]))
        array([ True,  True, False])
        >>> print(S.explain([0.0, -2.0]))
        The point is inside: all 2 rules hold.
          binds   ball
          1 rule has slack, the least 3: A[0]
    """

    instead = "the rows alone, S.polyhedron"

    def __init__(self, polyhedron: Polyhedron, cones: Sequence[Cone], *, check: bool = True) -> None:
        P = polyhedron
        super().__init__(P.shape, P.inequalities, P.equalities, P.lower, P.upper, P.coordinate_names)
        self.polyhedron, self.cones = P, tuple(cones)
        self.stated_centre = np.zeros(self.dim)  # of balls and ellipsoids, 0 elsewhere
        for cone in self.cones:
            if cone.centre is not None:
                self.stated_centre[cone.index] = cone.centre
        if check and self.stated_centre.reshape(self.shape) not in self:  # else it is not empty
            conic_interior.refuse_if_empty(self)

    @cached_property
    def heads(self) -> Array:
        """The right-hand sides of the cones, then of the rows."""
        return np.append([cone.h for cone in self.cones], self.rows.rhs)

    @cached_property
    def alone(self) -> Rules:
        """The cones without the rows."""
        return Rules(self, np.zeros(0, int))

    @cached_property
    def implicit(self) -> Array:
        """Which of the rows hold with equality everywhere, as far as the rows alone tell (m,)."""
        return self.polyhedron.centre.implicit if len(self.rows) else np.zeros(0, bool)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.polyhedron.fingerprint.encode())
        for c in self.cones:
            for part in (c.index, c.E, c.f, c.g, c.h, c.radius, *(c.form or ())):
                digest.update(np.asarray(part).tobytes() + b"|")
        return digest.hexdigest()

    def excess(self, x: Any, given: GivenSides) -> tuple[Any, tuple[Any, Any]]:
        """How far x leaves each cone (n, cones) with the ``given`` sides, and what rounding depends on.

        That is what max|x| = 1 may change of it, and the constants' size (cones,).
        """
        own, one = self.alone.like(x), np.ones(self.dim)
        slope, constant = (membership._like(x, self.alone.sized(v, constants=not v[0])) for v in (one, 0 * one))
        with np.errstate(invalid="ignore"):  # of a centre that is infinite
            return own.excess(own.at(x, given.get("h"), given.get("centre"))), (slope, constant)

    def cones_hold_exactly(self, x: Array, given: GivenSides) -> Array:
        """Whether cones hold at x with the ``given`` sides, in rational arithmetic. Shape: (n, d) → (n,)

        Floats decide what they can decide for certain.
        An infinite right-hand side says nothing; beside any other side that is not finite nothing is inside.
        """
        cones, sides = self.alone, (given.get("h"), given.get("centre"))

        def exact(i: int, at: Array) -> Array:
            h, centre = (None if v is None else v[at if len(v) > 1 else [0]] for v in sides)
            cone = self.cones[i]
            centre = None if centre is None or cone.centre is None else centre[:, cone.index]
            return cone.exact_excess(x[np.ix_(at, cone.index)], None if h is None else h[:, i], centre)

        with np.errstate(invalid="ignore"):
            over = np.minimum(cones.excess(cones.at(x, *sides)), 0.0)  # a quadratic form reaches beyond its cone
            size, centre = cones.sized(abs(x), *sides), sides[1]
            for side in (sides[0], None if centre is None else 0 * centre.sum(1, keepdims=True)):
                known = np.isfinite(0.0 if side is None else side)
                over = np.where(known, over, np.where(side == np.inf, -1.0, 1.0))
                size = np.where(known, size, 0.0)
        return membership._decided(over, size, 2 * (self.dim + cones.tails.shape[1] + 24), False, exact)

    # -- as a whole ------------------------------------------------------------------------------------------

    rules = cached_property(Rules)
    along = cached_property(Along)
    loose = cached_property(conic_interior.loose)
    centre = cached_property(conic_interior.centre)
    is_bounded = cached_property(conic_interior.is_bounded)
    interior_direction = cached_property(conic_interior.interior_direction)
    mirrored_groups = cached_property(apart_from)
    plot = plotting.plot_section

    def reach(self, x: Array, step: Array) -> tuple[Array, Array]:
        """How far each x inside may follow its step and its opposite, not quite to the end; cut off if unbounded."""
        seen, least = self.rules.boosted(self.rules.at(x), self.rules.lifted(step)), 1 / interior.farthest(self)
        head, length = seen[..., : len(self.rules.numbers)], self.rules.lengths(seen)
        forward, backward = (SHORT / np.maximum(used.max(1), least) for used in (length - head, length + head))
        return forward, backward

    def sample(self, n: int, seed: int | None = None) -> Array:
        """n random points (n, event shape) by hit-and-run from ``seed``; unbounded directions are cut off."""
        seen, rng = self.rules.seen_from(self.centre.point), np.random.default_rng(seed)
        return interior.chains(self, seen, n, rng).reshape(n, *self.shape)

    def describe(self) -> str:
        """Three lines: the set; its kind, coordinates and blocks; its cones."""
        sizes = Counter(len(cone.f) for cone in self.cones)
        cones = ", ".join(f"{number} of {count(size, 'row')}" for size, number in sizes.items())
        where = f"{count(self.dim, 'coordinate')} in {blocks(self.mirrored_groups)}"
        return f"{self!r}\n  {'bounded' if self.is_bounded else 'unbounded'}, {where}\n  cones: {cones}"

    def __repr__(self) -> str:
        rows = repr(self.polyhedron).removeprefix("Polyhedron(").removesuffix(")").replace("the whole space", "")
        stated = rows.rstrip(": ")
        return f"ConvexSet({stated}{', ' if ': ' in stated else ': '}{count(len(self.cones), 'cone')})"

    def __and__(self, other: Any) -> ConvexSet:
        """The points in both sets."""
        if isinstance(other, ConvexSet):
            return ConvexSet(self.polyhedron & other.polyhedron, _numbered([*self.cones, *other.cones]))
        return ConvexSet(self.polyhedron & other, self.cones) if isinstance(other, Polyhedron) else NotImplemented

    __rand__ = __and__


def with_cones(P: object) -> ConvexSet | None:
    """The set, where it has cones."""
    return P if isinstance(P, ConvexSet) else None


def _numbered(cones: Sequence[Cone]) -> list[Cone]:
    """The same with names that tell them apart."""
    found: dict[str, Cone] = {}
    for cone in cones:
        tried = (cone.name if k == 1 else f"{cone.name} {k}" for k in range(1, len(cones) + 1))
        name = next(name for name in tried if name not in found)
        found[name] = replace(cone, name=name)
    return list(found.values())


# -- ready-made ------------------------------------------------------------------------------------------------------


def ball(radius: float, centre: Any = 0, d: Shape | None = None) -> ConvexSet:
    """``|x - centre| <= radius``, in ``d`` coordinates (or an event shape) where the centre is one number.

    Examples:
        >>> import rayhull as rh
        >>> S = rh.ball(2, d=3) & rh.sum_to(1, 3)
        >>> S, [1, 0, 0] in S, [3, -2, 0] in S
        (ConvexSet(shape=(3,): 1 equality, 1 cone), True, False)
    """
    c, shape = _centre(centre, d, radius, "ball")
    n = c.size
    cone = Cone(np.arange(n), np.eye(n), -c, np.zeros(n), float(radius), "ball", centre=c)
    return ConvexSet(Polyhedron(shape=shape), [cone])


def ellipsoid(Q: Any, radius: float = 1.0, centre: Any = 0) -> ConvexSet:
    """(x - centre)ᵀ Q (x - centre) <= radius², for a ``radius`` and a symmetric Q without negative eigenvalues.

    Examples:
        >>> import rayhull as rh
        >>> risk = rh.ellipsoid([[4, 1], [1, 9]], radius=0.3)
        >>> [0.1, 0.05] in risk, [0.2, 0.0] in risk
        (True, False)
    """
    matrix, root = _rooted(Q)
    c, shape = _centre(centre, len(matrix), radius, "ellipsoid")
    none, rho = np.zeros(len(c)), float(radius)
    lost = 4 * (len(c) + 2) * EPS * (rho + float(np.linalg.norm(np.abs(root) @ np.abs(c))))  # of f, to rounding
    cone = Cone(np.arange(len(c)), root, -root @ c, none, rho - lost, "ellipsoid", c, (matrix, none, 0.0), rho)
    return ConvexSet(Polyhedron(shape=shape), [cone])


def quadratic(Q: Any, q: Any = 0, r: float = 0.0) -> ConvexSet:
    """½ xᵀQ x + q·x + r <= 0, for a symmetric Q without negative eigenvalues.

    Examples:
        >>> import rayhull as rh
        >>> parabola = rh.quadratic([[2, 0], [0, 0]], [0, -1])             # y >= x²
        >>> [2, 4] in parabola, [2, 3] in parabola
        (True, False)
    """
    matrix, root = _rooted(Q)
    p, n = np.broadcast_to(as_array(q, "q").astype(float), len(matrix)), len(matrix)
    refuse_unless_finite("q and r", np.append(p, float(r)))
    # with t = -(q·x + r): |(√2 L x, t - 1)| <= t + 1 says |L x|² <= 2 t
    E, f = np.vstack([np.sqrt(2) * (1 + 4 * EPS) * root, -p]), np.append(np.zeros(len(root)), -r - 1.0)
    h = 1.0 - r - 8 * EPS * (1 + abs(r))
    return ConvexSet(Polyhedron(shape=n), [Cone(np.arange(n), E, f, -p, h, "quadratic", form=(matrix, p, float(r)))])


def _rooted(Q: Any) -> tuple[Array, Array]:
    """Q, and rows L with LᵀL ⪰ Q for certain and by next to nothing; an indefinite Q is refused."""
    matrix = as_array(Q, "Q").astype(float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
        raise ValueError(f"Q must be a symmetric matrix (d, d), got shape {matrix.shape}: give (Q + Q.T) / 2.")
    refuse_unless_finite("Q", matrix)
    values, vectors = np.linalg.eigh(matrix)
    n, largest = len(values), float(np.abs(values).max())
    kept = values > SINGULAR * n * largest
    if values[0] < -SINGULAR * n * largest:
        raise ValueError(
            f"Q must have no negative eigenvalue, got {values[0]:.3g}: xᵀQ x <= c is then not convex, and no layer "
            "here takes it. Leave the direction out, or bound it by rows."
        )
    if not kept.any():
        raise ValueError("Q is 0: state q·x + r <= 0 as a row of a Polyhedron.")
    root = (vectors[:, kept] * np.sqrt(values[kept])).T
    error = float(np.linalg.norm(matrix - root.T @ root)) + 8 * n * EPS * largest  # |Q - LᵀL|, for certain
    diagonal = not (matrix - np.diag(np.diag(matrix))).any()
    if diagonal or kept.all():
        share = 8 * EPS if diagonal else error / float(values[0])
        return matrix, root * (1 + share)
    return matrix, np.vstack([root, np.sqrt(error) * np.eye(n)])


def _centre(centre: Any, shape: Shape | None, radius: Any, name: str) -> tuple[Array, tuple[int, ...]]:
    """The centre (d,) and the event shape; without a length for a radius there is no such set."""
    if not (np.ndim(radius) == 0 and math.isfinite(radius) and radius > 0):
        point = "one point, which equalities state: Polyhedron(A_eq=I, b_eq=centre)" if radius == 0 else "no set"
        raise ValueError(f"a radius must be positive and finite, got {radius!r}: this {name} is {point}.")
    values = as_array(centre, "centre").astype(float)
    refuse_unless_finite("centre", values)
    if shape is None and not values.ndim:
        raise ValueError("how many coordinates? Give d=3 (or an event shape), or a centre with that many numbers.")
    event = values.shape if shape is None else as_shape(shape)
    try:
        return np.broadcast_to(values, event).flatten(), event
    except ValueError:
        raise ValueError(f"centre has shape {values.shape}, which does not go with {event}.") from None


# -- rules in words ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Norm:
    """|e| of a vector of expressions (\\*, k); ``norm(e) <= c`` makes a rule."""

    inner: Expression
    __array_ufunc__ = None
    is_norm = True

    def __le__(self, other: Any) -> ConeRule:
        lead = self.inner.shape[:-1]
        right = broadcast(other, np.zeros(lead, np.int64))[0]
        if right.shape != lead:
            raise ValueError(f"norms of shape {lead} and right-hand sides of shape {right.shape} do not go together.")
        return ConeRule(self.inner, right, "<=")

    def __ge__(self, other: Any) -> ConeRule:
        raise TypeError("norm(e) >= c and norm(e) == c are not convex: rules with a norm say norm(e) <= c.")

    __eq__ = __lt__ = __gt__ = __ge__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class ConeRule(Rule):
    """norm(left) <= right, entry by entry: left has one axis more. Made by comparing a norm."""

    def text(self, entry: int) -> str:
        k = self.left.shape[-1]
        shown = ", ".join(self.left.text(entry * k + j) for j in range(min(3, k)))
        return f"|{shown}{', ...' if k > 3 else ''}| <= {self.right.text(entry)}"

    def cone(self, entry: int, builder: Any) -> Cone:
        """The cone of an entry, on the coordinates that it mentions."""
        k = self.left.shape[-1]
        sides = self.left._take(np.arange(entry * k, (entry + 1) * k)), self.right._take(np.array([entry]))
        E, g = (builder.rows(side, self, np.full(side.size, entry)) for side in sides)
        index, (f, h) = np.unique(np.append(E.indices, g.indices)), (0.0 - rows.rhs for rows in (E, g))
        if not len(g.data) and h[0] <= 0:
            raise ValueError(f"{self.label(entry)} holds at one point at most: state it as equalities.")
        left, right = (rows.matrix[:, index].toarray() for rows in (E, g))
        return Cone(index, left, f, right[0], float(h[0]), self.label(entry))


def norm(inner: Any, axis: int | None = None) -> Norm:
    """The Euclidean length of expressions, for rules.

    Args:
        inner: a list or an array of expressions.
        axis: along which lengths are taken, one for each place; None: one length of all entries.

    Examples:
        >>> import rayhull as rh
        >>> x, y, z = rh.variables("x", "y", "z")
        >>> friction = rh.rules(rh.norm([x, y]) <= 0.5 * z, z <= 10)
        >>> [1, 1, 4] in friction, [1, 1, 2] in friction
        (True, False)
        >>> pq = rh.variables("pq", shape=(3, 2))                         # active and reactive power at three buses
        >>> len(rh.rules(rh.norm(pq, axis=1) <= [1, 2, 3]).cones)
        3
    """
    if axis is not None and not isinstance(axis, int | np.integer):
        raise TypeError(f"norm takes one list or array of expressions, norm([x, y]), got {axis!r} beside it.")
    e = expression(inner)
    if not e.size or not len(e.columns):
        raise ValueError("norm needs expressions with variables, such as norm([x, y]).")
    if axis is None:
        return Norm(e.reshape(e.size))
    places = np.moveaxis(np.arange(e.size).reshape(e.shape), axis, -1)
    return Norm(e._take(places))
