"""The batched dual method in torch operations: for devices and installations without the compiled kernels.

The dual of min ½‖z − y‖² is concave and smooth in the multipliers, with z = clip(y − G^T lam): first accelerated
gradient steps with restarts for all samples at once, then Newton steps on the rows that push.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from rayhull.projection.problem import Problem, Rhs

if TYPE_CHECKING:
    from rayhull.projection.solver import Way

WARM, NEWTON, HALVINGS = 40, 60, 25
GOAL = 1e-14
CHUNK = 50_000_000  # numbers in one batch of Newton systems


def largest_eigenvalue(problem: Problem) -> float:
    """The largest eigenvalue of G G^T: the dual gradient's Lipschitz constant."""
    if len(problem.rhs) <= 200:
        return float(np.linalg.norm(problem.dense, 2) ** 2)
    return float(eigsh(problem.rows @ problem.rows.T, 1, return_eigenvectors=False, tol=1e-3)[0]) * 1.01


def solve(way: Way, y: Tensor, rhs: Rhs, step: float) -> tuple[Tensor, Tensor, Tensor]:
    """Points, multipliers and steps; samples go in chunks that fit in memory."""
    count = max(len(way.problem.rhs), 1)
    size = max(1, CHUNK // (count * max(count, way.problem.d)))
    chunks = torch.split(torch.arange(len(y), device=y.device), size)
    parts = [_solve_chunk(way, y[chunk], rhs.take(chunk), step) for chunk in chunks]
    z, lam, steps = zip(*parts, strict=True)
    return torch.cat(z), torch.cat(lam), torch.cat(steps)


def _solve_chunk(way: Way, y: Tensor, rhs: Rhs, step: float) -> tuple[Tensor, Tensor, Tensor]:
    lam = _accelerate(way, y, rhs, WARM, step)
    z = torch.clamp(y - way.combine(lam), rhs.lower, rhs.upper)
    steps = torch.full((len(y),), WARM, device=y.device)
    left = torch.arange(len(y), device=y.device)
    for _ in range(NEWTON):
        y_left, rhs_left, lam_left = y[left], rhs.take(left), lam[left]
        residual = way.judge(y_left, rhs_left, z[left], lam_left)
        keep = residual > GOAL
        left, y_left, rhs_left, lam_left = left[keep], y_left[keep], rhs_left.take(keep.nonzero()[:, 0]), lam_left[keep]
        if not len(left):
            break
        better, moved = _improve(way, y_left, rhs_left, lam_left)
        lam[left], steps[left] = better, steps[left] + 1
        z[left] = torch.clamp(y_left - way.combine(better), rhs_left.lower, rhs_left.upper)
        left = left[moved]
    return z, lam, steps


def guess(way: Way, y: Tensor, rhs: Rhs, steps: int, step: float) -> tuple[Tensor, Tensor]:
    """Which rows and bounds push, guessed by a few gradient steps in float32: only a start for the exact methods."""
    short = Rhs(rhs.c.float(), rhs.lower.float(), rhs.upper.float())
    lam = _accelerate(way, y.float(), short, steps, step)
    v = y.float() - way.combine(lam)
    active = lam > 0
    active[:, way.problem.m :] = True
    return active, (v > short.upper).to(torch.int8) - (v < short.lower).to(torch.int8)


def _accelerate(way: Way, y: Tensor, rhs: Rhs, steps: int, step: float) -> Tensor:
    """FISTA on the dual with a restart for each sample whose momentum points uphill."""
    m = way.problem.m
    lam = y.new_zeros((len(y), len(way.problem.rhs)))
    point, t = lam, y.new_ones((len(y), 1))
    for _ in range(steps):
        z = torch.clamp(y - way.combine(point), rhs.lower, rhs.upper)
        new = point + step * (way.products(z) - rhs.c)
        new[:, :m] = new[:, :m].clamp_min(0)
        move = new - lam
        uphill = ((point - new) * move).sum(1, keepdim=True) > 0
        t = torch.where(uphill, 1.0, t)
        t_next = (1 + torch.sqrt(1 + 4 * t * t)) / 2
        point = new + torch.where(uphill, 0.0, (t - 1) / t_next) * move
        lam, t = new, t_next
    return lam


def _improve(way: Way, y: Tensor, rhs: Rhs, lam: Tensor) -> tuple[Tensor, Tensor]:
    """One Newton step on the rows that push, shortened until the dual does not fall; and which samples moved."""
    value, z, gap = _dual_value(way, y, rhs, lam)
    free = (z > rhs.lower) & (z < rhs.upper)
    push = (lam > 0) | (gap > 0)
    push[:, way.problem.m :] = True
    step = torch.where(push, newton_step(way, torch.where(push, gap, 0.0), push, free), -lam)
    best, moved = lam.clone(), torch.zeros(len(y), dtype=torch.bool, device=y.device)
    length = 1.0
    for _ in range(HALVINGS):
        new = lam + length * step
        new[:, : way.problem.m] = new[:, : way.problem.m].clamp_min(0)
        new_value, new_z, _ = _dual_value(way, y, rhs, new)
        better = new_value > value
        better |= way.judge(y, rhs, new_z, new) < 0.5 * way.judge(y, rhs, z, lam)
        take = better & ~moved
        best[take], moved = new[take], moved | better
        if bool(moved.all()):
            break
        length *= 0.5
    return best, moved


def _dual_value(way: Way, y: Tensor, rhs: Rhs, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    z = torch.clamp(y - way.combine(lam), rhs.lower, rhs.upper)
    gap = way.products(z) - rhs.c
    return 0.5 * ((z - y) ** 2).sum(1) + (lam * gap).sum(1), z, gap


def newton_step(way: Way, q: Tensor, push: Tensor, free: Tensor) -> Tensor:
    """w with (G D G^T) w = q over the rows that push, by a batched Cholesky with a touch of regularisation."""
    G = way.dense_rows(q)
    rows = push.to(q.dtype)
    H = (G * free[:, None, :].to(q.dtype)) @ G.mT
    H = H * rows[:, :, None] * rows[:, None, :]
    H.diagonal(dim1=1, dim2=2).add_(1 - rows + 1e-13)
    factor, _ = torch.linalg.cholesky_ex(H)
    w = torch.cholesky_solve((q * rows)[..., None], factor)
    w = w + torch.cholesky_solve((q * rows)[..., None] - H @ w, factor)
    return w[..., 0] * rows
