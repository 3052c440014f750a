"""Is it the nearest point? The KKT residual, and the proof that there is no point at all."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linprog
from torch import Tensor

from rayhull.projection.problem import EMPTY, SOLVED, TOLERANCE, UNSOLVED, Problem, Solution
from rayhull.sets.rows import Array

ROUNDING = 256 * 2.0**-52  # what a sum of a point and multiples of rows may be off, relative to the point
FLOOR = 1e-280  # instead of 0 in a denominator; times ROUNDING it is still a normal number


def residual(problem: Problem, z: Tensor, multipliers: Tensor) -> Tensor:
    """How far z with these multipliers is from the optimality conditions: the largest of four relative errors.

    Rows and bounds hold; rows with a multiplier are met; multipliers of inequalities are >= 0;
    z = clip(y − G^T multipliers). Shape: (N,).
    """
    m, y = problem.m, problem.y
    size = z.abs().amax(1, keepdim=True)
    reach = y.abs().amax(1, keepdim=True) + size + FLOOR
    aim = problem.clip(problem.shifted(multipliers))
    rounding = ROUNDING * reach  # of y - G^T lam; what is off beyond it counts against the size of z, not of y
    worst = (((z - aim).abs() - rounding).clamp_min(0) / (size + rounding)).amax(1)
    if multipliers.shape[1]:
        excess = problem.matrix.times(z) - problem.c
        met = (multipliers > 0) | (torch.arange(multipliers.shape[1], device=z.device) >= m)
        terms = torch.maximum(size, problem.c.abs()).clamp_min(FLOOR)
        worst = torch.maximum(worst, (torch.where(met, excess.abs(), excess.clamp_min(0)) / terms).amax(1))
    if m:
        worst = torch.maximum(worst, (-multipliers[:, :m] / reach).amax(1))
    return torch.where(worst.isnan(), torch.inf, worst)  # NaN is no certificate


def certified(problem: Problem, z: Tensor, multipliers: Tensor, steps: Tensor | int = 1) -> Solution:
    """The solution with its residual and status."""
    error = residual(problem, z, multipliers)
    if bool((error > TOLERANCE).any()):
        z, error = _at_apex(problem, z, multipliers, error)
    counted = steps if isinstance(steps, Tensor) else torch.full((len(z),), steps, device=z.device)
    solution = Solution(z, multipliers, error, counted, torch.where(error <= TOLERANCE, SOLVED, UNSOLVED))
    mark_crossed(problem, solution)
    return solution


def mark_crossed(problem: Problem, solution: Solution) -> None:
    """EMPTY for the samples whose lower bound is above their upper bound."""
    if problem.may_be_empty:
        solution.status[(problem.lower > problem.upper).any(1).expand(len(solution.status))] = EMPTY


def _at_apex(problem: Problem, z: Tensor, multipliers: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """0 in place of an uncertified point that is next to nothing against y, where 0 is certified."""
    small = (error > TOLERANCE) & (z.abs().amax(1) <= 1e-12 * problem.y.abs().amax(1))
    apex = problem.clip(torch.zeros_like(z))
    better = residual(problem, apex, multipliers)
    snap = small & (better < error)
    return torch.where(snap[:, None], apex, z), torch.where(snap, better, error)


def unproven_empty(problem: Problem, solution: Solution) -> Tensor:
    """Samples with status EMPTY of which that is not certain: a set itself never is, the rest a linear program decides.

    The program runs on the host; only samples that a solver found empty come here.
    """
    claimed = (solution.status == EMPTY).nonzero()[:, 0]
    if not problem.may_be_empty:
        return claimed
    doubtful = [not is_empty(problem, int(n)) for n in claimed]
    return claimed[torch.tensor(doubtful, dtype=torch.bool, device=claimed.device)]


def is_empty(problem: Problem, sample: int) -> bool:
    """Whether the least possible violation of the sample's unit rows is more than rounding."""
    c, lower, upper = (v[sample if len(v) > 1 else 0].cpu().numpy() for v in problem.sides)
    if (lower > upper).any():
        return True
    violation, size = _least_violation(sp.csr_array(problem.matrix.array(sample)), problem.m, c, lower, upper)
    return violation > 1e-9 * (1e-3 + size)


def _least_violation(G: sp.csr_array, m: int, c: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """The least t with G z <= c + t (and >= c − t for equalities) inside the bounds, and the size of its numbers."""
    ones = sp.csr_array(np.ones((len(c), 1)))
    A = sp.vstack([sp.hstack([G, -ones]), sp.hstack([-G[m:], -ones[m:]])], format="csr")
    bounds = [*zip(lower, upper, strict=True), (0, None)]
    cost = np.append(np.zeros(len(lower)), 1.0)
    result = linprog(cost, A, np.concatenate([c, -c[m:]]), bounds=bounds, method="highs")
    if result.status != 0:
        return 0.0, 1.0
    met = (G @ result.x[:-1] - c) >= 0.5 * result.fun  # a loose row with a large c says nothing of the size
    met[m:] = True
    return float(result.fun), float(np.abs(c[met]).max(initial=0.0) + np.abs(result.x[:-1]).max(initial=0.0))
