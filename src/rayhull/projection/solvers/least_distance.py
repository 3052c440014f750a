"""The fallback that is always there: Lawson and Hanson's least-distance programming, on SciPy's NNLS. Slow, exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from rayhull.projection.problem import EMPTY, SOLVED, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solver import Way
from rayhull.sets.rows import Array


class LeastDistance(Way):
    """One by one; a sample without any point gets the status EMPTY."""

    name = "least distance"

    @classmethod
    def fits(cls, problem: Problem) -> bool:
        return True

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        problem = self.problem
        z, lam = np.empty((len(y), problem.d)), np.zeros((len(y), len(problem.rhs)))
        failed = torch.full((len(y),), SOLVED)
        parts = [v.expand(len(y), -1).cpu().numpy() for v in (rhs.c, rhs.lower, rhs.upper)]
        for n, point in enumerate(y.cpu().numpy()):
            c, lower, upper = (v[n] for v in parts)
            z[n] = np.clip(point, lower, upper)
            try:
                answer = nearest(problem.dense, problem.m, c, lower, upper, point)
            except RuntimeError:  # NNLS ran out of steps
                failed[n] = UNSOLVED
                continue
            if answer is None:
                failed[n] = EMPTY
            else:
                z[n], lam[n] = answer
        found = self.found(y, rhs, torch.as_tensor(z, device=y.device), torch.as_tensor(lam, device=y.device))
        found.status = torch.where(failed.to(y.device) == SOLVED, found.status, failed.to(y.device))
        return found


def nearest(G: Array, m: int, c: Array, lower: Array, upper: Array, y: Array) -> tuple[Array, Array] | None:
    """Point and multipliers of G z <= c (= from row m on), lower <= z <= upper nearest to y; None if there is none.

    With u = z - y the task is the least ‖u‖ with R u >= h; NNLS on [R^T; h^T] w ~ (0, ..., 0, 1) solves it, and a
    residual of 0 proves that no u exists.
    """
    high, low = np.flatnonzero(np.isfinite(upper)), np.flatnonzero(np.isfinite(lower))
    eye = np.eye(len(y))
    R = -np.concatenate([G, -G[m:], eye[high], -eye[low]])
    h = np.concatenate([G @ y - c, c[m:] - G[m:] @ y, (y - upper)[high], (lower - y)[low]])
    scale = np.abs(h).max(initial=0.0) or 1.0
    E = np.concatenate([R.T, h[None] / scale])
    w, _ = nnls(E, np.append(np.zeros(len(y)), 1.0), maxiter=30 * E.shape[1] + 100)
    left = np.append(np.zeros(len(y)), 1.0) - E @ w
    if left[-1] <= 1e-14:
        return None
    multipliers = w * (scale / left[-1])
    lam = multipliers[: len(G)].copy()
    lam[m:] -= multipliers[len(G) : 2 * len(G) - m]
    return _polish(G, m, c, lower, upper, y, lam)


def _polish(G: Array, m: int, c: Array, lower: Array, upper: Array, y: Array, lam: Array) -> tuple[Array, Array]:
    """Meet the rows that push to rounding, by least squares on their multipliers."""
    push = lam > 0
    push[m:] = True
    for _ in range(2):
        v = y - G.T @ lam
        z = np.clip(v, lower, upper)
        free = v == z
        gap = (G @ z - c)[push]
        active = G[push] * free
        lam[push] += np.linalg.lstsq(active @ active.T, gap, rcond=1e-13)[0] if len(gap) else 0.0
    return np.clip(y - G.T @ lam, lower, upper), lam
