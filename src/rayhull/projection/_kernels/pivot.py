"""Block pivoting: guess which rows and bounds are met with equality, solve, correct every wrong guess at once.

Each step is one Newton step on the piecewise linear optimality conditions. When the number of wrong guesses stops
falling, only the last wrong one is changed (Murty's rule, which ends for independent rows). The envelope Cholesky
makes a step on a chain of differences linear in its length.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS, add_row, factorise, gram, row_dot, solve_lower, solve_upper

PATIENCE = 4  # steps without fewer wrong guesses before single exchanges
EPS = 2.2e-16
SLACK = 8 * EPS  # a row counts as violated beyond this, relative to its terms


@njit(**OPTIONS)
def workspace(m_all, d):  # type: ignore[no-untyped-def]
    k = max(m_all, 1)
    return (
        np.empty((k, k)),
        np.empty((k, d)),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k),
        np.empty(d),
        np.empty(k),
    )


@njit(**OPTIONS)
def solve_guess(rows, overlap, c, lower, upper, y, active, state, lam, v, x, work):  # type: ignore[no-untyped-def]
    """Multipliers and point for the guess: active rows met with equality, fixed coordinates at their bounds."""
    H, free, chosen, first, r, buffer, _ = work
    k = 0
    for i in range(len(c)):
        lam[i] = 0.0
        if active[i]:
            chosen[k] = i
            k += 1
    for j in range(len(y)):
        x[j] = y[j] if state[j] == 0 else (upper[j] if state[j] > 0 else lower[j])
    for a in range(k):
        first[a] = np.searchsorted(chosen[: a + 1], overlap[chosen[a]])
        r[a] = row_dot(rows, chosen[a], x) - c[chosen[a]]
    gram(rows, chosen, k, state, first, H, buffer, free)
    dependent = factorise(H, first, k)
    for j in range(len(y)):
        v[j] = y[j]
    for _ in range(2):  # the second round refines: rows met to rounding
        solve_lower(H, first, k, r)
        solve_upper(H, first, k, r)
        for a in range(k):
            lam[chosen[a]] += r[a]
            add_row(rows, chosen[a], -r[a], v)
        for j in range(len(y)):
            if state[j] == 0:
                x[j] = v[j]
        for a in range(k):
            r[a] = row_dot(rows, chosen[a], x) - c[chosen[a]]
    snap_to_apex(c, y, active, state, x)
    for a in range(k):
        if H[a, a] > 1e100:
            active[chosen[a]] = False  # depends on the others: its multiplier is 0
    return dependent


@njit(**OPTIONS)
def snap_to_apex(c, y, active, state, x):  # type: ignore[no-untyped-def]
    """Where the rows that push meet in 0 and x is only the rounding of y, x is 0."""
    for i in range(len(c)):
        if active[i] and c[i] != 0.0:
            return
    size, noise = 0.0, 0.0
    for j in range(len(y)):
        size, noise = max(size, abs(x[j])), max(noise, abs(y[j]))
    if size <= 16 * EPS * noise:
        for j in range(len(y)):
            if state[j] == 0:
                x[j] = 0.0


@njit(**OPTIONS)
def pivot(rows, lengths, overlap, c, m, lower, upper, y, active, state, lam, x, most, work):  # type: ignore[no-untyped-def]
    """Returns the number of steps, negative if it gave up; ``active`` and ``state`` hold the last guess."""
    excess, v = work[6], np.empty(len(y))
    fewest, stalled = len(y) + len(c) + 1, 0
    for step in range(1, most + 1):
        solve_guess(rows, overlap, c, lower, upper, y, active, state, lam, v, x, work)
        wrong, last = 0, -1
        size = 0.0
        for j in range(len(y)):
            if side(v[j], lower[j], upper[j], state[j]) != state[j]:
                wrong, last = wrong + 1, j
            x[j] = min(max(x[j], lower[j]), upper[j])
            size = max(size, abs(x[j]))
        for i in range(len(c)):
            excess[i] = -lam[i]
            if not active[i]:
                gap = row_dot(rows, i, x) - c[i]
                slack = SLACK * (lengths[i] * size + abs(c[i]))
                excess[i] = gap - slack if i < m else abs(gap) - slack
            elif i >= m:
                excess[i] = 0.0
            if excess[i] > 0.0:
                wrong, last = wrong + 1, len(y) + i
        if wrong == 0:
            return step
        stalled = 0 if wrong < fewest else stalled + 1
        fewest = min(fewest, wrong)
        _exchange(lower, upper, v, active, state, excess, last if stalled > PATIENCE else -1)
    return -most


@njit(inline="always")
def side(v, low, high, now):  # type: ignore[no-untyped-def]
    """+1 where v pushes past the upper bound, -1 past the lower, else 0; a fixed value exactly on its bound stays."""
    if v > high or (v == high and now > 0):
        return 1
    if v < low or (v == low and now < 0):
        return -1
    return 0


@njit(**OPTIONS)
def _exchange(lower, upper, v, active, state, excess, only):  # type: ignore[no-untyped-def]
    d = len(v)
    for j in range(d):
        if only < 0 or only == j:
            state[j] = side(v[j], lower[j], upper[j], state[j])
    for i in range(len(excess)):
        if excess[i] > 0.0 and (only < 0 or only == d + i):
            active[i] = not active[i]
