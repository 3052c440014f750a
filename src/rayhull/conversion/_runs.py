"""Runs of cheap rows in one compiled call: on a cone with a thousand rows and few rays, Python's share would be all."""

from __future__ import annotations

from typing import Any

import numpy as np

from rayhull.conversion._jit import jit, popcount
from rayhull.conversion._kernels import OK, make_rays
from rayhull.conversion.floats import CLEAR_LEVEL
from rayhull.conversion.row_order import choose

DONE, EXPENSIVE, PAUSED, FAILED = 0, 1, 2, 3
MOST_PAIRS, MOST_RAYS = 20_000, 4_000  # a row beyond either is not cheap
ONE = np.uint64(1)
choose_compiled = jit(choose)


@jit
def _count(S: Any, E: Any, ray: int, k: int, columns: int, counts: Any, by: int) -> None:
    """Add ``by`` to counts[0 positive, 1 negative, 2 grey] of every column, as the ray's slacks say."""
    level = CLEAR_LEVEL * E[ray]
    for c in range(k, columns):
        value = S[ray, c]
        if value > 0:
            counts[0, c - k] += by
            if value < level:
                counts[2, c - k] += by
        elif value < 0:
            counts[1, c - k] += by
            if -value < level:
                counts[2, c - k] += by


@jit
def _remove_column(S: Any, r: int, column: int, k: int, columns: int, left: Any, counts: Any) -> None:
    """The last column takes the place of this one."""
    last = columns - 1
    if column != last:
        for i in range(r):
            S[i, column] = S[i, last]
        left[column - k] = left[last - k]
        counts[:, column - k] = counts[:, last - k]


@jit
def _adjacent_pairs(S: Any, Z: Any, r: int, column: int, need: int, words: int, order: Any, pairs: Any) -> int:
    """All adjacent pairs across the row, each tried against every ray; returns their number."""
    shared = np.empty(words, np.uint64)
    count = 0
    for i in range(r):
        if S[i, column] <= 0:
            continue
        for j in range(r):
            if S[j, column] >= 0:
                continue
            common = 0
            for w in range(words):
                shared[w] = Z[i, w] & Z[j, w]
                common += popcount(shared[w])
            if common < need:
                continue
            adjacent = True
            for t in range(r):
                ray = order[t]
                inside = ray != i and ray != j
                for w in range(words):
                    if Z[ray, w] & shared[w] != shared[w]:
                        inside = False
                        break
                if inside:  # tried earlier next time: neighbouring pairs often fall to the same ray
                    order[t], order[t // 2] = order[t // 2], ray
                    adjacent = False
                    break
            if adjacent:
                pairs[count, 0], pairs[count, 1] = i, j
                count += 1
    return count


@jit
def _grown(S: Any, Z: Any, E: Any, r: int, size: int) -> Any:
    """The same rays in arrays with room for ``size``."""
    S2, Z2 = np.empty((size, S.shape[1]), S.dtype), np.zeros((size, Z.shape[1]), np.uint64)
    E2 = np.zeros(size)
    S2[:r], Z2[:r], E2[:r] = S[:r], Z[:r], E[:r]
    return S2, Z2, E2


@jit
def _replace(
    S: Any, Z: Any, E: Any, r: int, new: int, column: int, columns: int, bits: int, k: int, counts: Any
) -> int:
    """Drop the rays that the row cuts off, mark those on it, fill the holes from the end; returns their number."""
    for i in range(r, r + new):
        _count(S, E, i, k, columns, counts, 1)
    i, total = 0, r + new
    while i < total:
        if S[i, column] < 0:
            _count(S, E, i, k, columns, counts, -1)
            total -= 1
            S[i, :columns], Z[i], E[i] = S[total, :columns], Z[total], E[total]
        else:
            if S[i, column] == 0:
                Z[i, bits // 64] |= ONE << np.uint64(bits % 64)
            i += 1
    return total


@jit
def advance(
    C: Any, S: Any, Z: Any, E: Any, left: Any, taken: Any, bits: int, rank: Any, ray_limit: int, budget: int
) -> Any:
    """Take rows while they are cheap.

    Args:
        left, taken: row of each open column / of each bit from k on; ``taken`` is written to.
        bits: coordinates and rows taken so far.
        ray_limit: come back when there are more rays than this.
        budget: come back after about this many steps.

    Returns:
        (status, reason, S, Z, E, left, bits): reason is that of a failed :func:`make_rays`.
    """
    k, r, columns = C.shape[1], len(S), S.shape[1]
    S, Z, E = _grown(S, Z, E, r, 2 * r + 16)
    left = left.copy()
    counts = np.zeros((3, columns - k), np.int64)
    pairs = np.empty((MOST_PAIRS, 2), np.int64)
    order = np.empty(MOST_RAYS, np.int64)
    for i in range(r):
        _count(S, E, i, k, columns, counts, 1)
    status, reason, steps = PAUSED, OK, 0
    while steps < budget and r <= ray_limit:
        for c in range(columns - 1, k - 1, -1):
            if counts[1, c - k] == 0 and counts[2, c - k] == 0:  # no ray breaks it now, so none ever will
                _remove_column(S, r, c, k, columns, left, counts)
                columns -= 1
        if columns == k or r == 0:
            status = DONE
            break
        n = columns - k
        c = choose_compiled(counts[0, :n], counts[1, :n], counts[2, :n], rank[left[:n]])
        if c < 0 or counts[0, c] * counts[1, c] > MOST_PAIRS or r > MOST_RAYS:
            status = EXPENSIVE
            break
        column = c + k
        order[:r] = np.arange(r)
        words = (bits + 63) // 64
        new = _adjacent_pairs(S, Z, r, column, k - 2, words, order, pairs) if counts[0, c] > 0 else 0
        steps += counts[0, c] * counts[1, c] + new * r + (new + counts[1, c] + 1) * columns
        if r + new > len(S):
            S, Z, E = _grown(S, Z, E, r, 2 * (r + new))
        taken[bits - k] = left[c]
        reason = make_rays(C, S, Z, E, pairs[:new], column, (S, Z, E), r, (columns, left, taken, bits))
        if reason != OK:
            status = FAILED
            break
        S[r : r + new, column] = 0
        r = _replace(S, Z, E, r, new, column, columns, bits, k, counts)
        _remove_column(S, r, column, k, columns, left, counts)
        columns -= 1
        bits += 1
    return (
        status,
        reason,
        S[:r, :columns].copy(),
        Z[:r].copy(),
        E[:r].copy(),
        left[: columns - k].copy(),
        bits,
    )
