"""Layers: modules whose outputs lie in a set. layers.py is what a user meets."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("adapting", "export", "hub", "layers"):  # loaded when named: they need torch, and the hub an extra
        return importlib.import_module(f"rayhull.nn.{name}")
    raise AttributeError(f"module 'rayhull.nn' has no attribute {name!r}")
