"""Chains x[0] <= x[1] <= ...: pool adjacent violators."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.problem import ACCEPT, SOLVED, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solver import Way
from rayhull.sets.rows import Array


class Chain(Way):
    """min Σ w (x − y)² subject to x[i] <= x[i+1] + s[i] along a path, and bounds: average neighbours out of order.

    Steps s are removed by a shift of the coordinates. The value of a pool is its weighted mean, clipped to the bounds
    of its members.
    """

    name = "chain"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        path = path_order(problem)
        assert path is not None
        self.order, self.row = torch.as_tensor(path[0]), torch.as_tensor(path[1])
        self.place = torch.argsort(self.order)  # where each coordinate stands on the path
        root = np.ones(problem.d) if problem.root is None else problem.root
        self.root = torch.as_tensor(root)
        first = problem.rows.indptr[:-1]
        unit_step = 1 / (np.abs(problem.rows.data[first]) * root[problem.rows.indices[first]])
        self.unit_step = torch.as_tensor(unit_step)  # s = c * unit_step in plain coordinates

        self.weights = (self.root**2)[self.order]
        self._last: tuple[Rhs, tuple[Tensor, Tensor, Tensor]] | None = None

    def _shifted(self, rhs: Rhs) -> tuple[Tensor, Tensor, Tensor]:
        """The shift along the path that takes the steps away, and the bounds less it; kept while rhs is the same."""
        if self._last is None or self._last[0] is not rhs:
            steps = (rhs.c.cpu() * self.unit_step)[:, self.row]
            shift = torch.nn.functional.pad(-steps.cumsum(1), (1, 0))  # x = t + shift has the steps, t none
            lower, upper = ((v.cpu() / self.root)[:, self.order] - shift for v in (rhs.lower, rhs.upper))
            self._last = rhs, (shift, lower, upper)
        return self._last[1]

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return compiled.available() and path_order(problem) is not None

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        device, y = y.device, y.cpu()
        shift, lower, upper = self._shifted(rhs)
        along = (y / self.root)[:, self.order] - shift
        t, joined, state, residual, status = compiled.pool(along, self.weights, lower, upper)
        z = torch.clamp((t + shift)[:, self.place] * self.root, rhs.lower.cpu(), rhs.upper.cpu())
        active = torch.empty_like(joined)
        active[:, self.row] = joined
        status[(status == SOLVED) & (residual > ACCEPT)] = UNSOLVED
        parts = (z, active, state[:, self.place], residual, torch.ones_like(status), status)
        return Found(*(v.to(device) for v in parts))


def path_order(problem: Problem) -> tuple[Array, Array] | None:
    """Coordinates along the path and the rows between them, if the rows are the differences along one path."""
    rows, d = problem.rows, problem.d
    if problem.m != len(problem.rhs) or problem.m != d - 1 or d < 2 or (np.diff(rows.indptr) != 2).any():
        return None
    root = np.ones(d) if problem.root is None else problem.root
    ends = rows.indices.reshape(-1, 2)
    values = rows.data.reshape(-1, 2) * root[ends]  # in plain coordinates, up to the row's scale
    if not np.allclose(values[:, 0], -values[:, 1], rtol=1e-14, atol=0):
        return None
    small = np.where(values[:, 0] > 0, ends[:, 0], ends[:, 1])
    large = np.where(values[:, 0] > 0, ends[:, 1], ends[:, 0])
    if len(np.unique(small)) < d - 1 or len(np.unique(large)) < d - 1:
        return None
    after, row = np.full(d, -1), np.full(d, -1)
    after[small], row[small] = large, np.arange(d - 1)
    order = [int(np.setdiff1d(np.arange(d), large)[0])]
    while after[order[-1]] >= 0 and len(order) < d:
        order.append(int(after[order[-1]]))
    return (np.array(order), row[order[:-1]]) if len(order) == d else None
