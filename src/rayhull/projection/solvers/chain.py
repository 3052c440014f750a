"""Chains x[0] <= x[1] <= ...: pool adjacent violators."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.certificate import mark_crossed
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.standard_form import StandardForm
from rayhull.projection.tolerances import SOLVED, TOLERANCE, UNSOLVED
from rayhull.sets.rows import Array


class Chain(Solver):
    """min Σ w (x − y)² subject to x[i] <= x[i+1] + s[i] along a path, and bounds: average neighbours out of order.

    Steps s are removed by a shift of the coordinates. The value of a pool is its weighted mean, clipped to the bounds
    of its members.
    """

    name = "chain"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        path = path_order(form)
        assert path is not None
        self.order, self.row = torch.as_tensor(path[0]), torch.as_tensor(path[1])
        self.place = torch.argsort(self.order)  # where each coordinate stands on the path
        root = np.ones(form.d) if form.root is None else form.root
        self.root = torch.as_tensor(root)
        rows = form.matrix.rows
        first = rows.indptr[:-1]
        unit_step = 1 / (np.abs(rows.data[first]) * root[rows.indices[first]])
        self.unit_step = torch.as_tensor(unit_step)  # s = c * unit_step in plain coordinates, and so do multipliers
        self.weights = (self.root**2)[self.order]
        self._last: tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] | None = None

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled and path_order(form) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        shift, lower, upper = self._shifted(problem)
        along = (problem.y / self.root)[:, self.order] - shift
        t, pooled, error, status = compiled.pool(along, self.weights, lower, upper)
        z = problem.clip((t + shift)[:, self.place] * self.root)
        multipliers = torch.empty_like(pooled)
        multipliers[:, self.row] = pooled * self.unit_step[self.row]
        status[(status == SOLVED) & ~(error <= TOLERANCE)] = UNSOLVED
        solution = Solution(z, multipliers, error, torch.ones_like(status), status)
        mark_crossed(problem, solution)
        return solution

    def _shifted(self, problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
        """The shift along the path that takes the steps away, and the bounds less it; kept while the sides are."""
        sides = problem.c, problem.lower, problem.upper
        if self._last is None or any(a is not b for a, b in zip(self._last[0], sides, strict=True)):
            steps = (problem.c * self.unit_step)[:, self.row]
            shift = torch.nn.functional.pad(-steps.cumsum(1), (1, 0))  # x = t + shift has the steps, t none
            lower, upper = ((v / self.root)[:, self.order] - shift for v in (problem.lower, problem.upper))
            self._last = sides, (shift, lower, upper)
        return self._last[1]


def path_order(form: StandardForm) -> tuple[Array, Array] | None:
    """Coordinates along the path and the rows between them, if the rows are the differences along one path."""
    d, ends = form.d, differences(form)
    if ends is None or form.m != d - 1:
        return None
    small, large = ends
    if len(np.unique(small)) < d - 1 or len(np.unique(large)) < d - 1:
        return None
    after, row = np.full(d, -1), np.full(d, -1)
    after[small], row[small] = large, np.arange(d - 1)
    order = [int(np.setdiff1d(np.arange(d), large)[0])]
    while after[order[-1]] >= 0 and len(order) < d:
        order.append(int(after[order[-1]]))
    return (np.array(order), row[order[:-1]]) if len(order) == d else None


def differences(form: StandardForm) -> tuple[Array, Array] | None:
    """(small, large) with every row x[small] − x[large] <= something, up to its scale; None for other rows."""
    rows = form.matrix.rows
    if form.m != form.matrix.count or not form.m or (np.diff(rows.indptr) != 2).any():
        return None
    root = np.ones(form.d) if form.root is None else form.root
    ends = rows.indices.reshape(-1, 2)
    values = rows.data.reshape(-1, 2) * root[ends]  # in plain coordinates, up to the row's scale
    if not np.allclose(values[:, 0], -values[:, 1], rtol=1e-14, atol=0):
        return None
    first = values[:, 0] > 0
    return np.where(first, ends[:, 0], ends[:, 1]), np.where(first, ends[:, 1], ends[:, 0])
