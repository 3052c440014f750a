"""A well-centred interior point: the Chebyshev centre, then Newton steps to the analytic centre, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from rayhull.exact.numbers import Array
from rayhull.sets.equalities import affine_hull, onto_equalities
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
    A, b = loose_rows(P, start.implicit)
    E, e = affine_hull(P, start.implicit)
    size = max(1.0, float(np.abs(start.point).max()))
    point = newton(A, b, E, e, start.point, 1 / size**2) if len(b) else start.point
    return Centre(onto_equalities(E, e, point[None, :])[0], start.implicit)


def loose_rows(P: Polyhedron, implicit: Array) -> tuple[sp.csr_array, Array]:
    """The rows of P that are no implicit equalities, each divided by a power of two near its size."""
    matrix, rhs = P.rows.scaled
    loose = np.flatnonzero(~implicit)
    return sp.csr_array(matrix[loose]), rhs[loose]


def newton(
    A: sp.csr_array, b: Array, E: sp.csr_array, e: Array, x: Array, ridge: float, towards: Array | float = 0.0
) -> Array:
    """The minimiser of -sum log(b - A x) + ridge |x - towards|² / 2 on {E x = e}, from a point inside."""
    for _ in range(NEWTON_STEPS):
        slack = b - A @ x
        weighted = sp.csr_array(sp.diags_array(1 / slack) @ A)
        pull = ridge * (x - towards)
        step = _newton_step(weighted, ridge, pull, E, e - E @ x)
        worst = float((weighted @ step).max(initial=0.0))
        after = x + step * (1.0 if worst < 0.5 else 0.5 / worst)
        if not (b - A @ after > 0).all():  # as deep as floats resolve
            break
        decrement = -float((weighted @ step).sum() + pull @ step)
        x = after
        if decrement < 1e-10:
            break
    return np.asarray(x)


def _newton_step(W: sp.csr_array, ridge: float, pull: Array, E: sp.csr_array, residual: Array) -> Array:
    """The step s with E s = residual that minimises |W s + 1|² + ridge |s|² + 2 pull·s, W: rows over their slacks."""
    hessian = W.T @ W + ridge * sp.eye_array(len(pull))
    try:
        return _kkt_step(hessian, E, -(W.T @ np.ones(W.shape[0]) + pull), residual)
    except RuntimeError:  # WᵀW of a thin set is singular in floats; W itself is not
        return _least_squares_step(W.toarray(), ridge, pull, E.toarray(), residual)


def _least_squares_step(W: Array, ridge: float, pull: Array, E: Array, residual: Array) -> Array:
    basis = scipy.linalg.null_space(E) if len(E) else np.eye(W.shape[1])
    start = np.linalg.lstsq(E, residual, rcond=None)[0] if len(E) else np.zeros(W.shape[1])
    system = np.concatenate([W @ basis, np.sqrt(ridge) * basis])
    target = -np.concatenate([1 + W @ start, np.sqrt(ridge) * start + pull / np.sqrt(ridge)])
    return np.asarray(start + basis @ np.linalg.lstsq(system, target, rcond=None)[0])


def _kkt_step(hessian: sp.sparray, E: sp.csr_array, gradient: Array, residual: Array) -> Array:
    """The Newton step inside {E step = residual}; a touch of regularisation allows dependent equalities."""
    d, k = len(gradient), E.shape[0]
    if not k:
        return np.asarray(splu(sp.csc_array(hessian)).solve(gradient))
    touch = 1e-12 * float(abs(hessian).max())
    system = sp.block_array([[hessian, E.T], [E, -sp.eye_array(k) / max(1.0, 1 / touch)]], format="csc")
    return np.asarray(splu(sp.csc_array(system)).solve(np.concatenate([gradient, residual]))[:d])
