"""One row and bounds, block by block, read from and written to their places in the samples."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import FAST, OPTIONS

MOST = 120
NO_NAN = {**OPTIONS, "fastmath": FAST | {"nnan"}}  # points are finite: min and max become single instructions
ULP = 2.2e-16


@njit(**NO_NAN)
def shift_range(start, stop, y, index, a, c, lower, upper, equality, x, shifts, residual, steps):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1 of x, and the shift t, residual and steps of each of their blocks."""
    count, size = index.shape
    v, z = np.empty(size), np.empty(size)
    reach = np.abs(a).sum()
    for n in range(start, stop):
        for b in range(count):
            s = n * count + b
            source, target, place = y[n], x[n], index[b]  # unsigned places: no check for negative ones
            low, high = lower[s if len(lower) > 1 else 0], upper[s if len(upper) > 1 else 0]
            rhs = c[s if len(c) > 1 else 0, 0]
            largest, total = 0.0, 0.0
            for j in range(size):
                value = source[place[j]]
                v[j] = value
                largest = max(largest, abs(value))
                w = min(max(value, low[j]), high[j])
                total += a[j] * w
                target[place[j]] = w
            t, used, error = 0.0, 0, 0.0
            if total > rhs or (equality and total < rhs):
                slope = _first_slope(v, a, low, high, 1.0 if total > rhs else -1.0)
                t, used, excess, slope = _root(v, a, rhs, low, high, equality, total - rhs, slope, reach, largest)
                error = _refined(v, a, t, rhs, low, high, excess, slope, reach, z)
                for j in range(size):
                    target[place[j]] = z[j]
            shifts[s], residual[s], steps[s] = t, error, used


@njit(inline="always")
def _clipped(v, a, t, low, high):  # type: ignore[no-untyped-def]
    """a·clip(v - t a), and the slope Σ a² over the coordinates strictly inside their bounds."""
    total, slope = 0.0, 0.0
    for j in range(len(v)):
        u = v[j] - t * a[j]
        total += a[j] * min(max(u, low[j]), high[j])
        slope += a[j] * a[j] if low[j] < u and u < high[j] else 0.0
    return total, slope


@njit(inline="always")
def _first_slope(v, a, low, high, way):  # type: ignore[no-untyped-def]
    """The slope for t just past 0 in the given direction: a coordinate on its bound that moves inwards counts.

    Images sit on the bounds of their pixels; without this their first Newton step would jump far too wide.
    """
    slope = 0.0
    for j in range(len(v)):
        move = -way * a[j]
        above = low[j] < v[j] or (low[j] == v[j] and move > 0.0)
        below = v[j] < high[j] or (v[j] == high[j] and move < 0.0)
        slope += a[j] * a[j] if above and below else 0.0
    return slope


@njit(inline="always")
def _write(v, a, t, low, high, z):  # type: ignore[no-untyped-def]
    """z = clip(v - t a), and its largest entry."""
    size = 0.0
    for j in range(len(v)):
        w = min(max(v[j] - t * a[j], low[j]), high[j])
        z[j] = w
        size = max(size, abs(w))
    return size


@njit(**NO_NAN)
def _root(v, a, rhs, low, high, equality, excess, slope, reach, largest):  # type: ignore[no-untyped-def]
    """t with a·clip(v - t a) = rhs: Newton steps, halved or stretched where they leave the bracket."""
    goal = 2 * ULP * (reach * largest + abs(rhs))
    left, right = -np.inf if equality else 0.0, np.inf
    t, stride = 0.0, largest + abs(rhs)
    stride = stride if stride > 0.0 else 1.0
    used = 0
    while abs(excess) > goal and used < MOST:
        used += 1
        if excess > 0:
            left = t
        else:
            right = t
        new = t + excess / slope if slope > 0.0 else np.inf
        if abs(new - t) <= ULP * abs(t):
            break
        if not (left < new and new < right) or new == np.inf:
            if left > -np.inf and right < np.inf:
                new = 0.5 * (left + right)
            else:
                new = t + stride if excess > 0 else t - stride
                stride *= 4
        t = new
        total, slope = _clipped(v, a, t, low, high)
        excess = total - rhs
    return t, used, excess, slope


@njit(**NO_NAN)
def _refined(v, a, t, rhs, low, high, excess, slope, reach, z):  # type: ignore[no-untyped-def]
    """z = clip(v - t a), met to the rounding of z, which may be far below that of v; returns the relative error."""
    size = _write(v, a, t, low, high, z)
    terms = max(size, abs(rhs), 1e-300)
    if abs(excess) > ULP * (reach * size + abs(rhs)) and slope > 0.0:
        step, excess = excess / slope, -rhs
        for j in range(len(v)):
            u = v[j] - t * a[j]
            if low[j] < u and u < high[j]:
                z[j] = min(max(z[j] - step * a[j], low[j]), high[j])
            excess += a[j] * z[j]
    return abs(excess) / terms
