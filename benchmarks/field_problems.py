"""The problems that papers of this field report on, rebuilt from their public definitions.

DC3 (Donti, Rolnick, Kolter 2021), HardNet (Min, Azizan 2024) and Pi-net (2026) draw their data with a fixed seed, so
that the same draws give the published numbers: :func:`fingerprint` proves it. Every problem answers the same questions:
inputs of each split, what the network sees, the set of each sample, and the loss of an answer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.field_control import (
    COST_CAP,
    HARDNET,
    Course,
    barrier_rows,
    episode_cost,
    episode_violation,
    initial_states,
)
from benchmarks.field_dispatch import dispatch_problem

Policy = Callable[[Tensor], Tensor]  # inputs (n, k) → answers (n, d)


@dataclass(frozen=True)
class Recipe:
    """How networks are trained: Adam, one cycle of the learning rate unless ``rate`` gives a constant one."""

    epochs: int = 100
    batch: int = 200
    rate: float | None = None  # as published, where there are no data to choose it on
    wide_start: bool = False  # He's normal initialisation, as the authors of the problem have it
    soft_start: bool = False  # whether HardNet's authors train without their step at first
    compiled: bool = False  # train through torch.compile: an episode is many small steps
    soft_weight: float = 10.0  # of the squared violation, for methods that add it to the loss
    pull: float = 0.0  # of the squared distance that our layers move points by

    def shortened(self, factor: int) -> Recipe:
        return replace(self, epochs=max(1, self.epochs // factor))


@dataclass(frozen=True, eq=False)
class FieldProblem:
    """One benchmark.

    ``sides`` gives what depends on the sample (``b_eq``, ``A``, ...) in the words of ``rayhull.Constrained``;
    ``loss`` takes the whole network, because safe control is judged over an episode.
    """

    name: str
    P: rh.Polyhedron
    splits: dict[str, Tensor]
    sides: Callable[[Tensor], dict[str, Tensor]]
    loss: Callable[[Policy, Tensor], Tensor]
    features: Callable[[Tensor], Tensor]
    width: int  # how many features
    varies: dict[str, Any] = field(default_factory=dict)  # ranges of the sides, where they are known
    optimum: Callable[[Tensor], Tensor] | None = None  # the best loss of each sample, where it can be had
    recipe: Recipe = Recipe()
    worst: Callable[[Policy, Tensor], Tensor] | None = None  # the violation of a sample, where it takes an episode


def fingerprint(*arrays: np.ndarray[Any, Any]) -> str:
    """Twelve digits of a digest of the numbers, to six decimals."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.round(np.asarray(array, float), 6).tobytes())
    return digest.hexdigest()[:12]


# -- quadratic programs with a right-hand side of the sample -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Quadratic:
    """min ½ yᵀQy + pᵀ f(y) over C y = x, G y <= h; Q diagonal, f the identity or the sine. x is the input."""

    Q: np.ndarray[Any, Any]  # (d,) the diagonal
    p: np.ndarray[Any, Any]  # (d,)
    C: np.ndarray[Any, Any]  # (m_eq, d)
    G: np.ndarray[Any, Any]  # (m, d)
    h: np.ndarray[Any, Any]  # (m,)
    X: np.ndarray[Any, Any]  # (n, m_eq)


def dc3_data(equalities: int = 50, inequalities: int = 50) -> Quadratic:
    """DC3's draws: Q, p, equalities, inputs, inequalities, in this order."""
    random = np.random.RandomState(17)
    Q, p = random.random_sample(100), random.random_sample(100)
    C = random.normal(size=(equalities, 100))
    X = random.uniform(-1, 1, (10_000, equalities))
    G = random.normal(size=(inequalities, 100))
    return Quadratic(Q, p, C, G, np.abs(G @ np.linalg.pinv(C)).sum(1), X)


def hardnet_data(seed: int = 17) -> Quadratic:
    """HardNet's draws of the same kind, and SnareNet's: inequalities before equalities, inputs last."""
    random = np.random.RandomState(seed)
    Q, p = random.random_sample(100), random.random_sample(100)
    G, C = random.normal(size=(50, 100)), random.normal(size=(50, 100))
    X = random.uniform(-1, 1, (10_000, 50))
    return Quadratic(Q, p, C, G, np.abs(G @ np.linalg.pinv(C)).sum(1), X)


