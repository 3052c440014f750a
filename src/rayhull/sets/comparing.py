"""Is one set part of another, are two the same: by linear programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.exact.numbers import Array
from rayhull.sets.linear_programs import maximum
from rayhull.sets.rows import Rows

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

TOLERANCE = 1e-7  # of a unit row: that of the solver


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
        if maximum(P, normal / size) > bound / size + TOLERANCE * (1 + abs(bound) / size):
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
