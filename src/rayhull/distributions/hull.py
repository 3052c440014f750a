"""A block as its densities see it, in float64: the affine hull, a centre, the rows that bound it there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from rayhull.sets.equalities import affine_hull
from rayhull.sets.interior import base_point
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

FLAT = 1e-9  # rows shorter than this share of their length within the hull do not bound it
DEPENDENT = 1e-9  # singular values below this share of the largest count as 0


@dataclass(frozen=True, eq=False)
class Hull:
    """x = base + basis y, with A x <= b for the m rows that bound the set within its hull."""

    base: Array  # (n,) a point of the relative interior, in the scale of the data
    basis: Array  # (n, k) orthonormal
    A: Array  # (m, n)
    b: Array  # (m,)

    @property
    def within(self) -> Array:
        """The rows in the hull's own coordinates, (m, k)."""
        return np.asarray(self.A @ self.basis)

    @property
    def slack(self) -> Array:
        """b - A base > 0, (m,)."""
        return np.asarray(self.b - self.A @ self.base)


def hull_of(P: Polyhedron) -> Hull:
    """The affine hull of P, from its stated and its implicit equalities."""
    middle = P.centre
    equal = affine_hull(P, middle.implicit)[0].toarray()
    basis = np.asarray(scipy.linalg.null_space(equal)) if len(equal) else np.eye(P.dim)
    loose = np.flatnonzero(~middle.implicit)
    A, b = P.rows.matrix[loose].toarray(), P.rows.rhs[loose]
    bounding = np.linalg.norm(A @ basis, axis=1) > FLAT * np.linalg.norm(A, axis=1)
    return Hull(base_point(P), basis, A[bounding], b[bounding])


def independent(rows: Array) -> bool:
    """Whether no row is a combination of the others, up to rounding."""
    if not len(rows):
        return True
    if len(rows) > rows.shape[1]:
        return False
    values = np.linalg.svd(rows / np.linalg.norm(rows, axis=1, keepdims=True), compute_uv=False)
    return bool(values[-1] > DEPENDENT * values[0])
