"""Sets that every contract is tested on: the ready-made ones and a handful of general polyhedra."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np

import rayhull as rh


def cross_polytope(d: int) -> rh.Polyhedron:
    """sum |x_i| <= 1."""
    return rh.Polyhedron(np.array(list(itertools.product((1, -1), repeat=d))), 1)


def cyclic_cone(n: int, d: int) -> rh.Polyhedron:
    """Rows (1, t, t^2, ...): its rays are the facets of the cyclic polytope with n vertices in R^d."""
    t = np.arange(n) - n // 2
    return rh.Polyhedron(-np.stack([t.astype(object) ** j for j in range(d + 1)], axis=1))


def metric_cone(n: int) -> rh.Polyhedron:
    """Triangle inequalities between all distances of n points."""
    pairs = {frozenset(p): i for i, p in enumerate(itertools.combinations(range(n), 2))}
    rows = []
    for triple in itertools.combinations(range(n), 3):
        edges = [pairs[frozenset(p)] for p in itertools.combinations(triple, 2)]
        for long in edges:
            row = np.zeros(len(pairs), int)
            row[edges] = -1
            row[long] = 1
            rows.append(row)
    return rh.Polyhedron(np.array(rows))


def feasible_cone(m: int, d: int, seed: int, *, integers: bool = True) -> rh.Polyhedron:
    """Random rows, each turned so that one random point lies inside."""
    rng = np.random.default_rng(seed)
    A = rng.integers(-9, 10, (m, d)) if integers else rng.standard_normal((m, d))
    return rh.Polyhedron(A * -np.sign(A @ rng.standard_normal(d)).astype(A.dtype)[:, None])


def general(m: int, d: int, seed: int) -> rh.Polyhedron:
    """Dense random rows around 0 with a box: the peers' test set."""
    rng = np.random.default_rng(seed)
    return rh.Polyhedron(rng.standard_normal((m, d)), rng.random(m) + 0.1, lower=-1, upper=1)


def clauses() -> rh.Polyhedron:
    """A cat is an animal, no cat is a dog, and at most two of four hold."""
    cat, dog, animal, big = rh.variables("cat", "dog", "animal", "big")
    said = rh.implies(cat, animal), rh.implies(dog, animal), rh.excludes(cat, dog), rh.at_most(2, cat, dog, animal, big)
    return rh.rules(said) & rh.box(0, 1)


READY_MADE: dict[str, Callable[[], rh.Polyhedron]] = {
    "nonnegative": lambda: rh.nonnegative(6),
    "box": lambda: rh.box(-1, 2, (2, 3)),
    "simplex": lambda: rh.simplex(5),
    "simplex along an axis": lambda: rh.simplex((3, 4), axis=0),
    "sum_to": lambda: rh.sum_to(2, 5),
    "monotone": lambda: rh.monotone(6),
    "long chain": lambda: rh.monotone(40),
    "monotone with a step": lambda: rh.monotone(6, step=1),
    "decreasing rows": lambda: rh.monotone((3, 5), increasing=False),
    "convex": lambda: rh.convex(7),
    "long curve": lambda: rh.convex(40),
    "concave in a box": lambda: rh.concave(7) & rh.box(0, 1),
    "unimodal": lambda: rh.unimodal(6, mode=2),
    "ordered": lambda: rh.ordered([(0, 1), (0, 2), (1, 3), (2, 3)], 4),
    "ordered grid": lambda: rh.ordered(None, (3, 3)) & rh.box(0, 1),
    "lipschitz": lambda: rh.lipschitz(5, 1),
    "checkerboard": lambda: rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1),
    "windows": lambda: rh.windows((8, 8), 4, 2),
    "window signs": lambda: rh.windows(9, 3, signs=[1, -1, 1]) & rh.box(-1, 1),
    "halfspaces": lambda: rh.Polyhedron([[1, -2, 0], [0, 1, -1]]),
    "capped simplex": lambda: rh.capped_simplex(4, Fraction(1, 2), groups={"two": ([0, 1], Fraction(3, 5))}),
    "quantiles": lambda: rh.quantiles([0.1, 0.5, 0.9]),
    "conserves": lambda: rh.conserves((4, 4), (2, 2), means=[[1, 2], [3, 4]]) & rh.box(0, 8),
    "reconciled": lambda: rh.reconciled([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "corridor": lambda: rh.corridor([[0, 0], [1, 0], [1, 1]], width=0.25),
    "ramps": lambda: rh.ramps(5, up=1, down=2),
    "storage": lambda: rh.storage(3, power=1, energy=2, efficiency=Fraction(9, 10), start=1),
    "flow": lambda: rh.flow([(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)], 4, capacity=2, demand=[-3, 0, 1, 2]),
    "marginals": lambda: rh.marginals([1, 2], [1, 1, 1]),
    "birkhoff": lambda: rh.birkhoff(3),
    "hierarchy": lambda: rh.hierarchy([None, 0, 0, 1, [1, 2]]),
    "clauses": clauses,
}

GENERAL: dict[str, Callable[[], rh.Polyhedron]] = {
    "triangle": lambda: rh.Polyhedron([[1, 1]], 1, lower=0),
    "cross-polytope": lambda: cross_polytope(4),
    "random cone": lambda: feasible_cone(8, 4, 0),
    "random floats in a box": lambda: general(6, 5, 0),
    "far from the origin": lambda: rh.box(1000, 1001, 4) & rh.Polyhedron([[1, 1, 1, 1]], 4002),
    "equalities and bounds": lambda: rh.Polyhedron(A_eq=[[1, 2, 3, 4]], b_eq=5, lower=0, upper=2),
    "implicit equality": lambda: rh.Polyhedron([[1, 1, 0], [-1, -1, 0]], [1, -1], lower=0, upper=1),
    "whole space": lambda: rh.Polyhedron(shape=3),
}

ZOO = READY_MADE | GENERAL


def counts(P, **options):
    """How many vertices, rays and lines a conversion finds."""
    G = rh.convert(P, cache=False, **options)
    return len(G.vertices), len(G.rays), len(G.lines)
