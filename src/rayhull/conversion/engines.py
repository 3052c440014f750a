"""Who finds the rays of a cone: our double description, or an optional engine.

An engine is one function: rays and lines of {M y >= 0} for integer rows M, as integers. All of them are GPL, so none is
required and each is imported only when named.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rayhull.conversion.budget import Limits, Tell
from rayhull.conversion.double_description import extreme_rays, verified_rays
from rayhull.errors import UnverifiedError, optional
from rayhull.exact.numbers import common_denominator, narrow, primitive
from rayhull.sets.rows import Array

Directions = list[list[int]]


def check_engine(engine: str) -> None:
    """Refuse an unknown name."""
    if engine != "auto" and engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}: choose one of {', '.join(['auto', *ENGINES])}.")


def find_rays(engine: str, C: Array, limits: Limits, report: Tell | None) -> Array:
    """Extreme rays (r, k) of {y >= 0, C y >= 0}, verified, in lexicographic order."""
    if engine == "auto":
        return extreme_rays(C, limits=limits, report=report, rounded=False)  # what is rounding is 0 already
    if C.dtype.kind == "f":
        raise ValueError(
            f'engine="{engine}" converts exact rows only (integers, fractions); engine="auto" takes floats.'
        )
    k = C.shape[1]
    found, lines = ENGINES[engine](np.concatenate([np.eye(k, dtype=np.int64), C]).astype(object))
    if lines:
        raise UnverifiedError(f"{engine} found a line in a cone that has none; use engine='auto'.")
    return verified_rays(C, narrow(primitive(np.array(found, dtype=object).reshape(-1, k))))


def ppl_directions(rows: Array) -> tuple[Directions, Directions]:
    """The Parma Polyhedra Library."""
    ppl = optional("ppl", "passagemath-ppl", "engines", "This engine (ppl)")
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
    pplite = optional("pplite", "pplitepy", "engines", "This engine (pplite)")
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
    normaliz = optional("PyNormaliz", "PyNormaliz", "engines", "This engine (PyNormaliz)")
    cone = normaliz.Cone(inequalities=[[int(v) for v in row] for row in rows.tolist()])
    rays, lines = cone.ExtremeRays(), cone.MaximalSubspace()
    return [[int(v) for v in r] for r in rays], [[int(v) for v in line] for line in lines]


def cdd_directions(rows: Array) -> tuple[Directions, Directions]:
    """cddlib in rational arithmetic (its float mode can be wrong silently)."""
    gmp = optional("cdd.gmp", "pycddlib", "cdd", "This engine (cdd.gmp)")
    cdd = optional("cdd", "pycddlib", "cdd", "This engine (cdd)")
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
