"""What is converted, and by whom: the sets of the conversion benchmark and its engines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rayhull as rh
from rayhull.exact.numbers import narrow
from tests.zoo import cross_polytope, cyclic_cone, metric_cone

OURS, FLOAT_CDD = "rayhull", "cdd float"


# -- the sets {x : A x <= b}, with the number of lines and of rays (or vertices) where known ---------------------------

Case = tuple[np.ndarray, np.ndarray | None]  # b = None: a cone


def random_cone(m: int, d: int, *, integers: bool, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    point = rng.standard_normal(d)
    A = rng.integers(-9, 10, (m, d)) if integers else rng.standard_normal((m, d))
    return A * -np.sign(A @ point).astype(A.dtype)[:, None]


def redundant() -> np.ndarray:
    rng = np.random.default_rng(0)
    A = random_cone(15, 8, integers=True)
    return np.concatenate([A, rng.integers(0, 4, (40, 15)) @ A])


def hidden_blocks() -> np.ndarray:
    """Six 12x6 cones side by side, then columns added to columns: the sparsity of A shows no block."""
    rng = np.random.default_rng(0)
    A = np.zeros((72, 36), int)
    for i in range(6):
        A[12 * i : 12 * i + 12, 6 * i : 6 * i + 6] = random_cone(12, 6, integers=True, seed=i)
    mix = np.eye(36, dtype=int)
    for _ in range(108):
        i, j = rng.choice(36, 2, replace=False)
        mix[:, i] += rng.choice([-1, 1]) * mix[:, j]
    return A @ mix


def stated(P: rh.Polyhedron) -> Case:
    """A and b of a set of inequalities alone, dense."""
    A = P.A.toarray() if hasattr(P.A, "toarray") else P.A
    return A, None if P.is_cone else P.b


def cube(d: int) -> Case:
    return np.concatenate([np.eye(d, dtype=int), -np.eye(d, dtype=int)]), np.ones(2 * d, int)


CASES: dict[str, tuple[Callable[[], Case], tuple[int, int] | None]] = {
    "checkerboard 16x784": (lambda: stated(rh.checkerboard()), (768, 16)),
    "windows 40x784": (lambda: stated(rh.windows((28, 28), 8, 5)), (760, 250)),
    "monotone 784": (lambda: stated(rh.monotone(784)), (1, 783)),
    "grid 6x6": (lambda: stated(rh.ordered(None, (6, 6))), (1, math.comb(12, 6) - 2)),
    "grid 7x7": (lambda: stated(rh.ordered(None, (7, 7))), (1, math.comb(14, 7) - 2)),
    "grid 8x8": (lambda: stated(rh.ordered(None, (8, 8))), (1, math.comb(16, 8) - 2)),
    "cube 10": (lambda: cube(10), (0, 2**10)),
    "cube 14": (lambda: cube(14), (0, 2**14)),
    "metric cone 6": (lambda: stated(metric_cone(6)), (0, 296)),
    "metric cone 7": (lambda: stated(metric_cone(7)), (0, 55226)),
    "gaussian 40x12": (lambda: (random_cone(40, 12, integers=False), None), None),
    "random integers 40x12": (lambda: (random_cone(40, 12, integers=True), None), None),
    "cross-polytope 8": (lambda: stated(cross_polytope(8)), (0, 16)),
    "cross-polytope 10": (lambda: stated(cross_polytope(10)), (0, 20)),
    "cyclic 20,8": (lambda: stated(cyclic_cone(20, 8)), (0, 2275)),
    "cyclic 30,8": (lambda: stated(cyclic_cone(30, 8)), (0, 17250)),
    "redundant 55x8": (lambda: (redundant(), None), None),
    "hidden blocks 72x36": (lambda: (hidden_blocks(), None), None),
}


# -- the engines: rows stated in its own objects, the conversion itself, its answer read into arrays -------------------

Found = tuple[np.ndarray, np.ndarray]  # rays, lines


def cone_rows(A: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Rows M of the cone {M y >= 0} that the other engines get: -A, or (b, -A) and t >= 0."""
    if b is None:
        return -A
    return np.concatenate([np.eye(1, A.shape[1] + 1, dtype=A.dtype), np.concatenate([b[:, None], -A], axis=1)])


def whole(rows: np.ndarray) -> list[list[int]]:
    """Python integers; exact engines get floats as the dyadic fractions that they are."""
    return [[int(v * 2.0**60) if isinstance(v, float) else int(v) for v in row] for row in rows.tolist()]


