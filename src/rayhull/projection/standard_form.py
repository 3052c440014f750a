"""One kind of block in standard form: unit rows G z <= c (the last ones =), bounds, and the metric made Euclidean.

Nearly parallel equalities become rows at right angles that describe the same plane, worked out in rational arithmetic:
[[1, 1, 1], [10**10, 10**10, 10**10 + 1]] x = (0, 1) means x[2] = 1; in floats the second row is the first, almost.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from rayhull.projection.matrix import DEPENDENT, Matrix
from rayhull.sets.rows import Array, Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NEARLY = 1e-5  # singular values below this, relative to the largest: floats would lose five digits of the point
ENTRIES, WORK = 1_000_000, 400_000  # entries looked at, and steps of rational elimination that are worth their time


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
        scale = 1.0 if root is None else root
        inequalities, equalities = P.inequalities.without_zeros(), P.equalities.without_zeros()
        stated, m = Rows.stack([inequalities, equalities]), len(inequalities)
        unit, c, norms = _unit_rows(stated, root)
        replaced = independent_equalities(equalities, scale) if stated is not inequalities else None
        if replaced is not None:
            basis, combination = replaced
            unit = sp.vstack([unit[:m], sp.csr_array(basis)], format="csr")
            norms[m:], c[m:] = 1.0, combination @ equalities.rhs
        rows = sp.csr_array(unit)
        rows.sort_indices()
        lower, upper = P.lower_bounds * scale, P.upper_bounds * scale
        return StandardForm(
            Matrix(rows), m, c, lower, upper, norms, root, compiled, None if replaced is None else replaced[1]
        )

    @property
    def d(self) -> int:
        return len(self.lower)

    @cached_property
    def bounded(self) -> bool:
        """Whether some coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def differences(self) -> tuple[Array, Array] | None:
        """(small, large) with every row x[small] − x[large] <= something, up to its scale; None for other rows."""
        rows = self.matrix.rows
        if self.m != self.matrix.count or not self.m or (np.diff(rows.indptr) != 2).any():
            return None
        root = np.ones(self.d) if self.root is None else self.root
        ends = rows.indices.reshape(-1, 2)
        values = rows.data.reshape(-1, 2) * root[ends]  # in plain coordinates, up to the row's scale
        if not np.allclose(values[:, 0], -values[:, 1], rtol=1e-14, atol=0):
            return None
        first = values[:, 0] > 0
        return np.where(first, ends[:, 0], ends[:, 1]), np.where(first, ends[:, 1], ends[:, 0])


def _unit_rows(rows: Rows, root: Array | None) -> tuple[sp.csr_array, Array, Array]:
    """Rows of unit length in scaled coordinates, right-hand sides, and their norms."""
    scaled = rows.matrix if root is None else sp.csr_array(rows.matrix @ sp.diags_array(1 / root))
    return unit_rows(scaled, rows.rhs)


def independent_equalities(equalities: Rows, scale: Array | float) -> tuple[Array, Array] | None:
    """Rows Q and a matrix T with {z : Q z = T b_eq} the same plane in scaled coordinates; None where no need is.

    Q has rows at right angles, then a zero row for each dependent equality, whose T b_eq is 0 as long as the
    right-hand sides agree.
    """
    k, d = len(equalities), equalities.dim
    if k < 2 or k * d > ENTRIES or not _is_nearly_dependent(equalities):
        return None
    echelon, combination = _echelon(_rationals(equalities))
    rank = sum(any(row) for row in echelon)
    R, T = np.array(echelon, float) / scale, np.array(combination, float)
    q, upper = np.linalg.qr(R[:rank].T)  # R = upper^T q^T
    Q, C = np.zeros((k, d)), T.copy()
    Q[:rank], C[:rank] = q.T, np.linalg.solve(upper.T, T[:rank])
    return Q, C


def _is_nearly_dependent(equalities: Rows) -> bool:
    k, d = len(equalities), equalities.dim
    if k * k * d > WORK:
        return False
    rows = equalities.matrix.toarray()
    rows = rows / np.abs(rows).max(1, keepdims=True)
    values = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), compute_uv=False)
    values = np.append(values, np.zeros(max(0, k - d))) / values[0]
    if equalities.integers is not None:
        return bool(values[-1] < NEARLY) and bool((values[values > DEPENDENT] < NEARLY).any() or _hidden(equalities))
    return bool(NEARLY > values[-1] > DEPENDENT)  # floats that depend up to rounding are taken as dependent


def _hidden(equalities: Rows) -> bool:
    """Whether integers are so large that rows which look dependent in floats may not be."""
    assert equalities.integers is not None
    return max((abs(int(v)) for v in equalities.integers[0]), default=0) > 2**26


def _rationals(equalities: Rows) -> list[list[Fraction]]:
    """The stated rows exactly, each beside its row of the identity."""
    k, width = len(equalities), equalities.dim
    rows = [[Fraction(0)] * width + [Fraction(int(i == j)) for j in range(k)] for i in range(k)]
    stated = equalities.data.tolist()
    for i, j, value in zip(equalities.row_of_entry.tolist(), equalities.indices.tolist(), stated, strict=True):
        rows[i][j] = Fraction(value)
    return rows


def _echelon(rows: list[list[Fraction]]) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Reduced row echelon form, and the combinations of rows that give it; dependent rows come last, as 0."""
    k = len(rows)
    width, done = len(rows[0]) - k, 0
    for column in range(width):
        pivot = next((i for i in range(done, k) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        head = rows[done][column]
        rows[done] = [v / head for v in rows[done]]
        for i in range(k):
            if i != done and rows[i][column]:
                factor = rows[i][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[done], strict=True)]
        done += 1
    return [row[:width] for row in rows], [row[width:] for row in rows]
