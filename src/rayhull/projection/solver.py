"""A way to the nearest point: what each closed form and each solver must answer."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.optimize import linprog
from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.problem import ACCEPT, EMPTY, ROUNDING, SOLVED, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solvers import dual
from rayhull.sets.rows import Array


class Way:
    """Nearest points for one kind of block.

    A way finds the points (``solve``) and solves the small system of the active rows (``multipliers``), from which
    every derivative follows.
    """

    name: ClassVar[str] = ""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        rows = problem.rows
        self.sparse = rows.nnz < 0.05 * rows.shape[0] * rows.shape[1]
        self._rows: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        """Whether this way serves the problem; looks at the rows once, at construction."""
        raise NotImplementedError

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        """Nearest points. Shape: y (N, d) float64 in standard form."""
        raise NotImplementedError

    def solve_in_place(self, x: Tensor, index: Tensor, rhs: Rhs, out: Tensor) -> Found | None:
        """The same for blocks read from and written to their places in the samples; None where no kernel serves."""
        return None

    def multipliers(self, q: Tensor, found: Found) -> Tensor:
        """w with (G D G^T) w = q over the active rows, 0 elsewhere; D keeps the free coordinates. Shape: (N, M)."""
        if compiled.available():
            return self.compiled_rows.multipliers(q, found.active, found.state)
        return dual.newton_step(self, q, found.active, found.state == 0)

    @cached_property
    def compiled_rows(self) -> compiled.Rows:
        return compiled.Rows(self.problem)

    # -- products with the rows ------------------------------------------------------------------------------------

    def _matrices(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """G and its transpose on the device of ``like``, sparse where that pays."""
        key = like.device, like.dtype
        if key not in self._rows:
            self._rows[key] = _matrices(self.problem, like, self.sparse)
        return self._rows[key]

    def dense_rows(self, like: Tensor) -> Tensor:
        """G (M, d), dense, on the device of ``like``."""
        return torch.as_tensor(self.problem.dense, device=like.device) if self.sparse else self._matrices(like)[0]

    def products(self, v: Tensor) -> Tensor:
        """G v for each sample. Shape: (N, d) → (N, M)."""
        matrix, transposed = self._matrices(v)
        return (matrix @ v.mT).mT if self.sparse else v @ transposed

    def combine(self, w: Tensor) -> Tensor:
        """G^T w for each sample. Shape: (N, M) → (N, d)."""
        matrix, transposed = self._matrices(w)
        return (transposed @ w.mT).mT if self.sparse else w @ matrix

    # -- the certificate -------------------------------------------------------------------------------------------

    def judge(self, y: Tensor, rhs: Rhs, z: Tensor, lam: Tensor) -> Tensor:
        """How far z with multipliers lam is from the optimality conditions: the largest of four relative errors.

        Rows and bounds hold; rows with a multiplier are met; multipliers of inequalities are >= 0;
        z = clip(y - G^T lam). Shape: (N,).
        """
        m, tiny = self.problem.m, torch.finfo(torch.float64).tiny
        size = z.abs().amax(1, keepdim=True)
        push = y.abs().amax(1, keepdim=True) + size + tiny
        aim = torch.clamp(y - self.combine(lam), rhs.lower, rhs.upper)
        rounding = ROUNDING * push  # of y - G^T lam; what is off beyond it counts against the size of z, not of y
        worst = (((z - aim).abs() - rounding).clamp_min(0) / (size + rounding)).amax(1)
        if not lam.shape[1]:
            return worst
        gap = self.products(z) - rhs.c
        met = (lam > 0) | (torch.arange(lam.shape[1], device=z.device) >= m)
        terms = torch.maximum(size, rhs.c.abs()).clamp_min(tiny)
        gap = torch.where(met, gap.abs(), gap.clamp_min(0)) / terms
        worst = torch.maximum(worst, gap.amax(1))
        return torch.maximum(worst, (-lam[:, :m] / push).amax(1)) if m else worst

    def found(self, y: Tensor, rhs: Rhs, z: Tensor, lam: Tensor, steps: Tensor | int = 1) -> Found:
        """Pattern and certificate of an answer; what pushes counts as active, what only touches does not."""
        residual = self.judge(y, rhs, z, lam)
        if bool((residual > ACCEPT).any()):
            z, residual = self._at_apex(y, rhs, z, lam, residual)
        v = y - self.combine(lam)
        state = (v > rhs.upper).to(torch.int8) - (v < rhs.lower).to(torch.int8)
        active = lam > 0
        active[:, self.problem.m :] = True
        counted = steps if isinstance(steps, Tensor) else torch.full((len(y),), steps, device=y.device)
        status = torch.where(residual <= ACCEPT, SOLVED, UNSOLVED)
        return Found(z, active, state, residual, counted, status)

    def _at_apex(self, y: Tensor, rhs: Rhs, z: Tensor, lam: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """0 in place of an uncertified point that is next to nothing against y, where 0 is certified."""
        small = (residual > ACCEPT) & (z.abs().amax(1) <= 1e-12 * y.abs().amax(1))
        apex = torch.clamp(torch.zeros_like(z), rhs.lower, rhs.upper)
        better = self.judge(y, rhs, apex, lam)
        snap = small & (better < residual)
        return torch.where(snap[:, None], apex, z), torch.where(snap, better, residual)

    def confirm_empty(self, y: Tensor, rhs: Rhs, found: Found) -> Tensor:
        """Samples called empty for which that is not certain: the set itself never is, the rest is up to an LP."""
        called = (found.status == EMPTY).nonzero()[:, 0]
        if max(len(rhs.c), len(rhs.lower), len(rhs.upper)) == 1:
            return called
        sides = [v.expand(len(y), -1)[called].cpu().numpy() for v in (rhs.c, rhs.lower, rhs.upper)]
        keep = [not is_empty(self.problem, *side) for side in zip(*sides, strict=True)]
        return called[torch.tensor(keep, dtype=torch.bool, device=called.device)]


def is_empty(problem: Problem, c: Array, lower: Array, upper: Array) -> bool:
    """Whether the least possible violation of the unit rows, found by a linear program, is more than rounding."""
    if (lower > upper).any():
        return True
    m, d = problem.m, problem.d
    ones = sp.csr_array(np.ones((len(c), 1)))
    A = sp.vstack([sp.hstack([problem.rows, -ones]), sp.hstack([-problem.rows[m:], -ones[m:]])], format="csr")
    bounds = [*zip(lower, upper, strict=True), (0, None)]
    cost = np.append(np.zeros(d), 1.0)
    result = linprog(cost, A, np.concatenate([c, -c[m:]]), bounds=bounds, method="highs")
    return bool(result.status == 0 and result.fun > 1e-9 * (1 + np.abs(c).max(initial=0.0)))


def refuse_crossed(found: Found, rhs: Rhs) -> None:
    """Mark the samples whose lower bound is above their upper bound."""
    if rhs.lower.shape[0] > 1 or rhs.upper.shape[0] > 1:
        found.status[(rhs.lower > rhs.upper).any(1)] = EMPTY


def _matrices(problem: Problem, like: Tensor, sparse: bool) -> tuple[Tensor, Tensor]:
    device = like.device
    if not sparse:
        dense = torch.as_tensor(problem.dense, dtype=like.dtype, device=device)
        return dense, dense.mT.contiguous()
    parts = []
    for rows in (problem.rows, problem.rows.T.tocsr()):
        indptr, indices = (torch.as_tensor(v.astype(np.int64), device=device) for v in (rows.indptr, rows.indices))
        data = torch.as_tensor(rows.data, dtype=like.dtype, device=device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch calls its sparse rows a beta
            parts.append(torch.sparse_csr_tensor(indptr, indices, data, rows.shape, check_invariants=False))
    return parts[0], parts[1]
