"""What a way into a block is made of, and its first step: coefficients → a direction from the base point.

A direction stays inside the cone of the rows that have no slack at the base point. One that ends in the set by itself
(convex weights of vertices, the nearest point) has the base point 0: then it is the point. All share one interface, so
that a new way in is one class and one line in ``choice.METHODS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.cone import NonNegative, without, without_carefully
from rayhull.maps.cone import named as nonnegative_named
from rayhull.maps.simplex import Weights
from rayhull.nn.approach import Step
from rayhull.nn.base_point import View, seen_from_inside
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.projection import Projection
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.interior import base_point
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own


@dataclass(frozen=True)
class Options:
    """What the user chose, the same for every block but the base point."""

    method: str = "auto"
    nonnegative: str | NonNegative | None = None
    weights: str | Weights = "softmax"
    max_generators: int | None = 100_000
    approach: int | None = None
    scale: float = 1.0
    base: Array | None = None  # (n,), of the block
    factory: Factory = field(default_factory=Factory)

    def function(self, default: str) -> NonNegative:
        return nonnegative_named(default if self.nonnegative is None else self.nonnegative)


@dataclass(frozen=True, eq=False)
class Choice:
    """A block's way in: the direction's module, the base point with the rows that have slack, and why."""

    method: str
    reason: str
    direction: Direction
    view: View | None  # None: the direction is the point itself
    approach: tuple[Step, ...] = ()


Way = Callable[["Polyhedron", Options], Choice]


def level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("rayhull", "torch")):
        level, frame = level + 1, frame.f_back
    return level + 1


def inside(P: Polyhedron, options: Options) -> View:
    """The block seen from the user's base point, or from one in the scale of the data."""
    return seen_from_inside(P, base_point(P, options.scale) if options.base is None else options.base)


class Direction(Constants):
    """Base of the modules below. Shape: coefficients (\\*, count, k) → directions (\\*, count, n)

    Attributes:
        coefficients: how many numbers one block takes.
        identity_inside: whether coefficients are coordinates seen from the base point, kept as they are inside the set.
        on_hull: whether strict directions meet the equalities up to rounding of the direction itself.
        follows: which sides of the sample ``forward`` takes into account; rows with slack are the closing's business.
    """

    coefficients: int
    identity_inside = False
    on_hull = False
    follows: frozenset[str] = frozenset()

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError

    def fold(self) -> tuple[Array, Direction]:
        """A matrix M (k', k) for the Linear in front, and the module that takes M c in place of c."""
        return np.eye(self.coefficients), self

    def tail_fields(self) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return None

    def free(self, c: Tensor) -> Tensor:
        """The direction that c stands for with nothing imposed, where ``identity_inside``."""
        return c

    def coefficients_of(self, y: Tensor) -> Tensor:
        """Undoes ``free``."""
        return y

    def without(self, u: Tensor, basis: Tensor) -> Tensor:
        """u less its part in the span of the basis; under strict never a direction of rounding errors."""
        return without_carefully(u, basis) if self.wide else without(u, basis)

    def _like(self, other: Direction) -> Direction:
        other.widen(self.wide)
        return other


class Free(Direction):
    """Every direction of the affine hull: u less its part in the equalities' row space."""

    identity_inside = True
    on_hull = True
    equal: Tensor

    def __init__(self, equal: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(equal)
        self.has_equalities = equal.shape[1] > 0
        self.constant("equal", equal)

    def forward(self, u: Tensor, sides: Sides) -> Tensor:
        return self.without(u, self.equal) if self.has_equalities else u

    def tail_fields(self) -> Fields:
        hull = {"hull": self.exact("equal")} if self.has_equalities else {}
        return {"linear": "copy", "columns": self.coefficients} | hull

    def fold(self) -> tuple[Array, Direction]:
        equal = self.exact("equal")
        plain = Free(equal[:, :0], self.factory)
        plain.on_hull = not self.has_equalities  # the Linear rounds what it multiplies
        return np.eye(len(equal)) - equal @ equal.T, self._like(plain)


class NearestPoint(Direction):
    """The nearest point of the block to x0 + M c, in round coordinates around the base point. NaN stays NaN.

    Args:
        base: x0 (n,).
        matrix: M (n, n), or the diagonal (n,) of a diagonal one.
    """

    identity_inside = True
    follows = frozenset({"b", "b_eq", "lower", "upper"})
    base: Tensor
    matrix: Tensor

    def __init__(self, P: Polyhedron, base: Array, matrix: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients, self.diagonal = P.dim, matrix.ndim == 1
        self.nearest = Projection(P)
        self.reach = FAR * max(1.0, float(np.abs(base).max()))
        self.constant("base", base, persistent=True)
        self.constant("matrix", matrix, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        known = c.isfinite().all(-1, keepdim=True)
        free = self.free(torch.where(known, c, torch.zeros_like(c)))
        free = free if sides.given else self._in_reach(free)
        x: Tensor = self.nearest(free, **{name: getattr(sides, name) for name in sides.given})
        return torch.where(known, x, torch.full_like(x, torch.nan))

    def _in_reach(self, x: Tensor) -> Tensor:
        """x, or where it is FAR times as large as the base point the point at that distance on its way to 0.

        Seen from there the set is a point in float64: no solver could certify which one of it is nearest.
        """
        largest = x.abs().amax(-1, keepdim=True)
        return torch.where(largest > self.reach, x / largest * self.reach, x)

    def free(self, c: Tensor) -> Tensor:
        return self.base + (c * self.matrix if self.diagonal else c @ self.matrix)

    def coefficients_of(self, y: Tensor) -> Tensor:
        return undone(y - self.base, self.exact("matrix"))


def undone(y: Tensor, matrix: Array) -> Tensor:
    """c with M c = y, for a symmetric M (n, n), or a diagonal one (n,)."""
    if matrix.ndim == 1:
        return y / y.new_tensor(matrix)
    return y @ y.new_tensor(np.linalg.pinv(matrix, rcond=1e-14, hermitian=True))


class Round(Direction):
    """y = M c less its part in the equalities' row space, M = H^(-1/2) at the base point (:mod:`maps.coordinates`).

    Args:
        matrix: M (n, n), or the diagonal (n,) of a diagonal one.
        equal: orthonormal basis (n, k) of the equalities' row space.
    """

    identity_inside = True
    matrix: Tensor

    def __init__(self, matrix: Array, equal: Array, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = len(matrix)
        self.diagonal = matrix.ndim == 1
        self.onto_hull = Free(equal, factory)
        self.constant("matrix", matrix, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        out: Tensor = self.onto_hull(self.free(c), sides)
        return out

    def free(self, c: Tensor) -> Tensor:
        return c * self.matrix if self.diagonal else c @ self.matrix

    def coefficients_of(self, y: Tensor) -> Tensor:
        return undone(y, self.exact("matrix"))

    def tail_fields(self) -> Fields:
        kind = "diagonal" if self.diagonal else "matrix"
        return self.onto_hull.tail_fields() | {"linear": kind, "matrix": self.exact("matrix")}

    def fold(self) -> tuple[Array, Direction]:
        matrix = self.exact("matrix")
        return np.diag(matrix) if self.diagonal else matrix, self.onto_hull
