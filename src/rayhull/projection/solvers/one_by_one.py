"""One sample at a time on the host: the fallback that is always there.

It is Lawson and Hanson's least-distance programming on SciPy's NNLS: slow, exact. It also gives what is wanted where
no point is feasible: the point that breaks the rows least, and among those nearly the nearest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
import torch
from torch import Tensor

from rayhull.errors import UnverifiedError
from rayhull.projection.problem import EMPTY, SOLVED, UNSOLVED, Problem, Solution, Solver, certified
from rayhull.projection.solvers.any_rows import dual_solution, refined
from rayhull.projection.standard_form import SampleMatrix
from rayhull.sets.rows import Array

MOST_PLACES = 20_000_000  # in the rows with their violations, which are dense: beyond them it takes hours
STIFFNESS = 1e4  # a violation weighs 1e8 times as much as a distance


# -- least distance --------------------------------------------------------------------------------------------------


class LeastDistance(Solver):
    """One by one on the host; a sample without any point gets the status EMPTY."""

    name = "least distance"
    may_be_long = True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, self._solve(problem), self._solve)

    def _solve(self, problem: Problem) -> Solution:
        y = problem.y.cpu().numpy()
        z, multipliers = np.empty(y.shape), np.zeros((len(y), problem.matrix.count))
        status = torch.full((len(y),), SOLVED)
        sides = [v.expand(len(y), -1).cpu().numpy() for v in problem.sides]
        for n, point in enumerate(y):
            c, lower, upper = (v[n] for v in sides)
            z[n] = np.clip(point, lower, upper)
            try:
                answer = nearest(problem.matrix.array(n), problem.m, c, lower, upper, point)
            except RuntimeError:  # NNLS ran out of steps
                status[n] = UNSOLVED
                continue
            if answer is None:
                status[n] = EMPTY
            else:
                z[n], multipliers[n] = answer
        device = problem.y.device
        solution = certified(problem, *(torch.as_tensor(v, device=device) for v in (z, multipliers)))
        solution.status = torch.where(status.to(device) == SOLVED, solution.status, status.to(device))
        return solution


def nearest(G: Array, m: int, c: Array, lower: Array, upper: Array, y: Array) -> tuple[Array, Array] | None:
    """Point and multipliers of G z <= c (= from row m on), lower <= z <= upper nearest to y; None if there is none.

    With u = z - y the task is the least ‖u‖ with R u >= h; NNLS on [R^T; h^T] w ~ (0, ..., 0, 1) solves it, and a
    residual of 0 proves that no u exists.
    """
    high, low = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    eye = np.eye(len(y))
    R = -np.concatenate([G, -G[m:], eye[high], -eye[low]])
    h = np.concatenate([G @ y - c, c[m:] - G[m:] @ y, (y - upper)[high], (lower - y)[low]])
    scale = np.abs(h).max(initial=0.0) or 1.0
    E = np.concatenate([R.T, h[None] / scale])
    w, _ = scipy.optimize.nnls(E, np.append(np.zeros(len(y)), 1.0), maxiter=30 * E.shape[1] + 100)
    left = np.append(np.zeros(len(y)), 1.0) - E @ w
    if left[-1] <= 1e-14:
        return None
    multipliers = w * (scale / left[-1])
    lam = multipliers[: len(G)].copy()
    lam[m:] -= multipliers[len(G) : 2 * len(G) - m]
    return _polish(G, m, c, lower, upper, y, lam)


def _polish(G: Array, m: int, c: Array, lower: Array, upper: Array, y: Array, lam: Array) -> tuple[Array, Array]:
    """Meet the active rows to rounding, by least squares on their multipliers, and at last on the point itself."""
    active = lam > 0
    active[m:] = True
    for _ in range(3):
        v = y - G.T @ lam
        z = np.clip(v, lower, upper)
        rows, excess = G[active] * (v == z), (G @ z - c)[active]
        step = np.linalg.lstsq(rows @ rows.T, excess, rcond=1e-13)[0] if len(excess) else excess
        lam[active] += step
    return np.clip(z - rows.T @ step, lower, upper), lam


def least_violation(problem: Problem) -> Tensor:
    """min ½‖z − y‖² + ½ STIFFNESS² ‖violation of the rows‖², inside the bounds. Shape: (N, d) → (N, d).

    The violations are further coordinates s: G z − s / STIFFNESS <= c. Bounds that cross are taken at their middle.
    """
    d, count = problem.y.shape[1], problem.matrix.count
    if count * (d + count) > MOST_PLACES:
        raise UnverifiedError(
            f"No point of least violation of {count} rows of {d} coordinates: it is searched for with dense rows of up "
            f'to {MOST_PLACES:,} places. infeasible="nan" marks these samples; P.with_sides(b_eq=b_eq[i]) says why.'
        )
    problem = _uncrossed(problem)
    if not count:
        return problem.clip(problem.y)
    soft = _with_violations(problem)
    solution = dual_solution(soft)
    left = solution.status.nonzero()[:, 0]
    if len(left):
        again = LeastDistance().solve(soft.take(left))
        better = again.residual < solution.residual[left]  # where neither is certified, the best that was found
        solution.replace(left[better], again, better)
    assert solution.z is not None
    return solution.z[:, :d]


def _uncrossed(problem: Problem) -> Problem:
    crossed, middle = problem.lower > problem.upper, (problem.lower + problem.upper) / 2
    lower, upper = (torch.where(crossed, middle, v) for v in (problem.lower, problem.upper))
    return replace(problem, lower=lower, upper=upper)


def _with_violations(problem: Problem) -> Problem:
    y, count = problem.y, problem.matrix.count
    G = problem.matrix.dense(y).expand(len(y), -1, -1)
    eye = torch.eye(count, dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
    norm = (1 + STIFFNESS**-2) ** 0.5
    free = y.new_full((1, count), torch.inf)
    wide = torch.cat([y, y.new_zeros((len(y), count))], 1)
    lower, upper = (
        torch.cat([v, (sign * free).expand(len(v), -1)], 1) for v, sign in ((problem.lower, -1), (problem.upper, 1))
    )
    matrix = SampleMatrix(torch.cat([G, -eye / STIFFNESS], 2) / norm)
    return replace(problem.at(wide), matrix=matrix, c=problem.c / norm, lower=lower, upper=upper)
