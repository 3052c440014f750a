"""Any other block: the compiled active-set methods, or the batched dual method where there is no numba."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.problem import Found, Problem, Rhs
from rayhull.projection.solver import Way, refuse_crossed
from rayhull.projection.solvers import dual

BATCH = 8  # from here on the first guess is made for all samples at once, by matrix products


class ActiveSet(Way):
    """Which rows and bounds push, guessed and corrected, one sample at a time: exact to rounding."""

    name = "active set"

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return compiled.available()

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        rows = self.compiled_rows
        if warm is None and y.shape[0] >= BATCH and rows.gradient_steps:
            warm = dual.guess(self, y, rhs, rows.gradient_steps, rows.step)
        found = rows.solve(y, rhs, warm)
        refuse_crossed(found, rhs)
        return found


class DualNewton(Way):
    """Accelerated gradient steps on the dual, then Newton steps on its active rows, all samples at once."""

    name = "dual Newton"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.speed = dual.largest_eigenvalue(problem)

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return True

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        z, lam, steps = dual.solve(self, y, rhs, 1 / self.speed)
        found = self.found(y, rhs, z, lam, steps)
        refuse_crossed(found, rhs)
        return found
