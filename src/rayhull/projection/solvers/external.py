"""Other people's solvers behind one small interface: extras, for comparison and as a last resort."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.errors import optional
from rayhull.projection.problem import SOLVED, UNSOLVED, Found, Problem, Rhs
from rayhull.projection.solver import Way, refuse_crossed
from rayhull.sets.rows import Array

# A solver, set up once for the rows, maps (y, c, lower, upper) to (point, multipliers of the rows, solved).
Solve = Callable[[Array, Array, Array, Array], tuple[Array, Array, bool]]


class External(Way):
    """One by one through a solver: the paper's baseline with ``osqp``."""

    def __init__(self, problem: Problem, solver: str) -> None:
        super().__init__(problem)
        self.solver = solver
        self.accept = ACCEPTED[solver]
        self._solve: Solve | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.solver

    def solve(self, y: Tensor, rhs: Rhs, warm: Any = None) -> Found:
        if self._solve is None:
            self._solve = SOLVERS[self.solver](self.problem)
        parts = [v.expand(len(y), -1).cpu().numpy() for v in (rhs.c, rhs.lower, rhs.upper)]
        answers = [self._solve(point, *(v[n] for v in parts)) for n, point in enumerate(y.cpu().numpy())]
        z = np.array([a[0] for a in answers]).reshape(y.shape)
        lam = np.array([a[1] for a in answers]).reshape(len(y), -1)
        points, multipliers = (torch.as_tensor(v, device=y.device) for v in (z, lam))
        slack = rhs.c - self.products(points)
        touching = multipliers >= slack  # an interior-point method leaves a trace of force on every row
        touching[:, self.problem.m :] = True
        found = self.found(y, rhs, points, torch.where(touching, multipliers, 0.0))
        ok = torch.as_tensor([a[2] for a in answers], device=y.device) & (found.residual <= self.accept)
        found.status = torch.where(ok, SOLVED, UNSOLVED)
        refuse_crossed(found, rhs)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solve": None}  # solver handles are not picklable; made again when used


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _import(package: str) -> Any:
    return optional(package, package, "solvers", f"solver={package!r}")


def _stacked(problem: Problem) -> tuple[sp.csc_array, Array]:
    """Rows and then an identity row for each bounded coordinate; and which those are."""
    bounded = np.flatnonzero(np.isfinite(problem.lower) | np.isfinite(problem.upper))
    eye = sp.csr_array(sp.eye_array(problem.d, format="csr")[bounded])
    return sp.csc_array(sp.vstack([problem.rows, eye], format="csc")), bounded


def osqp(problem: Problem, **settings: Any) -> Solve:
    """The paper's loop: eps 1e-6, polish, warm start."""
    package = _import("osqp")
    matrix, bounded = _stacked(problem)
    chosen = {"eps_abs": 1e-6, "eps_rel": 1e-6, "polishing": True, "warm_starting": True, "verbose": False, **settings}
    solver = package.OSQP()
    fixed = list(_two_sided(problem, problem.rhs, problem.lower[bounded], problem.upper[bounded]))
    as_matrix = sp.csc_matrix(sp.eye(problem.d)), sp.csc_matrix(matrix)
    solver.setup(as_matrix[0], np.zeros(problem.d), as_matrix[1], *fixed, **chosen)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        new = _two_sided(problem, c, lower[bounded], upper[bounded])
        if all(np.array_equal(a, b) for a, b in zip(new, fixed, strict=True)):
            solver.update(q=-y)
        else:
            solver.update(q=-y, l=new[0], u=new[1])
            fixed[:] = new
        result = solver.solve(raise_error=False)
        lam = np.asarray(result.y)[: len(c)].copy()
        lam[: problem.m] = np.maximum(lam[: problem.m], 0)
        return np.asarray(result.x), lam, result.info.status == "solved"

    return solve


