"""What the zeros of rays tell, in NumPy: which rays on the two sides of a row are adjacent.

Zero sets are rows of 64-bit words. Two extreme rays of a cone in k dimensions are adjacent only if they have k - 2
zeros in common (cheap to refuse), and exactly if no third ray has all the zeros that they share.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

CHUNK = 2_000_000  # words compared at a time: some 16 MB, and some 10 ms between two looks at the clock


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


def by_tight_rows(tight: NDArray[np.bool_], width: int, entries: int) -> Iterator[tuple[Ints, Ints]]:
    """Rays with as many tight rows (so without padding), and those rows: in batches of so many entries."""
    counts = tight.sum(axis=1)
    for most in np.unique(counts):
        ids = np.flatnonzero(counts == most)
        for some in np.array_split(ids, 1 + len(ids) * int(most) * width // entries):
            yield some, np.nonzero(tight[some])[1].reshape(len(some), most)


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
            shared = sets[some[:, 0]] & sets[some[:, 1]]
            yield some[supersets(shared, sets) == 2]  # the two themselves
        if not len(pairs):
            yield pairs


def supersets(wanted: Words, sets: Words) -> Ints:
    """How many of ``sets`` contain each wanted set."""
    count = np.zeros(len(wanted), np.int64)
    step = max(1, CHUNK // max(1, len(sets)))
    for first in range(0, len(wanted), step):
        some = wanted[first : first + step]
        inside = np.ones((len(some), len(sets)), bool)
        for w in range(sets.shape[1]):
            inside &= (some[:, w][:, None] & ~sets[:, w]) == 0
        count[first : first + step] = inside.sum(axis=1)
    return count
