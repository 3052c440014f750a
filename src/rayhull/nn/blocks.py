"""All kinds of blocks of a set together: their coefficients, the order of the event shape, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.nn.block import BlockMap
from rayhull.nn.constants import Constants, Factory, OfSet
from rayhull.sets.rows import Array


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

    def kinds(self) -> list[BlockMap]:
        return [part for part in self if isinstance(part, BlockMap)]

    def split(self, c: Tensor) -> list[tuple[BlockMap, Tensor]]:
        """Each kind with its own coefficients."""
        kinds = self.kinds()
        return list(zip(kinds, torch.split(c, [part.coefficients for part in kinds], -1), strict=True))

    def follow(self, names: Sequence[str]) -> bool:
        """Whether every block follows these sides of the sample from its own base point."""
        return not {"A", "A_eq", "base"} & set(names) and all(p.follows(name) for p in self.kinds() for name in names)

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold what a strict closing promises."""
        for part in self.kinds():
            part.closing.check(dtype)

    def close(self, strict: bool) -> None:
        """Take the strict closings, or the ordinary ones; a refusal leaves everything as it was."""
        closings = [part.closings(strict) for part in self.kinds()]
        for part, closing in zip(self.kinds(), closings, strict=True):
            part.closing = closing

    @property
    def identity_inside(self) -> bool:
        return all(part.direction.identity_inside for part in self.kinds())

    @property
    def are_points(self) -> bool:
        """Whether coefficients stand for points, not for directions from a base point."""
        return self.identity_inside and any(part.view is None for part in self.kinds())

    @property
    def are_nearest(self) -> bool:
        """Whether every block takes the nearest point."""
        return self.are_points and all(part.method in ("projection", "free") for part in self.kinds())

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
        return self.parts.kinds()

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
        return self.to_event_order(torch.cat(points, -1).to(c.dtype))

    def _need_identity(self) -> None:
        if not self.identity_inside:
            raise ValueError(f"only ways in that are the identity inside have an inverse: {self.describe()}")
