"""Ways in along lines and rays, and by convex weights of vertices: what a conversion gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.errors import RayhullError
from rayhull.maps.simplex import named as weights_named
from rayhull.nn.base_point import (
    DEPENDENT,
    View,
    homogeneous,
    near_one,
    seen_from_apex,
    simplicial_rays,
    unit_rows,
    within,
)
from rayhull.nn.directions import Choice, Direction, Options
from rayhull.nn.generators import LinesAndRays, LineSpace, Simplicial, Slacks, Vertices, unit_start
from rayhull.sets.interior import base_point
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

ORTHOGONAL = 1.5  # ‖A‖ ‖A⁺‖ up to which u - A⁺relu(A u) is next to the nearest point
AGAINST = -0.2  # least cosine between rays from which on coefficients of their own learn badly
AT_ZERO = float(np.log(2))  # softplus(0)


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
    rays, lines = _at_base(P, view, found.rays, span, options), _line_space(span, found.lines)
    function = options.function("softplus")
    return LinesAndRays(rays, lines, function, options.factory), f"{len(found.lines)} lines and {len(rays)} rays"


def _at_base(P: Polyhedron, view: View, rays: Array, span: Array, options: Options) -> Array:
    """Rays so long that coefficients 0 give the base point where they are independent, else points of unit size."""
    seen = span.T @ (base_point(P, options.scale) - view.base)
    weights, _, rank, _ = np.linalg.lstsq((rays @ span).T, seen, rcond=None)
    if rank == len(rays) and (weights > 0).all() and options.nonnegative is None:
        return np.asarray(rays * (weights / AT_ZERO)[:, None])
    return unit_start(rays)


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


def vertices(P: Polyhedron, options: Options) -> Choice:
    found = P.generators(max_generators=options.max_generators)
    beyond = None
    if len(found.rays) or len(found.lines):
        span = _row_span(P)
        rays = unit_start(_clean(found.rays, span))
        function = options.function("softplus")
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
