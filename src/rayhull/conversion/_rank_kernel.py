"""The compiled twin of :mod:`rayhull.conversion.rank`: one ray at a time, stopping as soon as its rank is proven."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayhull.conversion._jit import jit
from rayhull.conversion.verification import PRIME


@jit
def _inverse(x: int) -> int:
    """x^(p - 2) modulo the prime p; 1 and -1, the most frequent, are their own."""
    if x == 1 or x == PRIME - 1:
        return x
    out, exponent = 1, PRIME - 2
    while exponent:
        if exponent & 1:
            out = out * x % PRIME
        x = x * x % PRIME
        exponent >>= 1
    return out


@jit
def _reduced(M: Any, rank: int, s: int, column_of: Any) -> int:
    """Reduce row ``rank`` of M by the rows above it; returns the column of its pivot, scaled to 1, or -1."""
    for u in range(rank):
        factor = M[rank, column_of[u]]
        if factor != 0:
            for c in range(column_of[u], s):
                M[rank, c] = (M[rank, c] + (PRIME - factor) * M[u, c]) % PRIME
    for c in range(s):
        if M[rank, c] != 0:
            scale = _inverse(M[rank, c])
            for d in range(c, s if scale != 1 else c):
                M[rank, d] = M[rank, d] * scale % PRIME
            return c
    return -1


@jit
def all_extreme(residues: Any, tight: Any, support: Any) -> bool:
    """Do the tight rows of each ray, restricted to its support, have rank support - 1?"""
    n, k = residues.shape
    M, columns, column_of = np.empty((k + 1, k), np.int64), np.empty(k, np.int64), np.empty(k + 1, np.int64)
    for ray in range(len(support)):
        s = 0
        for c in range(k):
            if support[ray, c]:
                columns[s] = c
                s += 1
        rank = 0
        for row in range(n):
            if rank == s - 1:
                break
            if tight[ray, row]:
                for c in range(s):
                    M[rank, c] = residues[row, columns[c]]
                column_of[rank] = _reduced(M, rank, s, column_of)
                if column_of[rank] >= 0:
                    rank += 1
        if rank < s - 1:
            return False
    return True
