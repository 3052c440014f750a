"""Bounds only: clamp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rayhull.projection.problem import Found, Problem, Rhs
from rayhull.projection.solver import Way, refuse_crossed


class Clamp(Way):
    """min ½‖z − y‖² subject to lower <= z <= upper: z = clip(y, lower, upper)."""

    name = "clamp"

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return len(problem.rhs) == 0

    def solve_in_place(self, x: Tensor, index: Tensor, rhs: Rhs, out: Tensor) -> Found | None:
        """Coordinates without any bound are copied; None where there is one to look at."""
        if self.problem.bounded or not rhs.unbounded:
            return None
        places = index.reshape(-1).to(x.device)
        out.index_copy_(1, places, x.index_select(1, places))
        return Copied(x.shape[0] * index.shape[0], self.problem.d, x.device)

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        z = torch.clamp(y, rhs.lower, rhs.upper)
        state = (y > rhs.upper).to(torch.int8) - (y < rhs.lower).to(torch.int8)
        zero = y.new_zeros(len(y))
        count = torch.zeros(len(y), dtype=torch.int64, device=y.device)
        found = Found(z, y.new_zeros((len(y), 0), dtype=torch.bool), state, zero, count, count.clone())
        refuse_crossed(found, rhs)
        return found

    def multipliers(self, q: Tensor, found: Found) -> Tensor:
        return q


class Copied(Found):
    """Points that nothing pushes: what there is to know of them is written out when someone asks."""

    def __init__(self, n: int, d: int, device: torch.device) -> None:
        self.n, self.d, self.device = n, d, device

    def _zeros(self, *more: int, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.zeros((self.n, *more), dtype=dtype, device=self.device)

    active = property(lambda self: self._zeros(0, dtype=torch.bool))
    state = property(lambda self: self._zeros(self.d, dtype=torch.int8))
    residual = property(lambda self: self._zeros(dtype=torch.float64))
    steps = property(lambda self: self._zeros())
    status = property(lambda self: self._zeros())
    solved = property(lambda self: True)
