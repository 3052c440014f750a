"""Optional engines, each one function: rays and lines of {M y >= 0} for integer rows M, as integers.

All of them are GPL, so none is required and each is imported only when named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rayhull.errors import MissingExtraError, UnverifiedError
from rayhull.exact.matrices import primitive, sort_rows
from rayhull.exact.numbers import common_denominator, narrow
from rayhull.sets.rows import Array

Directions = list[list[int]]


def engine_rays(engine: str, C: Array) -> Array:
    """Extreme rays of {y >= 0, C y >= 0} by a named engine, checked to be feasible, in our order and form."""
    if C.dtype.kind == "f":
        raise ValueError(
            f'engine="{engine}" converts exact rows only (integers, fractions); engine="auto" takes floats.'
        )
    k = C.shape[1]
    rows = np.concatenate([np.eye(k, dtype=np.int64), C]).astype(object)
    found, lines = ENGINES[engine](rows)
    rays = primitive(np.array(found, dtype=object).reshape(-1, k))
    if lines or (rows.dot(rays.T.astype(object)) < 0).any():
        raise UnverifiedError(f"{engine} returned a direction outside the cone; use engine='auto'.")
    return narrow(rays[sort_rows(rays)])


def _import(module: str, package: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra, f"This engine ({module})") from None


def ppl_directions(rows: Array) -> tuple[Directions, Directions]:
    """The Parma Polyhedra Library."""
    ppl = _import("ppl", "passagemath-ppl", "engines")
    system = ppl.Constraint_System()
    for row in rows.tolist():
        system.insert(ppl.Linear_Expression(row, 0) >= 0)
    cone = ppl.C_Polyhedron(rows.shape[1], "universe")
    cone.add_constraints(system)
    rays: Directions = []
    lines: Directions = []
    for g in cone.minimized_generators():
        if not g.is_point():
            (rays if g.is_ray() else lines).append([int(v) for v in g.coefficients()])
    return rays, lines


def pplite_directions(rows: Array) -> tuple[Directions, Directions]:
    """PPLite."""
    pplite = _import("pplite", "pplitepy", "engines")
    d = rows.shape[1]
    variables = [pplite.Variable(i) for i in range(d)]
    cone = pplite.NNC_Polyhedron(dim_type=d, spec_elem="universe", topology="closed")
    for row in rows.tolist():
        expression = pplite.Linear_Expression()
        for variable, value in zip(variables, row, strict=True):
            if value:
                expression = expression + int(value) * variable
        cone.add_constraint(expression >= 0)
    rays: Directions = []
    lines: Directions = []
    for g in cone.generators():
        if not g.is_point():
            (rays if g.is_ray() else lines).append([int(g.coefficient(v)) for v in variables])
    return rays, lines


def normaliz_directions(rows: Array) -> tuple[Directions, Directions]:
    """Normaliz."""
    normaliz = _import("PyNormaliz", "PyNormaliz", "engines")
    cone = normaliz.Cone(inequalities=[[int(v) for v in row] for row in rows.tolist()])
    rays, lines = cone.ExtremeRays(), cone.MaximalSubspace()
    return [[int(v) for v in r] for r in rays], [[int(v) for v in line] for line in lines]


def cdd_directions(rows: Array) -> tuple[Directions, Directions]:
    """cddlib in rational arithmetic (its float mode can be wrong silently)."""
    gmp = _import("cdd.gmp", "pycddlib", "cdd")
    cdd = _import("cdd", "pycddlib", "cdd")
    matrix = gmp.matrix_from_array([[0, *row] for row in rows.tolist()], rep_type=cdd.RepType.INEQUALITY)
    generators = gmp.copy_generators(gmp.polyhedron_from_matrix(matrix))
    rays: Directions = []
    lines: Directions = []
    for i, row in enumerate(generators.array):
        if row[0] == 0:
            whole = common_denominator(np.array([row[1:]], dtype=object))[0][0]
            (lines if i in generators.lin_set else rays).append([int(v) for v in whole])
    return rays, lines


ENGINES: dict[str, Callable[[Array], tuple[Directions, Directions]]] = {
    "ppl": ppl_directions,
    "pplite": pplite_directions,
    "normaliz": normaliz_directions,
    "cdd": cdd_directions,
}
