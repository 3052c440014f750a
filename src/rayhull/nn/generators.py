"""Ways in along lines and rays, and by convex weights of vertices: the directions, and how a conversion gives them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.coefficients import (
    NONNEGATIVE,
    NonNegative,
    Weights,
    along_rays,
    into_simplicial_cone,
    softmax,
    weights_named,
)
from rayhull.maps.order import share
from rayhull.nn.base_point import (
    View,
    cone_at,
    near_one,
    row_span,
    seen_from_apex,
    simplicial_rays,
    unit_rays,
    unit_rows,
    within,
)
from rayhull.nn.constants import Factory
from rayhull.nn.directions import Choice, Direction, Free, Options
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.interior import base_point
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

START_MEAN, START_VARIANCE = 0.8, 0.36  # of |β| for a standard normal β; the other functions are near enough
ORTHOGONAL = 1.5  # ‖A‖ ‖A⁺‖ up to which u - A⁺relu(A u) is next to the nearest point
AGAINST = -0.2  # least cosine between rays from which on coefficients of their own learn badly
AT_ZERO = float(np.log(2))  # softplus(0)


# -- directions ------------------------------------------------------------------------------------------------------


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
        return _with_rays(self.onto_hull.tail_fields(), self.exact["rays"], self.nonnegative, self.exact["rows"])

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
        scaled = {"linear": "diagonal", "matrix": np.full(self.coefficients, self.scale), "slacks": self.exact["slack"]}
        fields = _with_rays(self.onto_hull.tail_fields(), self.exact["rays"], torch.relu, self.exact["rows"])
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
            lines = self.exact["lines"]
            fields |= {"linear": "matrix", "matrix": lines} if self.by_basis else {"linear": "without", "matrix": lines}
            fields["rank"] = 0 if self.by_basis else lines.shape[1]
        return _with_rays(fields, self.exact["rays"], self.nonnegative)

    def fold(self) -> tuple[Array, Direction]:
        if not self.along_lines:
            return super().fold()
        lines = self.exact["lines"]
        onto_lines = lines.T if self.by_basis else np.eye(self.along_lines) - lines @ lines.T
        return scipy.linalg.block_diag(onto_lines, np.eye(len(self.rays))), self._like(FoldedLinesAndRays(self))


class FoldedLinesAndRays(Direction):
    """Takes (L γ, β): the lines are part of the Linear in front."""

    rays: Tensor

    def __init__(self, whole: LinesAndRays) -> None:
        super().__init__(whole.factory)
        rays = whole.exact["rays"]
        self.nonnegative, self.size = whole.nonnegative, rays.shape[1]
        self.coefficients = self.size + len(rays)
        self.constant("rays", rays)

    def forward(self, c: Tensor, sides: Sides) -> Tensor:
        return c[..., : self.size] + along_rays(c[..., self.size :], self.rays, self.nonnegative)

    def tail_fields(self) -> Fields | None:
        return _with_rays({"linear": "copy", "columns": self.size}, self.exact["rays"], self.nonnegative)


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
        vertices = self.exact["vertices"]
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


# -- ways in ---------------------------------------------------------------------------------------------------------


def rays(P: Polyhedron, options: Options) -> Choice:
    """Lines and rays of the rows that meet at a point; other rows shrink."""
    view = apex(P)
    if view is None:
        raise RayhullError(
            "method='rays' needs a point where the rows meet (0, or the apex of independent rows), and this set "
            f"has none: {P}. Use method='shrink', which needs only an interior point, or 'vertices'."
        )
    return from_apex(P, view, options, options.max_generators)


def apex(P: Polyhedron) -> View | None:
    """The set seen from a point where some of its rows meet, if there is one."""
    view = seen_from_apex(P)
    return view if view is not None and (len(view.cone) or view.equal.shape[1]) else None


def from_apex(P: Polyhedron, view: View, options: Options, budget: int | None) -> Choice:
    """Rays of the rows that have no slack at the base point; the others shrink."""
    rows = P.rows.matrix[view.cone].toarray()
    rows = rows * near_one(rows)[:, None]
    found = simplicial_rays(rows, view.equal)
    direction: Direction
    if found is None:
        direction, reason = _converted(P, view, options, budget)
    else:
        direction, reason = _independent(P, view, options, rows, found)
    then = f", then {len(view.loose)} rows with slack by shrinking" if len(view.loose) else ""
    return Choice("rays", reason + then, direction, view)


def _independent(P: Polyhedron, view: View, options: Options, rows: Array, found: Array) -> tuple[Direction, str]:
    """Independent rows: a coefficient for each slack, unless the user names a function or rays oppose each other."""
    inside, least = within(rows, view.equal), least_cosine(found)
    if options.nonnegative is not None or least < AGAINST or not len(rows):
        direction = Simplicial(inside, found, view.equal, options.function("relu"), options.factory)
        return direction, f"{len(rows)} independent rows, u - A⁺relu(A u)"
    slack = -(rows @ (base_point(P, options.scale) - view.base))
    stretch = float(np.linalg.cond(unit_rows(inside)))
    if stretch <= ORTHOGONAL:
        nearly = Slacks(inside, found, view.equal, slack, options.scale, options.factory)
        return nearly, f"{len(rows)} rows, nearly orthogonal (‖A‖ ‖A⁺‖ = {stretch:.2f}), slacks through softplus"
    lines = np.asarray(scipy.linalg.null_space(np.concatenate([inside, view.equal.T]))).T
    scaled = found * (slack / AT_ZERO)[:, None]
    own = LinesAndRays(scaled, _own_lines(lines, options.scale), options.function("softplus"), options.factory)
    return own, f"{len(rows)} independent rows, a coefficient for each slack, least cosine of rays {least:.2f}"


def least_cosine(found: Array) -> float:
    """The smallest cosine between two rays: -1 where two point against each other."""
    unit = found / np.linalg.norm(found, axis=1, keepdims=True)
    return float((unit @ unit.T).min(initial=1.0))


def _own_lines(lines: Array, scale: float) -> LineSpace | None:
    """Few lines with a coefficient each, so long that standard normal ones give points of the data's scale."""
    if not len(lines):
        return None
    first = np.take_along_axis(lines, np.abs(lines).argmax(1)[:, None], 1)  # a sign of its own on every machine
    return LineSpace(lines * np.sign(first) * scale * np.sqrt(lines.shape[1] / len(lines)), by_basis=True)


