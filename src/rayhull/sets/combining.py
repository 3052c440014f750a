"""Sets from sets: products on disjoint coordinates, intersections of many, one set along an axis of a larger shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, joined
from rayhull.sets.names import CoordinateNames
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape, as_shape
from rayhull.sets.rows import Rows


def product(*sets: Polyhedron, shape: Shape | None = None) -> Polyhedron:
    """The product of sets on disjoint coordinates: (x1, x2, ...) with each xi in its set, flat and in order.

    Examples:
        >>> import rayhull as rh
        >>> rh.product(rh.simplex(3), rh.box(-1, 1, 2))
        Polyhedron(shape=(5,): 1 equality, x >= -1 .. 0, x <= 1.0 .. inf)
    """
    _refuse_others(sets, "product")
    dim = sum(s.dim for s in sets)
    event = (dim,) if shape is None else as_shape(shape)
    if math.prod(event) != dim:
        raise ValueError(f"the sets have {dim} coordinates together, which do not fill shape {event}.")
    offsets = np.concatenate([[0], np.cumsum([s.dim for s in sets])])

    def moved(rows: Rows, i: int) -> Rows:
        spread = rows.take(np.arange(len(rows)), np.arange(rows.dim) + offsets[i], dim)
        return replace(spread, dense=False)

    def bound(name: str, none: float) -> Array | None:
        values = [getattr(s, name) for s in sets]
        if all(v is None for v in values):
            return None
        filled = [np.full(s.dim, none) if v is None else v.ravel() for s, v in zip(sets, values, strict=True)]
        return joined(filled).reshape(event)

    return Polyhedron.from_rows(
        Rows.stack([moved(s.inequalities, i) for i, s in enumerate(sets)]),
        Rows.stack([moved(s.equalities, i) for i, s in enumerate(sets)]),
        bound("lower", -math.inf),
        bound("upper", math.inf),
        event,
        check=False,
        coordinate_names=_names(sets),
    )


def _names(sets: Sequence[Polyhedron]) -> CoordinateNames | None:
    """The names of all coordinates, where each set has names and none occurs twice."""
    named = [s.coordinate_names for s in sets]
    listed = tuple(name for names in named if names is not None for name in names.names)
    if None in named or len(set(listed)) < len(listed):
        return None
    bounds: dict[tuple[int, str], str] = {}
    for s, start in zip(sets, np.cumsum([0] + [s.dim for s in sets]), strict=False):
        assert s.coordinate_names is not None
        bounds |= {(i + int(start), side): name for (i, side), name in s.coordinate_names.bounds.items()}
    return CoordinateNames(listed, bounds)


def intersection(sets: Iterable[Polyhedron]) -> Polyhedron:
    """The points in every one of the sets.

    Examples:
        >>> import rayhull as rh
        >>> rh.intersection([rh.monotone(5), rh.convex(5), rh.nonnegative(5)])
        Polyhedron(shape=(5,): 7 inequalities, x >= 0)
    """
    sets = list(sets)
    _refuse_others(sets, "intersection")
    result = sets[0]
    for s in sets[1:]:
        result = result & s
    return result


def _refuse_others(sets: Sequence[Any], name: str) -> None:
    if not sets:
        raise ValueError(f"{name} needs at least one set.")
    for s in sets:
        if not isinstance(s, Polyhedron):
            hint = ": give it a shape, box(-1, 1, 3)" if type(s).__name__ == "ShapelessBox" else ""
            raise ValueError(f"{name} takes sets, got {s!r}{hint}.")


def along(P: Polyhedron, shape: Shape, axis: int = -1) -> Polyhedron:
    """The set P of one axis, stated for every line of a larger event shape along ``axis``.

    Examples:
        >>> import rayhull as rh
        >>> rh.along(rh.Polyhedron([[1, 1, 1]], [2]), (5, 3))
        Polyhedron(shape=(5, 3): 5 inequalities)
    """
    event = as_shape(shape)
    n = axis_length(event, axis)
    if P.dim != n:
        raise ValueError(f"axis {axis} of shape {event} has length {n}, but the set has {P.dim} coordinates.")
    if len(event) == 1:
        return P
    places = np.moveaxis(np.arange(math.prod(event)).reshape(event), axis, -1).reshape(-1, n)
    copies = len(places)

    def repeated(matrix: Any) -> Any:
        entries = sp.coo_array(matrix)
        m = entries.shape[0]
        row = (entries.row + m * np.arange(copies)[:, None]).ravel()
        column = places[:, entries.col].ravel()
        return sp.csr_array((np.tile(entries.data, copies), (row, column)), shape=(m * copies, places.size))

    def bound(values: Array | None) -> Array | None:
        if values is None:
            return None
        out = np.empty(places.size, values.dtype)
        out[places] = values.ravel()
        return out

    return Polyhedron(
        repeated(P.A),
        np.tile(P.b, copies),
        repeated(P.A_eq),
        np.tile(P.b_eq, copies),
        bound(P.lower),
        bound(P.upper),
        shape=event,
    )


def axis_length(shape: Shape, axis: int, least: int = 1) -> int:
    """The length of one axis of an event shape, at least ``least``."""
    event = as_shape(shape)
    if not isinstance(axis, int | np.integer):
        raise ValueError(f"axis must be a whole number, got {axis!r}.")
    if not -len(event) <= axis < len(event):
        raise ValueError(f"axis {axis} is out of range for shape {event}.")
    if event[axis] < least:
        raise ValueError(f"axis {axis} of shape {event} needs a length of at least {least}, got {event[axis]}.")
    return event[axis]
