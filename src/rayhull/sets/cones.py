r"""Balls, ellipsoids, quadratic rows and second-order cones beside the rows of a polyhedron.

A cone is a row |E x + f| <= g·x + h. Seen from a point x0 inside it, with s = (g·x0 + h, E x0 + f), it is as simple as
a linear row: a Lorentz boost B takes s to (√(sᵀJs), 0), and with (w, e) = B (g·y, E y) / √(sᵀJs)

.. math:: x_0 + y \text{ inside} \iff |e| - w \le 1

so that |e| - w is the share of the slack that y uses up, the gauge. All of it works on NumPy arrays and on tensors.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.exact.numbers import Array, floats_as_integers
from rayhull.sets import membership
from rayhull.sets.expressions import Expression, broadcast, expression
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape, as_array, as_numpy, as_shape, is_torch, read_given, refuse_unless_finite
from rayhull.sets.rows import count
from rayhull.sets.statement import Statement

if TYPE_CHECKING:
    from rayhull.sets.interior import Centre
    from rayhull.sets.products import BlockGroup

EPS = 2.0**-53  # the unit roundoff of float64
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

    def holds_exactly(self, x: Array, h: Array | None, centre: Array | None) -> Array:
        """In integers. Shape: x (n, j), h (n,), centre (n, j) → (n,)"""
        if self.form is not None:
            return self._form_holds(x, self.radius if h is None else h, self.centre if centre is None else centre)
        (X, C), a = _integers(x, np.broadcast_to(np.zeros(1) if centre is None else centre, x.shape))
        (E, g), b = _integers(self.E, self.g)
        (F, H), c = _integers(self.f if centre is None else 0 * self.f, np.atleast_1d(self.h if h is None else h))
        U = _scaled((X - C).dot(E.T), c) + _scaled(F, a + b)
        V = _scaled(X.dot(g), c) + _scaled(H, a + b)
        return np.asarray((V >= 0) & ((U * U).sum(-1) <= V * V), bool)

    def _form_holds(self, x: Array, radius: Any, centre: Any) -> Array:
        assert self.form is not None
        Q, q, r = self.form
        (X, C), a = _integers(x, np.broadcast_to(np.zeros(1) if centre is None else centre, x.shape))
        (P, p, constant), b = _integers(Q, q, np.atleast_1d(r))
        (H,), c = _integers(np.atleast_1d(radius))
        Y = X - C
        left = _scaled((Y.dot(P) * Y).sum(-1), 2 * c) + 2 * _scaled(Y.dot(p), a + 2 * c)
        left = left + 2 * _scaled(constant, 2 * a + 2 * c)
        return np.asarray(left <= _scaled(H * H, 2 * a + b), bool)


def _integers(*arrays: Array) -> tuple[list[Array], int]:
    """Floats as Python integers over one power of two."""
    floats = [np.asarray(v, np.float64) for v in arrays]
    flat, shift = floats_as_integers(np.concatenate([v.ravel() for v in floats]))
    ends = np.cumsum([v.size for v in floats])[:-1]
    return [part.reshape(v.shape) for part, v in zip(np.split(flat.astype(object), ends), floats, strict=True)], shift


def _scaled(values: Array, shift: int) -> Array:
    return np.asarray(values * (1 << shift), object)


@dataclass(frozen=True, eq=False)
class Batch:
    """Cones of one size together: rows (K, 1 + k, j) with g first, offsets (K, 1 + k) with h first."""

    numbers: Array  # (K,) which cones
    index: Array  # (K, j)
    rows: Array
    offsets: Array
    is_ball: bool
    is_centred: bool  # balls and ellipsoids, whose centres may come with the sample

    def lifted(self, x: Any) -> Any:
        """(g·x, E x) of every cone. Shape: (n, d) → (n, K, 1 + k)"""
        if is_torch(x):
            return (x.new_tensor(self.rows) @ x[:, self.index][..., None])[..., 0]
        return (self.rows @ x[:, self.index][..., None])[..., 0]

    def at(self, x: Any, h: Any = None, centre: Any = None) -> Any:
        """s = (g·x + h, E x + f). Shape: x (n, d), h (\\*, cones), centre (\\*, d) → (n, K, 1 + k)"""
        offsets = x.new_tensor(self.offsets) if is_torch(x) else self.offsets
        if centre is not None and self.is_centred:
            offsets = _joined(0 * centre[:, :1, None] + offsets[:, :1], -self.lifted(centre)[..., 1:])
        if h is not None:
            offsets = _joined(h[:, self.numbers, None], 0 * h[:, :1, None] + offsets[..., 1:])
        return self.lifted(x) + offsets

    @cached_property
    def size(self) -> tuple[Array, Array]:
        """How much max|x| = 1 may change |E x + f| - g·x, and the size of the constants, (K,) each."""
        sums = np.abs(self.rows).sum(-1)
        return sums[:, 0] + lengths(sums[:, 1:]), np.abs(self.offsets[:, 0]) + lengths(self.offsets[:, 1:])


def _joined(head: Any, tail: Any) -> Any:
    """Both along the last axis, whatever batch each has."""
    xp, lead = membership._namespace(head), np.broadcast_shapes(tuple(head.shape[:-1]), tuple(tail.shape[:-1]))
    return xp.concatenate([xp.broadcast_to(v, (*lead, v.shape[-1])) for v in (head, tail)], -1)


def lengths(v: Any) -> Any:
    """|v| along the last axis; its derivative at 0 is 0."""
    return v.norm(dim=-1) if is_torch(v) else np.linalg.norm(v, axis=-1)


def boosted(s: Any, v: Any) -> tuple[Any, Any]:
    """w (\\*) and e (\\*, k) of v = (g·y, E y), seen from s inside the cone; |e| - w is the gauge of y.

    Shape: s, v (\\*, 1 + k)

    Examples:
        >>> import numpy as np
        >>> from rayhull.sets.cones import boosted
        >>> boosted(np.array([2.0, 0.0]), np.array([0.0, 1.0]))     # the ball of radius 2 from its centre
        (np.float64(0.0), array([0.5]))
    """
    length = lengths(s[..., 1:])
    size = ((s[..., 0] - length) * (s[..., 0] + length)) ** 0.5
    head, tail = s[..., 0] / size, s[..., 1:] / size[..., None]
    w, e = v[..., 0] / size, v[..., 1:] / size[..., None]
    along = (tail * e).sum(-1)
    return head * w - along, e + tail * (along / (1 + head) - w)[..., None]


def gauge(s: Any, v: Any) -> Any:
    """|e| - w of :func:`boosted`: 1 / gauge is how far v may be followed from s."""
    w, e = boosted(s, v)
    return lengths(e) - w


def batched(cones: Sequence[Cone]) -> tuple[Batch, ...]:
    """The cones, those of one size together."""
    kinds: dict[Any, list[int]] = {}
    for i, cone in enumerate(cones):
        kinds.setdefault((*cone.E.shape, cone.is_ball, cone.centre is not None), []).append(i)
    return tuple(_batch([cones[i] for i in numbers], np.array(numbers)) for numbers in kinds.values())


def _batch(own: list[Cone], numbers: Array) -> Batch:
    rows = np.stack([np.vstack([c.g, c.E]) for c in own])
    offsets = np.stack([np.concatenate([[c.h], c.f]) for c in own])
    return Batch(numbers, np.stack([c.index for c in own]), rows, offsets, own[0].is_ball, own[0].centre is not None)


class ConvexSet(Statement):
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

    instead = "the rows alone, S.polyhedron: this takes sets without cones"

    def __init__(self, polyhedron: Polyhedron, cones: Sequence[Cone], *, check: bool = True) -> None:
        P = polyhedron
        super().__init__(P.shape, P.inequalities, P.equalities, P.lower, P.upper, P.coordinate_names)
        self.polyhedron, self.cones = P, tuple(cones)
        if check and self.stated_centre.reshape(self.shape) not in self:  # else it is not empty
            from rayhull.sets.conic_interior import refuse_if_empty

            refuse_if_empty(self)

    @cached_property
    def stated_centre(self) -> Array:
        """The centres of balls and ellipsoids (d,), 0 elsewhere."""
        point = np.zeros(self.dim)
        for cone in self.cones:
            if cone.centre is not None:
                point[cone.index] = cone.centre
        return point

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The cones, those of one size together."""
        return batched(self.cones)

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(self.polyhedron.fingerprint.encode())
        for c in self.cones:
            form = () if c.form is None else (c.form[0], c.form[1], np.array([c.form[2], c.radius]))
            for part in (c.index, c.E, c.f, c.g, np.array([c.h]), *form):
                digest.update(np.ascontiguousarray(part).tobytes() + b"|")
        return digest.hexdigest()

    # -- at a point ------------------------------------------------------------------------------------------

    def _over(self, x: Any, h: Any, centre: Any) -> tuple[Any, Any, tuple[int, ...]]:
        """|E x + f| - g·x - h and the tolerance of ``contains`` (n, cones), and the batch shape."""
        flat, batch = membership.flatten(self, x)
        given, points, batch = read_given(self, membership._float64(flat), batch, h=h, centre=centre)
        xp, like = membership._namespace(points), membership._like
        largest = xp.amax(abs(points), axis=1)[:, None]
        values, errors = [], []
        for group in self.batches:
            s, (slope, constant) = group.at(points, given.h, given.centre), group.size
            values.append(lengths(s[..., 1:]) - s[..., 0])
            errors.append(largest * like(points, slope) + like(points, constant))
        back = np.argsort(np.concatenate([group.numbers for group in self.batches]))
        ulps = membership.ULPS * membership._eps(flat)
        return xp.concatenate(values, axis=1)[:, back], ulps * xp.concatenate(errors, axis=1)[:, back], batch

    def violation(self, x: Any, *, h: Any = None, centre: Any = None, **sides: Any) -> Any:
        """How far x is outside: the largest amount by which a row, a bound or a cone is exceeded, 0 inside."""
        over, _, batch = self._over(x, h, centre)
        rows = membership.violation(self, x, **sides)
        xp = membership._namespace(over)
        return xp.maximum(rows, xp.amax(over, axis=1).reshape(batch))

    def contains(self, x: Any, atol: float | None = None, *, h: Any = None, centre: Any = None, **sides: Any) -> Any:
        """Whether each x is inside up to ``atol``, by default 16 ulp of each row's own scale."""
        x = x.detach() if is_torch(x) else x
        over, error, batch = self._over(x, h, centre)
        own = (over <= (error if atol is None else atol)).all(1).reshape(batch)
        return membership.contains(self, x, atol, **sides) & own

    def contains_exactly(self, x: Any, *, h: Any = None, centre: Any = None, **sides: Any) -> Any:
        """Whether each x is inside in rational arithmetic on the given floats: squares are compared, no root taken."""
        rows = membership.contains_exactly(self, x, **sides)
        flat, batch = membership.flatten(self, x)
        given, points, batch = read_given(self, as_numpy(flat).astype(float), batch, h=h, centre=centre)
        h, centre, inside = given.h, given.centre, np.isfinite(points).all(1)
        for i, cone in enumerate(self.cones):
            at = np.flatnonzero(inside)
            own_h = None if h is None else h[:, i] if len(h) == 1 else h[at, i]
            own_c = None if centre is None or cone.centre is None else centre[:, cone.index]
            own_c = own_c if own_c is None or len(own_c) == 1 else own_c[at]
            inside[at] = cone.holds_exactly(points[np.ix_(at, cone.index)], own_h, own_c)
        inside = inside.reshape(batch)
        return rows & (rows.new_tensor(inside) if is_torch(rows) else inside)

    def __contains__(self, x: Any) -> bool:
        return bool(np.all(np.asarray(self.contains(x))))

    def slack(self, x: Any) -> membership.Slack:
        """The slack of every rule by name, worst first; of a cone ``g·x + h - |E x + f|``."""
        over, error, _ = self._over(x, None, None)
        return membership.slack(self, x, ([c.name for c in self.cones], -over, as_numpy(error)))

    def explain(self, x: Any) -> str:
        """One point in words: which rules are broken and by how much, which bind."""
        return membership.explain(self, x)

    # -- as a whole ------------------------------------------------------------------------------------------

    @cached_property
    def centre(self) -> Centre:
        """A point of the relative interior, and the rows that hold with equality everywhere."""
        from rayhull.sets.conic_interior import centre

        return centre(self)

    @cached_property
    def is_bounded(self) -> bool:
        """Whether the set contains no ray and no line, as far as linear programs tell."""
        from rayhull.sets.conic_interior import is_bounded

        return is_bounded(self)

    def interior_point(self) -> Array:
        """A point strictly inside (event shape)."""
        return self.centre.point.reshape(self.shape)

    def sample(self, n: int, seed: int | None = None) -> Array:
        """n random points (n, event shape) by hit-and-run; unbounded directions are cut off."""
        from rayhull.sets.conic_interior import hit_and_run

        return hit_and_run(self, n, np.random.default_rng(seed)).reshape(n, *self.shape)

    def reach(self, x: Array, step: Array) -> Array:
        """How far a point inside may follow each step; unbounded directions are cut off. Shape: (n, d) → (n,)"""
        from rayhull.sets.conic_interior import reach

        return reach(self, x, step)

    @cached_property
    def mirrored_groups(self) -> tuple[BlockGroup, ...]:
        """Blocks without cones as those of a Polyhedron, then all coordinates that cones tie, as one block."""
        from rayhull.sets.products import apart_from

        return apart_from(self)

    def restricted(self, polyhedron: Polyhedron, coordinates: Array) -> ConvexSet:
        """The same cones on some of the coordinates, with other rows."""
        if len(coordinates) == self.dim and self.shape == (self.dim,):
            return self
        place = np.full(self.dim, -1)
        place[coordinates] = np.arange(len(coordinates))
        cones = [replace(cone, index=place[cone.index]) for cone in self.cones]
        return ConvexSet(polyhedron, cones, check=False)

    def describe(self) -> str:
        """Dimension, rows, cones, blocks."""
        kinds = [f"{len(g.numbers)} of {g.rows.shape[1] - 1} rows" for g in self.batches]
        blocks = ", ".join(f"{len(g.index)} of {count(g.index.shape[1], 'coordinate')}" for g in self.mirrored_groups)
        lines = [repr(self), f"dimension     {count(self.dim, 'coordinate')}, event shape {self.shape}"]
        lines += [f"cones         {', '.join(kinds)}", f"blocks        {blocks}"]
        return "\n".join([*lines, f"kind          {'bounded' if self.is_bounded else 'unbounded'}"])

    def __repr__(self) -> str:
        rows = repr(self.polyhedron).removeprefix("Polyhedron(").removesuffix(")").replace("the whole space", "")
        stated = rows.rstrip(": ")
        return f"ConvexSet({stated}{', ' if ': ' in stated else ': '}{count(len(self.cones), 'cone')})"

    def _repr_html_(self) -> str:
        from rayhull.sets.plotting import as_html

        return as_html(repr(self), self, self.plot)

    def plot(self, coordinates: Sequence[Any] | None = None, *, at: Any = None, ax: Any = None, points: Any = None,
             color: str = "#0072B2") -> Any:  # fmt: skip
        """Draw the section in two coordinates through ``at``, by default the interior point (the extra ``plot``)."""
        from rayhull.sets.plotting import plot_section

        return plot_section(self, coordinates, at, ax, points, color)

    def __and__(self, other: Any) -> ConvexSet:
        """The points in both sets."""
        if isinstance(other, ConvexSet):
            return ConvexSet(self.polyhedron & other.polyhedron, _numbered([*self.cones, *other.cones]))
        return ConvexSet(self.polyhedron & other, self.cones) if isinstance(other, Polyhedron) else NotImplemented

    __rand__ = __and__


