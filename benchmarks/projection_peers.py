"""The peers of the projection benchmark: each takes a problem and gives a function from points (n, d) to points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import rayhull as rh
from rayhull.projection.solvers.one_by_one import EXTERNAL
from rayhull.projection.standard_form import StandardForm

Array = np.ndarray[Any, Any]
Solve = Callable[[Array], Array]
Layer = Callable[[torch.Tensor], torch.Tensor]  # differentiable, points (n, d) to points


@dataclass(frozen=True)
class Task:
    """A set, points to project, and right-hand sides of the equalities where each sample has its own."""

    name: str
    polyhedron: rh.Polyhedron
    points: Array  # (n, d)
    b_eq: Array | None = None  # (n, k)

    def take(self, n: int) -> Task:
        repeats = -(-n // len(self.points))
        points = np.tile(self.points, (repeats, 1))[:n]
        return Task(
            self.name, self.polyhedron, points, None if self.b_eq is None else np.tile(self.b_eq, (repeats, 1))[:n]
        )


def ours(task: Task, dtype: torch.dtype = torch.float64) -> Solve:
    P = task.polyhedron
    module = rh.Projection(P)
    sides = {} if task.b_eq is None else {"b_eq": torch.tensor(task.b_eq, dtype=dtype)}

    def solve(points: Array) -> Array:
        x = torch.from_numpy(points).to(dtype).reshape(-1, *P.shape)
        return module(x, **{k: v[: len(x)] for k, v in sides.items()}).reshape(len(x), -1).numpy()

    return solve


def our_layer(task: Task) -> Layer:
    module = rh.Projection(task.polyhedron)
    sides = {} if task.b_eq is None else {"b_eq": torch.tensor(task.b_eq)}

    def solve(points: torch.Tensor) -> torch.Tensor:
        x = points.reshape(-1, *task.polyhedron.shape)
        return module(x, **{k: v[: len(x)] for k, v in sides.items()}).reshape(points.shape)

    return solve


def loop(task: Task, solver: str, **settings: Any) -> Solve:
    """A solver, sample by sample, with its rows set up once: nothing of ours but the interface."""
    problem = StandardForm.of(task.polyhedron)
    one = EXTERNAL[solver](problem, **settings)

    def solve(points: Array) -> Array:
        c = np.tile(problem.c, (len(points), 1))
        if task.b_eq is not None:
            c[:, problem.m :] = task.b_eq[: len(points)] / problem.norms[problem.m :]
        return np.stack([one(y, c[n], problem.lower, problem.upper)[0] for n, y in enumerate(points)])

    return solve


def proxqp(task: Task) -> Solve:
    import proxsuite

    problem = StandardForm.of(task.polyhedron)
    m, d = problem.m, problem.d
    G, A = problem.matrix.dense_array[:m], problem.matrix.dense_array[m:]
    qp = proxsuite.proxqp.dense.QP(d, len(A), m, problem.bounded)
    qp.settings.eps_abs = 1e-9
    box = (problem.lower, problem.upper) if problem.bounded else ()
    low = np.full(m, -1e30)
    qp.init(np.eye(d), np.zeros(d), A, problem.c[m:], G, low, problem.c[:m], *box)

    def solve(points: Array) -> Array:
        out = []
        for n, y in enumerate(points):
            b = problem.c[m:] if task.b_eq is None else task.b_eq[n] / problem.norms[m:]
            qp.update(g=-y, b=b)
            qp.solve()
            out.append(qp.results.x.copy())
        return np.stack(out)

    return solve


def qpth(task: Task) -> Solve:
    layer = qpth_layer(task)
    return lambda points: layer(torch.tensor(points)).numpy()


def qpth_layer(task: Task) -> Layer:
    from qpth.qp import QPFunction

    P, problem = task.polyhedron, StandardForm.of(task.polyhedron)
    rows = P.rows
    G, h = torch.tensor(rows.matrix.toarray()), torch.tensor(rows.rhs)
    A = torch.tensor(problem.matrix.dense_array[problem.m :])
    b = torch.tensor(problem.c[problem.m :])
    layer = QPFunction(verbose=-1, check_Q_spd=False)

    def solve(points: torch.Tensor) -> torch.Tensor:
        n = len(points)
        sides = b if task.b_eq is None else torch.tensor(task.b_eq[:n] / problem.norms[problem.m :])
        none = torch.empty(0, dtype=torch.float64)
        return layer(torch.eye(P.dim).double(), -points, G, h, A if len(A) else none, sides if len(A) else none)

    return solve


def cvxpylayer(task: Task) -> Solve:
    layer = cvxpy_layer(task)
    return lambda points: layer(torch.tensor(points)).numpy()


def cvxpy_layer(task: Task) -> Layer:
    import cvxpy as cp
    from cvxpylayers.torch import CvxpyLayer

    P = task.polyhedron
    x, y = cp.Variable(P.dim), cp.Parameter(P.dim)
    rules = []
    if len(P.rows):
        rules.append(P.rows.matrix @ x <= P.rows.rhs)
    if len(P.equality_rows):
        rules.append(P.equality_rows.matrix @ x == P.equality_rows.rhs)
    layer = CvxpyLayer(cp.Problem(cp.Minimize(cp.sum_squares(x - y)), rules), parameters=[y], variables=[x])
    return lambda points: layer(points)[0]


def pinet(task: Task, violation: float = 1e-6) -> Solve:
    """Pi-net tuned by hand: the fewest Douglas-Rachford steps, over a few step sizes, that reach this violation."""
    import jax

    jax.config.update("jax_enable_x64", True)
    from jax import numpy as jnp
    from pinet import (
        AffineInequalityConstraint,
        BoxConstraint,
        BoxConstraintSpecification,
        EqualityConstraint,
        ProjectionInstance,
    )
    from pinet.project import Project

    problem = StandardForm.of(task.polyhedron)
    m = problem.m
    parts: dict[str, Any] = {}
    c, lower, upper = (jnp.asarray(v)[None, :, None] for v in (problem.c, problem.lower, problem.upper))
    if m:
        G = jnp.asarray(problem.matrix.dense_array[:m])[None]
        parts["ineq_constraint"] = AffineInequalityConstraint(G, jnp.full((1, m, 1), -jnp.inf), c[:, :m])
    if m < len(problem.c):
        parts["eq_constraint"] = EqualityConstraint(jnp.asarray(problem.matrix.dense_array[m:])[None], c[:, m:])
    if problem.bounded:
        parts["box_constraint"] = BoxConstraint(BoxConstraintSpecification(lb=lower, ub=upper))
    layer = Project(**parts)

    def run(points: Array, sigma: float, steps: int) -> Array:
        made = layer.call(
            y_raw=ProjectionInstance(x=jnp.asarray(points)[..., None]), sigma=sigma, omega=1.7, n_iter=steps
        )
        return np.asarray(made[0].x[..., 0])

    for steps in (50, 200, 800, 3200):
        for sigma in (0.1, 1.0, 10.0):
            found = run(task.points[:64], sigma, steps)
            if task.polyhedron.violation(found.reshape(-1, *task.polyhedron.shape)).max() <= violation:
                return lambda points, s=sigma, k=steps: run(points, s, k)
    raise RuntimeError(f"no tried setting reached a violation of {violation:g}")


def sorted_threshold(x: Array) -> Array:
    """The projection onto the simplex, by sorting."""
    u = -np.sort(-x, axis=1)
    mean = (np.cumsum(u, axis=1) - 1) / np.arange(1, x.shape[1] + 1)
    last = (u > mean).sum(1) - 1
    return np.maximum(x - mean[np.arange(len(x)), last, None], 0)
