"""One call for a range of samples: block pivoting first, the exact method where it gave up."""

from __future__ import annotations

from numba import njit

from rayhull.projection._kernels.certificate import kkt_residual
from rayhull.projection._kernels.exact import DONE, EMPTY, exact
from rayhull.projection._kernels.pivot import choose, pivot, workspace
from rayhull.projection._kernels.rows import OPTIONS, factorise, gram, solve_lower, solve_upper
from rayhull.projection._kernels.warm import guess
from rayhull.projection.tolerances import SOLVED, TOLERANCE, UNSOLVED


@njit(**OPTIONS)
def solve_range(start, stop, problem, y, guessed, made, how):  # type: ignore[no-untyped-def]
    """Fill samples start .. stop - 1.

    ``problem``: rows, their 1-norms, c, m, lower, upper; c and the bounds have one row, or one for each
    sample. ``guessed``: active rows and states, in and out. ``made``: multipliers, points, status, steps, residuals.
    ``how``: (gradient steps for a first guess, their length, block pivots, steps of the exact method, bounds last).
    """
    rows, lengths, c, m, lower, upper = problem
    active, state = guessed
    lam, x, status, steps, residual = made
    work = workspace(c.shape[1], y.shape[1])
    for n in range(start, stop):
        rhs = c[n if len(c) > 1 else 0]
        low, high = lower[n if len(lower) > 1 else 0], upper[n if len(upper) > 1 else 0]
        if how[0] > 0:
            guess(rows, rhs, m, low, high, y[n], how[1], how[0], active[n], state[n])
        args = (y[n], active[n], state[n], lam[n], x[n])
        used = pivot(rows, lengths, rhs, m, low, high, *args, how[2], how[4], work)
        status[n], steps[n] = DONE, how[0] + abs(used)
        if used <= 0:
            status[n], more = exact(rows, lengths, rhs, m, low, high, *args, how[3], work)
            steps[n] += more
        for j in range(len(low)):
            x[n, j] = min(max(x[n, j], low[j]), high[j])
        residual[n] = kkt_residual(rows, rhs, m, low, high, y[n], lam[n], x[n], work[7], active[n], state[n])
        if residual[n] <= TOLERANCE:
            status[n] = SOLVED
        elif status[n] != EMPTY:
            status[n] = UNSOLVED


@njit(**OPTIONS)
def multipliers_range(start, stop, rows, q, active, state, w):  # type: ignore[no-untyped-def]
    """w with (G D G^T) w = q over the active rows, for the backward rule; dependent rows get 0."""
    work = workspace(q.shape[1], state.shape[1])
    H, free, chosen, first, r, buffer = work[0], work[1], work[2], work[3], work[4], work[5]
    for n in range(start, stop):
        k = choose(rows, active[n], state[n], chosen, first, work[8])
        for a in range(k):
            r[a] = q[n, chosen[a]]
        gram(rows, chosen, k, state[n], first, H, buffer, free)
        factorise(H, first, k)
        solve_lower(H, first, k, r)
        solve_upper(H, first, k, r)
        for a in range(k):
            w[n, chosen[a]] = r[a]
