"""Rows of which neighbours share coordinates, as those of curves: block pivoting for eight samples side by side.

A convex curve has a row for each three neighbouring coordinates. In their order G Gᵀ is banded, so that a guess of the
active rows is solved in one pass along the curve, the same for every sample. Of an increasing concave curve only the
last slope needs a row of its own: rows that follow from the others are left out, since pivoting goes astray among
dependent ones (increasing and concave, 333 points of a random walk: 9 s a sample with them, 5 ms without).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.exact.numbers import others
from rayhull.projection.problem import Problem, Solution, Solver, certified
from rayhull.projection.solvers.any_rows import EXACT_STEPS, NO_GUESS, Guess, generic, in_core, refined
from rayhull.projection.standard_form import ENTRIES, Matrix, StandardForm
from rayhull.sets.rows import Array

IMPLIED = 1e-9  # of unit rows: shares that are this much below 0, or sums this far off, are rounding
WIDEST = 4  # rows before it with which a row may share coordinates: the kernel's limit


class Banded(Solver):
    """Inequalities in an order in which each shares coordinates with at most four before it; no bounds.

    They are independent, or follow from some that are.
    """

    name = "banded"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        kept = spanning_rows(form.matrix.rows, form.c)
        assert kept is not None
        self.all = len(kept) == form.m
        self.kept = kept if not self.all else np.arange(form.m)
        self.matrix = form.matrix if self.all else Matrix(sp.csr_array(form.matrix.rows[kept]))
        self.rows = _compiled(self.matrix.rows, kept if self.all else np.arange(len(kept)))
        self.with_bounds = generic(form)  # where a call brings bounds that the set has not, or sides that need all rows

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        only_rows = form.m == form.matrix.count and not form.bounded
        return form.compiled and only_rows and spanning_rows(form.matrix.rows, form.c) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        bounded = problem.may_be_empty and bool(problem.lower.isfinite().any() | problem.upper.isfinite().any())
        if bounded or (problem.may_be_empty and not self.all):
            return self.with_bounds.solve(problem, guess)
        start = NO_GUESS if guess is None else (problem.active(guess)[:, self.kept], None)
        solution, blurred = self._solve(problem, start)
        return refined(problem, solution, lambda other: self._solve(other, NO_GUESS)[0]) if blurred else solution

    def _solve(self, problem: Problem, start: Guess) -> tuple[Solution, int]:
        effort = operators.Effort(0, 0.0, 0, EXACT_STEPS * (len(self.kept) + self.form.d) + 100, False)
        if self.all:
            return in_core(problem, self.rows, start, effort)
        some = replace(problem, matrix=self.matrix, m=len(self.kept), c=problem.c[:, self.kept])
        found, blurred = in_core(some, self.rows, start, effort)
        found.read_from(problem)
        assert found.z is not None
        multipliers = found.z.new_zeros((len(found.z), self.form.m))
        multipliers[:, self.kept] = found.multipliers
        return certified(problem, found.z, multipliers, found.steps), blurred


def spanning_rows(rows: sp.csr_array, c: Array) -> Array | None:
    """Independent banded rows from which all others follow, in order; or None.

    The longest for each first (or last) coordinate are taken, and one or two more at the ends: a convex curve whose
    slopes have limits needs one of them at either end.
    """
    order = banded_order(rows)
    if order is not None or not rows.shape[0] or (np.diff(rows.indptr) == 0).any():
        return order
    if rows.shape[0] * rows.shape[1] > ENTRIES:
        return None
    dense = rows.toarray()
    for end in (np.minimum, np.maximum):
        at = end.reduceat(rows.indices, rows.indptr[:-1])
        length = np.zeros(rows.shape[1], np.int64)
        np.maximum.at(length, at, np.diff(rows.indptr))
        longest = np.flatnonzero(np.diff(rows.indptr) == length[at])
        single = longest[np.bincount(at[longest])[at[longest]] == 1]
        kept = _with_ends(dense, c, single, at)
        if kept is not None and _width(rows[kept]) <= WIDEST:
            return kept
    return None


def _with_ends(rows: Array, c: Array, kept: Array, at: Array) -> Array | None:
    """The kept rows and at most two more, from which all others follow; in the order of their first coordinates."""
    for _ in range(3):
        left = _on_their_own(rows, c, kept)
        if not len(left):
            return kept[np.argsort(at[kept], kind="stable")]
        if len(kept) >= rows.shape[1]:
            return None
        ends = {int(i) for k in (at[left].min(), at[left].max()) for i in left[at[left] == k]}
        kept = min((np.append(kept, i) for i in sorted(ends)), key=lambda more: len(_on_their_own(rows, c, more)))
    return None


def _on_their_own(rows: Array, c: Array, kept: Array) -> Array:
    """The rows that are no sum of kept ones with shares >= 0, or are tighter: G_rest = shareᵀ G_kept."""
    left = others(kept, len(rows))
    share, _, rank, _ = np.linalg.lstsq(rows[kept].T, rows[left].T, rcond=None)
    if rank < len(kept):
        return left
    error = np.abs(rows[kept].T @ share - rows[left].T).max(axis=0, initial=0.0)
    follows = (error <= IMPLIED) & (share.min(axis=0, initial=0.0) >= -IMPLIED) & (c[kept] @ share <= c[left] + IMPLIED)
    return left[~follows]


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
