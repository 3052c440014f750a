"""Extremality: the tight rows of an extreme ray have rank k - 1. Proven modulo a prime, where a rank can only drop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

PRIME = 2147483629  # the largest below 2^31 - 1 but one: products of two residues fit 62 bits
CHUNK = 1_000_000  # entries of a batch of matrices


def all_extreme(C: NDArray[Any], tight: NDArray[np.bool_], support: NDArray[np.bool_], kernels: Any) -> bool:
    """Do the tight rows, restricted to the support, have rank support - 1 for each ray?

    A coordinate that is zero is a tight unit row, so it takes one from both sides and need not be eliminated.

    Shape:
        ``C`` (n, k), ``tight`` (r, n), ``support`` (r, k).
    """
    residues = (C % PRIME).astype(np.int64)
    if kernels is not None:
        return bool(kernels.all_extreme(residues, tight, support))
    counts = tight.sum(axis=1)
    for most in np.unique(counts):  # rays with as many tight rows at a time: no padding
        ids = np.flatnonzero(counts == most)
        for some in np.array_split(ids, 1 + len(ids) * int(most) * C.shape[1] // CHUNK):
            rows = residues[np.nonzero(tight[some])[1].reshape(len(some), most)]
            if not (_rank(rows * support[some, None, :]) == support[some].sum(axis=1) - 1).all():
                return False
    return True


def _rank(M: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rank of each matrix of a batch modulo PRIME, at most (r, t, k) -> (r,); M is eliminated column by column."""
    r, t, k = M.shape
    rank, each = np.zeros(r, np.int64), np.arange(r)
    if t == 0:
        return rank
    for c in range(k):
        below = (M[:, :, c] != 0) & (np.arange(t) >= rank[:, None])
        on = np.flatnonzero(below.any(axis=1))
        if not len(on):
            continue
        a, top = below[on].argmax(axis=1), rank[on]
        row = M[on, a]
        M[on, a] = M[on, top]
        row = row * _inverse(row[:, c])[:, None] % PRIME
        M[on, top] = row
        factor = M[on, :, c]
        factor[np.arange(t) <= top[:, None]] = 0
        M[on] = (M[on] - factor[:, :, None] * row[:, None, :]) % PRIME
        rank[each[on]] += 1
    return rank


def _inverse(x: NDArray[np.int64]) -> NDArray[np.int64]:
    """x^(p - 2) modulo the prime p."""
    out, power, exponent = np.ones_like(x), x % PRIME, PRIME - 2
    while exponent:
        if exponent & 1:
            out = out * power % PRIME
        power = power * power % PRIME
        exponent >>= 1
    return out
