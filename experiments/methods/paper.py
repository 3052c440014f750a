"""``paper``: the paper's layer, exactly: BatchNorm, FC to one coefficient a ray, abs, rays, one global scaling."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import rayhull as rh
from experiments.methods.base import Method


class Paper(Method):
    """The box is off in training for the first ``box_delay`` epochs; at evaluation it always holds, as in their code.

    So the validation loss of every epoch is that of points inside the set, and the plateau schedule compares like with
    like.
    """

    name = "paper"
    needs_stem = True

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = rh.paper_layer(in_features, P)
        self.box_delay = settings.box_delay
        self.box_in_training = True

    def epoch_begins(self, epoch: int) -> None:
        self.box_in_training = epoch > self.box_delay

    def forward(self, features: Tensor) -> Tensor:
        self.layer.shrinking = self.box_in_training or not self.training
        return self.layer(features)
