"""Ways in by a formula: chains, partial orders, one row and bounds, curves whose slopes form a chain between bounds.

All but the last end in the set by themselves: their base point is 0. In the coordinates (mean, slopes) a convex or
concave curve that may not be too steep is an increasing chain with common bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.approach import clipped_shift
from rayhull.maps.order import between, between_inverse, chain, from_slopes, into_grid_order, into_order, levels
from rayhull.maps.pooling import pooled
from rayhull.nn.base_point import coordinates_at, seen_from_inside
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice, Direction, Options
from rayhull.nn.orders import PartialOrder, chain_of_slopes, partial_order
from rayhull.nn.tail import Fields
from rayhull.nn.transforms import in_vmap
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

LONG = 32  # coordinates of a chain without bounds up to which it has increments of its own, and no ties


# -- orders of coordinates -------------------------------------------------------------------------------------------


class Chain(Direction):
    """A chain from its mean level and its own increments, through a sigmoid where there are bounds: no ties.

    Coefficients 0 give the base point.
    """

    steps: Tensor
    place: Tensor

    def __init__(self, path: Array, order: PartialOrder, base: Array, scale: float, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(path)
        self.lower, self.upper = order.lower, order.upper
        inner = inner_point(base[path], order)
        self.level, self.unit = float(inner.mean()), scale if math.isinf(self.lower + self.upper) else 1.0
        self.constant("steps", np.diff(inner), persistent=True)
        self.path = path
        self.index("place", np.argsort(path))
        self.sorted = bool((path == np.arange(len(path))).all())

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        inner = chain(self.level + self.unit * c[..., :1], c[..., 1:], self.steps)
        x = between(inner, self.lower, self.upper)
        return x if self.sorted else x.index_select(-1, self.place)

    def tail_fields(self) -> Fields:
        numbers = [self.lower, self.upper, self.level, self.unit]
        return increments("chain", self.coefficients, self.exact["steps"], numbers, self.path)


def increments(kind: str, coefficients: int, steps: Array, numbers: list[float], path: Array) -> Fields:
    """The fields of the compiled tail for a chain: bounds, level and unit, and a curve's scale."""
    return {"conic": kind, "rays_count": coefficients, "rays": steps, "slacks": numbers, "path_index": path}


