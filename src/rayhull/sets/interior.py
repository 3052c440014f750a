r"""The affine hull of a set and points strictly inside: the centre, a base point in the scale of the data, random ones.

A bounded set has a centre: the Chebyshev centre, then Newton steps to the analytic centre, block by block. An unbounded
set has none, and its Chebyshev centre goes wherever there is most slack (8137 for convex curves of 50 points, where
data have size 1). There maps into the set start from the base point

.. math:: \arg\min_x\; -\sum_i \log(b_i - a_i·x) + \frac{m}{2 d R^2} |x - p|^2

with R the scale of the data and p the point of the set nearest to 0. On a cone (p = 0) its root mean square is R.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.errors import UnverifiedError
from rayhull.exact.elimination import DENSE_ENTRIES, reduction
from rayhull.exact.numbers import Array, primitive
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.barrier import LARGE, MET, newton, one_by_one
from rayhull.sets.linear_programs import NOT_ZERO, deepest
from rayhull.sets.rows import Names, Rows, compressed, short_sums
from rayhull.sets.systems import factor_of, independent_sparse_rows, is_wide

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.statement import Statement


DEEP = 1e-6  # slack of unit rows that is no rounding, relative to 1 + max|x|
FAIR = 0.05  # of the median slack that every row has at a point which is taken for a centre
NEARER = (1.0, 0.1, 0.01)  # shares of the scale by which the nearest point to 0 is approached from inside
STEPS = 40  # of a random chain, and one more for each coordinate up to 100
REACH = 10.0  # unbounded directions are followed this many times the set's own size
FLAT = 1e-13  # a set of less depth has no interior, relative to 1 + max|x| of its deepest point
# Pivots of unit rows: from WELL on the rows serve as they are; up to DEPENDENT a row depends on the others.
WELL, CERTAIN, DEPENDENT = 1e-5, 1e-11, 1e-14


# -- the affine hull: equalities, stated and implicit, in a form that floats can work with -----------------------------


@one_blas_thread()
def independent_equalities(rows: Rows) -> Rows:
    """As many rows as the rank, with the same solutions.

    Rows that are far from dependent stay as they are. Exact ones that are not are reduced by exact elimination, so that
    {x1 + x2 + x3 = 0, 10¹⁰ (x1 + x2 + x3) + x3 = 1} becomes {x1 + x2 = -1, x3 = 1}; floats are made orthonormal.
    """
    if not len(rows):
        return rows
    unit, rhs, _ = rows.unit
    if is_wide(rows.dim) or len(rows) * rows.dim > DENSE_ENTRIES:
        kept = independent_sparse_rows(unit)
        return rows if len(kept) == len(rows) else rows.take(kept)
    _, triangle, order = scipy.linalg.qr(unit.toarray().T, mode="economic", pivoting=True)
    pivots = np.abs(np.diag(triangle))
    if len(rows) <= rows.dim and pivots.min() > WELL:
        return rows
    if rows.integers is not None:
        return _reduced(rows)
    _refuse_unclear(rows, pivots, order)
    chosen = order[: int((pivots >= CERTAIN).sum())]
    basis, triangle = scipy.linalg.qr(unit.toarray()[chosen].T, mode="economic")  # L Q x = rhs is Q x = L⁻¹ rhs
    return _from_table(basis.T, scipy.linalg.solve_triangular(triangle.T, rhs[chosen], lower=True))


def _reduced(rows: Rows) -> Rows:
    """The reduced echelon form: the identity in the pivot columns, as integers."""
    matrix, rhs = (v.astype(object) for v in rows.dense_integers())
    chosen, _, weights, _ = reduction(matrix)
    table = primitive(np.concatenate([weights.dot(matrix[chosen]), weights.dot(rhs[chosen])[:, None]], axis=1))
    return _from_table(table[:, :-1], table[:, -1])


def _refuse_unclear(rows: Rows, pivots: Array, order: Array) -> None:
    unclear = np.flatnonzero((pivots > DEPENDENT) & (pivots < CERTAIN))
    if len(unclear):
        name = rows.names[order[unclear[0]]]
        raise UnverifiedError(
            f"Floats cannot tell whether the equality {name} depends on the others (a pivot of "
            f"{pivots[unclear[0]]:.1e}). Give the equalities as integers or fractions, or leave it out."
        )


def _from_table(matrix: Array, rhs: Array) -> Rows:
    return Rows(*compressed(matrix), rhs, Names.by("equality {}".format, np.arange(len(matrix))))


def affine_hull(P: Statement, implicit: Array) -> tuple[sp.csr_array, Array]:
    """The equalities of P, stated and implicit (booleans over ``P.rows``), as unit rows and right-hand sides."""
    rows = Rows.stack([P.independent_equalities, P.rows.take(np.flatnonzero(implicit))])
    if is_wide(P.dim) and implicit.any():
        rows = rows.take(independent_sparse_rows(rows.unit[0]))
    return rows.unit[:2]


def hull_basis(P: Statement, implicit: Array) -> Array:
    """An orthonormal basis (d, k) of the directions of the affine hull."""
    equal = affine_hull(P, implicit)[0].toarray()
    return np.asarray(scipy.linalg.null_space(equal)) if len(equal) else np.eye(P.dim)


def onto_equalities(E: sp.csr_array, e: Array, points: Array) -> Array:
    """Points (n, d) that satisfy E x = e but for rounding, corrected to the last few ulp."""
    if not len(e):
        return points
    small = not is_wide(E.shape[1]) and E.shape[0] * E.shape[1] <= DENSE_ENTRIES
    plane = None if small else factor_of(sp.csc_array(E @ E.T), 0.0)  # its rows are independent
    for _ in range(2):
        residual = reduce(lambda x, part: part @ x, short_sums(E), points.T) - e[:, None]  # (m, n)
        if plane is None:
            points = points - np.linalg.lstsq(E.toarray(), residual, rcond=None)[0].T
        else:
            points = points - (E.T @ plane.solve(residual)).T
    return points


# -- the centre ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Centre:
    """A point of the relative interior, and which of the set's rows are implicit equalities."""

    point: Array  # (d,)
    implicit: Array  # (m,) booleans over P.rows


