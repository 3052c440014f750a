"""A zoo of sets with cones; every contract of tests/test_convex_sets.py runs on each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import rayhull as rh


def _risk() -> rh.ConvexSet:
    factors = np.random.default_rng(0).standard_normal((6, 6))
    return rh.ellipsoid(np.round(factors @ factors.T, 3), 2, centre=np.ones(6)) & rh.box(-1, 1)


def _friction() -> rh.ConvexSet:
    x, y, z = rh.variables("x", "y", "z")
    return rh.rules(rh.norm([x, y]) <= 0.5 * z, z <= 10)


def _unbounded_cone() -> rh.ConvexSet:
    x, y, z = rh.variables("x", "y", "z")
    return rh.rules(rh.norm([x + y, 2 * y - 1]) <= 0.5 * z + 1)


def _buses(*, floor: bool) -> rh.ConvexSet:
    pq = rh.variables("pq", shape=(20, 2))
    limits = [rh.norm(pq, axis=1) <= np.linspace(1, 3, 20)]
    return rh.rules(limits, [pq[:, 0] >= -0.5] if floor else [])


def _one_of_them_constant() -> rh.ConvexSet:
    x, y, z = rh.variables("x", "y", "z")
    return rh.rules(x == 1, rh.norm([x]) <= 2, rh.norm([y, z]) <= 3, x <= 5, y >= 0)


def _beside_a_box() -> rh.ConvexSet:
    x, y, z = rh.variables("x", "y", "z")
    return rh.rules(rh.norm([x, y]) <= 1, z >= 0, z <= 1)


SETS: dict[str, Callable[[], rh.ConvexSet]] = {
    "ball": lambda: rh.ball(2, centre=[1, 0, 0]),
    "half a disk": lambda: rh.ball(2, d=2) & rh.Polyhedron([[1, 1]], [1]),
    "risk and a box": _risk,
    "paraboloid": lambda: rh.quadratic([[2, 0, 0], [0, 1, 0], [0, 0, 0]], [1, 0, -1], -1),
    "friction": _friction,
    "unbounded cone": _unbounded_cone,
    "ball with equalities": lambda: rh.ball(1, d=4) & rh.sum_to(1, 4),
    "thin": lambda: rh.ellipsoid(np.diag([1.0, 1e6]), 1) & rh.Polyhedron([[1, 1]], [0.5]),
    "degenerate ellipsoid": lambda: rh.ellipsoid(np.diag([1.0, 0.0, 2.0]), 1),
    "tangent row": lambda: rh.ball(1, d=2) & rh.Polyhedron([[1, 0]], [1]),
    "two balls": lambda: rh.ball(1, d=3) & rh.ball(1, centre=[1, 0, 0]),
    "many balls": lambda: _buses(floor=False),
    "many balls and bounds": lambda: _buses(floor=True),
    "beside a box": _beside_a_box,
    "cones of two sizes, one of them constant": _one_of_them_constant,
}


def without_equalities(S: rh.ConvexSet) -> rh.ConvexSet:
    """What strict promises exactly."""
    P = rh.Polyhedron.from_rows(S.inequalities, None, S.lower, S.upper, S.shape, check=False)
    return rh.ConvexSet(P, S.cones, check=False)
