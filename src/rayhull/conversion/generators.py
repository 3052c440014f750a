"""The set as vertices, rays and lines, conv(vertices) + cone(rays) + span(lines), and what they are good for.

The way back: the inequalities that hold on a set form a cone themselves, whose rays are the irredundant ones and whose
lines are the equalities. And volumes, of a polytope cut into simplices by its own vertices and rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from rayhull.errors import BudgetExceededError, UnverifiedError
from rayhull.exact.numbers import directions_to_float, largest, narrow, primitive, product, rationals, sort_rows, times
from rayhull.sets.interior import hull_basis
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import as_array, refuse_unless_finite
from rayhull.sets.rows import Array, count

MAX_SIMPLICES = 200_000
MAX_VERTICES = 5_000
MOST_FRACTIONS = 2500  # numbers of unbounded float generators that are still taken as fractions: seconds
PARALLEL = 2.0**-40  # rays closer than this are one; rows that meet beyond 1 / PARALLEL of the set's size are parallel
ON_THE_ROW = 1e-9  # of the row's scale, for sets that are not exact


@dataclass(frozen=True, eq=False)
class ExactGenerators:
    """Integers behind the floats: vertex i is numerators[i] / denominators[i], rays and lines are primitive."""

    numerators: Array  # (p, d)
    denominators: Array  # (p,), positive
    rays: Array  # (r, d)
    lines: Array  # (l, d)


class Generators:
    """conv(vertices) + cone(rays) + span(lines).

    ``vertices`` (p, d), ``rays`` (r, d) and ``lines`` (l, d) are float64. A cone's only vertex is 0. Where the set was
    stated exactly, ``exact`` holds the integers behind them; ``exact_vertices`` gives the vertices as fractions.

    Args:
        vertices, rays, lines: array-likes of numbers; integers and fractions stay exact. Without vertices, 0 is one.

    Examples:
        >>> import rayhull as rh
        >>> G = rh.Generators(vertices=[[0, 0], [2, 0], [0, 1]])
        >>> G
        Generators(3 vertices, 0 rays, 0 lines in R^2, exact)
        >>> G.to_polyhedron().contains([0.5, 0.5]).item()
        True
    """

    instead = "G.to_polyhedron(): this takes inequalities"  # what a function says that asks for a set

    def __init__(self, vertices: Any = None, rays: Any = None, lines: Any = None) -> None:
        given = {"vertices": vertices, "rays": rays, "lines": lines}
        arrays = {name: _matrix(values, name) for name, values in given.items() if values is not None}
        sizes = {a.shape[1] for a in arrays.values()}
        if len(sizes) != 1:
            found = f"got {sorted(sizes)}" if sizes else "got none of them"
            raise ValueError(f"vertices, rays and lines must have the same number of columns, {found}.")
        d = sizes.pop()
        blank = np.zeros((0, d), np.int64)
        points = arrays.get("vertices", np.zeros((1, d), np.int64))
        directions = [arrays.get("rays", blank), arrays.get("lines", blank)]
        self.exact: ExactGenerators | None = _exact(points, *directions)
        self.vertices, self.rays, self.lines = (a.astype(np.float64) for a in (points, *directions))

    @classmethod
    def from_exact(cls, exact: ExactGenerators) -> Generators:
        """From ``exact`` integers, which are sorted; the floats are the nearest ones."""
        vertices = _quotients(exact.numerators, exact.denominators)
        order = sort_rows(exact.numerators if (exact.denominators == 1).all() else vertices)
        rays = exact.rays[sort_rows(exact.rays)]
        made = cls.__new__(cls)
        made.exact = ExactGenerators(exact.numerators[order], exact.denominators[order], rays, exact.lines)
        made.vertices = vertices[order]
        made.rays, made.lines = directions_to_float(rays), directions_to_float(exact.lines)
        return made

    @classmethod
    def from_floats(cls, vertices: Array, rays: Array, lines: Array) -> Generators:
        """From computed vertices, rays and lines, sorted: floats that look like small dyadic numbers are not exact."""
        made = cls.__new__(cls)
        made.exact = None
        made.vertices, made.rays, made.lines = vertices[_sort_floats(vertices)], rays[_sort_floats(rays)], lines
        return made

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return int(self.vertices.shape[1])

    @cached_property
    def exact_vertices(self) -> Array | None:
        """The vertices as an object array of fractions, or None where the set was not exact."""
        if self.exact is None:
            return None
        rows = zip(self.exact.numerators.tolist(), self.exact.denominators.tolist(), strict=True)
        fractions = [[Fraction(n, bottom) for n in top] for top, bottom in rows]
        return np.array(fractions, dtype=object).reshape(self.vertices.shape)

    @property
    def stated(self) -> tuple[Array, Array, Array]:
        """Vertices, rays and lines in exact numbers where the set has them, else in floats."""
        if self.exact is None or self.exact_vertices is None:
            return self.vertices, self.rays, self.lines
        return self.exact_vertices, self.exact.rays, self.exact.lines

    def __len__(self) -> int:
        return len(self.vertices) + len(self.rays) + len(self.lines)

    def __repr__(self) -> str:
        kind = "exact" if self.exact is not None else "floats"
        sizes = [count(len(g), n) for g, n in ((self.vertices, "vertex"), (self.rays, "ray"), (self.lines, "line"))]
        return f"Generators({', '.join(sizes)} in R^{self.dim}, {kind})"

    def to_polyhedron(self, **options: Any) -> Polyhedron:
        """The same set as inequalities and equalities, by the same machinery (options as in ``rayhull.convert``).

        Rows of an unbounded set of floats are converted back: where rounding has turned one that should be parallel to
        others, every float is taken as the fraction that it is; a set too large for that is refused.
        """
        from rayhull.conversion.convert import convert

        P = hull(convert(polar(self), **options), unit_of(self))
        if self.exact is None and len(self.rays) + len(self.lines) and _is_turned(convert(P, **options), unit_of(self)):
            return hull(convert(polar(self._as_fractions()), **options))
        return P

    def _as_fractions(self) -> Generators:
        if len(self) * self.dim > MOST_FRACTIONS:
            raise UnverifiedError(
                "The rows of this unbounded set would bound it, or split a ray, by rounding alone: give the generators "
                "as integers or fractions, which are converted exactly."
            )
        parts = (self.vertices, self.rays, self.lines)
        points, along, both_ways = (np.array([*map(Fraction, a.flat)], object).reshape(a.shape) for a in parts)
        return Generators(points, along, both_ways)


def _matrix(values: Any, name: str) -> Array:
    array = as_array(values, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix (one generator a row), got shape {array.shape}.")
    refuse_unless_finite(name, array)
    return array


def _exact(points: Array, rays: Array, lines: Array) -> ExactGenerators | None:
    scaled = []
    for array in (points, rays, lines):
        parts = rationals(array)
        if parts is None:
            return None
        top, bottom = (part.astype(object) for part in parts)
        common = np.array([math.lcm(*row) for row in bottom.tolist()], dtype=object)
        scaled.append((narrow(top * (common[:, None] // bottom)), narrow(common)))
    (numerators, denominators), (along, _), (both_ways, _) = scaled
    return ExactGenerators(numerators, denominators, primitive(along), primitive(both_ways))


def _quotients(numerators: Array, denominators: Array) -> Array:
    """Correctly rounded floats of numerators / denominators."""
    if numerators.dtype != object and denominators.dtype != object and np.abs(numerators).max(initial=0) < 2**53:
        return numerators / denominators[:, None]
    try:
        exact = [[n / b for n in top] for top, b in zip(numerators.tolist(), denominators.tolist(), strict=True)]
    except OverflowError:
        raise ValueError("A vertex lies beyond the range of float64: state the set in larger units.") from None
    return np.array(exact, dtype=np.float64).reshape(numerators.shape)


def _sort_floats(rows: Array) -> Array:
    """Their order by nine digits: the last ones, which differ between processors, must not decide it."""
    unit = np.abs(rows).max(axis=0, initial=0)
    return sort_rows(np.round(rows / np.where(unit > 0, unit, 1) * 2.0**30))


def polar(G: Generators) -> Polyhedron:
    """The cone of the inequalities a·x <= c, as (c / unit, a), that hold on all of G: a·v <= c, a·r <= 0, a·l = 0."""
    if not len(G.vertices):
        raise ValueError("generators without a vertex describe the empty set; a cone has the vertex 0.")
    known = G if G.exact is None else G.exact
    if G.exact is None:
        vertices = np.insert(G.vertices / unit_of(G), 0, -1.0, axis=1)
    else:
        vertices = np.concatenate([-G.exact.denominators[:, None], G.exact.numerators], axis=1)
    rays, lines = (np.insert(directions, 0, 0, axis=1) for directions in (known.rays, known.lines))
    return Polyhedron(np.concatenate([vertices, rays]), A_eq=lines)


def unit_of(G: Generators) -> float:
    """A power of two near the largest entry of a vertex: beside -1, floats of 1e-20 would look like rounding."""
    size = float(np.abs(G.vertices).max(initial=0.0)) if G.exact is None else 0.0
    return float(2.0 ** np.floor(np.log2(size))) if size else 1.0


def _is_turned(back: Generators, unit: float) -> bool:
    """Whether two rays differ by rounding alone, or a vertex lies where rows meet that should be parallel."""
    from scipy.spatial import cKDTree

    rays = back.rays / np.abs(back.rays).max(axis=1, keepdims=True, initial=0.0)
    far = np.abs(back.vertices).max() * PARALLEL > unit
    return bool(far) or len(cKDTree(rays).query_pairs(PARALLEL, p=np.inf)) > 0


def hull(facets: Generators, unit: float = 1.0) -> Polyhedron:
    """The set whose inequalities (c / unit, a) are the rays of the polar cone, and whose equalities are its lines."""
    known = facets if facets.exact is None else facets.exact
    rows, equalities = _shortened(known.rays), _shortened(known.lines)
    # (1, 0) says 0 <= 1. In floats it may be (1, 1e-17); any other row is tight at a vertex, of entries below 2 units
    size = 0 if facets.exact else np.abs(rows[:, 0]) / 4
    rows = rows[np.abs(rows[:, 1:]).sum(axis=1) > size]
    scale: Any = 1 if unit == 1.0 else Fraction(unit) if facets.exact else unit
    return Polyhedron(rows[:, 1:], rows[:, 0] * scale, equalities[:, 1:], equalities[:, 0] * scale)


def _shortened(rows: Array) -> Array:
    """Rows (c, a) of integers beyond 2^53 as fractions, over a power of two near the largest entry of a."""
    if rows.dtype != object or largest(rows) < 2**53:
        return rows
    bits = [max(1, *(abs(v).bit_length() for v in row[1:])) for row in rows.tolist()]
    return rows * np.array([[Fraction(2, 2**n)] for n in bits], dtype=object)


# -- a polytope as simplices that meet only in faces -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Triangulation:
    """Simplices (n, k + 1) of vertex numbers in the k-dimensional affine hull, and their k-dimensional volumes."""

    vertices: Array  # (p, d)
    simplices: Array  # (n, k + 1)
    volumes: Array  # (n,)

    @property
    def dim(self) -> int:
        """k, the dimension of the affine hull."""
        return int(self.simplices.shape[1]) - 1


def volume(P: Polyhedron, *, relative: bool = False) -> float:
    """The volume of a bounded set, the product of its blocks' volumes; see :meth:`rayhull.Polyhedron.volume`."""
    refuse_unbounded(P)
    parts = [(triangulate(group.polyhedron), *group.index.shape) for group in P.block_groups]
    hull = sum(count * part.dim for part, count, _ in parts)
    if hull < P.dim and not relative:
        raise ValueError(
            f"the set has no interior: it is {hull}-dimensional in R^{P.dim}, and its volume there is 0. "
            f"volume(relative=True) is its {hull}-dimensional volume, measured within its affine hull."
        )
    with np.errstate(over="ignore"):  # a volume beyond all floats is an infinite one
        return float(np.exp(math.fsum(count * math.log(part.volumes.sum()) for part, count, _ in parts)))


