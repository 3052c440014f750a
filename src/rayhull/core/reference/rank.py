"""Extremality: the tight rows of an extreme ray have rank k - 1. Proven modulo a prime, where a rank can only drop."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CHUNK = 1_000_000  # entries of a batch of matrices


def are_extreme(residues: Ints, prime: int, tight: Bools, support: Bools) -> Bools:
    """For each ray: do its tight rows, restricted to its support, have rank support - 1 modulo the prime?

    A coordinate that is zero is a tight unit row, so it takes one from both sides and need not be eliminated.

    Shape:
        ``residues`` (n, k) of the rows, ``tight`` (r, n), ``support`` (r, k); returns (r,).
    """
    extreme, size = np.zeros(len(tight), bool), support.sum(axis=1)
    counts = tight.sum(axis=1)
    for most in np.unique(counts):  # rays with as many tight rows at a time: no padding
        ids = np.flatnonzero(counts == most)
        for some in np.array_split(ids, 1 + len(ids) * int(most) * residues.shape[1] // CHUNK):
            rows = residues[np.nonzero(tight[some])[1].reshape(len(some), most)]
            extreme[some] = (_rank(rows * support[some, None, :], prime) == size[some] - 1) & (size[some] > 0)
    return extreme


def _rank(M: Ints, prime: int) -> Ints:
    """Rank of each matrix of a batch modulo the prime, (r, t, k) -> (r,); M is eliminated column by column."""
    r, t, k = M.shape
    rank = np.zeros(r, np.int64)
    for c in range(k if t else 0):
        below = (M[:, :, c] != 0) & (np.arange(t) >= rank[:, None])
        on = np.flatnonzero(below.any(axis=1))
        a, top = below[on].argmax(axis=1), rank[on]
        row = M[on, a]
        M[on, a] = M[on, top]
        row = row * _inverse(row[:, c], prime)[:, None] % prime
        M[on, top] = row
        factor = M[on, :, c]
        factor[np.arange(t) <= top[:, None]] = 0
        M[on] = (M[on] - factor[:, :, None] * row[:, None, :]) % prime
        rank[on] += 1
    return rank


def _inverse(x: Ints, prime: int) -> Ints:
    """x^(p - 2) modulo the prime p."""
    out, power, exponent = np.ones_like(x), x % prime, prime - 2
    while exponent:
        if exponent & 1:
            out = out * power % prime
        power = power * power % prime
        exponent >>= 1
    return out
