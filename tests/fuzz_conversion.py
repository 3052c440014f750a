"""Random sets, most of them degenerate, converted and judged by someone else: right, or a clear error.

Then the same set is stated in another way (other units, scaled rows, a row that says nothing, other coordinates first)
and must give the same generators; floats may refuse.
"""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import nnls

import rayhull as rh
from benchmarks.conversion_cases import run as run_engine
from tests.brute_force import vertices_and_rays
from tests.fuzz import counted

RESTATED = ("units", "scaled rows", "far row", "permuted")
SEEN = Counter[str]()


def convert(P: rh.Polyhedron, **options: Any) -> rh.Generators:
    """Anew each time, and counted."""
    SEEN["conversions in all"] += 1
    return rh.convert(P, cache=False, **options)


def random_rows(rng: np.random.Generator) -> np.ndarray:
    """Integer rows with many coincidences."""
    d = int(rng.integers(1, 7))
    kind = rng.choice(["random", "copies", "sums", "product", "cube", "order", "sparse", "low rank"])
    A = rng.integers(-3, 4, (int(rng.integers(1, 9)), d))
    if kind == "copies":
        A = np.concatenate([A, A[rng.integers(0, len(A), 3)] * rng.integers(1, 4, (3, 1))])
    elif kind == "sums":
        A = np.concatenate([A, rng.integers(0, 3, (4, len(A))) @ A])
    elif kind == "product":
        B = rng.integers(-2, 3, (3, 2))
        A = np.block([[A, np.zeros((len(A), 2), int)], [np.zeros((3, d), int), B]])
    elif kind == "cube":
        A = np.concatenate([np.eye(d, dtype=int), -np.eye(d, dtype=int), A[:2]])
    elif kind == "order":
        A = np.zeros((6, d + 1), int)
        for row in A:
            i, j = rng.choice(d + 1, 2, replace=False)
            row[i], row[j] = 1, -1
    elif kind == "sparse":
        A = A * (rng.random(A.shape) < 0.4)
    elif kind == "low rank":
        A = A @ rng.integers(-1, 2, (d, 2)) @ rng.integers(-1, 2, (2, d))
    return A


def random_set(rng: np.random.Generator) -> dict[str, Any]:
    """Arguments of a Polyhedron: a cone or not, with bounds or not, integers, fractions or noisy floats."""
    A = random_rows(rng)
    d = A.shape[1]
    b = np.zeros(len(A), int) if rng.random() < 0.4 else rng.integers(-1, 4, len(A))
    arguments: dict[str, Any] = {"A": A, "b": b}
    if rng.random() < 0.3:
        arguments |= {"A_eq": rng.integers(-2, 3, (1, d)), "b_eq": rng.integers(0, 2, 1)}
    if rng.random() < 0.4:
        arguments["lower"] = int(rng.integers(-2, 1))
    if rng.random() < 0.3:
        arguments["upper"] = int(rng.integers(0, 3))
    kind = rng.choice(
        ["integers", "fractions", "big", "prime", "noise", "floats"], p=[0.4, 0.15, 0.1, 0.05, 0.15, 0.15]
    )
    if kind == "fractions":
        arguments["A"] = A * np.array([Fraction(int(n), int(m)) for n, m in rng.integers(1, 7, (d, 2))], dtype=object)
    elif kind == "big":
        arguments["A"] = A.astype(object) * int(rng.integers(1, 10**6)) ** 4 + rng.integers(-1, 2, A.shape)
    elif kind == "prime":  # rows that elimination modulo one prime takes for dependent
        arguments["A"] = A.astype(object) + rng.integers(-1, 2, A.shape) * int(rng.choice([2**31 - 1, 67108859]))
    elif kind == "floats":  # nothing in common but what the pattern forces
        arguments["A"] = A * rng.uniform(0.5, 2.0, A.shape)
        arguments["b"] = b * rng.uniform(0.5, 2.0, b.shape)
    elif kind == "noise":
        level = 10.0 ** rng.integers(-16, -5)
        arguments["A"] = A * (1 + level * rng.standard_normal(A.shape))
    return arguments


