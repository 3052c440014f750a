"""A problem with dense rows of each sample, differentiable in all its numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rayhull.projection.matrix import SampleMatrix
from rayhull.projection.problem import Problem

TRACE = 1e-13  # on the diagonal, so that rows which depend on each other leave the factor regular


@dataclass(eq=False)
class DenseProblem:
    """All numbers of the problem in standard form, differentiable; unit rows, inequalities first."""

    y: Tensor  # (n, d)
    G: Tensor  # (n, M, d)
    c: Tensor  # (n, M)
    lower: Tensor  # (n, d)
    upper: Tensor  # (n, d)
    m: int
    norms: Tensor  # (n, M)
    bounds: tuple[Tensor, Tensor] | None = None  # coordinates whose upper and lower bounds became rows after those of A

    def detached(self) -> Problem:
        y, G, c, lower, upper = (v.detach() for v in (self.y, self.G, self.c, self.lower, self.upper))
        return Problem(lambda: y, SampleMatrix(G), self.m, c, lower, upper, may_be_empty=True)

    def on_face(self, active: Tensor, at_bound: Tensor) -> Tensor:
        """The nearest point with these rows and bounds met with equality. Shape: (n, d)."""
        start = torch.where(at_bound > 0, self.upper, torch.where(at_bound < 0, self.lower, self.y))
        rows, free = active.to(self.y.dtype), (at_bound == 0).to(self.y.dtype)
        G = self.G * rows[..., None]
        H = (G * free[:, None, :]) @ G.mT + torch.diag_embed(1 - rows + TRACE)
        q = rows * ((self.G @ start[..., None])[..., 0] - self.c)
        w = torch.cholesky_solve(q[..., None], torch.linalg.cholesky(H))
        return start - free * (G.mT @ w)[..., 0]
