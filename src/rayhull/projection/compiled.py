"""How the projection uses the compiled core: what is stored of the rows, and how long each method tries."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.core import operators
from rayhull.core.operators import Sides
from rayhull.sets.rows import Array

PIVOTS, EXACT_STEPS = 24, 20  # block pivoting gives up after 24 steps; the exact method after 20 (M + d)
DENSE = 0.25  # the share of entries from which rows are stored densely
MANY = 80  # dense rows from which a factorisation costs more than twenty further gradient steps
ALONE = 12  # gradient steps for a sample on its own, where they cost more than in a batch
MOST_PRODUCTS = 2000  # rows up to this many have all their products kept


def available() -> bool:
    """Whether the compiled operators are there."""
    return operators.available()


def shift(x: Tensor, index: Tensor, a: Tensor, sides: Sides, equality: bool, out: Tensor) -> tuple[Tensor, ...]:
    """Clipped shifts for blocks in place: writes to ``out``; returns shifts, residuals and steps."""
    return operators.clipped_shift(x, index, a, sides, equality, out)


def pool(y: Tensor, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
    """Nearest increasing sequences: points, multipliers of x[i] <= x[i+1], residual, status."""
    return operators.pool_adjacent(y, weights, lower, upper)


class Rows:
    """Rows as the kernels want them, dense or sparse, and how to solve with them."""

    def __init__(self, rows: sp.csr_array, dense: Array, largest_eigenvalue: float) -> None:
        count, d = rows.shape
        is_dense = rows.nnz > DENSE * count * d
        self.rows = _dense(rows, dense) if is_dense else _sparse(rows)
        self.count = int(count)
        self.banded = width(rows) <= max(4.0, 0.05 * count)  # steps are cheap, gradients tell little: no first guess
        self.gradient_steps = 0 if self.banded else (40 if count >= MANY and is_dense else 20)
        self.step = 0.0 if self.banded else 1 / largest_eigenvalue

    def solve(self, y: Tensor, m: int, sides: Sides, start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, ...]:
        """Points, multipliers, residuals, steps and status; ``start``: active rows and bounds, a guess."""
        alone = 0 if start is not None else self._steps_alone(m, sides)
        effort = operators.Effort(alone, self.step, PIVOTS, EXACT_STEPS * (self.count + y.shape[1]) + 100, self.banded)
        return operators.active_set(self.rows, m, sides, y, start or _equalities(y, self.count, m), effort)

    def _steps_alone(self, m: int, sides: Sides) -> int:
        """Gradient steps for each sample on its own."""
        unbounded = bool(sides[1].isinf().all() & sides[2].isinf().all())
        plane = unbounded and 2 * m <= self.count  # most rows are met anyway: start from those
        return 0 if plane else min(self.gradient_steps, ALONE)

    def multipliers(self, q: Tensor, active: Tensor, at_bound: Tensor) -> Tensor:
        """w with (G D G^T) w = q over the active rows, 0 elsewhere."""
        return operators.active_system(self.rows, q, active, at_bound)


def solve_samples(rows: Tensor, m: int, sides: Sides, y: Tensor) -> tuple[Tensor, ...]:
    """The same for dense rows of each sample, (n, M, d)."""
    count = rows.shape[1]
    effort = operators.Effort(ALONE, 0.0, PIVOTS, EXACT_STEPS * (count + y.shape[1]) + 100, False)
    stored = operators.Rows.of_samples(rows.contiguous())
    return operators.active_set(stored, m, sides, y.contiguous(), _equalities(y, count, m), effort)


def sample_multipliers(rows: Tensor, q: Tensor, active: Tensor, at_bound: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the active rows of each sample, 0 elsewhere."""
    return operators.active_system(operators.Rows.of_samples(rows.contiguous()), q, active, at_bound)


def _equalities(y: Tensor, count: int, m: int) -> tuple[Tensor, Tensor]:
    """The guess that equalities alone are active."""
    active = torch.zeros(len(y), count, dtype=torch.bool)
    active[:, m:] = True
    return active, torch.zeros(y.shape, dtype=torch.int8)


def _dense(rows: sp.csr_array, dense: Array) -> operators.Rows:
    none = torch.zeros(0, dtype=torch.int64)
    return operators.Rows(torch.from_numpy(dense), none.int(), none, _products(rows), _lengths(rows))


def _sparse(rows: sp.csr_array) -> operators.Rows:
    entries = torch.from_numpy(rows.data.astype(np.float64))
    columns, begin = rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    stored = entries, torch.from_numpy(columns), torch.from_numpy(begin)
    return operators.Rows(*stored, _products(rows), _lengths(rows))


def _products(rows: sp.csr_array) -> Tensor:
    few = rows.shape[0] <= MOST_PRODUCTS
    return torch.from_numpy((rows @ rows.T).toarray() if few else np.zeros((0, 0)))


def _lengths(rows: sp.csr_array) -> Tensor:
    return torch.from_numpy(np.asarray(abs(rows).sum(1)).ravel())


def width(rows: sp.csr_array) -> float:
    """How far back, on average, a row shares a coordinate with one before it."""
    pattern = abs(rows)
    shared = sp.coo_array(pattern @ pattern.T)
    first = np.arange(rows.shape[0])
    np.minimum.at(first, shared.row, shared.col)
    return float((np.arange(rows.shape[0]) - first).mean()) if rows.shape[0] else 0.0
