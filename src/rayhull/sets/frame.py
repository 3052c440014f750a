r"""A block seen from a base point: rows that meet there, rows with slack, the unit of its coordinates. In float64.

Round coordinates: in them the set looks like a ball around its base point.

.. math:: y = H^{-1/2} c, \qquad H = \sum_i \frac{a_i a_i^T}{σ_i^2} + ρ

H is the Hessian of the log barrier at the base point, σ the slacks there; {y : yᵀ H y <= 1} is Dikin's ellipsoid, which
lies inside the set. Coefficients of unit size then move each row by a fair share of its slack, however thin or small
the set is. An unbounded set has directions that no row bounds: there ρ is such that standard normal coefficients give
points whose root mean square is the scale of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import RayhullError
from rayhull.sets.interior import affine_hull, base_point
from rayhull.sets.reading import as_array, by_name
from rayhull.sets.rows import Array, Rows
from rayhull.sets.rows import unit_rows as sparse_unit_rows
from rayhull.sets.systems import System, independent_sparse_rows

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup
    from rayhull.sets.statement import Statement

EPS = 2.0**-53  # the unit roundoff of float64
DEPENDENT = 1e-9  # singular values below this share of the largest count as 0
CLEAR = 1e-9  # slack beyond rounding, relative to the terms of the row
SMALLEST, BISECTIONS = 1e-14, 80
FEW, DENSE = 256, 1000  # coordinates up to which units come from singular values, and from more than a diagonal
COORDINATES, ENTRIES = 2000, 1_000_000  # of a block, and of its rows as a dense matrix, beyond which maps stay sparse
PROBES = 16  # vectors of signs for the trace of an inverse: a few percent
SPARSE = 8  # a dense matrix may have this many times the entries of the rows
UNPROVED = "strict=True needs an interior point with provable slack, and {} has none: the set is too thin for float64."


@dataclass(frozen=True, eq=False)
class Frame:
    """A block seen from a base point: the rows that hold with equality there, and those with slack."""

    base: Array  # (n,)
    cone: Array  # numbers of the rows a·x <= b with a·base = b
    loose: Array  # numbers of the rows with slack
    slack: Array  # (len(loose),) b - a·base > 0
    equal: Array | sp.sparray  # (n, k) orthonormal basis of the equalities' row space; independent rows of a large set


def is_large(P: Statement) -> bool:
    """Whether maps into a block keep its rows sparse: dense ones are for any device and for graphs."""
    return P.dim > COORDINATES or P.dim * len(P.inequalities) > ENTRIES


def inside(P: Polyhedron, point: Array | None = None, scale: float = 1.0) -> Frame:
    """From an interior point, by default one in the scale of the data: every row that is not an equality has slack."""
    implicit = P.centre.implicit if point is None else implicit_rows(P, point)
    point = base_point(P, scale) if point is None else point
    loose = np.flatnonzero(~implicit)
    slack = P.rows.rhs[loose] - P.rows.matrix[loose] @ point
    refuse_thin(P, loose, slack, "the set is too thin for its interior point: {} has no slack there.")
    return Frame(point, np.zeros(0, np.int64), loose, slack, equality_basis(P, implicit))


def implicit_rows(P: Polyhedron, point: Array) -> Array:
    """Which rows hold with equality everywhere (m,): none, if all have clear slack at the point; else the centre says.

    A centre takes cubes of the dimension, which a user's base point spares.
    """
    size = abs(P.rows.matrix) @ np.abs(point) + np.abs(P.rows.rhs)
    clear = P.rows.rhs - P.rows.matrix @ point > CLEAR * size
    return np.zeros(len(clear), bool) if clear.all() else P.centre.implicit


def at_apex(P: Polyhedron) -> Frame | None:
    """From 0, or from the point where independent rows meet; None if the set has no such natural base point."""
    if not P.equality_rows.rhs.any() and (P.rows.rhs >= 0).all():
        return _at_zero(P)
    if np.isfinite(P.lower_bounds).any() and P.dim > 1:  # a bounded side makes the rows dependent
        return None
    every = Rows.stack([P.rows, P.equality_rows])
    if not _independent(every):
        return None
    matrix, rhs, _ = every.scaled
    base = np.linalg.lstsq(matrix.toarray(), rhs, rcond=None)[0]
    basis = equality_basis(P, np.zeros(len(P.rows), bool))
    return Frame(base, np.arange(len(P.rows)), np.zeros(0, np.int64), np.zeros(0), basis)


def _at_zero(P: Polyhedron) -> Frame | None:
    tight = P.rows.rhs == 0
    if not tight.any() and len(P.rows):
        return None
    meet = Rows.stack([P.rows.take(np.flatnonzero(tight)), P.equality_rows])
    implicit = np.zeros(len(tight), bool) if _independent(meet) else P.centre.implicit  # dependent rows can hide one
    cone, loose = np.flatnonzero(tight & ~implicit), np.flatnonzero(~tight)
    return Frame(np.zeros(P.dim), cone, loose, P.rows.rhs[loose], equality_basis(P, implicit))


def _independent(rows: Rows) -> bool:
    return len(rows) <= rows.dim and independent(rows.unit[0].toarray())


def independent(unit: Array) -> bool:
    """Whether no row of length 1 is a combination of the others, up to rounding."""
    return not len(unit) or bool(np.linalg.matrix_rank(unit, rtol=DEPENDENT) == len(unit))


def equality_basis(P: Statement, implicit: Array) -> Array | sp.sparray:
    """A basis (n, k) of the span of the equalities and of the rows that hold with equality everywhere.

    It is orthonormal; of a large set it is sparse, rows of the set of length 1.
    """
    rows = affine_hull(P, implicit)[0]
    if is_large(P):
        return sp.csc_array((rows[independent_sparse_rows(rows)] if implicit.any() else rows).T)
    return _span(rows)


def _span(rows: sp.csr_array) -> Array:
    """An orthonormal basis (n, k) of the span of rows of length 1."""
    found = scipy.linalg.orth(rows.toarray().T, rcond=DEPENDENT) if rows.shape[0] else np.zeros((rows.shape[1], 0))
    return np.asarray(found)


def homogeneous(P: Polyhedron, rows: Array, equal: Array) -> Polyhedron:
    """The cone of the given rows a·y <= 0, with every equality of P, and the rows ``equal``, as a·y = 0."""
    from rayhull.sets.polyhedron import Polyhedron

    equalities = Rows.stack([P.equality_rows, P.rows.take(equal)]).homogeneous()
    return Polyhedron.from_rows(P.rows.take(rows).homogeneous(), equalities, None, None, (P.dim,), check=False)


def slack_below(P: Polyhedron, numbers: Array, point: Array, *, cone: bool = False) -> Array:
    """Lower bounds of b - a·point, or of 0 - a·point, for the given rows: float64, less its own rounding error."""
    matrix = P.rows.matrix[numbers]
    rhs = np.zeros(len(numbers)) if cone else P.rows.rhs[numbers]
    size = abs(matrix) @ np.abs(point) + np.abs(rhs)
    return np.asarray(rhs - matrix @ point - (np.diff(matrix.indptr) + 8) * 2 * EPS * size)


def refuse_thin(P: Polyhedron, numbers: Array, slack: Array, message: str = UNPROVED) -> None:
    """Raise where a row has no slack at the interior point; ``message`` has a place for its name."""
    if (slack <= 0).any():
        worst = P.rows.names[numbers[int(slack.argmin())]]
        raise RayhullError(f"{message.format(worst)} State the narrow directions as equalities.")


def cone_at(P: Polyhedron, frame: Frame, budget: int | None) -> tuple[Generators, Array]:
    """Lines and rays of the rows that meet at a base point, and an orthonormal basis (n, k) of the rows' span."""
    implicit = np.setdiff1d(np.arange(len(P.rows)), np.concatenate([frame.cone, frame.loose]))
    cone = homogeneous(P, frame.cone, implicit)
    return cone.generators(max_generators=budget), row_span(cone)