def _converted(P: Polyhedron, view: View, options: Options, budget: int | None) -> tuple[LinesAndRays, str]:
    found, span = cone_at(P, view, budget)
    rays, function = _at_base(P, view, unit_rays(found.rays, span), span, options), options.function("softplus")
    direction = LinesAndRays(rays, _line_space(span, found.lines), function, options.factory)
    return direction, f"{len(found.lines)} lines and {len(rays)} rays"


def _at_base(P: Polyhedron, view: View, rays: Array, span: Array, options: Options) -> Array:
    """Rays so long that coefficients 0 give the base point where they are independent, else points of unit size."""
    seen = span.T @ (base_point(P, options.scale) - view.base)
    weights, _, rank, _ = np.linalg.lstsq((rays @ span).T, seen, rcond=None)
    if rank == len(rays) and (weights > 0).all() and options.nonnegative is None:
        return np.asarray(rays * (weights / AT_ZERO)[:, None])
    return unit_start(rays)


def vertices(P: Polyhedron, options: Options) -> Choice:
    found = P.generators(max_generators=options.max_generators)
    beyond = None
    if len(found.rays) or len(found.lines):
        span = row_span(P)
        rays = unit_start(unit_rays(found.rays, span))
        function = options.function("softplus")
        beyond = LinesAndRays(rays, _line_space(span, found.lines), function, options.factory)
    direction = Vertices(found.vertices, beyond, weights_named(options.weights), options.factory)
    counts = f"{len(found.vertices)} vertices, {len(found.rays)} rays, {len(found.lines)} lines"
    return Choice("vertices", counts, direction, None)


def _line_space(span: Array, lines: Array) -> LineSpace | None:
    """Few lines by a basis, many by removing the span of the rows from a free u.

    The basis is the converted lines made orthonormal, in their order and with their signs: a null space from LAPACK
    would give every machine its own coefficients.
    """
    if not len(lines):
        return None
    if 2 * len(lines) < len(span):
        basis, triangle = np.linalg.qr(lines.T)
        return LineSpace((basis * np.sign(np.diag(triangle))).T, by_basis=True)
    return LineSpace(span, by_basis=False)