@one_blas_thread()
def centre(P: Polyhedron) -> Centre:
    """The minimiser of -sum log(b - A x) + |x|² / (2 R²) over the affine hull.

    The last term, with R the size of the Chebyshev centre, stands in where the set is unbounded; on a bounded set it
    only leans a little towards 0.
    """
    if P.intervals.all():
        return _of_intervals(P)
    alone = len(P.block_groups) == 1 and len(P.block_groups[0].index) == 1
    return _centre_of_block(P) if alone else _from_blocks(P)


def _of_intervals(P: Polyhedron) -> Centre:
    """What every interval and half-line has for its centre, all of them at once."""
    low, high = P.lower_bounds, P.upper_bounds
    ends = np.where(np.isinf([low, high]), [high, low], [low, high])
    start = ends.sum(0) / 2 + (1 + np.abs(ends[0])) * (np.isinf(high).astype(float) - np.isinf(low))
    point = one_by_one(low, high, start, 1 / np.maximum(1.0, np.abs(start)) ** 2)
    return Centre(point, np.zeros(len(P.rows), bool))


def _from_blocks(P: Polyhedron) -> Centre:
    point, implicit = np.zeros(P.dim), np.zeros(len(P.rows), bool)
    for group in P.block_groups:
        part = group.polyhedron.centre
        point[group.index] = part.point
        implicit[group.rows] = part.implicit
    return Centre(point, implicit)


def _centre_of_block(P: Polyhedron) -> Centre:
    start = P.at_hand or _relative_interior(P)
    if is_wide(P.dim) and _is_fair(P, start):
        return start
    (A, b), hull = loose_rows(P, start.implicit), affine_hull(P, start.implicit)
    size = max(1.0, float(np.abs(start.point).max()))
    point = newton(A, b, *hull, start.point, 1 / size**2) if len(b) else start.point
    return Centre(onto_equalities(*hull, point[None, :])[0], start.implicit)


