"""Between block order, in which the products are contiguous, and the order of the event shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.nn.constants import fresh
from rayhull.sets.rows import Array


def as_grid(order: Array) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Sizes and strides with order.reshape(sizes)[i, j, ...] = i s + j t + ..., or None if there are none.

    Tiles, and lines along an axis, are such grids: they change order with one strided copy, where a general
    permutation needs an indexed read (and in the backward pass an indexed sum, several times slower).

    Examples:
        >>> import numpy as np
        >>> from rayhull.nn.event_order import as_grid
        >>> as_grid(np.arange(6).reshape(2, 3).T.ravel())        # the columns of a 2 x 3 array, one after another
        ((3, 2), (1, 3))
    """
    sizes: list[int] = []
    strides: list[int] = []
    rest = np.asarray(order)
    while len(rest) > 1:
        stride = int(rest[1] - rest[0])
        breaks = np.flatnonzero(np.diff(rest) != stride)
        size = len(rest) if not len(breaks) else int(breaks[0]) + 1
        if len(rest) % size:
            return None
        if not (rest.reshape(-1, size) - rest[::size, None] == np.arange(size) * stride).all() or size == 1:
            return None
        sizes.insert(0, size)
        strides.insert(0, stride)
        rest = rest[::size]
    return (tuple(sizes), tuple(strides)) if not len(rest) or rest[0] == 0 else None


class ToEventOrder(nn.Module):
    """Values in block order → the order of the event shape. Shape: (\\*, d) → (\\*, event shape)."""

    inverse: Tensor

    def __init__(self, order: Array, shape: Sequence[int], device: torch.device | str | None = None) -> None:
        super().__init__()
        self.shape = tuple(shape)
        grid = as_grid(order)
        self.is_identity = bool((order == np.arange(len(order))).all())
        self.sizes: tuple[int, ...] = () if grid is None else grid[0]
        self.axes: tuple[int, ...] = () if grid is None else tuple(int(i) for i in np.argsort(-np.array(grid[1])))
        self.by_index = grid is None and not self.is_identity
        if self.by_index:
            inverse = np.empty_like(order)
            inverse[order] = np.arange(len(order))
            self.register_buffer("inverse", fresh(inverse, device), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_identity and len(self.shape) == 1:
            return x
        batch = x.shape[:-1]
        if self.by_index:
            x = x.index_select(-1, self.inverse)
        elif not self.is_identity:
            x = x.reshape(*batch, *self.sizes)
            x = x.permute(*range(len(batch)), *(len(batch) + i for i in self.axes))
        return x.reshape(*batch, *self.shape)

    def inverse_of(self, x: Tensor) -> Tensor:
        """Back to block order. Shape: (\\*, event shape) → (\\*, d)"""
        flat = x.flatten(x.ndim - len(self.shape))
        if self.by_index:
            return flat.index_select(-1, self.inverse.argsort())
        if self.is_identity:
            return flat
        batch = flat.shape[:-1]
        flat = flat.reshape(*batch, *(self.sizes[i] for i in self.axes))
        back = np.argsort(self.axes)
        return flat.permute(*range(len(batch)), *(len(batch) + int(i) for i in back)).flatten(len(batch))
