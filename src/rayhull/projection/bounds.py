"""Bounds only: clamp."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rayhull.projection.problem import Found, Problem, Rhs
from rayhull.projection.way import Way, refuse_crossed


class Clamp(Way):
    """min ½‖z − y‖² subject to lower <= z <= upper: z = clip(y, lower, upper)."""

    name = "clamp"

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return len(problem.rhs) == 0

    def solve_in_place(self, x: Tensor, index: Tensor, rhs: Rhs, out: Tensor) -> Found | None:
        """Coordinates without any bound are copied; None where there is one to look at."""
        if self.problem.bounded or len(rhs.lower) > 1 or len(rhs.upper) > 1 or x.device.type != "cpu":
            return None
        if rhs.c.shape[0] > 1 or not (rhs.lower.isinf().all() and rhs.upper.isinf().all()):
            return None
        out[:, index] = x[:, index]
        n, d = len(x) * len(index), self.problem.d
        zero, count = torch.zeros(n, dtype=torch.float64), torch.zeros(n, dtype=torch.int64)
        nothing, free = torch.zeros((n, 0), dtype=torch.bool), torch.zeros((n, d), dtype=torch.int8)
        return Found(zero, nothing, free, zero, count, count)

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
