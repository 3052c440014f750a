"""Bounds only: clamp."""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.projection.certificate import mark_crossed
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.standard_form import StandardForm


class Clamp(Solver):
    """min ½‖z − y‖² subject to lower <= z <= upper: z = clip(y, lower, upper)."""

    name = "clamp"

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.matrix.count == 0

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        y = problem.y
        count = torch.zeros(len(y), dtype=torch.int64, device=y.device)
        solution = Solution(problem.clip(y), y.new_zeros((len(y), 0)), y.new_zeros(len(y)), count, count.clone())
        mark_crossed(problem, solution)
        return solution
