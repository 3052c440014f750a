"""One kind of block in standard form: unit rows G z <= c (the last ones =), bounds, and the metric made Euclidean."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from rayhull.projection.equalities import independent_equalities
from rayhull.projection.matrix import Matrix
from rayhull.sets.rows import Array, Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True, eq=False)
class StandardForm:
    """min ½‖z − y‖² subject to G z <= c for the first ``m`` rows, = c for the others, lower <= z <= upper.

    Weights w are absorbed: z = √w x. Each row is scaled to unit length, so that a violation is a distance.
    """

    matrix: Matrix  # G (M, d), rows of unit length
    m: int  # inequalities come first
    c: Array  # (M,)
    lower: Array  # (d,)
    upper: Array  # (d,)
    norms: Array  # (M,): stated row = norms * unit row, in scaled coordinates
    root: Array | None  # (d,): √w, or None for the plain metric
    compiled: bool  # whether the compiled kernels serve the device
    combination: Array | None = None  # (k, k_stated): c of the equalities = combination @ b_eq; None: b_eq / norms

    @staticmethod
    def of(P: Polyhedron, weights: Array | None = None, *, compiled: bool = True) -> StandardForm:
        root = None if weights is None or (weights == 1).all() else np.sqrt(weights)
        inequalities, equalities = P.inequalities.without_zeros(), P.equalities.without_zeros()
        scale = 1.0 if root is None else root
        unit, c, norms = _unit_rows(inequalities, root)
        replaced = independent_equalities(equalities, scale)
        if replaced is None:
            unit_eq, c_eq, norms_eq = _unit_rows(equalities, root)
            combination = None
        else:
            basis, combination = replaced
            unit_eq, norms_eq, c_eq = sp.csr_array(basis), np.ones(len(basis)), combination @ equalities.rhs
        rows = sp.csr_array(sp.vstack([unit, unit_eq], format="csr"))
        rows.sort_indices()
        c = np.concatenate([c, c_eq])
        lower, upper = P.lower_bounds * scale, P.upper_bounds * scale
        stated = np.concatenate([norms, norms_eq])
        return StandardForm(Matrix(rows), len(inequalities), c, lower, upper, stated, root, compiled, combination)

    @property
    def d(self) -> int:
        return len(self.lower)

    @cached_property
    def bounded(self) -> bool:
        """Whether some coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


def _unit_rows(rows: Rows, root: Array | None) -> tuple[sp.csr_array, Array, Array]:
    """Rows of unit length in scaled coordinates, right-hand sides, and their norms."""
    scaled = rows.matrix if root is None else sp.csr_array(rows.matrix @ sp.diags_array(1 / root))
    return unit_rows(scaled, rows.rhs)
