"""The batched dual method in torch operations: for devices and installations without the compiled kernels.

The dual of min ½‖z − y‖² is concave and smooth in the multipliers, with z = clip(y − G^T lam): first accelerated
gradient steps with restarts for all samples at once, then Newton steps on the active rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rayhull.projection.certificate import certified, residual
from rayhull.projection.matrix import regularised_solve
from rayhull.projection.problem import Problem, Solution, Solver
from rayhull.projection.solvers.far import refined
from rayhull.projection.standard_form import StandardForm

WARM, NEWTON, HALVINGS = 40, 60, 25
GOAL = 1e-14
CHUNK = 50_000_000  # numbers in one batch of Newton systems


class DualNewton(Solver):
    """Accelerated gradient steps on the dual, then Newton steps on its active rows, all samples at once."""

    name = "dual Newton"

    def __init__(self, form: StandardForm | None = None) -> None:
        """Nothing of the form is needed: all that counts is in the problem."""

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, certify(problem), certify)


def certify(problem: Problem) -> Solution:
    """The certified solution, not refined where the points are far away."""
    return certified(problem, *solve(problem))


def solve(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Points, multipliers and steps; samples go in chunks that fit in memory."""
    y, count = problem.y, max(problem.matrix.count, 1)
    size = max(1, CHUNK // (count * max(count, y.shape[1])))
    chunks = torch.split(torch.arange(len(y), device=y.device), size)
    parts = [_solve_chunk(problem.take(chunk) if len(chunks) > 1 else problem) for chunk in chunks]
    z, lam, steps = zip(*parts, strict=True)
    return torch.cat(z), torch.cat(lam), torch.cat(steps)


def _onto_active_rows(problem: Problem, z: Tensor, lam: Tensor) -> Tensor:
    """z moved by what rounding left of its active rows: y − G^T lam is off by the size of y, not of z."""
    if not problem.matrix.count:
        return z
    active = problem.active(lam)
    for _ in range(2):
        free = (z > problem.lower) & (z < problem.upper)
        excess = torch.where(active, problem.matrix.times(z) - problem.c, 0.0)
        w = regularised_solve(problem.matrix.dense(lam), excess, active, free)
        z = problem.clip(z - torch.where(free, problem.matrix.transposed_times(w), 0.0))
    return z


def _solve_chunk(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    lam = _accelerate(problem, problem.y, WARM)
    z = problem.clip(problem.shifted(lam))
    steps = torch.full((len(z),), WARM, device=z.device)
    left, part = torch.arange(len(z), device=z.device), problem
    for _ in range(NEWTON):
        keep = (residual(part, z[left], lam[left]) > GOAL).nonzero()[:, 0]
        left, part = left[keep], part.take(keep)
        if not len(left):
            break
        better, moved = _improve(part, lam[left])
        lam[left], steps[left] = better, steps[left] + 1
        z[left] = part.clip(part.shifted(better))
        moved = moved.nonzero()[:, 0]
        left, part = left[moved], part.take(moved)
    settled = _onto_active_rows(problem, z, lam)
    better = residual(problem, settled, lam) <= residual(problem, z, lam)
    return torch.where(better[:, None], settled, z), lam, steps


def guess(problem: Problem, steps: int) -> tuple[Tensor, Tensor]:
    """Active rows and bounds after a few gradient steps in float32: only a start for the exact methods."""
    c, lower, upper = (v.float() for v in problem.sides)
    short = replace(problem.at(problem.y.float()), c=c, lower=lower, upper=upper)
    lam = _accelerate(short, short.y, steps)
    return short.active(lam), short.at_bound(lam)


def _accelerate(problem: Problem, y: Tensor, steps: int) -> Tensor:
    """FISTA on the dual with a restart for each sample whose momentum points uphill."""
    m, step = problem.m, problem.matrix.step(y)
    lam = y.new_zeros((len(y), problem.matrix.count))
    point, t = lam, y.new_ones((len(y), 1))
    for _ in range(steps):
        new = point + step * (problem.matrix.times(problem.clip(problem.shifted(point))) - problem.c)
        new[:, :m] = new[:, :m].clamp_min(0)
        move = new - lam
        uphill = ((point - new) * move).sum(1, keepdim=True) > 0
        t = torch.where(uphill, 1.0, t)
        t_next = (1 + torch.sqrt(1 + 4 * t * t)) / 2
        point = new + torch.where(uphill, 0.0, (t - 1) / t_next) * move
        lam, t = new, t_next
    return lam


def _improve(problem: Problem, lam: Tensor) -> tuple[Tensor, Tensor]:
    """One Newton step on the active rows, shortened until the dual does not fall; and which samples moved."""
    m = problem.m
    value, z, excess = _dual_value(problem, lam)
    free = (z > problem.lower) & (z < problem.upper)
    active = (lam > 0) | (excess > 0)
    active[:, m:] = True
    newton = regularised_solve(problem.matrix.dense(lam), torch.where(active, excess, 0.0), active, free)
    step = torch.where(active, newton, -lam)
    best, moved = lam.clone(), torch.zeros(len(z), dtype=torch.bool, device=z.device)
    before, length = residual(problem, z, lam), 1.0
    for _ in range(HALVINGS):
        new = lam + length * step
        new[:, :m] = new[:, :m].clamp_min(0)
        new_value, new_z, _ = _dual_value(problem, new)
        better = (new_value > value) | (residual(problem, new_z, new) < 0.5 * before)
        best = torch.where((better & ~moved)[:, None], new, best)
        moved = moved | better
        if bool(moved.all()):
            break
        length *= 0.5
    return best, moved


def _dual_value(problem: Problem, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = problem.clip(problem.shifted(lam))
    excess = problem.matrix.times(z) - problem.c
    return 0.5 * ((z - problem.y) ** 2).sum(1) + (lam * excess).sum(1), z, excess
