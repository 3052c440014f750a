"""Blocks that are an order: x_i <= x_j and common bounds, of coordinates or of the slopes of a curve; and curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from rayhull.maps.order import depths
from rayhull.projection.solvers.banded import banded_order
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True, eq=False)
class PartialOrder:
    """x_i <= x_j for each pair (i, j), and the same bounds for every coordinate."""

    pairs: Array  # (m, 2)
    lower: float
    upper: float

    @property
    def path(self) -> Array | None:
        """The coordinates in increasing order where the pairs are one chain, each link once."""
        n = len(self.pairs) + 1
        after = dict(self.pairs.tolist())
        starts = set(self.pairs[:, 0].tolist()) - set(self.pairs[:, 1].tolist())
        if len(after) != len(self.pairs) or len(starts) != 1 or len(set(self.pairs[:, 1].tolist())) != len(after):
            return None
        order = [starts.pop()]
        while order[-1] in after:
            order.append(after[order[-1]])
        return np.array(order) if len(order) == n else None

    @property
    def pairs_upwards(self) -> Array:
        """The pairs, each after all that end in its smaller coordinate."""
        if (self.pairs[:, 0] < self.pairs[:, 1]).all():
            return self.pairs[np.argsort(self.pairs[:, 1], kind="stable")]
        if self.path is not None:
            return np.stack([self.path[:-1], self.path[1:]], 1)
        return self.pairs[np.argsort(depths(self.pairs, int(self.pairs.max()) + 1)[self.pairs[:, 1]], kind="stable")]

    def grid(self, n: int) -> tuple[int, ...] | None:
        """(rows, columns) where the pairs are the neighbours of a grid in C order."""
        stated = {tuple(pair) for pair in self.pairs.tolist()}
        for height in range(2, n // 2 + 1):
            if n % height == 0 and _neighbours(np.arange(n).reshape(height, -1)) == stated:
                return height, n // height
        return None


def _neighbours(number: Array) -> set[tuple[int, int]]:
    down = zip(number[:-1].ravel().tolist(), number[1:].ravel().tolist(), strict=True)
    right = zip(number[:, :-1].ravel().tolist(), number[:, 1:].ravel().tolist(), strict=True)
    return {*down, *right}


def partial_order(P: Polyhedron) -> PartialOrder | None:
    """The block as a partial order with common bounds, or None if it is something else."""
    rows = P.inequalities
    m = rows.matrix
    if not len(rows) or len(P.equality_rows) or rows.rhs.any() or (np.diff(m.indptr) != 2).any():
        return None
    data, columns = m.data.reshape(-1, 2), m.indices.reshape(-1, 2)
    if (data.sum(1) != 0).any() or not (_alike(P.lower_bounds) and _alike(P.upper_bounds)):
        return None
    pairs = np.where((data[:, :1] > 0), columns, columns[:, ::-1])
    return PartialOrder(np.unique(pairs, axis=0), float(P.lower_bounds[0]), float(P.upper_bounds[0]))


def _alike(bounds: Array) -> bool:
    return bool((bounds == bounds[0]).all())


def chain_of_slopes(P: Polyhedron) -> PartialOrder | None:
    """The slopes x_{j+1} - x_j of the block as one chain with common bounds, or None if they are something else."""
    if P.dim < 3 or len(P.equality_rows) or len(P.rows) != len(P.inequalities):
        return None
    rows = P.rows.matrix.toarray()
    slopes = sp.csr_array(rows[:, ::-1].cumsum(1)[:, -2::-1])  # a·x = Σ_j (a_{j+1} + ... + a_n) s_j + level · Σ a
    bounds, pairs = np.diff(slopes.indptr) == 1, np.diff(slopes.indptr) == 2
    if rows.sum(1).any() or not (bounds | pairs).all() or not pairs.any() or P.rows.rhs[pairs].any():
        return None
    data, place = slopes[pairs].data.reshape(-1, 2), slopes[pairs].indices.reshape(-1, 2)
    if data.sum(1).any():
        return None
    ordered = np.unique(np.where(data[:, :1] > 0, place, place[:, ::-1]), axis=0)
    return _bounded(ordered, slopes[bounds], P.rows.rhs[bounds], P.dim - 1)


def _bounded(pairs: Array, rows: sp.csr_array, rhs: Array, n: int) -> PartialOrder | None:
    """The chain of n slopes with the bounds that rows of one entry state: in a chain only its ends' bounds count."""
    path = PartialOrder(pairs, -np.inf, np.inf).path
    if path is None or len(path) != n:
        return None
    lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
    limits, positive = rhs / rows.data, rows.data > 0
    np.minimum.at(upper, rows.indices[positive], limits[positive])
    np.maximum.at(lower, rows.indices[~positive], limits[~positive])
    low, high = float(lower[path[0]]), float(upper[path[-1]])
    return PartialOrder(pairs, low, high) if lower.max() <= low and upper.min() >= high else None


def is_curve(P: Polyhedron) -> bool:
    """Whether inequalities are all there is, and only neighbours share coordinates: differences of one order are such.

    Examples:
        >>> import rayhull as rh
        >>> from rayhull.nn.orders import is_curve
        >>> is_curve(rh.convex(50)), is_curve(rh.convex(50) & rh.monotone(50)), is_curve(rh.convex(50) & rh.box(0, 1))
        (True, False, False)
    """
    if len(P.rows) > len(P.inequalities) or len(P.equality_rows):
        return False
    return banded_order(P.inequalities.matrix) is not None
