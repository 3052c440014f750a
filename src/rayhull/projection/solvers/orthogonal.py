"""Rows at right angles and no bounds: each row is met on its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rayhull.projection.problem import Found, Problem, Rhs
from rayhull.projection.solver import Way


class Orthogonal(Way):
    """z = y − G^T lam with lam = G y − c, its positive part for inequalities; a single row is the least case."""

    name = "orthogonal rows"

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        if problem.bounded or not len(problem.rhs):
            return False
        gram = abs(problem.rows @ problem.rows.T)
        return gram.nnz == len(problem.rhs) or bool((gram - _identity(len(problem.rhs))).max() <= 1e-15)

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        z, lam = y, y.new_zeros((len(y), len(self.problem.rhs)))
        for _ in range(2):  # the second round takes away the rounding of the first
            step = self.products(z) - rhs.c
            step[:, : self.problem.m] = torch.maximum(step[:, : self.problem.m], -lam[:, : self.problem.m])
            lam, z = lam + step, z - self.combine(step)
        return self.found(y, rhs, z, lam)

    def multipliers(self, q: Tensor, found: Found) -> Tensor:
        return q * found.active


def _identity(n: int) -> Any:
    import scipy.sparse as sp

    return sp.eye_array(n, format="csr")
