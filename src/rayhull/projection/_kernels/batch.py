"""One call for a range of samples: block pivoting first, the exact method where it gave up."""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.exact import DONE, exact
from rayhull.projection._kernels.pivot import pivot, workspace
from rayhull.projection._kernels.rows import OPTIONS, factorise, gram, solve_lower, solve_upper


@njit(**OPTIONS)
def solve_range(start, stop, rows, lengths, overlap, c, m, lower, upper, y, active, state, lam, x, status, steps, most):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1. ``c``, ``lower``, ``upper`` have one row, or one for each sample."""
    work = workspace(c.shape[1], y.shape[1])
    for n in range(start, stop):
        rhs = c[n if len(c) > 1 else 0]
        low, high = lower[n if len(lower) > 1 else 0], upper[n if len(upper) > 1 else 0]
        args = (y[n], active[n], state[n], lam[n], x[n])
        used = pivot(rows, lengths, overlap, rhs, m, low, high, *args, most[0], work)
        status[n], steps[n] = DONE, abs(used)
        if used <= 0:
            status[n], more = exact(rows, lengths, overlap, rhs, m, low, high, *args, most[1], work)
            steps[n] += more
        for j in range(len(low)):
            x[n, j] = min(max(x[n, j], low[j]), high[j])


@njit(**OPTIONS)
def multipliers_range(start, stop, rows, overlap, q, active, state, w):  # type: ignore[no-untyped-def]
    """w with (G D G^T) w = q over the active rows, for the backward rule; dependent rows get 0."""
    H, free, chosen, first, r, buffer, _ = workspace(q.shape[1], state.shape[1])
    for n in range(start, stop):
        k = 0
        for i in range(q.shape[1]):
            if active[n, i]:
                chosen[k] = i
                r[k] = q[n, i]
                first[k] = np.searchsorted(chosen[: k + 1], overlap[i])
                k += 1
        gram(rows, chosen, k, state[n], first, H, buffer, free)
        factorise(H, first, k)
        solve_lower(H, first, k, r)
        solve_upper(H, first, k, r)
        for a in range(k):
            w[n, chosen[a]] = r[a]
