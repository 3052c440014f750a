"""Questions that a linear program answers: the deepest point, hidden equalities, is it bounded, is it a subset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from rayhull.errors import UnverifiedError
from rayhull.exact.elimination import rank
from rayhull.exact.numbers import Array
from rayhull.sets.rows import Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


# Rows are scaled to unit length before every LP. All levels are relative to the size of the point found, 1 + max|x|.
TOLERANCE = 1e-10  # of HiGHS, the smallest that it takes
NOT_ZERO = 1e-9  # multipliers and depths from here on are no rounding
THIN = 1e-6  # a set of less depth is looked at again, magnified
FLAT = 1e-13  # a set of less depth has no interior
ZOOM = 1e-8  # the magnified LP measures in units of this
SAME = 1e-7  # of a unit row: sets that differ by less are not told apart


def unit(rows: Rows) -> tuple[sp.csr_array, Array, Array]:
    """The rows scaled to unit length (zero rows stay): matrix, right-hand sides, lengths."""
    return unit_rows(rows.matrix, rows.rhs)


def solve(cost: Array, A: Any, b: Array, A_eq: Any, b_eq: Array, bounds: Any = (None, None)) -> Any:
    """min cost·x subject to A x <= b, A_eq x = b_eq and the bounds, by HiGHS."""
    none = A.shape[0] == 0, A_eq.shape[0] == 0
    return linprog(
        cost,
        A_ub=None if none[0] else A,
        b_ub=None if none[0] else b,
        A_eq=None if none[1] else A_eq,
        b_eq=None if none[1] else b_eq,
        bounds=bounds,
        # on chains of 10^4 rows the simplex method takes four times as long as interior points with crossover
        method="highs-ipm" if A.shape[0] > 2000 else "highs",
        options={"primal_feasibility_tolerance": TOLERANCE, "dual_feasibility_tolerance": TOLERANCE},
    )


def feasible_point(rows: Rows, equalities: Rows) -> Array | None:
    """A point that satisfies the rows up to the solver's tolerance, or None."""
    (A, b, _), (E, e, _) = unit(rows), unit(equalities)
    result = solve(np.zeros(rows.dim), A, b, E, e)
    return np.asarray(result.x) if result.status == 0 else None


@dataclass(frozen=True)
class Deepest:
    """The point of {E x = e} with the largest least distance to the rows; a negative depth means that it is outside."""

    point: Array  # (d,)
    depth: float
    multipliers: Array  # (m,) of the rows, >= 0
    eq_multipliers: Array  # (k,)

    @property
    def scale(self) -> float:
        return 1.0 + float(np.abs(self.point).max(initial=0.0))


def deepest_point(rows: Rows, equalities: Rows) -> Deepest | None:
    """max t  s.t.  a·x + ‖a‖ t <= b, a_eq·x = b_eq; None where the solver finds no point of the equalities."""
    (A, b, _), (E, e, _) = unit(rows), unit(equalities)
    return _deepest(A, b, E, e)


def _deepest(A: sp.csr_array, b: Array, E: sp.csr_array, e: Array) -> Deepest | None:
    cap = 1.0 + max(np.abs(b).max(initial=0.0), np.abs(e).max(initial=0.0))
    found = _deepest_once(A, b, E, e, (None, None), cap)
    if found is None or found.depth > THIN * found.scale:
        return found
    # magnified around the point: what HiGHS takes for rounding at first is a size of order 1 now
    unit_length = ZOOM * found.scale
    with np.errstate(over="ignore"):
        slack = np.minimum((b - A @ found.point) / unit_length, 1e6)
    again = _deepest_once(A, slack, E, (e - E @ found.point) / unit_length, (-1e4, 1e4), 1e4)
    if again is None:
        return found
    point, depth = found.point + unit_length * again.point, unit_length * again.depth
    return Deepest(point, depth, again.multipliers, again.eq_multipliers)


def _deepest_once(
    A: sp.csr_array, b: Array, E: sp.csr_array, e: Array, reach: tuple[float | None, float | None], cap: float
) -> Deepest | None:
    d = A.shape[1]
    bounds = [reach] * d + [(None, cap)]
    slope = sp.csr_array(sp.hstack([A, np.ones((A.shape[0], 1))], format="csr"))
    level = sp.csr_array(sp.hstack([E, sp.csr_array((E.shape[0], 1))], format="csr"))
    cost = np.concatenate([np.zeros(d), [-1.0]])
    result = solve(cost, slope, b, level, e, bounds)
    if result.status != 0:
        return None
    y, z = (np.asarray(v.marginals) if len(c) else np.zeros(0) for v, c in ((result.ineqlin, b), (result.eqlin, e)))
    return Deepest(np.asarray(result.x[:-1]), float(result.x[-1]), -y, -z)


@dataclass(frozen=True)
class RelativeInterior:
    """A point with slack in every row that is not an implicit equality, and which rows those are."""

    point: Array  # (d,)
    implicit: Array  # (m,) booleans over the set's rows
    radius: float  # least distance to a row that is not an implicit equality (inf if there is none)


