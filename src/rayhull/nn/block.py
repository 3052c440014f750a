"""One kind of block: coefficients → points, at all places where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.shrink import factor, smooth_factor
from rayhull.nn.choice import Choice
from rayhull.nn.constants import Constants
from rayhull.nn.directions import Free, Simplicial
from rayhull.nn.geometry import Blocks
from rayhull.nn.interval import StrictInterval
from rayhull.nn.room import Room
from rayhull.nn.sample import SampleRows
from rayhull.nn.strict import StrictPull, StrictReach, StrictShrink, strict_step

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class BlockMap(Constants):
    """x = x0 + shrink(direction(c)) for a kind of block, all places at once.

    Shape: coefficients (\\*, count, k) → points (\\*, count · n)
    """

    base: Tensor
    sign: Tensor

    def __init__(self, whole: Polyhedron, blocks: Blocks, choice: Choice, strict: bool, **factory: Any) -> None:
        super().__init__()
        self.count, self.size = blocks.index.shape
        self.method, self.reason = choice.method, choice.reason
        self.direction = choice.direction
        view, P = choice.view, blocks.polyhedron
        base = np.zeros(self.size) if view is None else view.base
        self.strict = (
            strict_step(P, choice.method, None if view is None else base, factory["device"]) if strict else None
        )
        self.room = None if view is None or not len(view.wide) else Room(P, view.wide, view.room, **factory)
        self.of_sample = SampleRows(whole, blocks, view, self.room, **factory)
        self.moved, self.mirrored = bool(base.any()), bool((blocks.sign < 0).any())
        self.constant("base", base, **factory)
        self.constant("sign", blocks.sign[:, None].astype(float), **factory)

    @property
    def coefficients(self) -> int:
        return self.count * self.direction.coefficients

    @property
    def identity_inside(self) -> bool:
        """Whether coefficients are coordinates seen from the base point, kept as they are inside the set."""
        if self.method == "projection":
            return True
        relu = not isinstance(self.direction, Simplicial) or self.direction.nonnegative is torch.relu
        return isinstance(self.direction, Free | Simplicial) and relu

    def scale_bound(self, y: Tensor, smooth: bool, dtype: torch.dtype, given: dict[str, Tensor]) -> Tensor | None:
        """The largest factor that keeps x0 + factor · y inside, None if nothing shrinks. Shape: (\\*, count)"""
        if isinstance(self.strict, StrictReach):
            return self.strict(y, dtype)
        if self.room is None:
            return None
        if isinstance(self.strict, StrictShrink):
            bound = self.strict(y, dtype)
            return torch.minimum(bound, smooth_factor(self.room(y))) if smooth else bound
        gauge = self.room(y, self.of_sample(self.base, given) if given else None)
        return smooth_factor(gauge) if smooth else factor(gauge)

    def place(self, y: Tensor, scale: Tensor | None, dtype: torch.dtype, shrinking: bool) -> Tensor:
        """The point ± (x0 + scale · y). Shape: y (\\*, count, n), scale (\\*, count) → (\\*, count · n)"""
        signed = self.mirrored
        if scale is not None:
            if signed and not self.moved and self.strict is None:  # one product for both
                scale, signed = scale * self.sign[:, 0], False
            y = y * scale.unsqueeze(-1)
        if self.moved:
            y = y + self.base
        if isinstance(self.strict, StrictPull):
            y = self.strict(y, dtype, shrinking)
        elif isinstance(self.strict, StrictInterval) and (shrinking or self.room is None):
            y = self.strict(y, dtype)
        y = y.to(dtype)
        return (y * self.sign.to(dtype) if signed else y).flatten(-2)
