"""Sets put together and taken apart: products, one set along an axis; and the blocks of a set.

A set is the product over its blocks, the groups of coordinates that no row ties together. Blocks that carry the same
set, or its mirror image, are worked on once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, compress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, alike, as_fraction, joined, whole
from rayhull.sets.polyhedron import Polyhedron, need_set
from rayhull.sets.reading import Shape, as_array, as_shape, by_name
from rayhull.sets.rows import Names, Rows, indexed
from rayhull.sets.statement import CoordinateNames

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet


def product(*sets: Polyhedron, shape: Shape | None = None) -> Polyhedron:
    """The product of sets on disjoint coordinates: (x1, x2, ...) with each xi in its set, flat and in order.

    ``shape`` is the event shape, where it should be another one.

    Examples:
        >>> import rayhull as rh
        >>> rh.product(rh.simplex(3), rh.box(-1, 1, 2))
        Polyhedron(shape=(5,): 1 equality, x >= -1 .. 0, x <= 1.0 for 2 of 5)
    """
    if not sets:
        raise ValueError("product needs at least one set.")
    for s in sets:
        need_set(s)
    dim = sum(s.dim for s in sets)
    event = (dim,) if shape is None else as_shape(shape)
    if math.prod(event) != dim:
        raise ValueError(f"the sets have {dim} coordinates together, which do not fill shape {event}.")
    places = np.split(np.arange(dim)[None], np.cumsum([s.dim for s in sets])[:-1], axis=1)

    def moved(kind: str) -> Rows:
        return Rows.stack([_placed(getattr(s, kind), own, dim) for s, own in zip(sets, places, strict=True)])

    def bound(name: str, none: float) -> Array | None:
        values = [getattr(s, name) for s in sets]
        if all(v is None for v in values):
            return None
        filled = [np.full(s.dim, none) if v is None else v.ravel() for s, v in zip(sets, values, strict=True)]
        return joined(filled).reshape(event)

    parts = moved("inequalities"), moved("equalities"), bound("lower", -math.inf), bound("upper", math.inf)
    return Polyhedron.from_rows(*parts, event, check=False, coordinate_names=_names(sets))


def _placed(rows: Rows, places: Array, dim: int) -> Rows:
    """The rows once for each line of ``places`` (copies, d of the rows), on those of ``dim`` coordinates."""
    copies = rows.take(np.tile(np.arange(len(rows)), len(places)))
    return replace(copies, indices=places[:, rows.indices].ravel(), dim=dim, dense=False)


def _names(sets: Sequence[Polyhedron]) -> CoordinateNames | None:
    """The names of all coordinates, where each set has names and none occurs twice."""
    starts = accumulate((s.dim for s in sets), initial=0)
    named = [(s.coordinate_names, start) for s, start in zip(sets, starts, strict=False) if s.coordinate_names]
    listed = tuple(name for names, _ in named for name in names.names)
    if len(named) < len(sets) or len(set(listed)) < len(listed):
        return None
    bounds = {(i + start, side): name for names, start in named for (i, side), name in names.bounds.items()}
    return CoordinateNames(listed, bounds)


def along(P: Polyhedron, shape: Shape, axis: int = -1) -> Polyhedron:
    """The set P of one axis, stated for every line of a larger event shape along ``axis``.

    Examples:
        >>> import rayhull as rh
        >>> rh.along(rh.Polyhedron([[1, 1, 1]], [2]), (5, 3))
        Polyhedron(shape=(5, 3): 5 inequalities)
    """
    need_set(P)
    event = as_shape(shape)
    n = axis_length(event, axis)
    if P.dim != n:
        raise ValueError(f"axis {axis} of shape {event} has length {n}, but the set has {P.dim} coordinates.")
    if len(event) == 1:
        return P
    places = np.moveaxis(np.arange(math.prod(event)).reshape(event), axis, -1).reshape(-1, n)

    def repeated(rows: Rows, letter: str) -> Rows:
        found = _placed(rows, places, places.size)
        return replace(found, names=Names.by(partial(indexed, letter, shape=(len(found),)), np.arange(len(found))))

    def bound(values: Array | None) -> Array | None:
        if values is None:
            return None
        out = np.empty(places.size, values.dtype)
        out[places] = values.ravel()
        return out.reshape(event)

    rows, equalities = repeated(P.inequalities, "A"), repeated(P.equalities, "A_eq")
    return Polyhedron.from_rows(rows, equalities, bound(P.lower), bound(P.upper), event, check=False)


def units_of(P: Polyhedron, mean: Any, std: Any) -> tuple[Array, Array]:
    """Mean and std, flat (d,), by name where they have labels; floats that are meant as exact numbers as such."""
    found, shape = [], P.shape
    for name, given in (("mean", mean), ("std", std)):
        values = as_array(by_name(P, given), name)
        if values.shape not in ((), shape, (math.prod(shape),)):
            raise ValueError(f"{name} must be a number or have shape {shape}, got shape {values.shape}.")
        exact = [as_fraction(v) for v in values.ravel().tolist()]
        if None not in exact:
            values = np.array([whole(v) for v in exact], object).reshape(values.shape)
        found.append(np.broadcast_to(values.reshape(-1) if values.ndim else values, (math.prod(shape),)))
    if not (np.isfinite(found[0].astype(float)) & (found[1] > 0) & (found[1] < math.inf)).all():
        raise ValueError("mean must be finite, and std positive and finite: leave out a column that does not vary.")
    return found[0], found[1]


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


# -- blocks ------------------------------------------------------------------------------------------------------------


KINDS = 32  # of intervals that maps into a set tell apart
Parts = list[Array] | Array  # an array for each block; a matrix of one row each where nothing ties the coordinates


@dataclass(frozen=True, eq=False)
class BlockGroup:
    """Blocks that carry the same set: ``polyhedron`` in its own coordinates, and the places where it stands.

    Block k has the flat coordinates ``index[k]``, in the order of ``polyhedron``'s; its inequality and bound rows are
    ``rows[k]`` among ``P.rows``, in the order of ``polyhedron.rows``; likewise its equalities. Where ``sign[k]`` is -1
    the block carries the mirror image: x is in it when -x is in ``polyhedron``.
    """

    polyhedron: Polyhedron
    index: Array  # (count, size)
    rows: Array  # (count, m of the block)
    equality_rows: Array  # (count, m_eq of the block)
    sign: Array  # (count,) +1 or -1
    apart: bool = False  # intervals side by side, every one of them a block

    @property
    def blocks(self) -> Array:
        """The coordinates of each block (\\*, n)."""
        return self.index.reshape(-1, 1) if self.apart else self.index


def block_groups(P: Polyhedron, *, mirrored: bool = False, most: float = math.inf) -> tuple[BlockGroup, ...]:
    """The blocks of P, identical ones together, each group in the order of its first coordinates.

    Args:
        mirrored: mirror images together too. A checkerboard has dark and bright tiles: two sets, of which one is the
            other's mirror image, and then one product.
        most: kinds of intervals beyond which all of them are one group, side by side: each would take milliseconds.
    """
    grouping = _Grouping(P, *_split(P))
    if len(grouping.coordinates) > 1:
        return grouping.groups(mirrored=mirrored, most=most)
    is_flat = P.shape == (P.dim,) and P.inequalities.sizes.all() and P.equalities.sizes.all()
    return (_whole(P) if is_flat else grouping.whole(),)  # itself: what is known of it is found once


def apart_from(S: ConvexSet) -> tuple[BlockGroup, ...]:
    """The blocks of a set that no cone touches, then all other coordinates as one block, with the cones."""
    P, touched = S.polyhedron, np.zeros(S.dim, bool)
    touched[np.concatenate([cone.index for cone in S.cones])] = True
    parts = _split(P)
    tied = np.array([touched[own].any() for own in parts[0]])
    free = [list(compress(part, ~tied)) for part in parts]
    whole = [np.sort(np.concatenate(list(compress(part, tied)))) for part in parts]
    own = _Grouping(P, *([part] for part in whole)).whole()
    if not tied.all() or S.shape != (S.dim,):
        cones = [replace(cone, index=np.searchsorted(whole[0], cone.index)) for cone in S.cones]
        S = type(S)(own.polyhedron, cones, check=False)
    own = replace(own, polyhedron=S)  # type: ignore[arg-type]
    return (*_Grouping(P, *free).groups(mirrored=True, most=KINDS), own)


def _split(P: Polyhedron) -> tuple[Parts, Parts, Parts]:
    """Coordinates, inequalities and equalities of each block, in the order of its first coordinate.

    Blocks are the connected components of the coordinates, tied by the rows; bounds tie nothing.
    """
    A, E = P.inequalities, P.equalities
    used = P.layout.inequalities, P.layout.equalities
    if not len(A) and not len(E):
        none = np.zeros((P.dim, 0), np.int64)
        return np.arange(P.dim)[:, None], none, none
    rows = np.concatenate([A.row_of_entry, len(A) + E.row_of_entry])
    labels = tied_columns(rows, np.concatenate([A.indices, E.indices]), P.dim)
    if not labels.any():
        return [np.arange(P.dim)], [used[0]], [used[1]]
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    of_coordinate = rank[labels]
    row_labels = (of_coordinate[part.indices[part.indptr[pick]]] for part, pick in zip((A, E), used, strict=True))
    labelled = zip((of_coordinate, *row_labels), (np.arange(P.dim), *used), strict=True)
    coordinates, inequalities, equalities = (_by_label(label, items, len(first)) for label, items in labelled)
    return coordinates, inequalities, equalities


def tied_columns(rows: Array, columns: Array, width: int) -> Array:
    """A label for each of ``width`` columns, the same for columns that a chain of rows ties together.

    Args:
        rows, columns: the places of the entries, row by row.
    """
    if not len(rows):
        return np.arange(width)
    sizes = np.bincount(rows)
    if sizes.max() == width:  # one row ties all of them
        return np.zeros(width, np.int64)
    from scipy.sparse.csgraph import connected_components  # here: a first projection may do without

    m = len(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes), np.full(width, len(rows))])
    graph = sp.csr_array((np.ones(len(rows)), columns + m, starts), shape=(m + width, m + width))
    _, labels = connected_components(graph, directed=False)
    found: Array = labels[m:].astype(np.int64)
    return found


def _by_label(labels: Array, items: Array, count: int) -> list[Array]:
    order = np.argsort(labels, kind="stable")
    return np.split(items[order], np.cumsum(np.bincount(labels, minlength=count))[:-1])


class _Grouping:
    """The blocks of one set, compared by the numbers that were stated."""

    def __init__(self, P: Polyhedron, coordinates: Parts, inequalities: Parts, equalities: Parts) -> None:
        self.P, self.coordinates, self.inequalities, self.equalities = P, coordinates, inequalities, equalities
        self.place = np.zeros(P.dim, np.int64)  # a coordinate's position in its block
        for own in coordinates if isinstance(coordinates, list) else ():
            self.place[own] = np.arange(len(own))
        none = np.full(P.dim, np.inf)
        low, high = (-none if P.lower is None else P.lower.ravel()), (none if P.upper is None else P.upper.ravel())
        self.bounds = np.stack(alike([low, high]))  # (2, d)

    def groups(self, *, mirrored: bool, most: float) -> tuple[BlockGroup, ...]:
        own, known = self.coordinates, dict[Hashable, int]()
        label = np.array([known.setdefault(key, len(known)) for key in self._signatures()], np.int64)
        firsts = np.array([part[0] for part in own], np.int64) if isinstance(own, list) else own[:, 0]
        alone = self.P.intervals[firsts]
        if len(np.unique(label[alone])) <= most:
            return self._alike(label, np.arange(len(label)), mirrored=mirrored)
        others = np.flatnonzero(~alone)
        return self._side_by_side(firsts[alone]), *self._alike(label[others], others, mirrored=mirrored)

    def _side_by_side(self, own: Array) -> BlockGroup:
        """Intervals as one group, whose set has a block for each of them."""
        none = np.zeros(0, np.int64)
        found = _Grouping(self.P, [own], [none], [none]).whole()
        made = found.polyhedron
        made.mirrored_groups = (replace(made.block_groups[0], apart=True),)
        del made.block_groups
        return replace(found, apart=True)

    def _alike(self, label: Array, numbers: Array, *, mirrored: bool) -> tuple[BlockGroup, ...]:
        """Blocks of one label together, and mirror images with them, in the order of their numbers."""
        kinds: list[list[tuple[Array, int]]] = []  # numbers of blocks, and their sign
        mirrors: dict[Hashable, list[tuple[Array, int]]] = {}  # from the signature of a kind's mirror image to the kind
        for own in _by_label(label, numbers, label.max(initial=-1) + 1):
            if not len(own):
                continue
            found = mirrors.get(self._signature(own[0], 1)) if mirrored else None
            if found is not None:
                found.append((own, -1))
                continue
            kinds.append([(own, 1)])
            if mirrored:
                mirrors.setdefault(self._signature(own[0], -1), kinds[-1])
        return tuple(self._of_kind(kind) for kind in kinds)

    def _of_kind(self, kind: list[tuple[Array, int]]) -> BlockGroup:
        numbers = np.concatenate([own for own, _ in kind])
        sign = np.concatenate([np.full(len(own), sign) for own, sign in kind])
        order = np.argsort(numbers)
        return self.group(numbers[order], sign[order])

    def _signatures(self) -> Iterable[Hashable]:
        """Equal for two blocks that state the same set with the same rows in the same order."""
        if isinstance(self.coordinates, list):
            return (self._signature(i, 1) for i in range(len(self.coordinates)))
        return zip(*self.bounds.tolist(), strict=True)  # without a look at each of them

    def _signature(self, block: int, sign: int) -> Hashable:
        """The signature of a block, or with sign -1 of its mirror image."""
        own = self.coordinates[block]
        bounds = self.bounds[:, own] if sign > 0 else -self.bounds[::-1, own]
        if not isinstance(self.coordinates, list):
            return tuple(bounds[:, 0].tolist())
        parts: list[bytes] = [len(own).to_bytes(8)]
        P = self.P
        for rows, pick in ((P.inequalities, self.inequalities[block]), (P.equalities, self.equalities[block])):
            parts.append(len(pick).to_bytes(8))
            for i in pick:
                entries = slice(rows.indptr[i], rows.indptr[i + 1])
                parts += [self.place[rows.indices[entries]].tobytes(), _bytes(sign * rows.data[entries])]
            parts.append(_bytes(rows.offsets[pick]))
        return b"|".join([*parts, _bytes(bounds)])

    def whole(self) -> BlockGroup:
        """The group of the first block alone."""
        return self.group(np.zeros(1, np.int64), np.ones(1, np.int64))

    def group(self, numbers: Array, sign: Array) -> BlockGroup:
        """The group of the given blocks, with their signs."""
        layout, parts = self.P.layout, (self.coordinates, self.inequalities, self.equalities)
        index, inequalities, equalities = (
            np.stack([p[i] for i in numbers]) if isinstance(p, list) else p[numbers] for p in parts
        )
        upper, lower, fixed = layout.bounds_of(index)
        upper, lower = (np.where(sign[:, None] > 0, *pair) for pair in ((upper, lower), (lower, upper)))
        rows = _present(np.searchsorted(layout.inequalities, inequalities), upper, lower)
        equality_rows = _present(np.searchsorted(layout.equalities, equalities), fixed)
        return BlockGroup(self._subset(numbers[0]), index, rows, equality_rows, sign)

    def _subset(self, block: int) -> Polyhedron:
        P, own = self.P, self.coordinates[block]
        inequalities = P.inequalities.take(self.inequalities[block], self.place, len(own))
        equalities = P.equalities.take(self.equalities[block], self.place, len(own))
        names = None if P.coordinate_names is None else P.coordinate_names.take(own)

        def bound(values: Array | None) -> Array | None:
            part = None if values is None else values.ravel()[own]
            return part if part is not None and np.isfinite(part.astype(float)).any() else None

        parts = inequalities, equalities, bound(P.lower), bound(P.upper)
        made = Polyhedron.from_rows(*parts, (len(own),), check=False, coordinate_names=names)
        made.block_groups = made.mirrored_groups = (_whole(made),)  # its coordinates are tied: no need to look again
        return made


def _whole(P: Polyhedron) -> BlockGroup:
    """A set of one block as its only group."""
    layout = P.layout
    rows = np.arange(len(layout.inequalities) + len(layout.upper) + len(layout.lower))
    equality_rows = np.arange(len(layout.equalities) + len(layout.fixed))
    return BlockGroup(P, np.arange(P.dim)[None, :], rows[None, :], equality_rows[None, :], np.ones(1, np.int64))


def _bytes(values: Array) -> bytes:
    """Numbers as bytes, equal for equal ones: 0.0 and -0.0 alike, Python numbers written out."""
    return repr(values.tolist()).encode() if values.dtype == object else (values + 0).tobytes()


def _present(*tables: Array) -> Array:
    """Rows side by side, without the columns of bounds that the blocks do not have."""
    table = np.concatenate(tables, axis=1)
    return table[:, table[0] >= 0]
