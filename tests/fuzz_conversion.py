"""Random sets, most of them degenerate, converted and judged by someone else: right, or a clear error."""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np

import rayhull as rh
from tests.brute_force import vertices_and_rays


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
    kind = rng.choice(["integers", "fractions", "big", "noise"], p=[0.5, 0.2, 0.1, 0.2])
    if kind == "fractions":
        arguments["A"] = A * np.array([Fraction(int(n), int(m)) for n, m in rng.integers(1, 7, (d, 2))], dtype=object)
    elif kind == "big":
        arguments["A"] = A.astype(object) * int(rng.integers(1, 10**6)) ** 4 + rng.integers(-1, 2, A.shape)
    elif kind == "noise":
        level = 10.0 ** rng.integers(-16, -5)
        arguments["A"] = A * (1 + level * rng.standard_normal(A.shape))
    return arguments


def judge(P: rh.Polyhedron, G: rh.Generators) -> str:
    """Who proved the answer right; raises if nobody can."""
    if P.is_exact and len(P.rows) <= 12 and P.dim <= 4 and not len(G.lines):
        vertices, rays = vertices_and_rays(P)
        assert {tuple(v) for v in G.exact_vertices} == vertices
        assert {tuple(int(x) for x in r) for r in G.exact.rays} == rays
        return "brute force"
    if P.is_exact and len(P.rows) <= 40:
        try:
            theirs = rh.convert(P, engine="ppl", cache=False)
        except rh.MissingExtraError:
            pass
        else:
            np.testing.assert_array_equal(theirs.vertices, G.vertices)
            np.testing.assert_array_equal(theirs.rays, G.rays)
            return "PPL"
    rh.convert(P, cache=False, verify="full")
    return "linear programs"


def one(rng: np.random.Generator) -> str:
    try:
        P = rh.Polyhedron(**random_set(rng))
    except rh.EmptySetError:
        return "empty"
    try:
        G = rh.convert(P, cache=False, max_seconds=20)
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
        return f"right, says {judge(P, G)}"
    except rh.UnverifiedError:
        if P.is_exact:
            raise
        return "refused (the proof of completeness was not certain)"


def run(seconds: float, seed: int) -> dict[str, int]:
    """Convert random sets until the time is up; raises on the first wrong answer, with the seed that makes it."""
    seen: Counter[str] = Counter()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        try:
            seen[one(np.random.default_rng([seed, number]))] += 1
        except Exception as error:
            raise AssertionError(f"wrong on numpy.random.default_rng([{seed}, {number}])") from error
        number += 1
    return dict(seen)
