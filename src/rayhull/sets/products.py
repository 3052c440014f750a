"""Sets put together and taken apart: products, one set along an axis; and the blocks of a set.

A set is the product over its blocks, the groups of coordinates that no row ties together. Blocks that carry the same
set, or its mirror image, are worked on once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array, add, alike, as_fraction, grouped_sums, joined, multiply, reciprocals, whole
from rayhull.sets.polyhedron import Polyhedron, need_set
from rayhull.sets.reading import Shape, as_array, as_shape
from rayhull.sets.rows import Rows
from rayhull.sets.statement import CoordinateNames

if TYPE_CHECKING:
    from rayhull.sets.cones import ConvexSet


def product(*sets: Polyhedron, shape: Shape | None = None) -> Polyhedron:
    """The product of sets on disjoint coordinates: (x1, x2, ...) with each xi in its set, flat and in order.

    Examples:
        >>> import rayhull as rh
        >>> rh.product(rh.simplex(3), rh.box(-1, 1, 2))
        Polyhedron(shape=(5,): 1 equality, x >= -1 .. 0, x <= 1.0 .. inf)
    """
    if not sets:
        raise ValueError("product needs at least one set.")
    for s in sets:
        need_set(s)
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


def in_units(P: Polyhedron, mean: Any, std: Any) -> Polyhedron:
    """See :meth:`rayhull.Polyhedron.in_units`: a·(mean + std z) <= b is (a std)·z <= b - a·mean."""
    centre, unit = units_of(P.shape, mean, std)
    inverse = reciprocals(unit)

    def moved(rows: Rows) -> Rows:
        shift = grouped_sums(multiply(rows.data, centre[rows.indices]), rows.row_of_entry, len(rows))
        return replace(rows, data=multiply(rows.data, unit[rows.indices]), offsets=add(rows.offsets, -shift))

    def bound(values: Array | None) -> Array | None:
        return None if values is None else multiply(add(values.ravel(), -centre), inverse).reshape(P.shape)

    parts = moved(P.inequalities), moved(P.equalities), bound(P.lower), bound(P.upper)
    return Polyhedron.from_rows(*parts, P.shape, check=False, coordinate_names=P.coordinate_names)


def units_of(shape: tuple[int, ...], mean: Any, std: Any) -> tuple[Array, Array]:
    """Mean and std, flat (d,); floats that are meant as exact numbers as such."""
    found = []
    for name, given in (("mean", mean), ("std", std)):
        values = as_array(given, name)
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


@dataclass(frozen=True)
class _Block:
    coordinates: Array
    inequalities: Array  # positions among P.inequalities
    equalities: Array


def block_groups(P: Polyhedron, *, mirrored: bool = False) -> tuple[BlockGroup, ...]:
    """The blocks of P, identical ones together, each group in the order of its first coordinates.

    Args:
        mirrored: mirror images together too. A checkerboard has dark and bright tiles: two sets, of which one is the
            other's mirror image, and then one product.
    """
    if not len(P.inequalities) and not len(P.equalities) and P.dim > 1:
        return _Grouping(P, []).alone(mirrored=mirrored)
    blocks = list(_split(P))
    if len(blocks) == 1:
        flat = _flat(P)
        return (_whole(P),) if flat is P else flat.block_groups
    return _Grouping(P, blocks).groups(mirrored=mirrored)


def apart_from(S: ConvexSet) -> tuple[BlockGroup, ...]:
    """The blocks of a set that no cone touches, then all other coordinates as one block, with the cones."""
    P, touched = S.polyhedron, np.zeros(S.dim, bool)
    touched[np.concatenate([cone.index for cone in S.cones])] = True
    blocks = list(_split(P))
    tied = [block for block in blocks if touched[block.coordinates].any()]
    free = [block for block in blocks if not touched[block.coordinates].any()]
    fields = ("coordinates", "inequalities", "equalities")
    whole = _Block(*(np.sort(np.concatenate([getattr(block, name) for block in tied])) for name in fields))
    own = _Grouping(P, [*free, whole])._group([(whole, 1)])
    own = replace(own, polyhedron=S.restricted(own.polyhedron, whole.coordinates))  # type: ignore[arg-type]
    return (*_Grouping(P, free).groups(mirrored=True), own)


def _split(P: Polyhedron) -> Iterator[_Block]:
    """Connected components of the coordinates, tied by the rows; bounds tie nothing."""
    A, E = P.inequalities, P.equalities
    used = P.layout.inequalities, P.layout.equalities
    if len(A) and A.sizes.max() == P.dim:  # one row ties all of them
        yield _Block(np.arange(P.dim), *used)
        return
    rows = np.concatenate([A.row_of_entry, len(A) + E.row_of_entry])
    labels = tied_columns(rows, np.concatenate([A.indices, E.indices]), P.dim)
    if not labels.any():
        yield _Block(np.arange(P.dim), *used)
        return
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))  # blocks in the order of their first coordinate
    of_coordinate = rank[labels]
    parts = [_by_label(of_coordinate, np.arange(P.dim), len(first))]
    for part, pick in zip((A, E), used, strict=True):
        parts.append(_by_label(of_coordinate[part.indices[part.indptr[pick]]], pick, len(first)))
    for coordinates, inequalities, equalities in zip(*parts, strict=True):
        yield _Block(coordinates, inequalities, equalities)


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

    def __init__(self, P: Polyhedron, blocks: list[_Block]) -> None:
        self.P, self.blocks = P, blocks
        self.place = np.empty(P.dim, np.int64)  # a coordinate's position in its block
        for block in self.blocks:
            self.place[block.coordinates] = np.arange(len(block.coordinates))
        none = np.full(P.dim, np.inf)
        low, high = (-none if P.lower is None else P.lower.ravel()), (none if P.upper is None else P.upper.ravel())
        self.bounds = np.stack(alike([low, high]))  # (2, d)

    def groups(self, *, mirrored: bool) -> tuple[BlockGroup, ...]:
        kinds: dict[bytes, list[tuple[_Block, int]]] = {}
        mirrors: dict[bytes, bytes] = {}  # from the signature of a kind's mirror image to the kind
        for block in self.blocks:
            key, sign = self._signature(block, 1), 1
            if mirrored and key not in kinds:
                if key in mirrors:
                    key, sign = mirrors[key], -1
                else:
                    mirrors.setdefault(self._signature(block, -1), key)
            kinds.setdefault(key, []).append((block, sign))
        return tuple(self._group(members) for members in kinds.values())

    def alone(self, *, mirrored: bool) -> tuple[BlockGroup, ...]:
        """Coordinates that nothing ties, those with the same bounds together: without a look at each of them."""
        low, high = self.bounds if self.bounds.dtype != object else np.array([_ranks(b) for b in self.bounds])
        pairs = np.empty(self.P.dim, complex)  # sorts as a pair
        pairs.real, pairs.imag = low, high
        known, first, kind = np.unique(pairs, return_index=True, return_inverse=True)
        number = {(pair.real, pair.imag): k for k, pair in enumerate(known)} if self.bounds.dtype != object else {}
        sign, to = np.ones(len(known), np.int64), np.arange(len(known))
        for k in np.argsort(first):
            image = number.get((-known[k].imag, -known[k].real), k)
            if mirrored and first[image] < first[k]:
                sign[k], to[k] = -1, image
        members, signs = to[kind.ravel()], sign[kind.ravel()]
        order = [int(k) for k in np.argsort(first) if to[k] == k]
        return tuple(self._group_alone(np.flatnonzero(members == k), signs) for k in order)

    def _group_alone(self, coordinates: Array, signs: Array) -> BlockGroup:
        none, blocks = np.zeros(0, np.int64), np.zeros((len(coordinates), 0), np.int64)
        first = _Block(coordinates[:1], none, none)
        self.place[coordinates[0]] = 0
        return self._placed(first, coordinates[:, None], signs[coordinates], blocks, blocks)

    def _signature(self, block: _Block, sign: int) -> bytes:
        """Equal for two blocks that state the same set with the same rows in the same order; -1: its mirror image."""
        parts: list[bytes] = [len(block.coordinates).to_bytes(8)]
        for rows, pick in ((self.P.inequalities, block.inequalities), (self.P.equalities, block.equalities)):
            parts.append(len(pick).to_bytes(8))
            for i in pick:
                entries = slice(rows.indptr[i], rows.indptr[i + 1])
                parts += [self.place[rows.indices[entries]].tobytes(), _bytes(sign * rows.data[entries])]
            parts.append(_bytes(rows.offsets[pick]))
        bounds = self.bounds[:, block.coordinates]
        parts.append(_bytes(bounds if sign > 0 else -bounds[::-1]))
        return b"|".join(parts)

    def _group(self, members: list[tuple[_Block, int]]) -> BlockGroup:
        layout = self.P.layout
        inequalities = np.searchsorted(layout.inequalities, np.stack([block.inequalities for block, _ in members]))
        equalities = np.searchsorted(layout.equalities, np.stack([block.equalities for block, _ in members]))
        index, sign = np.stack([block.coordinates for block, _ in members]), np.array([s for _, s in members])
        return self._placed(members[0][0], index, sign, inequalities, equalities)

    def _placed(self, first: _Block, index: Array, sign: Array, inequalities: Array, equalities: Array) -> BlockGroup:
        layout = self.P.layout
        upper, lower, fixed = layout.upper_row_of(index), layout.lower_row_of(index), layout.fixed_row_of(index)
        upper, lower = (np.where(sign[:, None] > 0, *pair) for pair in ((upper, lower), (lower, upper)))
        return BlockGroup(
            self._subset(first),
            index,
            _present(inequalities, upper, lower),
            _present(equalities, fixed),
            sign,
        )

    def _subset(self, block: _Block) -> Polyhedron:
        P, size = self.P, len(block.coordinates)
        inequalities = P.inequalities.take(block.inequalities, self.place, size)
        equalities = P.equalities.take(block.equalities, self.place, size)
        names = None if P.coordinate_names is None else P.coordinate_names.take(block.coordinates)

        def bound(values: Array | None) -> Array | None:
            part = None if values is None else values.ravel()[block.coordinates]
            return part if part is not None and np.isfinite(part.astype(float)).any() else None

        return _single(inequalities, equalities, bound(P.lower), bound(P.upper), names)


def _flat(P: Polyhedron) -> Polyhedron:
    """A set of one block in flat coordinates, without its rows of zeros: the set itself where that is what it is."""
    inequalities, equalities = P.inequalities.without_zeros(), P.equalities.without_zeros()
    if P.shape == (P.dim,) and inequalities is P.inequalities and equalities is P.equalities:
        return P  # what is known of it is found once
    lower, upper = (None if bound is None else bound.ravel() for bound in (P.lower, P.upper))
    return _single(inequalities, equalities, lower, upper, P.coordinate_names)


def _single(
    inequalities: Rows, equalities: Rows, lower: Array | None, upper: Array | None, names: CoordinateNames | None
) -> Polyhedron:
    """A set whose coordinates are known to be tied: no need to look again."""
    shape = (inequalities.dim,)
    made = Polyhedron.from_rows(inequalities, equalities, lower, upper, shape, check=False, coordinate_names=names)
    made.block_groups = made.mirrored_groups = (_whole(made),)
    return made


def _whole(P: Polyhedron) -> BlockGroup:
    """A set of one block as its only group."""
    rows, equality_rows = np.arange(P.layout.lower_rows.stop), np.arange(P.layout.fixed_rows.stop)
    return BlockGroup(P, np.arange(P.dim)[None, :], rows[None, :], equality_rows[None, :], np.ones(1, np.int64))


def _ranks(values: Array) -> Array:
    """Numbers of any kind as numbers that are equal where they are: their places in order."""
    order = {value: rank for rank, value in enumerate(sorted(set(values.tolist())))}
    return np.array([order[value] for value in values.tolist()], np.float64)


def _bytes(values: Array) -> bytes:
    """Numbers as bytes, equal for equal ones: 0.0 and -0.0 alike, Python numbers written out."""
    return repr(values.tolist()).encode() if values.dtype == object else (values + 0).tobytes()


def _present(*tables: Array) -> Array:
    """Rows side by side, without the columns of bounds that the blocks do not have."""
    table = np.concatenate(tables, axis=1)
    return table[:, table[0] >= 0]
