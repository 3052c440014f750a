"""Networks of all rates and seeds trained through one head, and judged: a row of the learning benchmark."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.learning_problem import Problem
from benchmarks.learning_ways import METHODS, WIDTH, Head
from benchmarks.peers import NotForThisSet, Peer

RATES, SEEDS, BATCH = (3e-3, 1e-2, 3e-2), (1, 2, 3, 4, 5, 6), 64
SEEDS_OF_A_SPLIT = SEEDS[:3]  # where a data set is split six times


@dataclass(frozen=True)
class Run:
    """One trained network: its rate, seed and losses, and how its test points lie in the set."""

    rate: float
    seed: int
    validation: float
    test: float
    violation: float
    outside: float  # share of the first 64 test points that are outside in rational arithmetic


class Stack:
    """The networks of all rates and seeds, their weights side by side: Linear, ReLU, Linear, ReLU, Linear."""

    def __init__(self, inputs: int, head: Head, rates: Sequence[float], seeds: Sequence[int]) -> None:
        self.each = [(rate, seed) for rate in rates for seed in seeds]
        made = [self._layers(inputs, head, seed) for _, seed in self.each]
        self.weights = [torch.stack([m[i][0].mT for m in made]).requires_grad_() for i in range(3)]
        self.biases = [torch.stack([m[i][1].unsqueeze(0) for m in made]).requires_grad_() for i in range(3)]

    @staticmethod
    def _layers(inputs: int, head: Head, seed: int) -> list[tuple[Tensor, Tensor]]:
        torch.manual_seed(seed)
        hidden = [nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, WIDTH)]
        return [*((layer.weight.detach(), layer.bias.detach()) for layer in hidden), head.start(seed)]

    def __call__(self, x: Tensor) -> Tensor:
        """Shape: (K, n, inputs) → (K, n, k)"""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = torch.relu(x) if i < 2 else x
        return x

    def optimizer(self) -> torch.optim.Optimizer:
        """Adam at rate 1: what a step moves a network by is then scaled by its own rate."""
        return torch.optim.Adam([*self.weights, *self.biases], lr=1.0)

    def step(self, optimizer: torch.optim.Optimizer, share: float) -> None:
        """One step of Adam, each network at its own rate: Adam's step is proportional to the rate."""
        values = [*self.weights, *self.biases]
        before = [v.detach().clone() for v in values]
        optimizer.step()
        rates = share * torch.tensor([rate for rate, _ in self.each])[:, None, None]
        with torch.no_grad():
            for value, old in zip(values, before, strict=True):
                value.copy_(torch.lerp(old, value, rates.expand_as(value)))


def train(problem: Problem, head: Head, steps: int, seeds: Sequence[int]) -> Stack:
    """The networks of all rates and seeds, trained."""
    stack = Stack(problem.inputs["train"].shape[1], head, RATES, seeds)
    optimizer, count = stack.optimizer(), len(problem.inputs["train"])
    draws = [torch.Generator().manual_seed(seed + 100) for _, seed in stack.each]
    for k in range(steps):
        pick = torch.stack([torch.randint(count, (BATCH,), generator=g) for g in draws])
        x, data = problem.inputs["train"][pick], problem.data["train"][pick]
        c = stack(x)
        y, sides = points(problem, head.training, c, x)
        loss = problem.loss(y, data).mean(-1).sum()
        if head.penalty is not None:
            added = head.penalty(y.flatten(0, 1), c.flatten(0, 1), **sides)
            loss = loss + added.reshape(y.shape[:2]).mean(-1).sum()
        optimizer.zero_grad()
        loss.backward()
        stack.step(optimizer, 0.5 * (1 + math.cos(math.pi * k / steps)))
    return stack


def points(problem: Problem, into: Callable[..., Tensor], c: Tensor, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Coefficients (K, n, k) of inputs (K, n, ...) → points (K, n, d), and the sides of the samples."""
    sides = {} if problem.sides is None else problem.sides(x.flatten(0, 1))
    return into(c.flatten(0, 1), **sides).reshape(*c.shape[:2], -1), sides


@torch.no_grad()
def judge(problem: Problem, head: Head, stack: Stack) -> list[Run]:
    """Validation and test loss of each network, and how its test points lie in the set."""
    losses: dict[str, Tensor] = {}
    for part in ("val", "test"):
        x = problem.inputs[part].expand(len(stack.each), -1, -1)
        y, sides = points(problem, head.evaluation, stack(x), x)
        losses[part] = problem.loss(y, problem.data[part]).mean(-1)
    runs = []
    for i, (rate, seed) in enumerate(stack.each):
        violation, outside = _outside(problem, y[i], {k: v.reshape(*y.shape[:2], -1)[i] for k, v in sides.items()})
        runs.append(Run(rate, seed, float(losses["val"][i]), float(losses["test"][i]), violation, outside))
    return runs


def _outside(problem: Problem, y: Tensor, sides: dict[str, Tensor]) -> tuple[float, float]:
    """Largest violation, and the share outside exactly: inequalities and bounds; equalities only in the violation."""
    P = problem.P
    if not bool(y.isfinite().all()):
        return math.inf, 1.0
    excess = Peer(P).excess(y.double(), {name: side.double() for name, side in sides.items()})
    alone = {name: side[:64] for name, side in sides.items() if name != "b_eq"}
    exact = _inequalities_alone(P).contains_exactly(y[:64].reshape(-1, *P.shape), **alone)
    return float(excess.max()), float(1 - np.asarray(exact, float).mean())


def _inequalities_alone(P: Any) -> Any:
    """Equalities cannot hold exactly in floats, so that only the inequalities are judged exactly."""
    if not len(P.equalities):
        return P
    import rayhull as rh

    rows = (P.A, P.b) if len(P.inequalities) else (None, None)
    return rh.Polyhedron(*rows, lower=P.lower, upper=P.upper, shape=P.shape)


def best(runs: Sequence[Run]) -> list[Run]:
    """The runs of the rate with the best median validation loss; a rate that diverged is not chosen."""
    rates = dict.fromkeys(run.rate for run in runs)
    finite = lambda v: v if math.isfinite(v) else math.inf  # noqa: E731
    return min(
        ([run for run in runs if run.rate == rate] for rate in rates),
        key=lambda group: statistics.median(finite(run.validation) for run in group),
    )


def measure(
    problem: Problem, method: str, steps: int, seeds: Sequence[int], known: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """One row of the table; ``known`` are runs of other seeds that were measured before."""
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head = METHODS[method](problem)
    except NotForThisSet as error:
        return {"left out": str(error)[:300]}
    except ImportError as error:
        return {"left out": f"not installed: {error}"}
    setup = time.process_time() - begun
    begun = time.process_time()
    stack = train(problem, head, steps, seeds)
    seconds = time.process_time() - begun
    runs = [*(Run(**run) for run in known), *judge(problem, head, stack)]
    chosen = best(runs)
    losses = [run.test for run in chosen]
    epoch = seconds / steps * len(problem.inputs["train"]) / BATCH / len(stack.each)
    return {
        "rate": chosen[0].rate,
        "loss": statistics.median(losses),
        "spread": max(losses) - min(losses),
        "violation": max(run.violation for run in chosen),
        "outside": max(run.outside for run in chosen),
        "seconds an epoch": epoch,
        "setup": setup,
        "steps": steps,
        "optimum": problem.optimum,
        "way": head.note,
        "runs": [vars(run) for run in runs],
    }
