"""The fallback that is always there: Lawson and Hanson's least-distance programming, on SciPy's NNLS. Slow, exact."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from rayhull.projection.certificate import certified
from rayhull.projection.problem import Problem, Solution
from rayhull.projection.solver import Solver
from rayhull.projection.standard_form import StandardForm
from rayhull.projection.tolerances import EMPTY, SOLVED, UNSOLVED
from rayhull.sets.rows import Array


class LeastDistance(Solver):
    """One by one on the host; a sample without any point gets the status EMPTY."""

    name = "least distance"

    def __init__(self, form: StandardForm | None = None) -> None:
        """Nothing of the form is needed: all that counts is in the problem."""

    @classmethod
    def fits(cls, form: StandardForm) -> bool:
        return True

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        y = problem.y.cpu().numpy()
        z, multipliers = np.empty(y.shape), np.zeros((len(y), problem.matrix.count))
        status = torch.full((len(y),), SOLVED)
        sides = [v.expand(len(y), -1).cpu().numpy() for v in (problem.c, problem.lower, problem.upper)]
        for n, point in enumerate(y):
            c, lower, upper = (v[n] for v in sides)
            z[n] = np.clip(point, lower, upper)
            try:
                answer = nearest(problem.matrix.array(n), problem.m, c, lower, upper, point)
            except RuntimeError:  # NNLS ran out of steps
                status[n] = UNSOLVED
                continue
            if answer is None:
                status[n] = EMPTY
            else:
                z[n], multipliers[n] = answer
        device = problem.y.device
        solution = certified(problem, *(torch.as_tensor(v, device=device) for v in (z, multipliers)))
        solution.status = torch.where(status.to(device) == SOLVED, solution.status, status.to(device))
        return solution


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
    """Meet the active rows to rounding, by least squares on their multipliers."""
    active = lam > 0
    active[m:] = True
    for _ in range(2):
        v = y - G.T @ lam
        z = np.clip(v, lower, upper)
        free = v == z
        excess = (G @ z - c)[active]
        rows = G[active] * free
        lam[active] += np.linalg.lstsq(rows @ rows.T, excess, rcond=1e-13)[0] if len(excess) else 0.0
    return np.clip(y - G.T @ lam, lower, upper), lam
