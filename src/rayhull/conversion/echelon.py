"""Rows that are an echelon as they stand, such as chains, tiles and differences: solved without a dense matrix.

Where the last entries of the rows are ±1 and stand in different columns, the rows are independent and, sorted by these
columns, triangular. So every edge is an integer combination of those before it.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from rayhull.exact.elimination import substitute
from rayhull.exact.numbers import INT64_SAFE, largest
from rayhull.sets.rows import Array, Rows


def echelon_edges(rows: Rows) -> tuple[Array, Array, Array] | None:
    """Edges (m, d), lines (d - m, d) and right-hand sides (m,), or None for other rows.

    Along edge j the value of row j falls by 1 and no other row changes; along a line none does.
    """
    assert rows.integers is not None
    (data, rhs), indices, ends = rows.integers, rows.matrix.indices, rows.matrix.indptr[1:] - 1
    if not len(rows) or data.dtype == object or (np.abs(data[ends]) != 1).any():
        return None
    m, d = rows.matrix.shape
    order = np.argsort(indices[ends])[::-1]  # the last pivot first: edges follow from those of later rows
    pivots = indices[ends][order]
    if (np.diff(pivots) == 0).any() or not rows.matrix.has_sorted_indices:
        return None
    place, row_place = np.full(d, -1), np.empty(m, np.int64)
    place[pivots], row_place[order] = np.arange(m), np.arange(m)
    columns, at = place[indices], row_place[rows.row_of_entry]
    turned = np.lexsort([at, columns])
    turned = turned[np.searchsorted(columns[turned], 0) :]  # the pivot columns, transposed
    start = np.zeros((m, d), np.int64)
    start[np.arange(m), pivots] = -1
    edges = substitute(columns[turned], at[turned], data[turned], start)
    if edges is None:
        return None
    lines = _lines(place, columns, at, rows, edges)
    return None if lines is None else (edges, lines, rhs[order])


def _lines(place: Array, columns: Array, at: Array, rows: Rows, edges: Array) -> Array | None:
    """A step along each column that is no pivot, and what the pivots do to make up for it; None past 62 bits."""
    assert rows.integers is not None
    data, free, rest = rows.integers[0], np.flatnonzero(place < 0), columns < 0
    number = np.cumsum(place < 0) - 1
    entries = (data[rest], (number[rows.matrix.indices[rest]], at[rest]))
    steps = sp.csr_array(entries, shape=(len(free), len(edges)))
    if int(np.diff(steps.indptr).max(initial=0)) * largest(data) * largest(edges) >= INT64_SAFE:
        return None
    lines: Array = steps @ edges
    lines[np.arange(len(free)), free] = 1
    return lines
