"""A set as a whole: in words, and its outline in two or three of its coordinates.

Outlines are projections and sections, clipped to a window where the set is unbounded, with their corners in hull order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import BudgetExceededError, EmptySetError, UnverifiedError
from rayhull.exact.numbers import Array
from rayhull.sets.linear_programs import row_rank, solve
from rayhull.sets.rows import Rows, count

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup

MOST = 4  # rows or kinds of blocks listed by name
MAX_GENERATORS = 5_000  # beyond this a projection is traced by linear programs
SAME = 1e-9  # of the window's size: points closer than this are one


def describe(P: Polyhedron) -> str:
    """Three lines: the set; its kind, coordinates and blocks; its rows, with hidden equalities where there are any.

    Examples:
        >>> import rayhull as rh
        >>> print(rh.monotone(3).describe())
        Polyhedron(shape=(3,): 2 inequalities)
          a cone with 1 line, exact numbers, 3 coordinates in 1 block
          2 inequalities, 0 equalities, 0 bounds
    """
    bounds = int(np.isfinite(P.lower_bounds).sum() + np.isfinite(P.upper_bounds).sum())
    counts = [count(len(P.inequalities), "inequality"), count(len(P.equalities), "equality"), count(bounds, "bound")]
    kind = "a cone" if P.is_cone else "bounded" if P.is_bounded else "unbounded"
    kind += f" with {count(lines, 'line')}" if (lines := lineality(P)) else ""
    names = f" ({_listed(P.coordinates, 2 * MOST)})" if P.coordinate_names is not None else ""
    groups = P.mirrored_groups if P.intervals.all() else P.block_groups  # many different intervals side by side
    where = f"{count(P.dim, 'coordinate')}{names} in {blocks(groups)}"
    numbers = "exact numbers" if P.is_exact else "floats"
    return f"{P!r}\n  {kind}, {numbers}, {where}\n  {', '.join(counts)}{_dependent(P)}{_hidden(P)}"


def summary(P: Polyhedron) -> str:
    """One line: the shape or the few names, how many rows, the range of the bounds."""
    parts = [count(len(r), noun) for r, noun in ((P.inequalities, "inequality"), (P.equalities, "equality")) if len(r)]
    for values, sign in ((P.lower, ">="), (P.upper, "<=")):
        stated = np.zeros(0) if values is None else values[np.isfinite(values.astype(float))]
        if values is not None and stated.size:
            low, high = stated.min(), stated.max()
            some = "" if stated.size == values.size else f" for {stated.size} of {values.size}"
            parts.append(f"x {sign} {low}{'' if low == high else f' .. {high}'}{some}")
    few = P.coordinate_names is not None and P.dim <= 6 and "[" not in P.coordinates[0]
    where = ", ".join(P.coordinates) if few else f"shape={P.shape}"
    return f"Polyhedron({where}: {', '.join(parts) or 'the whole space'})"


def _listed(names: Sequence[str], most: int = MOST) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _dependent(P: Polyhedron) -> str:
    try:
        more = len(P.equality_rows) - len(P.independent_equalities)
    except UnverifiedError as error:
        return f"; {error}"
    return f"; {count(more, 'equality')} {'follows' if more == 1 else 'follow'} from the others" if more else ""


def _hidden(P: Polyhedron) -> str:
    try:
        found = np.flatnonzero(P.centre.implicit)
    except UnverifiedError as error:
        return f"; hidden equalities are not known: {error}"
    if not len(found):
        return ""
    verb, names = "holds" if len(found) == 1 else "hold", _listed(list(P.rows.names.take(found)))
    return f"; {count(len(found), 'inequality')} {verb} with equality everywhere: {names}"


def lineality(P: Polyhedron) -> int:
    """The number of independent directions along which no row changes."""
    if P.intervals.all() or P.is_bounded:
        return 0
    pairs = ((len(group.index), group.polyhedron) for group in P.block_groups)
    return sum(n * (block.dim - row_rank(Rows.stack([block.rows, block.equality_rows]))) for n, block in pairs)


def blocks(groups: Sequence[BlockGroup]) -> str:
    """How many blocks, and how large the first kinds are where there are several."""
    parts = [f"{len(g.blocks)} of {g.blocks.shape[1]}" for g in groups[:MOST]]
    more = f" and {count(len(groups) - MOST, 'kind')} more" if len(groups) > MOST else ""
    number = sum(len(g.blocks) for g in groups)
    return count(number, "block") + (f" ({', '.join(parts)}{more})" if number > 1 else "")


# -- the outline -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Outline:
    """Corners (p, k) of the clipped set, its faces as rings of corner numbers, and the window (2, k) that cut it."""

    corners: Array
    faces: list[Array]
    window: Array | None

    @cached_property
    def cut(self) -> Array:
        """The sides of the window that each corner lies on, (p, 2, k): the set goes on beyond such a corner."""
        if self.window is None:
            return np.zeros((len(self.corners), 2, self.corners.shape[1]), bool)
        size = float((self.window[1] - self.window[0]).max())
        return np.asarray(np.abs(self.corners[:, None] - self.window) <= 1e-7 * size)

    def edges(self) -> list[tuple[int, int]]:
        """Pairs of corners along the faces, without those that only the window has made."""
        ends = [np.sort(np.stack([ring, np.roll(ring, -1)], 1)) for ring in self.faces]
        pairs = np.unique(np.concatenate(ends), axis=0).tolist()
        return [(a, b) for a, b in pairs if a != b and not (self.cut[a] & self.cut[b]).any()]

    def true_corners(self) -> Array:
        """Numbers of the corners that are the set's own, not the window's."""
        used = np.unique(np.concatenate(self.faces))
        return used[~self.cut[used].any((1, 2))]

    def true_faces(self) -> list[Array]:
        """The faces with an area that the window has not made (in the plane: the clipped set itself)."""
        flat = self.corners.shape[1] < 3
        return [face for face in self.faces if len(face) > 2 and (flat or not self.cut[face].all(0).any())]


def outline(G: Generators, window: Array | None, around: Array) -> Outline:
    """The outline of generators in R^2 or R^3; unbounded ones are clipped to a window around vertices and points."""
    if not len(G.rays) and not len(G.lines):
        return _outline_of(G.vertices, None)
    window = default_window(np.concatenate([G.vertices, around])) if window is None else np.asarray(window, float)
    shown = G.to_polyhedron()
    clipped = shown & type(shown)(lower=window[0], upper=window[1])
    return _outline_of(clipped.generators().vertices, window)


def default_window(points: Array) -> Array:
    """Lower and upper corner (2, k): the points' bounding box with as much again around it."""
    low, high = points.min(0), points.max(0)
    margin = max(1.0, float((high - low).max()))
    return np.stack([low - margin, high + margin])


