"""How a method is trained and judged on a problem of the field: one network, recipe and choice of rates for all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ConstantLR, LRScheduler, OneCycleLR

import rayhull as rh
from benchmarks.field_problems import FieldProblem, Recipe
from benchmarks.peers import DC3, HardNetAff, Make, Peer, PiNet, ProjectedAfter

HIDDEN = 200
RATES = (3e-4, 1e-3, 3e-3)
RISE = 0.2  # the share of the steps in which the learning rate rises, before a cosine takes it to 0
SOFT_START = 0.1  # the share of the epochs that HardNet-Aff trains without its step, where its authors do


class Network(nn.Module):
    """Two hidden layers of 200 and a head that is told the set of each sample."""

    def __init__(self, problem: FieldProblem, head: nn.Module) -> None:
        super().__init__()
        self.problem, self.head = problem, head
        layers: list[nn.Module] = []
        for width in (problem.width, HIDDEN):
            layers += [nn.Linear(width, HIDDEN), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        if problem.recipe.wide_start:
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    nn.init.kaiming_normal_(module.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.problem.features(x)), **self.problem.sides(x))


class Head(nn.Module):
    """A Linear and a peer; ``open``: training is without the way into the set, as HardNet's authors begin."""

    open = False

    def __init__(self, features: int, peer: Peer) -> None:
        super().__init__()
        self.linear, self.peer = nn.Linear(features, peer.inputs), peer

    def forward(self, h: Tensor, **sides: Tensor) -> Tensor:
        u = self.linear(h)
        return u if self.training and self.open and self.peer.starts_open else self.peer(u, **sides)


class Ours(rh.Constrained):
    """A layer that remembers how far it moved the points of the last batch: free points are kept near the set.

    Where the free points of all samples lie beyond a row that the optimum does not touch, the row's own direction has
    no gradient, and the network stays there. The distance to the point that came out leads back.

    Attributes:
        pull: the weight of the squared distance in the loss; 0 for none.
        moved: the mean squared distance.
    """

    pull: float = 0.0
    moved: Tensor | float = 0.0

    def forward(self, features: Tensor, **sides: Tensor) -> Tensor:
        x = super().forward(features, **sides)
        if self.pull and self.training:
            self.moved = (self.unconstrained(features) - x.detach()).square().sum(-1).mean()
        return x


def ours(*, pulled: bool = True, **options: Any) -> Callable[[int, FieldProblem], nn.Module]:
    """A rayhull layer with the given options; ``pulled``: with the recipe's weight of the pull."""

    def build(features: int, problem: FieldProblem) -> nn.Module:
        varies = None if options.get("method") == "nearest" else problem.varies or None
        layer = Ours(features, problem.P, leak=0.0, varies=varies, **options)  # the pull is the remedy measured here
        layer.pull = problem.recipe.pull if pulled else 0.0
        return layer

    return build


def theirs(make: Make) -> Callable[[int, FieldProblem], nn.Module]:
    return lambda features, problem: Head(features, make(problem.P))


STRICTLY_NEAREST = "rayhull, nearest point, strict"
NO_PULL = "rayhull, no pull"  # another method only where the recipe has one
METHODS: dict[str, Callable[[int, FieldProblem], nn.Module]] = {
    "rayhull": ours(strict=True),
    NO_PULL: ours(strict=True, pulled=False),
    "rayhull, 10 steps": ours(strict=True, steps=10),
    "rayhull, nearest point": ours(method="nearest"),
    STRICTLY_NEAREST: ours(method="nearest", strict=True),
    "penalty": theirs(Peer),
    "projected after training": theirs(ProjectedAfter),
    "HardNet-Aff": theirs(HardNetAff),
    "DC3": theirs(DC3),
    "Pi-net": lambda features, p: Head(features, PiNet(p.P, *PINET_SETTINGS.get(p.name, ()))),
}
PINET_SETTINGS = {"toy MPC": (200, 1000, 0.01)}  # steps in training, in evaluation, sigma: as published


