"""``projection``: training through the nearest point: BatchNorm, FC, ``rayhull.Projection``."""

from __future__ import annotations

from typing import Any

from torch import nn

import rayhull as rh
from experiments.methods.base import Method, free_layer, start_as_identity
from experiments.methods.constrained import calm


class Projection(Method):
    """The network's free output u, then the nearest point of the set, in training and at test time."""

    name = "projection"
    leak = 0.0

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        identity = settings.start == "identity"
        free = free_layer(in_features, P, squash, batch_norm=in_features == P.dim and not identity)
        for part in free:
            if isinstance(part, nn.BatchNorm1d):
                calm(part)
            elif isinstance(part, nn.Linear) and identity:
                start_as_identity(part)
        self.layer = nn.Sequential(free, rh.Projection(P, leak=self.leak))
