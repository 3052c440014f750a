"""Generators → inequalities by the same machinery, and the proof that no generator is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import UnverifiedError
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.conversion.generators import Generators
    from rayhull.sets.polyhedron import Polyhedron


def to_polyhedron(G: Generators, **options: Any) -> Polyhedron:
    """The inequalities a·x <= c that hold on all of G, irredundant.

    (c, a) with a·v <= c, a·r <= 0, a·l = 0 form a cone; its rays are the inequalities and its lines the equalities.
    """
    from rayhull.conversion.convert import convert
    from rayhull.sets.polyhedron import Polyhedron

    if not len(G.vertices):
        raise ValueError("generators without a vertex describe the empty set; a cone has the vertex 0.")
    polar = Polyhedron(np.concatenate(_stacked(G)), A_eq=_lines(G))
    facets = convert(polar, **options)
    rows, equalities = (_numbers(facets, kind) for kind in ("rays", "lines"))
    rows = rows[(rows[:, 1:] != 0).any(axis=1)]  # (1, 0) says 0 <= 1
    return Polyhedron(rows[:, 1:], rows[:, 0], equalities[:, 1:], equalities[:, 0])


def _stacked(G: Generators) -> list[Array]:
    """Rows (-1, v) and (0, r) of the polar cone, scaled to integers where exact."""
    if G.exact is not None:
        top = np.concatenate([-G.exact.denominators[:, None], G.exact.numerators], axis=1)
        return [top, _with_zero(G.exact.rays)]
    return [np.concatenate([-np.ones((len(G.vertices), 1)), G.vertices], axis=1), _with_zero(G.rays)]


def _lines(G: Generators) -> Array:
    return _with_zero(G.lines if G.exact is None else G.exact.lines)


def _with_zero(directions: Array) -> Array:
    return np.concatenate([np.zeros((len(directions), 1), directions.dtype), directions], axis=1)


def _numbers(G: Generators, kind: str) -> Array:
    return getattr(G if G.exact is None else G.exact, kind)


def prove_complete(P: Polyhedron, G: Generators) -> None:
    """Raise unless every inequality of conv(vertices) + cone(rays) + span(lines) holds on P.

    The generators are known to lie in P; so with this P and their hull are the same set. One linear program each.
    """
    from rayhull.sets.linear_programs import maximum

    hull = to_polyhedron(G)
    for rows, sides in ((hull.rows, (1,)), (hull.equality_rows, (1, -1))):
        for i in range(len(rows)):
            a, c = rows.matrix[[i]].toarray().ravel(), rows.rhs[i]
            for sign in sides:
                top = maximum(P, sign * a)
                if top > sign * c + 1e-6 * (1.0 + abs(c) + float(np.abs(a).max())):
                    raise UnverifiedError(
                        f"A generator is missing: a·x reaches {top:.6g} on the set, {sign * c:.6g} on the generators. "
                        "Give the rows as integers or fractions, or use another engine."
                    )
