"""Questions that a linear program answers: the deepest point, is it bounded, is it a subset, is it empty.

That rows contradict each other is proved exactly where their numbers are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # scipy.optimize is loaded when it is first used: 0.12 s, and many sets need no linear program
import scipy.sparse as sp

from rayhull.errors import EmptySetError
from rayhull.exact.elimination import DENSE_ENTRIES, independent_rows, rank, reduction
from rayhull.exact.numbers import Array, others
from rayhull.exact.progress import patiently
from rayhull.exact.threads import one_blas_thread
from rayhull.sets.rows import Rows, count, in_words
from rayhull.sets.systems import is_wide

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


# Rows are scaled to unit length before every LP. All levels are relative to the size of the point found, 1 + max|x|.
TOLERANCE = 1e-10  # of HiGHS, the smallest that it takes
NOT_ZERO = 1e-9  # multipliers and depths from here on are no rounding
THIN = 1e-6  # a set of less depth is looked at again, magnified
ZOOM = 1e-8  # the magnified LP measures in units of this
SAME = 1e-7  # of a set's size: sets that differ by less are not told apart
# Where rows are exact, a violation below BARELY needs a proof in integers (HiGHS allows itself 1e-7), and so does any
# violation of unit rows with entries below SEEN (HiGHS takes them for 0).
BARELY, SEEN = 1e-5, 1e-9
MANY = 2000  # rows from which a linear program may take seconds
FEW = 64  # a contradiction of at most this many rows is thinned to one in which every row is needed


def solve(
    cost: Array, A: Any, b: Array, A_eq: Any, b_eq: Array, bounds: Any = (None, None), seconds: float = np.inf
) -> Any:
    """min cost·x subject to A x <= b, A_eq x = b_eq and the bounds, by HiGHS, which stops after so many seconds."""
    options = {
        "primal_feasibility_tolerance": TOLERANCE,
        "dual_feasibility_tolerance": TOLERANCE,
        "time_limit": seconds,
    }
    many = A.shape[0] > MANY
    # on chains of 10^4 rows the simplex method takes four times as long as interior points with crossover
    method = "highs-ipm" if many else "highs"
    run = partial(scipy.optimize.linprog, cost, A, b, A_eq, b_eq, bounds, method, options=options)
    return patiently(run, f"a linear program of {A.shape[0]} rows") if many else run()


def is_feasible(rows: Rows, equalities: Rows) -> bool:
    """Whether some point satisfies the rows up to the solver's tolerance."""
    return bool(solve(np.zeros(rows.dim), *rows.unit[:2], *equalities.unit[:2]).status == 0)


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


def deepest(A: sp.csr_array, b: Array, E: sp.csr_array, e: Array) -> Deepest | None:
    """max t  s.t.  A x + t <= b, E x = e, for rows of length 1; None where the solver finds no point of the equalities.

    A thin set is looked at again, magnified.
    """
    cap = 1.0 + max(np.abs(b).max(initial=0.0), np.abs(e).max(initial=0.0))
    found = _deepest_once(A, b, E, e, (None, None), cap)
    if found is None or found.depth > THIN * found.scale:
        return found
    # magnified around the point: what HiGHS takes for rounding at first is a size of order 1 now
    unit_length = ZOOM * found.scale
    with np.errstate(over="ignore"):
        slack = np.minimum((b - A @ found.point) / unit_length, 1e6)
    again = _deepest_once(A, slack, E, (e - E @ found.point) / unit_length, (-1e4, 1e4), 1e4)
    if again is None:  # a depth that HiGHS has allowed itself
        return replace(found, depth=float((b - A @ found.point).min(initial=found.depth)))
    point, depth = found.point + unit_length * again.point, unit_length * again.depth
    return Deepest(point, depth, again.multipliers, again.eq_multipliers)