def _outline_of(points: Array, window: Array | None) -> Outline:
    points = np.unique(np.round(points, 12), axis=0)
    centre = points.mean(0)
    _, sizes, axes = np.linalg.svd(points - centre, full_matrices=False)
    rank = int((sizes > SAME * max(1.0, float(sizes.max(initial=0.0)))).sum())
    if rank < 3:
        flat = (points - centre) @ axes[:rank].T if rank else np.zeros((len(points), 0))
        return Outline(points, [ring(flat)], window)
    return Outline(points, _faces(points), window)


def ring(points: Array) -> Array:
    """Numbers of the extreme points (n, 0 to 2) in the order of the hull, counter-clockwise."""
    from scipy.spatial import ConvexHull  # for pictures alone

    if points.shape[1] == 0:
        return np.zeros(1, np.int64)
    if points.shape[1] == 1:
        return np.array([points[:, 0].argmin(), points[:, 0].argmax()])
    return np.asarray(ConvexHull(points).vertices)


def _faces(points: Array) -> list[Array]:
    """The facets of a hull in R^3 as rings; triangles of one plane are one face."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points)
    planes: dict[tuple[float, ...], set[int]] = {}
    for triangle, plane in zip(hull.simplices, hull.equations, strict=True):
        planes.setdefault(tuple(np.round(plane, 7) + 0.0), set()).update(int(i) for i in triangle)
    faces = []
    for members in planes.values():
        numbers = np.array(sorted(members))
        flat = points[numbers] - points[numbers].mean(0)
        faces.append(numbers[ring(flat @ np.linalg.svd(flat)[2][:2].T)])
    return faces


def section(P: Polyhedron, pick: Array, at: Array) -> Polyhedron:
    """The points of P whose other coordinates are those of ``at``, in the picked coordinates alone."""
    rest = np.setdiff1d(np.arange(P.dim), pick)
    parts: list[Any] = []
    for rows, equal in ((P.rows, False), (P.equality_rows, True)):
        matrix = rows.matrix.toarray()
        keep = np.abs(matrix[:, pick]).any(1)
        left = rows.rhs - matrix[:, rest] @ at[rest]
        size = np.abs(rows.rhs) + np.abs(matrix[:, rest]) @ np.abs(at[rest])
        broken = np.flatnonzero(~keep & ((np.abs(left) if equal else -left) > SAME * size))
        if len(broken):
            name = rows.names[broken[0]]
            raise EmptySetError(f"The section is empty: {name} is broken at this point, wherever one looks.", (name,))
        parts += [matrix[keep][:, pick], left[keep]]
    A, b, A_eq, b_eq = parts
    return type(P)(A, b, A_eq, b_eq, shape=len(pick))


def projection(P: Polyhedron, pick: Array, window: Array | None, around: Array) -> Outline:
    """The shadow of P on the picked coordinates: that of its generators, or linear programs where they are too many."""
    try:
        G = P.generators(max_generators=MAX_GENERATORS)
    except BudgetExceededError:
        if len(pick) != 2:
            raise
        return _traced(P, pick, window, around)
    vertices, rays, lines = (part[:, pick] for part in G.stated)  # exact where they were
    along, both_ways = (part[np.abs(part).any(1)] for part in (rays, lines))
    return outline(type(G)(vertices, along, both_ways), window, around)


def _traced(P: Polyhedron, pick: Array, window: Array | None, around: Array) -> Outline:
    """Support points, then between neighbours wherever the set goes beyond their edge."""
    if window is None and not P.is_bounded:
        window = default_window(np.concatenate([P.interior_point().ravel()[None, pick], around]))
    corners = [_support(P, pick, np.array(v, float), window) for v in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    done = 0
    while done < len(corners):
        a, b = corners[done], corners[(done + 1) % len(corners)]
        normal = np.array([b[1] - a[1], a[0] - b[0]])
        length = float(np.linalg.norm(normal))
        found = _support(P, pick, normal / length, window) if length > SAME else a
        if length > SAME and float((found - a) @ normal) > 1e-6 * length * max(1.0, length):
            corners.insert(done + 1, found)
        else:
            done += 1
    return _outline_of(np.array(corners), window)


def _support(P: Polyhedron, pick: Array, direction: Array, window: Array | None) -> Array:
    """The point of P, in the picked coordinates, that goes furthest along a direction."""
    cost = np.zeros(P.dim)
    cost[pick] = -direction
    bounds = np.full((P.dim, 2), (-np.inf, np.inf))
    if window is not None:
        bounds[pick] = window.T
    result = solve(cost, *P.rows.unit[:2], *P.equality_rows.unit[:2], bounds)
    if result.status != 0:
        raise ValueError(f"the set has no outline in this window: HiGHS says {result.message!r}.")
    return np.asarray(result.x[pick])
