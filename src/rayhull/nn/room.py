"""The rows with room, seen from a block's base point: the gauge of a direction, from sparse or dense rows and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.nn.constants import Constants
from rayhull.nn.geometry import View
from rayhull.rows import Array

if TYPE_CHECKING:
    from rayhull.polyhedron import Polyhedron

GATHER_COST = 16  # one gathered entry costs about as much as this many entries of a dense product (batch 256, float32)


class Product(Constants):
    """v = A y for a constant A: short rows by gathering their entries, long rows by a dense product.

    Shape: y (\\*, n) → (\\*, m), first the short rows, then the long ones; ``order`` says which row each was.
    """

    entries: Tensor
    columns: Tensor
    dense: Tensor

    def __init__(self, matrix: sp.csr_array, **factory: Any) -> None:
        super().__init__()
        counts = np.diff(matrix.indptr)
        short = _short_rows(counts, matrix.shape[1])
        self.width = int(counts[short].max(initial=0))
        long = np.setdiff1d(np.arange(len(counts)), short)
        self.order = np.concatenate([short, long])
        self.has_short, self.has_long = len(short) > 0, len(long) > 0
        if self.has_short:
            columns, entries = _padded(sp.csr_array(matrix[short]), self.width)
            self.constant("entries", entries, **factory)
            self.register_buffer("columns", torch.as_tensor(columns.ravel(), device=factory.get("device")))
        if self.has_long:
            self.constant("dense", matrix[long].toarray(), **factory)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.has_short:
            gathered = y.index_select(-1, self.columns).unflatten(-1, (-1, self.width))  # (*, m, width)
            parts.append((gathered * self.entries).sum(-1))
        if self.has_long:
            parts.append(y @ self.dense.mT)
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _short_rows(counts: Array, n: int) -> Array:
    """The rows that are cheaper to gather: the split at a width with the least total cost."""
    by_length = np.argsort(counts, kind="stable")
    lengths = counts[by_length]
    number = np.arange(len(counts) + 1)
    widest = np.concatenate([[0], lengths])
    cost = GATHER_COST * number * widest + (len(counts) - number) * n
    return np.sort(by_length[: int(cost.argmin())])


def _padded(matrix: sp.csr_array, width: int) -> tuple[Array, Array]:
    columns = np.zeros((matrix.shape[0], width), np.int64)
    entries = np.zeros((matrix.shape[0], width))
    counts = np.diff(matrix.indptr)
    row = np.repeat(np.arange(matrix.shape[0]), counts)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    columns[row, place], entries[row, place] = matrix.indices, matrix.data
    return columns, entries


class Room(Constants):
    """gauge(y) = max(0, max_i a_i·y / h_i) over the rows with room h, bounds taken coordinate by coordinate.

    Shape: y (\\*, n) → (\\*)
    """

    upper: Tensor
    lower: Tensor

    def __init__(self, P: Polyhedron, view: View, **factory: Any) -> None:
        super().__init__()
        stated = int((np.diff(P.inequalities.matrix.indptr) > 0).sum())
        is_row = view.wide < stated
        rows, room = view.wide[is_row], view.room[is_row]
        self.product = None
        if len(rows):
            self.product = Product(sp.csr_array(sp.diags_array(1 / room) @ P.rows.matrix[rows]), **factory)
            self.rows = rows[self.product.order]  # numbers among P.rows, in the product's order
            self.room = room[self.product.order]
        else:
            self.rows, self.room = rows, room
        self.bounded = bool((~is_row).any())
        if self.bounded:
            upper, lower = _bound_inverses(P, view, ~is_row)
            self.symmetric = bool((upper == lower).all() and (upper == upper[0]).all())
            self.inverse = float(upper[0])
            self.constant("upper", upper, **factory)
            self.constant("lower", lower, **factory)

    def forward(self, y: Tensor, change: dict[str, Tensor] | None = None) -> Tensor:
        """The gauge; ``change`` holds h / h(sample) for "rows", "upper" and "lower" that depend on the sample."""
        change = change or {}
        parts = []
        if self.product is not None:
            values = self.product(y)
            parts.append((values * change["rows"] if "rows" in change else values).amax(-1))
        if self.bounded:
            parts.append(self._bound_gauge(y, change))
        gauge = parts[0] if len(parts) == 1 else torch.maximum(*parts)
        return gauge.clamp_min(0.0)

    def _bound_gauge(self, y: Tensor, change: dict[str, Tensor]) -> Tensor:
        if self.symmetric and not change:
            largest = y.abs().amax(-1)
            return largest if self.inverse == 1.0 else largest * self.inverse
        upper = self.upper * change["upper"] if "upper" in change else self.upper
        lower = self.lower * change["lower"] if "lower" in change else self.lower
        return torch.maximum(y * upper, -y * lower).amax(-1)


def _bound_inverses(P: Polyhedron, view: View, is_bound: Array) -> tuple[Array, Array]:
    """1 / h for each coordinate's upper and lower bound, 0 where there is none."""
    upper, lower = np.zeros(P.dim), np.zeros(P.dim)
    matrix = P.rows.matrix[view.wide[is_bound]]
    for values, sign in ((upper, 1.0), (lower, -1.0)):
        pick = matrix.data == sign
        values[matrix.indices[pick]] = 1 / view.room[is_bound][pick]
    return upper, lower