def _deepest_once(
    A: sp.csr_array, b: Array, E: sp.csr_array, e: Array, reach: tuple[float | None, float | None], cap: float
) -> Deepest | None:
    d = A.shape[1]
    bounds = [reach] * d + [(None, cap)]
    slope, level = sp.hstack([A, np.ones((len(b), 1))]), sp.hstack([E, sp.csr_array((len(e), 1))])
    result = solve(np.append(np.zeros(d), -1.0), slope, b, level, e, bounds)
    if result.status != 0:
        return None
    return Deepest(result.x[:-1], float(result.x[-1]), -result.ineqlin.marginals, -result.eqlin.marginals)


@one_blas_thread()
def is_bounded(P: Polyhedron) -> bool:
    """Whether the set contains no ray and no line: r = 0 alone has A r <= 0, A_eq r = 0.

    By Stiemke's lemma: the rows span R^d, and y >= 1 exists with A^T y + A_eq^T z = 0.
    """
    if np.isfinite(P.lower_bounds).all() and np.isfinite(P.upper_bounds).all():
        return True
    if _has_ray(P):
        return False
    if is_wide(P.dim) and _no_way_out(P):
        return True
    A, E = P.rows.unit[0], P.equality_rows.unit[0]
    if row_rank(Rows.stack([P.rows, P.equality_rows])) < P.dim:
        return False
    m, k = A.shape[0], E.shape[0]
    both = sp.csr_array(sp.hstack([A.T, E.T], format="csr"))
    bounds = [(1, None)] * m + [(None, None)] * k
    result = solve(np.zeros(m + k), sp.csr_array((0, m + k)), np.zeros(0), both, np.zeros(P.dim), bounds)
    return bool(result.status == 0)


def _has_ray(P: Polyhedron) -> bool:
    """Whether rows, or those of a coordinate, are too few to bound it, or 1 or -1 in all coordinates is a ray."""
    m, k = len(P.rows), len(P.equality_rows)
    held = np.bincount(P.rows.indices, minlength=P.dim) + 2 * np.bincount(P.equality_rows.indices, minlength=P.dim)
    if (m + k <= P.dim and k < P.dim) or (held < 2).any():
        return True
    along, equal = (np.asarray(part.matrix.sum(1)).ravel() for part in (P.rows, P.equality_rows))
    return not equal.any() and bool((along <= 0).all() or (along >= 0).all())


def _no_way_out(P: Polyhedron) -> bool:
    """Whether rows prove one after the other that no ray moves any coordinate; what is not proved so may hold.

    Of a row a·r <= 0 whose terms are all known to be >= 0 but one, that one is <= 0.
    """
    A, E = P.rows.matrix, P.equality_rows.matrix
    rows = sp.csr_array(sp.vstack([A, E, -E]))
    sign, column = np.sign(rows.data), rows.indices
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    known = np.zeros((2, P.dim), bool)  # r <= 0, r >= 0
    while True:
        below = known[np.where(sign > 0, 1, 0), column]  # the term is >= 0
        open_terms = np.bincount(row[~below], minlength=rows.shape[0])[row]
        told = (open_terms == 0) | ((open_terms == 1) & ~below)
        new = known.copy()
        new[np.where(sign > 0, 0, 1)[told], column[told]] = True
        if (new == known).all():
            return bool(known.all())
        known = new


@one_blas_thread()
def row_rank(rows: Rows) -> int:
    """The rank of the rows: exact for integers, by singular values for floats."""
    if rows.integers is not None:
        return rank(rows.integers[0], rows.indices, rows.indptr, rows.dim)
    return int(np.linalg.matrix_rank(rows.unit[0].toarray())) if len(rows) else 0


def maximum(P: Polyhedron, direction: Array) -> float:
    """The largest direction·x over P, infinite where there is none."""
    size = typical_size(P)  # HiGHS takes right-hand sides from 1e20 on for infinite
    (A, b, _), (E, e, _) = P.rows.unit, P.equality_rows.unit
    result = solve(-direction, A, b / size, E, e / size)
    return -float(result.fun) * size if result.status == 0 else np.inf


