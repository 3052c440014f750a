"""Every answer is checked from the rows themselves: rays feasible, extreme, none twice; none missing.

A ray is extreme if its tight rows have rank k - 1. That is proved modulo a prime, where a rank can only drop; a ray
that seems to fail is decided in exact arithmetic. Floats are recomputed from their tight rows on the way. What is
missing shows along edges; the list is proved complete by the inequalities of its hull, which must hold on the set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rayhull.core.conversion import examine, independent_rows
from rayhull.core.reference import floats
from rayhull.core.reference.adjacency import Words, packed, supersets, unpacked
from rayhull.core.reference.verification import NEGATIVE
from rayhull.errors import UnverifiedError
from rayhull.exact.numbers import Array, primitive
from rayhull.sets.linear_programs import maximum, typical_size

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.rows import Rows

PRIME = 67108859  # the largest below 2^26: sums of two products of residues are exact in floats
SMALLEST_ENTRY = 1e-9  # of a row's largest: HiGHS takes smaller ones for 0
MOST_COMPARISONS = 50_000_000  # words compared to find the ends of edges at rays that are not simple


def verified(C: NDArray[Any], Y: NDArray[Any], E: floats.Floats, *, edges: bool = False) -> NDArray[Any]:
    """The rays Y (r, k), floats polished, if they pass every check; else :class:`~rayhull.errors.UnverifiedError`.

    C (n, k) are the rows, scaled if floats, E (r,) the error of each ray, 0 if exact. ``edges`` looks for missing rays
    along the edges of exact ones too; floats always are.
    """
    if not len(Y):
        return Y
    if C.dtype == np.float64:
        return _verified_float(C, Y, E)
    fault, zeros, extreme = examine(C, Y, PRIME)
    if fault:
        raise _broken("a ray has a negative coordinate" if fault == NEGATIVE else "a ray breaks a row")
    if not extreme.all():
        _prove_extreme(C, unpacked(zeros[~extreme], sum(C.shape)))
    _check_distinct(zeros)
    if edges:
        check_edges(unpacked(zeros, sum(C.shape)), zeros, Y.shape[1])
    return Y


def _broken(what: str) -> UnverifiedError:
    return UnverifiedError(
        f"The conversion failed its own verification: {what}. This is a fault in rayhull; please report the rows."
    )


def _prove_extreme(C: NDArray[Any], zeros: NDArray[np.bool_]) -> None:
    """Raise unless the rows that are tight at each of these rays have rank k - 1, in exact arithmetic.

    A coordinate that is zero is a tight unit row, so it takes one from both sides and need not be eliminated. The rows
    are 0 at the ray, so one of the other columns follows from the rest: left out, a single prime proves the rank.
    """
    k = C.shape[1]
    for support, tight in zip(~zeros[:, :k], zeros[:, k:], strict=True):
        columns = np.flatnonzero(support)[1:]
        rows = C[np.ix_(tight, columns)]
        if not support.any() or len(independent_rows(rows)[0]) != len(columns):
            raise _broken("a ray is not extreme")


def _check_distinct(sets: Words) -> None:
    """Extreme rays with the same zeros are the same ray."""
    ordered = sets[np.lexsort(sets.T)]
    if (ordered[1:] == ordered[:-1]).all(axis=1).any():
        raise _broken("a ray comes twice")


def _verified_float(C: floats.Floats, Y: floats.Floats, E: floats.Floats) -> floats.Floats:
    """Floats: the zeros read off the rays must determine them, and come out the same for what they determine."""
    tight = _tight_or_clear(C, Y, E)
    support = Y > 0
    Y, E, rest = floats.determined(C, tight, support)
    if (rest > floats.CLEAR_LEVEL * E).any():
        raise floats.ill_conditioned()
    if (_tight_or_clear(C, Y, E) != tight).any():
        raise UnverifiedError(f"A ray and the rows that are tight at it do not agree. {floats.ADVICE}")
    sets = packed(np.concatenate([~support, tight], axis=1))
    _check_distinct(sets)
    check_edges(np.concatenate([~support, tight], axis=1), sets, Y.shape[1])
    return Y


def _tight_or_clear(C: floats.Floats, Y: floats.Floats, E: floats.Floats) -> floats.Bools:
    """Where C y is zero, (r, n); everywhere else it must be clearly positive."""
    slack, level = Y @ C.T, E[:, None]
    tight: floats.Bools = np.abs(slack) <= floats.zero_level(level)
    doubtful = np.flatnonzero((~tight & (slack < floats.CLEAR_LEVEL * level)).any(axis=0))
    if len(doubtful):
        raise floats.too_close(int(doubtful[0]))
    if np.any((Y > 0) & (floats.ZERO_LEVEL * level >= Y)):
        raise UnverifiedError(f"A ray has a coordinate too close to zero to call. {floats.ADVICE}")
    return tight


def check_edges(zeros: NDArray[np.bool_], sets: Words, k: int) -> None:
    """Raise unless each edge of each simple ray is shared with exactly one other ray.

    A simple ray has exactly k - 1 tight rows; leaving one out gives an edge, on which exactly two rays lie. If all rays
    are simple this proves the list complete, since the edges of a cone connect all its rays. Edges that end at a ray
    with more tight rows are followed while that is cheap. ``zeros`` (r, k + n) are the tight rows of each ray, ``sets``
    the same packed.
    """
    if k < 2:
        return
    simple = zeros.sum(axis=1) == k - 1
    rows = np.nonzero(zeros[simple])[1].reshape(-1, k - 1)
    keys = np.random.default_rng(0).integers(0, 2**64, zeros.shape[1], np.uint64)  # an edge's name: a sum of keys
    edges = keys[rows].sum(axis=1, dtype=np.uint64)[:, None] - keys[rows]  # (simple, k - 1)
    _, where, times = np.unique(edges, return_inverse=True, return_counts=True)
    times = times[where].reshape(edges.shape)
    if (times > 2).any():
        raise _incomplete("more than two rays share an edge")
    ray, drop = np.nonzero(times == 1)
    others = sets[~simple]
    if len(ray) * others.size > MOST_COMPARISONS:
        return
    wanted = zeros[simple][ray]
    wanted[np.arange(len(ray)), rows[ray, drop]] = False
    ends = supersets(packed(wanted), others)
    if (ends != 1).any():
        raise _incomplete("an edge has no ray at its other end" if (ends == 0).any() else "an edge has three ends")


def _incomplete(what: str) -> UnverifiedError:
    return UnverifiedError(f"The rays do not fit together ({what}). {floats.ADVICE}")


# -- the whole list: no generator of the set is missing ----------------------------------------------------------------


def prove_complete(P: Polyhedron, Q: Polyhedron) -> None:
    """Raise unless every inequality of Q, the hull of the generators, holds on P.

    The generators are known to lie in P; so with this P and their hull are the same set. A row that P states holds, any
    other is checked by a linear program.
    """
    equal, unequal = (set(_listed(rows)) if Q.is_exact else set() for rows in (P.equality_rows, P.rows))
    equal |= {tuple(-v for v in row) for row in equal}
    for rows, stated, signs in ((Q.rows, equal | unequal, (1,)), (Q.equality_rows, equal, (1, -1))):
        for i, numbers in enumerate(_listed(rows)):
            if numbers not in stated:
                for sign in signs:
                    _prove_row(P, sign * rows.matrix[[i]].toarray().ravel(), sign * rows.rhs[i])


def _listed(rows: Rows) -> list[tuple[int, ...]]:
    """Each row (a, c) as a primitive integer vector."""
    A, b = rows.dense_integers()
    return [tuple(row) for row in primitive(np.concatenate([A, b[:, None]], axis=1)).tolist()]


def _prove_row(P: Polyhedron, a: Array, c: float) -> None:
    """a·x <= c on P, up to the solver's tolerance."""
    _refuse_wide_rows(P)
    size = float(np.abs(a).max())
    a, c = a / size, c / size
    top = maximum(P, a)
    if top > c + 1e-6 * (typical_size(P) + abs(c)):
        raise UnverifiedError(
            f"A generator is missing: a·x reaches {top:.6g} on the set, {c:.6g} on the generators. {floats.ADVICE}"
        )


def _refuse_wide_rows(P: Polyhedron) -> None:
    """Linear programs are solved in floats, where an entry much smaller than others of its row does not count."""
    for rows in (P.rows, P.equality_rows):
        size = np.abs(rows.matrix.data)
        largest = np.zeros(len(rows))
        np.maximum.at(largest, rows.row_of_entry, size)
        if (size < SMALLEST_ENTRY * largest[rows.row_of_entry]).any():
            raise UnverifiedError(
                'verify="full" cannot decide this set: entries of a row differ by a factor of more than 1e9, which is '
                "too much for its linear programs. The generators themselves were verified; use verify=True."
            )