def train(problem: FieldProblem, method: str, seed: int, recipe: Recipe, rate: float) -> tuple[Network, float]:
    """The trained network and the processor seconds it took."""
    torch.manual_seed(seed)
    network, x = Network(problem, METHODS[method](HIDDEN, problem)).train(), problem.splits["train"]
    if recipe.compiled:
        network(x[:2])  # what a first call builds is no part of the graph
        network.compile()
    optimizer = torch.optim.Adam(network.parameters(), rate, fused=True)
    schedule = _schedule(optimizer, recipe, rate, recipe.epochs * -(-len(x) // recipe.batch))
    begin = time.process_time()
    for epoch in range(recipe.epochs):
        if isinstance(network.head, Head):
            network.head.open = problem.recipe.soft_start and epoch < SOFT_START * recipe.epochs
        for batch in torch.randperm(len(x)).split(recipe.batch):
            optimizer.zero_grad()
            training_loss(problem, network, x[batch]).backward()
            optimizer.step()
            schedule.step()
    network._compiled_call_impl = None  # judged as it is
    return network.eval(), time.process_time() - begin


def _schedule(optimizer: torch.optim.Optimizer, recipe: Recipe, rate: float, steps: int) -> LRScheduler:
    """A constant rate where one is published; else one that rises and falls."""
    if recipe.rate is not None:
        return ConstantLR(optimizer, factor=1.0)
    return OneCycleLR(optimizer, rate, total_steps=steps + 1, pct_start=RISE)


def training_loss(problem: FieldProblem, network: Network, x: Tensor) -> Tensor:
    """The loss, and for heads that are penalised the penalty of every answer on the way."""
    head, answers = network.head, []

    def policy(inputs: Tensor) -> Tensor:
        answers.append((inputs, network(inputs)))
        return answers[-1][1]

    loss = problem.loss(policy, x).mean()
    if isinstance(head, Ours) and head.pull and head.training:
        return loss + head.pull * head.moved
    if not isinstance(head, Head) or not head.peer.penalised:
        return loss
    broken = [head.peer.penalty(y, problem.sides(inputs)).mean() for inputs, y in answers]
    return loss + problem.recipe.soft_weight * torch.stack(broken).mean()


@torch.no_grad()
def measure(problem: FieldProblem, network: Network, split: str) -> dict[str, float]:
    """Loss, gap to the optimum, and what is violated, over one split."""
    x = problem.splits[split]
    loss = problem.loss(network, x)
    found = {"loss": float(loss.mean())}
    if problem.optimum is not None:
        best = problem.optimum(x)
        found["gap"] = float(((loss - best) / best.abs()).mean())
    if problem.worst is not None:
        worst = problem.worst(network, x)
        return found | {"inequality": float(worst.max()), "outside": float((worst > 0).double().mean())}
    return found | violations(problem, network, x)


def violations(problem: FieldProblem, network: Network, x: Tensor) -> dict[str, float]:
    """The largest violations, and the share of samples with an inequality broken at all, in float64, no tolerance."""
    sides, equalities = problem.sides(x), len(problem.P.equalities)
    excess = Peer(problem.P).excess(network(x), sides)
    m = sides["b"].shape[-1] if "b" in sides else len(problem.P.inequalities)
    equal = excess[:, m : m + equalities]
    unequal = torch.cat([excess[:, :m], excess[:, m + equalities :]], 1)
    return {
        "inequality": float(unequal.amax()),
        "equality": float(equal.amax()) if equalities else 0.0,
        "outside": float((unequal > 0).any(1).double().mean()),
    }


def best_rate(problem: FieldProblem, method: str) -> float:
    """The published rate; else the one with the least loss on the validation split after a tenth of the epochs."""
    if problem.recipe.rate is not None:
        return problem.recipe.rate
    short = problem.recipe.shortened(10)

    def tried(rate: float) -> float:
        network, _ = train(problem, method, 0, short, rate)
        loss = measure_soft(problem, network)
        return loss if loss == loss else float("inf")

    return min(RATES, key=tried)


@torch.no_grad()
def measure_soft(problem: FieldProblem, network: Network) -> float:
    """The training loss over the validation split: for methods that end outside, violations count."""
    return float(training_loss(problem, network, problem.splits["valid"]))