class Pooled(Direction):
    """A chain without bounds: the nearest point to x0 + s c by pooling. It is the identity inside."""

    identity_inside = inside_exactly = True
    start: Tensor
    along: Tensor
    place: Tensor

    def __init__(self, path: Array, base: Array, scale: float, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients, self.unit = len(path), scale
        self.constant("start", base, persistent=True)
        self.path = path
        self.index("along", path)
        self.index("place", np.argsort(path))
        self.sorted = bool((path == np.arange(len(path))).all())

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        u = self.free(c)
        return pooled(u) if self.sorted else pooled(u.index_select(-1, self.along)).index_select(-1, self.place)

    def tail_fields(self) -> Fields:
        return from_start(self.exact["start"], self.unit) | {
            "conic": "pooled",
            "rays_count": self.coefficients,
            "path_index": self.path,
        }

    def free(self, c: Tensor) -> Tensor:
        return self.start + self.unit * c

    def coefficients_of(self, y: Tensor) -> Tensor:
        return (y - y.new_tensor(self.exact["start"])) / self.unit


def from_start(start: Array, unit: float) -> Fields:
    """The fields of the compiled tail for start + unit · c."""
    return {"linear": "diagonal", "columns": len(start), "matrix": np.full(len(start), unit), "point": start}


class Order(Direction):
    """(least majorant + greatest minorant) / 2 for a partial order, then an increasing function onto the bounds.

    Without bounds it is the identity inside. A grid goes along its axes, other orders round by round.
    """

    start: Tensor

    def __init__(self, order: PartialOrder, base: Array, scale: float, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(base)
        self.lower, self.upper = order.lower, order.upper
        self.identity_inside = math.isinf(self.lower) and math.isinf(self.upper)
        self.unit = scale if math.isinf(self.lower + self.upper) else 1.0
        self.constant("start", inner_point(base, order), persistent=True)
        self.pairs = order.pairs_upwards
        self.grid = order.grid(len(base))
        for name, pairs in (("up", order.pairs), ("down", order.pairs[:, ::-1])):
            self._keep(name, pairs, len(base))

    def _keep(self, name: str, pairs: Array, n: int) -> None:
        """The rounds of the order as index tensors that follow the module."""
        found = levels(pairs, n) if self.grid is None else levels(np.zeros((0, 2)), n)
        self.rounds = len(found.take)
        for k, (take, before) in enumerate(zip(found.take, found.before, strict=True)):
            self.index(f"{name}_take{k}", take)
            self.index(f"{name}_before{k}", before)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        return between(self._ordered(self.free(c)), self.lower, self.upper)

    def _ordered(self, u: Tensor) -> Tensor:
        if self.grid is None:
            return into_order(u, self._rounds("up"), self._rounds("down"))
        return into_grid_order(u.reshape(*u.shape[:-1], *self.grid), 2).flatten(-2)

    def tail_fields(self) -> Fields:
        own = {"rays_count": len(self.pairs), "slacks": [self.lower, self.upper], "path_index": self.pairs}
        return from_start(self.exact["start"], self.unit) | {"conic": "order"} | own

    def free(self, c: Tensor) -> Tensor:
        return self.start + self.unit * c

    def coefficients_of(self, y: Tensor) -> Tensor:
        return (y - y.new_tensor(self.exact["start"])) / self.unit

    def _rounds(self, name: str) -> tuple[list[Tensor], list[Tensor]]:
        numbers = range(self.rounds)
        return [getattr(self, f"{name}_take{k}") for k in numbers], [
            getattr(self, f"{name}_before{k}") for k in numbers
        ]


def inner_point(base: Array, order: PartialOrder) -> Array:
    """The base point before the increasing function onto the bounds."""
    return np.asarray(between_inverse(torch.as_tensor(base), order.lower, order.upper))


# -- one row and bounds ----------------------------------------------------------------------------------------------


class Shift(Direction):
    """One row and bounds: the nearest point to x0 + M c by a clipped shift."""

    identity_inside = True
    row: Tensor
    rhs: Tensor
    lower: Tensor
    upper: Tensor
    base: Tensor
    matrix: Tensor

    def __init__(self, P: Polyhedron, rows: Rows, base: Array, matrix: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients, self.equality = P.dim, rows is P.equality_rows
        for name, values in (
            ("row", rows.matrix.toarray()[0]),
            ("rhs", rows.rhs[0]),
            ("lower", P.lower_bounds),
            ("upper", P.upper_bounds),
        ):
            self.constant(name, values)
        self.constant("base", base, persistent=True)
        self.constant("matrix", matrix, persistent=True)
        self.follows = frozenset({"b_eq" if self.equality else "b", "lower", "upper"})

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        stated = sides.b_eq if self.equality else sides.b
        rhs = self.rhs if stated is None else stated[..., 0]
        low = self.lower if sides.lower is None else sides.lower
        high = self.upper if sides.upper is None else sides.upper
        x = clipped_shift(self.free(c), self.row, rhs, low, high, equality=self.equality)
        return torch.where(self._empty(rhs, low, high)[..., None], torch.nan, x) if sides.given else x

    def tail_fields(self) -> Fields:
        row, bounds = self.exact["row"], np.stack([self.exact["lower"], self.exact["upper"]])
        lines = {"linear": "diagonal", "columns": len(row), "matrix": self.exact["matrix"], "point": self.exact["base"]}
        numbers = [float(self.exact["rhs"]), float(self.equality)]
        return lines | {"conic": "shift", "rays_count": len(row), "rays": row, "rows": bounds, "slacks": numbers}

    def _empty(self, rhs: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Which samples have no point at all: an error, or NaN in a graph and in a ``vmap``."""
        first, second = (torch.where(self.row == 0, 0.0, self.row * end) for end in (low, high))
        least, most = torch.minimum(first, second).sum(-1), torch.maximum(first, second).sum(-1)
        touch = 16 * torch.finfo(rhs.dtype).eps * (1 + rhs.abs())  # a set of one point is not empty
        empty = (low > high).any(-1) | (least > rhs + touch) | (self.equality & (most < rhs - touch))
        if not (torch.compiler.is_compiling() or in_vmap(empty)) and bool(empty.any()):
            raise ValueError(
                f"{int(empty.sum())} blocks have no point for the sides of their sample. Check that lower <= upper, "
                "and that the row can be met between them."
            )
        return empty

    def free(self, c: Tensor) -> Tensor:
        return self.base + c * self.matrix

    def coefficients_of(self, y: Tensor) -> Tensor:
        return (y - self.base) / self.matrix


def one_row(P: Polyhedron) -> Rows | None:
    """The inequality or equality of a block that has one row and bounds, and no more; None for other blocks."""
    stated, equal = len(P.inequalities), len(P.equality_rows)
    bounded = np.isfinite(P.lower_bounds).any() or np.isfinite(P.upper_bounds).any()
    if stated + equal != 1 or not bounded:
        return None
    return P.equality_rows if equal else P.inequalities


def order(P: Polyhedron, options: Options) -> Choice | None:
    """A chain by its own increments, another partial order between its majorant and minorant; None for other rows.

    A long chain without bounds goes to its nearest point: each of its coordinates would be a sum of many increments,
    and what a network is told of one of them says little about each (docs/learning.md: noisy monotone).
    """
    found = partial_order(P)
    if found is None:
        return None
    base = seen_from_inside(P, options.base, options.scale).base
    free = math.isinf(found.lower) and math.isinf(found.upper)
    if found.path is not None and not (free and P.dim > LONG):
        direction = Chain(found.path, found, base, options.scale, options.factory)
        return Choice("order", f"a chain of {P.dim} by its own increments", direction, None)
    if found.path is not None:
        long = Pooled(found.path, base, options.scale, options.factory)
        return Choice("order", f"a long chain of {P.dim}: its nearest point by pooling", long, None)
    reason = f"a partial order of {len(found.pairs)} pairs: (least majorant + greatest minorant) / 2"
    return Choice("order", reason, Order(found, base, options.scale, options.factory), None)


def shift(P: Polyhedron, options: Options) -> Choice | None:
    """One row and bounds: the nearest point in closed form; None for other rows."""
    rows = one_row(P)
    if rows is None:
        return None
    view = seen_from_inside(P, options.base, options.scale)
    matrix = coordinates_at(P, view, options.scale, diagonal=True)
    direction = Shift(P, rows, view.base, matrix, options.factory)
    return Choice("shift", "one row and bounds: a clipped shift", direction, None)


# -- orders of slopes ------------------------------------------------------------------------------------------------


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
        self.path = path
        self.index("place", np.argsort(path))

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        inner = chain(self.level + c[..., 1:2], c[..., 2:], self.steps)
        slopes = between(inner, self.lower, self.upper).index_select(-1, self.place)
        return from_slopes(self.scale * c[..., :1], slopes) - self.base

    def tail_fields(self) -> Fields:
        numbers = [self.lower, self.upper, self.level, 1.0, self.scale]
        own = increments("curve", self.coefficients, self.exact["steps"], numbers, self.path)
        return own | {"point": -self.exact["base"]}


def slopes(P: Polyhedron, options: Options) -> Choice | None:
    """A chain of slopes by its increments, the shrink for rounding errors; None for other rows."""
    found = chain_of_slopes(P)
    if found is None:
        return None
    view = seen_from_inside(P, options.base, options.scale)
    direction = Slopes(found, view.base, options.scale, options.factory)
    reason = f"a chain of {P.dim - 1} slopes by its own increments, between {found.lower:.4g} and {found.upper:.4g}"
    return Choice("order", reason, direction, view)
