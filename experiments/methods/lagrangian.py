"""``lagrangian``: the constraints as a Lagrangian term, after Márquez-Neila, Salzmann and Fua (2017).

One multiplier for each row and bound, shared by all samples: the network descends on
loss + sum_i λ_i E[relu(g_i(x))], the multipliers ascend on the same. They can only grow while anything is violated, and
the violation that is left when training ends is reported as it is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from experiments.methods.base import Fit, Method, free_layer
from experiments.methods.penalty import Excess
from rayhull import Polyhedron


class Lagrangian(Method):
    """loss + λ·excess, with λ raised by ``penalty_weight`` x learning rate x the mean excess at each step."""

    name = "lagrangian"
    hard = False

    def __init__(self, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = free_layer(in_features, P, squash)
        self.excess = Excess(P)
        self.rate = settings.penalty_weight * settings.learning_rate
        self.register_buffer("row_multipliers", torch.zeros(len(self.excess.b)))
        self.register_buffer("bound_multipliers", torch.zeros(P.dim))

    def training_loss(self, x: Tensor, target: Tensor, fit: Fit) -> Tensor:
        rows, bounds = (part.mean(0) for part in self.excess(x))
        loss = fit(x, target) + self.row_multipliers @ rows + self.bound_multipliers @ bounds
        if self.training:
            # In a new tensor: the old multipliers are still needed by this step's backward pass.
            self.row_multipliers = self.row_multipliers + self.rate * rows.detach()
            self.bound_multipliers = self.bound_multipliers + self.rate * bounds.detach()
        return loss
