"""Where no point is feasible: the point that breaks the rows least, and among those nearly the nearest."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.errors import UnverifiedError
from rayhull.projection.problem import SOLVED, Problem, Rhs
from rayhull.projection.solver import Way

STIFFNESS = 1e4  # a violation weighs 1e8 times as much as a distance


def solve(way: Way, y: Tensor, rhs: Rhs) -> Tensor:
    """min ½‖z − y‖² + ½ STIFFNESS² ‖violation of the rows‖², inside the bounds. Shape: (N, d) → (N, d).

    The violations are further coordinates s: G z − s / STIFFNESS <= c. Bounds that cross are taken at their middle.
    """
    problem = way.problem
    lower, upper = torch.minimum(rhs.lower, rhs.upper), torch.maximum(rhs.lower, rhs.upper)
    crossed = rhs.lower > rhs.upper
    middle = (lower + upper) / 2
    lower, upper = torch.where(crossed, middle, lower), torch.where(crossed, middle, upper)
    count = len(problem.rhs)
    if not count:
        return torch.clamp(y, lower, upper)
    soft = _with_slack(problem)
    pad = y.new_full((1, count), np.inf)
    bounds = [torch.cat([v, sign * pad.expand(len(v), -1)], 1) for v, sign in ((lower, -1), (upper, 1))]
    norms = torch.as_tensor(soft.norms, device=y.device)
    answer = type_of(way)(soft).solve(torch.cat([y, y.new_zeros((len(y), count))], 1), Rhs(rhs.c / norms, *bounds))
    if bool((answer.status != SOLVED).any()):
        raise UnverifiedError("The least violation could not be found to full accuracy: scale the rows alike.")
    return answer.z[:, : problem.d]


def type_of(way: Way) -> type[Way]:
    """The generic solver that is at hand."""
    from rayhull.projection import compiled
    from rayhull.projection.solvers.generic import ActiveSet, DualNewton

    return ActiveSet if compiled.available() else DualNewton


def _with_slack(problem: Problem) -> Problem:
    count = len(problem.rhs)
    rows = sp.csr_array(sp.hstack([problem.rows, -sp.eye_array(count) / STIFFNESS], format="csr"))
    norm = np.sqrt(1 + STIFFNESS**-2)
    free = np.full(count, np.inf)
    return Problem(
        sp.csr_array(rows / norm),
        problem.m,
        problem.rhs / norm,
        np.concatenate([problem.lower, -free]),
        np.concatenate([problem.upper, free]),
        np.full(count, norm),
        None,
    )