def refuse_unbounded(P: Polyhedron) -> None:
    if not P.is_bounded:
        raise ValueError(
            "the set is unbounded, so it has no finite volume and no uniform distribution: bound it first, for example "
            "P & rayhull.box(-1, 1)."
        )


def triangulate(P: Polyhedron) -> Triangulation:
    """The pulling triangulation of a bounded set.

    A polytope is the union of the simplices that its first vertex spans with the triangulated facets that do not hold
    it. Faces are sets of vertices; the facets of a face are its largest intersections with rows.
    """
    refuse_unbounded(P)
    G = P.generators(max_generators=MAX_VERTICES)
    basis = hull_basis(P, P.centre.implicit)
    faces = _Faces(_vertices_on_rows(P, G), len(G.vertices))
    simplices = np.array(faces.simplices_of(faces.all), np.int64).reshape(-1, basis.shape[1] + 1)
    corners = (G.vertices @ basis)[simplices]  # (n, k + 1, k)
    edges = corners[:, 1:] - corners[:, :1]
    return Triangulation(G.vertices, simplices, np.abs(np.linalg.det(edges)) / math.factorial(basis.shape[1]))


def _vertices_on_rows(P: Polyhedron, G: Generators) -> Array:
    """Which vertices lie on which rows (p, m): in integers where the vertices are exact, else up to a tolerance."""
    if G.exact is not None:
        rows, rhs = P.rows.dense_integers()
        at = product(G.exact.numerators, rows.T)
        return np.asarray(at == times(G.exact.denominators[:, None], rhs[None, :]))
    matrix = P.rows.matrix.toarray()
    scale = np.abs(matrix).sum(1) * max(1.0, float(np.abs(G.vertices).max())) + np.abs(P.rows.rhs)
    return np.asarray(np.abs(G.vertices @ matrix.T - P.rows.rhs) <= ON_THE_ROW * scale)


