"""Coefficients of a block → a direction from its base point, inside the cone of the rows that have no slack there.

A direction that ends in the set by itself (convex weights of vertices, the nearest point) has the base point 0: then it
is the point. All share one interface, so that a new way in is one class here and one line in ``choice.METHODS``.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.maps.conic import along_rays, into_simplicial_cone, without, without_carefully
from rayhull.maps.convex_weights import Weights
from rayhull.maps.increments import share
from rayhull.maps.nonnegative import NonNegative
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.projection import Projection
from rayhull.nn.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FAR = 2.0**36  # how far a point may be, in units of the base point, to have a nearest point of its own
START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough


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

    def fold(self) -> tuple[Array, Direction]:
        equal = self.exact("equal")
        plain = Free(equal[:, :0], self.factory)
        plain.on_hull = not self.has_equalities  # the Linear rounds what it multiplies
        return np.eye(len(equal)) - equal @ equal.T, self._like(plain)


class Simplicial(Direction):
    """Independent rows: lines and rays from one u in R^n, x = u - A⁺A u + R f(-A u)."""

    rows: Tensor
    rays: Tensor

    def __init__(self, rows: Array, rays: Array, equal: Array, nonnegative: NonNegative, factory: Factory) -> None:
        super().__init__(factory)
        self.coefficients = rows.shape[1]
        self.nonnegative = nonnegative
        self.identity_inside = nonnegative is torch.relu
        self.onto_hull = Free(equal, factory)
        self.constant("rows", rows)
        self.constant("rays", rays)

    def forward(self, u: Tensor, sides: Sides) -> Tensor:
        u = self.onto_hull(u, sides)
        return into_simplicial_cone(u, self.rows, self.rays, self.nonnegative)

    def fold(self) -> tuple[Array, Direction]:
        """Only the step onto the affine hull: A u has to come from the rounded u, or cancellation breaks the rows."""
        onto_hull, plain = self.onto_hull.fold()
        folded = copy.copy(self)
        folded._modules = {**self._modules, "onto_hull": plain}
        return onto_hull, folded


class Slacks(Simplicial):
    """Nearly orthogonal rows: as :class:`Simplicial`, with the slacks σ f(-A u / σ), f = softplus / log 2.

    Coefficients 0 give the base point, whose slacks σ are; far inside it is the identity.
    """

    slack: Tensor

    def __init__(self, rows: Array, rays: Array, equal: Array, slack: Array, scale: float, factory: Factory) -> None:
        super().__init__(rows, rays, equal, self._slacks, factory)
        self.identity_inside, self.scale = False, scale
        self.constant("slack", slack, persistent=True)

    def _slacks(self, values: Tensor) -> Tensor:
        return self.slack * share(values / self.slack)

    def forward(self, u: Tensor, sides: Sides) -> Tensor:
        u = self.onto_hull(self.scale * u, sides)
        return into_simplicial_cone(u, self.rows, self.rays, self._slacks)


@dataclass(frozen=True, eq=False)
class LineSpace:
    """The lines of a cone: an orthonormal basis (l, n) of them, or one (n, k) of what is orthogonal to all of them."""

    matrix: Array
    by_basis: bool


class LinesAndRays(Direction):
    """L γ + R f(β): lines followed both ways, rays with non-negative weights.

    Few lines have a coefficient each. Many lines take one u in R^n, of which the part in the span of the rows is
    removed: that costs less than a product with a basis of the lines.

    Args:
        rays: (r, n).
        lines: the lines, None for a cone without any.
    """

    rays: Tensor
    lines: Tensor

    def __init__(self, rays: Array, lines: LineSpace | None, nonnegative: NonNegative, factory: Factory) -> None:
        super().__init__(factory)
        self.nonnegative = nonnegative
        self.along_lines = 0 if lines is None else len(lines.matrix)
        self.by_basis = lines is not None and lines.by_basis
        self.coefficients = self.along_lines + len(rays)
        self.constant("rays", rays, persistent=True)
        if lines is not None:
            self.constant("lines", lines.matrix, persistent=lines.by_basis)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        y = along_rays(c[..., self.along_lines :], self.rays, self.nonnegative)
        if not self.along_lines:
            return y
        u = c[..., : self.along_lines]
        return y + (u @ self.lines if self.by_basis else self.without(u, self.lines))

    def fold(self) -> tuple[Array, Direction]:
        if not self.along_lines:
            return super().fold()
        lines = self.exact("lines")
        onto_lines = lines.T if self.by_basis else np.eye(self.along_lines) - lines @ lines.T
        return scipy.linalg.block_diag(onto_lines, np.eye(len(self.rays))), self._like(FoldedLinesAndRays(self))


class FoldedLinesAndRays(Direction):
    """Takes (L γ, β): the lines are part of the Linear in front."""

    rays: Tensor

    def __init__(self, whole: LinesAndRays) -> None:
        super().__init__(whole.factory)
        rays = whole.exact("rays")
        self.nonnegative, self.size = whole.nonnegative, rays.shape[1]
        self.coefficients = self.size + len(rays)
        self.constant("rays", rays)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        return c[..., : self.size] + along_rays(c[..., self.size :], self.rays, self.nonnegative)


class Vertices(Direction):
    """Convex weights of vertices, plus rays and lines: conv(V) + cone(R) + span(L)."""

    vertices: Tensor

    def __init__(self, vertices: Array, beyond: LinesAndRays | None, weights: Weights, factory: Factory) -> None:
        super().__init__(factory)
        self.count = len(vertices)
        self.weights = weights
        self.beyond = beyond
        self.coefficients = self.count + (0 if beyond is None else beyond.coefficients)
        self.constant("vertices", vertices, persistent=True)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        x = self.weights(c[..., : self.count]) @ self.vertices
        return x if self.beyond is None else x + self.beyond(c[..., self.count :], sides)


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


def unit_start(rays: Array) -> Array:
    """The rays scaled by one number so that standard normal coefficients give outputs of about unit size."""
    if not len(rays):
        return rays
    mean = START_MEAN * np.linalg.norm(rays.sum(0))
    spread = START_VARIANCE * float((rays**2).sum())
    return rays * np.sqrt(rays.shape[1] / (mean**2 + spread))
