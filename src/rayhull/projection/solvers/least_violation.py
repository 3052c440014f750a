"""Where no point is feasible: the point that breaks the rows least, and among those nearly the nearest."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rayhull.errors import UnverifiedError
from rayhull.projection.certificate import certified
from rayhull.projection.matrix import SampleMatrix
from rayhull.projection.problem import Problem
from rayhull.projection.solvers import dual, least_distance

STIFFNESS = 1e4  # a violation weighs 1e8 times as much as a distance


def solve(problem: Problem, fallback: least_distance.LeastDistance) -> Tensor:
    """min ½‖z − y‖² + ½ STIFFNESS² ‖violation of the rows‖², inside the bounds. Shape: (N, d) → (N, d).

    The violations are further coordinates s: G z − s / STIFFNESS <= c. Bounds that cross are taken at their middle.
    """
    d = problem.y.shape[1]
    problem = _uncrossed(problem)
    if not problem.matrix.count:
        return problem.clip(problem.y)
    soft = _with_violations(problem)
    solution = certified(soft, *dual.solve(soft))
    left = solution.status.nonzero()[:, 0]
    if len(left):
        again = fallback.solve(soft.take(left))
        solution.replace(left, again, torch.arange(len(left), device=left.device))
    if not solution.solved:
        raise UnverifiedError("The least violation could not be found to full accuracy: scale the rows alike.")
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
    return replace(problem, points=lambda: wide, matrix=matrix, c=problem.c / norm, lower=lower, upper=upper)
