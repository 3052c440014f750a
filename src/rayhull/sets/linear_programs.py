"""Questions that a linear program answers: is the set empty and why, which rows are equalities, is it bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.exact.elimination import rank
from rayhull.exact.numbers import Array
from rayhull.sets.names import Label
from rayhull.sets.rows import Rows, unit_rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

# Rows are scaled to unit length before every LP; HiGHS keeps its default tolerance of 1e-7 on such rows.
NOT_ZERO = 1e-9


def refuse_if_empty(P: Polyhedron) -> None:
    """Raise :class:`EmptySetError` naming a small group of rows with no common point."""
    _refuse_crossed_bounds(P)
    for rows, fails in ((P.inequalities, P.inequalities.rhs < 0), (P.equalities, P.equalities.rhs != 0)):
        wrong = np.flatnonzero(fails & (np.diff(rows.matrix.indptr) == 0))
        if len(wrong):
            name = rows.names[wrong[0]]
            raise EmptySetError(
                f"{name} has only zeros, so it asks 0 <= {rows.rhs[wrong[0]]:g} (or =), which never holds.",
                (name,),
            )
    if _holds_at(P, np.clip(0.0, P.lower_bounds, P.upper_bounds)):
        return
    if feasible_point(P.rows, P.equality_rows) is not None:
        return
    names = contradiction(P.rows, P.equality_rows)
    if names is None:  # infeasible only within the solver's tolerance: conversion decides such a case exactly
        return
    count = len(P.rows) + len(P.equality_rows)
    raise EmptySetError(
        f"These {count} rows have no common point: {' and '.join(names)} contradict each other. "
        "Rows mean A x <= b: is a sign the other way round?",
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


def _holds_at(P: Polyhedron, x: Array) -> bool:
    rows, equalities = P.rows, P.equality_rows
    return bool((rows.matrix @ x <= rows.rhs).all() and (equalities.matrix @ x == equalities.rhs).all())


def _unit(rows: Rows) -> tuple[sp.csr_array, Array, Array]:
    """The rows scaled to unit length (zero rows stay): matrix, right-hand sides, lengths."""
    return unit_rows(rows.matrix, rows.rhs)


def _solve(cost: Array, A: Any, b: Array, A_eq: Any, b_eq: Array, bounds: Any = (None, None)) -> Any:
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
    )


def feasible_point(rows: Rows, equalities: Rows) -> Array | None:
    """A point that satisfies the rows up to the solver's tolerance, or None."""
    A, b, _ = _unit(rows)
    E, e, _ = _unit(equalities)
    result = _solve(np.zeros(rows.dim), A, b, E, e)
    return np.asarray(result.x) if result.status == 0 else None


def contradiction(rows: Rows, equalities: Rows) -> tuple[str, ...] | None:
    """Names of a small group of rows with no common point, or None if the least total violation is about 0.

    One elastic LP (minimise the sum of violations) finds a certificate; its support is then thinned by leaving out
    one row at a time.
    """
    A, b, _ = _unit(rows)
    E, e, _ = _unit(equalities)
    m, k, d = len(rows), len(equalities), rows.dim
    elastic = sp.hstack([A, -sp.eye_array(m), sp.csr_array((m, 2 * k))], format="csr")
    elastic_eq = sp.hstack([E, sp.csr_array((k, m)), -sp.eye_array(k), sp.eye_array(k)], format="csr")
    cost = np.concatenate([np.zeros(d), np.ones(m + 2 * k)])
    bounds = [(None, None)] * d + [(0, None)] * (m + 2 * k)
    result = _solve(cost, elastic, b, elastic_eq, e, bounds)
    size = 1.0 + max(np.abs(b).max(initial=0), np.abs(e).max(initial=0))
    if result.status != 0 or result.fun <= NOT_ZERO * size:
        return None
    pick = np.flatnonzero(np.abs(result.ineqlin.marginals) > NOT_ZERO) if m else np.zeros(0, int)
    pick_eq = np.flatnonzero(np.abs(result.eqlin.marginals) > NOT_ZERO) if k else np.zeros(0, int)
    return _thin(rows.take(pick), equalities.take(pick_eq))