class Ours:
    """Arrays in, arrays out: all of it is our own time, splitting, verification and the lift too, without any cache."""

    def state(self, A: np.ndarray, b: np.ndarray | None) -> Case:
        return A, b

    def convert(self, stated: Case) -> Found:
        G = rh.convert(rh.Polyhedron(*stated), cache=False, max_generators=None)
        return G.rays if stated[1] is None else np.concatenate([G.vertices, G.rays]), G.lines

    def read(self, found: Found) -> Found:
        return found


class CddFloat:
    """cddlib in floats."""

    def state(self, A: np.ndarray, b: np.ndarray | None) -> Any:
        import cdd

        rows = [[0, *map(float, row)] for row in cone_rows(A, b).tolist()]
        return cdd.matrix_from_array(rows, rep_type=cdd.RepType.INEQUALITY)

    def convert(self, stated: Any) -> Any:
        import cdd

        return cdd.copy_generators(cdd.polyhedron_from_matrix(stated))

    def read(self, found: Any) -> Found:
        table = np.array(found.array)
        line = np.isin(np.arange(len(table)), list(found.lin_set))
        return table[~line & (table[:, 0] == 0), 1:], table[line, 1:]


class Ppl:
    """The Parma Polyhedra Library."""

    def state(self, A: np.ndarray, b: np.ndarray | None) -> Any:
        import ppl

        system = ppl.Constraint_System()
        for row in whole(cone_rows(A, b)):
            system.insert(ppl.Linear_Expression(row, 0) >= 0)
        return len(row), system

    def convert(self, stated: Any) -> Any:
        import ppl

        cone = ppl.C_Polyhedron(stated[0], "universe")
        cone.add_constraints(stated[1])
        return cone.minimized_generators()

    def read(self, found: Any) -> Found:
        return _sorted(found, lambda g: [int(v) for v in g.coefficients()])


class PPLite:
    """PPLite."""

    def state(self, A: np.ndarray, b: np.ndarray | None) -> Any:
        import pplite

        rows = whole(cone_rows(A, b))
        self.variables = [pplite.Variable(i) for i in range(len(rows[0]))]
        return [self._constraint(row) for row in rows]

    def _constraint(self, row: list[int]) -> Any:
        import pplite

        terms = (value * variable for variable, value in zip(self.variables, row, strict=True) if value)
        return sum(terms, start=pplite.Linear_Expression()) >= 0

    def convert(self, stated: Any) -> Any:
        import pplite

        cone = pplite.NNC_Polyhedron(dim_type=len(self.variables), spec_elem="universe", topology="closed")
        cone.add_constraints(stated)
        return cone.generators()

    def read(self, found: Any) -> Found:
        return _sorted(found, lambda g: [int(g.coefficient(v)) for v in self.variables])


class Normaliz:
    """Normaliz."""

    def state(self, A: np.ndarray, b: np.ndarray | None) -> Any:
        return whole(cone_rows(A, b))

    def convert(self, stated: Any) -> Any:
        import PyNormaliz

        cone = PyNormaliz.Cone(inequalities=stated)
        return cone.ExtremeRays(), cone.MaximalSubspace()

    def read(self, found: Any) -> Found:
        return np.array(found[0], dtype=object), np.array(found[1], dtype=object)


def _sorted(generators: Any, coefficients: Callable[[Any], list[int]]) -> Found:
    """Rays and lines of a generator system, read coefficient by coefficient."""
    kept = [g for g in generators if not g.is_point()]
    rays, lines = ([coefficients(g) for g in kept if bool(g.is_ray()) is wanted] for wanted in (True, False))
    rays, lines = (narrow(np.array(part, object)) for part in (rays, lines))  # NumPy makes floats of 2^63 beside -1
    return rays, lines


ENGINES: dict[str, Callable[[], Any]] = {
    OURS: Ours,
    FLOAT_CDD: CddFloat,
    "ppl": Ppl,
    "pplite": PPLite,
    "normaliz": Normaliz,
}
ALL = tuple(ENGINES)


def run(name: str, A: np.ndarray, b: np.ndarray | None, clock: Callable[[], float]) -> tuple[float, float, Found]:
    """Seconds of the engine itself, seconds from arrays to arrays, and what was found."""
    engine, times = ENGINES[name](), [clock()]
    stated = engine.state(A, b)
    times.append(clock())
    answer = engine.convert(stated)
    times.append(clock())
    found = engine.read(answer)
    return times[2] - times[1], clock() - times[0], found
