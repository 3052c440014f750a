"""The gauge of a direction: the share of the slack at the base point that it uses up, the largest over the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.nn.constants import Constants, Factory
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

GATHER_COST = 16  # one gathered entry costs about as much as this many entries of a dense product (batch 256, float32)


class Product(Constants):
    """v = A y for a constant A: short rows by gathering their entries, long rows by a dense product.

    Shape: y (\\*, n) → (\\*, m), first the short rows, then the long ones; ``order`` says which row each was.
    """

    def __init__(self, matrix: sp.csr_array, factory: Factory, *, wide: bool = False) -> None:
        super().__init__(factory)
        counts = np.diff(matrix.indptr)
        short = _short_rows(counts, matrix.shape[1])
        width = int(counts[short].max(initial=1))
        long = np.setdiff1d(np.arange(len(counts)), short)
        self.order = np.concatenate([short, long])
        self.has_short, self.has_long = len(short) > 0, len(long) > 0
        if self.has_short:
            columns, entries = _padded(sp.csr_array(matrix[short]), width)
            self.constant("entries", entries, wide=wide)
            self.index("columns", columns.ravel())
        if self.has_long:
            self.constant("dense", matrix[long].toarray(), wide=wide)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.has_short:
            gathered = y.index_select(-1, self.columns).reshape(*y.shape[:-1], *self.entries.shape)  # (*, m, width)
            parts.append((gathered * self.entries).sum(-1))
        if self.has_long:
            parts.append(y @ self.dense.mT)
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def _short_rows(counts: Array, n: int) -> Array:
    """The rows that are cheaper to gather: the split at a width with the least total cost."""
    by_length = np.argsort(counts, kind="stable")
    number = np.arange(len(counts) + 1)
    widest = np.concatenate([[0], counts[by_length]])
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


class Gauge(Constants):
    """max_i a_i·y / h_i over rows with slack h, bounds taken coordinate by coordinate; negative well inside.

    With ``offset`` it is max_i (a_i·y - b_i) / h_i, by how much y exceeds a row, in units of the slack.

    Args:
        numbers: which of ``P.rows``.
        slack: h for each of them.
        wide: whether it stays in float64 under every cast.

    Shape: y (\\*, n) → (\\*)
    """

    def __init__(
        self, P: Polyhedron, numbers: Array, slack: Array, factory: Factory, *, offset: bool = False, wide: bool = False
    ) -> None:
        super().__init__(factory)
        is_row = P.layout.is_stated(numbers)
        self.offset, self.wide, self.bounded = offset, wide, bool((~is_row).any())
        self.product: Product | None = None
        if is_row.any():
            self._take_rows(P, numbers[is_row], slack[is_row])
        if self.bounded:
            self._take_bounds(P, numbers[~is_row], slack[~is_row])

    def _take_rows(self, P: Polyhedron, numbers: Array, slack: Array) -> None:
        self.product = Product(_divided(P.rows.matrix[numbers], slack), self.factory, wide=self.wide)
        order = self.product.order
        self.index("stated", numbers[order])  # positions among the block's stated rows
        self.constant("inverse_slack", 1 / slack[order], wide=self.wide)
        self.constant("row_offset", P.rows.rhs[numbers[order]] / slack[order], wide=self.wide)

    def _take_bounds(self, P: Polyhedron, numbers: Array, slack: Array) -> None:
        matrix = P.rows.matrix[numbers]
        inverses = np.zeros((2, P.dim))  # 1 / h for each coordinate's upper and lower bound, 0 where there is none
        offsets = np.full((2, P.dim), np.inf)  # b / h, with the sign of the row ±x <= b
        for k, sign in enumerate((1.0, -1.0)):
            pick = matrix.data == sign
            inverses[k, matrix.indices[pick]] = 1 / slack[pick]
            offsets[k, matrix.indices[pick]] = P.rows.rhs[numbers][pick] / slack[pick]
        self.inverse = float(inverses[0, 0])
        self.symmetric = bool((inverses == self.inverse).all()) and not self.offset
        for k, name in enumerate(("upper", "lower")):
            self.constant(name, inverses[k], wide=self.wide)
            self.constant(f"{name}_offset", offsets[k], wide=self.wide)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.product is not None:
            values = self.product.forward(y)
            parts.append((values - self.row_offset if self.offset else values).amax(-1))
        if self.bounded:
            parts.append(self._of_bounds(y))
        if not parts:
            return torch.zeros_like(y[..., 0])
        return parts[0] if len(parts) == 1 else torch.maximum(*parts)

    def _of_bounds(self, y: Tensor) -> Tensor:
        if self.symmetric:
            largest = y.abs().amax(-1)
            return largest if self.inverse == 1.0 else largest * self.inverse
        above, below = y * self.upper, -y * self.lower
        if self.offset:
            above, below = above - self.upper_offset, below - self.lower_offset
        return torch.maximum(above, below).amax(-1)


def _divided(matrix: sp.csr_array, slack: Array) -> sp.csr_array:
    """a_i / h_i for every row, entry by entry: 1 / h alone may overflow."""
    entries = matrix.data / np.repeat(slack, np.diff(matrix.indptr))
    return sp.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)
