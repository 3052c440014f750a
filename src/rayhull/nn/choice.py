"""Which way in for a block: by structure and budget, with the reason in words."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg

from rayhull.errors import BudgetExceededError, RayhullError
from rayhull.maps.convex_weights import Weights
from rayhull.maps.convex_weights import named as weights_named
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.nonnegative import named as nonnegative_named
from rayhull.nn.directions import Direction, Free, LinesAndRays, LineSpace, Simplicial, Vertices, unit_start
from rayhull.nn.geometry import DEPENDENT, View, homogeneous, seen_from_apex, seen_from_centre, simplicial_rays, within
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

METHODS = ("auto", "rays", "shrink", "vertices", "projection")
SIMPLICIAL_DEFAULT, RAYS_DEFAULT = "relu", "softplus"
AUTO_GENERATORS = 4  # "auto" takes the rays of a cone when there are at most this many for each coordinate ...
OBLIQUE, OBLIQUE_ROWS = 200.0, 1500  # stretch from which on "auto" warns, and rows beyond which it does not look
AUTO_LEAST = 256  # ... or this many at all


@dataclass(frozen=True)
class Options:
    """What the user chose, the same for every block."""

    method: str = "auto"
    nonnegative: str | NonNegative | None = None
    weights: str | Weights = "softmax"
    max_generators: int | None = 100_000
    opposite_rays: bool = False
    factory: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}.")

    def function(self, default: str) -> NonNegative:
        return nonnegative_named(default if self.nonnegative is None else self.nonnegative)


@dataclass(frozen=True, eq=False)
class Choice:
    """A block's way in: the direction's module, the base point with the rows that have room, and why."""

    method: str
    reason: str
    direction: Direction
    view: View | None  # None: the direction is the point itself


def choose(P: Polyhedron, options: Options) -> Choice:
    """The way into one block."""
    if not len(P.rows) and not len(P.equality_rows):
        return Choice("free", "no row holds here", Free(np.zeros((P.dim, 0)), **options.factory), None)
    if options.method == "projection":
        return Choice("projection", "asked for", Free(np.zeros((P.dim, 0)), **options.factory), None)
    if options.method == "vertices":
        return _vertices(P, options)
    if options.method == "shrink":
        return _shrink(P, options, "asked for")
    view = seen_from_apex(P)
    if view is None or not (len(view.cone) or view.equal.shape[1]):
        if options.method == "rays":
            raise RayhullError(
                "method='rays' needs a point where the rows meet (0, or the apex of independent rows), and this set "
                f"has none: {P}. Use method='shrink', which needs only an interior point, or 'vertices'."
            )
        return _shrink(P, options, "every row has room around the centre")
    if options.method == "rays":
        return _rays(P, view, options, options.max_generators)
    return _auto(P, view, options)


def _auto(P: Polyhedron, view: View, options: Options) -> Choice:
    budget = max(AUTO_LEAST, AUTO_GENERATORS * P.dim)
    try:
        return _rays(P, view, options, min(budget, options.max_generators or budget))
    except BudgetExceededError:
        return _shrink(P, options, f"the cone has more than {budget} rays")


def _shrink(P: Polyhedron, options: Options, reason: str) -> Choice:
    view = seen_from_centre(P)
    return Choice("shrink", reason, Free(view.equal, **options.factory), view)


def _rays(P: Polyhedron, view: View, options: Options, budget: int | None) -> Choice:
    """Rays of the rows that have no room at the base point; the others shrink."""
    rows = P.rows.matrix[view.cone].toarray()
    rays = None if options.opposite_rays else simplicial_rays(rows, view.equal)
    direction: Direction
    if rays is not None:
        function = options.function(SIMPLICIAL_DEFAULT)
        direction = Simplicial(within(rows, view.equal), rays, view.equal, function, **options.factory)
        reason = f"{len(rows)} independent rows: the rays are the columns of -A⁺"
        if options.method == "auto":
            _warn_if_oblique(rows, rays)
    else:
        direction, reason = _converted(P, view, options, budget)
    then = f", then {len(view.wide)} rows with room by shrinking" if len(view.wide) else ""
    return Choice("rays", reason + then, direction, view)


def _warn_if_oblique(rows: Array, rays: Array) -> None:
    """Say so where u - A⁺relu(A u) moves a point much further than it is outside: such a layer learns badly.

    Measured on noisy convex curves of 50 points (‖A‖ ‖A⁺‖ = 446): a loss of 0.16 where the nearest point has 0.001.
    """
    if len(rows) > OBLIQUE_ROWS:
        return
    stretch = float(np.linalg.norm(rows, 2) * np.linalg.norm(rays, 2))
    if stretch > OBLIQUE:
        warnings.warn(
            f"The rays of these {len(rows)} rows are nearly parallel (‖A‖ ‖A⁺‖ = {stretch:.0f}), so the layer may "
            'learn slowly: method="projection" costs more and learns well. method="rays" says that you know.',
            stacklevel=_level_of_caller(),
        )


def _level_of_caller() -> int:
    """The stacklevel (for whoever calls this) of the line outside rayhull and torch that makes the layer."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("rayhull", "torch")):
        level, frame = level + 1, frame.f_back
    return level + 1


def _converted(P: Polyhedron, view: View, options: Options, budget: int | None) -> tuple[LinesAndRays, str]:
    implicit = np.setdiff1d(np.arange(len(P.rows)), np.concatenate([view.cone, view.wide]))
    cone = homogeneous(P, view.cone, implicit)
    found = cone.generators(max_generators=budget)
    span = _row_span(cone)
    lines, rays = found.lines, _clean(found.rays, span)
    reason = f"{len(lines)} lines and {len(rays)} rays"
    function = options.function(RAYS_DEFAULT)
    if options.opposite_rays:
        lines = lines / np.linalg.norm(lines, axis=1, keepdims=True)
        rays = np.concatenate([lines, -lines, rays])
        return LinesAndRays(rays, None, function, **options.factory), reason + ", each line as two opposite rays"
    return LinesAndRays(unit_start(rays), _line_space(span, len(lines)), function, **options.factory), reason


def _vertices(P: Polyhedron, options: Options) -> Choice:
    found = P.generators(max_generators=options.max_generators)
    beyond = None
    if len(found.rays) or len(found.lines):
        span = _row_span(P)
        rays = unit_start(_clean(found.rays, span))
        function = options.function(RAYS_DEFAULT)
        beyond = LinesAndRays(rays, _line_space(span, len(found.lines)), function, **options.factory)
    direction = Vertices(found.vertices, beyond, weights_named(options.weights), **options.factory)
    counts = f"{len(found.vertices)} vertices, {len(found.rays)} rays, {len(found.lines)} lines"
    return Choice("vertices", counts, direction, None)


def _row_span(P: Polyhedron) -> Array:
    """An orthonormal basis (n, k) of the span of all rows: what is orthogonal to every line."""
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    return np.asarray(scipy.linalg.orth(rows.T / np.linalg.norm(rows, axis=1), rcond=DEPENDENT))


def _line_space(span: Array, count: int) -> LineSpace | None:
    """Few lines by a basis, many by what is left of a free u outside the span of the rows."""
    if not count:
        return None
    if 2 * count < len(span):
        return LineSpace(np.asarray(scipy.linalg.null_space(span.T)).T, by_basis=True)
    return LineSpace(span, by_basis=False)


def _clean(rays: Array, span: Array) -> Array:
    """Rays without their part along the lines (any amount of it is the same ray), at unit length."""
    rays = (rays @ span) @ span.T
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))
