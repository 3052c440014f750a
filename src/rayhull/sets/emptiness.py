"""Is the set empty, and which of its rows contradict each other: proved exactly where the numbers are exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from rayhull.errors import EmptySetError
from rayhull.exact.elimination import DENSE_ENTRIES, independent_rows, inverse
from rayhull.exact.numbers import others
from rayhull.sets.linear_programs import NOT_ZERO, THIN, deepest_point, feasible_point, solve, unit
from rayhull.sets.names import Label
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

# Where rows are exact, a violation below BARELY needs a proof in integers (HiGHS allows itself 1e-7), and so does any
# violation of unit rows with entries below SEEN (HiGHS takes them for 0).
BARELY, SEEN = 1e-5, 1e-9
FEW = 64  # a contradiction of at most this many rows is thinned to one in which every row is needed


def refuse_if_empty(P: Polyhedron) -> None:
    """Raise :class:`EmptySetError` naming a small group of rows with no common point; P does not contain 0."""
    _refuse_crossed_bounds(P)
    _refuse_rows_of_zeros(P)
    nearest = np.clip(0.0, P.lower_bounds, P.upper_bounds)
    if nearest.any() and P.contains_exactly(nearest.reshape(P.shape)):
        return
    for group in P.block_groups:
        rows, equalities = P.rows.take(group.rows[0]), P.equality_rows.take(group.equality_rows[0])
        names = _contradiction(rows, equalities)
        if names is not None:
            raise EmptySetError(
                f"These {len(P.rows) + len(P.equality_rows)} rows have no common point: {' and '.join(names)} "
                "contradict each other. Rows mean A x <= b: is a sign the other way round?",
                names,
            )


def _refuse_crossed_bounds(P: Polyhedron) -> None:
    crossed = np.flatnonzero(P.bound_order > 0)
    if len(crossed):
        assert P.lower is not None
        assert P.upper is not None
        place = Label("x[{}]", P.shape)(crossed[0])
        low, high = (bound.ravel()[crossed[0]] for bound in (P.lower, P.upper))
        raise EmptySetError(
            f"lower > upper in {len(crossed)} coordinates, first at {place}: {low} > {high}.",
            (f"lower bound of {place}", f"upper bound of {place}"),
        )


def _refuse_rows_of_zeros(P: Polyhedron) -> None:
    for rows, fails in ((P.inequalities, P.inequalities.rhs < 0), (P.equalities, P.equalities.rhs != 0)):
        wrong = np.flatnonzero(fails & (rows.sizes == 0))
        if len(wrong):
            name, c = rows.names[wrong[0]], rows.rhs[wrong[0]]
            raise EmptySetError(f"{name} has only zeros, so it asks 0 <= {c:g} (or =), which never holds.", (name,))


def _contradiction(rows: Rows, equalities: Rows) -> tuple[str, ...] | None:
    """Names of rows of one block with no common point, or None.

    Floats are judged up to rounding. Exact rows are judged exactly: a linear program proposes the multipliers y of
    rows whose sum y·a = 0 <= y·b cannot hold since y·b < 0 (Farkas' lemma), and integers prove them.
    """
    if equalities.integers is not None and _are_inconsistent(equalities):
        return _least_violation(rows, equalities) or tuple(equalities.names)
    deepest = deepest_point(rows, equalities)
    if deepest is None:
        return _least_violation(rows, equalities)
    if deepest.depth > THIN * deepest.scale:
        return None
    if rows.integers is not None and equalities.integers is not None:
        used, used_eq = (np.flatnonzero(np.abs(v) > NOT_ZERO) for v in (deepest.multipliers, deepest.eq_multipliers))
        if _is_refuted(rows.take(used), equalities.take(used_eq)):
            few, few_eq = _thin(rows.take(used), equalities.take(used_eq))
            return (*few.names, *few_eq.names)
    return _least_violation(rows, equalities) if deepest.depth < -NOT_ZERO * deepest.scale else None


def _are_inconsistent(equalities: Rows) -> bool:
    """Whether the right-hand sides raise the rank, exactly."""
    if not len(equalities) or len(equalities) * equalities.dim > DENSE_ENTRIES:
        return False
    matrix, rhs = equalities.dense_integers()
    known = len(independent_rows(matrix)[0])
    if known == len(matrix):
        return False
    both = np.concatenate([matrix.astype(object), rhs[:, None].astype(object)], axis=1)
    return len(independent_rows(both)[0]) > known


def _is_refuted(rows: Rows, equalities: Rows) -> bool:
    """Whether the rows have no common point because one combination of them is 0·x <= c with c < 0, in integers.

    Only where that combination is the only one that cancels all coordinates, which holds for the few rows that a
    vertex of the dual linear program uses.
    """
    (A, b), (E, e) = rows.dense_integers(), equalities.dense_integers()
    matrix, rhs = np.concatenate([A, E]).astype(object), np.concatenate([b, e]).astype(object)
    chosen, pivots = independent_rows(matrix)
    rest = others(chosen, len(matrix))
    if len(rest) != 1:
        return False
    back, scales = inverse(matrix[np.ix_(chosen, pivots)])
    common = math.lcm(*(int(s) for s in scales))
    # matrix[rest] = (matrix[rest, pivots] back / scales) matrix[chosen], so these multipliers cancel all rows
    multipliers = np.zeros(len(matrix), dtype=object)
    through = matrix[rest[0], pivots].dot(back.astype(object)) if len(pivots) else np.zeros(0, dtype=object)
    multipliers[chosen] = [-int(t) * (common // int(s)) for t, s in zip(through, scales, strict=True)]
    multipliers[rest[0]] = common
    for y in (multipliers, -multipliers):
        if (y[: len(A)] >= 0).all() and y.dot(rhs) < 0:
            return not y.dot(matrix).any()
    return False


def _least_violation(rows: Rows, equalities: Rows) -> tuple[str, ...] | None:
    """Names of a small group of rows with no common point, or None if the least total violation is about 0.

    One elastic LP (minimise the sum of violations) finds a certificate; its support is then thinned by leaving out
    one row at a time.
    """
    (A, b, _), (E, e, _) = unit(rows), unit(equalities)
    m, k, d = len(rows), len(equalities), rows.dim
    elastic = sp.hstack([A, -sp.eye_array(m), sp.csr_array((m, 2 * k))], format="csr")
    elastic_eq = sp.hstack([E, sp.csr_array((k, m)), -sp.eye_array(k), sp.eye_array(k)], format="csr")
    cost = np.concatenate([np.zeros(d), np.ones(m + 2 * k)])
    bounds = [(None, None)] * d + [(0, None)] * (m + 2 * k)
    result = solve(cost, elastic, b, elastic_eq, e, bounds)
    if result.status != 0 or result.fun <= NOT_ZERO * (1.0 + np.abs(result.x[:d]).max(initial=0.0)):
        return None
    pick = np.flatnonzero(np.abs(result.ineqlin.marginals) > NOT_ZERO) if m else np.zeros(0, int)
    pick_eq = np.flatnonzero(np.abs(result.eqlin.marginals) > NOT_ZERO) if k else np.zeros(0, int)
    few, few_eq = _thin(rows.take(pick), equalities.take(pick_eq))
    exact = rows.integers is not None and equalities.integers is not None
    unsure = result.fun < BARELY * (1.0 + np.abs(b).max(initial=0.0)) or min(_smallest(A), _smallest(E)) < SEEN
    if exact and unsure and not _is_refuted(few, few_eq):
        return None
    return (*few.names, *few_eq.names)


def _smallest(matrix: sp.csr_array) -> float:
    return float(np.abs(matrix.data[matrix.data != 0]).min(initial=1.0))


def _thin(rows: Rows, equalities: Rows) -> tuple[Rows, Rows]:
    """Leave out every row without which the rest is still contradictory."""
    if len(rows) + len(equalities) <= FEW:
        for i in reversed(range(len(rows))):
            fewer = rows.take(np.delete(np.arange(len(rows)), i))
            if feasible_point(fewer, equalities) is None:
                rows = fewer
        for i in reversed(range(len(equalities))):
            fewer = equalities.take(np.delete(np.arange(len(equalities)), i))
            if feasible_point(rows, fewer) is None:
                equalities = fewer
    return rows, equalities