def quadratic_problem(
    name: str,
    data: Quadratic,
    *,
    convex: bool,
    pull: float = 0.0,
    box: float | None = None,
    reach: float = 1.0,
    splits: dict[str, Tensor] | None = None,
    recipe: Recipe | None = None,
) -> FieldProblem:
    """The problem as it is trained: the objective is the loss, there are no labels.

    DC3 tests on the last 833 inputs, Pi-net on the last 1024; those between them and the training set validate.
    ``box`` bounds every coordinate, ``reach`` every input.
    """
    bounds = {} if box is None else {"lower": -box, "upper": box}
    P = rh.Polyhedron(data.G, data.h, data.C, np.zeros(len(data.C)), **bounds)
    Q, p = torch.as_tensor(data.Q), torch.as_tensor(data.p)

    def objective(y: Tensor) -> Tensor:
        return (0.5 * Q * y * y + p * (y if convex else y.sin())).sum(-1)

    def optimum(x: Tensor) -> Tensor:
        return objective(_minimise(P, Q, p, x, convex))

    X = torch.as_tensor(data.X)
    return FieldProblem(
        name,
        P,
        splits or {"train": X[:8334], "valid": X[8334:8976], "test": X[9167:], "Pi-net's test": X[8976:]},
        sides=lambda x: {"b_eq": x},
        loss=lambda policy, x: objective(policy(x)),
        features=lambda x: x,
        width=X.shape[1],
        varies={"b_eq": (-reach, reach)},
        optimum=optimum,
        recipe=recipe or Recipe(soft_start=True, pull=pull),
    )


def _minimise(P: rh.Polyhedron, Q: Tensor, p: Tensor, x: Tensor, convex: bool) -> Tensor:
    """The minimiser for each right-hand side x; for the sine a local one, reached from the convex problem's.

    A separable quadratic over the set is a weighted nearest point. p sin(y) lies below its tangent plus p/2 of the
    squared step (p >= 0), so that each weighted nearest point of that bound lowers the objective.
    """
    near = rh.Projection(P, weights=Q.numpy())
    y = near((-p / Q).expand(len(x), -1), b_eq=x)
    if convex:
        return y
    step = rh.Projection(P, weights=(Q + p).numpy())
    for _ in range(200):
        y = step((p * (y - y.cos())) / (Q + p), b_eq=x)
    return y


# -- piecewise constraints: one row whose sign and offset follow the input ---------------------------------------------


def piecewise_problem() -> FieldProblem:
    """HardNet's "pwc": 50 labelled points, a bound from below or above on each of four pieces of the line."""
    X = torch.as_tensor(np.random.RandomState(17).uniform(-1.2, 1.2, (50, 1)))
    grid = torch.linspace(-2, 2, 401, dtype=torch.float64)[:, None]

    def sides(x: Tensor) -> dict[str, Tensor]:
        sign = torch.where((x <= -1) | ((x > 0) & (x <= 1)), -1.0, 1.0).to(x)
        offset = _pieces(
            x, -5 * (math.pi * (x + 1) / 2).sin() ** 2, 0 * x, (9 * (x - 2 / 3) ** 2 - 4) * x, 7.5 - 4.5 * x
        )
        return {"A": sign[:, None, :], "b": offset}

    def target(x: Tensor) -> Tensor:
        return _pieces(x, -5 * (math.pi * (x + 1) / 2).sin(), 0 * x, 4 - 9 * (x - 2 / 3) ** 2, 8 - 5 * x)

    return FieldProblem(
        "pwc",
        rh.Polyhedron([[1.0]], [0.0]),
        {"train": X, "test": grid},
        sides=sides,
        loss=lambda policy, x: (policy(x) - target(x)).square().sum(-1),
        features=lambda x: x,
        width=1,
        recipe=Recipe(epochs=1000, batch=500, rate=1e-4, wide_start=True),
    )


