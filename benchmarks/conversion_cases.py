"""What is converted, and by whom: the sets of the conversion benchmark and its engines, arrays in to arrays out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import rayhull as rh
from rayhull.conversion.double_description import ENGINES
from tests.zoo import cross_polytope, cyclic_cone, metric_cone

OURS, FLOAT_CDD = "rayhull", "cdd float"
ALL = (OURS, FLOAT_CDD, "ppl", "pplite", "normaliz")


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


# -- the engines, array in to arrays out ------------------------------------------------------------------------------


def run_ours(A: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    G = rh.convert(rh.Polyhedron(A, b), cache=False, max_generators=None)
    return G.rays if b is None else np.concatenate([G.vertices, G.rays]), G.lines


def cone_rows(A: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """Rows M of the cone {M y >= 0} that the other engines get: -A, or (b, -A) and t >= 0."""
    if b is None:
        return -A
    return np.concatenate([np.eye(1, A.shape[1] + 1, dtype=A.dtype), np.concatenate([b[:, None], -A], axis=1)])


def run_cdd_float(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    import cdd

    matrix = cdd.matrix_from_array([[0, *map(float, row)] for row in rows.tolist()], rep_type=cdd.RepType.INEQUALITY)
    generators = cdd.copy_generators(cdd.polyhedron_from_matrix(matrix))
    table = np.array(generators.array).reshape(-1, rows.shape[1] + 1)
    line = np.isin(np.arange(len(table)), list(generators.lin_set))
    return table[~line & (table[:, 0] == 0), 1:], table[line, 1:]


def run_engine(name: str, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if rows.dtype.kind == "f":  # exact engines get the floats as the dyadic fractions that they are
        rows = np.array([[int(v * 2.0**60) for v in row] for row in rows.tolist()], dtype=object)
    rays, lines = ENGINES[name](rows.astype(object))
    return np.array(rays), np.array(lines)


def run(name: str, A: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    if name == OURS:
        return run_ours(A, b)
    rows = cone_rows(A, b)
    return run_cdd_float(rows) if name == FLOAT_CDD else run_engine(name, rows)
