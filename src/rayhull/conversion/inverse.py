"""Generators → inequalities by way of the polar cone, and the proof that no generator is missing.

The inequalities a·x <= c that hold on conv(V) + cone(R) + span(L) form a cone themselves: a·v <= c, a·r <= 0, a·l = 0.
Its rays are the irredundant inequalities of the hull and its lines the equalities.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import UnverifiedError
from rayhull.exact.matrices import primitive
from rayhull.sets.linear_programs import maximum, typical_size
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.rows import Array, Rows

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators

SMALLEST_ENTRY = 1e-9  # of a row's largest: HiGHS takes smaller ones for 0


def polar(G: Generators) -> Polyhedron:
    """The cone of the inequalities a·x <= c, as (c / unit, a), that hold on all of G."""
    if not len(G.vertices):
        raise ValueError("generators without a vertex describe the empty set; a cone has the vertex 0.")
    return Polyhedron(np.concatenate(_stacked(G)), A_eq=_with_zero(G.lines if G.exact is None else G.exact.lines))


def _stacked(G: Generators) -> list[Array]:
    """Rows (-1, v) and (0, r) of the polar cone, scaled to integers where exact."""
    if G.exact is not None:
        top = np.concatenate([-G.exact.denominators[:, None], G.exact.numerators], axis=1)
        return [top, _with_zero(G.exact.rays)]
    return [np.concatenate([-np.ones((len(G.vertices), 1)), G.vertices / unit_of(G)], axis=1), _with_zero(G.rays)]


def unit_of(G: Generators) -> float:
    """A power of two near the largest entry of a vertex: beside -1, floats of 1e-20 would look like rounding."""
    size = float(np.abs(G.vertices).max(initial=0.0)) if G.exact is None else 0.0
    return float(2.0 ** np.floor(np.log2(size))) if size else 1.0


def _with_zero(directions: Array) -> Array:
    return np.concatenate([np.zeros((len(directions), 1), directions.dtype), directions], axis=1)


def hull(facets: Generators, unit: float = 1.0) -> Polyhedron:
    """The set whose inequalities (c / unit, a) are the rays of the polar cone, and whose equalities are its lines."""
    known = facets if facets.exact is None else facets.exact
    rows, equalities = known.rays, known.lines
    rows = rows[(rows[:, 1:] != 0).any(axis=1)]  # (1, 0) says 0 <= 1
    scale = 1 if unit == 1.0 else Fraction(unit) if facets.exact else unit
    return Polyhedron(rows[:, 1:], rows[:, 0] * scale, equalities[:, 1:], equalities[:, 0] * scale)


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
            f"A generator is missing: a·x reaches {top:.6g} on the set, {c:.6g} on the generators. "
            "Give the rows as integers or fractions, or use another engine."
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
