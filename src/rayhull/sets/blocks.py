"""What the rows show at a glance: blocks of coordinates, which blocks are the same, rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rayhull.exact.elimination import independent_rows, sparse_rank
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

DENSE_ENTRIES = 4_000_000  # beyond this many entries rows are not made dense


@dataclass(frozen=True, eq=False)
class BlockGroup:
    """Blocks that carry the same set: ``polyhedron`` in its own coordinates, and the places where it stands.

    Block k has the flat coordinates ``index[k]``, in the order of ``polyhedron``'s; its inequality and bound rows are
    ``rows[k]`` among ``P.rows``, in the order of ``polyhedron.rows``; likewise its equalities.
    """

    polyhedron: Polyhedron
    index: Array  # (count, size)
    rows: Array  # (count, m of the block)
    equality_rows: Array  # (count, m_eq of the block)


@dataclass(frozen=True)
class _Block:
    coordinates: Array
    inequalities: Array  # positions among P.inequalities
    equalities: Array


def block_groups(P: Polyhedron) -> tuple[BlockGroup, ...]:
    """The blocks of P, identical ones together, in the order of their first coordinate."""
    place = np.empty(P.dim, np.int64)  # a coordinate's position in its block
    groups: dict[bytes, list[_Block]] = {}
    blocks = list(_split(P))
    for block in blocks:
        place[block.coordinates] = np.arange(len(block.coordinates))
    for block in blocks:
        key = _signature(P, block, place) if len(blocks) > 1 else b""
        groups.setdefault(key, []).append(block)
    number_of_row = _row_numbers(P)
    return tuple(_group(P, members, place, number_of_row) for members in groups.values())


def _split(P: Polyhedron) -> Iterator[_Block]:
    """Connected components of the coordinates, tied by the rows; bounds tie nothing."""
    A, E = P.inequalities, P.equalities
    rows = np.concatenate([A.row_of_entry, len(A) + E.row_of_entry])
    labels = tied_columns(rows, np.concatenate([A.matrix.indices, E.matrix.indices]), P.dim)
    used = [part.sizes.nonzero()[0] for part in (A, E)]
    if not labels.any():
        yield _Block(np.arange(P.dim), *used)
        return
    _, first, labels = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))  # blocks in the order of their first coordinate
    of_coordinate = rank[labels]
    parts = [_by_label(of_coordinate, np.arange(P.dim), len(first))]
    for matrix, pick in zip((A.matrix, E.matrix), used, strict=True):
        parts.append(_by_label(of_coordinate[matrix.indices[matrix.indptr[pick]]], pick, len(first)))
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
    m = len(sizes)
    starts = np.concatenate([[0], np.cumsum(sizes), np.full(width, len(rows))])
    graph = sp.csr_array((np.ones(len(rows)), columns + m, starts), shape=(m + width, m + width))
    _, labels = connected_components(graph, directed=False)
    found: Array = labels[m:].astype(np.int64)
    return found


def _by_label(labels: Array, items: Array, count: int) -> list[Array]:
    order = np.argsort(labels, kind="stable")
    return np.split(items[order], np.cumsum(np.bincount(labels, minlength=count))[:-1])


def _signature(P: Polyhedron, block: _Block, place: Array) -> bytes:
    """Equal for two blocks that state the same set with the same rows in the same order."""
    parts: list[bytes] = [len(block.coordinates).to_bytes(8)]
    for rows, pick in ((P.inequalities, block.inequalities), (P.equalities, block.equalities)):
        parts.append(len(pick).to_bytes(8))
        for i in pick:
            entries = slice(rows.matrix.indptr[i], rows.matrix.indptr[i + 1])
            parts += [place[rows.matrix.indices[entries]].tobytes(), rows.matrix.data[entries].tobytes()]
            if rows.integers is not None:
                parts.append(repr((rows.integers[0][entries].tolist(), rows.integers[1][i])).encode())
        parts.append(rows.rhs[pick].tobytes())
    for bound in (P.lower, P.upper):
        if bound is not None:
            values = bound.ravel()[block.coordinates]
            parts.append(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
    return b"|".join(parts)


def _row_numbers(P: Polyhedron) -> tuple[Array, ...]:
    """Positions in P.rows and P.equality_rows of the stated rows and of each coordinate's bounds (-1: none)."""

    def numbered(mask: Array, start: int) -> tuple[Array, int]:
        numbers = np.where(mask, np.cumsum(mask) - 1 + start, -1)
        return numbers, start + int(mask.sum())

    low, high = P.lower_bounds, P.upper_bounds
    stated, n = numbered(P.inequalities.sizes > 0, 0)
    upper, n = numbered((high < np.inf) & (low < high), n)
    lower, _ = numbered((low > -np.inf) & (low < high), n)
    stated_eq, n = numbered(P.equalities.sizes > 0, 0)
    fixed, _ = numbered(low == high, n)
    return stated, upper, lower, stated_eq, fixed


def _group(P: Polyhedron, members: list[_Block], place: Array, numbers: tuple[Array, ...]) -> BlockGroup:
    stated, upper, lower, stated_eq, fixed = numbers
    index = np.stack([b.coordinates for b in members])

    def present(parts: list[Array]) -> Array:
        table = np.concatenate(parts, axis=1)
        return table[:, table[0] >= 0]

    inequalities = np.stack([stated[b.inequalities] for b in members])
    equalities = np.stack([stated_eq[b.equalities] for b in members])
    return BlockGroup(
        _subset(P, members[0], place),
        index,
        present([inequalities, upper[index], lower[index]]),
        present([equalities, fixed[index]]),
    )


def _subset(P: Polyhedron, block: _Block, place: Array) -> Polyhedron:
    from rayhull.sets.polyhedron import Polyhedron

    size = len(block.coordinates)
    inequalities, equalities = (
        rows if size == P.dim and len(pick) == len(rows) else rows.take(pick, place, size)
        for rows, pick in ((P.inequalities, block.inequalities), (P.equalities, block.equalities))
    )

    def bound(values: Array | None) -> Any:
        part = None if values is None else values.ravel()[block.coordinates]
        return part if part is not None and np.isfinite(part.astype(float)).any() else None

    return Polyhedron.assemble(
        check=False,
        shape=(size,),
        inequalities=inequalities,
        equalities=equalities,
        A=inequalities.matrix,
        b=inequalities.rhs,
        A_eq=equalities.matrix,
        b_eq=equalities.rhs,
        lower=bound(P.lower),
        upper=bound(P.upper),
    )


def row_rank(rows: Rows) -> int:
    """The rank of the rows: exact for integers (modulo a prime), by singular values for floats."""
    if rows.integers is not None:
        small = len(rows) * rows.dim <= DENSE_ENTRIES
        return len(independent_rows(rows.dense_integers()[0])[0]) if small else sparse_rank(rows)
    return int(np.linalg.matrix_rank(rows.matrix.toarray())) if len(rows) else 0
