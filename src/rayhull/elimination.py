"""Exact elimination on integers: which rows are independent, and the inverse of a square matrix."""

from __future__ import annotations

import math

import numpy as np

from rayhull.exact import INT64_SAFE, largest, narrow, product
from rayhull.rows import Array, Rows

PRIME = 2**31 - 1  # products of two residues stay below 2^62


def independent_rows(matrix: Array) -> tuple[Array, Array]:
    """The first rows that are independent, and a pivot column for each (the last one that is not zero).

    Elimination modulo a prime: what it finds independent is independent over the rationals. What it drops might in
    principle not be dependent; whoever relies on that checks it (see :mod:`rayhull.slack_form`).
    """
    last = matrix.shape[1] - 1 - np.argmax(matrix[:, ::-1] != 0, axis=1) if matrix.size else np.zeros(0, np.int64)
    if len(np.unique(last)) == len(matrix) and matrix.any(axis=1).all():  # an echelon as it stands: chains, tiles
        return np.arange(len(matrix)), last
    work = np.asarray(matrix % PRIME, dtype=np.int64)
    rows: list[int] = []
    columns: list[int] = []
    for i in range(len(work)):
        if len(rows) == work.shape[1]:
            break
        filled = np.flatnonzero(work[i])
        if not len(filled):
            continue
        pivot = int(filled[-1])
        values = work[i, filled] * pow(int(work[i, pivot]), -1, PRIME) % PRIME
        below = np.flatnonzero(work[i + 1 :, pivot]) + i + 1
        if len(below):
            patch = np.ix_(below, filled)
            work[patch] = (work[patch] - work[below, pivot][:, None] * values) % PRIME
        rows.append(i)
        columns.append(pivot)
    return np.array(rows, np.int64), np.array(columns, np.int64)


def sparse_rank(rows: Rows) -> int:
    """The rank of sparse integer rows modulo the same prime, never dense."""
    assert rows.integers is not None
    data, indices, indptr = rows.integers[0], rows.matrix.indices, rows.matrix.indptr
    reduced: dict[int, dict[int, int]] = {}  # pivot column -> row with 1 there and nothing after it
    for i in range(len(rows)):
        entries = range(indptr[i], indptr[i + 1])
        row = {int(indices[e]): int(data[e]) % PRIME for e in entries}
        while row:
            pivot = max(row)
            value = row[pivot]
            if value and pivot not in reduced:
                factor = pow(value, -1, PRIME)
                reduced[pivot] = {c: v * factor % PRIME for c, v in row.items() if v}
                break
            for column, v in reduced.get(pivot, {}).items() if value else ():
                row[column] = (row.get(column, 0) - value * v) % PRIME
            row = {c: v for c, v in row.items() if v}
    return len(reduced)


def inverse(matrix: Array) -> tuple[Array, int]:
    """Integers K and a positive integer s with K @ matrix = s I, exactly. The matrix must be regular."""
    for lower, turned in ((matrix, False), (matrix.T, True)):
        found = _triangular_inverse(lower)
        if found is not None:
            return (found.T if turned else found), 1
    return _rounded_inverse(matrix) or _fraction_free_inverse(matrix)


def _triangular_inverse(matrix: Array) -> Array | None:
    """Forward substitution for lower triangular integers with ±1 on the diagonal: chains, tiles, differences."""
    diagonal = np.diagonal(matrix)
    if matrix.dtype != np.int64 or (np.abs(diagonal) != 1).any() or np.triu(matrix, 1).any():
        return None
    rows, columns = np.nonzero(np.tril(matrix, -1))
    starts = np.searchsorted(rows, np.arange(len(matrix) + 1))
    size = np.abs(matrix).sum(axis=1)
    out, reach = np.diag(diagonal), 1
    for i in np.flatnonzero(np.diff(starts)):
        before = columns[starts[i] : starts[i + 1]]
        reach = max(reach, int(size[i]) * reach)
        if reach >= INT64_SAFE:
            reach = int(size[i]) * largest(out[:i]) + 1
            if reach >= INT64_SAFE:
                return None
        if len(before) == 1:
            out[i, :i] = (-diagonal[i] * matrix[i, before[0]]) * out[before[0], :i]
        else:
            out[i, :i] = -diagonal[i] * (matrix[i, before] @ out[before, :i])
    return out


def _rounded_inverse(matrix: Array) -> tuple[Array, int] | None:
    """det * inverse in floats (integers by Cramer's rule), rounded, kept only if the exact product proves it."""
    regular = matrix.astype(np.float64)
    scale = abs(round(float(np.linalg.det(regular)))) if np.abs(regular).max(initial=0.0) < 2**53 else 0
    if not 0 < scale < 2**45:
        return None
    floats = np.linalg.inv(regular) * scale
    if not np.abs(floats).max(initial=0.0) < 2**50:
        return None
    scaled = np.rint(floats).astype(np.int64)
    back = product(scaled, matrix)
    back[np.diag_indices(len(matrix))] -= scale
    return None if back.any() else _lowest_terms(scaled, scale)


def _lowest_terms(integers: Array, scale: int) -> tuple[Array, int]:
    common = math.gcd(scale, int(np.gcd.reduce(integers, axis=None))) if integers.size else 1
    return (integers, scale) if common == 1 else (narrow(integers // common), scale // common)


def _fraction_free_inverse(matrix: Array) -> tuple[Array, int]:
    """Gauss-Jordan elimination without fractions (Bareiss): every division is exact."""
    n = len(matrix)
    work = np.concatenate([matrix.astype(object), np.eye(n, dtype=np.int64).astype(object)], axis=1)
    previous = 1
    for k in range(n):
        row = k + int(np.flatnonzero(work[k:, k] != 0)[0])
        if row != k:
            work[[k, row]] = work[[row, k]]
        pivot = work[k, k]
        others = np.flatnonzero(np.arange(n) != k)
        work[others] = (work[others] * pivot - work[others, k][:, None] * work[k]) // previous
        previous = pivot
    integers, scale = work[:, n:], int(previous)
    if scale < 0:
        integers, scale = -integers, -scale
    return _lowest_terms(narrow(integers), scale)
