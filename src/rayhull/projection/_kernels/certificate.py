"""The certificate of one sample, worked out from nothing but y, the rows and the multipliers."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS, add_row, row_dot
from rayhull.projection.tolerances import FLOOR, ROUNDING


@njit(**OPTIONS)
def kkt_residual(rows, c, m, lower, upper, y, lam, x, v, active, state):  # type: ignore[no-untyped-def]
    """The largest relative error of the optimality conditions (``certificate.residual``); fills in what is active."""
    size, reach, off = 0.0, FLOOR, 0.0
    for j in range(len(y)):
        v[j] = y[j]
        size, reach = max(size, abs(x[j])), max(reach, abs(y[j]))
    for i in range(len(c)):
        if lam[i] != 0.0:
            add_row(rows, i, -lam[i], v)
    for j in range(len(y)):
        state[j] = 1 if v[j] > upper[j] else (-1 if v[j] < lower[j] else 0)
        off = max(off, abs(x[j] - min(max(v[j], lower[j]), upper[j])))
    reach += size
    rounding = ROUNDING * reach
    worst = max(0.0, off - rounding) / (size + rounding)
    for i in range(len(c)):
        gap = row_dot(rows, i, x) - c[i]
        active[i] = lam[i] > 0.0 or i >= m
        if active[i]:
            gap = abs(gap)
        worst = max(worst, gap / max(size, abs(c[i]), FLOOR))
        if i < m:
            worst = max(worst, -lam[i] / reach)
    return worst if worst == worst else np.inf  # NaN is no certificate
