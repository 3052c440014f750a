"""The rows with room, seen from a block's base point: the gauge of a direction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.nn.constants import Constants
from rayhull.nn.product import Product
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Room(Constants):
    """max_i a_i·y / h_i over rows with room h, bounds taken coordinate by coordinate: the gauge, negative well inside.

    With ``offset`` it is max_i (a_i·y - b_i) / h_i, by how much y exceeds a row, in units of the room.

    Args:
        numbers: which of ``P.rows``.
        room: h for each of them.

    Shape: y (\\*, n) → (\\*)
    """

    upper: Tensor
    lower: Tensor
    row_offset: Tensor
    upper_offset: Tensor
    lower_offset: Tensor

    def __init__(self, P: Polyhedron, numbers: Array, room: Array, *, offset: bool = False, **factory: Any) -> None:
        super().__init__()
        is_row = numbers < int((np.diff(P.inequalities.matrix.indptr) > 0).sum())
        self.offset, self.bounded = offset, bool((~is_row).any())
        self.rows, self.room, self.product = numbers[is_row], room[is_row], None
        if len(self.rows):
            self.product = Product(sp.csr_array(sp.diags_array(1 / self.room) @ P.rows.matrix[self.rows]), **factory)
            self.rows = self.rows[self.product.order]  # in the product's order
            self.room = self.room[self.product.order]
            self.constant("row_offset", P.rows.rhs[self.rows] / self.room, **factory)
        if self.bounded:
            self._take_bounds(P, numbers[~is_row], room[~is_row], factory)

    def _take_bounds(self, P: Polyhedron, numbers: Array, room: Array, factory: dict[str, Any]) -> None:
        matrix = P.rows.matrix[numbers]
        inverses = np.zeros((2, P.dim))  # 1 / h for each coordinate's upper and lower bound, 0 where there is none
        offsets = np.full((2, P.dim), np.inf)  # b / h, with the sign of the row ±x <= b
        for k, sign in enumerate((1.0, -1.0)):
            pick = matrix.data == sign
            inverses[k, matrix.indices[pick]] = 1 / room[pick]
            offsets[k, matrix.indices[pick]] = P.rows.rhs[numbers][pick] / room[pick]
        self.inverse = float(inverses[0, 0])
        self.symmetric = bool((inverses == self.inverse).all()) and not self.offset
        for k, name in enumerate(("upper", "lower")):
            self.constant(name, inverses[k], **factory)
            self.constant(f"{name}_offset", offsets[k], **factory)

    def forward(self, y: Tensor, change: dict[str, Tensor] | None = None) -> Tensor:
        """The gauge; ``change`` holds h / h(sample) for "rows", "upper" and "lower" that depend on the sample."""
        change = change or {}
        parts = []
        if self.product is not None:
            values = self.product(y)
            values = values * change["rows"] if "rows" in change else values
            parts.append((values - self.row_offset if self.offset else values).amax(-1))
        if self.bounded:
            parts.append(self._bound_gauge(y, change))
        return parts[0] if len(parts) == 1 else torch.maximum(*parts)

    def _bound_gauge(self, y: Tensor, change: dict[str, Tensor]) -> Tensor:
        if self.symmetric and not change:
            largest = y.abs().amax(-1)
            return largest if self.inverse == 1.0 else largest * self.inverse
        above = y * (self.upper * change["upper"] if "upper" in change else self.upper)
        below = -y * (self.lower * change["lower"] if "lower" in change else self.lower)
        if self.offset:
            above, below = above - self.upper_offset, below - self.lower_offset
        return torch.maximum(above, below).amax(-1)
