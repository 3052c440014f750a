"""The ways to a point of the set that the learning benchmark compares: ours, and those of the peers.

Each is a head: how the last Linear starts, and a map from its outputs to points. Peers get PyTorch's own start.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor, nn

import rayhull as rh
from benchmarks import peers
from benchmarks.learning_problem import Problem
from benchmarks.peers import NotForThisSet
from rayhull.maps.leak import LEAK
from rayhull.sets.rows import Array

WIDTH = 64
Map = Callable[..., Tensor]
SMALL = 20  # rows and bounds up to which a peer that solves a quadratic program for each sample takes part
ENTRIES = 20_000  # of rows up to which steps take part: they multiply with all of them
PINET = ("polytope", "portfolio")  # where Pi-net runs: one with rows and bounds, one with an equality too


@dataclass(frozen=True, eq=False)
class Head:
    """``start(seed)`` gives weight (k, WIDTH) and bias (k,) of the last Linear; maps take (n, k) and sides.

    ``penalty(y, c, **sides)`` is added to the training loss, for points y (n, d) of coefficients c (n, k).
    """

    start: Callable[[int], tuple[Tensor, Tensor]]
    training: Map
    evaluation: Map
    penalty: Callable[..., Tensor] | None = None
    note: str = ""
    layer: rh.Constrained | None = None  # of ours: what folds for inference


def plain_start(k: int) -> Callable[[int], tuple[Tensor, Tensor]]:
    def start(seed: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed)
        linear = nn.Linear(WIDTH, k)
        return linear.weight.detach(), linear.bias.detach()

    return start


def ours(**options: object) -> Callable[[Problem], Head]:
    """rh.Constrained with these options."""

    def make(problem: Problem) -> Head:
        entries = len(problem.P.inequalities) * problem.P.dim
        if options.get("method") == "steps" and entries > ENTRIES:
            raise NotForThisSet(f"left out beyond {ENTRIES} entries of rows: a quarter of an hour for {entries}")
        try:
            varies = None if options.get("method") == "nearest" else problem.varies
            layer = rh.Constrained(WIDTH, problem.P, varies=varies, **options)  # type: ignore[arg-type]
            if problem.sides is not None:
                layer(torch.zeros(2, WIDTH), **problem.sides(problem.inputs["val"][:2]))
        except (rh.RayhullError, ValueError) as error:
            raise NotForThisSet(str(error)) from None

        def start(seed: int) -> tuple[Tensor, Tensor]:
            torch.manual_seed(seed)
            layer.reset_parameters()
            return layer.linear.weight.detach().clone(), layer.linear.bias.detach().clone()

        return Head(start, after_linear(layer), after_linear(layer.eval()), note=layer.describe(), layer=layer)

    return make


def by_extents(problem: Problem) -> Head:
    """auto with a unit for each coordinate, half of how far the set reaches along it, in place of one for all."""
    layer = rh.Constrained(WIDTH, problem.P, varies=problem.varies)
    if not (layer.map.keeps_inside and problem.P.is_bounded):
        raise NotForThisSet("coefficients are no coordinates, or the set has no extents")
    own = torch.as_tensor(half_extents(problem.P), dtype=torch.float32) / layer.map.units
    taken = ours()(problem)
    training, evaluation = (_times(into, own) for into in (taken.training, taken.evaluation))
    return replace(taken, training=training, evaluation=evaluation, layer=None)


def by_scale(problem: Problem) -> Head:
    """auto, told the size of the targets, as the guide advises."""
    targets = problem.data["train"]
    if targets.shape[1:] != problem.P.shape:
        raise NotForThisSet("its data are no points of the set")
    return ours(scale=targets)(problem)


def half_extents(P: rh.Polyhedron) -> Array:
    """Half the length of the set's shadow on each coordinate (d,), by two linear programs each."""
    rows = {"A_ub": P.inequalities.matrix, "b_ub": P.inequalities.rhs} if len(P.inequalities) else {}
    equal = {"A_eq": P.equalities.matrix, "b_eq": P.equalities.rhs} if len(P.equalities) else {}
    bounds = np.stack([P.lower_bounds, P.upper_bounds], 1)
    ends = [[linprog(sign * e, **rows, **equal, bounds=bounds).fun for sign in (1, -1)] for e in np.eye(P.dim)]
    return np.maximum(-np.sum(ends, 1) / 2, 1e-9)


def _times(into: Map, units: Tensor) -> Map:
    return lambda c, **sides: into(c * units, **sides)


