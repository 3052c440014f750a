"""A constant matrix times a batch of vectors, sparse or dense, whichever is cheaper row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.nn.constants import Constants, fresh
from rayhull.sets.rows import Array

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
            self.register_buffer("columns", fresh(columns.ravel(), factory.get("device")))
        if self.has_long:
            self.constant("dense", matrix[long].toarray(), **factory)

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.has_short:
            gathered = y.index_select(-1, self.columns).reshape(*y.shape[:-1], -1, self.width)  # (*, m, width)
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
