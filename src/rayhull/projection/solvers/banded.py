"""Rows of which neighbours share coordinates, as those of curves: block pivoting for eight samples side by side.

A convex curve has a row for each three neighbouring coordinates. In their order G Gᵀ is banded, so that a guess of the
active rows is solved in one pass along the curve, the same for every sample: five times as fast as an interior point.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solvers.any_rows import GENERIC, Compiled, effort, first_that_fits, in_core, started
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array

WIDEST = 4  # rows before it with which a row may share coordinates: the kernel's limit

LONG = 2000  # rows from which an interior point goes on where pivoting gave up, not the exact active set


class Banded(Compiled):
    """Independent inequalities in an order in which each shares coordinates with at most four before it; no bounds."""

    name = "banded"
    structure = "a curve, along its band"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        order = banded_order(form.matrix.rows)
        assert order is not None
        self.rows = form.matrix.sparsely._replace(sweep=torch.from_numpy(order.astype(np.int32)))
        self.with_bounds = first_that_fits(GENERIC, form)  # where a call brings bounds that the set has not

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        only_rows = form.m == form.matrix.count and not form.bounded
        return form.compiled and only_rows and banded_order(form.matrix.rows) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if problem.brings_bounds:
            return self.with_bounds.solve(problem, guess)
        return super().solve(problem, guess)

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        own = effort(self.form.m + self.form.d)
        own = own if self.form.m <= LONG else own._replace(exact_steps=0)
        return in_core(problem, self.rows, started(problem, guess), own)


def is_curve(rows: sp.csr_array) -> bool:
    """Whether each row is of a few neighbours of many: a factor goes along the curve, whichever rows are active."""
    if not rows.shape[0] or (np.diff(rows.indptr) == 0).any() or rows.shape[1] <= 2 * WIDEST:
        return False
    last, first = (end.reduceat(rows.indices, rows.indptr[:-1]) for end in (np.maximum, np.minimum))
    return bool((last - first).max() <= WIDEST)


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