def judge(P: rh.Polyhedron, G: rh.Generators) -> str:
    """Who proved the answer right; raises if nobody can."""
    if P.is_exact and len(P.rows) <= 9 and P.dim <= 4 and not len(G.lines):
        vertices, rays = vertices_and_rays(P)
        assert {tuple(v) for v in G.exact_vertices} == vertices
        assert {tuple(int(x) for x in r) for r in G.exact.rays} == rays
        return "brute force"
    if P.is_exact and len(P.rows) <= 40 and not len(G.lines) and importlib.util.find_spec("ppl"):
        ours = np.concatenate([G.exact_vertices, G.exact.rays]).tolist()
        assert sorted(map(tuple, ours)) == sorted(by_ppl(P))
        return "PPL"
    if not P.is_exact and len(P.rows) <= 30:
        return in_fractions(P, G)
    convert(P, verify="full")
    return "linear programs"


def by_ppl(P: rh.Polyhedron) -> list[tuple[Fraction, ...]]:
    """The vertices and primitive rays of an exact set without lines."""
    (A, b), (E, e) = P.rows.dense_integers(), P.equality_rows.dense_integers()
    *_, (rays, _) = run_engine("ppl", np.concatenate([A, E, -E]), np.concatenate([b, e, -e]), lambda: 0.0)
    scales = [t or math.gcd(*x) for t, *x in rays.tolist()]
    return [tuple(Fraction(v, s) for v in x) for (_, *x), s in zip(rays.tolist(), scales, strict=True)]


def in_fractions(P: rh.Polyhedron, G: rh.Generators) -> str:
    """Floats against the exact conversion of the same floats: no exact generator lies outside of what floats give.

    The other way round rounding decides: noise of 1e-16 may cut a segment down to a point.
    """
    tables = [_dense(rows, False) for rows in (P.rows, P.equality_rows)]
    A, b, E, e = (as_fractions(part) for table in tables for part in table)
    try:
        exact = convert(rh.Polyhedron(A, b, E, e))
    except rh.EmptySetError:
        return "nobody: empty but for rounding"
    if G.exact is not None:
        np.testing.assert_array_equal(exact.vertices, G.vertices)
        np.testing.assert_array_equal(exact.rays, G.rays)
    size = max((float(np.abs(c).max(initial=0.0)) for _, c in tables), default=0.0)  # entries of A are about 1
    for points, weight in ((exact.vertices, 1.0), (exact.rays, 0.0), (exact.lines, 0.0), (-exact.lines, 0.0)):
        assert all(is_generated(G, x, weight, size) for x in points), (exact, G)
    return "the same in fractions"


def as_fractions(values: Any) -> np.ndarray:
    """Floats as the fractions that they are."""
    return np.array([Fraction(float(v)) for v in np.ravel(values)], dtype=object).reshape(np.shape(values))


def is_generated(G: rh.Generators, x: np.ndarray, weight: float, size: float) -> bool:
    """Is (x, weight) a combination of vertices (v, 1), rays and lines (r, 0), up to 1e-5 of the set's size?"""
    scale = max(1e-300, size, float(np.abs(G.vertices).max(initial=0.0)), weight * float(np.abs(x).max()))
    directions = [r / np.abs(r).max() for r in (*G.rays, *G.lines, *-G.lines)]
    columns = [(*(v / scale), 1.0) for v in G.vertices] + [(*r, 0.0) for r in directions]
    target = (*(x / scale if weight else x / np.abs(x).max()), weight)
    return bool(nnls(np.array(columns).T, np.array(target))[1] < 1e-5)


