"""What a layer needs to know of a block, in float64: where it stands, its base point, its cone rows and its room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import RayhullError
from rayhull.sets.centre import centre
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.blocks import BlockGroup
    from rayhull.sets.polyhedron import Polyhedron

DEPENDENT = 1e-9  # singular values below this share of the largest count as 0


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks that carry the same set or its mirror image -x: their coordinates, signs and rows."""

    polyhedron: Polyhedron
    index: Array  # (count, size) flat coordinates
    sign: Array  # (count,) +1, or -1 where the block is the mirror image
    rows: Array  # (count, m) positions among P.rows, in the order of polyhedron.rows


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
    parts = [P.dim.to_bytes(8)]
    for rows in (P.inequalities, P.equalities):
        matrix = rows.matrix
        parts += [matrix.indptr.astype(np.int64).tobytes(), matrix.indices.astype(np.int64).tobytes()]
        parts += [(sign * matrix.data).tobytes(), (rows.rhs + 0.0).tobytes()]
    low, high = (P.lower_bounds, P.upper_bounds) if sign > 0 else (-P.upper_bounds, -P.lower_bounds)
    return b"|".join([*parts, (low + 0.0).tobytes(), (high + 0.0).tobytes()])


def _joined(members: Sequence[tuple[BlockGroup, int]]) -> Blocks:
    index, sign, rows = [], [], []
    for group, s in members:
        index.append(group.index)
        sign.append(np.full(len(group.index), s))
        rows.append(group.rows if s > 0 else group.rows[:, _mirrored_rows(group.polyhedron)])
    order = np.argsort(np.concatenate(index)[:, 0])
    first = members[0][0].polyhedron
    return Blocks(first, np.concatenate(index)[order], np.concatenate(sign)[order], np.concatenate(rows)[order])


def _mirrored_rows(P: Polyhedron) -> Array:
    """The order of P's rows that matches the rows of its mirror image: upper and lower bounds change places."""
    loose = P.lower_bounds < P.upper_bounds
    up, low = int((loose & np.isfinite(P.upper_bounds)).sum()), int((loose & np.isfinite(P.lower_bounds)).sum())
    stated = len(P.rows) - up - low
    return np.concatenate([np.arange(stated), np.arange(low) + stated + up, np.arange(up) + stated])


@dataclass(frozen=True, eq=False)
class View:
    """A block seen from a base point: the rows that hold with equality there, and those with room."""

    base: Array  # (n,)
    cone: Array  # numbers of the rows a·x <= b with a·base = b
    wide: Array  # numbers of the rows with room
    room: Array  # (len(wide),) b - a·base > 0
    equal: Array  # (n, k) orthonormal basis of the equalities' row space


def seen_from_centre(P: Polyhedron) -> View:
    """From the well-centred interior point every row that is not an equality has room."""
    middle = centre(P)
    wide = np.flatnonzero(~middle.implicit)
    room = P.rows.rhs[wide] - P.rows.matrix[wide] @ middle.point
    if (room <= 0).any():
        raise RayhullError(
            f"the set is too thin for its interior point: {P.rows.names[wide[int(room.argmin())]]} has no room there. "
            "State the narrow directions as equalities."
        )
    return View(middle.point, np.zeros(0, np.int64), wide, room, _equality_basis(P, middle.implicit))


def seen_from_apex(P: Polyhedron) -> View | None:
    """From 0, or from the point where independent rows meet; None if the set has no such natural base point."""
    if not P.equality_rows.rhs.any() and (P.rows.rhs >= 0).all():
        return _seen_from(P, np.zeros(P.dim))
    if np.isfinite(P.lower_bounds).any() and P.dim > 1:  # a bounded side makes the rows dependent
        return None
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    if len(rows) > P.dim or not _independent(rows):
        return None
    base = np.linalg.lstsq(rows, np.concatenate([P.rows.rhs, P.equality_rows.rhs]), rcond=None)[0]
    basis = _equality_basis(P, np.zeros(len(P.rows), bool))
    return View(base, np.arange(len(P.rows)), np.zeros(0, np.int64), np.zeros(0), basis)


def _seen_from(P: Polyhedron, base: Array) -> View | None:
    tight = P.rows.rhs == 0
    if not tight.any() and len(P.rows):
        return None
    implicit = np.zeros(len(P.rows), bool)
    together = np.concatenate([P.rows.matrix[np.flatnonzero(tight)].toarray(), P.equality_rows.matrix.toarray()])
    if len(together) > P.dim or not _independent(together):  # only dependent rows can hide an equality
        implicit = centre(P).implicit
    cone, wide = np.flatnonzero(tight & ~implicit), np.flatnonzero(~tight)
    return View(base, cone, wide, P.rows.rhs[wide], _equality_basis(P, implicit))


def _independent(rows: Array) -> bool:
    if not len(rows):
        return True
    values = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] > DEPENDENT * values[0])


def _equality_basis(P: Polyhedron, implicit: Array) -> Array:
    rows = sp.vstack([P.equality_rows.matrix, P.rows.matrix[np.flatnonzero(implicit)]]).toarray()
    if not len(rows):
        return np.zeros((P.dim, 0))
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(scipy.linalg.orth(rows.T, rcond=DEPENDENT))


def within(rows: Array, equal: Array) -> Array:
    """Rows (m, n) less their part in the equalities' row space: the same values on the affine hull."""
    return rows - (rows @ equal) @ equal.T


def simplicial_rays(rows: Array, equal: Array) -> Array | None:
    """The rays -A⁺ (m, n) of {A y <= 0, E y = 0} if its rows are independent, else None."""
    inside = within(rows, equal)
    if len(rows) > rows.shape[1] - equal.shape[1] or not _independent(inside):
        return None
    return np.asarray(-np.linalg.pinv(inside).T)


def homogeneous(P: Polyhedron, rows: Array, equal: Array) -> Polyhedron:
    """The cone of the given rows a·y <= 0, with every equality of P, and the rows ``equal``, as a·y = 0."""
    from rayhull.sets.polyhedron import Polyhedron

    equalities = Rows.stack([P.equality_rows, P.rows.take(equal)])
    parts: dict[str, Any] = {"shape": (P.dim,), "lower": None, "upper": None}
    for (name, matrix, offsets), old in (
        (("inequalities", "A", "b"), P.rows.take(rows)),
        (("equalities", "A_eq", "b_eq"), equalities),
    ):
        integers = None if old.integers is None else (old.integers[0], np.zeros_like(old.integers[1]))
        moved = Rows(old.matrix, np.zeros_like(old.rhs), integers, old.names)
        parts |= {name: moved, matrix: moved.matrix, offsets: moved.rhs}
    return Polyhedron.assemble(check=False, **parts)
