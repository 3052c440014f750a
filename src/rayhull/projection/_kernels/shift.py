"""One row and bounds, block by block, read from and written to their places in the samples."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import FAST, OPTIONS
from rayhull.projection.tolerances import FLOOR

MOST = 120
ROUNDS = 3
NO_NAN = {**OPTIONS, "fastmath": FAST | {"nnan"}}  # points are finite: min and max become single instructions
ULP = 2.2e-16


@njit(**NO_NAN)
def shift_range(start, stop, y, index, a, c, lower, upper, equality, x, shifts, residual, steps):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1 of x, and the shift t, residual and steps of each of their blocks."""
    count, size = index.shape
    v, z = np.empty(size), np.empty(size)
    reach = np.abs(a).sum()
    low, high, rhs = lower[0], upper[0], c[0, 0]
    for n in range(start, stop):
        source, target = y[n], x[n]
        for b in range(count):
            s, place = n * count + b, index[b]  # unsigned places: no check for negative ones
            if len(lower) > 1:
                low = lower[s]
            if len(upper) > 1:
                high = upper[s]
            if len(c) > 1:
                rhs = c[s, 0]
            for j in range(size):
                v[j] = source[place[j]]
            total = _clip(v, a, low, high, z)
            t, used, error = 0.0, 0, 0.0
            if total > rhs or (equality and total < rhs):
                t, used, error = _root(v, a, rhs, low, high, equality, total - rhs, reach, z)
            for j in range(size):
                target[place[j]] = z[j]
            shifts[s], residual[s], steps[s] = t, error, used


# The loops below are vectorised: sums, selections and stores only. A running maximum would make them scalar.


@njit(inline="always")
def _clip(v, a, low, high, z):  # type: ignore[no-untyped-def]
    """z = clip(v), and a·z."""
    total = 0.0
    for j in range(len(v)):
        w = min(max(v[j], low[j]), high[j])
        z[j] = w
        total += a[j] * w
    return total


@njit(inline="always")
def _shift(v, a, t, low, high, z):  # type: ignore[no-untyped-def]
    """z = clip(v - t a), a·z, the slope Σ a² over the coordinates strictly inside their bounds, and Σ |a z|."""
    total, slope, mass = 0.0, 0.0, 0.0
    for j in range(len(v)):
        u = v[j] - t * a[j]
        w = min(max(u, low[j]), high[j])
        z[j] = w
        total += a[j] * w
        mass += abs(a[j] * w)
        slope += a[j] * a[j] if low[j] < u and u < high[j] else 0.0
    return total, slope, mass


@njit(inline="always")
def _first_slope(v, a, low, high, way):  # type: ignore[no-untyped-def]
    """The slope for t just past 0 in the given direction: a coordinate on its bound that moves inwards counts.

    Images sit on the bounds of their pixels; without this their first Newton step would jump far too wide.
    """
    slope = 0.0
    for j in range(len(v)):
        down = way * a[j] > 0.0
        above = low[j] < v[j] if down else low[j] <= v[j]
        below = v[j] <= high[j] if down else v[j] < high[j]
        slope += a[j] * a[j] if above and below else 0.0
    return slope


@njit(inline="always")
def _refine(v, a, t, step, rhs, low, high, z):  # type: ignore[no-untyped-def]
    """Move z by a further step where it is free, which meets the row to the rounding of z; what is off, and Σ |a z|."""
    excess, mass = -rhs, 0.0
    for j in range(len(v)):
        u = v[j] - t * a[j]
        more = step * a[j] if low[j] < u and u < high[j] else 0.0
        w = min(max(z[j] - more, low[j]), high[j])
        z[j] = w
        excess += a[j] * w
        mass += abs(a[j] * w)
    return excess, mass


@njit(**NO_NAN)
def _root(v, a, rhs, low, high, equality, excess, reach, z):  # type: ignore[no-untyped-def]
    """z = clip(v - t a) with a·z = rhs. Returns t, the number of steps, and what the row of z is off, relatively.

    For v far away, v - t a keeps the rounding of v. The root is then found again from v - t a (v is used up): adding
    a multiple of the row to v changes t and not z.
    """
    total, used, error = 0.0, 0, np.inf
    for _ in range(ROUNDS):
        least = -np.inf if equality else -total
        t, more, excess, rounding, error = _newton(v, a, rhs, low, high, least, excess, reach, z)
        total += t
        used += more
        if abs(excess) <= rounding:
            break
        for j in range(len(v)):
            v[j] -= t * a[j]
        excess = _clip(v, a, low, high, z) - rhs
        if excess == 0.0 or (excess < 0.0 and total <= 0.0 and not equality):
            error = 0.0
            break
    return total, used, error


@njit(**NO_NAN)
def _newton(v, a, rhs, low, high, least, excess, reach, z):  # type: ignore[no-untyped-def]
    """Newton steps, halved or stretched where they leave the bracket, from t = 0 with this excess; t >= least."""
    left, right = least, np.inf
    t, used, stride = 0.0, 0, 0.0
    slope = _first_slope(v, a, low, high, 1.0 if excess > 0.0 else -1.0)
    while True:
        used += 1
        if excess > 0.0:
            left = t
        else:
            right = t
        new = t + excess / slope if slope > 0.0 else np.inf
        if not (left < new and new < right) or new == np.inf:
            if left > -np.inf and right < np.inf:
                new = 0.5 * (left + right)
            else:
                stride = 4 * stride if stride > 0.0 else _first_stride(v, rhs)
                new = t + stride if excess > 0.0 else t - stride
        step, t = abs(new - t), new
        total, slope, mass = _shift(v, a, t, low, high, z)
        excess = total - rhs
        rounding = 2 * ULP * (mass + abs(rhs))
        if abs(excess) <= rounding + 2 * ULP * abs(t) * slope or step <= ULP * abs(t) or used == MOST:
            break
    if abs(excess) > rounding and slope > 0.0:
        excess, mass = _refine(v, a, t, excess / slope, rhs, low, high, z)
        rounding = 2 * ULP * (mass + abs(rhs))
    error = abs(excess) / max(mass / reach, abs(rhs), FLOOR)
    return t, used, excess, rounding, error if mass < np.inf else np.inf


@njit(**NO_NAN)
def _first_stride(v, rhs):  # type: ignore[no-untyped-def]
    """A step of the size of the numbers involved, for where all coordinates are on their bounds."""
    most = abs(rhs)
    for j in range(len(v)):
        most = max(most, abs(v[j]))
    return most if most > 0.0 else 1.0