def restated(rng: np.random.Generator, P: rh.Polyhedron, kind: str) -> tuple[rh.Polyhedron, np.ndarray, Any]:
    """The same set said in another way: the set, the place of each coordinate, and the unit of x."""
    (A, b), (E, e) = (_dense(rows, P.is_exact) for rows in (P.rows, P.equality_rows))
    places, unit = np.arange(P.dim), (Fraction(1) if P.is_exact else 1.0)
    if kind == "units":
        unit = Fraction(2) ** int(rng.integers(-60, 60)) if P.is_exact else 10.0 ** int(rng.integers(-30, 30))
    elif kind == "scaled rows":
        powers = rng.integers(-20, 20, len(b))
        scale = np.array([Fraction(2) ** int(k) if P.is_exact else 2.0 ** int(k) for k in powers], dtype=b.dtype)
        A, b = A * scale[:, None], b * scale
    elif kind == "far row":
        A = np.concatenate([A, A[:1] + A[-1:]])
        b = np.concatenate([b, b[:1] + b[-1:] + 10 ** int(rng.integers(1, 15))])
    else:
        places = rng.permutation(P.dim)
        order = rng.permutation(len(b))
        A, b, E = A[order][:, places], b[order], E[:, places]
    return rh.Polyhedron(A, b * unit, E, e * unit), places, unit


def _dense(rows: Any, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    if not exact:
        return rows.matrix.toarray(), rows.rhs
    A, b = rows.dense_integers()
    return A.astype(object), b.astype(object)


def compare(rng: np.random.Generator, P: rh.Polyhedron, G: rh.Generators, how: str) -> str:
    """Convert the set said in another way; raises if the generators differ."""
    try:
        Q, places, unit = restated(rng, P, how)
        H = convert(Q, max_seconds=20)
        if took_fractions(P) or took_fractions(Q):  # a coincidence in floats need not be one in fractions: no counts
            return f"right, says {judge(Q, H)}"
    except rh.BudgetExceededError:
        return "out of time"
    except (rh.UnverifiedError, rh.EmptySetError):  # floats may be empty by rounding in other units
        if P.is_exact:
            raise
        return "refused"
    assert (len(G.vertices), len(G.rays), len(G.lines)) == (len(H.vertices), len(H.rays), len(H.lines)), how
    if len(G.lines) == 0:  # with lines, the choice of vertices and rays is free
        assert same(H.vertices / float(unit), G.vertices[:, places], size=float(np.abs(P.rows.rhs).max())), how
        assert same(H.rays, G.rays[:, places], size=1.0), how
    return "the same"


def took_fractions(P: rh.Polyhedron) -> bool:
    """Was a block of floats converted as the fractions that they are?"""
    blocks = [group.polyhedron for group in P.block_groups]
    return not P.is_exact and any(not B.is_exact and rh.convert(B).exact is not None for B in blocks)


def same(X: np.ndarray, Y: np.ndarray, size: float) -> bool:
    """Are the rows the same up to order and 1e-5 of the largest number, or of the size of the set?"""
    scale = max(np.abs(Y).max(initial=0.0), size)
    distance = np.abs(X[:, None] - Y[None]).max(axis=2, initial=0.0)
    return len(X) == len(Y) and (not len(X) or bool((distance.min(axis=1) <= 1e-5 * scale).all()))


def one(rng: np.random.Generator) -> str:
    try:
        P = rh.Polyhedron(**random_set(rng))
    except rh.EmptySetError:
        return "empty"
    try:
        G = convert(P, max_seconds=20)
    except (rh.UnverifiedError, rh.EmptySetError, rh.BudgetExceededError) as error:
        if P.is_exact and isinstance(error, rh.UnverifiedError):
            raise
        if (
            isinstance(error, rh.EmptySetError)
            and P.is_exact
            and P.lower is not None
            and len(P.rows) <= 14
            and P.dim <= 4
        ):
            assert not vertices_and_rays(P)[0]  # bounds below: no lines, so a set that is not empty has a vertex
        return f"refused ({type(error).__name__})"
    try:
        by = judge(P, G)
    except rh.UnverifiedError as error:
        if P.is_exact and "cannot decide" not in str(error):
            raise
        by = ""
    for how in RESTATED if len(P.rows) and len(G) <= 2000 else ():
        SEEN[f"restated ({how}): {compare(rng, P, G, how)}"] += 1
    return f"right, says {by}" if by else "refused (the proof of completeness was not certain)"


def run(seconds: float, seed: int) -> dict[str, int]:
    """Convert random sets until the time is up; raises on the first wrong answer, with the seed that makes it."""
    return dict(counted(one, seconds, seed) + SEEN)
