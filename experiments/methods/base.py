"""A method: the last part of a network, and how its output gets into the set, if at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rayhull import Polyhedron

Fit = Callable[[Tensor, Tensor], Tensor]


class Squash(nn.Module):
    """2 sigmoid(u) - 1: pixels in [-1, 1], as the VAE's decoder has them."""

    def forward(self, u: Tensor) -> Tensor:
        return 2 * torch.sigmoid(u) - 1


class Method(nn.Module):
    """One way to state or to impose the constraints, as a module: features in, activations out.

    A subclass sets ``layer``, and overrides what it does differently: the loss, what leaves the network at test time,
    what changes at the beginning of an epoch.

    Args:
        in_features: size of the features.
        P: the set.
        settings: of the study.
        squash: whether the free output of the network passes a sigmoid (the VAE's decoder).

    Shape: features (\\*, in_features) → activations (\\*, event shape of P).
    """

    name: ClassVar[str]
    hard: ClassVar[bool] = True  # every output is inside, for every input
    needs_stem: ClassVar[bool] = False  # the paper's decoder: FC and sigmoid come before its constraint layer

    layer: nn.Module

    def __init__(self, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__()
        self.P = P

    def forward(self, features: Tensor) -> Tensor:
        """The activations that the loss sees."""
        return self.layer(features)

    def training_loss(self, x: Tensor, target: Tensor, fit: Fit) -> Tensor:
        """The loss of activations x; ``fit(x, target)`` is the study's own."""
        return fit(x, target)

    def deliver(self, x: Tensor) -> Tensor:
        """What leaves the network at test time, when that is not x itself."""
        return x

    def epoch_begins(self, epoch: int) -> None:
        """Called before each epoch, counted from 1."""


def free_layer(in_features: int, P: Polyhedron, squash: bool = False, batch_norm: bool = False) -> nn.Sequential:
    """The unconstrained end of a network: [BatchNorm], FC, [squash], in the event shape of P."""
    return nn.Sequential(
        *([nn.BatchNorm1d(in_features)] if batch_norm else []),
        nn.Linear(in_features, P.dim),
        *([Squash()] if squash else []),
        nn.Unflatten(-1, P.shape),
    )


def start_as_identity(linear: nn.Linear) -> None:
    """u = features at the first step. Shape: the layer must be square."""
    if linear.in_features != linear.out_features:
        raise ValueError(f"an identity start needs a square layer, got {linear.in_features} to {linear.out_features}.")
    with torch.no_grad():
        linear.weight.copy_(torch.eye(linear.in_features))
        linear.bias.zero_()
