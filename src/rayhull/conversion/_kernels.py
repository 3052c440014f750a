"""New rays from adjacent pairs, compiled: integers through 128-bit products, floats with their error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from rayhull.conversion._jit import jit, sum_of_products
from rayhull.conversion._wide import ZERO, divide_exactly, gcd64, gcd128, odd_inverse, shift_out_twos
from rayhull.conversion.floats import MOST_ZERO, REFRESH, SMALLEST_PIVOT, UNCERTAINTY, ZERO_LEVEL

ONE = np.uint64(1)
EPS = 2.0**-52
LIMIT = np.uint64(1 << 62)
SHORT = 2.0**61  # whatever floats have rounded, it is less than 2^62


@jit
def _content(S: Any, i: int, j: int, a: int, b: int, columns: int) -> Any:
    """gcd of the entries of a S_i + b S_j, not all of them 0, as (high, low)."""
    g_high, g_low = ZERO, ZERO
    twos, inverse = ZERO, ZERO
    for t in range(columns):
        high, low = sum_of_products(a, S[i, t], b, S[j, t])
        if high == 0 and low == 0:
            continue
        if inverse != ZERO and divide_exactly(high, low, np.int64(g_low), twos, inverse)[0]:
            continue
        if high < 0:
            high, low = (~high if low != 0 else -high), -low
        if g_high == ZERO and g_low == ZERO:
            g_high, g_low = np.uint64(high), np.uint64(low)
        elif g_high == ZERO and high == 0:
            g_low = gcd64(g_low, np.uint64(low))
        else:
            g_high, g_low = gcd128(g_high, g_low, np.uint64(high), np.uint64(low))
        if g_high == ZERO and g_low == ONE:
            break
        if g_high == ZERO and g_low < LIMIT:
            _, odd, twos = shift_out_twos(ZERO, g_low)
            inverse = odd_inverse(odd)
    return g_high, g_low


@jit
def _ray_short(S: Any, i: int, j: int, a: int, b: int, columns: int, ray: Any) -> bool:
    """ray = the primitive vector along a S_i + b S_j, if all are so short that no sum of products passes 62 bits."""
    first, second = 0, 0
    for t in range(columns):
        first |= abs(S[i, t])
        second |= abs(S[j, t])
    if float(a) * float(first) + float(b) * float(second) >= SHORT:
        return False
    for t in range(columns):
        ray[t] = a * S[i, t] + b * S[j, t]
    g = ZERO
    for t in range(columns):
        entry = np.uint64(abs(ray[t]))
        if g == ZERO or entry % g != ZERO:
            g = gcd64(g, entry)
            if g == ONE:
                return True
    divisor = np.int64(g)
    for t in range(columns):
        ray[t] //= divisor
    return True


@jit
def _ray_exact(S: Any, i: int, j: int, column: int, columns: int, ray: Any) -> bool:
    """ray = the primitive vector on S_i and S_j with slack 0 in ``column``; False past 62 bits."""
    a, b = -S[j, column], S[i, column]
    g = np.int64(gcd64(np.uint64(a), np.uint64(b)))
    a, b = a // g, b // g
    if _ray_short(S, i, j, a, b, columns, ray):
        return True
    g_high, g_low = _content(S, i, j, a, b, columns)
    if g_high != ZERO or g_low >= LIMIT:
        return False
    _, odd, twos = shift_out_twos(ZERO, g_low)
    inverse = odd_inverse(odd)
    for t in range(columns):
        high, low = sum_of_products(a, S[i, t], b, S[j, t])
        right, quotient = divide_exactly(high, low, np.int64(g_low), twos, inverse)
        if not right:
            return False
        ray[t] = quotient
    return True


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
    last = 0
    while not free[last]:
        last += 1
    for t in range(k):
        y[t] = 0.0
    y[support[last]] = 1.0
    largest = 1.0
    for step in range(s - 1):
        value = -M[step, last]
        if value <= 0.0:
            return -1.0
        y[support[column_of[step]]] = value
        largest = max(largest, value)
    for t in range(k):
        y[t] /= largest
    return UNCERTAINTY * (1.0 + 0.5 / smallest)


@jit
def _ray_float(
    C: Any,
    S: Any,
    E: Any,
    i: int,
    j: int,
    column: int,
    columns: int,
    left: Any,
    taken: Any,
    bits: int,
    ray: Any,
    zeros: Any,
) -> Any:
    """ray = the ray on S_i and S_j with slack 0 in ``column``; returns its error, or -1. Zeros become exact zeros."""
    k = C.shape[1]
    a, b = -S[j, column], S[i, column]
    largest = 0.0
    for t in range(k):
        largest = max(largest, a * S[i, t] + b * S[j, t])
    a, b = a / largest, b / largest
    error = (a + 1.0 / largest) * E[i] + (b + 1.0 / largest) * E[j] + 4.0 * EPS * (a + b)
    for t in range(columns):
        ray[t] = a * S[i, t] + b * S[j, t]
    if error > REFRESH:
        error = refresh(C, ray, zeros, taken, bits)
        for t in range(k, columns):
            ray[t] = 0.0
            for c in range(k):
                ray[t] += C[left[t], c] * ray[c]
    for t in range(k, columns):
        if abs(ray[t]) <= min(ZERO_LEVEL * error, MOST_ZERO):
            ray[t] = 0.0
    return error


def _make_ray(
    C: Any,
    S: Any,
    E: Any,
    i: int,
    j: int,
    column: int,
    columns: int,
    left: Any,
    taken: Any,
    bits: int,
    ray: Any,
    zeros: Any,
) -> Any:
    """Error of the new ray, or -1 if it cannot be made."""
    raise NotImplementedError("chosen by the type of S when compiled")


@overload(_make_ray)  # type: ignore[untyped-decorator, unused-ignore]
def _choose_make_ray(C, S, E, i, j, column, columns, left, taken, bits, ray, zeros):  # type: ignore[no-untyped-def]
    def exact(C, S, E, i, j, column, columns, left, taken, bits, ray, zeros):  # type: ignore[no-untyped-def]
        return 0.0 if _ray_exact(S, i, j, column, columns, ray) else -1.0

    def inexact(C, S, E, i, j, column, columns, left, taken, bits, ray, zeros):  # type: ignore[no-untyped-def]
        return _ray_float(C, S, E, i, j, column, columns, left, taken, bits, ray, zeros)

    return inexact if isinstance(S.dtype, types.Float) else exact


@jit
def make_rays(
    C: Any, S: Any, Z: Any, E: Any, pairs: Any, count: int, column: int,
    new_S: Any, new_Z: Any, new_E: Any, first: int, columns: int, left: Any, taken: Any, bits: int,
) -> bool:  # fmt: skip
    """One new ray for each of ``count`` pairs, from new_S[first] on; False if one cannot be made."""
    for p in range(count):
        i, j, q = pairs[p, 0], pairs[p, 1], first + p
        for w in range(Z.shape[1]):
            new_Z[q, w] = Z[i, w] & Z[j, w]
        new_Z[q, bits // 64] |= ONE << np.uint64(bits % 64)
        new_E[q] = _make_ray(C, S, E, i, j, column, columns, left, taken, bits + 1, new_S[q], new_Z[q])
        if new_E[q] < 0.0:
            return False
    return True
