"""Which way in for a block: by structure and budget, with the reason in words."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.errors import BudgetExceededError, RayhullError
from rayhull.maps.convex_weights import Weights
from rayhull.maps.convex_weights import named as weights_named
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.nonnegative import named as nonnegative_named
from rayhull.nn.approach import Step
from rayhull.nn.base_point import (
    DEPENDENT,
    View,
    homogeneous,
    near_one,
    seen_from_apex,
    seen_from_centre,
    simplicial_rays,
    unconstrained,
    unit_rows,
    within,
)
from rayhull.nn.constants import Factory
from rayhull.nn.directions import (
    Direction,
    Free,
    LinesAndRays,
    LineSpace,
    NearestPoint,
    Simplicial,
    Vertices,
    unit_start,
)
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

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


def choose(P: Polyhedron, options: Options) -> Choice:
    """The way into one block."""
    if options.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {options.method!r}.")
    if not len(P.rows) and not len(P.equality_rows):
        return Choice("free", "no row holds here", Free(np.zeros((P.dim, 0)), options.factory), unconstrained(P))
    return METHODS[options.method](P, options)


def _auto(P: Polyhedron, options: Options) -> Choice:
    view = _apex(P)
    if view is None:
        return _shrink(P, options, "every row has slack at the centre")
    budget = max(AUTO_LEAST, AUTO_GENERATORS * P.dim)
    try:
        return _from_apex(P, view, options, min(budget, options.max_generators or budget))
    except BudgetExceededError:
        return _shrink(P, options, f"the cone has more than {budget} rays")


def _apex(P: Polyhedron) -> View | None:
    """The set seen from a point where some of its rows meet, if there is one."""
    view = seen_from_apex(P)
    return view if view is not None and (len(view.cone) or view.equal.shape[1]) else None


def _shrink(P: Polyhedron, options: Options, reason: str = "asked for") -> Choice:
    view = seen_from_centre(P)
    return Choice("shrink", reason, Free(view.equal, options.factory), view)


def _nearest(P: Polyhedron, options: Options) -> Choice:
    return Choice("projection", "asked for", NearestPoint(P, options.factory), None)


def _rays(P: Polyhedron, options: Options) -> Choice:
    view = _apex(P)
    if view is None:
        raise RayhullError(
            "method='rays' needs a point where the rows meet (0, or the apex of independent rows), and this set "
            f"has none: {P}. Use method='shrink', which needs only an interior point, or 'vertices'."
        )
    return _from_apex(P, view, options, options.max_generators)


def _from_apex(P: Polyhedron, view: View, options: Options, budget: int | None) -> Choice:
    """Rays of the rows that have no slack at the base point; the others shrink."""
    rows = P.rows.matrix[view.cone].toarray()
    rows = rows * near_one(rows)[:, None]
    rays = simplicial_rays(rows, view.equal)
    direction: Direction
    if rays is not None:
        function = options.function(SIMPLICIAL_DEFAULT)
        direction = Simplicial(within(rows, view.equal), rays, view.equal, function, options.factory)
        reason = f"{len(rows)} independent rows: the rays are the columns of -A⁺"
        if options.method == "auto":
            _warn_if_oblique(rows, rays)
    else:
        direction, reason = _converted(P, view, options, budget)
    then = f", then {len(view.loose)} rows with slack by shrinking" if len(view.loose) else ""
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
    found, span = cone_at(P, view, budget)
    rays, lines = unit_start(found.rays), _line_space(span, found.lines)
    function = options.function(RAYS_DEFAULT)
    return LinesAndRays(rays, lines, function, options.factory), f"{len(found.lines)} lines and {len(rays)} rays"


@dataclass(frozen=True, eq=False)
class Cone:
    """The lines and rays (unit length, orthogonal to the lines) of the rows that meet at a base point."""

    lines: Array
    rays: Array


def cone_at(P: Polyhedron, view: View, budget: int | None) -> tuple[Cone, Array]:
    """That cone, and an orthonormal basis (n, k) of what is orthogonal to its lines."""
    implicit = np.setdiff1d(np.arange(len(P.rows)), np.concatenate([view.cone, view.loose]))
    cone = homogeneous(P, view.cone, implicit)
    found, span = cone.generators(max_generators=budget), _row_span(cone)
    return Cone(found.lines, _clean(found.rays, span)), span


def _vertices(P: Polyhedron, options: Options) -> Choice:
    found = P.generators(max_generators=options.max_generators)
    beyond = None
    if len(found.rays) or len(found.lines):
        span = _row_span(P)
        rays = unit_start(_clean(found.rays, span))
        function = options.function(RAYS_DEFAULT)
        beyond = LinesAndRays(rays, _line_space(span, found.lines), function, options.factory)
    direction = Vertices(found.vertices, beyond, weights_named(options.weights), options.factory)
    counts = f"{len(found.vertices)} vertices, {len(found.rays)} rays, {len(found.lines)} lines"
    return Choice("vertices", counts, direction, None)


def _row_span(P: Polyhedron) -> Array:
    """An orthonormal basis (n, k) of the span of all rows: what is orthogonal to every line."""
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    return np.asarray(scipy.linalg.orth(unit_rows(rows).T, rcond=DEPENDENT))


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


def _clean(rays: Array, span: Array) -> Array:
    """Rays without their part along the lines (any amount of it is the same ray), at unit length."""
    rays = (rays @ span) @ span.T
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))


Way = Callable[["Polyhedron", Options], Choice]

METHODS: dict[str, Way] = {
    "auto": _auto,
    "rays": _rays,
    "shrink": _shrink,
    "vertices": _vertices,
    "projection": _nearest,
}
