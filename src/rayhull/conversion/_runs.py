"""Runs of cheap rows in one compiled call: on a cone with a thousand rows and few rays, Python's share would be all.

Everything is allocated by the caller and written in loops: NumPy's conveniences cost seconds of compilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rayhull.conversion._jit import jit, popcount
from rayhull.conversion._kernels import make_rays
from rayhull.conversion._pattern_tree import is_simple
from rayhull.conversion.floats import CLEAR_LEVEL

DONE, EXPENSIVE, PAUSED, FULL, FAILED = 0, 1, 2, 3, 4
ONE = np.uint64(1)


@jit
def _count(S: Any, E: Any, ray: int, k: int, columns: int, counts: Any, by: int) -> None:
    """Add ``by`` to counts[0 positive, 1 negative, 2 grey] of every open column, as the ray's slacks say."""
    level = CLEAR_LEVEL * E[ray]
    for c in range(k, columns):
        value = S[ray, c]
        if value > 0:
            counts[0, c] += by
        elif value < 0:
            counts[1, c] += by
        if value != 0 and abs(value) < level:
            counts[2, c] += by


@jit
def _remove_column(S: Any, r: int, column: int, columns: int, left: Any, counts: Any) -> None:
    """The last column takes the place of this one."""
    last = columns - 1
    if column != last:
        for i in range(r):
            S[i, column] = S[i, last]
        for sign in range(3):
            counts[sign, column] = counts[sign, last]
        left[column] = left[last]


@jit
def _has_witness(Z: Any, r: int, i: int, j: int, words: int, order: Any) -> bool:
    """Is there a third ray with all the zeros that rays i and j share?"""
    shared = Z[i, 0] & Z[j, 0]
    for t in range(r):
        ray = order[t]
        if shared & ~Z[ray, 0] != 0:
            continue
        inside = ray != i and ray != j
        for w in range(1, words):
            if Z[i, w] & Z[j, w] & ~Z[ray, w] != 0:
                inside = False
                break
        if inside:  # tried earlier next time: neighbouring pairs often fall to the same ray
            order[t], order[t // 2] = order[t // 2], ray
            return True
    return False


@jit
def _adjacent_pairs(
    S: Any, Z: Any, r: int, column: int, need: int, words: int, order: Any, below: Any, pairs: Any
) -> int:
    """All adjacent pairs across the row, each tried against every ray; returns their number."""
    count, most = 0, 0
    for i in range(r):
        order[i] = i
        if S[i, column] < 0:
            below[most] = i
            most += 1
    for i in range(r):
        if S[i, column] <= 0:
            continue
        simple = is_simple(Z, i, need)
        for b in range(most):
            j = below[b]
            common = 0
            for w in range(words):
                common += popcount(Z[i, w] & Z[j, w])
            if common < need:
                continue
            if simple or is_simple(Z, j, need) or not _has_witness(Z, r, i, j, words, order):
                pairs[count, 0], pairs[count, 1] = i, j
                count += 1
    return count


@jit
def _replace(
    S: Any, Z: Any, E: Any, r: int, new: int, column: int, columns: int, bits: int, k: int, counts: Any
) -> int:
    """Drop the rays below the row, mark those on it, fill the holes from the end; returns how many rays there are."""
    for i in range(r, r + new):
        _count(S, E, i, k, columns, counts, 1)
    i, total = 0, r + new
    while i < total:
        if S[i, column] < 0:
            _count(S, E, i, k, columns, counts, -1)
            total -= 1
            E[i] = E[total]
            for c in range(columns):
                S[i, c] = S[total, c]
            for w in range(Z.shape[1]):
                Z[i, w] = Z[total, w]
        else:
            if S[i, column] == 0:
                Z[i, bits // 64] |= ONE << np.uint64(bits % 64)
            i += 1
    return total


@jit
def _next_column(counts: Any, left: Any, rank: Any, k: int, columns: int) -> int:
    """What :func:`rayhull.conversion.row_order.choose` gives."""
    best = -1
    for c in range(k, columns):
        if counts[2, c] == 0 and (best < 0 or rank[left[c]] < rank[left[best]]):
            best = c
    return best


@jit
def advance(
    C: Any, S: Any, Z: Any, E: Any, left: Any, taken: Any, rank: Any, work: Any, sizes: Any, ray_limit: int, budget: int
) -> int:
    """Take rows in place while they are cheap, there is room in S, and ``budget`` steps are not spent.

    Args:
        left, taken: row of each column from k on, and of each bit from k on.
        work: counts (3, columns), pairs (most, 2), order (most,) and below (most,), to write in: a row with more
            pairs or rays than they hold is not cheap.
        sizes: rays, columns, bits, room wanted; read and written.
        ray_limit: stop when there are more rays than this.

    Returns:
        DONE, EXPENSIVE (the next row), PAUSED (budget or rays), FULL (no room) or FAILED (a ray cannot be made).
    """
    counts, pairs, order, below = work
    k, r, columns, bits = C.shape[1], sizes[0], sizes[1], sizes[2]
    for i in range(r):
        _count(S, E, i, k, columns, counts, 1)
    status, steps = PAUSED, 0
    while steps < budget and r <= ray_limit:
        for c in range(columns - 1, k - 1, -1):
            if counts[1, c] == 0 and counts[2, c] == 0:  # no ray breaks it now, so none ever will
                _remove_column(S, r, c, columns, left, counts)
                columns -= 1
        if columns == k or r == 0:
            status = DONE
            break
        c = _next_column(counts, left, rank, k, columns)
        if c < 0 or counts[0, c] * counts[1, c] > len(pairs) or r > len(order):
            status = EXPENSIVE
            break
        new = _adjacent_pairs(S, Z, r, c, k - 2, (bits + 63) // 64, order, below, pairs) if counts[0, c] > 0 else 0
        steps += counts[0, c] * counts[1, c] + new * r + (new + counts[1, c] + 1) * columns
        if r + new > len(S):
            status, sizes[3] = FULL, r + new
            break
        taken[bits - k] = left[c]
        if not make_rays(C, S, Z, E, pairs, new, c, S, Z, E, r, columns, left, taken, bits):
            status = FAILED
            break
        for i in range(r, r + new):
            S[i, c] = 0
        r = _replace(S, Z, E, r, new, c, columns, bits, k, counts)
        _remove_column(S, r, c, columns, left, counts)
        columns -= 1
        bits += 1
    sizes[0], sizes[1], sizes[2] = r, columns, bits
    return status
