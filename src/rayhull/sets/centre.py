"""A well-centred interior point: the Chebyshev centre, then Newton steps to the analytic centre, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr, splu

from rayhull.exact.numbers import Array
from rayhull.sets.linear_programs import relative_interior

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NEWTON_STEPS = 50


@dataclass(frozen=True)
class Centre:
    """A point of the relative interior, and which of the set's rows are implicit equalities."""

    point: Array  # (d,)
    implicit: Array  # (m,) booleans over P.rows


def centre(P: Polyhedron) -> Centre:
    """The minimiser of -sum log(b - A x) + |x|² / (2 R²) over the affine hull.

    The last term, with R the size of the Chebyshev centre, stands in where the set is unbounded; on a bounded set it
    only leans a little towards 0.
    """
    alone = len(P.block_groups) == 1 and len(P.block_groups[0].index) == 1
    return _centre_of_block(P) if alone else _from_blocks(P)


def _from_blocks(P: Polyhedron) -> Centre:
    point, implicit = np.zeros(P.dim), np.zeros(len(P.rows), bool)
    for group in P.block_groups:
        part = group.polyhedron.centre
        point[group.index] = part.point
        implicit[group.rows] = part.implicit
    return Centre(point, implicit)


def _centre_of_block(P: Polyhedron) -> Centre:
    start = relative_interior(P)
    loose = np.flatnonzero(~start.implicit)
    A, b = sp.csr_array(P.rows.matrix[loose]), P.rows.rhs[loose]
    E, e = affine_hull(P, start.implicit)
    size = max(1.0, float(np.abs(start.point).max()))
    point = newton(A, b, E, e, start.point, 1 / size**2) if len(loose) else start.point
    return Centre(onto_equalities(E, e, point[None, :])[0], start.implicit)


def affine_hull(P: Polyhedron, implicit: Array) -> tuple[sp.csr_array, Array]:
    """The equalities of P, stated and implicit."""
    E = sp.csr_array(sp.vstack([P.equality_rows.matrix, P.rows.matrix[np.flatnonzero(implicit)]], format="csr"))
    return E, np.concatenate([P.equality_rows.rhs, P.rows.rhs[implicit]])


def onto_equalities(E: sp.csr_array, e: Array, points: Array) -> Array:
    """Points (n, d) that satisfy E x = e but for rounding, corrected to the last few ulp."""
    for _ in range(2 if len(e) else 0):
        residual = (E @ points.T).T - e
        if E.shape[0] * E.shape[1] <= 4_000_000:
            points = points - np.linalg.lstsq(E.toarray(), residual.T, rcond=None)[0].T
        else:
            points = points - np.stack([lsqr(E, r, atol=1e-16, btol=1e-16)[0] for r in residual])
    return points


def newton(
    A: sp.csr_array, b: Array, E: sp.csr_array, e: Array, x: Array, ridge: float, towards: Array | float = 0.0
) -> Array:
    """The minimiser of -sum log(b - A x) + ridge |x - towards|² / 2 on {E x = e}, from a point inside."""
    for _ in range(NEWTON_STEPS):
        slack = b - A @ x
        gradient = A.T @ (1 / slack) + ridge * (x - towards)
        weighted = sp.diags_array(1 / slack) @ A
        hessian = weighted.T @ weighted + ridge * sp.eye_array(len(x))
        step = _kkt_step(hessian, E, -gradient, e - E @ x)
        decrement = float(-gradient @ step)
        change = A @ step
        worst = float((change / slack).max(initial=0.0))
        x = x + step * (1.0 if worst < 0.5 else 0.5 / worst)
        if decrement < 1e-10:
            break
    return np.asarray(x)


def _kkt_step(hessian: sp.sparray, E: sp.csr_array, gradient: Array, residual: Array) -> Array:
    """The Newton step inside {E step = residual}; a touch of regularisation allows dependent equalities."""
    d, k = len(gradient), E.shape[0]
    if not k:
        return np.asarray(splu(sp.csc_array(hessian)).solve(gradient))
    touch = 1e-12 * float(abs(hessian).max())
    system = sp.block_array([[hessian, E.T], [E, -sp.eye_array(k) / max(1.0, 1 / touch)]], format="csc")
    return np.asarray(splu(sp.csc_array(system)).solve(np.concatenate([gradient, residual]))[:d])
