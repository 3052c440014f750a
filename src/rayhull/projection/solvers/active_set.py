"""Any rows: active-set methods in compiled code, with a first guess by gradient steps on the dual."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.projection.problem import Problem, Solution, Solver
from rayhull.projection.solvers import dual
from rayhull.projection.solvers.far import refined
from rayhull.projection.standard_form import StandardForm

PIVOTS, EXACT_STEPS = (
    24,
    20,
)  # block pivoting gives up after 24 steps, none on orders; the exact method after 20 (M + d)
BATCH = 8  # from here on the first guess is made for all samples at once, by matrix products
MANY = 80  # dense rows from which a factorisation costs more than twenty further gradient steps
ALONE = 16  # gradient steps for a sample on its own, where they cost more than in a batch

Guess = tuple[Tensor | None, Tensor | None]  # active rows, active bounds
NO_GUESS: Guess = (None, None)


class ActiveSet(Solver):
    """Which rows and bounds are active, guessed and corrected, one sample at a time: exact to rounding."""

    name = "active set"

    def __init__(self, form: StandardForm, *, clamped: bool = False) -> None:
        super().__init__(form)
        rows = form.matrix
        self.clamped = clamped
        self.banded = width(rows.rows) <= max(4.0, 0.05 * rows.count)  # steps are cheap, gradients tell little
        self.pivots = 0 if form.differences is not None and not self.banded else PIVOTS
        self.gradient_steps = 0 if self.banded or clamped else (40 if rows.count >= MANY and rows.is_dense else 20)
        self._step: float | None = 0.0 if self.banded else None

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        start: Guess = NO_GUESS
        if guess is not None:
            start = problem.active(guess), problem.at_bound(guess)
        elif self.gradient_steps and problem.size >= BATCH:
            start = dual.guess(problem.without_bounds() if self.clamped else problem, self.gradient_steps)
        solution, blurred = self._solve(problem, start)
        return refined(problem, solution, lambda other: self._solve(other, NO_GUESS)[0]) if blurred else solution

    def _solve(self, problem: Problem, start: Guess) -> tuple[Solution, int]:
        gradient_steps = 0 if start is not NO_GUESS else min(self.gradient_steps, ALONE)
        return _solve(problem, self.form.matrix.compiled, start, self.effort(gradient_steps))

    def effort(self, gradient_steps: int) -> operators.Effort:
        if self._step is None:
            self._step = 1 / self.form.matrix.largest_eigenvalue
        most = EXACT_STEPS * (self.form.matrix.count + self.form.d) + 100
        return operators.Effort(gradient_steps, self._step, min(self.pivots, PIVOTS), most, self.banded, self.clamped)


class SampleActiveSet(Solver):
    """The active-set methods for dense rows of each sample, (N, M, d), on the CPU."""

    name = "active set"

    def __init__(self, form: StandardForm | None = None) -> None:
        """Nothing of the form is needed: all that counts is in the problem."""

    @classmethod
    def fits(cls, form: StandardForm | None) -> bool:
        return operators.available()

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        return refined(problem, self._solve(problem), self._solve)

    def _solve(self, problem: Problem) -> Solution:
        rows = problem.matrix.dense(problem.y)
        most = EXACT_STEPS * (rows.shape[1] + rows.shape[2]) + 100
        effort = operators.Effort(ALONE, 0.0, PIVOTS, most, False)
        return _solve(problem, operators.Rows.of_samples(rows), NO_GUESS, effort)[0]


def _solve(problem: Problem, rows: operators.Rows, guess: Guess, effort: operators.Effort) -> tuple[Solution, int]:
    """The solution, and how many residuals are more than rounding."""
    places, z = problem.places, None
    if places is None or problem.x is None or problem.out is None:
        z = torch.empty_like(problem.y, memory_format=torch.contiguous_format)
        at = operators.InPlace(problem.y, torch.arange(z.shape[1], dtype=torch.int32)[None], None, z)
    else:
        at = operators.InPlace(problem.x, places.index, places.scale, problem.out)
    found = operators.active_set(at, rows, problem.m, problem.sides, guess, effort)
    return Solution(z, *found[:5]), found[5]


def generic(form: StandardForm) -> Solver:
    """The solver for any rows that serves the form's device."""
    return next(kind for kind in (ActiveSet, dual.DualNewton) if kind.fits(form))(form)


def width(rows: sp.csr_array) -> float:
    """How far back, on average, a row shares a coordinate with one before it."""
    pattern = abs(rows)
    shared = sp.coo_array(pattern @ pattern.T)
    first = np.arange(rows.shape[0])
    np.minimum.at(first, shared.row, shared.col)
    return float((np.arange(rows.shape[0]) - first).mean()) if rows.shape[0] else 0.0
