"""The door to the compiled kernels: asks for numba when they are used, and spreads samples over threads."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayhull.projection.order import width
from rayhull.projection.problem import Found, Problem, Rhs
from rayhull.projection.solvers.dual import largest_eigenvalue
from rayhull.sets.rows import Array

PIVOTS, EXACT_STEPS = 24, 20  # block pivoting gives up after 24 steps; the exact method after 20 (M + d)


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


def shift(y: Tensor, index: Array, a: Array, rhs: Rhs, equality: bool, out: Tensor) -> tuple[Array, Array, Array]:
    """Clipped shifts for blocks in place: writes to ``out``; returns shifts, residuals and steps."""
    from rayhull.projection._kernels.shift import shift_range

    n, blocks = y.shape[0], y.shape[0] * index.shape[0]
    shifts, residual, steps = np.empty(blocks), np.empty(blocks), np.empty(blocks, np.int64)
    given = (y.numpy(), index, a, *rhs.arrays, equality, out.numpy(), shifts, residual, steps)
    spread(lambda start, stop: shift_range(start, stop, *given), n, least=max(1, A_MILLISECOND // y.shape[1]))
    return shifts, residual, steps


def pool(y: Tensor, weights: Tensor, lower: Tensor, upper: Tensor) -> tuple[Tensor, ...]:
    """Nearest increasing sequences: points, pooled neighbours, which bound holds, residual, status."""
    from rayhull.projection._kernels.chain import pool_range

    n, d = y.shape
    x, joined, state = np.empty((n, d)), np.empty((n, d - 1), bool), np.empty((n, d), np.int8)
    residual, status = np.empty(n), np.zeros(n, np.int64)
    given = [np.ascontiguousarray(v.numpy()) for v in (y, weights, lower, upper)]
    spread(lambda a, b: pool_range(a, b, *given, x, joined, state, residual, status), n, least=256)
    return tuple(torch.from_numpy(v) for v in (x, joined, state, residual, status))


class Rows:
    """The rows of a problem as the kernels want them, dense or sparse."""

    def __init__(self, problem: Problem) -> None:
        rows = problem.rows
        count, d = rows.shape
        if problem.is_dense:
            stored = (problem.dense.ravel(), np.zeros(0, np.uint32), np.arange(count + 1) * d)
        else:
            stored = (rows.data, rows.indices.astype(np.uint32), rows.indptr.astype(np.int64))
        few = count <= MOST_PRODUCTS
        self.rows = (*stored, (rows @ rows.T).toarray() if few else np.zeros((0, 0)))
        self.banded = width(rows) <= max(4.0, 0.05 * count)  # steps are cheap, gradients tell little: no first guess
        self.gradient_steps = 0 if self.banded else (40 if count >= MANY and len(stored[1]) == 0 else 20)
        plane = not problem.bounded and 2 * problem.m <= count  # most rows are met anyway: start from those
        self.steps_alone = 0 if plane else min(self.gradient_steps, ALONE)
        self.step = 0.0 if self.banded else 1 / largest_eigenvalue(problem)
        self.problem = problem

    def solve(self, y: Tensor, rhs: Rhs, warm: tuple[Tensor, Tensor] | None) -> Found:
        """Points by the active-set methods, each with its certificate."""
        from rayhull.projection._kernels.batch import solve_range

        (n, d), count = y.shape, len(self.problem.rhs)
        x, lam = np.empty((n, d)), np.empty((n, count))
        status, steps, residual = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
        if warm is None:
            active, state = np.zeros((n, count), bool), np.zeros((n, d), np.int8)
            active[:, self.problem.m :] = True
        else:
            active, state = (v.cpu().numpy().copy() for v in warm)
        points = np.ascontiguousarray(y.cpu().numpy())
        how = (self.steps_alone if warm is None else 0, self.step, PIVOTS, EXACT_STEPS * (count + d) + 100, self.banded)
        c, lower, upper = rhs.arrays
        problem = (self.rows, self.problem.lengths, c, self.problem.m, lower, upper)
        made = (lam, x, status, steps, residual)
        spread(lambda a, b: solve_range(a, b, problem, points, (active, state), made, how), n)
        found = (torch.from_numpy(v) for v in (x, active, state, residual, steps, status))
        return Found(*(found if y.is_cpu else (v.to(y.device) for v in found)))

    def multipliers(self, q: Tensor, active: Tensor, state: Tensor) -> Tensor:
        """w with (G D G^T) w = q over the active rows, 0 elsewhere."""
        from rayhull.projection._kernels.batch import multipliers_range

        w = np.zeros(q.shape)
        given: list[Any] = [np.ascontiguousarray(v.cpu().numpy()) for v in (q, active, state)]
        spread(lambda a, b: multipliers_range(a, b, self.rows, *given, w), len(q))
        return torch.from_numpy(w).to(q.device)
