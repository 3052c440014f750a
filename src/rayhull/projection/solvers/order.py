"""An order and one box for all coordinates: the nearest point of the order, clamped."""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.projection.certificate import certified
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.solvers.chain import differences
from rayhull.projection.solvers.generic import generic
from rayhull.projection.standard_form import StandardForm


class Order(Solver):
    """min ½‖z − y‖² subject to x[i] <= x[j] for some pairs and low <= x <= high: clip(nearest point of the order).

    With the multipliers of the order alone all conditions hold: clipping keeps every x[i] <= x[j] and every
    x[i] = x[j], and z = clip(y − G^T multipliers) by construction. It needs one low and one high for all coordinates.
    """

    name = "order, clamped"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.inner = generic(form)
        self.root = None if form.root is None else torch.as_tensor(form.root)

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.bounded and differences(form) is not None and not form.c.any()

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if not self._uniform(problem):  # bounds or steps that came with the call
            return self.inner.solve(problem, guess)
        alone = self.inner.solve(problem.without_bounds(), guess)
        assert alone.z is not None
        return certified(problem, problem.clip(alone.z), alone.multipliers, alone.steps)

    def _uniform(self, problem: Problem) -> bool:
        bounds = [problem.lower, problem.upper]
        if self.root is not None:
            bounds = [v / self.root.to(v.device) for v in bounds]
        alike = [(v == v[:, :1]) | ((v - v[:, :1]).abs() <= 1e-15 * v.abs()) for v in bounds]
        return bool(alike[0].all() & alike[1].all() & ~problem.c.any())