def _pieces(x: Tensor, first: Tensor, second: Tensor, third: Tensor, fourth: Tensor) -> Tensor:
    """One of four values: x <= -1, x <= 0, x <= 1, beyond."""
    return torch.where(x <= -1, first, torch.where(x <= 0, second, torch.where(x <= 1, third, fourth)))


# -- control: rows that follow the state, a plan of twenty steps -------------------------------------------------------


def control_problem(count: int = 1000, course: Course = HARDNET) -> FieldProblem:
    """HardNet's "cbf": a unicycle drives to the origin past obstacles; barrier rows A(s) u <= b(s) in R²."""
    X = initial_states(count, course)
    first, last = int(count * (1 - 2 * 0.0833)), int(count * (1 - 0.0833))
    rows = len(course.obstacles)
    return FieldProblem(
        "cbf",
        rh.Polyhedron(np.eye(3)[:rows, :2] - np.eye(3)[:rows, 2:], np.ones(rows)),
        {"train": X[:first], "valid": X[first:last], "test": X[last:]},
        sides=lambda s: barrier_rows(s, course),
        loss=lambda policy, x: episode_cost(policy, x, course, COST_CAP),
        features=lambda s: torch.cat([s[:, :2], s[:, 2:3].cos(), s[:, 2:3].sin(), s[:, 3:]], 1),
        width=6,
        # 833 are 7 batches of 119; two rows of the sample have a closed form that compiles, three have not
        recipe=Recipe(epochs=course.epochs, batch=119, soft_weight=0.01, compiled=rows == 2),
        worst=lambda policy, x: episode_violation(policy, x, course),
    )


def control_plan_problem(count: int = 10_000, horizon: int = 20) -> FieldProblem:
    """Pi-net's toy MPC: x_{k+1} = x_k + u_k in the plane, |x| <= 10, |u| <= 1, from a given x_0 towards (3, -12)."""
    states, inputs = 2 * (horizon + 1), 2 * horizon
    move = np.eye(horizon + 1) - np.eye(horizon + 1, k=-1)
    steer = np.eye(horizon + 1, k=-1)[:, :-1]
    A_eq = np.kron(np.concatenate([move, -steer], 1), np.eye(2))
    bound = np.concatenate([np.full(states, 10.0), np.full(inputs, 1.0)])
    P = rh.Polyhedron(A_eq=A_eq, b_eq=np.zeros(states), lower=-bound, upper=bound)
    aim = torch.as_tensor(np.concatenate([np.tile([3.0, -12.0], horizon + 1), np.zeros(inputs)]))
    X = torch.as_tensor(np.random.RandomState(42).uniform(-10, 10, (count, 2)))

    def sides(x: Tensor) -> dict[str, Tensor]:
        return {"b_eq": torch.cat([x, x.new_zeros(len(x), states - 2)], 1)}

    def cost(y: Tensor) -> Tensor:
        return (y - aim).square().sum(-1)

    low = np.concatenate([[-10.0, -10.0], np.zeros(states - 2)])
    return FieldProblem(
        "toy MPC",
        P,
        {
            "train": X[: int(0.8 * count)],
            "valid": X[int(0.8 * count) : int(0.9 * count)],
            "test": X[int(0.9 * count) :],
        },
        sides=sides,
        loss=lambda policy, x: cost(policy(x)),
        features=lambda x: x / 10,
        width=2,
        varies={"b_eq": (low, -low)},
        optimum=lambda x: cost(rh.project(P, aim.expand(len(x), -1), **sides(x))),
    )


def field_problems() -> dict[str, Callable[[], FieldProblem]]:
    """Every problem by name, made when asked for."""
    return {
        "DC3 convex": lambda: quadratic_problem("DC3 convex", dc3_data(), convex=True),
        "DC3 nonconvex": lambda: quadratic_problem("DC3 nonconvex", dc3_data(), convex=False, pull=0.1),
        "HardNet opt": lambda: quadratic_problem("HardNet opt", hardnet_data(), convex=False),
        "HardNet pwc": piecewise_problem,
        "HardNet cbf": control_problem,
        "toy MPC": control_plan_problem,
        "DC dispatch, case9": lambda: dispatch_problem("case9"),
        "DC dispatch, case30": lambda: dispatch_problem("case30"),
    }