def typical_size(P: Polyhedron) -> float:
    """The unit in which the set is of order 1: the median distance of its rows from 0, as a power of two."""
    distances = np.abs(np.concatenate([P.rows.unit[1], P.equality_rows.unit[1]]))
    distances = distances[(distances > 0) & (distances < np.inf)]
    return float(2.0 ** np.floor(np.log2(np.median(distances)))) if len(distances) else 1.0


def is_subset(P: Polyhedron, Q: Polyhedron) -> bool:
    """Whether every point of this set lies in the set Q: max a·x <= b for each of its rows, up to 1e-7 of the size.

    Examples:
        >>> import rayhull as rh
        >>> rh.simplex(3).is_subset(rh.box(0, 1, 3)), rh.box(0, 1, 3).is_subset(rh.simplex(3))
        (True, False)
    """
    if not isinstance(Q, type(P)):
        raise TypeError(f"expected a set, got {type(Q).__name__}: give rayhull.Polyhedron(A, b) for A x <= b.")
    if P.shape != Q.shape:
        raise ValueError(f"sets of shape {P.shape} and {Q.shape} cannot be compared: give both the same shape.")
    if P.fingerprint == Q.fingerprint:
        return True
    tightest: dict[bytes, float] = {}
    equal = dict(_by_key(P.equality_rows))  # an inequality of P does not answer for an equality of Q
    for key, c in (*_by_key(P.rows), *equal.items()):
        tightest[key] = min(c, tightest.get(key, np.inf))
    above = [i for i, (key, c) in enumerate(_by_key(Q.rows)) if tightest.get(key, np.inf) > c]
    beside = [i for i, (key, c) in enumerate(_by_key(Q.equality_rows)) if equal.get(key) != c]
    return _holds(P, Q.rows.take(np.array(above)), 1) and all(
        _holds(P, Q.equality_rows.take(np.array(beside)), sign) for sign in (1, -1)
    )


def _holds(P: Polyhedron, rows: Rows, sign: int) -> bool:
    A, b, _ = rows.unit
    own = typical_size(P)
    tolerated = SAME * (own + np.abs(b))
    return all(maximum(P, sign * A[[i]].toarray()[0]) <= sign * b[i] + tolerated[i] for i in range(len(rows)))


def _by_key(rows: Rows) -> Iterator[tuple[bytes, float]]:
    """The coefficients of each row as bytes, and its right-hand side: rows that both sets state need no program."""
    matrix = rows.matrix.sorted_indices()
    places, numbers = (np.split(v, matrix.indptr[1:-1]) for v in (matrix.indices.astype(np.int64), matrix.data))
    keys = (where.tobytes() + b"|" + what.tobytes() for where, what in zip(places, numbers, strict=True))
    return zip(keys, rows.rhs.tolist(), strict=False)


# -- is the set empty, and which of its rows contradict each other -----------------------------------------------------


@one_blas_thread()
def refuse_if_empty(P: Polyhedron) -> None:
    """Raise :class:`EmptySetError` naming a small group of rows with no common point; P does not contain 0."""
    _refuse_crossed_bounds(P)
    _refuse_rows_of_zeros(P)
    nearest = np.clip(0.0, P.lower_bounds, P.upper_bounds)
    if nearest.any() and P.contains_exactly(nearest.reshape(P.shape)):
        return
    for group in P.block_groups:
        if is_wide(group.polyhedron.dim) and group.polyhedron.at_hand is not None:
            continue
        rows, equalities = P.rows.take(group.rows[0]), P.equality_rows.take(group.equality_rows[0])
        names = _contradiction(rows, equalities)
        if names is not None:
            total = len(P.rows) + len(P.equality_rows)
            share = f"{len(names)} of {total}" if len(names) < total else f"{total}"
            raise EmptySetError(
                f"These {share} rows have no common point: {in_words(names)} contradict each other. Rows mean "
                "A x <= b: is a sign the other way round?",
                names,
            )


