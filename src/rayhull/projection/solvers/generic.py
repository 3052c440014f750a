"""Any rows: active-set methods in compiled code; the batched dual method elsewhere."""

from __future__ import annotations

from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.certificate import certified, mark_crossed
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.solvers import dual
from rayhull.projection.solvers.far import refined
from rayhull.projection.standard_form import StandardForm

BATCH = 8  # from here on the first guess is made for all samples at once, by matrix products


class ActiveSet(Solver):
    """Which rows and bounds are active, guessed and corrected, one sample at a time: exact to rounding."""

    name = "active set"

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        rows = self.form.matrix.compiled
        start = None if guess is None else (problem.active(guess), problem.at_bound(guess))
        if start is None and len(problem.y) >= BATCH and rows.gradient_steps:
            start = dual.guess(problem, rows.gradient_steps)
        solution = self._solve(problem, start)
        return refined(problem, solution, self._solve)

    def _solve(self, problem: Problem, start: tuple[Tensor, Tensor] | None = None) -> Solution:
        rows = self.form.matrix.compiled
        solution = Solution(*rows.solve(problem.y, problem.m, problem.sides, start))
        mark_crossed(problem, solution)
        return solution


class DualNewton(Solver):
    """Accelerated gradient steps on the dual, then Newton steps on its active rows, all samples at once."""

    name = "dual Newton"

    def __init__(self, form: StandardForm | None = None) -> None:
        """Nothing of the form is needed: all that counts is in the problem."""

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, _dual(problem), _dual)


class SampleActiveSet(Solver):
    """The active-set methods for dense rows of each sample, (N, M, d), on the CPU."""

    name = "active set"

    def __init__(self, form: StandardForm | None = None) -> None:
        """Nothing of the form is needed: all that counts is in the problem."""

    @classmethod
    def fits(cls, form: StandardForm | None) -> bool:
        return compiled.available()

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, self._solve(problem), self._solve)

    def _solve(self, problem: Problem) -> Solution:
        rows = problem.matrix.dense(problem.y)
        solution = Solution(*compiled.solve_samples(rows, problem.m, problem.sides, problem.y))
        mark_crossed(problem, solution)
        return solution


def _dual(problem: Problem) -> Solution:
    return certified(problem, *dual.solve(problem))


def generic(form: StandardForm) -> Solver:
    """The solver for any rows that serves the form's device."""
    return next(kind for kind in (ActiveSet, DualNewton) if kind.fits(form))(form)
