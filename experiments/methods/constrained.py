"""``constrained``: ours, ``rayhull.Constrained`` at its default: on the paper's set the nearest point of each tile.

Images as features pass a BatchNorm with a large eps and slow statistics: pixels that are lit in a few images of ten
thousand have variances near 0, which torch's eps of 1e-5 blows up a hundredfold, and statistics over the last ten
batches let the validation loss jump between epochs. Features of a hidden layer, as the VAE's, need no BatchNorm. The
first weights are small, so that the points of the first steps are inside and all have a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import rayhull as rh
from experiments.methods.base import Fit, Method

EPS, MOMENTUM = 0.1, 0.01


def calm(batch_norm: nn.BatchNorm1d) -> None:
    """BatchNorm for features that hardly ever vary: see the top of this file."""
    batch_norm.eps, batch_norm.momentum = EPS, MOMENTUM


class Constrained(Method):
    """BatchNorm, FC, the map into the set; in training u itself for the first ``free_epochs``.

    A share ``free_loss`` of the training loss judges u, which a digit then has to be seen in, not in x alone.
    Outputs are inside up to float32 rounding in training, and in rational arithmetic in evaluation, where the layer is
    strict. With ``start = identity`` there is no BatchNorm, and u is the
    image itself at the first step.
    """

    name = "constrained"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        identity = settings.start == "identity"
        normalised = in_features == P.dim and not identity  # the features are images; a hidden layer needs none
        self.layer = rh.Constrained(in_features, P, batch_norm=normalised, leak=settings.leak)
        self.layer.linear.reset_parameters()  # small, as nn.Linear starts: u begins inside the box, nothing is shrunk
        if normalised:
            calm(self.layer.batch_norm)
        if identity:
            self._start_with_features_as_u()
        self.free_epochs, self.free_loss = settings.free_epochs, settings.free_loss
        self.free = False
        self.u: Tensor | None = None  # of the last batch in training, where the loss judges it

    def train(self, mode: bool = True) -> Constrained:
        """Strict in evaluation."""
        self.layer.strict = not mode
        return super().train(mode)

    def forward(self, features: Tensor) -> Tensor:
        if self.training and self.free:
            return self.layer.unconstrained(features)
        self.u = self.layer.unconstrained(features) if self.training and self.free_loss else None
        return self.layer(features)

    def training_loss(self, x: Tensor, target: Tensor, fit: Fit) -> Tensor:
        """That of x, and a share of it for u."""
        loss = fit(x, target)
        if not self.training or self.u is None:
            return loss
        return torch.lerp(loss, fit(self.u, target), self.free_loss)

    def epoch_begins(self, epoch: int) -> None:
        self.free = epoch <= self.free_epochs

    @torch.no_grad()
    def _start_with_features_as_u(self) -> None:
        """W with W y = the coefficients of y, for features that are points of the space of P."""
        linear = self.layer.linear
        if linear.in_features != self.P.dim:
            raise ValueError(f"an identity start needs {self.P.dim} features, got {linear.in_features}.")
        points = torch.eye(self.P.dim).reshape(-1, *self.P.shape)
        origin = self.layer.map.coefficients_of(torch.zeros(self.P.shape))
        linear.weight.copy_((self.layer.map.coefficients_of(points) - origin).mT)
        linear.bias.copy_(origin)