def daqp(problem: Problem) -> Solve:
    """A dual active-set method in C, set up once; exact. Its bounds come first, for all coordinates or none."""
    package = _import("daqp")
    d, count = problem.d, len(problem.rhs)
    bounded = np.arange(d) if problem.bounded else np.zeros(0, np.int64)
    sense = np.zeros(len(bounded) + count, np.int32)
    sense[len(bounded) + problem.m :] = 5  # DAQP's code for an equality
    model = package.Model()
    model.settings = {"primal_tol": 1e-12, "dual_tol": 1e-14}
    started = False

    def limits(c: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        least = np.concatenate([lower[bounded], np.full(problem.m, -1e30), c[problem.m :]])
        return np.maximum(least, -1e30), np.minimum(np.concatenate([upper[bounded], c]), 1e30)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        nonlocal started
        least, most = limits(c, lower, upper)
        if started:
            model.update(f=-y, bupper=most, blower=least, sense=sense)
        else:
            model.setup(np.eye(d), -y, problem.dense, most, least, sense)
            started = True
        x, _, flag, info = model.solve()
        return np.array(x), np.array(info["lam"])[len(bounded) :], flag > 0

    return solve


def piqp(problem: Problem) -> Solve:
    """A sparse interior-point method; its tolerance must be 1e-12, for at 1e-8 points err by 1e-4."""
    package = _import("piqp")
    m = problem.m
    G, A = (sp.csc_matrix(v) for v in (problem.rows[:m], problem.rows[m:]))
    eye = sp.csc_matrix(sp.eye(problem.d))
    solver = package.SparseSolver()
    for name, value in (("eps_abs", 1e-12), ("eps_rel", 1e-12), ("eps_duality_gap_abs", 1e-12)):
        setattr(solver.settings, name, value)
    started = False

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        nonlocal started
        if not started:
            solver.setup(eye, -y, A, c[m:], G, None, c[:m], lower, upper)
            started = True
        else:
            solver.update(c=-y, b=c[m:], h_u=c[:m], x_l=lower, x_u=upper)
        status = solver.solve()
        r = solver.result
        return np.array(r.x), np.concatenate([r.z_u[:m], r.y]), status == package.PIQP_SOLVED

    return solve


def clarabel(problem: Problem) -> Solve:
    """A conic interior-point method."""
    package = _import("clarabel")
    m, k = problem.m, len(problem.rhs) - problem.m
    high, low = (np.flatnonzero(np.isfinite(v)) for v in (problem.upper, problem.lower))
    eye = sp.csr_array(sp.eye_array(problem.d, format="csr"))
    matrix = sp.csc_matrix(sp.vstack([problem.rows[m:], problem.rows[:m], eye[high], -eye[low]]))
    cones = [package.ZeroConeT(k), package.NonnegativeConeT(m + len(high) + len(low))]
    settings = package.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, 1e-12)
    P = sp.csc_matrix(sp.eye(problem.d))

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        b = np.concatenate([c[m:], c[:m], upper[high], -lower[low]])
        result = package.DefaultSolver(P, -y, matrix, b, cones, settings).solve()
        lam = np.asarray(result.z)
        ok = "Solved" in str(result.status)
        return np.asarray(result.x), np.concatenate([lam[k : k + m], lam[:k]]), ok

    return solve


def _two_sided(problem: Problem, c: Array, lower: Array, upper: Array, infinity: float = np.inf) -> tuple[Array, Array]:
    """Limits of [G; I] z from below and above."""
    least = np.concatenate([np.full(problem.m, -infinity), c[problem.m :], lower])
    most = np.concatenate([c, upper])
    return np.clip(least, -infinity, infinity), np.clip(most, -infinity, infinity)


SOLVERS: dict[str, Callable[..., Solve]] = {"osqp": osqp, "daqp": daqp, "piqp": piqp, "clarabel": clarabel}
# Residuals that count as an answer: what each solver's own tolerance promises.
ACCEPTED = {"osqp": 1e-4, "daqp": 1e-8, "piqp": 1e-8, "clarabel": 1e-7}
