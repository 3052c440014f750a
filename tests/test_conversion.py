"""Inequalities to generators and back: known counts, exact numbers, random sets against brute force."""

import importlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rayhull as rh
from rayhull.core import library
from tests.brute_force import vertices_and_rays
from tests.zoo import ZOO, counts, cross_polytope, cyclic_cone, feasible_cone, metric_cone

# -- known answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("P", "expected"),
    [
        (rh.checkerboard((28, 28), tiles=(4, 4)), (1, 16, 768)),
        (rh.windows((28, 28), 8, 5), (1, 250, 760)),
        *[(rh.monotone(d), (1, d - 1, 1)) for d in (2, 10, 100, 784)],
        *[(rh.convex(d), (1, d - 2, 2)) for d in (3, 10, 100)],
        *[(rh.ordered(None, (n, n)), (1, math.comb(2 * n, n) - 2, 1)) for n in range(3, 9)],
        *[(rh.box(-1, 1, d), (2**d, 0, 0)) for d in (1, 5, 14)],
        *[(cross_polytope(d), (2 * d, 0, 0)) for d in (2, 5, 10)],
        *[(cyclic_cone(n, d), (1, facets, 0)) for n, d, facets in ((12, 6, 112), (20, 8, 2275), (30, 8, 17250))],
        *[(metric_cone(n), (1, rays, 0)) for n, rays in ((5, 25), (6, 296))],
        (rh.simplex(50), (50, 0, 0)),
        (rh.monotone(5) & rh.box(0, 1), (6, 0, 0)),
        (rh.Polyhedron(shape=3), (1, 0, 3)),
        (rh.Polyhedron(np.eye(3, dtype=int), 0, lower=0), (1, 0, 0)),
        (rh.Polyhedron(lower=[1, 2], upper=[1, 2]), (1, 0, 0)),
        (rh.Polyhedron([[1, -1]], 0, [[1, 1]], 0), (1, 1, 0)),
        (rh.Polyhedron(A_eq=[[1, 1]], b_eq=3), (1, 0, 1)),
        (rh.Polyhedron(np.concatenate([-np.eye(6, dtype=int), np.ones((1, 6), int)])), (1, 0, 0)),
        (rh.Polyhedron([[1, 0], [2, 0], [1, 1], [0, 0]], [1, 2, 5, 0], lower=0), (4, 0, 0)),
        (rh.Polyhedron([[0, 0]], [1]), (1, 0, 2)),
        (rh.Polyhedron([[-(10**24)]], 0, lower=-1, upper=0), (1, 0, 0)),
    ],
)
def test_known_sets_have_the_known_number_of_generators(P, expected):
    assert counts(P) == expected


@pytest.mark.slow
def test_the_metric_cone_on_seven_points_has_55226_rays():
    if library.load("conversion") is None:
        pytest.skip("the reference takes minutes")
    assert counts(metric_cone(7)) == (1, 55226, 0)


def test_blocks_are_converted_apart_also_when_columns_are_mixed():
    blocks = rh.product(*(feasible_cone(16, 8, seed) for seed in range(8)))
    alone = sum(counts(feasible_cone(16, 8, seed))[1] for seed in range(8))
    assert counts(blocks) == (1, alone, 0)
    rng = np.random.default_rng(0)
    mix = np.eye(64, dtype=int)
    for _ in range(80):  # unimodular: one column added to another
        i, j = rng.choice(64, 2, replace=False)
        mix[:, i] += mix[:, j]
    hidden = rh.Polyhedron(blocks.A.toarray() @ mix)
    assert len(hidden.blocks) < 8
    assert counts(hidden) == (1, alone, 0)


def test_identical_blocks_are_converted_once(monkeypatch):
    module = importlib.import_module("rayhull.conversion.convert")
    seen = []
    original = module.block_generators
    monkeypatch.setattr(module, "block_generators", lambda P, *rest: seen.append(P) or original(P, *rest))
    G = rh.convert(rh.product(*[feasible_cone(8, 4, 3)] * 5), cache=False)
    assert len(seen) == 1
    assert len(G.rays) == 5 * counts(feasible_cone(8, 4, 3))[1]


def test_vertices_are_exact_fractions():
    G = rh.convert(rh.Polyhedron([[3, 0], [0, 7]], 1, lower=0))
    third, seventh = Fraction(1, 3), Fraction(1, 7)
    assert {tuple(v) for v in G.exact_vertices} == {(0, 0), (third, 0), (0, seventh), (third, seventh)}
    assert G.vertices.dtype == np.float64
    assert G.vertices.max() == 1 / 3
    assert "exact" in repr(G)


def test_integers_beyond_64_bits_are_exact():
    big = 10**30
    G = rh.convert(rh.Polyhedron([[big, 1], [1, big + 1]], [1, big], lower=0))
    for vertex in G.exact_vertices:
        assert big * vertex[0] + vertex[1] <= 1
        assert vertex[0] + (big + 1) * vertex[1] <= big
    assert len(G.vertices) == 4


@pytest.mark.parametrize("side", [2**62 + 1, 2**63 + 1, 2**64 - 1, 2**64 + 1])
def test_a_side_that_fits_unsigned_integers_alone_is_exact(side: int) -> None:
    G = rh.convert(rh.Polyhedron([[1, 1]], [side], lower=0), cache=False)
    assert G.exact_vertices.tolist() == [[0, 0], [0, side], [side, 0]]


