"""The first guess for one sample: accelerated gradient steps on the dual, which the active-set methods then correct."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS, add_row, row_dot


@njit(**OPTIONS)
def guess(rows, c, m, lower, upper, y, step, most, active, state):  # type: ignore[no-untyped-def]
    """FISTA with a restart where the momentum points uphill; fills ``active`` and ``state``."""
    count = len(c)
    lam, point, z = np.zeros(count), np.zeros(count), np.empty(len(y))
    new, t = np.empty(count), 1.0
    for _ in range(most):
        _primal(rows, lower, upper, y, point, z)
        uphill = 0.0
        for i in range(count):
            value = point[i] + step * (row_dot(rows, i, z) - c[i])
            new[i] = max(value, 0.0) if i < m else value
            uphill += (point[i] - new[i]) * (new[i] - lam[i])
        t = 1.0 if uphill > 0.0 else t
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
        momentum = 0.0 if uphill > 0.0 else (t - 1.0) / after
        for i in range(count):
            point[i] = new[i] + momentum * (new[i] - lam[i])
            lam[i] = new[i]
        t = after
    _shifted(rows, y, lam, z)
    for i in range(count):
        active[i] = lam[i] > 0.0 or i >= m
    for j in range(len(y)):
        state[j] = 1 if z[j] > upper[j] else (-1 if z[j] < lower[j] else 0)


@njit(**OPTIONS)
def _primal(rows, lower, upper, y, lam, z):  # type: ignore[no-untyped-def]
    """z = clip(y - G^T lam)."""
    _shifted(rows, y, lam, z)
    for j in range(len(y)):
        z[j] = min(max(z[j], lower[j]), upper[j])


@njit(**OPTIONS)
def _shifted(rows, y, lam, z):  # type: ignore[no-untyped-def]
    """z = y - G^T lam."""
    for j in range(len(y)):
        z[j] = y[j]
    for i in range(len(lam)):
        if lam[i] != 0.0:
            add_row(rows, i, -lam[i], z)
