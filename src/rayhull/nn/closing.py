"""The last step of a block: the shrink, and what ``strict=True`` puts in its place. One interface for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rayhull.maps.shrink import factor, smooth_factor
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.gauge import Gauge
from rayhull.nn.sides import Sides

if TYPE_CHECKING:
    from rayhull.nn.base_point import View
    from rayhull.sets.polyhedron import Polyhedron


class How(NamedTuple):
    """The switches of a layer, and the dtype of what comes out."""

    dtype: torch.dtype
    shrinking: bool = True
    smooth: bool = False


class Closing(Constants):
    """From a direction y to a point x of the block: y' = clean(y), x = finish(x0 + scale(y') · y').

    This one does nothing, for directions that end in the set by themselves. Shape: y, x (\\*, count, n).
    """

    shrinks = False  # whether some row is met by shrinking
    moves_sides = True  # whether b, lower and upper of a sample can be followed

    def clean(self, y: Tensor) -> Tensor:
        """The direction as this closing wants it."""
        return y

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        """The largest factor (\\*, count) that keeps x0 + factor · y inside, None for 1."""
        return None

    def finish(self, x: Tensor, how: How) -> Tensor:
        """The point in the dtype that comes out."""
        return x.to(how.dtype)

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold the promise."""


class Shrink(Closing):
    """x = x0 + y / max(1, gauge(y))."""

    def __init__(self, P: Polyhedron, view: View, factory: Factory) -> None:
        super().__init__(factory)
        self.gauge = Gauge(P, view.loose, view.slack, factory)
        self.shrinks = len(view.loose) > 0

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        if not how.shrinking or not (self.shrinks or sides.given):
            return None
        gauge = self.gauge(y, self.gauge.slack_of(base, sides) if sides.given else None)
        return smooth_factor(gauge) if how.smooth else factor(gauge)


def ordinary(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The closing of a layer that is inside up to rounding; ``view`` None: the direction is the point itself."""
    return Closing(factory) if view is None else Shrink(P, view, factory)
