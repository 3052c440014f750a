"""Products with rows that are dense or sparse: what the two active-set methods share.

Rows are a tuple (data, indices, indptr, products), the indices unsigned. Dense rows have no indices and their data one
after another; products are all row · row (M, M), or empty where there are too many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# No nnan/ninf: bounds are infinite where there is none.
FAST = {"reassoc", "contract", "nsz", "arcp"}
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": FAST}
TINY = 1e-14  # a pivot this small against its diagonal: the row depends on those before it


@njit(inline="always")
def span(start, stop):  # type: ignore[no-untyped-def]
    """range(start, stop) in unsigned numbers: no index can count from the end, so the loop is vectorised."""
    return range(np.uint64(start), np.uint64(stop))


@njit(inline="always")
def row_dot(rows, i, x):  # type: ignore[no-untyped-def]
    data, indices, indptr, _ = rows
    start, total = np.uint64(indptr[i]), 0.0
    if len(indices) == 0:
        for e in span(indptr[i], indptr[i + 1]):
            total += data[e] * x[e - start]
    else:
        for e in span(indptr[i], indptr[i + 1]):
            total += data[e] * x[indices[e]]
    return total


@njit(inline="always")
def add_row(rows, i, factor, x):  # type: ignore[no-untyped-def]
    """x += factor * row i."""
    data, indices, indptr, _ = rows
    start = np.uint64(indptr[i])
    if len(indices) == 0:
        for e in span(indptr[i], indptr[i + 1]):
            x[e - start] += factor * data[e]
    else:
        for e in span(indptr[i], indptr[i + 1]):
            x[indices[e]] += factor * data[e]


@njit(inline="always")
def entry(rows, i, j):  # type: ignore[no-untyped-def]
    data, indices, indptr, _ = rows
    if len(indices) == 0:
        return data[indptr[i] + j]
    for e in span(indptr[i], indptr[i + 1]):
        if indices[e] == j:
            return data[e]
    return 0.0


@njit(**OPTIONS)
def gram(rows, chosen, k, state, first, H, v, free):  # type: ignore[no-untyped-def]
    """H[a, b] = row a · row b over the free coordinates, for the chosen rows and b from first[a] to a."""
    data, indices, indptr, products = rows
    if len(products) > 0 and not state.any():
        for a in range(k):
            for b in range(first[a], a + 1):
                H[a, b] = products[chosen[a], chosen[b]]
    elif len(indices) == 0:
        _dense_gram(data, indptr, chosen, k, state, H, free)
    else:
        _sparse_gram(rows, chosen, k, state, first, H, v)


@njit(**OPTIONS)
def _sparse_gram(rows, chosen, k, state, first, H, v):  # type: ignore[no-untyped-def]
    data, indices, indptr, _ = rows
    v[:] = 0.0
    for a in range(k):
        i = chosen[a]
        for e in span(indptr[i], indptr[i + 1]):
            j = indices[e]
            v[j] = data[e] if state[j] == 0 else 0.0
        for b in range(first[a], a + 1):
            H[a, b] = row_dot(rows, chosen[b], v)
        for e in span(indptr[i], indptr[i + 1]):
            v[indices[e]] = 0.0


@njit(**OPTIONS)
def _dense_gram(data, indptr, chosen, k, state, H, free):  # type: ignore[no-untyped-def]
    """The same for dense rows: free columns gathered once, then 3 x 3 tiles, which thirds the loads."""
    f, d = 0, len(state)
    for a in range(k):
        start, f = indptr[chosen[a]], 0
        for j in range(d):
            if state[j] == 0:
                free[a, f] = data[start + j]
                f += 1
    for a in range(0, k, 3):
        for b in range(0, a + 1, 3):
            _tile(free, f, (a, min(a + 1, k - 1), min(a + 2, k - 1)), (b, min(b + 1, k - 1), min(b + 2, k - 1)), H)


@njit(**OPTIONS)
def _tile(free, f, left, right, H):  # type: ignore[no-untyped-def]
    """Nine products of three rows with three."""
    a, b, c = free[left[0]], free[left[1]], free[left[2]]
    u, v, w = free[right[0]], free[right[1]], free[right[2]]
    au, av, aw, bu, bv, bw, cu, cv, cw = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(f):
        au += a[j] * u[j]
        av += a[j] * v[j]
        aw += a[j] * w[j]
        bu += b[j] * u[j]
        bv += b[j] * v[j]
        bw += b[j] * w[j]
        cu += c[j] * u[j]
        cv += c[j] * v[j]
        cw += c[j] * w[j]
    H[left[0], right[0]], H[left[0], right[1]], H[left[0], right[2]] = au, av, aw
    H[left[1], right[0]], H[left[1], right[1]], H[left[1], right[2]] = bu, bv, bw
    H[left[2], right[0]], H[left[2], right[1]], H[left[2], right[2]] = cu, cv, cw


@njit(**OPTIONS)
def factorise(H, first, k):  # type: ignore[no-untyped-def]
    """Cholesky in place inside the envelope; a dependent row gets an infinite pivot, so its multiplier is 0."""
    dependent = 0
    inverse = np.empty(k)
    for i in range(k):
        diagonal, start = H[i, i], first[i]
        j = start
        while j < i:
            p = H[i, j]
            if j + 1 < i and first[j] <= start and first[j + 1] <= start:  # two columns at once
                q = H[i, j + 1]
                for e in span(start, j):
                    p -= H[i, e] * H[j, e]
                    q -= H[i, e] * H[j + 1, e]
                p *= inverse[j]
                H[i, j + 1] = (q - p * H[j + 1, j]) * inverse[j + 1]
                H[i, j] = p
                j += 2
            else:
                for e in span(max(start, first[j]), j):
                    p -= H[i, e] * H[j, e]
                H[i, j] = p * inverse[j]
                j += 1
        total = diagonal
        for e in span(start, i):
            total -= H[i, e] * H[i, e]
        if total > TINY * max(diagonal, TINY):
            H[i, i] = total**0.5
        else:
            H[i, i] = 1e150
            dependent += 1
        inverse[i] = 1 / H[i, i]
    return dependent


@njit(**OPTIONS)
def solve_lower(H, first, k, r):  # type: ignore[no-untyped-def]
    for i in range(k):
        total = r[i]
        for e in span(first[i], i):
            total -= H[i, e] * r[e]
        r[i] = total / H[i, i]


@njit(**OPTIONS)
def solve_upper(H, first, k, r):  # type: ignore[no-untyped-def]
    for i in range(k - 1, -1, -1):
        value = r[i] / H[i, i]
        r[i] = value
        for e in span(first[i], i):
            r[e] -= H[i, e] * value
