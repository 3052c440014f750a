"""Adjacent pairs of simple rays through a hash table: an edge is named by its zeros, so its two ends meet there.

A ray with exactly k - 1 zeros is simple, and leaving out any one of them gives one of its edges. In general position
all rays are simple; the others are left to trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rayhull.conversion import _pattern_tree
from rayhull.conversion._jit import jit, popcount, trailing_zeros
from rayhull.conversion.adjacency import Ints, Words

MOST_EDGES = 1 << 20  # in the table at a time: 32 MB with the room it needs
PROBES = 1 << 20  # edges looked up between two looks at the clock: some 50 ms
ONE, EMPTY = np.uint64(1), -1


@jit
def _name(zeros: Any, keys: Any) -> Any:
    """The exclusive or of the keys of all zeros; without a zero it is that of the others."""
    name = np.uint64(0)
    for w in range(len(zeros)):
        bits = zeros[w]
        while bits != 0:
            name ^= keys[w * 64 + np.int64(trailing_zeros(bits))]
            bits &= bits - ONE
    return name


@jit
def _enter(sets: Any, rays: Any, keys: Any, names: Any, owners: Any) -> None:
    """Put every edge of these rays into the table, whose size is a power of two."""
    last = np.uint64(len(names) - 1)
    for a in range(len(rays)):
        name = _name(sets[rays[a]], keys)
        for w in range(sets.shape[1]):
            bits = sets[rays[a], w]
            while bits != 0:
                edge = name ^ keys[w * 64 + np.int64(trailing_zeros(bits))]
                bits &= bits - ONE
                place = edge & last
                while owners[place] != EMPTY:
                    place = (place + ONE) & last
                names[place], owners[place] = edge, rays[a]


@jit
def _look_up(sets: Any, rays: Any, need: int, keys: Any, names: Any, owners: Any, found: Any) -> int:
    """Write the pairs (ray, owner) that share an edge; returns their number. Names only propose, the zeros decide."""
    last = np.uint64(len(names) - 1)
    count = 0
    for a in range(len(rays)):
        ray = rays[a]
        name = _name(sets[ray], keys)
        for w in range(sets.shape[1]):
            bits = sets[ray, w]
            while bits != 0:
                edge = name ^ keys[w * 64 + np.int64(trailing_zeros(bits))]
                bits &= bits - ONE
                place = edge & last
                while owners[place] != EMPTY:
                    if names[place] == edge:
                        common = 0
                        for v in range(sets.shape[1]):
                            common += popcount(sets[ray, v] & sets[owners[place], v])
                        if common == need:
                            found[count, 0], found[count, 1] = ray, owners[place]
                            count += 1
                            break  # an edge has two ends
                    place = (place + ONE) & last
    return count


def _simple_pairs(sets: Words, above: Ints, below: Ints, need: int) -> Iterator[Ints]:
    """Adjacent pairs of simple rays, a part of the table and of the rays at a time."""
    keys = np.random.default_rng(0).integers(0, 2**64, 64 * sets.shape[1], np.uint64)
    edges = need + 1  # of each ray
    some, step = max(1, MOST_EDGES // edges), max(1, PROBES // edges)
    for start in range(0, len(below), some):
        entered = below[start : start + some]
        size = 1 << (2 * len(entered) * edges).bit_length()
        names, owners = np.empty(size, np.uint64), np.full(size, EMPTY)
        _enter(sets, entered, keys, names, owners)
        for first in range(0, len(above), step):
            asked = above[first : first + step]
            found = np.empty((len(asked) * edges, 2), np.int64)
            yield found[: _look_up(sets, asked, need, keys, names, owners, found)]


def adjacent_pairs(sets: Words, above: Ints, below: Ints, need: int) -> Iterator[Ints]:
    """What :func:`rayhull.conversion.adjacency.adjacent_pairs` gives: simple rays by their edges, others by trees."""
    simple = np.bitwise_count(sets).sum(axis=1) == need + 1
    both = above[simple[above]], below[simple[below]]
    if need < 1 or 2 * len(both[0]) * len(both[1]) < len(above) * len(below):
        yield from _pattern_tree.adjacent_pairs(sets, above, below, need)
        return
    yield from _simple_pairs(sets, *both, need)
    for left, right in ((above[~simple[above]], below), (both[0], below[~simple[below]])):
        if len(left) and len(right):
            yield from _pattern_tree.adjacent_pairs(sets, left, right, need)
