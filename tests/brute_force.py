"""Generators of small pointed sets by trying every choice of tight rows, in fractions: slow, and obviously right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction

from rayhull import Polyhedron


def homogeneous_rows(P: Polyhedron) -> tuple[list[list[int]], list[list[int]]]:
    """Rows (b, -a) that are >= 0 (the last is t >= 0) and = 0 on the cone {(t, x)} over P."""
    tables = []
    for rows in (P.rows, P.equality_rows):
        A, b = rows.dense_integers()
        tables.append([[c, *(-v for v in row)] for row, c in zip(A.tolist(), b.tolist(), strict=True)])
    return [*tables[0], [1] + [0] * P.dim], tables[1]


def null_vector(rows: list[list[int]], width: int) -> list[int] | None:
    """The primitive integer vector that spans the null space, or None if its dimension is not 1."""
    work = [[Fraction(v) for v in row] for row in rows]
    pivots: list[int] = []
    for column in range(width):
        done = len(pivots)
        found = next((i for i in range(done, len(work)) if work[i][column]), None)
        if found is None:
            continue
        work[done], work[found] = work[found], work[done]
        top = work[done][column]
        work[done] = [v / top for v in work[done]]
        for i in range(len(work)):
            if i != done and work[i][column]:
                factor = work[i][column]
                work[i] = [a - factor * b for a, b in zip(work[i], work[done], strict=True)]
        pivots.append(column)
    free = [c for c in range(width) if c not in pivots]
    if len(free) != 1:
        return None
    vector = [Fraction(0)] * width
    vector[free[0]] = Fraction(1)
    for row, column in zip(work, pivots, strict=False):
        vector[column] = -row[free[0]]
    scale = math.lcm(*(v.denominator for v in vector))
    integers = [int(v * scale) for v in vector]
    common = math.gcd(*integers)
    return [v // common for v in integers]


def cone_rays(rows: list[list[int]], equal: list[list[int]], sizes: Iterable[int]) -> set[tuple[int, ...]]:
    """Primitive rays of {rows >= 0, equal = 0}, from so many rows that are tight."""
    found: set[tuple[int, ...]] = set()
    for chosen in itertools.chain.from_iterable(itertools.combinations(rows, size) for size in sizes):
        vector = null_vector([*equal, *chosen], len(rows[0]))
        for sign in (1, -1) if vector is not None else ():
            candidate = [sign * v for v in vector or []]
            if all(sum(a * v for a, v in zip(row, candidate, strict=True)) >= 0 for row in rows):
                found.add(tuple(candidate))
    return found


def vertices_and_rays(P: Polyhedron) -> tuple[set[tuple[Fraction, ...]], set[tuple[int, ...]]]:
    """Vertices as fractions and rays as primitive integers of a set without lines."""
    found = cone_rays(*homogeneous_rows(P), range(P.dim + 1))
    vertices = {tuple(Fraction(v, c[0]) for v in c[1:]) for c in found if c[0] > 0}
    return vertices, {c[1:] for c in found if c[0] == 0}