def at_hand(P: Polyhedron) -> Centre | None:
    """A point with slack in every row that needs no LP, for large sets and for those within [-1, 1].

    An LP takes seconds for a large set, and a quarter of a second to import for the first one of a process. Within
    [-1, 1] the centre does not depend on the point that it is looked for from: R is 1.
    """
    unit = np.abs([P.lower_bounds, P.upper_bounds]).max(initial=0.0) <= 1
    if not is_wide(P.dim) and P.rows.matrix.nnz < LARGE and not unit:
        return None
    none, (A, b, norms) = np.zeros(len(P.rows), bool), P.rows.unit
    if not norms.all():
        return None
    (E, e), (all_E, all_e, _) = affine_hull(P, none), P.equality_rows.unit
    for point in _guesses(P, A, b):
        found = onto_equalities(E, e, point[None, :])[0]
        size = 1 + np.abs(found).max()
        if (b - A @ found > DEEP * size).all() and np.abs(all_e - all_E @ found).max(initial=0.0) < MET * size:
            return Centre(found, none)
    return None


def _is_fair(P: Polyhedron, found: Centre) -> bool:
    """Whether no slack is much smaller than most: as good as a centre, whose Newton steps factor a system each."""
    slack = (P.rows.unit[1] - P.rows.unit[0] @ found.point)[~found.implicit]
    return not len(slack) or bool(slack.min() > FAIR * np.median(slack))


def _guesses(P: Polyhedron, A: sp.csr_array, b: Array) -> Iterator[Array]:
    """The middle between the bounds, 0 where there are none; from there half of the way to the bounds, away from rows
    without slack.
    """
    boxed = np.isfinite(P.lower_bounds) & np.isfinite(P.upper_bounds)
    middle = np.where(boxed, P.lower_bounds, 0.0) / 2 + np.where(boxed, P.upper_bounds, 0.0) / 2
    yield middle
    away = -np.asarray(A[np.flatnonzero(b - A @ middle <= 0)].sum(0)).ravel()
    if boxed.all() and away.any():
        moves = away != 0
        reach = (P.upper_bounds - P.lower_bounds)[moves] / 2 / np.abs(away[moves])
        yield middle + reach.min() / 2 * away


def _relative_interior(P: Polyhedron) -> Centre:
    """The Chebyshev centre inside the affine hull; rows that no point has slack in become equalities on the way.

    When the deepest point has depth 0, the rows with a positive multiplier are equalities on the whole set; they join
    the equalities and the LP is solved again.
    """
    A, b, norms = P.rows.unit
    E, e, _ = P.equality_rows.unit
    implicit = norms == 0
    while True:
        loose, tight = np.flatnonzero(~implicit), np.flatnonzero(implicit & (norms > 0))
        equal = sp.csr_array(sp.vstack([E, A[tight]], format="csr"))
        found = deepest(sp.csr_array(A[loose]), b[loose], equal, np.concatenate([e, b[tight]]))
        if found is None or found.depth < -NOT_ZERO * found.scale:
            raise UnverifiedError("No interior point found: the set may be empty up to rounding.")
        if found.depth > FLAT * found.scale or not len(loose):
            return Centre(found.point, implicit)
        binding = found.multipliers > NOT_ZERO
        if not binding.any():
            raise UnverifiedError(
                f"The set is too thin to tell from one without interior: its largest ball has radius "
                f"{found.depth:.1e}. State the narrow directions as equalities, or scale the rows."
            )
        implicit[loose[binding]] = True


def loose_rows(P: Polyhedron, implicit: Array) -> tuple[sp.csr_array, Array]:
    """The rows of P that are no implicit equalities, each divided by a power of two near its size."""
    matrix, rhs, _ = P.rows.scaled
    loose = np.flatnonzero(~implicit)
    return (sp.csr_array(matrix[loose]), rhs[loose]) if implicit.any() else (matrix, rhs)


# -- the base point --------------------------------------------------------------------------------------------------


@one_blas_thread()
def base_point(P: Polyhedron, scale: float = 1.0) -> Array:
    """A well-centred interior point (d,), of the given scale where the set is unbounded."""
    if not scale > 0:
        raise ValueError(f"scale must be positive, the size of the data, got {scale}.")
    if not len(P.rows):
        return P.centre.point
    if P.intervals.all():
        return _in_intervals(P, scale)
    point = np.zeros(P.dim)
    for group in P.block_groups:
        part = group.polyhedron
        point[group.index] = part.centre.point if part.is_bounded or not len(part.rows) else _unbounded(part, scale)
    return point


