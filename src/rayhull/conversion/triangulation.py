"""A polytope as simplices that meet only in faces, from its own vertices and rows: volumes and uniform points.

The pulling triangulation: a polytope is the union of the simplices that its first vertex spans with the triangulated
facets that do not hold it. Faces are sets of vertices; the facets of a face are its largest intersections with rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.errors import BudgetExceededError
from rayhull.exact.matrices import product, times
from rayhull.sets.equalities import affine_hull
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.polyhedron import Polyhedron

MAX_SIMPLICES = 200_000
MAX_VERTICES = 5_000
ON_THE_ROW = 1e-9  # of the row's scale, for sets that are not exact


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
    _refuse_unbounded(P)
    parts = [(triangulate(group.polyhedron), *group.index.shape) for group in P.block_groups]
    hull = sum(count * part.dim for part, count, _ in parts)
    if hull < P.dim and not relative:
        raise ValueError(
            f"the set has no interior: it is {hull}-dimensional in R^{P.dim}, and its volume there is 0. "
            f"volume(relative=True) is its {hull}-dimensional volume, measured within its affine hull."
        )
    return math.exp(math.fsum(count * math.log(part.volumes.sum()) for part, count, _ in parts))


def _refuse_unbounded(P: Polyhedron) -> None:
    if not P.is_bounded:
        raise ValueError(
            "the set is unbounded, so it has no finite volume and no uniform distribution: bound it first, for example "
            "P & rayhull.box(-1, 1)."
        )


def triangulate(P: Polyhedron) -> Triangulation:
    """The pulling triangulation of a bounded set.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.conversion.triangulation import triangulate
        >>> triangulate(rh.box(0, 1, 3) & rh.Polyhedron([[1, 1, 1]], 2)).volumes.sum().round(12)  # 1 - 1/6
        np.float64(0.833333333333)
    """
    _refuse_unbounded(P)
    G = P.generators(max_generators=MAX_VERTICES)
    basis = _hull_basis(P)
    faces = _Faces(_vertices_on_rows(P, G), len(G.vertices))
    simplices = np.array(faces.simplices_of(faces.all), np.int64).reshape(-1, basis.shape[1] + 1)
    corners = (G.vertices @ basis)[simplices]  # (n, k + 1, k)
    edges = corners[:, 1:] - corners[:, :1]
    return Triangulation(G.vertices, simplices, np.abs(np.linalg.det(edges)) / math.factorial(basis.shape[1]))


def _hull_basis(P: Polyhedron) -> Array:
    """An orthonormal basis (d, k) of the directions of the affine hull."""
    equal = affine_hull(P, P.centre.implicit)[0].toarray()
    return np.asarray(scipy.linalg.null_space(equal)) if len(equal) else np.eye(P.dim)


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
            self._check(len(made))
            self.known[face] = made
        return self.known[face]

    def _check(self, count: int) -> None:
        if count > MAX_SIMPLICES:
            raise BudgetExceededError(
                f"the set needs more than {MAX_SIMPLICES} simplices: its volume is out of reach of a triangulation. "
                "P.sample(n) draws points by hit-and-run, which needs none."
            )