def with_cones(P: object) -> ConvexSet | None:
    """The set, where it has cones."""
    return P if isinstance(P, ConvexSet) else None


def _numbered(cones: list[Cone]) -> list[Cone]:
    """The same with names that tell them apart."""
    seen: dict[str, int] = {}
    for i, cone in enumerate(cones):
        seen[cone.name] = seen.get(cone.name, 0) + 1
        if seen[cone.name] > 1:
            cones[i] = replace(cone, name=f"{cone.name} {seen[cone.name]}")
    return cones


# -- ready-made ------------------------------------------------------------------------------------------------------


def ball(radius: float, centre: Any = 0, d: Shape | None = None) -> ConvexSet:
    """``|x - centre| <= radius``.

    Examples:
        >>> import rayhull as rh
        >>> S = rh.ball(2, d=3) & rh.sum_to(1, 3)
        >>> S, [1, 0, 0] in S, [3, -2, 0] in S
        (ConvexSet(shape=(3,): 1 equality, 1 cone), True, False)
    """
    c, shape = _centre(centre, d)
    _refuse_point(radius, "ball")
    n = c.size
    cone = Cone(np.arange(n), np.eye(n), -c, np.zeros(n), float(radius), "ball", centre=c)
    return ConvexSet(Polyhedron(shape=shape), [cone])


