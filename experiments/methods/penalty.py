"""``penalty``: the loss plus a weight times the squared violation, which most people would try first."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.methods.base import Fit, Method, free_layer
from rayhull import Polyhedron


class Excess(nn.Module):
    """relu(A x - b) with rows of unit length, and the excess over the bounds; differentiable, float32.

    An equality is two inequalities.

    Shape: (n, event shape) → rows (n, m), bounds (n, d).
    """

    def __init__(self, P: Polyhedron) -> None:
        super().__init__()
        stated = [(P.inequalities, 1), (P.equalities, 1), (P.equalities, -1)]
        matrix = np.concatenate([sign * np.asarray(rows.matrix.todense(), np.float64) for rows, sign in stated])
        rhs = np.concatenate([sign * np.asarray(rows.rhs, np.float64) for rows, sign in stated])
        size = np.linalg.norm(matrix, axis=1)
        self.register_buffer("A", torch.as_tensor((matrix / size[:, None]).astype(np.float32)))
        self.register_buffer("b", torch.as_tensor((rhs / size).astype(np.float32)))
        self.register_buffer("lower", torch.as_tensor(P.lower_bounds.astype(np.float32)))
        self.register_buffer("upper", torch.as_tensor(P.upper_bounds.astype(np.float32)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(1)
        over = (flat @ self.A.mT - self.b).relu()
        return over, (flat - self.upper).relu() + (self.lower - flat).relu()


def mean_square(excess: Tensor) -> Tensor:
    """The mean square, 0 where there is nothing to average."""
    return excess.square().sum() / max(1, excess.numel())


class Penalty(Method):
    """loss + w (mean squared excess of the rows + mean squared excess of the bounds)."""

    name = "penalty"
    hard = False

    def __init__(self, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = free_layer(in_features, P, squash)
        self.excess = Excess(P)
        self.weight = settings.penalty_weight

    def training_loss(self, x: Tensor, target: Tensor, fit: Fit) -> Tensor:
        rows, bounds = self.excess(x)
        return fit(x, target) + self.weight * (mean_square(rows) + mean_square(bounds))
