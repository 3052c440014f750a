"""Optional engines, each one function: the extreme rays of {M y >= 0} for integer rows M, as integers.

All of them are GPL, so none is required and each is imported only when named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rayhull.errors import MissingExtraError, UnverifiedError
from rayhull.exact import narrow, primitive, sort_rows
from rayhull.rows import Array


def engine_rays(engine: str, C: Array) -> Array:
    """Extreme rays of {y >= 0, C y >= 0} by a named engine, checked to be feasible, in our order and form."""
    if C.dtype.kind == "f":
        raise ValueError(
            f'engine="{engine}" converts exact rows only (integers, fractions); engine="auto" takes floats.'
        )
    k = C.shape[1]
    rows = np.concatenate([np.eye(k, dtype=np.int64), C]).astype(object)
    rays = np.array(ENGINES[engine](rows), dtype=object).reshape(-1, k)
    rays = primitive(rays)
    if (rows.dot(rays.T.astype(object)) < 0).any():
        raise UnverifiedError(f"{engine} returned a ray outside the cone; use engine='auto'.")
    return narrow(rays[sort_rows(rays)])


def _import(module: str, package: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package, extra, f"engine={package!r}") from None


def ppl_rays(rows: Array) -> list[list[int]]:
    """The Parma Polyhedra Library."""
    ppl = _import("ppl", "passagemath-ppl", "engines")
    system = ppl.Constraint_System()
    variables = [ppl.Variable(i) for i in range(rows.shape[1])]
    for row in rows.tolist():
        system.insert(ppl.Linear_Expression(row, 0) >= 0)
    cone = ppl.C_Polyhedron(len(variables), "universe")
    cone.add_constraints(system)
    return [[int(v) for v in g.coefficients()] for g in cone.minimized_generators() if g.is_ray()]


def pplite_rays(rows: Array) -> list[list[int]]:
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
    return [[int(g.coefficient(v)) for v in variables] for g in cone.generators() if g.is_ray()]


def normaliz_rays(rows: Array) -> list[list[int]]:
    """Normaliz."""
    normaliz = _import("PyNormaliz", "PyNormaliz", "engines")
    cone = normaliz.Cone(inequalities=[[int(v) for v in row] for row in rows.tolist()])
    return [[int(v) for v in ray] for ray in cone.ExtremeRays()]


def cdd_rays(rows: Array) -> list[list[int]]:
    """cddlib in rational arithmetic (its float mode can be wrong silently)."""
    gmp = _import("cdd.gmp", "pycddlib", "cdd")
    cdd = _import("cdd", "pycddlib", "cdd")
    matrix = gmp.matrix_from_array([[0, *row] for row in rows.tolist()], rep_type=cdd.RepType.INEQUALITY)
    generators = gmp.copy_generators(gmp.polyhedron_from_matrix(matrix))
    return [_integers(row[1:]) for row in generators.array if row[0] == 0]


def _integers(fractions: Any) -> list[int]:
    from rayhull.exact import common_denominator

    return [int(v) for v in common_denominator(np.array([fractions], dtype=object))[0][0]]


ENGINES: dict[str, Callable[[Array], list[list[int]]]] = {
    "ppl": ppl_rays,
    "pplite": pplite_rays,
    "normaliz": normaliz_rays,
    "cdd": cdd_rays,
}
