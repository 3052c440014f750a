"""Rows of which neighbours share coordinates, as those of curves: block pivoting for eight samples side by side.

A convex curve has a row for each three neighbouring coordinates. In their order G Gᵀ is banded, so that a guess of the
active rows is solved in one pass along the curve, the same for every sample.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.projection.problem import Problem, Solution, Solver
from rayhull.projection.solvers.any_rows import EXACT_STEPS, NO_GUESS, Guess, generic, in_core, refined
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array

WIDEST = 4  # rows before it with which a row may share coordinates: the kernel's limit


class Banded(Solver):
    """Independent inequalities in an order in which each shares coordinates with at most four before it; no bounds."""

    name = "banded"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        order = banded_order(form.matrix.rows)
        assert order is not None
        self.rows = _compiled(form.matrix.rows, order)
        self.with_bounds = generic(form)  # where a call brings bounds that the set has not

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        only_rows = form.m == form.matrix.count and not form.bounded
        return form.compiled and only_rows and banded_order(form.matrix.rows) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if problem.may_be_empty and bool(problem.lower.isfinite().any() | problem.upper.isfinite().any()):
            return self.with_bounds.solve(problem, guess)
        start = NO_GUESS if guess is None else (problem.active(guess), None)
        solution, blurred = self._solve(problem, start)
        return refined(problem, solution, lambda other: self._solve(other, NO_GUESS)[0]) if blurred else solution

    def _solve(self, problem: Problem, start: Guess) -> tuple[Solution, int]:
        most = EXACT_STEPS * (self.form.matrix.count + self.form.d) + 100
        return in_core(problem, self.rows, start, operators.Effort(0, 0.0, 0, most, False))


def banded_order(rows: sp.csr_array) -> Array | None:
    """The rows in an order in which each shares coordinates with at most ``WIDEST`` before it, or None.

    Each begins at a coordinate of its own, so that they are independent: among dependent ones pivoting goes astray.
    """
    if not rows.shape[0] or (np.diff(rows.indptr) == 0).any():
        return None
    first = np.minimum.reduceat(rows.indices, rows.indptr[:-1])
    order = np.argsort(first, kind="stable")
    if (np.diff(first[order]) == 0).any() or _width(rows[order]) > WIDEST:
        return None
    return order


def _width(rows: sp.csr_array) -> int:
    """How far apart two rows that share a coordinate are at most."""
    columns = rows.tocsc()
    taken = np.diff(columns.indptr) > 0
    begin = columns.indptr[:-1][taken]
    last, first = (at.reduceat(columns.indices, begin) for at in (np.maximum, np.minimum))
    return int((last - first).max(initial=0))


def _compiled(rows: sp.csr_array, order: Array) -> operators.Rows:
    lengths = np.asarray(abs(rows).sum(1)).ravel()
    stored = rows.data.astype(np.float64), rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    data, columns, begin, products, length = (torch.from_numpy(v) for v in (*stored, np.zeros((0, 0)), lengths))
    sweep = torch.from_numpy(order.astype(np.int32))
    return operators.Rows(data, columns, begin, products, length, sweep=sweep)