def ellipsoid(Q: Any, radius: float = 1.0, centre: Any = 0) -> ConvexSet:
    """(x - centre)ᵀ Q (x - centre) <= radius², for a symmetric Q without negative eigenvalues.

    Examples:
        >>> import rayhull as rh
        >>> risk = rh.ellipsoid([[4, 1], [1, 9]], radius=0.3)
        >>> [0.1, 0.05] in risk, [0.2, 0.0] in risk
        (True, False)
    """
    matrix, root = _rooted(Q)
    c, shape = _centre(centre, len(matrix))
    _refuse_point(radius, "ellipsoid")
    none, rho = np.zeros(len(c)), float(radius)
    h = rho - 4 * (len(c) + 2) * EPS * (rho + float(lengths(np.abs(root) @ np.abs(c))))  # what f lost to rounding
    cone = Cone(np.arange(len(c)), root, -root @ c, none, h, "ellipsoid", c, (matrix, none, 0.0), rho)
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


def _centre(centre: Any, shape: Shape | None) -> tuple[Array, tuple[int, ...]]:
    values = as_array(centre, "centre").astype(float)
    refuse_unless_finite("centre", values)
    if shape is None and not values.ndim:
        raise ValueError("how many coordinates? Give d=3 (or an event shape), or a centre with that many numbers.")
    event = values.shape if shape is None else as_shape(shape)
    try:
        return np.broadcast_to(values, event).flatten(), event
    except ValueError:
        raise ValueError(f"centre has shape {values.shape}, which does not go with {event}.") from None