def relative_interior(P: Polyhedron) -> RelativeInterior:
    """The Chebyshev centre inside the affine hull; rows that no point has slack in become equalities on the way.

    When the deepest point has depth 0, the rows with a positive multiplier are equalities on the whole set; they join
    the equalities and the LP is solved again.
    """
    A, b, norms = unit(P.rows)
    E, e, _ = unit(P.equality_rows)
    implicit = norms == 0
    while True:
        loose, tight = np.flatnonzero(~implicit), np.flatnonzero(implicit & (norms > 0))
        equal = sp.csr_array(sp.vstack([E, A[tight]], format="csr"))
        found = _deepest(sp.csr_array(A[loose]), b[loose], equal, np.concatenate([e, b[tight]]))
        if found is None or found.depth < -NOT_ZERO * found.scale:
            raise UnverifiedError("No interior point found: the set may be empty up to rounding.")
        if found.depth > FLAT * found.scale or not len(loose):
            return RelativeInterior(found.point, implicit, found.depth if len(loose) else np.inf)
        binding = found.multipliers > NOT_ZERO
        if not binding.any():
            raise UnverifiedError(
                f"The set is too thin to tell from one without interior: its largest ball has radius "
                f"{found.depth:.1e}. State the narrow directions as equalities, or scale the rows."
            )
        implicit[loose[binding]] = True


def is_bounded(P: Polyhedron) -> bool:
    """Whether the only direction r with A r <= 0, A_eq r = 0 is 0.

    By Stiemke's lemma: the rows span R^d, and y >= 1 exists with A^T y + A_eq^T z = 0.
    """
    if np.isfinite(P.lower_bounds).all() and np.isfinite(P.upper_bounds).all():
        return True
    A, _, _ = unit(P.rows)
    E, _, _ = unit(P.equality_rows)
    if row_rank(Rows.stack([P.rows, P.equality_rows])) < P.dim:
        return False
    m, k = A.shape[0], E.shape[0]
    both = sp.csr_array(sp.hstack([A.T, E.T], format="csr"))
    bounds = [(1, None)] * m + [(None, None)] * k
    result = solve(np.zeros(m + k), sp.csr_array((0, m + k)), np.zeros(0), both, np.zeros(P.dim), bounds)
    return bool(result.status == 0)


def row_rank(rows: Rows) -> int:
    """The rank of the rows: exact for integers, by singular values for floats."""
    if rows.integers is not None:
        return rank(rows.integers[0], rows.indices, rows.indptr, rows.dim)
    return int(np.linalg.matrix_rank(unit(rows)[0].toarray())) if len(rows) else 0


def maximum(P: Polyhedron, direction: Array) -> float:
    """The largest direction·x over P, infinite where there is none."""
    size = typical_size(P)  # HiGHS takes right-hand sides from 1e20 on for infinite
    A, b, _ = unit(P.rows)
    E, e, _ = unit(P.equality_rows)
    result = solve(-direction, A, b / size, E, e / size)
    return -float(result.fun) * size if result.status == 0 else np.inf


def typical_size(P: Polyhedron) -> float:
    """The unit in which the set is of order 1: the median distance of its rows from 0, as a power of two."""
    distances = np.abs(np.concatenate([unit(P.rows)[1], unit(P.equality_rows)[1]]))
    distances = distances[(distances > 0) & (distances < np.inf)]
    return float(2.0 ** np.floor(np.log2(np.median(distances)))) if len(distances) else 1.0


def is_subset(P: Polyhedron, Q: Polyhedron) -> bool:
    """Whether every point of P keeps every row of Q: max a·x over P <= b, up to 1e-7 of a unit row."""
    if P.shape != Q.shape:
        raise ValueError(f"sets of shape {P.shape} and {Q.shape} cannot be compared: give both the same shape.")
    equal = set(_keys(P.equality_rows))  # an inequality of P does not answer for an equality of Q
    above = equal | set(_keys(P.rows))
    return _holds(P, Q.rows, 1, above) and all(_holds(P, Q.equality_rows, sign, equal) for sign in (1, -1))


def _holds(P: Polyhedron, rows: Rows, sign: int, known: set[bytes]) -> bool:
    for i, key in enumerate(_keys(rows)):
        if key in known:
            continue
        normal = sign * rows.matrix[[i]].toarray()[0]
        size = float(np.linalg.norm(normal))
        bound = sign * float(rows.rhs[i])
        if maximum(P, normal / size) > bound / size + SAME * (1 + abs(bound) / size):
            return False
    return True


def _keys(rows: Rows) -> list[bytes]:
    """Each row as bytes: rows that both sets state need no program."""
    matrix = rows.matrix

    def key(i: int) -> bytes:
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        order = np.argsort(matrix.indices[entries])
        places: Array = matrix.indices[entries][order].astype(np.int64)
        return places.tobytes() + b"|" + (matrix.data[entries][order]).tobytes() + rows.rhs[i].tobytes()

    return [key(i) for i in range(len(rows))]
