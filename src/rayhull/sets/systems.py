"""Sparse symmetric systems: factored once, solved for many right-hand sides; which sparse rows are independent."""

from __future__ import annotations

from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from rayhull.exact.numbers import Array
from rayhull.exact.progress import patiently

COORDINATES = 1000  # beyond so many points and certificates of a set are worked out with sparse rows
PIVOT = 1e-6  # a diagonal entry of less than this share of its column is no pivot; from 1e-4 on chains fill
WELL, TOUCH = 1e-10, 1e-13  # squared pivots of unit rows: from the first on a row is independent; what is added to all
ROUND = 20.0  # condition number up to which products with the rows solve a system, whose factor might fill
ACCURATE, POWERS, MORE = 1e-9, 30, 1.1  # of these products; power iterations, and by how much they fall short


def is_wide(d: int) -> bool:
    """Whether rows in so many coordinates stay sparse, whatever is worked out of them."""
    return d > COORDINATES


class System:
    """x and λ of D x + Rᵀ λ = r, R x - S λ = q for diagonals D and S >= 0: x = (D + Rᵀ S⁻¹ R)⁻¹ r for q = 0.

    R x = 0 where S is 0. The rows stay as they are, so that a long one does not fill a matrix.

    Args:
        diagonal: D (n,).
        rows: R (m, n), independent where S is 0.
        soft: S (m,).

    Examples:
        >>> import numpy as np, scipy.sparse as sp
        >>> from rayhull.sets.systems import System
        >>> onto_a_plane = System(np.ones(2), sp.csr_array([[1.0, 1.0]]), np.zeros(1))
        >>> onto_a_plane(np.array([[3.0], [1.0]])).T
        array([[ 1., -1.]])
    """

    def __init__(self, diagonal: Array, rows: sp.csr_array, soft: Array) -> None:
        self.diagonal, self.rows, self.soft = diagonal, sp.csr_array(rows), soft
        self.back = sp.csr_array(self.rows.T)

    def __call__(self, r: Array) -> Array:
        """x for q = 0. Shape: (n, N) → (n, N)"""
        if self.reach is not None:
            return self._by_products(r, self.reach)
        return self.solve(r)[0]

    def solve(self, r: Array | float = 0.0, q: Array | float = 0.0) -> tuple[Array, Array]:
        """x and λ. Shape: (n, N), (m, N) → (n, N), (m, N)"""
        n, m = len(self.diagonal), len(self.soft)
        right = np.zeros((n + m, *(np.shape(r) or np.shape(q))[1:]), order="F")
        right[:n], right[n:] = r, q
        found = self.factor.solve(right)
        return found[:n], found[n:]

    @cached_property
    def factor(self) -> Any:
        matrix = sp.block_array([[sp.diags_array(self.diagonal), self.rows.T], [self.rows, -sp.diags_array(self.soft)]])
        return factor_of(sp.csc_array(matrix), PIVOT)

    @cached_property
    def reach(self) -> tuple[float, float] | None:
        """The least and the largest eigenvalue of D + Rᵀ S⁻¹ R where they are near each other; else None."""
        if not len(self.soft) or not self.soft.all() or not self.diagonal.all():
            return None
        x = np.cos(np.arange(len(self.diagonal)))
        for _ in range(POWERS):
            x = self._times(x / np.linalg.norm(x))
        low, high = float(self.diagonal.min()), MORE * float(np.linalg.norm(x))
        return (low, high) if high <= ROUND * low else None

    def _times(self, x: Array) -> Array:
        """(D + Rᵀ S⁻¹ R) x."""
        soft, diagonal = (v if x.ndim == 1 else v[:, None] for v in (self.soft, self.diagonal))
        return np.asarray(diagonal * x + self.back @ (self.rows @ x / soft))

    def _by_products(self, r: Array, reach: tuple[float, float]) -> Array:
        """Chebyshev's iteration: a fixed polynomial of the matrix, so that it is linear and symmetric, too."""
        middle, half = (reach[1] + reach[0]) / 2, (reach[1] - reach[0]) / 2
        steps = int(np.ceil(np.log(2 / ACCURATE) / np.arccosh(middle / half)))
        x, left, step, share = np.zeros_like(r), r, r / middle, half / middle
        for _ in range(steps):
            x, left = x + step, left - self._times(step)
            after = 1 / (2 * middle / half - share)
            step, share = after * share * step + 2 * after / half * left, after
        return x

    def __getstate__(self) -> dict[str, Any]:
        """Without its factor, which is made again where it is needed."""
        return {name: value for name, value in self.__dict__.items() if name != "factor"}

    def __deepcopy__(self, memo: Any) -> System:
        return self  # nothing of it changes


def factor_of(matrix: sp.csc_array, pivot: float) -> Any:
    """SuperLU's factor of a symmetric matrix, with pivots from the diagonal where they are not too small."""
    how = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": pivot, "options": {"SymmetricMode": True}}
    return patiently(lambda: splu(matrix, **how), f"a sparse factor of {matrix.shape[0]} equations")


def products_of_factor(rows: sp.csr_array, most: float) -> float:
    """Products that RᵀR + D and its factor in an order of least degree take; infinite where they are over ``most``.

    Examples:
        >>> import numpy as np, scipy.sparse as sp
        >>> from rayhull.sets.systems import products_of_factor
        >>> chain = sp.csr_array(sp.diags_array([np.ones(9), np.ones(9)], offsets=[0, 1], shape=(9, 10)))
        >>> products_of_factor(chain, 1e3), products_of_factor(sp.csr_array(np.ones((1, 10))), 1e3)
        (73.0, 485.0)
    """
    pattern = sp.csr_array(rows.astype(bool).astype(np.float64))  # numbers of any size
    products = float(np.square(np.diff(pattern.indptr), dtype=float).sum())
    if products > most:
        return np.inf
    square = sp.csr_array(pattern.T @ pattern)
    if (square.nnz / 2) ** 2 > most * square.shape[0]:  # each entry stays in a column of the factor
        return np.inf
    around = {v: {*own.tolist()} - {v} for v, own in enumerate(np.split(square.indices, square.indptr[1:-1]))}
    waiting = [(len(own), v) for v, own in around.items()]
    heapify(waiting)
    while waiting:
        degree, v = heappop(waiting)
        if v not in around or degree != len(around[v]):
            continue  # it is gone, or has another degree by now
        products += (degree + 1) ** 2
        if products + degree**3 / 3 > most:  # what is left has no fewer neighbours
            return np.inf
        own = around.pop(v)
        for u in own:
            around[u] |= own
            around[u] -= {u, v}
            heappush(waiting, (len(around[u]), u))
    return products


def independent_sparse_rows(rows: sp.csr_array) -> Array:
    """Numbers of rows of length 1 that span all of them: those with a pivot of their own in R Rᵀ."""
    if not rows.shape[0]:
        return np.zeros(0, np.int64)
    found = factor_of(sp.csc_array(rows @ rows.T + TOUCH * sp.eye_array(rows.shape[0])), 0.0)
    return np.flatnonzero(found.U.diagonal()[found.perm_c] > WELL)
