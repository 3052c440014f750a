"""The compiled row step: new rays from pairs, and whole runs of cheap rows without coming back to Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from rayhull.conversion._jit import jit, sum_of_products
from rayhull.conversion._wide import ZERO, divide_exactly, gcd64, gcd128, odd_inverse, shift_out_twos
from rayhull.conversion.floats import REFRESH, SMALLEST_PIVOT, UNCERTAINTY, ZERO_LEVEL

OK, TOO_WIDE, ILL_CONDITIONED = 0, 1, 2
ONE = np.uint64(1)
EPS = 2.0**-52


@jit
def _content(S: Any, i: int, j: int, a: int, b: int, k: int) -> Any:
    """gcd of the entries of y = a S_i + b S_j as (high, low): all are >= 0 and not all 0."""
    g_high, g_low = ZERO, ZERO
    twos, inverse = ZERO, ZERO
    for t in range(k):
        if S[i, t] == 0 and S[j, t] == 0:
            continue
        high, low = sum_of_products(a, S[i, t], b, S[j, t])
        if inverse != ZERO and divide_exactly(high, low, np.int64(g_low), twos, inverse)[0]:
            continue
        if g_high == ZERO and g_low == ZERO:
            g_high, g_low = np.uint64(high), np.uint64(low)
        elif g_high == ZERO and high == 0:
            g_low = gcd64(g_low, np.uint64(low))
        else:
            g_high, g_low = gcd128(g_high, g_low, np.uint64(high), np.uint64(low))
        if g_high == ZERO and g_low == ONE:
            break
        if g_high == ZERO and g_low < (1 << 62):
            _, odd, twos = shift_out_twos(ZERO, g_low)
            inverse = odd_inverse(odd)
    return g_high, g_low


@jit
def _ray_exact(C: Any, S: Any, Z: Any, E: Any, i: int, j: int, column: int, q: int, out: Any, rows: Any) -> int:
    """out[0][q] = the primitive vector on S_i and S_j with slack 0 in ``column``; TOO_WIDE past 62 bits."""
    k, columns = C.shape[1], rows[0]
    a, b = -S[j, column], S[i, column]
    g = np.int64(gcd64(np.uint64(a), np.uint64(b)))
    a, b = a // g, b // g
    g_high, g_low = _content(S, i, j, a, b, k)
    if g_high != ZERO or g_low >= (1 << 62):
        return TOO_WIDE
    _, odd, twos = shift_out_twos(ZERO, g_low)
    inverse = odd_inverse(odd)
    for t in range(columns):
        high, low = sum_of_products(a, S[i, t], b, S[j, t])
        right, quotient = divide_exactly(high, low, np.int64(g_low), twos, inverse)
        if not right:
            return TOO_WIDE
        out[0][q, t] = quotient
    return OK


@jit
def refresh(C: Any, y: Any, zeros: Any, taken: Any, bits: int) -> Any:
    """Recompute y from its tight rows (Gauss-Jordan, complete pivoting); returns its error estimate, or -1."""
    k = C.shape[1]
    support = np.empty(k, np.int64)
    s = 0
    for t in range(k):
        if zeros[t // 64] >> np.uint64(t % 64) & ONE == 0:
            support[s] = t
            s += 1
    M = np.empty((bits - k, s))
    height = 0
    for t in range(k, bits):
        if zeros[t // 64] >> np.uint64(t % 64) & ONE != 0:
            for c in range(s):
                M[height, c] = C[taken[t - k], support[c]]
            height += 1
    column_of = np.empty(s, np.int64)
    free = np.ones(s, np.bool_)
    smallest = 1.0
    for step in range(s - 1):
        pivot, a, c = 0.0, -1, -1
        for u in range(step, height):
            for v in range(s):
                if abs(M[u, v]) > pivot:
                    pivot, a, c = abs(M[u, v]), u, v
        if pivot < SMALLEST_PIVOT:
            return -1.0
        smallest = min(smallest, pivot)
        for v in range(s):
            M[a, v], M[step, v] = M[step, v], M[a, v]
        scale = 1.0 / M[step, c]
        for v in range(s):
            M[step, v] *= scale
        for u in range(height):
            if u != step and M[u, c] != 0.0:
                factor = M[u, c]
                for v in range(s):
                    M[u, v] -= factor * M[step, v]
                M[u, c] = 0.0
        column_of[step], free[c] = c, False
    last = np.argmax(free)
    y[:] = 0.0
    y[support[last]] = 1.0
    largest = 1.0
    for step in range(s - 1):
        value = -M[step, last]
        if value <= 0.0:
            return -1.0
        y[support[column_of[step]]] = value
        largest = max(largest, value)
    y /= largest
    return UNCERTAINTY * (1.0 + 0.5 / smallest)


@jit
def _ray_float(C: Any, S: Any, Z: Any, E: Any, i: int, j: int, column: int, q: int, out: Any, rows: Any) -> int:
    """out[0][q] = the ray on S_i and S_j whose slack in ``column`` is 0, with its error; zeros are made exact zeros."""
    columns, left, taken, bits = rows
    k = C.shape[1]
    a, b = -S[j, column], S[i, column]
    largest = 0.0
    for t in range(k):
        largest = max(largest, a * S[i, t] + b * S[j, t])
    a, b = a / largest, b / largest
    error = (a + 1.0 / largest) * E[i] + (b + 1.0 / largest) * E[j] + 4.0 * EPS * (a + b)
    for t in range(columns):
        out[0][q, t] = a * S[i, t] + b * S[j, t]
    if error > REFRESH:
        error = refresh(C, out[0][q, :k], out[1][q], taken, bits)
        if error < 0.0:
            return ILL_CONDITIONED
        for t in range(k, columns):
            out[0][q, t] = np.dot(C[left[t - k]], out[0][q, :k])
    for t in range(k, columns):
        if abs(out[0][q, t]) <= ZERO_LEVEL * error:
            out[0][q, t] = 0.0
    out[2][q] = error
    return OK


def _make_ray(C: Any, S: Any, Z: Any, E: Any, i: int, j: int, column: int, q: int, out: Any, rows: Any) -> int:
    raise NotImplementedError("chosen by the type of S when compiled")


@overload(_make_ray)  # type: ignore[untyped-decorator, unused-ignore]
def _choose_make_ray(C, S, Z, E, i, j, column, q, out, rows):  # type: ignore[no-untyped-def]
    chosen = _ray_float if isinstance(S.dtype, types.Float) else _ray_exact

    def call(C, S, Z, E, i, j, column, q, out, rows):  # type: ignore[no-untyped-def]
        return chosen(C, S, Z, E, i, j, column, q, out, rows)

    return call


@jit
def make_rays(C: Any, S: Any, Z: Any, E: Any, pairs: Any, column: int, out: Any, first: int, rows: Any) -> int:
    """One new ray for each pair, from out[.][first] on; ``rows`` = (columns, left, taken, bits before)."""
    bits = rows[3]
    for p in range(len(pairs)):
        i, j = pairs[p]
        for w in range(Z.shape[1]):
            out[1][first + p, w] = Z[i, w] & Z[j, w]
        out[1][first + p, bits // 64] |= ONE << np.uint64(bits % 64)
        status: int = _make_ray(C, S, Z, E, i, j, column, first + p, out, (rows[0], rows[1], rows[2], bits + 1))
        if status != OK:
            return status
    return OK
