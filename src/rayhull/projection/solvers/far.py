"""Points far from the set: the same nearest point is that of a point close by, where floats still tell rows apart.

For z = nearest(y) and any t > 0 also z = nearest(z + t (y − z)). A y at 1e8 rounds away what a set of size 1 is about;
z + t (y − z) at 1e3 does not. It tells which rows and bounds are active; the point on that face nearest to y itself
then follows from one small system, solved from a point that lies on the face.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rayhull.projection.certificate import FLOOR, residual
from rayhull.projection.problem import EMPTY, SOLVED, TOLERANCE, Problem, Solution

SHARP, SHARPER = 2e-14, 2e-15  # residuals up to this are rounding; the second for points that are FAR
FAR = 1e5  # of y, in sizes of z: there the rounding of y shows in the rows that z meets
NEAR = 1e3  # how far the point close by is, in sizes of z
ROUNDS = 6


def refined(problem: Problem, solution: Solution, solve: Callable[[Problem], Solution]) -> Solution:
    """The solution with its blurred samples solved again from close by, where that is better."""
    solution.read_from(problem)
    blurred = _blurred(problem, solution)
    if not len(blurred):
        return solution
    part = problem.take(blurred)
    z = _start(part, solve)
    for _ in range(ROUNDS):
        close, t = _close_by(part, z)
        inner = solve(close)
        if inner.z is None:
            break
        face, multipliers = _on_face(part, inner, close.at_bound(inner.multipliers), t)
        error = residual(part, face, multipliers)
        better = error < solution.residual[blurred]
        status = torch.where(error <= TOLERANCE, SOLVED, solution.status[blurred])
        now = Solution(face, multipliers, error, solution.steps[blurred] + inner.steps, status)
        solution.replace(blurred[better], now, better)
        z = inner.z
        if bool((solution.residual[blurred] <= SHARPER).all()):
            break
    return solution


def _blurred(problem: Problem, solution: Solution) -> Tensor:
    """Samples whose residual is more than rounding; a claim that the set is empty counts where it may be."""
    assert solution.z is not None
    far = problem.y.abs().amax(1) > FAR * solution.z.abs().amax(1)
    blurred = ~(solution.residual <= torch.where(far, SHARPER, SHARP))
    return (blurred & ((solution.status != EMPTY) | (not problem.may_be_empty))).nonzero()[:, 0]


def _start(problem: Problem, solve: Callable[[Problem], Solution]) -> Tensor:
    """The nearest point to y scaled down to a thousand times the numbers of the sides: a point on a face near by."""
    sides = [torch.where(v.isfinite(), v.abs(), 0.0) for v in problem.sides]
    size = torch.stack([v.amax(1).expand(len(problem.y)) if v.shape[1] else v.new_zeros(len(problem.y)) for v in sides])
    reach = problem.y.abs().amax(1)
    scale = torch.where(size.amax(0) > 0, NEAR * size.amax(0) / reach.clamp_min(FLOOR), 1.0).clamp_max(1.0)
    y = problem.y * scale[:, None]
    z = solve(problem.at(y)).z
    assert z is not None
    return torch.nan_to_num(z)


def _close_by(problem: Problem, z: Tensor) -> tuple[Problem, Tensor]:
    """The problem of z + t (y − z), and t. Shape: (N, 1)."""
    away = problem.y - z
    size = z.abs().amax(1, keepdim=True)
    size = torch.where(size > 0, size, problem.y.abs().amax(1, keepdim=True))
    t = (NEAR * size / away.abs().amax(1, keepdim=True).clamp_min(FLOOR)).clamp_max(1.0)
    y = z + t * away
    return problem.at(y), t


def _on_face(problem: Problem, inner: Solution, at_bound: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest point of the face that ``inner`` is on, and its multipliers."""
    assert inner.z is not None
    start, free = problem.clip(inner.z), at_bound == 0
    active = problem.active(inner.multipliers)
    matrix, total = problem.matrix, torch.zeros_like(inner.multipliers)
    move = torch.where(free, problem.y - start, 0.0)
    if matrix.count:
        for _ in range(6):  # the first takes away all that leaves the face, the others its rounding
            q = torch.where(active, matrix.times(move), 0.0)
            w = matrix.solve_active(q, active, at_bound)
            move = move - torch.where(free, matrix.transposed_times(w), 0.0)
            total = total + w
        excess = torch.where(active, matrix.times(start) - problem.c, 0.0)
        w = matrix.solve_active(excess, active, at_bound)
        start = start - torch.where(free, matrix.transposed_times(w), 0.0)
    return problem.clip(start + move), total