def _refuse_crossed_bounds(P: Polyhedron) -> None:
    crossed = np.flatnonzero(P.bound_order > 0)
    if len(crossed):
        first = int(crossed[0])
        low, high = (np.ravel(bound)[first] for bound in (P.lower, P.upper))  # type: ignore[arg-type]
        names = P.bound_name("lower bound", first), P.bound_name("upper bound", first)
        where = f"{count(len(crossed), 'coordinate')}, first at {P.coordinates[first]}"
        raise EmptySetError(f"lower > upper in {where}: {low} > {high} ({in_words(names)}).", names)


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
    exact = rows.integers is not None and equalities.integers is not None
    inconsistent = equalities.integers is not None and _are_inconsistent(equalities)
    found = None if inconsistent else deepest(*rows.unit[:2], *equalities.unit[:2])
    if found is not None and found.depth > THIN * found.scale:
        return None
    if found is not None and exact:
        used = _used(rows, equalities, found.multipliers, found.eq_multipliers)
        if _is_refuted(*used):
            return _names(_thin(*used))
    if found is not None and found.depth >= -NOT_ZERO * found.scale:
        return None
    return _least_violation(rows, equalities, exact) or (tuple(equalities.names) if inconsistent else None)


def _names(parts: Iterable[Rows]) -> tuple[str, ...]:
    return tuple(name for part in parts for name in part.names)


def _used(rows: Rows, equalities: Rows, y: Array, z: Array) -> tuple[Rows, Rows]:
    """The rows with multipliers that are no rounding."""
    return rows.take(np.flatnonzero(np.abs(y) > NOT_ZERO)), equalities.take(np.flatnonzero(np.abs(z) > NOT_ZERO))


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
    vertex of the dual linear program uses. Nothing is proved of more rows than fit into memory.
    """
    if (len(rows) + len(equalities)) * rows.dim > DENSE_ENTRIES:
        return False
    (A, b), (E, e) = rows.dense_integers(), equalities.dense_integers()
    matrix, rhs = np.concatenate([A, E]).astype(object), np.concatenate([b, e]).astype(object)
    chosen, pivots, weights, common = reduction(matrix)
    rest = others(chosen, len(matrix))
    if len(rest) != 1:
        return False
    multipliers = np.zeros(len(matrix), dtype=object)  # that cancel all rows
    multipliers[chosen] = -matrix[rest[0], pivots].dot(weights) if len(pivots) else 0
    multipliers[rest[0]] = common
    for y in (multipliers, -multipliers):
        if (y[: len(A)] >= 0).all() and y.dot(rhs) < 0:
            return not y.dot(matrix).any()
    return False


def _least_violation(rows: Rows, equalities: Rows, exact: bool) -> tuple[str, ...] | None:
    """Names of a small group of rows with no common point, or None if the least violation is about 0.

    An equality counts as two rows here, so that a point is found; one row at a time is left out of what holds it there.
    """
    (A, b, _), (E, e, _), none = rows.unit, equalities.unit, Rows.empty(rows.dim).unit[:2]
    found = deepest(sp.csr_array(sp.vstack([A, E, -E])), np.concatenate([b, e, -e]), *none)
    if found is None or found.depth >= -NOT_ZERO * found.scale:
        return None
    y, above, below = np.split(found.multipliers, [len(b), len(b) + len(e)])
    few = _thin(*_used(rows, equalities, y, above - below))
    entries = np.abs(np.concatenate([A.data, E.data]))
    barely = found.depth > -BARELY * (1.0 + np.abs(b).max(initial=0.0))
    unsure = barely or entries[entries > 0].min(initial=1.0) < SEEN
    return None if exact and unsure and not _is_refuted(*few) else _names(few)


def _thin(*parts: Rows) -> tuple[Rows, ...]:
    """Inequalities and equalities without every row without which the rest is still contradictory."""
    for k in range(2 if sum(map(len, parts)) <= FEW else 0):
        for i in reversed(range(len(parts[k]))):
            fewer = list(parts)
            fewer[k] = parts[k].take(np.delete(np.arange(len(parts[k])), i))
            if not is_feasible(*fewer):
                parts = tuple(fewer)
    return parts
