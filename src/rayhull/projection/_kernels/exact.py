"""A dual active-set method in the manner of Goldfarb and Idnani (1983), for the identity Hessian.

It starts at the nearest point of a subset of the rows and adds the most violated row or bound, one at a time, dropping
those whose multiplier would turn negative: always at the nearest point of a larger subset, so it ends, and with a row
that cannot be met it proves the set empty. Bounds never enter the factor: a fixed coordinate is left out of
H = G_W D G_W^T, which costs a rank-one change.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rayhull.projection._kernels.factor import append, fill_envelope, rank_one, remove
from rayhull.projection._kernels.pivot import EPS, SLACK, polish, solve_guess
from rayhull.projection._kernels.rows import OPTIONS, add_row, entry, row_dot, solve_lower, solve_upper

DONE, LIMIT, EMPTY = 0, 1, 2
FLAT = 1e-13  # a direction this short (squared, unit rows) is no direction: the row depends on the active ones
ROUNDS = 12  # fresh factorisations; the first nearly always is enough


@njit(**OPTIONS)
def exact(rows, lengths, c, m, lower, upper, y, active, state, lam, x, most, work):  # type: ignore[no-untyped-def]
    """Returns (status, steps); ``active`` and ``state`` are the guess to start from, and the answer."""
    v, mu = np.empty(len(y)), np.zeros(len(y))
    r, w = np.empty(len(c) + 1), np.empty(len(c) + 1)
    none = np.zeros(len(c) + 1, np.int64)
    problem = (rows, lengths, c, m, lower, upper)
    point = (active, state, lam, mu, x, work[2])
    steps = 0
    for _ in range(ROUNDS):
        steps += settle(rows, c, m, lower, upper, y, active, state, lam, v, x, work)
        k = _begin(work, active, state, v, x, mu)
        added = 0
        while steps < most:
            p, gap = _worst(problem, point)
            if p < 0:
                break
            added += 1
            k, used = _meet(problem, point, work[0], k, p, gap, v, r, w, none, most - steps)
            steps += used
            if k == -1 and _is_rounding(lengths, c, y, x, p, gap):
                if added == 1:
                    return DONE, steps
                break  # look again from a freshly computed point
            if k == -1:
                return EMPTY, steps
            if k == -2:  # the factor lost its accuracy: start the next round from a fresh one
                break
        if added == 0:
            return DONE, steps
        if steps >= most:
            break
    return LIMIT, steps


@njit(**OPTIONS)
def _is_rounding(lengths, c, y, x, p, gap):  # type: ignore[no-untyped-def]
    """Whether a violation that cannot be removed is no more than the rounding of the numbers involved."""
    size, noise = 0.0, 0.0
    for j in range(len(y)):
        size, noise = max(size, abs(x[j])), max(noise, abs(y[j]))
    terms = size if p >= len(c) else lengths[p] * size + abs(c[p])
    return abs(gap) <= 1e-11 * terms + 16 * EPS * noise


@njit(**OPTIONS)
def settle(rows, c, m, lower, upper, y, active, state, lam, v, x, work):  # type: ignore[no-untyped-def]
    """Drop what has a multiplier of the wrong sign until none is left: the nearest point of a subset of the rows."""
    rounds = 0
    while True:
        rounds += 1
        dropped = solve_guess(rows, c, lower, upper, y, active, state, lam, v, x, work)
        for i in range(m):
            if active[i] and lam[i] < 0.0:
                active[i] = False
                dropped += 1
        for j in range(len(y)):
            wrong = (state[j] > 0 and v[j] < upper[j]) or (state[j] < 0 and v[j] > lower[j])
            if wrong and lower[j] < upper[j]:
                state[j] = 0
                dropped += 1
        if dropped == 0:
            polish(rows, c, y, active, state, lam, v, x, work)
            return rounds


@njit(**OPTIONS)
def _begin(work, active, state, v, x, mu):  # type: ignore[no-untyped-def]
    """Multipliers of the bounds, and the number of active rows; the factor loses its envelope."""
    k = 0
    for i in range(len(active)):
        if active[i]:
            k += 1
    fill_envelope(work[0], work[3], k)
    for j in range(len(x)):
        mu[j] = v[j] - x[j] if state[j] != 0 else 0.0
    return k


@njit(**OPTIONS)
def _worst(problem, point):  # type: ignore[no-untyped-def]
    """The most violated row (0 .. M-1), upper bound (M + j) or lower bound (M + d + j), and by how much; or -1."""
    rows, lengths, c, m, lower, upper = problem
    active, state, _, _, x, _ = point
    d, count = len(x), len(c)
    p, worst, gap, size = -1, 0.0, 0.0, 0.0
    for j in range(d):
        size = max(size, abs(x[j]))
    for j in range(d):
        if state[j] == 0:
            over = max(x[j] - upper[j], lower[j] - x[j])
            if over > worst and over > SLACK * abs(x[j]):
                worst, gap, p = over, over, count + j if x[j] > upper[j] else count + d + j
    for i in range(count):
        if not active[i]:
            value = row_dot(rows, i, x) - c[i]
            over = abs(value) if i >= m else value
            if over > worst and over > SLACK * (lengths[i] * size + abs(c[i])):
                worst, gap, p = over, value, i
    return p, gap


@njit(**OPTIONS)
def _meet(problem, point, L, k, p, gap, v, r, w, none, most):  # type: ignore[no-untyped-def]
    """Move until constraint p is met, dropping what blocks. Returns the new k (-1: empty, -2: refactor) and steps."""
    rows, c = problem[0], problem[2]
    state, x, chosen = point[1], point[4], point[5]
    sign = -1.0 if gap < 0.0 or p >= len(c) + len(x) else 1.0
    gap, force = abs(gap), 0.0
    for step in range(1, most + 1):
        slope = _direction(rows, L, chosen, k, state, none, p, sign, len(c), r, w, v)
        full = gap / slope if slope > FLAT else np.inf
        partial, blocker = _blocking(problem, point, k, r, v)
        if full == np.inf and partial == np.inf:
            return -1, step
        t = min(full, partial)
        force += t
        gap -= t * slope
        _move(point, k, t, r, v)
        if full <= partial:
            return _join(problem, point, L, k, p, sign, force, slope, w), step
        k = _leave(rows, point, L, k, blocker, len(c), w)
    return -2, most


@njit(**OPTIONS)
def _direction(rows, L, chosen, k, state, none, p, sign, count, r, w, v):  # type: ignore[no-untyped-def]
    """v = n - G_W^T r with r = H^-1 G_W D n: x moves by -t v where free, multipliers of bounds by -t v where fixed."""
    d = len(v)
    j = (p - count) % d
    v[:] = 0.0
    if p < count:
        add_row(rows, p, sign, v)
        for e in range(d):
            if state[e] != 0:
                v[e] = 0.0
    for a in range(k):
        w[a] = row_dot(rows, chosen[a], v) if p < count else sign * entry(rows, chosen[a], j)
    solve_lower(L, none, k, w)
    r[:k] = w[:k]
    solve_upper(L, none, k, r)
    v[:] = 0.0
    if p < count:
        add_row(rows, p, sign, v)
    else:
        v[j] = sign
    for a in range(k):
        add_row(rows, chosen[a], -r[a], v)
    slope = 0.0
    for e in range(d):
        if state[e] == 0:
            slope += v[e] * v[e]
    return slope


@njit(**OPTIONS)
def _blocking(problem, point, k, r, v):  # type: ignore[no-untyped-def]
    """The step at which a multiplier reaches 0 first, and whose: a place in ``chosen``, or -1 - j for a bound."""
    _, _, _, m, lower, upper = problem
    _, state, lam, mu, _, chosen = point
    partial, blocker = np.inf, 0
    for a in range(k):
        if chosen[a] < m and r[a] > 1e-12 and max(lam[chosen[a]], 0.0) < partial * r[a]:
            partial, blocker = max(lam[chosen[a]], 0.0) / r[a], a
    for j in range(len(v)):
        if state[j] != 0 and state[j] * v[j] > 1e-12 and lower[j] < upper[j]:
            t = max(mu[j] * state[j], 0.0) / abs(v[j])
            if t < partial:
                partial, blocker = t, -1 - j
    return partial, blocker


@njit(**OPTIONS)
def _move(point, k, t, r, v):  # type: ignore[no-untyped-def]
    _, state, lam, mu, x, chosen = point
    for a in range(k):
        lam[chosen[a]] -= t * r[a]
    for j in range(len(x)):
        if state[j] == 0:
            x[j] -= t * v[j]
        else:
            mu[j] -= t * v[j]


@njit(**OPTIONS)
def _join(problem, point, L, k, p, sign, force, slope, w):  # type: ignore[no-untyped-def]
    rows, _, c, _, lower, upper = problem
    active, state, lam, mu, x, chosen = point
    if p < len(c):
        append(L, k, w, sign, slope**0.5)
        chosen[k], active[p], lam[p] = p, True, sign * force
        return k + 1
    j = (p - len(c)) % len(x)
    state[j], mu[j] = int(sign), sign * force
    x[j] = upper[j] if sign > 0 else lower[j]
    for a in range(k):
        w[a] = entry(rows, chosen[a], j)
    return k if rank_one(L, k, w, -1.0) else -2


@njit(**OPTIONS)
def _leave(rows, point, L, k, blocker, count, w):  # type: ignore[no-untyped-def]
    active, state, lam, mu, _, chosen = point
    if blocker < 0:
        j = -1 - blocker
        state[j], mu[j] = 0, 0.0
        for a in range(k):
            w[a] = entry(rows, chosen[a], j)
        rank_one(L, k, w, 1.0)
        return k
    active[chosen[blocker]], lam[chosen[blocker]] = False, 0.0
    remove(L, k, blocker)
    for a in range(blocker, k - 1):
        chosen[a] = chosen[a + 1]
    return k - 1
