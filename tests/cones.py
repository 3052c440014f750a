"""Cones {y >= 0, C y >= 0} for the tests of double description, and their rays by trying every choice of rows."""

import itertools
from contextlib import contextmanager
from fractions import Fraction
from math import comb
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st

from rayhull import Polyhedron
from rayhull.conversion.slack_form import slack_form
from rayhull.core import library
from tests.brute_force import cone_rays
from tests.zoo import cross_polytope, cyclic_cone, metric_cone

PATHS = pytest.mark.parametrize("compiled", [False, True], ids=["reference", "core"], indirect=True)


@contextmanager
def core_or_reference(compiled):
    """The compiled core if asked for (and there), else the reference."""
    with mock.patch.object(library, "load", library.load if compiled else lambda name: None):
        yield


entries = st.integers(-3, 3)
shapes = st.tuples(st.integers(0, 5), st.integers(1, 4))
matrices = shapes.flatmap(
    lambda s: st.lists(entries, min_size=s[0] * s[1], max_size=s[0] * s[1]).map(lambda x: np.array(x, int).reshape(s))
)


def in_basis_coordinates(A):
    """Integer C with {A x <= 0} = {y >= 0, C y >= 0}, y = -B x, for independent rows B of A; d = rank."""
    form = slack_form(Polyhedron(A))
    assert form.rank == np.shape(A)[1], "the cone must be pointed"
    return form.G


def homogeneous(P):
    """Rows of the cone over {x : A x <= b}."""
    return np.concatenate([-P.b[:, None], P.A], axis=1)


def cube(n):
    return np.array([[-1, *(s * (i == j) for j in range(n))] for i in range(n) for s in (1, -1)])


def isotonic(n):
    """The n x n grid order, first entry fixed at 0: pointed."""
    rows = []
    for i, j in itertools.product(range(n), repeat=2):
        for a, b in ((i + 1, j), (i, j + 1)):
            if a < n and b < n:
                row = np.zeros((n, n), int)
                row[i, j], row[a, b] = 1, -1
                rows.append(row.ravel()[1:])
    return np.array(rows)


def random_rows(n, k, seed, dtype=int):
    """Rows that (1, ..., 1) satisfies: a pointed cone with interior."""
    rng = np.random.default_rng(seed)
    C = rng.integers(-9, 10, (n, k)) if dtype is int else rng.standard_normal((n, k))
    return C * np.where(C.sum(axis=1) >= 0, 1, -1)[:, None]


def brute_force(C):
    """Primitive extreme rays of {y >= 0, C y >= 0} by trying every k - 1 rows, exactly."""
    k = np.shape(C)[1]
    return sorted(cone_rays([*np.eye(k, dtype=int).tolist(), *np.asarray(C).tolist()], [], [k - 1]))


def exactly(C):
    """Floats as the integers they are, up to the scale of each row."""
    rows = []
    for row in np.asarray(C):
        fractions = [Fraction(float(a)) for a in row]
        scale = max(f.denominator for f in fractions)
        rows.append([int(f * scale) for f in fractions])
    return np.array(rows, dtype=object).reshape(np.shape(C))


def agree(floats, integers):
    """Is each float ray an integer ray scaled to largest entry 1, and each met once?"""
    if len(floats) != len(integers) or not len(floats):
        return len(floats) == len(integers)
    exact = np.array([[float(Fraction(int(a), int(max(y)))) for a in y] for y in integers]).reshape(floats.shape)
    distance = np.abs(floats[:, None] - exact[None]).max(axis=2, initial=0.0)
    return sorted(distance.argmin(axis=1)) == list(range(len(exact))) and (distance.min(axis=1) < 1e-6).all()


KNOWN = {
    "cube 6": (cube(6), 64),
    "cross-polytope 5": (homogeneous(cross_polytope(5)), 10),
    "cyclic 12,6": (cyclic_cone(12, 6).A.astype(int), 112),
    "cyclic 20,8": (cyclic_cone(20, 8).A.astype(int), 2275),
    "metric 4": (metric_cone(4).A, 7),
    "metric 5": (metric_cone(5).A, 25),
    "metric 6": (metric_cone(6).A, 296),
    "isotonic 4": (isotonic(4), comb(8, 4) - 2),
    "isotonic 6": (isotonic(6), comb(12, 6) - 2),
}
