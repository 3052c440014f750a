"""The kinds of blocks of a set: blocks that carry the same set, or its mirror image, share one product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.blocks import BlockGroup
    from rayhull.sets.polyhedron import Polyhedron


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks that carry the same set or its mirror image -x: their coordinates, signs and rows.

    A row of ``rows`` is aligned with ``polyhedron.rows`` only as far as stated rows go: a mirror image has its upper
    bounds where the others have lower ones.
    """

    polyhedron: Polyhedron
    index: Array  # (count, size) flat coordinates
    sign: Array  # (count,) +1, or -1 where the block is the mirror image
    rows: Array  # (count, m) positions among P.rows
    equality_rows: Array  # (count, m_eq) positions among P.equality_rows


def blocks_of(P: Polyhedron) -> list[Blocks]:
    """The blocks of P, mirror images together, each list in the order of its first coordinates.

    A checkerboard has dark and bright tiles: two sets, of which one is the other's mirror image, and one product.
    """
    kinds: dict[bytes, list[tuple[BlockGroup, int]]] = {}
    for group in P.block_groups:
        plain, mirrored = _signature(group.polyhedron, 1), _signature(group.polyhedron, -1)
        if mirrored in kinds:
            kinds[mirrored].append((group, -1))
        else:
            kinds.setdefault(plain, []).append((group, 1))
    return [_joined(members) for members in kinds.values()]


def _signature(P: Polyhedron, sign: int) -> bytes:
    """Equal for two blocks exactly where one states the other's set: floats, and the exact numbers behind them."""
    parts = [P.dim.to_bytes(8)]
    for rows in (P.inequalities, P.equalities):
        matrix = rows.matrix
        parts += [matrix.indptr.astype(np.int64).tobytes(), matrix.indices.astype(np.int64).tobytes()]
        parts += [(sign * matrix.data).tobytes(), (rows.rhs + 0.0).tobytes(), _integers(rows, sign)]
    bounds = (P.lower, P.upper) if sign > 0 else (_negated(P.upper), _negated(P.lower))
    return b"|".join([*parts, *(_numbers(bound) for bound in bounds)])


def _integers(rows: Rows, sign: int) -> bytes:
    if rows.integers is None:
        return b""
    data, rhs = rows.integers
    return repr(((sign * data).tolist(), rhs.tolist())).encode()


def _negated(bound: Array | None) -> Array | None:
    return None if bound is None else -bound.astype(object)


def _numbers(bound: Array | None) -> bytes:
    """The bound's numbers, written so that 1, 1.0 and Fraction(1) look alike and two different numbers never do."""
    if bound is None:
        return b"none"
    return repr([str(v) if v in (np.inf, -np.inf) else v.as_integer_ratio() for v in bound.ravel().tolist()]).encode()


def _joined(members: Sequence[tuple[BlockGroup, int]]) -> Blocks:
    index = np.concatenate([group.index for group, _ in members])
    sign = np.concatenate([np.full(len(group.index), s) for group, s in members])
    rows = np.concatenate([group.rows for group, _ in members])
    equality_rows = np.concatenate([group.equality_rows for group, _ in members])
    order = np.argsort(index[:, 0])
    return Blocks(members[0][0].polyhedron, index[order], sign[order], rows[order], equality_rows[order])
