"""The one interface of all solvers: does it fit, solve."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from rayhull.projection.problem import Problem, Solution
from rayhull.projection.standard_form import StandardForm


class Solver:
    """Nearest points for one kind of block. A new solver is a class with these two methods and a line in ``plan``."""

    name: ClassVar[str] = ""

    def __init__(self, form: StandardForm) -> None:
        self.form = form

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        """Whether this solver serves blocks of this form; asked once, when the plan is made."""
        raise NotImplementedError

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        """Nearest points, each with its residual; ``guess``: multipliers to start from, (N, M)."""
        raise NotImplementedError
