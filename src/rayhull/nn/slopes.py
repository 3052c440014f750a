"""Curves whose slopes form a chain between bounds: convex or concave curves that may not be too steep.

In the coordinates (mean, slopes) such a set is an increasing chain with common bounds, which has a closed form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from rayhull.maps.order import between, chain, from_slopes
from rayhull.nn.closed_forms import PartialOrder, inner_point, order
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice, Direction, Options, inside
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


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


class Slopes(Direction):
    """A curve from its mean and slopes; the slopes are a chain by its own increments, between bounds by a sigmoid.

    Coefficients 0 give the base point. What rounding leaves outside is closed by the shrink.

    Args:
        order: the chain of slopes and its bounds.
        base: x0 (n,), strictly inside.
        scale: what the mean moves by for a unit coefficient.
    """

    steps: Tensor
    place: Tensor
    base: Tensor

    def __init__(self, order: PartialOrder, base: Array, scale: float, factory: Factory) -> None:
        super().__init__(factory)
        path = order.path
        assert path is not None
        self.coefficients, self.scale = len(base), scale
        self.lower, self.upper = order.lower, order.upper
        inner = inner_point(np.diff(base)[path], order)
        self.level = float(inner.mean())
        self.constant("steps", np.diff(inner), persistent=True)
        self.constant("base", base - base.mean())
        self.index("place", np.argsort(path))

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        inner = chain(self.level + c[..., 1:2], c[..., 2:], self.steps)
        slopes = between(inner, self.lower, self.upper).index_select(-1, self.place)
        return from_slopes(self.scale * c[..., :1], slopes) - self.base


def order_or_slopes(P: Polyhedron, options: Options) -> Choice:
    """A partial order of the coordinates, or a chain of slopes: by their increments, the shrink for rounding errors."""
    found = chain_of_slopes(P)
    if found is None:
        return order(P, options)
    view = inside(P, options)
    direction = Slopes(found, view.base, options.scale, options.factory)
    reason = f"a chain of {P.dim - 1} slopes by its own increments, between {found.lower:.4g} and {found.upper:.4g}"
    return Choice("order", reason, direction, view)
