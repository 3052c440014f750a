"""One row and bounds: a single clipped shift."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rayhull.projection import compiled
from rayhull.projection.problem import ACCEPT, EMPTY, SOLVED, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solver import Way, refuse_crossed
from rayhull.sets.rows import Array

STEPS = 120


class ClippedShift(Way):
    """min ½‖z − y‖² subject to a·z <= c (or = c), lower <= z <= upper: z = clip(y − t a, lower, upper).

    t >= 0 is the root of a·clip(y − t a) = c, which falls piecewise linearly in t: Newton steps, halved where they
    leave the bracket. The paper's tiles, budgets, simplices and sums with bounds are all of this form.
    """

    name = "clipped shift"
    places: Array | None = None

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return len(problem.rhs) == 1 and (problem.bounded or compiled.available())

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        a, c = self.dense_rows(y)[0], rhs.c[:, 0]
        t, steps = _root(y, a, c, rhs, equality=self.problem.m == 0)
        z, t = _refine(y, a, c, rhs, t)
        found = self.found(y, rhs, z, t[:, None], steps)
        self._mark_empty(found, rhs)
        return found

    def solve_in_place(self, x: Tensor, index: Tensor, rhs: Rhs, out: Tensor) -> Found | None:
        """The same for blocks read from and written to their places in the samples; None where no kernel serves."""
        fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and self.problem.root is None
        if not fits or not compiled.available():
            return None
        x, row, equality = x.contiguous(), self.problem.dense[0], self.problem.m == 0
        found = ShiftFound(self, x, index, rhs, *compiled.shift(x, self._places(index), row, rhs, equality, out))
        self._mark_empty(found, rhs)
        return found

    def _places(self, index: Tensor) -> Array:
        if self.places is None:
            self.places = index.numpy().astype(np.uint32)  # unsigned: the kernel need not look for negative ones
        return self.places

    def _mark_empty(self, found: Found, rhs: Rhs) -> None:
        if max(rhs.c.shape[0], rhs.lower.shape[0], rhs.upper.shape[0]) > 1:
            a = torch.as_tensor(self.problem.dense[0], device=rhs.c.device)
            found.status[_out_of_reach(a, rhs.c[:, 0], rhs, self.problem.m == 0)] = EMPTY
            refuse_crossed(found, rhs)

    def multipliers(self, q: Tensor, found: Found) -> Tensor:
        squares = torch.as_tensor(self.problem.dense[0] ** 2, device=q.device)
        slope = (found.state == 0).to(q.dtype) @ squares
        push = found.active[:, 0] & (slope > 0)
        return torch.where(push, q[:, 0] / slope.clamp_min(torch.finfo(q.dtype).tiny), 0.0)[:, None]


class ShiftFound(Found):
    """Answers written in place: which bounds push is worked out from x and the shifts when a derivative asks."""

    def __init__(
        self, way: ClippedShift, x: Tensor, index: Tensor, rhs: Rhs, shifts: Array, residual: Array, steps: Array
    ) -> None:
        self.way, self.x, self.index, self.rhs = way, x, index, rhs
        self.t, self.residual, self.steps = (torch.from_numpy(v) for v in (shifts, residual, steps))

    @cached_property
    def status(self) -> Tensor:  # type: ignore[override]
        return torch.where(self.residual <= ACCEPT, SOLVED, UNSOLVED)

    @property
    def solved(self) -> bool:
        if "status" in vars(self):  # someone looked, and may have marked empty ones
            return super().solved
        return bool(self.residual.numpy().max() <= ACCEPT)

    @property
    def active(self) -> Tensor:  # type: ignore[override]
        return (self.t != 0)[:, None]

    @cached_property
    def state(self) -> Tensor:  # type: ignore[override]
        blocks = self.x[:, self.index].reshape(len(self.t), -1)
        v = blocks - self.t[:, None] * self.way.dense_rows(self.t)[0]
        return (v > self.rhs.upper).to(torch.int8) - (v < self.rhs.lower).to(torch.int8)


def _root(y: Tensor, a: Tensor, c: Tensor, rhs: Rhs, equality: bool) -> tuple[Tensor, Tensor]:
    """t with a·clip(y − t a) = c, or 0 where an inequality holds already; and the number of steps."""
    n = len(y)
    t = y.new_zeros(n)
    low = torch.full_like(t, -np.inf if equality else 0.0)
    high = torch.full_like(t, np.inf)
    largest = y.abs().amax(1)
    start = torch.clamp(y, rhs.lower, rhs.upper).abs().amax(1)
    stride = largest + start + c.abs()
    steps = torch.zeros(n, dtype=torch.int64, device=y.device)
    ulp = torch.finfo(y.dtype).eps
    goal = 4 * ulp * (a.abs().sum() * start + c.abs() + largest)
    for _ in range(STEPS):
        v = y - t[:, None] * a
        z = torch.clamp(v, rhs.lower, rhs.upper)
        excess = z @ a - c
        done = excess.abs() <= goal
        if not equality:
            done |= (t == 0) & (excess <= 0)
        if bool(done.all()):
            break
        slope = ((v > rhs.lower) & (v < rhs.upper)).to(y.dtype) @ (a * a)
        low, high = torch.where(excess > 0, t, low), torch.where(excess < 0, t, high)
        newton = t + excess / slope
        middle = torch.where(low.isfinite() & high.isfinite(), (low + high) / 2, t + excess.sign() * stride)
        stride = torch.where(low.isfinite() & high.isfinite(), stride, 4 * stride)
        inside = (newton > low) & (newton < high) & newton.isfinite()
        t = torch.where(done, t, torch.where(inside, newton, middle))
        steps += ~done
    return t, steps


def _refine(y: Tensor, a: Tensor, c: Tensor, rhs: Rhs, t: Tensor) -> tuple[Tensor, Tensor]:
    """Meet the row to the rounding of z, where y - t a left the rounding of a much larger y."""
    v = y - t[:, None] * a
    z = torch.clamp(v, rhs.lower, rhs.upper)
    free = ((v > rhs.lower) & (v < rhs.upper)).to(y.dtype)
    slope = (free @ (a * a)).clamp_min(torch.finfo(y.dtype).tiny)
    for _ in range(2):
        step = torch.where((t != 0) & (free.sum(1) > 0), (z @ a - c) / slope, 0.0)
        t = t + step
        z = torch.clamp(z - free * step[:, None] * a, rhs.lower, rhs.upper)
    return z, t


def _out_of_reach(a: Tensor, c: Tensor, rhs: Rhs, equality: bool) -> Tensor:
    """Samples whose bounds alone keep a·z away from c."""
    least = torch.where(a > 0, a * rhs.lower, torch.where(a < 0, a * rhs.upper, 0.0)).sum(1)
    most = torch.where(a > 0, a * rhs.upper, torch.where(a < 0, a * rhs.lower, 0.0)).sum(1)
    room = 1e-12 * (1 + c.abs())
    return (least > c + room) | (most < c - room) if equality else least > c + room