def test_lines_are_orthogonal_to_every_row_and_rays_are_primitive():
    P = rh.windows((8, 8), 4, 2)
    G = rh.convert(P)
    assert not (P.A @ G.exact.lines.T).any()
    assert (P.A @ G.exact.rays.T <= 0).all()
    assert (np.gcd.reduce(G.exact.rays, axis=1) == 1).all()


# -- every set, and random ones -----------------------------------------------------------------------------------


MANY_VERTICES = {"checkerboard", "window signs"}  # cut cubes: 2^48 and more


@pytest.mark.parametrize("name", sorted(set(ZOO) - MANY_VERTICES))
def test_no_generator_is_missing_and_the_way_back_gives_the_same_set(name):
    P = ZOO[name]()
    G = rh.convert(P, cache=False, verify="full")
    Q = G.to_polyhedron()
    x = np.concatenate([P.sample(40, seed=0), np.random.default_rng(0).standard_normal((40, *P.shape))])
    flat = x.reshape(len(x), -1)
    np.testing.assert_array_equal(Q.contains(flat, atol=1e-7), P.contains(x, atol=1e-7))
    again = rh.convert(Q, cache=False)
    assert (len(again.vertices), len(again.rays), len(again.lines)) == (len(G.vertices), len(G.rays), len(G.lines))


entries = st.integers(-3, 3)


@st.composite
def pointed_sets(draw):
    """Small sets with bounds below, so that brute force (which knows no lines) applies; many are degenerate."""
    d, m = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    rows = draw(st.lists(st.lists(entries, min_size=d, max_size=d), min_size=m, max_size=m))
    if rows and draw(st.booleans()):
        rows.append([a + b for a, b in zip(rows[0], rows[-1], strict=True)])
    b = draw(st.lists(st.fractions(-2, 4, max_denominator=3), min_size=len(rows), max_size=len(rows)))
    equal = draw(st.lists(st.lists(entries, min_size=d, max_size=d), max_size=1))
    upper = draw(st.sampled_from([None, 1, 2]))
    A = np.array(rows, dtype=object).reshape(-1, d)
    A_eq = np.array(equal, dtype=object).reshape(-1, d)
    return dict(A=A, b=np.array(b, dtype=object), A_eq=A_eq, b_eq=np.zeros(len(equal), int), lower=0, upper=upper)


@settings(max_examples=150, deadline=None)
@given(pointed_sets())
def test_small_random_sets_match_brute_force(arguments):
    try:
        P = rh.Polyhedron(**arguments)
    except rh.EmptySetError:
        relaxed = {**arguments, "b": None, "upper": None}
        shape = rh.Polyhedron(**relaxed)  # 0 is inside
        assert shape.contains(np.zeros(shape.dim))
        return
    vertices, rays = vertices_and_rays(P)
    try:
        G = rh.convert(P, cache=False)
    except rh.EmptySetError:
        assert not vertices
        return
    assert {tuple(v) for v in G.exact_vertices} == vertices
    assert {tuple(int(x) for x in r) for r in G.exact.rays} == rays
    assert len(G.lines) == 0


# -- the way back -------------------------------------------------------------------------------------------------


def test_generators_become_inequalities():
    square = rh.Generators(vertices=[[0, 0], [1, 0], [0, 1], [1, 1], [0.5, 0.5]]).to_polyhedron()
    assert len(square.inequalities) == 4
    half = rh.Generators(rays=[[1, 0]], lines=[[0, 1]]).to_polyhedron()
    assert half.contains(np.array([3.0, -7.0]))
    assert not half.contains(np.array([-1.0, 0.0]))
    point = rh.Generators(vertices=[[Fraction(1, 3), 2]]).to_polyhedron()
    assert len(point.equalities) == 2


@pytest.mark.parametrize("unit", [1e-28, 1e-5, 1.0, 1e28])
def test_generators_in_any_unit_become_the_same_inequalities(unit):
    """Beside the 1 of a vertex (v, 1), a v of 1e-28 looked like rounding: seven equalities for a cube."""
    cube = rh.convert(rh.Polyhedron(np.eye(3) * 0.1, 0.3 * unit, lower=0), cache=False)
    assert cube.exact is None
    P = cube.to_polyhedron(cache=False)
    assert (len(P.rows), len(P.equality_rows)) == (6, 0)
    assert P.contains(cube.vertices).all()
    assert not P.contains(1.001 * cube.vertices[-1])
    rh.convert(rh.Polyhedron(np.eye(3) * 0.1, 0.3 * unit, lower=0), cache=False, verify="full")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(vertices=[[1, 2]], rays=[[1]]), "same number of columns"),
        (dict(vertices=[1, 2]), "one generator a row"),
        (dict(vertices=[[math.inf]]), "finite"),
        (dict(vertices=[[Fraction(10**400)]]), "beyond the range of float64"),
        ({}, "got none of them"),
    ],
)
def test_bad_generators_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        rh.Generators(**arguments)


def test_a_vertex_that_no_float_can_say_is_refused_and_generators_are_no_inequalities():
    with pytest.raises(ValueError, match="beyond the range of float64: state the set in larger units"):
        rh.convert(rh.Polyhedron([[Fraction(1, 10**320), 1]], [1], lower=0))
    with pytest.raises(TypeError, match=r"give G\.to_polyhedron\(\): this takes inequalities"):
        rh.convert(rh.Generators([[1, 2]]))
