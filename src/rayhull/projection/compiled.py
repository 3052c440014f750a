"""The door to the compiled kernels: tensors in and out, samples spread over threads."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.sets.rows import Array

PIVOTS, EXACT_STEPS = 24, 20  # block pivoting gives up after 24 steps; the exact method after 20 (M + d)
DENSE = 0.25  # the share of entries from which rows are stored densely
MANY = 80  # dense rows from which a factorisation costs more than twenty further gradient steps
ALONE = 12  # gradient steps for a sample on its own, where they cost more than in a batch
A_MILLISECOND = 1 << 18  # coordinates that a clipped shift goes through in that time: less is not worth a thread
MOST_PRODUCTS = 2000  # rows up to this many have all their products kept


@cache
def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="rayhull")


def spread(run: Callable[[int, int], object], n: int, least: int = 8) -> None:
    """run(start, stop) over n samples on as many threads as torch uses; the kernels release the GIL."""
    threads = min(torch.get_num_threads(), n // least)
    if threads <= 1:
        run(0, n)
        return
    edges = np.linspace(0, n, threads + 1).astype(int).tolist()
    for done in [_pool(threads).submit(run, a, b) for a, b in pairwise(edges)]:
        done.result()


Sides = tuple[Tensor, Tensor, Tensor]  # c, lower, upper: one row for all samples or one for each


def shift(x: Tensor, index: Array, a: Array, sides: Sides, equality: bool, out: Tensor) -> tuple[Tensor, ...]:
    """Clipped shifts for blocks in place: writes to ``out``; returns shifts, residuals and steps."""
    from rayhull.projection._kernels.shift import shift_range

    points, n = x.contiguous(), x.shape[0]
    blocks = n * index.shape[0]
    shifts, residual, steps = np.empty(blocks), np.empty(blocks), np.empty(blocks, np.int64)
    arrays = (points.numpy(), index, a, *map(_array, sides), equality, out.numpy(), shifts, residual, steps)
    spread(lambda start, stop: shift_range(start, stop, *arrays), n, least=max(1, A_MILLISECOND // x.shape[1]))
    return torch.from_numpy(shifts), torch.from_numpy(residual), torch.from_numpy(steps)


def pool(y: Tensor, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
    """Nearest increasing sequences: points, multipliers of x[i] <= x[i+1], residual, status."""
    from rayhull.projection._kernels.chain import pool_range

    n, d = y.shape
    x, multipliers, residual, status = np.empty((n, d)), np.empty((n, d - 1)), np.empty(n), np.zeros(n, np.int64)
    arrays = [_array(v) for v in (y, weights, lower, upper)]
    spread(lambda a, b: pool_range(a, b, *arrays, x, multipliers, residual, status), n, least=256)
    return tuple(torch.from_numpy(v) for v in (x, multipliers, residual, status))


class Rows:
    """Rows as the kernels want them, dense or sparse, and how to solve with them."""

    def __init__(self, rows: sp.csr_array, dense: Array, largest_eigenvalue: float) -> None:
        count, d = rows.shape
        if rows.nnz > DENSE * count * d:
            stored = (dense.ravel(), np.zeros(0, np.uint32), np.arange(count + 1) * d)
        else:
            stored = (rows.data, rows.indices.astype(np.uint32), rows.indptr.astype(np.int64))
        products = (rows @ rows.T).toarray() if count <= MOST_PRODUCTS else np.zeros((0, 0))
        self.rows = (*stored, products)
        self.lengths = np.asarray(abs(rows).sum(1)).ravel()
        self.banded = width(rows) <= max(4.0, 0.05 * count)  # steps are cheap, gradients tell little: no first guess
        self.gradient_steps = 0 if self.banded else (40 if count >= MANY and len(stored[1]) == 0 else 20)
        self.step = 0.0 if self.banded else 1 / largest_eigenvalue

    def solve(self, y: Tensor, m: int, sides: Sides, start: tuple[Tensor, Tensor] | None) -> tuple[Tensor, ...]:
        """Points, multipliers, residuals, steps and status; ``start``: active rows and bounds, a guess."""
        from rayhull.projection._kernels.batch import solve_range

        (n, d), count = y.shape, len(self.lengths)
        x, lam = np.empty((n, d)), np.empty((n, count))
        status, steps, residual = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
        if start is None:
            active, at_bound = np.zeros((n, count), bool), np.zeros((n, d), np.int8)
            active[:, m:] = True
        else:
            active, at_bound = (v.numpy().copy() for v in start)
        alone = 0 if start is not None else self._steps_alone(m, sides)
        how = (alone, self.step, PIVOTS, EXACT_STEPS * (count + d) + 100, self.banded)
        c, lower, upper = map(_array, sides)
        stated, points = (self.rows, self.lengths, c, m, lower, upper), _array(y)
        made = (lam, x, status, steps, residual)
        spread(lambda a, b: solve_range(a, b, stated, points, (active, at_bound), made, how), n)
        return tuple(torch.from_numpy(v) for v in (x, lam, residual, steps, status))

    def _steps_alone(self, m: int, sides: Sides) -> int:
        """Gradient steps for each sample on its own."""
        unbounded = bool(sides[1].isinf().all() & sides[2].isinf().all())
        plane = unbounded and 2 * m <= len(self.lengths)  # most rows are met anyway: start from those
        return 0 if plane else min(self.gradient_steps, ALONE)

    def multipliers(self, q: Tensor, active: Tensor, at_bound: Tensor) -> Tensor:
        """w with (G D G^T) w = q over the active rows, 0 elsewhere."""
        from rayhull.projection._kernels.batch import multipliers_range

        w = np.zeros(q.shape)
        arrays: list[Any] = [_array(v) for v in (q, active, at_bound)]
        spread(lambda a, b: multipliers_range(a, b, self.rows, *arrays, w), len(q))
        return torch.from_numpy(w)


def _array(v: Tensor) -> Array:
    return np.ascontiguousarray(v.detach().numpy())


def width(rows: sp.csr_array) -> float:
    """How far back, on average, a row shares a coordinate with one before it."""
    pattern = abs(rows)
    shared = sp.coo_array(pattern @ pattern.T)
    first = np.arange(rows.shape[0])
    np.minimum.at(first, shared.row, shared.col)
    return float((np.arange(rows.shape[0]) - first).mean()) if rows.shape[0] else 0.0
