"""Equalities only: one factorisation, kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayhull.projection.problem import EMPTY, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solver import Way

RANK = 1e-11  # singular values below this, relative to the largest, belong to dependent rows


class Affine(Way):
    """z = y − G⁺(G y − c); dependent rows are allowed as long as they agree."""

    name = "affine"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        gram = problem.dense @ problem.dense.T
        self.inverse = torch.as_tensor(np.linalg.pinv(gram, rcond=RANK, hermitian=True))  # (M, M)

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return problem.m == 0 and len(problem.rhs) > 0 and not problem.bounded

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        z, lam = y, y.new_zeros((len(y), len(self.problem.rhs)))
        inverse = self.inverse.to(y.device)
        for _ in range(3):  # refinement: rows met to rounding
            step = (self.products(z) - rhs.c) @ inverse
            lam, z = lam + step, z - self.combine(step)
        found = self.found(y, rhs, z, lam)
        if len(rhs.c) > 1:  # the rows of the set agree; those of a sample need not
            found.status[(found.status == UNSOLVED) & (found.residual > 1e-7)] = EMPTY
        return found

    def multipliers(self, q: Tensor, found: Found) -> Tensor:
        return q @ self.inverse.to(q.device)
