"""Orders x[i] <= x[j]: a chain by pool adjacent violators, any order in one box for all coordinates by clamping."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.projection.certificate import certified
from rayhull.projection.problem import Places, Problem, Solution, Solver
from rayhull.projection.solvers.active_set import ActiveSet
from rayhull.projection.solvers.dual import DualNewton
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array


class Chain(Solver):
    """min Σ w (x − y)² subject to x[i] <= x[i+1] + s[i] along a path, and bounds: average neighbours out of order.

    Steps s are removed by a shift of the coordinates. The value of a pool is its weighted mean, clipped to the bounds
    of its members.
    """

    name = "chain"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        found = path_order(form)
        assert found is not None
        order, between = found
        root = np.ones(form.d) if form.root is None else form.root
        rows = form.matrix.rows
        first = rows.indptr[:-1]
        unit_steps = 1 / (np.abs(rows.data[first]) * root[rows.indices[first]])
        self.path = operators.Path(
            torch.as_tensor(order, dtype=torch.int32),
            torch.as_tensor(between, dtype=torch.int32),
            torch.as_tensor(unit_steps),
            torch.as_tensor(root[order]),
        )
        self._along: tuple[Places, Tensor, Tensor | None] | None = None

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled and path_order(form) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        assert problem.places is not None
        assert problem.x is not None
        assert problem.out is not None
        index, scale = self._along_path(problem.places)
        at = operators.InPlace(problem.x, index, scale, problem.out)
        return Solution(None, *operators.pool_adjacent(at, self.path, problem.sides))

    def _along_path(self, places: Places) -> tuple[Tensor, Tensor | None]:
        """The places in the order of the path; kept, for they are the same in every call."""
        if self._along is None or self._along[0] is not places:
            order = self.path.order.long()
            scale = None if places.scale is None else places.scale[:, order].contiguous()
            self._along = places, places.index[:, order].contiguous(), scale
        return self._along[1:]


class Order(Solver):
    """min ½‖z − y‖² subject to x[i] <= x[j] for some pairs and low <= x <= high: clip(nearest point of the order).

    With the multipliers of the order alone all conditions hold: clipping keeps every x[i] <= x[j] and every
    x[i] = x[j], and z = clip(y − G^T multipliers) by construction. It needs one low and one high for all coordinates.
    """

    name = "order, clamped"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.alone: Solver = ActiveSet(form, clamped=True) if form.compiled else DualNewton(form)
        self.bounded: Solver = ActiveSet(form) if form.compiled else self.alone
        self.root = None if form.root is None else torch.as_tensor(form.root)

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.bounded and form.differences is not None and not form.c.any()

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if not self._is_one_box(problem):  # bounds or steps that came with the call
            return self.bounded.solve(problem, guess)
        if self.form.compiled:
            return self.alone.solve(problem, guess)
        order = self.alone.solve(problem.without_bounds(), guess)
        assert order.z is not None
        return certified(problem, problem.clip(order.z), order.multipliers, order.steps)

    def _is_one_box(self, problem: Problem) -> bool:
        bounds = [problem.lower, problem.upper]
        if self.root is not None:
            bounds = [v / self.root.to(v.device) for v in bounds]
        alike = [(v == v[:, :1]) | ((v - v[:, :1]).abs() <= 1e-15 * v.abs()) for v in bounds]
        return bool(alike[0].all() & alike[1].all() & ~problem.c.any())


def path_order(form: StandardForm) -> tuple[Array, Array] | None:
    """Coordinates along the path and the rows between them, if the rows are the differences along one path."""
    d, ends = form.d, form.differences
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
