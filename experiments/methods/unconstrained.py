"""``unconstrained``: the network with no constraint at all, for comparison."""

from __future__ import annotations

from typing import Any

from experiments.methods.base import Method, free_layer
from rayhull import Polyhedron


class Unconstrained(Method):
    """FC, and nothing else."""

    name = "unconstrained"
    hard = False

    def __init__(self, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = free_layer(in_features, P, squash)