def row_span(P: Polyhedron) -> Array:
    """An orthonormal basis (n, k) of the span of all rows: what is orthogonal to every line."""
    return _span(Rows.stack([P.rows, P.equality_rows]).unit[0])


def unit_rows(rows: Array) -> Array:
    """Dense rows of any scale at length 1."""
    return np.asarray(sparse_unit_rows(sp.csr_array(rows), np.zeros(len(rows)))[0].toarray())


def unit_rays(rays: Array, span: Array) -> Array:
    """Rays without their part along the lines (any amount of it is the same ray), at unit length."""
    return unit_rows((rays @ span) @ span.T)


def interior_ray(P: Polyhedron) -> Array | None:
    """A direction r, max|r| = 1, along which every row gains slack; None for a set that has none."""
    if P.is_bounded:
        return None
    middle = homogeneous(P, np.arange(len(P.rows)), np.zeros(0, np.int64)).centre
    return None if middle.implicit.any() else np.asarray(middle.point / np.abs(middle.point).max())


def units_at(P: Polyhedron, frame: Frame, scale: float) -> Array:
    """What a unit coefficient moves each coordinate by (n,): one length for all, none wider than its own bounds.

    The length is the root mean square of how far Dikin's ellipsoid at the base point reaches along the coordinates; in
    an unbounded set it is the scale of the data.
    """
    if P.intervals.all():  # each has its own length
        width = P.upper_bounds - P.lower_bounds
        curvature = (P.upper_bounds - frame.base) ** -2 + (frame.base - P.lower_bounds) ** -2
        curvature += SMALLEST * np.maximum(1.0, curvature)
        return np.minimum(1 / np.sqrt(curvature), np.where(np.isinf(width), scale, width))
    return units_seen(P, sp.csr_array(P.rows.matrix[frame.loose]), frame.slack, frame.equal, scale)


