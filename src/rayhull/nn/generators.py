"""Directions along generators: lines, rays and convex weights of vertices."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.maps.cone import NONNEGATIVE, NonNegative, along_rays, into_simplicial_cone
from rayhull.maps.order import share
from rayhull.maps.simplex import Weights, softmax
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Direction, Free
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    pass

START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough


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

    def tail_fields(self) -> Fields | None:
        return _with_rays(self.onto_hull.tail_fields(), self.exact("rays"), self.nonnegative, self.exact("rows"))

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

    def tail_fields(self) -> Fields | None:
        scaled = {"linear": "diagonal", "matrix": np.full(self.coefficients, self.scale), "slacks": self.exact("slack")}
        fields = _with_rays(self.onto_hull.tail_fields(), self.exact("rays"), torch.relu, self.exact("rows"))
        return None if fields is None else fields | scaled | {"function": "share"}


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

    def tail_fields(self) -> Fields | None:
        fields: Fields = {"columns": self.along_lines}
        if self.along_lines:
            lines = self.exact("lines")
            fields |= {"linear": "matrix", "matrix": lines} if self.by_basis else {"linear": "without", "matrix": lines}
            fields["rank"] = 0 if self.by_basis else lines.shape[1]
        return _with_rays(fields, self.exact("rays"), self.nonnegative)

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

    def tail_fields(self) -> Fields | None:
        return _with_rays({"linear": "copy", "columns": self.size}, self.exact("rays"), self.nonnegative)


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

    def tail_fields(self) -> Fields | None:
        if self.beyond is not None or self.weights is not softmax:
            return None
        vertices = self.exact("vertices")
        return {"conic": "own", "function": "softmax", "rays": vertices, "rays_count": len(vertices)}


def _with_rays(fields: Fields, rays: Array, nonnegative: NonNegative, rows: Array | None = None) -> Fields | None:
    """Fields of rays with weights of their own, or from the values of rows; None for a function of the user's own."""
    name = next((name for name, function in NONNEGATIVE.items() if function is nonnegative), None)
    if name is None:
        return None
    conic = {"conic": "own"} if rows is None else {"conic": "rows", "rows": rows}
    return fields | conic | {"function": name, "rays": rays, "rays_count": len(rays)}


def unit_start(rays: Array) -> Array:
    """The rays scaled by one number so that standard normal coefficients give outputs of about unit size."""
    if not len(rays):
        return rays
    mean = START_MEAN * np.linalg.norm(rays.sum(0))
    spread = START_VARIANCE * float((rays**2).sum())
    return rays * np.sqrt(rays.shape[1] / (mean**2 + spread))
