"""One sample at a time on the host: the fallback that is always there, and other people's solvers.

The fallback is Lawson and Hanson's least-distance programming on SciPy's NNLS: slow, exact. It also gives what is
wanted where no point is feasible: the point that breaks the rows least, and among those nearly the nearest. The others
are extras behind one small interface, for comparison and as a last resort.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.errors import UnverifiedError, optional
from rayhull.projection.problem import EMPTY, SOLVED, UNSOLVED, Problem, Solution, Solver, certified, mark_crossed
from rayhull.projection.solvers.any_rows import dual_solution
from rayhull.projection.standard_form import SampleMatrix, StandardForm
from rayhull.sets.rows import Array

STIFFNESS = 1e4  # a violation weighs 1e8 times as much as a distance
# A solver, set up once for the rows, maps (y, c, lower, upper) to (point, multipliers of the rows, solved).
Solve = Callable[[Array, Array, Array, Array], tuple[Array, Array, bool]]
# Residuals that count as an answer: what each solver's own tolerance promises.
ACCEPTED = {"osqp": 1e-4, "daqp": 1e-8, "piqp": 1e-8, "clarabel": 1e-7}


# -- least distance --------------------------------------------------------------------------------------------------


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
        sides = [v.expand(len(y), -1).cpu().numpy() for v in problem.sides]
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
    w, _ = scipy.optimize.nnls(E, np.append(np.zeros(len(y)), 1.0), maxiter=30 * E.shape[1] + 100)
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


def least_violation(problem: Problem) -> Tensor:
    """min ½‖z − y‖² + ½ STIFFNESS² ‖violation of the rows‖², inside the bounds. Shape: (N, d) → (N, d).

    The violations are further coordinates s: G z − s / STIFFNESS <= c. Bounds that cross are taken at their middle.
    """
    d = problem.y.shape[1]
    problem = _uncrossed(problem)
    if not problem.matrix.count:
        return problem.clip(problem.y)
    soft = _with_violations(problem)
    solution = dual_solution(soft)
    left = solution.status.nonzero()[:, 0]
    if len(left):
        again = LeastDistance().solve(soft.take(left))
        solution.replace(left, again, torch.arange(len(left), device=left.device))
    if not solution.solved:
        raise UnverifiedError("The least violation could not be found to full accuracy: scale the rows alike.")
    assert solution.z is not None
    return solution.z[:, :d]


def _uncrossed(problem: Problem) -> Problem:
    crossed, middle = problem.lower > problem.upper, (problem.lower + problem.upper) / 2
    lower, upper = (torch.where(crossed, middle, v) for v in (problem.lower, problem.upper))
    return replace(problem, lower=lower, upper=upper)


def _with_violations(problem: Problem) -> Problem:
    y, count = problem.y, problem.matrix.count
    G = problem.matrix.dense(y).expand(len(y), -1, -1)
    eye = torch.eye(count, dtype=y.dtype, device=y.device).expand(len(y), -1, -1)
    norm = (1 + STIFFNESS**-2) ** 0.5
    free = y.new_full((1, count), torch.inf)
    wide = torch.cat([y, y.new_zeros((len(y), count))], 1)
    lower, upper = (
        torch.cat([v, (sign * free).expand(len(v), -1)], 1) for v, sign in ((problem.lower, -1), (problem.upper, 1))
    )
    matrix = SampleMatrix(torch.cat([G, -eye / STIFFNESS], 2) / norm)
    return replace(problem.at(wide), matrix=matrix, c=problem.c / norm, lower=lower, upper=upper)


# -- other people's solvers ------------------------------------------------------------------------------------------


class External(Solver):
    """One by one on the host through a solver: the paper's baseline with ``osqp``.

    Answers are accepted at the solver's own tolerance where the user asked for it by name.
    """

    def __init__(self, form: StandardForm, package: str) -> None:
        super().__init__(form)
        self.name = package  # type: ignore[misc]
        self.accept = ACCEPTED[package]
        self._solve: Solve | None = None

    def solve(self, problem: Problem, guess: Tensor | None = None) -> Solution:
        y, device = problem.y.cpu().numpy(), problem.y.device
        sides = [v.expand(len(y), -1).cpu().numpy() for v in problem.sides]
        answers = [self._one(point, *(v[n] for v in sides)) for n, point in enumerate(y)]
        z, multipliers = (
            torch.as_tensor(np.array([a[i] for a in answers]).reshape(len(y), -1), device=device) for i in (0, 1)
        )
        multipliers = _without_traces(problem, z, multipliers)
        solution = certified(problem, z, multipliers)
        ok = torch.as_tensor([a[2] for a in answers], device=device) & (solution.residual <= self.accept)
        solution.status = torch.where(ok, SOLVED, UNSOLVED)
        mark_crossed(problem, solution)
        return solution

    def _one(self, y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        try:
            if self._solve is None:
                self._solve = EXTERNAL[self.name](self.form)
            return self._solve(y, c, lower, upper)
        except (RuntimeError, ValueError):  # how these packages refuse rows that are singular to them
            self._solve = None
            return np.clip(y, lower, upper), np.zeros(len(c)), False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solve": None}  # solver handles are not picklable; made again when used


def _without_traces(problem: Problem, z: Tensor, multipliers: Tensor) -> Tensor:
    """An interior-point method leaves a trace of a multiplier on every row: 0 where the slack is larger."""
    active = multipliers >= problem.c - problem.matrix.times(z)
    active[:, problem.m :] = True
    return torch.where(active, multipliers, 0.0)


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _import(package: str) -> Any:
    return optional(package, package, "solvers", f"solver={package!r}")


def _stacked(form: StandardForm) -> tuple[sp.csc_array, Array]:
    """Rows and then an identity row for each bounded coordinate; and which those are."""
    bounded = np.flatnonzero(np.isfinite(form.lower) | np.isfinite(form.upper))
    eye = sp.csr_array(sp.eye_array(form.d, format="csr")[bounded])
    return sp.csc_array(sp.vstack([form.matrix.rows, eye], format="csc")), bounded


def osqp(form: StandardForm, **settings: Any) -> Solve:
    """The paper's loop: eps 1e-6, polish, warm start."""
    package = _import("osqp")
    matrix, bounded = _stacked(form)
    chosen = {"eps_abs": 1e-6, "eps_rel": 1e-6, "polishing": True, "warm_starting": True, "verbose": False, **settings}
    solver = package.OSQP()
    fixed = list(_two_sided(form, form.c, form.lower[bounded], form.upper[bounded]))
    as_matrix = sp.csc_matrix(sp.eye(form.d)), sp.csc_matrix(matrix)
    solver.setup(as_matrix[0], np.zeros(form.d), as_matrix[1], *fixed, **chosen)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        new = _two_sided(form, c, lower[bounded], upper[bounded])
        if all(np.array_equal(a, b) for a, b in zip(new, fixed, strict=True)):
            solver.update(q=-y)
        else:
            solver.update(q=-y, l=new[0], u=new[1])
            fixed[:] = new
        result = solver.solve(raise_error=False)
        lam = np.asarray(result.y)[: len(c)].copy()
        lam[: form.m] = np.maximum(lam[: form.m], 0)
        return np.asarray(result.x), lam, result.info.status == "solved"

    return solve


