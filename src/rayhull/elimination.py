"""Exact elimination on integers: which rows are independent, and the inverse of a square matrix."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from rayhull.exact import narrow, product
from rayhull.rows import Array

PRIME = 2**31 - 1  # products of two residues stay below 2^62


def independent_rows(matrix: Array) -> tuple[Array, Array]:
    """The first rows that are independent, and a pivot column for each (the last one that is not zero).

    Elimination modulo a prime: what it finds independent is independent over the rationals. What it drops might in
    principle not be dependent; whoever relies on that checks it (see :mod:`rayhull.slack_form`).
    """
    work = np.asarray(matrix % PRIME, dtype=np.int64)
    rows, columns = [], []
    for i in range(len(work)):
        filled = np.flatnonzero(work[i])
        if not len(filled):
            continue
        pivot = filled[-1]
        values = work[i, filled] * pow(int(work[i, pivot]), -1, PRIME) % PRIME
        below = np.flatnonzero(work[i + 1 :, pivot]) + i + 1
        if len(below):
            patch = np.ix_(below, filled)
            work[patch] = (work[patch] - work[below, pivot][:, None] * values) % PRIME
        rows.append(i)
        columns.append(pivot)
    return np.array(rows, np.int64), np.array(columns, np.int64)


def inverse(matrix: Array) -> tuple[Array, int]:
    """Integers K and a positive integer s with K @ matrix = s I, exactly. The matrix must be regular."""
    guess = _rounded_inverse(matrix)
    return guess if guess is not None else _fraction_free_inverse(matrix)


def _rounded_inverse(matrix: Array) -> tuple[Array, int] | None:
    """The inverse in floats, rounded to small fractions, kept only if the exact product proves it."""
    n = len(matrix)
    try:
        floats = np.linalg.inv(matrix.astype(np.float64))
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(floats).all() or np.abs(floats).max(initial=0.0) > 1e9:
        return None
    values = np.unique(np.round(floats, 9))
    if len(values) > 5000:
        return None
    scale = math.lcm(*(Fraction(float(v)).limit_denominator(10_000).denominator for v in values))
    if scale > 2**31:
        return None
    scaled = np.rint(floats * scale).astype(np.int64)
    proven = (product(scaled, matrix) == scale * np.eye(n, dtype=np.int64)).all()
    return (scaled, scale) if proven else None


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
    common = math.gcd(scale, *integers.ravel().tolist())
    return narrow(integers // common), scale // common
