"""A problem of the learning benchmark: inputs, a set, a loss; and the losses that several problems share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import rayhull as rh
from benchmarks.by_hand import ByHand
from benchmarks.peers import Peer

Array = np.ndarray
Loss = Callable[[Tensor, Tensor], Tensor]
LEVELS = torch.arange(1, 10) / 10  # of the quantiles


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs X and what the loss needs of each sample, for training, validation and test.

    ``loss(y, data)`` takes points (\\*, d) and data (\\*, ...) and gives (\\*). ``optimum`` is the least test loss, for
    problems that report the gap to it. ``sides`` makes of an input what of the set depends on the sample, and
    ``varies`` says between which values.
    """

    P: rh.Polyhedron
    inputs: Mapping[str, Tensor]
    data: Mapping[str, Tensor]
    loss: Loss
    optimum: float | None = None
    sides: Callable[[Tensor], dict[str, Tensor]] | None = None
    varies: Mapping[str, tuple[float | Array, float | Array]] | None = None
    steps: int = 1000
    name: str = ""
    by_hand: ByHand | None = None  # what a good user would write
    partly_by_hand: bool = False  # whether that leaves some of the rules


def tensor(values: Array) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


def squared(y: Tensor, target: Tensor) -> Tensor:
    return (y - target).square().mean(-1)


def pinball(y: Tensor, target: Tensor) -> Tensor:
    error = target - y  # target (*, 1)
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean(-1)


def mean_variance(sigma: Array, aversion: float) -> Loss:
    S = tensor(sigma)
    return lambda y, mu: -(mu * y).sum(-1) + aversion / 2 * ((y @ S) * y).sum(-1)


def least(P: rh.Polyhedron, Q: Array, linear: Array, **sides: Array) -> Array:
    """min ½ yᵀQy + pᵀy over P for each p, by Clarabel: the points (n, d). Sides may be of the sample."""
    import clarabel
    import scipy.sparse as sp

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    stated, given = Peer(P), {name: torch.as_tensor(v) for name, v in sides.items()}
    rows = sp.csc_matrix(torch.cat([stated.E, stated.G]).numpy())
    cones = [clarabel.ZeroConeT(len(stated.E)), clarabel.NonnegativeConeT(len(stated.G))]
    found = []
    for i, p in enumerate(linear):
        own = {name: v[i] for name, v in given.items()}
        rhs = torch.cat([own.get("b_eq", stated.e), stated.rhs(own)]).numpy()
        solver = clarabel.DefaultSolver(sp.csc_matrix(np.triu(Q)), p, rows, rhs, cones, settings)
        found.append(np.array(solver.solve().x))
    return np.array(found)
