"""Ways in that need no conversion: closed forms, the shrink, dual steps before it, the nearest point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import RayhullError
from rayhull.nn.approach import Clamp, DualSteps, Step
from rayhull.nn.base_point import View, seen_from_inside
from rayhull.nn.closed_forms import Chain, Order, Shift, one_row, partial_order
from rayhull.nn.coordinates import Round, coordinates_at
from rayhull.nn.directions import NearestPoint
from rayhull.nn.way import Choice, Options
from rayhull.sets.interior import base_point

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STEPS = 10  # of method="approach", where the user says nothing


def inside(P: Polyhedron, options: Options) -> View:
    """The block seen from the user's base point, or from one in the scale of the data."""
    return seen_from_inside(P, base_point(P, options.scale) if options.base is None else options.base)


def has_bounds(P: Polyhedron) -> bool:
    return bool(np.isfinite(P.lower_bounds).any() or np.isfinite(P.upper_bounds).any())


def shrink(P: Polyhedron, options: Options, reason: str = "asked for") -> Choice:
    """Round coordinates, bounds clamped, the rest by shrinking towards the base point."""
    view = inside(P, options)
    direction = Round(coordinates_at(P, view, options.scale), view.equal, options.factory)
    clamps = has_bounds(P) and len(P.inequalities) > 0 and not view.equal.shape[1]
    return Choice("shrink", reason, direction, view, (Clamp(P, options.factory),) if clamps else ())


def approach(P: Polyhedron, options: Options, reason: str = "asked for", *, round_metric: bool = False) -> Choice:
    """k dual steps towards the nearest point, Euclidean or in round coordinates, then the shrink."""
    view, steps = inside(P, options), STEPS if options.approach is None else options.approach
    matrix = coordinates_at(P, view, options.scale)
    if round_metric and matrix.ndim == 1:
        raise RayhullError(f"round coordinates of {P.dim} coordinates are too many for dual steps: use the plain ones.")
    direction = Round(matrix, view.equal, options.factory)
    step: Step = DualSteps(P, view, steps, options.factory, matrix if round_metric else None)
    return Choice("approach", reason, direction, view, (step,))


def projection(P: Polyhedron, options: Options, reason: str = "asked for") -> Choice:
    """The nearest point, from coefficients in the units of the set."""
    view = inside(P, options)
    matrix = coordinates_at(P, view, options.scale)
    return Choice("projection", reason, NearestPoint(P, view.base, matrix, options.factory), None)


def order(P: Polyhedron, options: Options) -> Choice:
    """A chain by its own increments, another partial order between its majorant and minorant."""
    found = partial_order(P)
    if found is None:
        raise RayhullError(
            "method='order' needs rows x_i <= x_j and bounds that are the same for every coordinate, which is not what "
            f"{P} states. Use method='auto'."
        )
    base = inside(P, options).base
    if found.path is not None:
        direction = Chain(found.path, found, base, options.scale, options.factory)
        return Choice("order", f"a chain of {P.dim} by its own increments", direction, None)
    reason = f"a partial order of {len(found.pairs)} pairs: (least majorant + greatest minorant) / 2"
    return Choice("order", reason, Order(found, base, options.scale, options.factory), None)


def shift(P: Polyhedron, options: Options) -> Choice:
    """One row and bounds: the nearest point in closed form."""
    if not one_row(P):
        raise RayhullError(f"method='shift' needs one row and bounds, which is not what {P} states: use 'auto'.")
    view = inside(P, options)
    matrix = coordinates_at(P, view, options.scale, diagonal=True)
    return Choice("shift", "one row and bounds: a clipped shift", Shift(P, view.base, matrix, options.factory), None)
