r"""The log barrier's minimiser by Newton steps, for rows that are sparse, dense, or dense beside bounds.

.. math:: \min_x\; -\sum_i \log(b_i - a_i·x) + \frac{ρ}{2} |x - p|^2 \quad\text{on}\quad \{E x = e\}

A step solves with the Hessian H = WᵀW + ρ I, W the rows over their slacks. Sparse rows keep H sparse. Rows that are
many and mostly filled are multiplied as a dense matrix, which is faster; bounds beside them only touch H's diagonal.
Filled rows that are few beside the coordinates, and nothing else, are seen in their own span: x is p beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from rayhull.exact.numbers import Array
from rayhull.sets.systems import System, is_wide

STEPS = 50
CLOSE = 1e-10  # Newton decrement at which the steps end
MET = 1e-9  # and the error of the equalities, which the start need not meet
LARGE, HUGE, FILLED = 20_000, 10_000_000, 0.3  # entries between which rows with this share of non-zeros become dense
FEW = 0.5  # rows for each coordinate up to which steps are taken in the rows' span


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
    filled = Filled.of(A)
    if filled is not None and ridge > 0 and not E.shape[0] and len(filled.rows) == len(b) <= FEW * A.shape[1]:
        inside = _in_span(filled.dense, b, x, ridge, np.broadcast_to(towards, x.shape))
        if (b - A @ inside > 0).all():
            return inside
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


def _in_span(rows: Array, b: Array, x: Array, ridge: float, towards: Array) -> Array:
    """The minimiser for few rows A = L Qᵀ without equalities: x = p + Q (z - Qᵀp), z the minimiser for the rows L."""
    basis, upper = np.linalg.qr(rows.T)  # (n, m), (m, m)
    near, none = basis.T @ towards, sp.csr_array((0, len(b)))
    z = newton(sp.csr_array(upper.T), b, none, np.zeros(0), basis.T @ x, ridge, near)
    return np.asarray(towards + basis @ (z - near))


@dataclass(frozen=True, eq=False)
class Filled:
    """Rows with several entries as a dense matrix, and rows with one entry, bounds, by their places."""

    dense: Array  # (k, n)
    rows: Array  # (k,) their numbers
    bounds: Array  # (j,) numbers of the others
    columns: Array  # (j,)
    squares: Array  # (j,) of their entries

    @classmethod
    def of(cls, A: sp.csr_array) -> Filled | None:
        """The rows in this form where those with several entries are large and mostly filled; else None."""
        counts = np.diff(A.indptr)
        rows, bounds = np.flatnonzero(counts > 1), np.flatnonzero(counts == 1)
        size = len(rows) * A.shape[1]
        if not LARGE < size < HUGE or counts[rows].sum() <= FILLED * size:
            return None
        entries = A.indptr[bounds]
        return cls(A[rows].toarray(), rows, bounds, A.indices[entries], A.data[entries] ** 2)

    def hessian(self, inverse: Array) -> Array:
        """WᵀW for the rows over their slacks. Shape: 1 / slack (m,) → (n, n)"""
        weighted = self.dense * inverse[self.rows, None]
        found = weighted.T @ weighted
        n = len(found)
        found.flat[:: n + 1] += np.bincount(self.columns, self.squares * inverse[self.bounds] ** 2, n)
        return np.asarray(found)


def _newton_step(
    A: sp.csr_array, filled: Filled | None, inverse: Array, ridge: float, pull: Array, E: sp.csr_array, residual: Array
) -> Array:
    """The step s with E s = residual that minimises |W s + 1|² + ridge |s|² + 2 pull·s, W = A / slack."""
    gradient = -(A.T @ inverse + pull)
    if is_wide(len(pull)):
        return _wide_step(_over_slacks(A, inverse), ridge, E, gradient, residual)
    try:
        if filled is None:
            W = _over_slacks(A, inverse)
            hessian = sp.csr_array(W.T @ W) + ridge * sp.eye_array(len(pull))
            return _sparse_step(hessian, E, gradient, residual)
        return _dense_step(filled.hessian(inverse) + ridge * np.eye(len(pull)), E.toarray(), gradient, residual)
    except (RuntimeError, np.linalg.LinAlgError):  # WᵀW of a thin set is singular in floats; W itself is not
        return _least_squares_step(_over_slacks(A, inverse).toarray(), ridge, pull, E.toarray(), residual)


def _over_slacks(A: sp.csr_array, inverse: Array) -> sp.csr_array:
    """W, the rows over their slacks."""
    return sp.csr_array(sp.diags_array(inverse) @ A)


def _wide_step(W: sp.csr_array, ridge: float, E: sp.csr_array, gradient: Array, residual: Array) -> Array:
    """The same with W itself in the system, which a long row does not fill; bounds add to the diagonal."""
    many = np.diff(W.indptr) > 1
    diagonal = ridge + np.asarray(W[np.flatnonzero(~many)].power(2).sum(0)).ravel()
    rows, soft = sp.vstack([E, W[np.flatnonzero(many)]]), np.repeat([0.0, 1.0], [len(residual), many.sum()])
    return System(diagonal, rows, soft).solve(gradient, np.append(residual, np.zeros(many.sum())))[0]


def _sparse_step(hessian: sp.sparray, E: sp.csr_array, gradient: Array, residual: Array) -> Array:
    """The Newton step inside {E step = residual}; a touch of regularisation allows dependent equalities."""
    d, k = len(gradient), E.shape[0]
    if not k:
        return np.asarray(splu(sp.csc_array(hessian)).solve(gradient))
    touch = 1e-12 * float(abs(hessian).max())
    system = sp.block_array([[hessian, E.T], [E, -sp.eye_array(k) / max(1.0, 1 / touch)]], format="csc")
    return np.asarray(splu(sp.csc_array(system)).solve(np.concatenate([gradient, residual]))[:d])


def _dense_step(hessian: Array, E: Array, gradient: Array, residual: Array) -> Array:
    """The same by Cholesky factors of H and of E H⁻¹ Eᵀ; dependent equalities are for the least squares."""
    factor = scipy.linalg.cho_factor(hessian)
    free = scipy.linalg.cho_solve(factor, gradient)
    if not len(E):
        return np.asarray(free)
    moved = scipy.linalg.cho_solve(factor, E.T)  # H⁻¹ Eᵀ
    multipliers = scipy.linalg.solve(E @ moved, E @ free - residual, assume_a="pos")
    return np.asarray(free - moved @ multipliers)


def _least_squares_step(W: Array, ridge: float, pull: Array, E: Array, residual: Array) -> Array:
    basis = scipy.linalg.null_space(E) if len(E) else np.eye(W.shape[1])
    start = np.linalg.lstsq(E, residual, rcond=None)[0] if len(E) else np.zeros(W.shape[1])
    system = np.concatenate([W @ basis, np.sqrt(ridge) * basis])
    target = -np.concatenate([1 + W @ start, np.sqrt(ridge) * start + pull / np.sqrt(ridge)])
    return np.asarray(start + basis @ np.linalg.lstsq(system, target, rcond=None)[0])
