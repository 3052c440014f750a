"""Round coordinates as a direction: coefficients in the units of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from rayhull.maps.coordinates import FEW, round_coordinates
from rayhull.nn.base_point import View
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Direction, Free, undone
from rayhull.nn.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


SPARSE = 8  # a dense matrix may have this many times the entries of the rows


class Round(Direction):
    """y = M c less its part in the equalities' row space, M = H^(-1/2) at the base point (:mod:`maps.coordinates`).

    Args:
        matrix: M (n, n), or the diagonal (n,) of a diagonal one.
        equal: orthonormal basis (n, k) of the equalities' row space.
    """

    identity_inside = True
    matrix: Tensor

    def __init__(self, matrix: Array, equal: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(matrix)
        self.diagonal = matrix.ndim == 1
        self.onto_hull = Free(equal, factory)
        self.constant("matrix", matrix, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        out: Tensor = self.onto_hull(self.free(c), sides)
        return out

    def free(self, c: Tensor) -> Tensor:
        return c * self.matrix if self.diagonal else c @ self.matrix

    def coefficients_of(self, y: Tensor) -> Tensor:
        return undone(y, self.exact("matrix"))

    def fold(self) -> tuple[Array, Direction]:
        matrix = self.exact("matrix")
        return np.diag(matrix) if self.diagonal else matrix, self.onto_hull


def coordinates_at(P: Polyhedron, view: View, scale: float, *, diagonal: bool = False) -> Array:
    """M for a block seen from a base point at which every row of ``view.loose`` has slack."""
    rows = sp.csr_array(P.rows.matrix[view.loose])
    size = None if P.is_bounded else scale
    sparse = P.dim > FEW and SPARSE * rows.nnz < P.dim**2  # such sets stay sparse
    return round_coordinates(rows, view.slack, size, equal=view.equal, diagonal=diagonal or sparse)
