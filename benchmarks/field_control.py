"""Safe control of HardNet and SnareNet: a unicycle drives to the origin past obstacles, under control barrier rows.

The state is (x, y, angle, speed, turn rate), the control (acceleration, turn acceleration). A network corrects a
nominal controller, in units of 10 of the control; each obstacle is one row A(s) u <= b(s) on the correction u.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

Policy = Callable[[Tensor], Tensor]  # states (n, 5) → corrections (n, 2)

LENGTH, KAPPA, ALPHA, CONTROL_LIMIT = 0.1, 10.0, 20.0, 100.0
UNIT = 10.0  # of the corrections: controls are about as large
COST_CAP = 20_000.0  # a training episode stops counting once it costs as much
STATE_COST = torch.tensor([100.0, 100.0, 0.0, 0.1, 0.1], dtype=torch.float64)
CONTROL_COST = 0.1


@dataclass(frozen=True)
class Course:
    """Where it starts, what is in the way, and how long it drives."""

    obstacles: tuple[tuple[float, float, float, float], ...]  # centre and radii of ellipses
    low: tuple[float, float]
    high: tuple[float, float]
    steps: int
    dt: float
    seed: int
    end: float = 0.0  # the cost of a squared distance that is left, in training
    epochs: int = 30


HARDNET = Course(((-2.25, 0.5, 0.5, 0.75), (-0.8, 0.0, 0.5, 0.5)), (-4.0, 0.0), (-3.5, 0.5), 50, 0.02, 17)


def snarenet(seed: int) -> Course:
    """SnareNet's: three obstacles, so three rows in the plane."""
    obstacles = ((-5.0, 5.0, 2.0, 1.41), (-1.0, 3.0, 0.25, 1.41), (-9.0, 2.0, 1.0, 1.0))
    return Course(obstacles, (-5.5, 7.5), (-5.0, 8.0), 55, 0.04, seed, end=1000.0, epochs=20)


def initial_states(count: int, course: Course = HARDNET) -> Tensor:
    """States near the start, those inside an obstacle drawn anew. Shape: (count, 5)."""
    random = np.random.RandomState(course.seed)
    low, high = (np.array([*at, -np.pi / k, 0.0, 0.0]) for at, k in ((course.low, 4), (course.high, 8)))

    def draw(n: int) -> np.ndarray[Any, Any]:
        share = random.rand(n, 5)
        return share * low + (1 - share) * high

    X, unsafe = draw(count), np.arange(count)
    while len(unsafe):
        heights, _ = barriers(torch.as_tensor(X[unsafe]), course)
        unsafe = unsafe[(heights < 0).any(1).numpy()]
        X[unsafe] = draw(len(unsafe))
    return torch.as_tensor(X)


def barriers(s: Tensor, course: Course = HARDNET) -> tuple[Tensor, Tensor]:
    """The higher-order barrier h(s) of each ellipse and its gradient. Shape: (n, 5) → (n, k), (n, k, 5)."""
    cx, cy, rx, ry = torch.tensor(course.obstacles, dtype=s.dtype).unbind(1)
    px, py, theta, v, w = s.unsqueeze(1).unbind(2)  # (n, 1) each
    cos, sin = theta.cos(), theta.sin()
    dx, dy = px + LENGTH * cos - cx, py + LENGTH * sin - cy
    dx_dot, dy_dot = v * cos - LENGTH * sin * w, v * sin + LENGTH * cos * w
    ex, ey = 2 / rx**2 * dx, 2 / ry**2 * dy
    to_front, to_side = ex * cos + ey * sin, LENGTH * (ey * cos - ex * sin)
    height = ex * dx_dot + ey * dy_dot + KAPPA * (dx * ex / 2 + dy * ey / 2 - 1)
    turn = LENGTH * (2 / ry**2 * cos * dy_dot - 2 / rx**2 * sin * dx_dot) + ey * dx_dot - ex * dy_dot + KAPPA * to_side
    forward = [2 / rx**2 * (dx_dot + KAPPA * dx), 2 / ry**2 * (dy_dot + KAPPA * dy)]
    return height, torch.stack([*forward, turn, to_front, to_side], 2)


def barrier_rows(s: Tensor, course: Course = HARDNET) -> dict[str, Tensor]:
    """∇h·(f + g (u0 + UNIT u)) >= -α h for each obstacle, as rows for the correction u of the nominal control u0."""
    heights, slope = barriers(s, course)
    motion = torch.cat([_drift(s)[:, :3], nominal_control(s)], 1)
    return {"A": -UNIT * slope[:, :, 3:], "b": (slope @ motion.unsqueeze(2)).squeeze(2) + ALPHA * heights}


def _drift(s: Tensor) -> Tensor:
    theta, v, w = s[:, 2], s[:, 3], s[:, 4]
    zero = torch.zeros_like(v)
    return torch.stack([v * theta.cos(), v * theta.sin(), w, zero, zero], 1)


def nominal_control(s: Tensor) -> Tensor:
    """A controller that drives straight to the origin."""
    px, py, theta, v, w = s.unbind(1)
    distance = (px**2 + py**2).sqrt()
    turn = 10 * (px * theta.sin() - py * theta.cos()) / (distance + 1e-5)
    speed = (10 * distance * (-px * theta.cos() - py * theta.sin())).clamp(-5, 5)
    return torch.stack([5 * (speed - v), 5 * (turn - w)], 1)


def episode_cost(policy: Policy, s: Tensor, course: Course = HARDNET, cap: float = math.inf) -> Tensor:
    """The cost of an episode of each sample; ``cap`` ends the counting, as in the published training."""
    total = torch.zeros(len(s), dtype=s.dtype)
    counting = torch.ones(len(s), dtype=torch.bool)
    for _ in range(course.steps):
        s, cost = _advance(policy, s, course.dt)
        total = torch.where(counting, total + cost, total)
        counting = total.detach() < cap
        if not counting.any():
            break
    return total if cap == math.inf else total + course.end * s[:, :2].square().sum(1)


def _advance(policy: Policy, s: Tensor, dt: float) -> tuple[Tensor, Tensor]:
    """One time step, cut into smaller ones where the control is large."""
    left, cost = torch.full((len(s),), dt, dtype=s.dtype), torch.zeros(len(s), dtype=s.dtype)
    while (left > 0).any():
        whole = nominal_control(s) + UNIT * policy(s)
        with torch.no_grad():
            step = torch.minimum((dt * CONTROL_LIMIT / whole.abs()).amin(1), left)
        rate = _drift(s) + torch.cat([torch.zeros_like(s[:, :3]), whole], 1)
        cost = cost + step * ((STATE_COST * s * s).sum(1) + CONTROL_COST * (whole * whole).sum(1))
        s, left = s + step[:, None] * rate, left - step
    return s, cost


def episode_violation(policy: Policy, s: Tensor, course: Course = HARDNET) -> Tensor:
    """The largest amount by which a barrier row was broken in an episode, for each sample."""
    worst = torch.zeros(len(s), dtype=s.dtype)

    def watched(state: Tensor) -> Tensor:
        u = policy(state)
        rows = barrier_rows(state, course)
        over = ((rows["A"] @ u[:, :, None])[:, :, 0] - rows["b"]).amax(1)
        worst.copy_(torch.maximum(worst, over.clamp_min(0)))
        return u

    with torch.no_grad():
        episode_cost(watched, s, course)
    return worst
