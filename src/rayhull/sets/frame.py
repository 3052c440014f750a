r"""A block seen from a base point: rows that meet there, rows with slack, the unit of its coordinates. In float64.

Round coordinates: in them the set looks like a ball around its base point.

.. math:: y = H^{-1/2} c, \qquad H = \sum_i \frac{a_i a_i^T}{σ_i^2} + ρ

H is the Hessian of the log barrier at the base point, σ the slacks there; {y : yᵀ H y <= 1} is Dikin's ellipsoid, which
lies inside the set. Coefficients of unit size then move each row by a fair share of its slack, however thin or small
the set is. An unbounded set has directions that no row bounds: there ρ is such that standard normal coefficients give
points whose root mean square is the scale of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import RayhullError
from rayhull.sets.interior import base_point
from rayhull.sets.rows import Array, Rows
from rayhull.sets.rows import unit_rows as sparse_unit_rows
from rayhull.sets.systems import independent_sparse_rows

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup

EPS = 2.0**-53  # the unit roundoff of float64
DEPENDENT = 1e-9  # singular values below this share of the largest count as 0
CLEAR = 1e-9  # slack beyond rounding, relative to the terms of the row
SMALLEST, BISECTIONS = 1e-14, 80
FEW, DENSE = 256, 1000  # coordinates up to which H^(-1/2) comes from singular values, and at all (beyond: a diagonal)
ROUND, POWERS = 16.0, 30  # a condition number that needs no better coordinates; power iterations that estimate it
COORDINATES, ENTRIES = 2000, 1_000_000  # of a block, and of its rows as a dense matrix, beyond which maps stay sparse
SPARSE = 8  # a dense matrix may have this many times the entries of the rows


@dataclass(frozen=True, eq=False)
class Frame:
    """A block seen from a base point: the rows that hold with equality there, and those with slack."""

    base: Array  # (n,)
    cone: Array  # numbers of the rows a·x <= b with a·base = b
    loose: Array  # numbers of the rows with slack
    slack: Array  # (len(loose),) b - a·base > 0
    equal: Array | sp.sparray  # (n, k) orthonormal basis of the equalities' row space; independent rows of a large set


def is_large(P: Polyhedron) -> bool:
    """Whether maps into a block keep its rows sparse: dense ones are for any device and for graphs."""
    return P.dim > COORDINATES or P.dim * len(P.inequalities) > ENTRIES


def inside(P: Polyhedron, point: Array | None = None, scale: float = 1.0) -> Frame:
    """From an interior point, by default one in the scale of the data: every row that is not an equality has slack."""
    implicit = P.centre.implicit if point is None else implicit_rows(P, point)
    point = base_point(P, scale) if point is None else point
    loose = np.flatnonzero(~implicit)
    slack = P.rows.rhs[loose] - P.rows.matrix[loose] @ point
    _refuse_thin(P, loose, slack, "the set is too thin for its interior point: {} has no slack there.")
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
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    if len(rows) > P.dim or not _independent(rows):
        return None
    scale = near_one(rows)
    rhs = np.concatenate([P.rows.rhs, P.equality_rows.rhs])
    base = np.linalg.lstsq(rows * scale[:, None], rhs * scale, rcond=None)[0]
    basis = equality_basis(P, np.zeros(len(P.rows), bool))
    return Frame(base, np.arange(len(P.rows)), np.zeros(0, np.int64), np.zeros(0), basis)


def _at_zero(P: Polyhedron) -> Frame | None:
    tight = P.rows.rhs == 0
    if not tight.any() and len(P.rows):
        return None
    implicit = np.zeros(len(P.rows), bool)
    together = np.concatenate([P.rows.matrix[np.flatnonzero(tight)].toarray(), P.equality_rows.matrix.toarray()])
    if len(together) > P.dim or not _independent(together):  # only dependent rows can hide an equality
        implicit = P.centre.implicit
    cone, loose = np.flatnonzero(tight & ~implicit), np.flatnonzero(~tight)
    return Frame(np.zeros(P.dim), cone, loose, P.rows.rhs[loose], equality_basis(P, implicit))


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


def equality_basis(P: Polyhedron, implicit: Array) -> Array | sp.sparray:
    """A basis (n, k) of the span of the equalities and of the rows that hold with equality everywhere.

    It is orthonormal; of a large set it is sparse, rows of the set of length 1.
    """
    rows = sp.vstack([P.independent_equalities.matrix, P.rows.matrix[np.flatnonzero(implicit)]], format="csr")
    if is_large(P):
        unit = sparse_unit_rows(rows, np.zeros(rows.shape[0]))[0]
        return sp.csc_array((unit[independent_sparse_rows(unit)] if implicit.any() else unit).T)
    if not rows.shape[0]:
        return np.zeros((P.dim, 0))
    return np.asarray(scipy.linalg.orth(unit_rows(rows.toarray()).T, rcond=DEPENDENT))


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


def refuse_thin(P: Polyhedron, numbers: Array, slack: Array) -> None:
    """Raise where a row has no slack at the interior point that float64 can prove."""
    needs = "strict=True needs an interior point with provable slack in every row, and {} has none: the set is too thin"
    _refuse_thin(P, numbers, slack, f"{needs} for float64.")


def _refuse_thin(P: Polyhedron, numbers: Array, slack: Array, message: str) -> None:
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
    rows = np.concatenate([P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()])
    return np.asarray(scipy.linalg.orth(unit_rows(rows).T, rcond=DEPENDENT))


def unit_rays(rays: Array, span: Array) -> Array:
    """Rays without their part along the lines (any amount of it is the same ray), at unit length."""
    rays = (rays @ span) @ span.T
    return np.asarray(rays / np.linalg.norm(rays, axis=1, keepdims=True))


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
    rows = sp.csr_array(P.rows.matrix[frame.loose])
    size = None if P.is_bounded else scale
    sparse = P.dim > FEW and SPARSE * rows.nnz < P.dim**2  # such sets stay sparse
    matrix = round_coordinates(rows, frame.slack, size, equal=frame.equal, diagonal=sparse)
    unit = float(np.sqrt((matrix**2).sum() / P.dim))
    width = P.upper_bounds - P.lower_bounds
    return np.where(width > 0, np.minimum(unit, width), unit)


def base_of_each(P: Polyhedron, base: Any, kinds: Sequence[BlockGroup]) -> list[Array]:
    """The user's base point for each kind of block, refused where it is not strictly inside.

    A kind takes the mean over its places, which is inside because the set is convex.
    """
    flat = np.asarray(base, np.float64).reshape(-1)
    if flat.shape != (P.dim,):
        raise ValueError(f"base must be a point of shape {P.shape}, got shape {np.shape(base)}.")
    slack = P.rows.rhs - P.rows.matrix @ flat
    if not P.contains(flat.reshape(P.shape)) or (slack[~implicit_rows(P, flat)] <= 0).any():
        raise ValueError(
            "base must be strictly inside: every row needs slack there. Leave it out, or give another point."
        )
    return [np.asarray((flat[kind.index] * kind.sign[:, None]).mean(0)) for kind in kinds]


# -- round coordinates -----------------------------------------------------------------------------------------------


def round_coordinates(
    rows: sp.csr_array | Array,
    slack: Array,
    size: float | None = None,
    *,
    equal: Array | sp.sparray | None = None,
    diagonal: bool = False,
) -> Array:
    """M = H^(-1/2), symmetric (d, d), or the diagonal (d,) of a diagonal one.

    Args:
        rows: the inequalities' rows (m, d).
        slack: b - A x0 (m,), positive.
        size: the scale of the data where the set is unbounded; None for a bounded set, which has its own.
        equal: a basis (d, k) of the equalities' row space: M then maps into their null space.
        diagonal: from the diagonal of H alone, as beyond 1000 coordinates, and beyond 256 where that is round already.
            Bounds stay bounds in such coordinates.

    Examples:
        >>> import numpy as np
        >>> from rayhull.sets.frame import round_coordinates
        >>> thin = np.array([[1.0, 1.0], [-1.0, -1.0]])                         # |x + y| <= 0.01
        >>> M = round_coordinates(thin, np.array([0.01, 0.01]), size=1.0)
        >>> bool(abs(M @ [1, 1]).max() < 0.01), bool(abs(M @ [1, -1]).max() > 1)
        (True, True)
    """
    weighted = sp.csr_array(sp.diags_array(1 / slack) @ sp.csr_array(rows))
    hull = equal is None or not equal.shape[1]
    scales = hull and size is None and FEW < weighted.shape[1] <= DENSE and diagonal_is_round(weighted)
    if diagonal or scales or weighted.shape[1] > DENSE:
        curvature = np.asarray(weighted.power(2).sum(0)).ravel()
        return np.asarray(1 / np.sqrt(curvature + ridge(curvature, size, len(curvature))))
    basis = None if equal is None or hull else scipy.linalg.null_space(sp.csr_array(equal.T).toarray())  # (d, free)
    curvature, directions = _principal(weighted.toarray() if basis is None else weighted @ basis)
    directions = directions if basis is None else directions @ basis.T  # (free, d)
    spread = 1 / np.sqrt(curvature + ridge(curvature, size, weighted.shape[1]))
    return np.asarray((directions.T * spread) @ directions)


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


def diagonal_is_round(weighted: sp.csr_array) -> bool:
    """Whether coordinates scaled by the diagonal of WᵀW alone have a condition number of at most ROUND.

    By a Cholesky factor and power iterations, forwards and backwards: a tenth of the time of all eigenvalues.

    Examples:
        >>> import numpy as np, scipy.sparse as sp
        >>> from rayhull.sets.frame import diagonal_is_round
        >>> diagonal_is_round(sp.csr_array(np.diag([1.0, 1e3]))), diagonal_is_round(sp.csr_array([[1, 1], [0, 1e-3]]))
        (True, False)
    """
    many = np.diff(weighted.indptr) > 1  # a bound adds to the diagonal alone
    dense, bounds = weighted[np.flatnonzero(many)].toarray(), weighted[np.flatnonzero(~many)]
    gram = dense.T @ dense + np.diag(np.asarray(bounds.power(2).sum(0)).ravel())
    scale = 1 / np.sqrt(np.diag(gram))
    try:
        factor = scipy.linalg.cho_factor(scale[:, None] * gram * scale)
    except (np.linalg.LinAlgError, ValueError):
        return False
    upper = np.triu(factor[0])
    start = np.cos(np.arange(len(scale)))
    largest = _growth(lambda x: upper.T @ (upper @ x), start)
    return largest * _growth(lambda x: scipy.linalg.cho_solve(factor, x), start) <= ROUND


def _growth(times: Callable[[Array], Array], x: Array) -> float:
    """The largest eigenvalue of a positive definite map, by power iterations from a fixed vector."""
    for _ in range(POWERS):
        x = times(x / np.linalg.norm(x))
    return float(np.linalg.norm(x))


def _principal(weighted: Array) -> tuple[Array, Array]:
    """Curvatures of WᵀW and their directions (one a row): from singular values, which keep a thin set's digits."""
    d = weighted.shape[1]
    if d > FEW:  # several times faster
        curvature, directions = np.linalg.eigh(weighted.T @ weighted)
        return np.maximum(curvature, 0.0), directions.T
    _, values, directions = np.linalg.svd(weighted, full_matrices=True)
    return np.concatenate([values**2, np.zeros(d - len(values))]), directions
