"""One row and bounds: a single clipped shift."""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.certificate import certified, mark_crossed
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.standard_form import StandardForm
from rayhull.projection.tolerances import EMPTY, SOLVED, TOLERANCE, UNSOLVED

STEPS = 120
ROUNDS = 3  # a shift found at the scale of y, then again at the scale of what it left


class ClippedShift(Solver):
    """min ½‖z − y‖² subject to a·z <= c (or = c), lower <= z <= upper: z = clip(y − t a, lower, upper).

    t >= 0 is the root of a·clip(y − t a) = c, which falls piecewise linearly in t: Newton steps, halved where they
    leave the bracket. The paper's tiles, budgets, simplices and sums with bounds are all of this form.
    """

    name = "clipped shift"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self._places: tuple[Tensor, Tensor] | None = None

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.matrix.count == 1

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        solution = self._in_place(problem)
        if solution is None or not solution.solved:
            z, t, steps = _shift(problem, self.form.matrix.dense(problem.c)[0], equality=problem.m == 0)
            solution = certified(problem, z, t[:, None], steps)
            self._mark_empty(problem, solution)
        return solution

    def _in_place(self, problem: Problem) -> Solution | None:
        """Blocks read from and written to their places in the samples by the kernel; None where it does not serve."""
        at = problem.in_place
        dtypes = (torch.float32, torch.float64)
        if at is None or not self.form.compiled or at.x.dtype not in dtypes or self.form.root is not None:
            return None
        row = torch.from_numpy(self.form.matrix.dense_array[0])
        t, error, steps = compiled.shift(at.x, self._index(at.index), row, problem.sides, problem.m == 0, at.out)
        solution = Solution(None, t[:, None], error, steps, torch.where(error <= TOLERANCE, SOLVED, UNSOLVED))
        self._mark_empty(problem, solution)
        return solution

    def _index(self, index: Tensor) -> Tensor:
        if self._places is None or self._places[0] is not index:
            self._places = index, index.int()
        return self._places[1]

    def _mark_empty(self, problem: Problem, solution: Solution) -> None:
        if problem.may_be_empty:
            unreachable = _out_of_reach(problem, self.form.matrix.dense(problem.c)[0])
            solution.status[unreachable.expand(len(solution.status))] = EMPTY
            mark_crossed(problem, solution)


def _shift(problem: Problem, a: Tensor, equality: bool) -> tuple[Tensor, Tensor, Tensor]:
    """z = clip(y − t a), t and the number of steps.

    For y far away, y − t a keeps the rounding of y. The shift is then found again from y − t a, which moves the row
    to the rounding of z: adding a multiple of the row to y changes t and not z.
    """
    y, total, steps = problem.y, problem.y.new_zeros(len(problem.y)), None
    for _ in range(ROUNDS):
        least = -total if not equality else torch.full_like(total, -torch.inf)
        t, used = _root(problem, y, a, least)
        steps = used if steps is None else steps + used
        y, total = y - t[:, None] * a, total + t
    assert steps is not None
    return problem.clip(y), total, steps


def _root(problem: Problem, y: Tensor, a: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """t >= least with a·clip(y − t a) = c, or 0 where an inequality holds already at the least; and the steps."""
    lower, upper, c = problem.lower, problem.upper, problem.c[:, 0]
    t, low, high = y.new_zeros(len(y)), least.clone(), torch.full_like(least, torch.inf)
    largest = y.abs().amax(1)
    start = problem.clip(y).abs().amax(1)
    stride = (largest + start + c.abs()).clamp_min(1e-280)
    steps = torch.zeros(len(y), dtype=torch.int64, device=y.device)
    goal = 4 * torch.finfo(y.dtype).eps * (a.abs().sum() * start + c.abs())
    for _ in range(STEPS):
        v = y - t[:, None] * a
        excess = problem.clip(v) @ a - c
        done = (excess.abs() <= goal) | ((t <= least) & (excess <= 0)) | (high <= low)
        if bool(done.all()):
            break
        slope = ((v > lower) & (v < upper)).to(y.dtype) @ (a * a)
        low, high = torch.where(excess > 0, t, low), torch.where(excess < 0, t, high)
        newton = t + excess / slope
        bracketed = low.isfinite() & high.isfinite()
        middle = torch.where(bracketed, (low + high) / 2, t + excess.sign() * stride)
        stride = torch.where(bracketed, stride, 4 * stride)
        inside = (newton > low) & (newton < high) & newton.isfinite()
        new = torch.where(inside, newton, torch.maximum(middle, least))
        done |= new == t  # neighbouring floats: the rounding of y is reached
        t = torch.where(done, t, new)
        steps += ~done
        if bool(done.all()):
            break
    return t, steps


def _out_of_reach(problem: Problem, a: Tensor) -> Tensor:
    """Samples whose bounds alone keep a·z away from c."""
    lower, upper, c = problem.lower, problem.upper, problem.c[:, 0]
    least = torch.where(a > 0, a * lower, torch.where(a < 0, a * upper, 0.0)).sum(1)
    most = torch.where(a > 0, a * upper, torch.where(a < 0, a * lower, 0.0)).sum(1)
    slack = 1e-12 * (1e-3 + c.abs())
    above = least > c + slack
    return above | (most < c - slack) if problem.m == 0 else above
