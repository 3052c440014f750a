"""Base points of a block, and the block seen from there: rows that meet in the point, rows with slack. In float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import RayhullError
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

DEPENDENT = 1e-9  # singular values below this share of the largest count as 0


@dataclass(frozen=True, eq=False)
class View:
    """A block seen from a base point: the rows that hold with equality there, and those with slack."""

    base: Array  # (n,)
    cone: Array  # numbers of the rows a·x <= b with a·base = b
    loose: Array  # numbers of the rows with slack
    slack: Array  # (len(loose),) b - a·base > 0
    equal: Array  # (n, k) orthonormal basis of the equalities' row space


def unconstrained(P: Polyhedron) -> View:
    """A block without rows, seen from 0."""
    none = np.zeros(0, np.int64)
    return View(np.zeros(P.dim), none, none, np.zeros(0), np.zeros((P.dim, 0)))


def seen_from_inside(P: Polyhedron, point: Array) -> View:
    """From an interior point every row that is not an equality has slack."""
    implicit = P.centre.implicit
    loose = np.flatnonzero(~implicit)
    slack = P.rows.rhs[loose] - P.rows.matrix[loose] @ point
    if (slack <= 0).any():
        worst = P.rows.names[loose[int(slack.argmin())]]
        raise RayhullError(
            f"the set is too thin for its interior point: {worst} has no slack there. State the narrow directions as "
            "equalities."
        )
    return View(point, np.zeros(0, np.int64), loose, slack, equality_basis(P, implicit))


def seen_from_apex(P: Polyhedron) -> View | None:
    """From 0, or from the point where independent rows meet; None if the set has no such natural base point."""
    if not P.equality_rows.rhs.any() and (P.rows.rhs >= 0).all():
        return _seen_from(P, np.zeros(P.dim))
    if np.isfinite(P.lower_bounds).any() and P.dim > 1:  # a bounded side makes the rows dependent
        return None
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    if len(rows) > P.dim or not _independent(rows):
        return None
    scale = near_one(rows)
    rhs = np.concatenate([P.rows.rhs, P.equality_rows.rhs])
    base = np.linalg.lstsq(rows * scale[:, None], rhs * scale, rcond=None)[0]
    basis = equality_basis(P, np.zeros(len(P.rows), bool))
    return View(base, np.arange(len(P.rows)), np.zeros(0, np.int64), np.zeros(0), basis)


def _seen_from(P: Polyhedron, base: Array) -> View | None:
    tight = P.rows.rhs == 0
    if not tight.any() and len(P.rows):
        return None
    implicit = np.zeros(len(P.rows), bool)
    together = np.concatenate([P.rows.matrix[np.flatnonzero(tight)].toarray(), P.equality_rows.matrix.toarray()])
    if len(together) > P.dim or not _independent(together):  # only dependent rows can hide an equality
        implicit = P.centre.implicit
    cone, loose = np.flatnonzero(tight & ~implicit), np.flatnonzero(~tight)
    return View(base, cone, loose, P.rows.rhs[loose], equality_basis(P, implicit))


def near_one(rows: Array) -> Array:
    """Powers of two (m,) that bring the largest number of each row between 1/2 and 1: products with them are exact."""
    _, exponent = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    return np.asarray(np.ldexp(1.0, -exponent))


def unit_rows(rows: Array) -> Array:
    """Rows of length 1: scaled first, so that no square overflows or vanishes."""
    rows = rows * near_one(rows)[:, None]
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _independent(rows: Array) -> bool:
    if not len(rows):
        return True
    values = np.linalg.svd(unit_rows(rows), compute_uv=False)
    return bool(values[-1] > DEPENDENT * values[0])


def equality_basis(P: Polyhedron, implicit: Array) -> Array:
    """An orthonormal basis (n, k) of the span of the equalities and of the rows that hold with equality everywhere."""
    rows = sp.vstack([P.independent_equalities.matrix, P.rows.matrix[np.flatnonzero(implicit)]]).toarray()
    if not len(rows):
        return np.zeros((P.dim, 0))
    return np.asarray(scipy.linalg.orth(unit_rows(rows).T, rcond=DEPENDENT))


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

    equalities = Rows.stack([P.equality_rows, P.rows.take(equal)]).homogeneous()
    return Polyhedron.from_rows(P.rows.take(rows).homogeneous(), equalities, None, None, (P.dim,), check=False)