def _refuse_point(radius: Any, name: str) -> None:
    if not (np.ndim(radius) == 0 and math.isfinite(radius) and radius > 0):
        point = "one point, which equalities state: Polyhedron(A_eq=I, b_eq=centre)" if radius == 0 else "no set"
        raise ValueError(f"a radius must be positive and finite, got {radius!r}: this {name} is {point}.")


# -- rules in words ----------------------------------------------------------------------------------------------------


class Norm:
    """|e| of a vector of expressions; ``norm(e) <= c`` makes a rule."""

    __array_ufunc__ = None
    is_norm = True

    def __init__(self, inner: Expression) -> None:
        self.inner = inner  # (*, k)

    def __le__(self, other: Any) -> ConeRule:
        lead = self.inner.shape[:-1]
        right = broadcast(other, np.zeros(lead, np.int64))[0]
        if right.shape != lead:
            raise ValueError(f"norms of shape {lead} and right-hand sides of shape {right.shape} do not go together.")
        return ConeRule(self.inner, right)

    def __ge__(self, other: Any) -> ConeRule:
        raise TypeError("norm(e) >= c is not convex: rules with a norm say norm(e) <= c.")

    __eq__ = __lt__ = __gt__ = __ge__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class ConeRule:
    """norm(left) <= right, entry by entry; made by comparing a norm."""

    left: Expression  # (*, k)
    right: Expression  # (*)
    name: str | None = None

    def named(self, name: str) -> ConeRule:
        return replace(self, name=name)

    def cones(self, builder: Any) -> list[Cone]:
        """A cone for each entry, on the coordinates that it mentions."""
        k = self.left.shape[-1]
        return [self._cone(builder, i, np.arange(i * k, (i + 1) * k)) for i in range(self.right.size)]

    def _cone(self, builder: Any, i: int, entries: Array) -> Cone:
        sides = self.left._take(entries), self.right._take(np.array([i]))
        used = [builder.columns(side.columns) for side in sides]
        index = np.unique(np.concatenate(used))
        E, g = (np.zeros((side.size, len(index))) for side in sides)
        for dense, side, columns in zip((E, g), sides, used, strict=True):
            row = np.repeat(np.arange(side.size), np.diff(side.starts))
            dense[row, np.searchsorted(index, columns)] = side.data.astype(float)
        f, h = sides[0].constant.astype(float), float(sides[1].constant[0])
        text = f"|{', '.join(sides[0].text(j) for j in range(min(3, len(entries))))}"
        text += f"{', ...' if len(entries) > 3 else ''}| <= {sides[1].text(0)}"
        name = text if self.name is None else self.name if self.right.size == 1 else f"{self.name}[{i}]"
        if not g.any() and h <= 0:
            raise ValueError(f"{name} holds at one point at most: state it as equalities.")
        refuse_unless_finite(name, np.concatenate([E.ravel(), g.ravel(), f, [h]]))
        return Cone(index, E, f, g[0], h, name)

    def __bool__(self) -> bool:
        raise TypeError("a rule has no truth value: write two rules in place of a chain of comparisons.")


def norm(inner: Any, axis: int | None = None) -> Norm:
    """The Euclidean length of expressions, for rules: of all entries, or along an axis, one for each place.

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
    e = expression(inner)
    if not e.size or not len(e.columns):
        raise ValueError("norm needs expressions with variables, such as norm([x, y]).")
    if axis is None:
        return Norm(e.reshape(e.size))
    places = np.moveaxis(np.arange(e.size).reshape(e.shape), axis, -1)
    return Norm(e._take(places))