def after_linear(layer: rh.Constrained) -> Map:
    """The layer as it stands, in training or in evaluation, from the coefficients that its Linear would give."""
    rest = copy.deepcopy(layer)
    rest.linear, rest.in_features = nn.Identity(), layer.map.coefficients  # type: ignore[assignment]
    return lambda c, **sides: rest(c, **sides).flatten(1)


def after_training(problem: Problem) -> Head:
    """Train free of the inequalities, project afterwards. Equalities, which a matrix meets, hold in training too."""
    nearest, rows = rh.Projection(problem.P), peers.Peer(problem.P)
    E, inverse, stated = rows.E.float(), torch.linalg.pinv(rows.E).float(), rows.e.float()

    def free(y: Tensor, b_eq: Tensor | None = None, **_: Tensor) -> Tensor:
        return y - (y @ E.mT - (stated if b_eq is None else b_eq)) @ inverse.mT

    def project(y: Tensor, **sides: Tensor) -> Tensor:
        return nearest(free(y, **sides).reshape(-1, *problem.P.shape), **sides).flatten(1)

    return Head(plain_start(problem.P.dim), free, project)


def through(make: peers.Make, weight: float = 0.0) -> Callable[[Problem], Head]:
    """A peer after a Linear; its training loss has ``weight`` times the squared violations."""

    def build(problem: Problem) -> Head:
        peer = make(problem.P).float()
        brought = set() if problem.sides is None else set(problem.sides(problem.inputs["val"][:1]))
        if brought - peer.takes:
            raise NotForThisSet(f"takes no {' and '.join(sorted(brought - peer.takes))} of the sample")

        def violations(y: Tensor, c: Tensor, **sides: Tensor) -> Tensor:
            return weight * peers.Peer.penalty(peer, y, sides)

        return Head(plain_start(peer.inputs), peer, peer, violations if weight else None)

    return build


def only(make: Callable[[Problem], Head], serves: Callable[[Problem], bool], why: str) -> Callable[[Problem], Head]:
    """The way where it serves; elsewhere the reason."""

    def build(problem: Problem) -> Head:
        if not serves(problem):
            raise NotForThisSet(why)
        return make(problem)

    return build


def hand_written(problem: Problem) -> Head:
    """A Linear and what a good user would write after it."""
    if problem.by_hand is None:
        raise NotForThisSet("nobody writes this by hand in a few lines")
    return Head(plain_start(problem.by_hand.inputs), problem.by_hand.into, problem.by_hand.into)


def hand_written_then_nearest(problem: Problem) -> Head:
    """The same, and then the nearest point: for what is easily written without some of the rules."""
    own, P = hand_written(problem), problem.P
    nearest = rh.Projection(P, leak=LEAK)
    exact = copy.deepcopy(nearest).eval()

    def after(into: nn.Module) -> Map:
        return lambda c, **sides: into(own.training(c).reshape(-1, *P.shape), **sides).flatten(1)

    return replace(own, training=after(nearest), evaluation=after(exact))


def is_small(problem: Problem) -> bool:
    return len(problem.P.rows) <= SMALL and problem.sides is None


LEFT_OUT = f"left out beyond {SMALL} rows and bounds, or with sides of the sample: twenty minutes for 46 of them"
METHODS: dict[str, Callable[[Problem], Head]] = {
    "auto": ours(),
    "auto, extents": by_extents,
    "auto, scale=targets": by_scale,
    "nearest": ours(method="nearest"),
    "nearest, no leak": ours(method="nearest", leak=0.0),
    "steps": ours(method="steps"),
    "shrink": ours(method="shrink"),
    "by hand": hand_written,
    "by hand, then nearest": only(
        hand_written_then_nearest, lambda problem: problem.partly_by_hand, "the map by hand keeps all rules already"
    ),
    "free, then project": after_training,
    "penalty": through(peers.Peer, 10.0),
    "RAYEN": through(peers.Rayen),
    "HardNet-Aff": through(lambda P: peers.HardNetAff(P).check()),
    "DC3": through(lambda P: peers.DC3(P, rate=1e-4), 10.0),
    "qpth": only(through(peers.Qpth), is_small, LEFT_OUT),
    "Moreau": through(peers.Moreau),
    "Pi-net": only(
        through(lambda P: peers.PiNet(P, sigma=1.0)), lambda p: p.name in PINET, f"run on {' and '.join(PINET)} only"
    ),
}
SOFT = ("penalty", "DC3", "Pi-net")  # may leave the set
