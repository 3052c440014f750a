r"""The log barrier's minimiser by Newton steps, for rows that are sparse, dense, or dense beside bounds.

.. math:: \min_x\; -\sum_i \log(b_i - a_i·x) + \frac{ρ}{2} |x - p|^2 \quad\text{on}\quad \{E x = e\}

A step solves with the Hessian H = WᵀW + ρ I, W the rows over their slacks. Sparse rows keep H sparse. Rows that are
many and not very sparse are multiplied as a dense matrix, which is faster; bounds beside them only touch H's diagonal.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.exact.numbers import Array
from rayhull.sets.systems import System, is_wide

STEPS = 50
CLOSE = 1e-10  # Newton decrement at which the steps end
MET = 1e-9  # and the error of the equalities, which the start need not meet
SMALL = 300  # coordinates up to which every step is dense
LARGE, HUGE, FILLED = 20_000, 10_000_000, 0.01  # entries between which rows with this share of non-zeros become dense
TOUCH = 1e-12  # of softness, for dependent equalities


def newton(
    A: sp.csr_array, b: Array, E: sp.csr_array, e: Array, x: Array, ridge: float, towards: Array | float = 0.0
) -> Array:
    """The minimiser of -sum log(b - A x) + ridge |x - towards|² / 2 on {E x = e}, from a point inside.

    Examples:
        >>> import numpy as np, scipy.sparse as sp
        >>> from rayhull.sets.barrier import newton
        >>> A, none = sp.csr_array([[1.0, 0], [-1, 0], [0, 1], [0, -1]]), sp.csr_array((0, 2))
        >>> newton(A, np.array([4.0, 0, 2, 2]), none, np.zeros(0), np.array([1.0, 1]), 0.0).round(6) + 0.0
        array([2., 0.])
    """
    filled = is_filled(A)
    size = float(np.abs(e).max(initial=0.0))
    for _ in range(STEPS):
        inverse = 1 / (b - A @ x)
        pull = ridge * (x - towards)
        step = _newton_step(A, filled, inverse, ridge, pull, E, e - E @ x)
        rates = (A @ step) * inverse
        worst = float(rates.max(initial=0.0))
        after = x + step * (1.0 if worst < 0.5 else 0.5 / worst)
        if not (b - A @ after > 0).all():  # as deep as floats resolve
            break
        x = after
        if -float(rates.sum() + pull @ step) < CLOSE and np.abs(e - E @ x).max(initial=0.0) < MET * (1 + size):
            break
    return np.asarray(x)


def one_by_one(low: Array, high: Array, x: Array, ridge: Array | float, towards: Array | float = 0.0) -> Array:
    """The same where every row is a bound, infinite ones being none: each coordinate by itself. Shape: (d,) → (d,)"""
    for _ in range(STEPS):
        below, above = 1 / (x - low), 1 / (high - x)
        slope = above - below + ridge * (x - towards)
        step = -slope / (below**2 + above**2 + ridge)
        after = x + step / np.maximum(1.0, 2 * np.maximum(step * above, -step * below))
        x = np.where((low < after) & (after < high), after, x)
        if (slope * step).min() > -CLOSE:
            break
    return x


def is_filled(A: sp.csr_array) -> bool:
    """Whether steps take dense matrices: in few coordinates, and where rows of several entries are not very sparse."""
    sizes = np.diff(A.indptr)
    size = (sizes > 1).sum() * A.shape[1]
    return A.shape[1] <= SMALL or (LARGE < size < HUGE and bool(sizes[sizes > 1].sum() > FILLED * size))


def _newton_step(
    A: sp.csr_array, filled: bool, inverse: Array, ridge: float, pull: Array, E: sp.csr_array, residual: Array
) -> Array:
    """The step s with E s = residual that minimises |W s + 1|² + ridge |s|² + 2 pull·s, W = A / slack.

    Bounds, rows of one entry, add to the diagonal of the Hessian alone.
    """
    W, gradient = sp.csr_array(sp.diags_array(inverse) @ A), -(A.T @ inverse + pull)
    many = np.diff(W.indptr) > 1
    diagonal = ridge + np.asarray(W[np.flatnonzero(~many)].power(2).sum(0)).ravel()
    rows, wide = W[np.flatnonzero(many)], is_wide(len(pull))
    try:
        if filled and not wide:
            return _dense_step(diagonal, rows.toarray(), E.toarray(), gradient, residual)
        soft = np.repeat([0.0 if wide else TOUCH, 1.0], [len(residual), len(rows.indptr) - 1])
        right = np.append(residual, np.zeros(len(soft) - len(residual)))
        return System(diagonal, sp.vstack([E, rows]), soft).solve(gradient, right)[0]
    except (RuntimeError, np.linalg.LinAlgError):  # WᵀW of a thin set is singular in floats; W itself is not
        if wide:
            raise
        return _least_squares_step(W.toarray(), ridge, pull, E.toarray(), residual)


def _dense_step(diagonal: Array, rows: Array, E: Array, gradient: Array, residual: Array) -> Array:
    """By Cholesky factors of H and of E H⁻¹ Eᵀ, with a touch of softness that allows dependent equalities."""
    hessian = rows.T @ rows
    hessian.flat[:: len(diagonal) + 1] += diagonal
    factor = scipy.linalg.cho_factor(hessian)
    free = scipy.linalg.cho_solve(factor, gradient)
    if not len(E):
        return np.asarray(free)
    moved = scipy.linalg.cho_solve(factor, E.T)  # H⁻¹ Eᵀ
    across = E @ moved
    across.flat[:: len(E) + 1] *= 1 + TOUCH
    return np.asarray(free - moved @ scipy.linalg.cho_solve(scipy.linalg.cho_factor(across), E @ free - residual))


def _least_squares_step(W: Array, ridge: float, pull: Array, E: Array, residual: Array) -> Array:
    basis = scipy.linalg.null_space(E) if len(E) else np.eye(W.shape[1])
    start = np.linalg.lstsq(E, residual, rcond=None)[0] if len(E) else np.zeros(W.shape[1])
    system = np.concatenate([W @ basis, np.sqrt(ridge) * basis])
    target = -np.concatenate([1 + W @ start, np.sqrt(ridge) * start + pull / np.sqrt(ridge)])
    return np.asarray(start + basis @ np.linalg.lstsq(system, target, rcond=None)[0])
