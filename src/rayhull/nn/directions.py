"""Coefficients of a block → a direction from its base point, inside the cone of the rows that have no room there.

Each module says how many coefficients it takes (for one block), and offers ``fold``: a matrix to be multiplied into the
Linear in front, and the cheaper module that is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.conic import along_rays, into_simplicial_cone, without, without_carefully
from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.nn.constants import Constants
from rayhull.rows import Array

START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough


class Direction(Constants):
    """Base of the modules below. Shape: coefficients (\\*, k) → directions (\\*, n)"""

    coefficients: int

    def fold(self) -> tuple[Array, nn.Module]:
        """A matrix M (k', k) and the module that takes M c in place of c."""
        return np.eye(self.coefficients), self


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

    def fold(self) -> tuple[Array, nn.Module]:
        equal = self._exact["equal"]
        return np.eye(len(equal)) - equal @ equal.T, nn.Identity()


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
        return into_simplicial_cone(self.onto_hull(u), self.rows, self.rays, self.nonnegative)

    def fold(self) -> tuple[Array, nn.Module]:
        onto_hull, _ = self.onto_hull.fold()
        return np.concatenate([onto_hull, self._exact["rows"]]), FoldedSimplicial(self)


class FoldedSimplicial(nn.Module):
    """Takes (u, A u) and adds the rays: the product with A is part of the Linear in front."""

    rays: Tensor

    def __init__(self, whole: Simplicial) -> None:
        super().__init__()
        self.nonnegative = whole.nonnegative
        self.size = whole.coefficients
        self.register_buffer("rays", whole.rays)

    def forward(self, c: Tensor) -> Tensor:
        u, values = c[..., : self.size], c[..., self.size :]
        if self.nonnegative is torch.relu:
            return u + torch.relu(values) @ self.rays
        return u + (values + self.nonnegative(-values)) @ self.rays


class LinesAndRays(Direction):
    """L γ + R f(β): lines as what is left of a free u outside the rows' span, rays with non-negative weights.

    Args:
        rays: (r, n).
        span: orthonormal basis (n, k) of what is orthogonal to every line, or None for a cone without lines.
    """

    rays: Tensor
    span: Tensor

    def __init__(self, rays: Array, span: Array | None, nonnegative: NonNegative, **factory: Any) -> None:
        super().__init__()
        self.nonnegative = nonnegative
        self.size = rays.shape[1]
        self.free = 0 if span is None else self.size
        self.coefficients = self.free + len(rays)
        self.project = without_carefully if factory.get("stays_wide") else without
        self.constant("rays", rays, **factory)
        if span is not None:
            self.constant("span", span, **factory)

    def forward(self, c: Tensor) -> Tensor:
        y = along_rays(c[..., self.free :], self.rays, self.nonnegative)
        return y + self.project(c[..., : self.free], self.span) if self.free else y

    def fold(self) -> tuple[Array, nn.Module]:
        matrix = np.eye(self.coefficients)
        if self.free:
            span = self._exact["span"]
            matrix[: self.free, : self.free] -= span @ span.T
        return matrix, FoldedLinesAndRays(self)


class FoldedLinesAndRays(nn.Module):
    """Takes (L γ, β): the lines are part of the Linear in front."""

    rays: Tensor

    def __init__(self, whole: LinesAndRays) -> None:
        super().__init__()
        self.nonnegative, self.free = whole.nonnegative, whole.free
        self.register_buffer("rays", whole.rays)

    def forward(self, c: Tensor) -> Tensor:
        y = along_rays(c[..., self.free :], self.rays, self.nonnegative)
        return y + c[..., : self.free] if self.free else y


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
