"""Equalities only: one pseudo-inverse, kept."""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.projection.certificate import certified
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.solvers.generic import generic
from rayhull.projection.standard_form import StandardForm
from rayhull.projection.tolerances import EMPTY, UNSOLVED


class Affine(Solver):
    """z = y − G⁺(G y − c); dependent rows are allowed as long as they agree."""

    name = "affine"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.with_bounds = generic(form)  # where a call brings bounds that the set has not
        self._inverse: dict[torch.device, Tensor] = {}

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.m == 0 and form.matrix.count > 0 and not form.bounded

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        z = problem.y
        if problem.may_be_empty and bool(problem.lower.isfinite().any() | problem.upper.isfinite().any()):
            return self.with_bounds.solve(problem, guess)
        inverse = self._on(z.device)
        for _ in range(3):  # refinement: rows met to rounding
            z = z - (problem.matrix.times(z) - problem.c) @ inverse.mT
        solution = certified(problem, z, (problem.y - z) @ inverse)
        if problem.may_be_empty:  # the rows of the set agree; those of a sample need not
            solution.status[(solution.status == UNSOLVED) & (solution.residual > 1e-7)] = EMPTY
        return solution

    def _on(self, device: torch.device) -> Tensor:
        if device not in self._inverse:
            self._inverse[device] = torch.as_tensor(self.form.matrix.pseudo_inverse, device=device)  # (d, M)
        return self._inverse[device]
