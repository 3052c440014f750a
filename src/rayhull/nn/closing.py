"""The last step of a block: the gauge of a direction, and the shrink by it. strict.py has the strict ones.

The gauge is the share of the slack at the base point that a direction uses up, the largest over all rows with slack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.maps.shrink import factor, smooth_factor
from rayhull.nn.base_point import View
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.tail import Fields
from rayhull.nn.transforms import in_vmap
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

GATHER_COST = 16  # one gathered entry costs about as much as this many entries of a dense product (batch 256, float32)


# -- the gauge -------------------------------------------------------------------------------------------------------


class Product(Constants):
    """v = A y for a constant A: short rows by gathering their entries, long rows by a dense product.

    Shape: y (\\*, n) → (\\*, m), first the short rows, then the long ones; ``order`` says which row each was.
    """

    entries: Tensor
    columns: Tensor
    dense: Tensor

    def __init__(self, matrix: sp.csr_array, factory: Factory) -> None:
        super().__init__(factory)
        counts = np.diff(matrix.indptr)
        short = _short_rows(counts, matrix.shape[1])
        self.width, self.columns_count = int(counts[short].max(initial=0)), matrix.shape[1]
        long = np.setdiff1d(np.arange(len(counts)), short)
        self.order = np.concatenate([short, long])
        self.has_short, self.has_long = len(short) > 0, len(long) > 0
        if self.has_short:
            columns, entries = _padded(sp.csr_array(matrix[short]), self.width)
            self.constant("entries", entries)
            self.index("columns", columns.ravel())
        if self.has_long:
            self.constant("dense", matrix[long].toarray())

    def forward(self, y: Tensor) -> Tensor:
        parts = []
        if self.has_short:
            gathered = y.index_select(-1, self.columns).reshape(*y.shape[:-1], -1, self.width)  # (*, m, width)
            parts.append((gathered * self.entries).sum(-1))
        if self.has_long:
            parts.append(y @ self.dense.mT)
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def matrix(self) -> Array:
        """A with its rows in the order that they come out in."""
        parts = [self.exact["dense"]] if self.has_long else []
        if self.has_short:
            entries, columns = self.exact["entries"], self._index["columns"].reshape(-1, self.width)
            short = np.zeros((len(entries), self.columns_count))
            np.add.at(short, (np.arange(len(entries))[:, None], columns), entries)
            parts.insert(0, short)
        return np.concatenate(parts)


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


class Slack(NamedTuple):
    """The slack at the base point where the call changed it: of stated rows as a share of the constant one."""

    rows: Tensor | None = None  # (*, count, m)
    upper: Tensor | None = None  # (*, count, n)
    lower: Tensor | None = None


class Gauge(Constants):
    """max_i a_i·y / h_i over rows with slack h, bounds taken coordinate by coordinate; negative well inside.

    With ``offset`` it is max_i (a_i·y - b_i) / h_i, by how much y exceeds a row, in units of the slack.

    Args:
        numbers: which of ``P.rows``.
        slack: h for each of them.

    Shape: y (\\*, n) → (\\*)
    """

    upper: Tensor
    lower: Tensor
    row_offset: Tensor
    upper_offset: Tensor
    lower_offset: Tensor
    stated: Tensor
    inverse_slack: Tensor

    def __init__(self, P: Polyhedron, numbers: Array, slack: Array, factory: Factory, *, offset: bool = False) -> None:
        super().__init__(factory)
        is_row = P.layout.is_stated(numbers)
        self.offset, self.bounded = offset, bool((~is_row).any())
        self.product: Product | None = None
        if is_row.any():
            self._take_rows(P, numbers[is_row], slack[is_row])
        if self.bounded:
            self._take_bounds(P, numbers[~is_row], slack[~is_row])

    def _take_rows(self, P: Polyhedron, numbers: Array, slack: Array) -> None:
        self.product = Product(_divided(P.rows.matrix[numbers], slack), self.factory)
        order = self.product.order
        self.index("stated", numbers[order])  # positions among the block's stated rows
        self.constant("inverse_slack", 1 / slack[order])
        self.constant("row_offset", P.rows.rhs[numbers[order]] / slack[order])

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
            self.constant(name, inverses[k])
            self.constant(f"{name}_offset", offsets[k])

    def slack_of(self, base: Tensor, sides: Sides) -> Slack:
        """The slack at the base point for the sides of each sample; a sample that has none is refused."""
        rows = None
        if sides.b is not None and self.product is not None:
            rows = positive(sides.b[..., self.stated] * self.inverse_slack - self.product(base))
        upper = None if sides.upper is None else positive(sides.upper - base)
        lower = None if sides.lower is None else positive(base - sides.lower)
        return Slack(rows, upper, lower)

    def forward(self, y: Tensor, slack: Slack | None = None) -> Tensor:
        slack = slack or Slack()
        parts = []
        if self.product is not None:
            values = self.product(y)
            values = values if slack.rows is None else values / slack.rows
            parts.append((values - self.row_offset if self.offset else values).amax(-1))
        if self.bounded or slack.upper is not None or slack.lower is not None:
            parts.append(self._of_bounds(y, slack))
        return parts[0] if len(parts) == 1 else torch.maximum(*parts)

    def tail_fields(self, name: str) -> Fields:
        """The fields of the compiled tail for a gauge of this name."""
        fields: Fields = {}
        if self.product is not None:
            matrix = self.product.matrix()
            fields = {
                "rows": len(matrix),
                "matrix": matrix,
                "offset": self.exact["row_offset"] if self.offset else None,
            }
        if self.bounded:
            fields |= {side: self.exact[side] for side in ("upper", "lower")}
            if self.offset:
                fields |= {f"{side}_offset": self.exact[f"{side}_offset"] for side in ("upper", "lower")}
        return {f"{name}_{field}": value for field, value in fields.items()}

    def side_fields(self) -> Fields:
        """Which row of the block each row of the gauge is, and its slack at the base point."""
        if self.product is None:
            return {"gauge_index": np.zeros(0, np.int64), "gauge_slack": np.zeros(0)}
        return {"gauge_index": self._index["stated"], "gauge_slack": 1 / self.exact["inverse_slack"]}

    def _of_bounds(self, y: Tensor, slack: Slack) -> Tensor:
        plain = slack.upper is None and slack.lower is None
        if plain and self.symmetric:
            largest = y.abs().amax(-1)
            return largest if self.inverse == 1.0 else largest * self.inverse
        above, below = self._above(y, slack.upper), self._below(y, slack.lower)
        if self.offset:
            above, below = above - self.upper_offset, below - self.lower_offset
        return torch.maximum(above, below).amax(-1)

    def _above(self, y: Tensor, slack: Tensor | None) -> Tensor:
        if slack is not None:
            return y / slack
        return y * self.upper if self.bounded else torch.zeros_like(y)

    def _below(self, y: Tensor, slack: Tensor | None) -> Tensor:
        if slack is not None:
            return -y / slack
        return -y * self.lower if self.bounded else torch.zeros_like(y)


def _divided(matrix: sp.csr_array, slack: Array) -> sp.csr_array:
    """a_i / h_i for every row, entry by entry: 1 / h alone may overflow."""
    entries = matrix.data / np.repeat(slack, np.diff(matrix.indptr))
    return sp.csr_array((entries, matrix.indices, matrix.indptr), shape=matrix.shape)


class NoSlackError(ValueError):
    """Sides of the sample that the base point of the set as it was stated does not meet."""


def positive(slack: Tensor) -> Tensor:
    """The slack; an error, or NaN in a graph and in a ``vmap``, where there is none."""
    outside = ~(slack > 0)
    if not (torch.compiler.is_compiling() or in_vmap(outside)):
        if not bool(outside.any()):
            return slack
        raise NoSlackError(
            f"{int(outside.sum())} right-hand sides leave no slack at the base point of the set as it was stated: "
            "state the set with its tightest right-hand sides, so that its centre is inside for every sample."
        )
    return torch.where(outside, torch.full_like(slack, torch.nan), slack)


# -- closings --------------------------------------------------------------------------------------------------------


class How(NamedTuple):
    """The switches of a layer, and the dtype of what comes out."""

    dtype: torch.dtype
    shrinking: bool = True
    smooth: bool = False


class Closing(Constants):
    """From a direction y to a point x of the block: y' = clean(y), x = finish(x0 + scale(y') · y').

    This one does nothing, for directions that end in the set by themselves. Shape: y, x (\\*, count, n).
    """

    shrinks = False  # whether some row is met by shrinking
    moves_sides = True  # whether b, lower and upper of a sample can be followed

    def clean(self, y: Tensor) -> Tensor:
        """The direction as this closing wants it."""
        return y

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        """The largest factor (\\*, count) that keeps x0 + factor · y inside, None for 1."""
        return None

    def finish(self, x: Tensor, how: How) -> Tensor:
        """The point in the dtype that comes out."""
        return x.to(how.dtype)

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold the promise."""

    def tail_fields(self, dtype: torch.dtype) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return {}

    def gauge_of_sides(self) -> Gauge | None:
        """The gauge that follows b and bounds of the sample in the compiled tail, None where there is none."""
        return None


class Shrink(Closing):
    """x = x0 + y / max(1, gauge(y))."""

    def __init__(self, P: Polyhedron, view: View, factory: Factory) -> None:
        super().__init__(factory)
        self.gauge = Gauge(P, view.loose, view.slack, factory)
        self.shrinks = len(view.loose) > 0

    def scale(self, y: Tensor, base: Tensor, sides: Sides, how: How) -> Tensor | None:
        if not how.shrinking or not (self.shrinks or sides.given):
            return None
        gauge = self.gauge(y, self.gauge.slack_of(base, sides) if sides.given else None)
        return smooth_factor(gauge) if how.smooth else factor(gauge)

    def tail_fields(self, dtype: torch.dtype) -> Fields:
        return {"scale": "shrink"} | self.gauge.tail_fields("shrink") if self.shrinks else {}

    def gauge_of_sides(self) -> Gauge:
        return self.gauge


def ordinary(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The closing of a layer that is inside up to rounding; ``view`` None: the direction is the point itself."""
    return Closing(factory) if view is None else Shrink(P, view, factory)
