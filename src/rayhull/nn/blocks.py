"""Blocks: one kind at all places where it stands, then all kinds of a set together, in the order of the event shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.nn.base_point import View
from rayhull.nn.closing import Closing, How, ordinary
from rayhull.nn.constants import Constants, Factory, OfSet
from rayhull.nn.costs import estimate
from rayhull.nn.directions import Choice
from rayhull.nn.strict import strict_closing
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup


# -- one kind of block -----------------------------------------------------------------------------------------------


class BasePoint(Constants):
    """The point that directions start from, the same for every sample. Shape: (n,)"""

    point: Tensor

    def __init__(self, point: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.at_zero = not point.any()
        self.constant("point", point, persistent=True)

    def forward(self, sides: Sides) -> Tensor:
        return self.point


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
        self.columns = P.layout.inequalities[blocks.rows[:, :stated]]  # of b
        self.index("rows", self.columns)
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


class BlockMap(Constants):
    """x = finish(x0 + scale · approach(direction(c))) for a kind of block, all places at once.

    Shape: coefficients (\\*, count · k) → points (\\*, count · n)
    """

    sign: Tensor

    def __init__(self, whole: Polyhedron, blocks: BlockGroup, choice: Choice, factory: Factory) -> None:
        super().__init__(factory)
        self.polyhedron, self.view = blocks.polyhedron, choice.view
        self.mirrored = bool((blocks.sign < 0).any())
        self.fixed = _fixed_sides(self.polyhedron, self.view, self.mirrored)
        self.count, self.size = blocks.index.shape
        self.method, self.reason = choice.method, choice.reason
        self.direction = choice.direction
        self.approach = nn.ModuleList(choice.approach)
        self.base_point = BasePoint(np.zeros(self.size) if self.view is None else self.view.base, factory)
        self.closing: Closing = ordinary(self.polyhedron, self.view, factory)
        self.sides = BlockSides(whole, blocks, factory)
        self.constant("sign", blocks.sign[:, None].astype(float))

    @property
    def coefficients(self) -> int:
        return self.count * self.direction.coefficients

    def closings(self, strict: bool) -> Closing:
        """A closing of either kind, in the layer's dtype; strict refuses a set or dtype that it cannot serve."""
        if not strict:
            return ordinary(self.polyhedron, self.view, self.factory)
        closing = strict_closing(self.polyhedron, self.view, self.factory, self.direction.inside_exactly)
        closing.check(self.dtype)
        return closing

    def follows(self, name: str) -> bool:
        """Whether the side of this name may come with the sample."""
        if name in self.direction.follows:
            return True
        stepwise = all(name in step.follows for step in self.approach)  # type: ignore[operator]
        return name not in self.fixed and stepwise and self.closing.moves_sides

    def forward(self, c: Tensor, sides: Sides, how: How) -> Tensor:
        own = self.sides(sides) if sides.given else sides
        y = self.aim(c, own)
        return self.place(y, self.closing.scale(y, self.base_point(own), own, how), own, how)

    def aim(self, c: Tensor, sides: Sides) -> Tensor:
        """The direction from the base point, approached, not yet shrunk. Shape: (\\*, count · k) → (\\*, count, n)"""
        y = self.direction(c.reshape(*c.shape[:-1], self.count, self.direction.coefficients), sides)
        for step in self.approach:
            y = step(y, self.base_point(sides), sides)
        return y if self.direction.on_hull and not self.approach else self.closing.clean(y)

    def place(self, y: Tensor, scale: Tensor | None, sides: Sides, how: How) -> Tensor:
        """The point ± finish(x0 + scale · y). Shape: y (\\*, count, n), scale (\\*, count) → (\\*, count · n)"""
        x = y if scale is None else y * scale.unsqueeze(-1)
        if not self.base_point.at_zero:
            x = x + self.base_point(sides)
        x = self.closing.finish(x, how)
        return (x * self.sign.to(how.dtype) if self.mirrored else x).flatten(-2)

    def coordinates_of(self, c: Tensor) -> Tensor:
        """The direction that c stands for with nothing imposed, in the set's own coordinates. Shape: as ``point_of``"""
        own = c.reshape(*c.shape[:-1], self.count, self.size)
        return ((self.direction.free(own) if self.direction.identity_inside else own) * self.sign).flatten(-2)

    def point_of(self, c: Tensor) -> Tensor:
        """The point that c stands for with nothing imposed. Shape: (\\*, count · n) → (\\*, count · n)"""
        y = self.direction.free(c.reshape(*c.shape[:-1], self.count, self.size))
        x = y if self.base_point.at_zero else y + self.base_point.point
        return (x * self.sign if self.mirrored else x).flatten(-2)

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``point_of``."""
        y = x.reshape(*x.shape[:-1], self.count, self.size) * self.sign - self.base_point.point
        return self.direction.coefficients_of(y).flatten(-2)

    def describe(self) -> str:
        many = f"{self.count} blocks of {self.size}" if self.count > 1 else f"one block of {self.size}"
        return f"{many}: {self.method} ({self.reason}), about {estimate(self):.2g} µs a sample"


def _fixed_sides(P: Polyhedron, view: View | None, mirrored: bool) -> frozenset[str]:
    """The sides that the direction meets as they were stated: those of rows without slack at the base point."""
    if view is None:
        return frozenset({"b", "b_eq", "lower", "upper"})
    fixed = {"b_eq"} | ({"b"} if P.layout.is_stated(view.cone).any() else set())
    places = {"upper": P.layout.upper_rows, "lower": P.layout.lower_rows}
    bounds = {name for name, rows in places.items() if np.isin(view.cone, np.r_[rows]).any()}
    return frozenset(fixed | ({"upper", "lower"} if bounds and mirrored else bounds))


# -- all kinds together ----------------------------------------------------------------------------------------------


class ToEventOrder(Constants):
    """Values in block order → the order of the event shape. Shape: (\\*, d) → (\\*, event shape).

    Args:
        order: the flat coordinate of each value in block order.

    Examples:
        >>> import numpy as np, torch
        >>> from rayhull.nn.constants import Factory
        >>> from rayhull.nn.blocks import ToEventOrder
        >>> ToEventOrder(np.array([2, 0, 1]), (3,), Factory())(torch.tensor([20, 0, 10]))
        tensor([ 0, 10, 20])
    """

    order: Tensor
    inverse: Tensor

    def __init__(self, order: Array, shape: Sequence[int], factory: Factory) -> None:
        super().__init__(factory)
        self.shape = tuple(shape)
        self.in_order = bool((order == np.arange(len(order))).all())
        self.exact_order = order
        self.index("order", order)
        self.index("inverse", np.argsort(order))

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.in_order else x.index_select(-1, self.inverse)
        return x if len(self.shape) == 1 else x.reshape(*x.shape[:-1], *self.shape)

    def inverse_of(self, x: Tensor) -> Tensor:
        """Back to block order. Shape: (\\*, event shape) → (\\*, d)"""
        flat = x.flatten(x.ndim - len(self.shape))
        return flat if self.in_order else flat.index_select(-1, self.order)


class Blocks(nn.ModuleList):
    """All kinds of blocks of a set, in the order of their coefficients."""

    strict = False  # which closings they have

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[BlockMap]: ...

    @property
    def coefficients(self) -> int:
        return sum(part.coefficients for part in self)

    def split(self, c: Tensor) -> list[tuple[BlockMap, Tensor]]:
        """Each kind with its own coefficients."""
        if len(self) == 1:
            return [(next(iter(self)), c)]
        return list(zip(self, torch.split(c, [part.coefficients for part in self], -1), strict=True))

    def follow(self, names: Sequence[str]) -> bool:
        """Whether every block follows these sides of the sample from its own base point."""
        return not {"A", "A_eq", "base"} & set(names) and all(p.follows(name) for p in self for name in names)

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold what a strict closing promises."""
        for part in self:
            part.closing.check(dtype)

    def close(self, strict: bool) -> None:
        """Take the strict closings, or the ordinary ones; a refusal leaves everything as it was."""
        closings = [part.closings(strict) for part in self]
        for part, closing in zip(self, closings, strict=True):
            part.closing = closing
        self.strict = strict

    @property
    def identity_inside(self) -> bool:
        return all(part.direction.identity_inside for part in self)

    @property
    def are_points(self) -> bool:
        """Whether coefficients stand for points, not for directions from a base point."""
        return self.identity_inside and any(part.view is None for part in self)

    @property
    def are_nearest(self) -> bool:
        """Whether every block takes the nearest point."""
        return self.are_points and all(part.method in ("projection", "free") for part in self)

    def free(self, c: Tensor) -> Tensor:
        """What c stands for with nothing imposed, points or directions, in block order. Shape: (\\*, d)"""
        points = self.are_points
        return torch.cat([part.point_of(v) if points else part.coordinates_of(v) for part, v in self.split(c)], -1)


