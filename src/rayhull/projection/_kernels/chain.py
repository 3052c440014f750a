"""Pool adjacent violators: the nearest increasing sequence, with weights and bounds."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS


@njit(**OPTIONS)
def pool_range(start, stop, y, weights, lower, upper, x, joined, state, residual, status):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1: x, which neighbours are pooled, and which coordinate's bound holds a pool."""
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
            while q > 0 and values[q - 1] >= value:
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
        _write(n, q, y, weights, low, high, sizes, values, x, joined, state, residual)


@njit(**OPTIONS)
def _write(n, q, y, weights, low, high, sizes, values, x, joined, state, residual):  # type: ignore[no-untyped-def]
    """Spread the pools, and certify: the running sums of w (y - x) are the multipliers and must not be negative."""
    at, worst, size = 0, 0.0, 1e-300
    for p in range(q):
        value, push = values[p], 0.0
        for i in range(at, at + sizes[p]):
            push += weights[i] * (y[n, i] - value)
        holder = 0 if push == 0.0 else (1 if push > 0.0 else -1)
        force = 0.0
        rest = push
        for i in range(at, at + sizes[p]):
            x[n, i] = value
            size = max(size, abs(y[n, i]))
            force += weights[i] * (y[n, i] - value)
            state[n, i] = 0
            if (holder > 0 and high[i] == value) or (holder < 0 and low[i] == value):
                state[n, i] = holder
                force -= rest  # the bound takes what is left of the push
                holder, rest = 0, 0.0
            if i + 1 < at + sizes[p]:
                joined[n, i] = True
                worst = max(worst, -force / weights[i])
            elif i + 1 < y.shape[1]:
                joined[n, i] = False
        at += sizes[p]
        worst = max(worst, abs(force) / weights[at - 1])
    residual[n] = worst / size
