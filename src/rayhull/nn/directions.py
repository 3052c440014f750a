"""Coefficients of a block → a direction from its base point, inside the cone of the rows that have no room there.

Each module says how many coefficients it takes (for one block), and offers ``fold``: a matrix to be multiplied into the
Linear in front, and the cheaper module that is left.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from torch import Tensor

from rayhull.maps.conic import along_rays, into_simplicial_cone, without, without_carefully
from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.nn.constants import Constants
from rayhull.sets.rows import Array

START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough


class Direction(Constants):
    """Base of the modules below. Shape: coefficients (\\*, k) → directions (\\*, n)"""

    coefficients: int

    def fold(self) -> tuple[Array, Direction]:
        """A matrix M (k', k) and the module that takes M c in place of c."""
        return np.eye(self.coefficients), self

    def made_like(self, name: str) -> dict[str, Any]:
        """The factory arguments with which the constant ``name`` was made."""
        value = getattr(self, name)
        return {"device": value.device, "dtype": value.dtype, "stays_wide": self._stays_wide}


class Free(Direction):
    """Every direction of the affine hull: u less its part in the equalities' row space."""

    equal: Tensor

    def __init__(self, equal: Array, **factory: Any) -> None:
        super().__init__()
        self.coefficients = len(equal)
        self.has_equalities = equal.shape[1] > 0
        self.project = without_carefully if factory.get("stays_wide") else without
        self.constant("equal", equal, **factory)

    def forward(self, u: Tensor) -> Tensor:
        return self.project(u, self.equal) if self.has_equalities else u

    def fold(self) -> tuple[Array, Direction]:
        equal = self._exact["equal"]
        return np.eye(len(equal)) - equal @ equal.T, Free(equal[:, :0], **self.made_like("equal"))


class Simplicial(Direction):
    """Independent rows: lines and rays from one u in R^n, x = u - A⁺A u + R f(-A u)."""

    rows: Tensor
    rays: Tensor

    def __init__(self, rows: Array, rays: Array, equal: Array, nonnegative: NonNegative, **factory: Any) -> None:
        super().__init__()
        self.coefficients = rows.shape[1]
        self.nonnegative = nonnegative
        self.onto_hull = Free(equal, **factory)
        self.constant("rows", rows, **factory)
        self.constant("rays", rays, **factory)

    def forward(self, u: Tensor) -> Tensor:
        u = self.onto_hull(u) if self.onto_hull.has_equalities else u
        return into_simplicial_cone(u, self.rows, self.rays, self.nonnegative)

    def fold(self) -> tuple[Array, Direction]:
        """Only the step onto the affine hull: A u has to come from the rounded u, or cancellation breaks the rows."""
        onto_hull, plain = self.onto_hull.fold()
        folded = copy.copy(self)
        folded._modules = {**self._modules, "onto_hull": plain}
        return onto_hull, folded


@dataclass(frozen=True, eq=False)
class LineSpace:
    """The lines of a cone: an orthonormal basis (l, n) of them, or one (n, k) of what is orthogonal to all of them."""

    matrix: Array
    by_basis: bool


class LinesAndRays(Direction):
    """L γ + R f(β): lines followed both ways, rays with non-negative weights.

    Few lines have a coefficient each. Many are what is left of a free u in R^n outside the span of the rows, which
    costs less than a product with a basis.

    Args:
        rays: (r, n).
        lines: the lines, None for a cone without any.
    """

    rays: Tensor
    lines: Tensor

    def __init__(self, rays: Array, lines: LineSpace | None, nonnegative: NonNegative, **factory: Any) -> None:
        super().__init__()
        self.nonnegative = nonnegative
        self.free = 0 if lines is None else len(lines.matrix)
        self.by_basis = lines is not None and lines.by_basis
        self.coefficients = self.free + len(rays)
        self.project = without_carefully if factory.get("stays_wide") else without
        self.constant("rays", rays, **factory)
        if lines is not None:
            self.constant("lines", lines.matrix, **factory)

    def forward(self, c: Tensor) -> Tensor:
        y = along_rays(c[..., self.free :], self.rays, self.nonnegative)
        if not self.free:
            return y
        u = c[..., : self.free]
        return y + (u @ self.lines if self.by_basis else self.project(u, self.lines))

    def fold(self) -> tuple[Array, Direction]:
        if not self.free:
            return super().fold()
        lines = self._exact["lines"]
        onto_lines = lines.T if self.by_basis else np.eye(self.free) - lines @ lines.T
        return scipy.linalg.block_diag(onto_lines, np.eye(len(self.rays))), FoldedLinesAndRays(self)


class FoldedLinesAndRays(Direction):
    """Takes (L γ, β): the lines are part of the Linear in front."""

    rays: Tensor

    def __init__(self, whole: LinesAndRays) -> None:
        super().__init__()
        rays = whole._exact["rays"]
        self.nonnegative, self.size = whole.nonnegative, rays.shape[1]
        self.coefficients = self.size + len(rays)
        self.constant("rays", rays, **whole.made_like("rays"))

    def forward(self, c: Tensor) -> Tensor:
        return c[..., : self.size] + along_rays(c[..., self.size :], self.rays, self.nonnegative)


class Vertices(Direction):
    """Convex weights of vertices, plus rays and lines: conv(V) + cone(R) + span(L)."""

    vertices: Tensor

    def __init__(self, vertices: Array, beyond: LinesAndRays | None, weights: Weights, **factory: Any) -> None:
        super().__init__()
        self.count = len(vertices)
        self.weights = weights
        self.beyond = beyond
        self.coefficients = self.count + (0 if beyond is None else beyond.coefficients)
        self.constant("vertices", vertices, **factory)

    def forward(self, c: Tensor) -> Tensor:
        x = self.weights(c[..., : self.count]) @ self.vertices
        return x if self.beyond is None else x + self.beyond(c[..., self.count :])


def unit_start(rays: Array) -> Array:
    """The rays scaled by one number so that standard normal coefficients give outputs of about unit size."""
    if not len(rays):
        return rays
    mean = START_MEAN * np.linalg.norm(rays.sum(0))
    spread = START_VARIANCE * float((rays**2).sum())
    return rays * np.sqrt(rays.shape[1] / (mean**2 + spread))