def units_seen(P: Any, rows: sp.csr_array, slack: Array, equal: Array | sp.sparray, scale: float) -> Array:
    """The same from the rows with slack, or from a set's rules seen from the base point."""
    weighted = sp.csr_array(sp.diags_array(1 / slack) @ rows)
    sparse = P.dim > DENSE or (P.dim > FEW and SPARSE * rows.nnz < P.dim**2)  # such sets stay sparse
    if sparse and equal.shape[1]:
        stated = P.independent_equalities.unit[0]  # sparse, where the basis is dense
        unit = _reach_along(weighted, stated if stated.shape[0] == equal.shape[1] else sp.csr_array(equal.T))
        unit = unit if P.is_bounded else min(unit, scale)
    else:
        curvature = np.asarray(weighted.power(2).sum(0)).ravel() if sparse else _curvatures(weighted.toarray(), equal)
        reach = 1 / (curvature + ridge(curvature, None if P.is_bounded else scale, P.dim))
        unit = float(np.sqrt(reach.sum() / P.dim))
    width = P.upper_bounds - P.lower_bounds
    return np.where(width > 0, np.minimum(unit, width), unit)


def _reach_along(weighted: sp.csr_array, equal: sp.csr_array) -> float:
    """The root mean square of 1 / sqrt(h) for the eigenvalues h of WᵀW along independent rows: by the trace of the
    inverse, from its products with vectors of signs. A single coordinate may be bounded by the equalities alone.
    """
    d = weighted.shape[1]
    least = SMALLEST * float(weighted.power(2).sum(0).max(initial=1.0))
    soft = np.concatenate([np.ones(weighted.shape[0]), np.zeros(equal.shape[0])])
    system = System(np.full(d, least), sp.csr_array(sp.vstack([weighted, equal])), soft)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (d, PROBES))
    return float(np.sqrt(abs((signs * system(signs)).sum()) / signs.size))


def _curvatures(weighted: Array, equal: Array | sp.sparray) -> Array:
    """Eigenvalues of WᵀW along the equalities, whose row space has the basis ``equal`` (d, k)."""
    equal = _span(sp.csr_array(equal.T)) if sp.issparse(equal) else equal  # many dense rows, and sparse equalities
    d, k = equal.shape
    along = weighted - (weighted @ equal) @ equal.T if k else weighted
    if d > FEW:
        return np.maximum(np.linalg.eigvalsh(along.T @ along)[k:], 0.0)
    values = np.linalg.svd(along, compute_uv=False)[: d - k]  # singular values keep a thin set's digits
    return np.concatenate([values**2, np.zeros(d - k - len(values))])


def base_of_each(P: Polyhedron, base: Any, kinds: Sequence[BlockGroup]) -> list[Array]:
    """The user's base point for each kind of block, refused where it is not strictly inside.

    A kind takes the mean over its places, which is inside because the set is convex.
    """
    flat = as_array(by_name(P, base), "base").astype(np.float64).reshape(-1)
    if flat.shape != (P.dim,):
        raise ValueError(f"base must be a point of shape {P.shape}, got shape {tuple(np.shape(base))}.")
    slack = P.rows.rhs - P.rows.matrix @ flat
    if not P.contains(flat.reshape(P.shape)) or (slack[~implicit_rows(P, flat)] <= 0).any():
        raise ValueError(
            "base must be strictly inside: every row needs slack there. Leave it out, or give another point."
        )
    return [np.asarray((flat[kind.index] * kind.sign[:, None]).mean(0)) for kind in kinds]


# -- round coordinates -----------------------------------------------------------------------------------------------


def round_coordinates(rows: Array, slack: Array, size: float | None = None) -> Array:
    """M = H^(-1/2) (d, d), symmetric, H = AᵀA with the rows over their slacks.

    Args:
        rows: the inequalities' rows (m, d).
        slack: b - A x0 (m,), positive.
        size: the scale of the data where the set is unbounded; None for a bounded set, which has its own.
    """
    d = rows.shape[1]
    _, values, directions = np.linalg.svd(rows / slack[:, None], full_matrices=True)
    curvature = np.concatenate([values**2, np.zeros(d - len(values))])
    return np.asarray((directions.T / np.sqrt(curvature + ridge(curvature, size, d))) @ directions)


def ridge(curvature: Array, size: float | None, d: int) -> float:
    """ρ >= 0 with sum 1 / (h + ρ) <= d R², by bisection; next to nothing where R is None.

    Examples:
        >>> import numpy as np
        >>> from rayhull.sets.frame import ridge
        >>> round(ridge(np.array([0.0, 0.0, 1e6, 1e6]), 1.0, 4), 3)          # two free directions of four
        0.5
    """
    least = SMALLEST * float(curvature.max(initial=1.0))
    if size is None or (1 / (curvature + least)).sum() <= d * size**2:
        return least
    low, high = least, 1 / size**2
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if (1 / (curvature + middle)).sum() > d * size**2 else (low, middle)
    return high
