"""The affine hull of a set: independent equalities, stated and implicit, in a form that floats can work with."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from rayhull.errors import UnverifiedError
from rayhull.exact.elimination import DENSE_ENTRIES, independent_rows, inverse
from rayhull.exact.numbers import Array, primitive
from rayhull.sets.names import Label, Names
from rayhull.sets.rows import Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

# Pivots of unit rows: from WELL on the rows serve as they are; up to DEPENDENT a row depends on the others.
WELL, CERTAIN, DEPENDENT = 1e-5, 1e-11, 1e-14


def independent_equalities(rows: Rows) -> Rows:
    """As many rows as the rank, with the same solutions.

    Rows that are far from dependent stay as they are. Exact ones that are not are reduced by exact elimination, so that
    {x1 + x2 + x3 = 0, 10¹⁰ (x1 + x2 + x3) + x3 = 1} becomes {x1 + x2 = -1, x3 = 1}; floats are made orthonormal.
    """
    if not len(rows) or len(rows) * rows.dim > DENSE_ENTRIES:
        return rows
    unit, rhs, _ = unit_rows(rows.matrix, rows.rhs)
    _, triangle, order = scipy.linalg.qr(unit.toarray().T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    if len(rows) <= rows.dim and pivots.min() > WELL:
        return rows
    if rows.integers is not None:
        return _reduced(rows)
    _refuse_unclear(rows, pivots, order)
    return _orthonormal(unit.toarray(), rhs, order[: int((pivots >= CERTAIN).sum())])


def _reduced(rows: Rows) -> Rows:
    """The reduced echelon form: the identity in the pivot columns, as integers."""
    matrix, rhs = (v.astype(object) for v in rows.dense_integers())
    chosen, pivots = independent_rows(matrix)
    back, scales = (v.astype(object) for v in inverse(matrix[np.ix_(chosen, pivots)]))
    common = math.lcm(*(int(s) for s in scales))
    weights = back * (common // scales)  # (inverse of the pivot columns) · common
    table = primitive(np.concatenate([weights.dot(matrix[chosen]), weights.dot(rhs[chosen])[:, None]], axis=1))
    return _from_table(table[:, :-1], table[:, -1])


def _refuse_unclear(rows: Rows, pivots: Array, order: Array) -> None:
    unclear = np.flatnonzero((pivots > DEPENDENT) & (pivots < CERTAIN))
    if len(unclear):
        name = rows.names[order[unclear[0]]]
        raise UnverifiedError(
            f"Floats cannot tell whether the equality {name} depends on the others (a pivot of "
            f"{pivots[unclear[0]]:.1e}). Give the equalities as integers or fractions, or leave it out."
        )


def _orthonormal(unit: Array, rhs: Array, chosen: Array) -> Rows:
    """The chosen rows made orthonormal: L Q x = rhs becomes Q x = L⁻¹ rhs."""
    basis, triangle = scipy.linalg.qr(unit[chosen].T, mode="economic")
    return _from_table(basis.T, scipy.linalg.solve_triangular(triangle.T, rhs[chosen], lower=True))


def _from_table(matrix: Array, rhs: Array) -> Rows:
    row, column = np.nonzero(matrix)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
    names = Names.by(Label("equality {}"), np.arange(len(matrix)))
    return Rows(matrix[row, column], column, indptr, matrix.shape[1], rhs, names)


def affine_hull(P: Polyhedron, implicit: Array) -> tuple[sp.csr_array, Array]:
    """The equalities of P, stated and implicit (booleans over ``P.rows``), as unit rows and right-hand sides."""
    rows = Rows.stack([P.independent_equalities, P.rows.take(np.flatnonzero(implicit))])
    return unit_rows(rows.matrix, rows.rhs)[:2]


def onto_equalities(E: sp.csr_array, e: Array, points: Array) -> Array:
    """Points (n, d) that satisfy E x = e but for rounding, corrected to the last few ulp."""
    for _ in range(2 if len(e) else 0):
        residual = (E @ points.T).T - e
        if E.shape[0] * E.shape[1] <= DENSE_ENTRIES:
            points = points - np.linalg.lstsq(E.toarray(), residual.T, rcond=None)[0].T
        else:
            points = points - np.stack([lsqr(E, r, atol=1e-16, btol=1e-16)[0] for r in residual])
    return points
