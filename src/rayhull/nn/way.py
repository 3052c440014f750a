"""What a way into a block is made of, and what the user chose."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.nonnegative import named as nonnegative_named
from rayhull.nn.approach import Step
from rayhull.nn.base_point import View
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Direction
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True)
class Options:
    """What the user chose, the same for every block but the base point."""

    method: str = "auto"
    nonnegative: str | NonNegative | None = None
    weights: str | Weights = "softmax"
    max_generators: int | None = 100_000
    approach: int | None = None
    scale: float = 1.0
    base: Array | None = None  # (n,), of the block
    factory: Factory = field(default_factory=Factory)

    def function(self, default: str) -> NonNegative:
        return nonnegative_named(default if self.nonnegative is None else self.nonnegative)


@dataclass(frozen=True, eq=False)
class Choice:
    """A block's way in: the direction's module, the base point with the rows that have slack, and why."""

    method: str
    reason: str
    direction: Direction
    view: View | None  # None: the direction is the point itself
    approach: tuple[Step, ...] = ()


Way = Callable[["Polyhedron", Options], Choice]


def level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("rayhull", "torch")):
        level, frame = level + 1, frame.f_back
    return level + 1
