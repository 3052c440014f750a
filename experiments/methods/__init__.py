"""The methods by name; one file each."""

from __future__ import annotations

import importlib
from typing import Any

from experiments.errors import choose
from experiments.methods.base import Method
from rayhull import Polyhedron

_CLASSES = {
    "alternating": "Alternating",
    "constrained": "Constrained",
    "lagrangian": "Lagrangian",
    "leak": "Leak",
    "optimum": "Optimum",
    "optnet": "Optnet",
    "paper": "Paper",
    "penalty": "Penalty",
    "projection": "Projection",
    "ttp": "Ttp",
    "unconstrained": "Unconstrained",
}
METHODS = tuple(sorted(_CLASSES))


def method_class(name: str) -> type[Method]:
    """The class of the method ``name``; a refusal lists the choices."""
    choose("method", name, METHODS)
    return getattr(importlib.import_module(f"experiments.methods.{name}"), _CLASSES[name])


def build(name: str, in_features: int, P: Polyhedron, settings: Any, squash: bool = False) -> Method:
    """The method ``name`` at the end of a network with ``in_features`` features."""
    return method_class(name)(in_features, P, settings, squash)
