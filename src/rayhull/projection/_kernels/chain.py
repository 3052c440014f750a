"""Pool adjacent violators: the nearest increasing sequence, with weights and bounds."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS


@njit(**OPTIONS)
def pool_range(start, stop, y, weights, lower, upper, x, multipliers, residual, status):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1: x, and the multipliers of x[i] <= x[i + 1]."""
    d = y.shape[1]
    sums, masses, values = np.empty(d), np.empty(d), np.empty(d)
    floors, ceilings = np.empty(d), np.empty(d)
    sizes = np.empty(d, np.int64)
    for n in range(start, stop):
        low, high = lower[n if len(lower) > 1 else 0], upper[n if len(upper) > 1 else 0]
        q = 0
        for i in range(d):
            w, size = weights[i], 1
            total, floor, ceiling = w * y[n, i], low[i], high[i]
            value = min(max(y[n, i], floor), ceiling)
            if floor > ceiling:
                status[n] = 2
            while q > 0 and values[q - 1] > value:
                q -= 1
                total += sums[q]
                w += masses[q]
                size += sizes[q]
                floor, ceiling = max(floor, floors[q]), min(ceiling, ceilings[q])
                value = min(max(total / w, floor), ceiling)
                if floor > ceiling:
                    status[n] = 2
            sums[q], masses[q], sizes[q] = total, w, size
            floors[q], ceilings[q], values[q] = floor, ceiling, value
            q += 1
        _write(n, q, y, weights, low, high, sizes, values, x, multipliers, residual)


@njit(**OPTIONS)
def _write(n, q, y, weights, low, high, sizes, values, x, multipliers, residual):  # type: ignore[no-untyped-def]
    """Spread the pools, and certify: the running sums of w (y - x) are the multipliers and must not be negative.

    What a pool that is clipped leaves over is taken by one bound: the last that holds it from above (all before it
    want up), the first that holds it from below.
    """
    at, worst, size = 0, 0.0, 1e-280
    for p in range(q):
        value, rest, holder = values[p], 0.0, -1
        for i in range(at, at + sizes[p]):
            rest += weights[i] * (y[n, i] - value)
        for i in range(at, at + sizes[p]):
            if (rest > 0.0 and high[i] == value) or (rest < 0.0 and low[i] == value and holder < 0):
                holder = i
        total = 0.0
        for i in range(at, at + sizes[p]):
            x[n, i] = value
            size = max(size, abs(y[n, i]))
            total += weights[i] * (y[n, i] - value)
            if i == holder:
                total -= rest
            if i + 1 < y.shape[1]:
                inside = i + 1 < at + sizes[p]
                multipliers[n, i] = max(total, 0.0) if inside else 0.0
                worst = max(worst, -total / weights[i] if inside else 0.0)
        at += sizes[p]
        worst = max(worst, abs(total) / weights[at - 1])
    residual[n] = worst / size if worst == worst else np.inf
