"""Block pivoting: guess which rows and bounds are met with equality, solve, correct every wrong guess at once.

Each step is one Newton step on the piecewise linear optimality conditions. When the number of wrong guesses stops
falling, only the last wrong one is changed (Murty's rule, which ends for independent rows). The envelope Cholesky
makes a step on a chain of differences linear in its length.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.rows import OPTIONS, add_row, factorise, gram, row_dot, solve_lower, solve_upper, span

PATIENCE = 4  # steps without fewer wrong guesses before single exchanges
EPS = 2.2e-16
APEX = 16 * EPS  # a point this small against y is the rounding of y
SLACK = 8 * EPS  # a row counts as violated beyond this, relative to its terms


@njit(**OPTIONS)
def workspace(count, d):  # type: ignore[no-untyped-def]
    """Made once for a range: H, gathered rows, chosen rows, their envelope, right-hand sides, a buffer, excesses, v,
    and the row that touches a coordinate first."""
    k = max(count, 1)
    return (
        np.empty((k, k)),
        np.empty((k, d)),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k),
        np.empty(d),
        np.empty(k),
        np.empty(d),
        np.empty(d, np.int64),
    )


@njit(**OPTIONS)
def choose(rows, active, state, chosen, first, touched):  # type: ignore[no-untyped-def]
    """The active rows in order, and where the envelope of each begins: at the first that shares a free coordinate."""
    _, indices, indptr, _ = rows
    k = 0
    touched[:] = len(active)  # the first chosen row that has this coordinate
    for i in range(len(active)):
        if active[i]:
            chosen[k] = i
            first[k] = 0 if len(indices) == 0 else k
            if len(indices) > 0:
                for e in span(indptr[i], indptr[i + 1]):
                    j = indices[e]
                    if state[j] == 0:
                        touched[j] = min(touched[j], k)
                        first[k] = min(first[k], touched[j])
            k += 1
    return k


@njit(**OPTIONS)
def solve_guess(rows, c, lower, upper, y, active, state, lam, v, x, work):  # type: ignore[no-untyped-def]
    """Multipliers and point for the guess: active rows met with equality, fixed coordinates at their bounds.

    Returns how many active rows depend on others; they are made inactive.
    """
    H, free, chosen, first, buffer, touched = work[0], work[1], work[2], work[3], work[5], work[8]
    k = choose(rows, active, state, chosen, first, touched)
    for j in range(len(y)):
        x[j] = y[j] if state[j] == 0 else (upper[j] if state[j] > 0 else lower[j])
        v[j] = y[j]
    for i in range(len(c)):
        lam[i] = 0.0
    gram(rows, chosen, k, state, first, H, buffer, free)
    dependent = factorise(H, first, k)
    correct(rows, c, k, state, lam, v, x, work)
    if dependent > 0:
        for a in range(k):
            if H[a, a] > 1e100:
                active[chosen[a]] = False
    return dependent


@njit(**OPTIONS)
def correct(rows, c, k, state, lam, v, x, work):  # type: ignore[no-untyped-def]
    """Add to the multipliers what makes the chosen rows hold at x; a second call takes away the rounding."""
    H, chosen, first, r = work[0], work[2], work[3], work[4]
    for a in range(k):
        r[a] = row_dot(rows, chosen[a], x) - c[chosen[a]]
    solve_lower(H, first, k, r)
    solve_upper(H, first, k, r)
    for a in range(k):
        lam[chosen[a]] += r[a]
        add_row(rows, chosen[a], -r[a], v)
    for j in range(len(x)):
        if state[j] == 0:
            x[j] = v[j]


@njit(**OPTIONS)
def polish(rows, c, y, active, state, lam, v, x, work):  # type: ignore[no-untyped-def]
    """Rows met to the rounding of x. Where those that push meet in 0 and x is only the rounding of y, x is 0."""
    k = 0
    apex = True
    for i in range(len(c)):
        if active[i]:
            k += 1
            apex = apex and c[i] == 0.0
    correct(rows, c, k, state, lam, v, x, work)
    size, noise = 0.0, 0.0
    for j in range(len(y)):
        size, noise = max(size, abs(x[j])), max(noise, abs(y[j]))
        apex = apex and state[j] == 0
    if apex and size <= APEX * noise:
        for j in range(len(y)):
            if state[j] == 0:
                x[j] = 0.0


@njit(**OPTIONS)
def pivot(rows, lengths, c, m, lower, upper, y, active, state, lam, x, most, lazy, work):  # type: ignore[no-untyped-def]
    """Returns the number of steps, negative if it gave up; ``active`` and ``state`` hold the last guess.

    ``lazy`` leaves the bounds aside until the rows are right: on chains the bounds of a first guess mislead.
    """
    excess, v = work[6], work[7]
    fewest, stalled = len(y) + len(c) + 1, 0
    for step in range(1, most + 1):
        dependent = solve_guess(rows, c, lower, upper, y, active, state, lam, v, x, work)
        wrong, last = _wrong_bounds(lower, upper, v, x, state, lazy)
        wrong, last = _wrong_rows(rows, lengths, c, m, x, active, lam, excess, wrong, last)
        if wrong == 0 and dependent == 0:
            if lazy:
                lazy, fewest = False, len(y) + len(c) + 1
                if _wrong_bounds(lower, upper, v, x, state, lazy)[0] > 0:
                    _exchange(lower, upper, v, active, state, excess, -1, lazy)
                    continue
            polish(rows, c, y, active, state, lam, v, x, work)
            return step
        stalled = 0 if wrong < fewest else stalled + 1
        fewest = min(fewest, wrong)
        _exchange(lower, upper, v, active, state, excess, last if stalled > PATIENCE else -1, lazy)
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
def _wrong_bounds(lower, upper, v, x, state, lazy):  # type: ignore[no-untyped-def]
    """How many coordinates are on the wrong side, and the last; x is clipped."""
    wrong, last = 0, -1
    if lazy:
        return wrong, last
    for j in range(len(v)):
        if side(v[j], lower[j], upper[j], state[j]) != state[j]:
            wrong, last = wrong + 1, j
        x[j] = min(max(x[j], lower[j]), upper[j])
    return wrong, last


@njit(**OPTIONS)
def _wrong_rows(rows, lengths, c, m, x, active, lam, excess, wrong, last):  # type: ignore[no-untyped-def]
    """The same count, with the rows: violated ones, and active ones that pull instead of push."""
    size = 0.0
    for j in range(len(x)):
        size = max(size, abs(x[j]))
    for i in range(len(c)):
        if active[i]:
            excess[i] = -lam[i] if i < m else 0.0
        else:
            gap = row_dot(rows, i, x) - c[i]
            excess[i] = (gap if i < m else abs(gap)) - SLACK * (lengths[i] * size + abs(c[i]))
        if excess[i] > 0.0:
            wrong, last = wrong + 1, len(x) + i
    return wrong, last


@njit(**OPTIONS)
def _exchange(lower, upper, v, active, state, excess, only, lazy):  # type: ignore[no-untyped-def]
    d = len(v)
    if not lazy:
        for j in range(d):
            if only < 0 or only == j:
                state[j] = side(v[j], lower[j], upper[j], state[j])
    for i in range(len(active)):
        if excess[i] > 0.0 and (only < 0 or only == d + i):
            active[i] = not active[i]
