"""What the zeros of rays tell, in NumPy: which rays on the two sides of a row are adjacent, and which are extreme.

Zero sets are rows of 64-bit words. Two extreme rays of a cone in k dimensions are adjacent only if they have k - 2
zeros in common (cheap to refuse), and exactly if no third ray has all the zeros that they share. The tight rows of an
extreme ray have rank k - 1, which is proven modulo a prime, where a rank can only drop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

CHUNK = 2_000_000  # words compared at a time: some 16 MB, and some 10 ms between two looks at the clock
MATRICES = 1_000_000  # entries of a batch of matrices


def packed(zeros: NDArray[np.bool_]) -> Words:
    """Rows of booleans as rows of 64-bit words, lowest bit first.

    >>> packed(np.array([[True, False, True]]))
    array([[5]], dtype=uint64)
    """
    width = -(-zeros.shape[1] // 64) * 64
    padded = np.zeros((len(zeros), max(width, 64)), bool)
    padded[:, : zeros.shape[1]] = zeros
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpacked(sets: Words, width: int) -> NDArray[np.bool_]:
    """The inverse of :func:`packed`, cut to ``width`` columns."""
    octets = np.ascontiguousarray(sets.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=1, count=width, bitorder="little").astype(bool)


def adjacent_pairs(sets: Words, above: Ints, below: Ints, need: int) -> Iterator[Ints]:
    """Adjacent pairs (one ray of ``above``, one of ``below``), a chunk at a time, as arrays of shape (pairs, 2)."""
    words = sets.shape[1]
    step = max(1, CHUNK // max(1, len(below) * words))
    for start in range(0, len(above), step):
        part = above[start : start + step]
        common = np.zeros((len(part), len(below)), np.uint8 if words < 4 else np.int64)
        for w in range(words):
            common += np.bitwise_count(sets[part, w][:, None] & sets[below, w])
        a, b = np.nonzero(common >= need)
        pairs = np.stack([part[a], below[b]], axis=1)
        size = max(1, CHUNK // max(1, len(sets)))
        for first in range(0, len(pairs), size):
            some = pairs[first : first + size]
            yield some[~_have_witness(sets, some)]
        if not len(pairs):
            yield pairs


def _have_witness(sets: Words, pairs: Ints) -> NDArray[np.bool_]:
    """For each pair: is there a third ray with all the zeros that the two share?"""
    shared = sets[pairs[:, 0]] & sets[pairs[:, 1]]
    inside = np.ones((len(pairs), len(sets)), bool)
    for w in range(sets.shape[1]):
        inside &= (shared[:, w][:, None] & ~sets[:, w]) == 0
    found: NDArray[np.bool_] = np.count_nonzero(inside, axis=1) > 2
    return found  # the two themselves are always inside


def are_extreme(residues: Ints, prime: int, tight: NDArray[np.bool_], support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """For each ray: do its tight rows, restricted to its support, have rank support - 1 modulo the prime?

    A coordinate that is zero is a tight unit row, so it takes one from both sides and need not be eliminated.

    Shape:
        ``residues`` (n, k) of the rows, ``tight`` (r, n), ``support`` (r, k); returns (r,).
    """
    extreme, size = np.zeros(len(tight), bool), support.sum(axis=1)
    counts = tight.sum(axis=1)
    for most in np.unique(counts):  # rays with as many tight rows at a time: no padding
        ids = np.flatnonzero(counts == most)
        for some in np.array_split(ids, 1 + len(ids) * int(most) * residues.shape[1] // MATRICES):
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