def _thin(rows: Rows, equalities: Rows) -> tuple[str, ...]:
    """Leave out every row without which the rest is still contradictory."""
    if len(rows) + len(equalities) <= 64:
        for i in reversed(range(len(rows))):
            fewer = rows.take(np.delete(np.arange(len(rows)), i))
            if feasible_point(fewer, equalities) is None:
                rows = fewer
        for i in reversed(range(len(equalities))):
            fewer = equalities.take(np.delete(np.arange(len(equalities)), i))
            if feasible_point(rows, fewer) is None:
                equalities = fewer
    return (*rows.names, *equalities.names)


@dataclass(frozen=True)
class RelativeInterior:
    """A point with room in every row that is not an implicit equality, and which rows those are."""

    point: Array  # (d,)
    implicit: Array  # (m,) booleans over the set's rows
    radius: float  # least distance to a row that is not an implicit equality (inf if there is none)


def relative_interior(P: Polyhedron) -> RelativeInterior:
    """The Chebyshev centre inside the affine hull; rows that no point has room in become equalities on the way.

    max t  s.t.  a·x + ‖a‖ t <= b. When the best t is 0, the rows with a positive multiplier are equalities on the
    whole set; they join the equalities and the LP is solved again.
    """
    A, b, norms = _unit(P.rows)
    E, e, _ = _unit(P.equality_rows)
    size = 1.0 + max(np.abs(b).max(initial=0.0), np.abs(e).max(initial=0.0))
    implicit = norms == 0
    while True:
        loose, tight = np.flatnonzero(~implicit), np.flatnonzero(implicit & (norms > 0))
        A_loose = sp.hstack([A[loose], np.ones((len(loose), 1))], format="csr")
        A_tight = sp.hstack([sp.vstack([E, A[tight]]), sp.csr_array((len(e) + len(tight), 1))], format="csr")
        cost = np.zeros(P.dim + 1)
        cost[-1] = -1.0
        bounds = [(None, None)] * P.dim + [(0, size)]
        result = _solve(cost, A_loose, b[loose], A_tight, np.concatenate([e, b[tight]]), bounds)
        if result.status != 0:
            raise UnverifiedError(
                f"No interior point found: HiGHS says {result.message!r}. The set may be empty up to rounding."
            )
        point, radius = np.asarray(result.x[:-1]), float(result.x[-1])
        if radius > NOT_ZERO * size or not len(loose):
            return RelativeInterior(point, implicit, radius if len(loose) else np.inf)
        found = np.abs(result.ineqlin.marginals) > NOT_ZERO
        if not found.any():
            raise UnverifiedError(
                f"The set is too thin to tell from one without interior: its largest ball has radius {radius:.1e}. "
                "State the narrow directions as equalities, or scale the rows."
            )
        implicit[loose[found]] = True


def is_bounded(P: Polyhedron) -> bool:
    """Whether the only direction r with A r <= 0, A_eq r = 0 is 0.

    By Stiemke's lemma: the rows span R^d, and y >= 1 exists with A^T y + A_eq^T z = 0.
    """
    if np.isfinite(P.lower_bounds).all() and np.isfinite(P.upper_bounds).all():
        return True
    A, _, _ = _unit(P.rows)
    E, _, _ = _unit(P.equality_rows)
    if row_rank(Rows.stack([P.rows, P.equality_rows])) < P.dim:
        return False
    m, k = A.shape[0], E.shape[0]
    both = sp.csr_array(sp.hstack([A.T, E.T], format="csr"))
    bounds = [(1, None)] * m + [(None, None)] * k
    result = _solve(np.zeros(m + k), sp.csr_array((0, m + k)), np.zeros(0), both, np.zeros(P.dim), bounds)
    return bool(result.status == 0)


def row_rank(rows: Rows) -> int:
    """The rank of the rows: exact for integers, by singular values for floats."""
    if rows.integers is not None:
        return rank(rows.integers[0], rows.indices, rows.indptr, rows.dim)
    return int(np.linalg.matrix_rank(_unit(rows)[0].toarray())) if len(rows) else 0


def maximum(P: Polyhedron, direction: Array) -> float:
    """The largest direction·x over P, infinite where there is none."""
    A, b, _ = _unit(P.rows)
    E, e, _ = _unit(P.equality_rows)
    result = _solve(-direction, A, b, E, e)
    return -float(result.fun) if result.status == 0 else np.inf
