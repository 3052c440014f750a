"""Rows of one kind: bounds alone, equalities alone, one row and bounds, a chain, an order in one box, differences."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.maps.closed_forms import FEW, shift_of
from rayhull.projection.problem import EMPTY, UNSOLVED, Problem, Solution, Solver, certified, mark_crossed
from rayhull.projection.solvers.any_rows import (
    GENERIC,
    Compiled,
    DualNewton,
    effort,
    first_that_fits,
    in_core,
    in_place,
    started,
)
from rayhull.projection.standard_form import StandardForm
from rayhull.sets.rows import Array

RANKS = 200  # longest chains that are followed to find which coordinate is below which
ROUNDS = 3  # a shift found at the scale of y, then again at the scale of what it left


# -- bounds, equalities, one row -------------------------------------------------------------------------------------


class Clamp(Solver):
    """min ½‖z − y‖² subject to lower <= z <= upper: z = clip(y, lower, upper)."""

    name = "clamp"
    structure = "bounds alone"

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.matrix.count == 0

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        y = problem.y
        none, count = y.new_zeros((len(y), 0)), torch.zeros((2, len(y)), dtype=torch.int64, device=y.device)
        solution = Solution(problem.clip(y), none, y.new_zeros(len(y)), count[0], count[1])
        if problem.may_be_empty:
            mark_crossed(problem, solution)
        else:
            solution.open = 0
        return solution


class Affine(Solver):
    """z = y − G⁺(G y − c); dependent rows are allowed as long as they agree."""

    name = "affine"
    structure = "equalities alone"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.with_bounds = first_that_fits(GENERIC, form)  # where a call brings bounds that the set has not

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.m == 0 and form.matrix.count > 0 and not form.bounded

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        z = problem.y
        if problem.brings_bounds:
            return self.with_bounds.solve(problem, guess)
        inverse = self.form.matrix.on("pseudo_inverse", z)
        for _ in range(3):  # refinement: rows met to rounding
            z = z - (problem.matrix.times(z) - problem.c) @ inverse.mT
        multipliers = (problem.y - z) @ inverse
        multipliers = multipliers + (problem.y - z - problem.matrix.transposed_times(multipliers)) @ inverse
        solution = certified(problem, z, multipliers)
        if problem.may_be_empty:  # the rows of the set agree; those of a sample need not
            solution.status[(solution.status == UNSOLVED) & (solution.residual > 1e-7)] = EMPTY
        return solution


class ClippedShift(Solver):
    """min ½‖z − y‖² subject to a·z <= c (or = c), lower <= z <= upper: z = clip(y − t a, lower, upper).

    t >= 0 is the root of a·clip(y − t a) = c, which falls piecewise linearly in t. The paper's tiles, budgets,
    simplices and sums with bounds are all of this form.
    """

    name = "clipped shift"
    structure = "one row and bounds"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.row = torch.from_numpy(form.matrix.dense_array[0])

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.matrix.count == 1

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if self.form.compiled:
            at, z = in_place(problem)
            return Solution(z, *operators.clipped_shift(at, self.row, problem.sides, problem.m == 0))
        row = self.form.matrix.dense(problem.c)[0]
        z, t = problem.in_chunks(lambda some: _shifted(some, row), self.form.d * max(FEW, math.isqrt(2 * self.form.d)))
        return certified(problem, z, t, ROUNDS)

    def pull(self, problem: Problem, multipliers: Tensor, g: Tensor, out: Tensor) -> bool:
        if not self.form.compiled:
            return False
        at, bounds = in_place(problem, out)[0], (problem.lower, problem.upper)
        operators.clipped_shift_backward(g, at, self.row, multipliers, bounds, problem.m == 0)
        return True


def _shifted(problem: Problem, row: Tensor) -> tuple[Tensor, Tensor]:
    """z = clip(y − t a) and t (N, 1).

    For y far away, y − t a keeps the rounding of y. The shift is then found again from y − t a, which moves the row
    to the rounding of z: adding a multiple of the row to y changes t and not z.
    """
    y, total = problem.y, problem.y.new_zeros((len(problem.y), 1))
    for _ in range(ROUNDS):
        t = shift_of(y, row, *problem.sides, far=True)
        t = t if problem.m == 0 else torch.maximum(t, -total)
        y, total = y - t * row, total + t
    return problem.clip(y), total


# -- orders ----------------------------------------------------------------------------------------------------------


class Chain(Solver):
    """min Σ w (x − y)² subject to x[i] <= x[i+1] + s[i] along a path, and bounds: average neighbours out of order.

    Steps s are removed by a shift of the coordinates. The value of a pool is its weighted mean, clipped to the bounds
    of its members.
    """

    name = "chain"
    structure = "a chain"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        found = path_order(form)
        assert found is not None
        order, between = found
        root, rows = form.roots, form.matrix.rows
        first = rows.indptr[:-1]
        unit_steps = 1 / (np.abs(rows.data[first]) * root[rows.indices[first]])
        self.path = operators.Path(
            torch.as_tensor(order, dtype=torch.int32),
            torch.as_tensor(between, dtype=torch.int32),
            torch.as_tensor(unit_steps),
            torch.as_tensor(root[order]),
        )
        self._along: tuple[Tensor, Tensor, Tensor | None] | None = None

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.compiled and path_order(form) is not None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        at, z = in_place(problem)
        return Solution(z, *operators.pool_adjacent(self._along_path(at), self.path, problem.sides))

    def pull(self, problem: Problem, multipliers: Tensor, g: Tensor, out: Tensor) -> bool:
        at = self._along_path(in_place(problem, out)[0])
        operators.pool_adjacent_backward(g, at, self.path, multipliers, (problem.lower, problem.upper))
        return True

    def _along_path(self, at: operators.InPlace) -> operators.InPlace:
        """The places in the order of the path; kept, for they are the same in every call."""
        if self._along is None or self._along[0] is not at.places:
            order = self.path.order.long()
            scale = None if at.scale is None else at.scale[:, order].contiguous()
            self._along = at.places, at.places[:, order].contiguous(), scale
        return operators.InPlace(at.x, self._along[1], self._along[2], at.out)


class Forest(Compiled):
    """min ½‖z − y‖² subject to x[i] − x[j] <= s for some pairs, and bounds: a dual active-set method on trees.

    Rows are edges between coordinates, and active rows form trees, in which every x follows from one: a step is linear
    in the size of two trees, where a factor of the active rows would be quadratic in their number.

    Where x[i] <= x[j] and all coordinates have the same bounds, z = clip(nearest point of the order). With the
    multipliers of the order alone all conditions hold: clipping keeps every x[i] <= x[j] and every x[i] = x[j], and
    z = clip(y − G^T multipliers) by construction.
    """

    name = "forest"
    structure = "differences of coordinates"

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        roots, sweep = (torch.from_numpy(v) for v in (form.roots, _from_below(form)))
        self.rows = form.matrix.sparsely._replace(roots=roots, sweep=sweep)
        self.pulled = self.rows if form.compiled else None
        c, lower, upper = (torch.from_numpy(v)[None] for v in (form.c, form.lower, form.upper))
        self.roots, self.in_one_box = roots, in_one_box(c, lower, upper, roots)

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return form.differences is not None and (form.compiled or (form.bounded and not form.c.any()))

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        if self.form.compiled:
            return super().solve(problem, guess)
        if not self.clamps(problem):
            return DualNewton().solve(problem)
        none = torch.full_like(problem.lower, torch.inf)
        order = DualNewton().solve(replace(problem, lower=-none, upper=none))
        assert order.z is not None
        return certified(problem, problem.clip(order.z), order.multipliers, order.steps)

    def by_kernel(self, problem: Problem, guess: Tensor | None = None) -> tuple[Solution, int]:
        own = effort(self.form.m + self.form.d, clamped=self.clamps(problem))
        return in_core(problem, self.rows, started(problem, guess), own)

    def clamps(self, problem: Problem) -> bool:
        """Whether the nearest point of the order alone may be clipped to the bounds."""
        if not problem.may_be_empty:
            return self.in_one_box
        return in_one_box(*problem.sides, self.roots.to(problem.c.device))


def in_one_box(c: Tensor, lower: Tensor, upper: Tensor, roots: Tensor | float = 1.0) -> bool:
    """Whether rows say x[i] <= x[j], and in each sample all coordinates have the same bounds, up to rounding."""
    alike = ~c.any()
    for bound in (lower / roots, upper / roots):
        first = bound[:, :1]
        close = (bound - first).abs() <= 1e-15 * torch.minimum(bound.abs(), first.abs())  # infinity is close to nothing
        alike &= ((bound == first) | close).all()
    return bool(alike)


def _from_below(form: StandardForm) -> Array:
    """The rows by the rank of their larger end, the nearest smaller ends first: most are then met for good when tried.

    On a chain that is pooling adjacent violators. Rows in a circle have no ranks: any order is right, only slower.
    """
    assert form.differences is not None
    small, large = form.differences
    rank = np.zeros(form.d, np.int64)
    for _ in range(RANKS):
        before = rank.copy()
        np.maximum.at(rank, large, rank[small] + 1)
        if (rank == before).all():
            break
    return np.lexsort((-rank[small], rank[large])).astype(np.int32)


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