class Blockwise(Constants, OfSet):
    """A map whose blocks each have coefficients of their own, and its inverse where it is the identity inside."""

    parts: Blocks
    to_event_order: ToEventOrder

    def describe(self) -> str:
        """Which way in each kind of block takes and why, and what holds."""
        raise NotImplementedError

    def blocks(self) -> list[BlockMap]:
        """The kinds of blocks, in the order of their coefficients."""
        return list(self.parts)

    @property
    def identity_inside(self) -> bool:
        """Whether coefficients are coordinates seen from the base point, kept as they are inside the set."""
        return self.parts.identity_inside

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way in that is the identity there.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        self._need_identity()
        parts = self.parts.split(self.to_event_order.inverse_of(x))
        return torch.cat([part.coefficients_of(own) for part, own in parts], -1).to(x.dtype)

    def point_of(self, c: Tensor) -> Tensor:
        """The point whose coefficients are c, with nothing imposed: inside the set it is what comes out.

        Undoes ``coefficients_of``. Shape: (\\*, coefficients) → (\\*, event shape)

        Examples:
            >>> import torch, rayhull as rh
            >>> into = rh.MapInto(rh.monotone(2), method="projection")
            >>> c = into.coefficients_of(torch.tensor([3.0, 1.0]))
            >>> into.point_of(c).round(decimals=4), into(c).round(decimals=4)
            (tensor([3., 1.]), tensor([2., 2.]))
        """
        self._need_identity()
        points = [part.point_of(own) for part, own in self.parts.split(c)]
        return self.to_event_order((points[0] if len(points) == 1 else torch.cat(points, -1)).to(c.dtype))

    def _need_identity(self) -> None:
        if not self.identity_inside:
            raise ValueError(f"only ways in that are the identity inside have an inverse: {self.describe()}")
