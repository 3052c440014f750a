"""Sides of the sample in the coordinates of each block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rayhull.nn.constants import Constants, Factory
from rayhull.projection.sides import Sides

if TYPE_CHECKING:
    from rayhull.sets.blocks import BlockGroup
    from rayhull.sets.polyhedron import Polyhedron


class BlockSides(Constants):
    """The part of the sides that concerns one kind of block, in its coordinates: mirror images swap their bounds."""

    coordinates: Tensor
    mirrored: Tensor
    rows: Tensor
    equality_rows: Tensor
    stated_lower: Tensor
    stated_upper: Tensor

    def __init__(self, P: Polyhedron, blocks: BlockGroup, factory: Factory) -> None:
        super().__init__(factory)
        block = blocks.polyhedron
        stated, stated_eq = len(block.layout.inequalities), len(block.layout.equalities)
        self.index("coordinates", blocks.index)
        self.index("mirrored", (blocks.sign < 0)[:, None])
        self.has_mirrored = bool((blocks.sign < 0).any())
        self.constant("stated_lower", P.lower_bounds[blocks.index])
        self.constant("stated_upper", P.upper_bounds[blocks.index])
        self.index("rows", P.layout.inequalities[blocks.rows[:, :stated]])
        self.index("equality_rows", P.layout.equalities[blocks.equality_rows[:, :stated_eq]])

    def forward(self, sides: Sides) -> Sides:
        if not sides.given:
            return sides
        b = None if sides.b is None else sides.b[..., self.rows]
        b_eq = None if sides.b_eq is None else sides.b_eq[..., self.equality_rows]
        low, high = (None if s is None else s[..., self.coordinates] for s in (sides.lower, sides.upper))
        return Sides(b, b_eq, *self._swapped(low, high))

    def _swapped(self, low: Tensor | None, high: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """low <= x <= high is -high <= -x <= -low where the block is a mirror image."""
        if not self.has_mirrored or (low is None and high is None):
            return low, high
        low = self.stated_lower if low is None else low
        high = self.stated_upper if high is None else high
        return torch.where(self.mirrored, -high, low), torch.where(self.mirrored, -low, high)