def daqp(form: StandardForm) -> Solve:
    """A dual active-set method in C, set up once; exact. Its bounds come first, for all coordinates or none."""
    package = _import("daqp")
    d, count = form.d, len(form.c)
    bounded = np.arange(d) if form.bounded else np.zeros(0, np.int64)
    sense = np.zeros(len(bounded) + count, np.int32)
    sense[len(bounded) + form.m :] = 5  # DAQP's code for an equality
    model = package.Model()
    model.settings = {"primal_tol": 1e-12, "dual_tol": 1e-14}
    started = False

    def limits(c: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
        least = np.concatenate([lower[bounded], np.full(form.m, -1e30), c[form.m :]])
        return np.maximum(least, -1e30), np.minimum(np.concatenate([upper[bounded], c]), 1e30)

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        nonlocal started
        least, most = limits(c, lower, upper)
        if started:
            model.update(f=-y, bupper=most, blower=least, sense=sense)
        else:
            model.setup(np.eye(d), -y, form.matrix.dense_array, most, least, sense)
            started = True
        x, _, flag, info = model.solve()
        return np.array(x), np.array(info["lam"])[len(bounded) :], flag > 0

    return solve


def piqp(form: StandardForm) -> Solve:
    """A sparse interior-point method; its tolerance must be 1e-12, for at 1e-8 points err by 1e-4."""
    package = _import("piqp")
    m = form.m
    G, A = (sp.csc_matrix(v) for v in (form.matrix.rows[:m], form.matrix.rows[m:]))
    eye = sp.csc_matrix(sp.eye(form.d))
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


def clarabel(form: StandardForm) -> Solve:
    """A conic interior-point method."""
    package = _import("clarabel")
    m, k = form.m, len(form.c) - form.m
    high, low = (np.flatnonzero(np.isfinite(v)) for v in (form.upper, form.lower))
    eye = sp.csr_array(sp.eye_array(form.d, format="csr"))
    matrix = sp.csc_matrix(sp.vstack([form.matrix.rows[m:], form.matrix.rows[:m], eye[high], -eye[low]]))
    cones = [package.ZeroConeT(k), package.NonnegativeConeT(m + len(high) + len(low))]
    settings = package.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, 1e-12)
    P = sp.csc_matrix(sp.eye(form.d))

    def solve(y: Array, c: Array, lower: Array, upper: Array) -> tuple[Array, Array, bool]:
        b = np.concatenate([c[m:], c[:m], upper[high], -lower[low]])
        result = package.DefaultSolver(P, -y, matrix, b, cones, settings).solve()
        lam = np.asarray(result.z)
        ok = "Solved" in str(result.status)
        return np.asarray(result.x), np.concatenate([lam[k : k + m], lam[:k]]), ok

    return solve


def _two_sided(form: StandardForm, c: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Limits of [G; I] z from below and above."""
    return np.concatenate([np.full(form.m, -np.inf), c[form.m :], lower]), np.concatenate([c, upper])


EXTERNAL: dict[str, Callable[..., Solve]] = {"osqp": osqp, "daqp": daqp, "piqp": piqp, "clarabel": clarabel}
