"""Sparse rows as intervals low <= G z <= high in an order of elimination: what the interior point factors.

Opposite rows are the two sides of one interval; those of an equality are the same. The system of a step is that of the
rows, G D Gᵀ + E, or that of the coordinates, D + Gᵀ E G: whichever takes fewer products to form.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu
from torch import Tensor

from rayhull.core import operators
from rayhull.sets.rows import Array
from rayhull.sets.systems import products_of_factor

FILLED = 20_000_000  # entries of a product of the rows with themselves that are worth looking at


def intervals(rows: sp.csr_array, m: int) -> tuple[operators.Intervals, float]:
    """The intervals of rows of which the first ``m`` are inequalities, and the products that one factor takes."""
    G, high, low = _paired(rows, m)
    V, by_rows = _of_system(G)
    order, begin, below, work = _elimination(V)
    G = sp.csr_array(G[order] if by_rows else G[:, order])
    G.sort_indices()
    high, low = (side[order] if by_rows else side for side in (high, low))
    coordinate = np.arange(G.shape[1]) if by_rows else order
    numbers = G.data, G.indices, G.indptr, high, low, coordinate
    kinds = np.float64, np.int32, np.int64, np.int32, np.int32, np.int32
    data, columns, start, *maps = (torch.from_numpy(v.astype(k)) for v, k in zip(numbers, kinds, strict=True))
    return operators.Intervals(data, columns, start, maps[0], maps[1], maps[2], begin, below, by_rows), work


def has_short_factor(rows: sp.csr_array, m: int, most: float) -> bool:
    """Whether one factor takes at most so many products: counted without the core, the same with it and without it."""
    return products_of_factor(_of_system(_paired(rows, m)[0])[0], most) <= most


def _of_system(G: sp.csr_array) -> tuple[sp.csr_array, bool]:
    """V of the system Vᵀ D V + E, and whether that is the one of the rows."""
    both = sp.csr_array(G.T), G
    of_rows, of_coordinates = (float(np.square(np.diff(V.indptr), dtype=float).sum()) for V in both)
    return (both[0], True) if of_rows <= of_coordinates else (G, False)


def _paired(rows: sp.csr_array, m: int) -> tuple[sp.csr_array, Array, Array]:
    """G, and for each interval the row that is its high side and the one that is its low side, -1 for none."""
    sides: list[list[int]] = []
    open_side: dict[tuple[bytes, bytes, bool], int] = {}  # of which row the opposite would be welcome
    for i in range(rows.shape[0]):
        own = slice(rows.indptr[i], rows.indptr[i + 1])
        columns, data = rows.indices[own].tobytes(), rows.data[own]
        up = bool(len(data)) and bool(data[0] > 0)
        size = (data if up else -data).tobytes()
        found = open_side.pop((columns, size, up), None) if i < m else None
        if found is not None:
            sides[found][0 if up else 1] = i
            continue
        if i < m:
            open_side[columns, size, not up] = len(sides)
        sides.append([i, i] if i >= m else ([i, -1] if up else [-1, i]))
    high, low = np.array(sides, np.int64).reshape(-1, 2).T
    upward = high >= 0
    return sp.csr_array(sp.diags_array(np.where(upward, 1.0, -1.0)) @ rows[np.where(upward, high, low)]), high, low


def _elimination(V: sp.csr_array) -> tuple[Array, Tensor, Tensor, float]:
    """An order for Vᵀ D V + E, the pattern of its factor by columns (begin and rows), and the products it takes."""
    n = V.shape[1]
    if float(np.square(np.diff(V.indptr).astype(float)).sum()) > FILLED:
        return np.arange(n), torch.zeros(n + 1).long(), torch.zeros(0).int(), np.inf
    pattern = V.astype(bool).astype(np.float64)
    matrix = sp.csc_array(pattern.T @ pattern)
    order = _with_little_fill(matrix)
    columns = sp.csc_array(matrix[order][:, order])
    stored = columns.indptr.astype(np.int64), columns.indices.astype(np.int32)
    begin, rows = operators.sparse_pattern(*map(torch.from_numpy, stored))
    work = float(begin.diff().double().square().sum()) + 2.0 * n
    return order, begin, rows, work + float(np.square(np.diff(V.indptr)).sum())


def _with_little_fill(matrix: sp.csc_array) -> Array:
    """An order of the coordinates in which a factor has few entries: minimum degree, as SuperLU has it. Shape: (n,)."""
    dominant = sp.csc_array(matrix + sp.diags_array(matrix.sum(0) + 1.0))  # it can be factored in any order
    how = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
    return np.argsort(splu(dominant, **how).perm_c)