class _Faces:
    """Faces as bit masks over the vertices."""

    def __init__(self, on_row: Array, count: int) -> None:
        self.rows = [sum(1 << int(i) for i in np.flatnonzero(column)) for column in on_row.T]
        self.all = (1 << count) - 1
        self.known: dict[int, list[tuple[int, ...]]] = {}

    def facets(self, face: int) -> list[int]:
        """The largest proper faces of a face."""
        parts = sorted({face & row for row in self.rows} - {face, 0}, key=int.bit_count, reverse=True)
        found: list[int] = []
        for part in parts:
            if not any(part & larger == part for larger in found):
                found.append(part)
        return found

    def simplices_of(self, face: int) -> list[tuple[int, ...]]:
        """Vertex numbers of the simplices that make up a face."""
        if face not in self.known:
            lowest = face & -face
            apex = (lowest.bit_length() - 1,)
            opposite = [f for f in self.facets(face) if not f & lowest]
            beyond = [s for f in opposite for s in self.simplices_of(f)] if opposite else [()]
            made = [apex + s for s in beyond]
            if len(made) > MAX_SIMPLICES:
                raise BudgetExceededError(
                    f"the set needs more than {MAX_SIMPLICES} simplices: its volume is out of reach of a "
                    "triangulation. P.sample(n) draws points by hit-and-run, which needs none."
                )
            self.known[face] = made
        return self.known[face]
