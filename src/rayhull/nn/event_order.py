"""Between block order, in which the products are contiguous, and the order of the event shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from rayhull.nn.constants import Constants, Factory
from rayhull.sets.rows import Array


class ToEventOrder(Constants):
    """Values in block order → the order of the event shape. Shape: (\\*, d) → (\\*, event shape).

    Args:
        order: the flat coordinate of each value in block order.

    Examples:
        >>> import numpy as np, torch
        >>> from rayhull.nn.constants import Factory
        >>> from rayhull.nn.event_order import ToEventOrder
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