def _in_intervals(P: Polyhedron, scale: float) -> Array:
    """The centres of intervals; of half-lines what :func:`_unbounded` finds for each, all of them at once."""
    x, low, high = P.centre.point.copy(), P.lower_bounds, P.upper_bounds
    half = np.isinf(low) | np.isinf(high)
    ends, nearest = (low[half], high[half]), x[half]
    for share in NEARER if half.any() else ():
        nearest = one_by_one(*ends, nearest, 1 / (share * scale) ** 2)
    if half.any():
        outside = (ends[0] > 0) | (ends[1] < 0)
        x[half] = one_by_one(*ends, nearest, 1 / scale**2, np.where(outside, nearest, 0.0))
    return x


def _unbounded(P: Polyhedron, scale: float) -> Array:
    x, implicit = P.centre.point, P.centre.implicit
    (A, b), hull = loose_rows(P, implicit), affine_hull(P, implicit)
    if not len(b):
        return x
    weight, nearest = len(b) / P.dim, np.zeros(P.dim)
    if (b < 0).any() or hull[1].any():  # 0 is outside: go to where the set is nearest to it, off its boundary
        for share in NEARER:
            x = newton(A, b, *hull, x, weight / (share * scale) ** 2)
        nearest = x
    x = newton(A, b, *hull, x, weight / scale**2, nearest)
    return np.asarray(onto_equalities(*hull, x[None, :])[0])


def scale_from(targets: Array) -> float:
    """The scale of the data: the root mean square of the targets' coordinates. Shape: (n, event shape)."""
    values = np.asarray(targets, np.float64)
    if not values.size or not np.isfinite(values).all():
        raise ValueError("scale needs finite targets, at least one.")
    return float(np.sqrt((values**2).mean())) or 1.0


# -- random points, every block and every point its own chain, all at once -------------------------------------------


@one_blas_thread()
def hit_and_run(P: Polyhedron, n: int, rng: np.random.Generator) -> Array:
    """n points (n, d) by hit-and-run: uniform in the limit of many steps on a bounded set, a spread on any other."""
    if not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"expected how many points to draw, 0 or more, got {n!r}.")
    points = np.empty((n, P.dim))
    for group in P.block_groups:
        A, b = loose_rows(group.polyhedron, group.polyhedron.centre.implicit)
        rows = sp.diags_array(1 / (b - A @ group.polyhedron.centre.point)) @ A
        found = chains(group.polyhedron, rows, n * len(group.index), rng)
        points[:, group.index.ravel()] = found.reshape(n, group.index.size)
    return points


def reach(P: Polyhedron, x: Array, step: Array) -> tuple[Array, Array]:
    """How far each x inside may follow its step and its opposite, (n, d) → (n,); unbounded directions are cut off."""
    (A, b), longest = loose_rows(P, P.centre.implicit), farthest(P)
    rate, slack = (A @ step.T).T, np.maximum(b - (A @ x.T).T, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = slack / rate
    ends = np.where(rate > 0, ratio, longest), np.where(rate < 0, -ratio, longest)
    return ends[0].min(1, initial=longest), ends[1].min(1, initial=longest)


def farthest(P: Any) -> float:
    """Where unbounded directions are cut off."""
    return REACH * max(1.0, float(np.abs(P.centre.point).max()))


def chains(P: Any, rows: Array | sp.sparray, n: int, rng: np.random.Generator) -> Array:
    """n points (n, d), each a chain of its own from the centre; ``rows`` over their slacks there give its shape."""
    middle, basis = P.centre, hull_basis(P, P.centre.implicit)
    if not basis.shape[1]:
        return np.tile(middle.point, (n, 1))
    bounds = np.eye(basis.shape[1]) / max(1.0, float(np.abs(middle.point).max()))
    _, values, vectors = np.linalg.svd(np.concatenate([rows @ basis, bounds]), full_matrices=False)
    x, spread = np.tile(middle.point, (n, 1)), basis @ (vectors.T / values)
    for _ in range(STEPS + min(P.dim, 100)):
        step = rng.standard_normal((n, spread.shape[1])) @ spread.T
        step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300)
        forward, backward = P.reach(x, step)
        x = x + step * ((forward + backward) * rng.random(n) - backward)[:, None]
    # pulled a hair towards the centre, so that rounding leaves no point outside
    return onto_equalities(*affine_hull(P, middle.implicit), x + 1e-12 * (middle.point - x))
