"""Inequalities to generators and back: known counts, exactness, budgets, refusals."""

import importlib
import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rayhull as rh
from rayhull.conversion.inverse import prove_complete
from rayhull.core import library
from rayhull.sets.reading import read_rows
from tests import fuzz_conversion
from tests.brute_force import vertices_and_rays
from tests.cones import KNOWN
from tests.zoo import ZOO, cross_polytope, cyclic_cone, feasible_cone, metric_cone


def counts(P, **options):
    G = rh.convert(P, cache=False, **options)
    return len(G.vertices), len(G.rays), len(G.lines)


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


@pytest.mark.parametrize("noise", [1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6])
def test_noise_on_a_simple_cone_changes_no_face_and_is_never_refused(noise):
    rng = np.random.default_rng(0)
    A = cyclic_cone(12, 6).A.astype(float)
    A = A / np.abs(A).max(axis=1, keepdims=True)
    assert counts(rh.Polyhedron(A * (1 + noise * rng.standard_normal(A.shape)))) == counts(cyclic_cone(12, 6))


@pytest.mark.parametrize("noise", [0, 1e-16, 1e-15, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize("seed", range(3))
def test_noise_on_a_degenerate_set_is_rounding_or_counts(noise, seed):
    """Eight facets meet at each vertex. Up to one rounding they do; from 1e-6 on they clearly don't."""
    rng = np.random.default_rng(seed)
    A = cross_polytope(4).A @ np.linalg.qr(rng.standard_normal((4, 4)))[0]
    A = A * (1 + noise * rng.standard_normal(A.shape))
    exact = counts(rh.Polyhedron(as_fractions(A), 1))
    found = counts(rh.Polyhedron(A, 1.0))
    assert found == exact or (found == (8, 0, 0) and noise <= 1e-14)


def as_fractions(A):
    return np.array([[Fraction(float(v)) for v in row] for row in A], dtype=object)


def test_the_fuzz_judges_what_it_once_found_wrong():
    """Rows that noise of 1e-9 keeps from being parallel, in any order of the coordinates."""
    assert fuzz_conversion.one(np.random.default_rng([20261119, 3491])).startswith("right")


# -- floats of every size -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e3, 1e9, 1e14, 1e18])
@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("slope", [0.7, 1.0])
def test_a_redundant_row_far_away_costs_no_vertex_and_no_digit(far, unit, slope):
    G = rh.convert(rh.Polyhedron([[1.0, 1.0], [slope, -1.0]], np.array([1.0, far]) * unit, lower=0), cache=False)
    np.testing.assert_allclose(G.vertices / unit, [[0, 0], [0, 1], [1, 0]], atol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_rows_become_coordinates(seed):
    """A tiny simplex in a box that is a billion times as large: the box would cost it nine digits."""
    normals = np.random.default_rng(seed).standard_normal((3, 3))
    normals = np.concatenate([normals, -normals.sum(axis=0, keepdims=True)])
    P = rh.Polyhedron(normals, np.full(4, 1e-9), lower=-1, upper=1)
    G = rh.convert(P, cache=False)
    corners = np.array([np.linalg.solve(np.delete(normals, i, axis=0), np.full(3, 1e-9)) for i in range(4)])
    distance = np.abs(G.vertices[:, None] - corners).max(axis=2)
    assert (np.sort(distance.argmin(axis=1)) == np.arange(4)).all()
    assert distance.min(axis=1).max() < 1e-13 * np.abs(corners).max()


@pytest.mark.parametrize("name", ["cube 6", "cross-polytope 5", "metric 5", "isotonic 4", "cyclic 12,6"])
@pytest.mark.parametrize("seed", range(2))
def test_a_turned_cone_keeps_its_rays(name, seed):
    A, count = KNOWN[name]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((A.shape[1],) * 2))[0]
    assert counts(rh.Polyhedron(A.astype(float) @ Q)) == (1, count, 0)


@pytest.fixture
def never_in_fractions(monkeypatch):
    """What floats cannot decide is refused, as in a block that is too large for fractions."""
    monkeypatch.setattr(importlib.import_module("rayhull.conversion.block"), "MOST_EXACT_ENTRIES", 0)


NEARLY_PARALLEL = [[1, 0.1], [1, 0.1 + 1e-6], [1, 0.1 + 2e-6]]


def test_rows_that_are_nearly_parallel_are_converted_as_the_fractions_that_they_are():
    G = rh.convert(rh.Polyhedron(NEARLY_PARALLEL), cache=False)
    same = rh.convert(rh.Polyhedron(as_fractions(np.array(NEARLY_PARALLEL))), cache=False)
    assert G.exact.rays.tolist() == same.exact.rays.tolist()
    assert len(G.rays) == 2


def test_what_floats_cannot_decide_is_refused_where_fractions_would_take_too_long(never_in_fractions):
    with pytest.raises(rh.UnverifiedError, match="too ill-conditioned for floats"):
        rh.convert(rh.Polyhedron(NEARLY_PARALLEL), cache=False)


def test_a_large_block_of_floats_is_not_converted_in_fractions():
    rows = np.random.default_rng(0).standard_normal((60, 60))
    rows[1] = rows[0] + 1e-12 * rows[1]
    with pytest.raises(rh.UnverifiedError, match="Give the rows as integers or fractions"):
        rh.convert(rh.Polyhedron(rows), cache=False)


def test_nearly_parallel_rows_are_stated_in_any_order():
    """Floats saw a ray where the fractions have a vertex at 7.5e7, and one vertex outside by 1.5e-8."""
    level, rng = 1e-9, np.random.default_rng(0)
    A = np.array([[-5, 6, 5], [5, -3, -5], [-6, 4, 6], [5, -2, -5]]) * (1 + level * rng.standard_normal((4, 3)))
    P = rh.Polyhedron(A, lower=-1)
    G = rh.convert(P, cache=False)
    for places in itertools.permutations(range(3)):
        turned = rh.convert(rh.Polyhedron(A[:, places], lower=-1), cache=False)
        np.testing.assert_allclose(turned.vertices, np.array(sorted(G.vertices[:, places].tolist())), atol=1e-10)
        assert len(turned.rays) == len(G.rays)
    assert P.contains(G.vertices, atol=1e-14 * np.abs(G.vertices).max()).all()


@pytest.mark.parametrize("width", [10.0**-n for n in range(1, 17)])
def test_a_thin_slab_keeps_its_four_vertices(width):
    P = rh.Polyhedron([[1.0, -1.0], [-1.0, 1.0]], [width, 0.0], lower=0, upper=1)
    G = rh.convert(P, cache=False)
    np.testing.assert_allclose(G.vertices, [[0, 0], [width, 0], [1, 1 - width], [1, 1]], rtol=1e-12)


@pytest.mark.parametrize("width", [1e-10, 1e-11, 1e-12, 1e-14, 1e-16])
def test_a_thin_slab_in_floats_alone_keeps_its_four_vertices_or_is_refused(width, never_in_fractions):
    try:
        test_a_thin_slab_keeps_its_four_vertices(width)
    except rh.UnverifiedError:
        assert width < 2e-11


@pytest.mark.parametrize("tiny", [1e-9, 1e-15, 1e-30])
def test_an_entry_that_is_tiny_beside_its_row_is_not_dropped(tiny):
    G = rh.convert(rh.Polyhedron([[1.0, tiny]], [1.0], lower=0), cache=False)
    np.testing.assert_allclose(G.vertices, [[0, 0], [0, 1 / tiny], [1, 0]])


@pytest.mark.parametrize("unit", [1e-304, 1e-200, 1e-20, 1.0, 1e20, 1e200, 1e304])
def test_the_unit_of_length_does_not_change_the_answer(unit):
    A, b = np.array([[0.3, 1.1, 0.0], [-1.0, 0.2, 0.7], [0.0, 0.1, -0.9]]), np.array([1.0, 2.0, 0.3])
    here = rh.convert(rh.Polyhedron(A, b, lower=-0.1), cache=False)
    there = rh.convert(rh.Polyhedron(A, b * unit, lower=-0.1 * unit), cache=False)
    np.testing.assert_allclose(there.vertices / unit, here.vertices, atol=1e-14)
    np.testing.assert_allclose(there.rays, here.rays, atol=1e-14)
    scaled = rh.convert(rh.Polyhedron(A * unit, b * unit, lower=-0.1), cache=False)  # rows times a number
    np.testing.assert_allclose(scaled.vertices, here.vertices, atol=1e-14)


@pytest.mark.parametrize(
    "P",
    [
        rh.Polyhedron([[0.1, 0.1]], [0.1], lower=0),
        rh.product(rh.Polyhedron([[0.1, 0.1]], [0.1], lower=0), rh.simplex(2)),
        rh.product(*[rh.Polyhedron([[0.1, 0.1]], [0.1], lower=0)] * 2),
    ],
    ids=["one block", "beside an exact block", "two blocks"],
)
def test_generators_computed_in_floats_are_never_called_exact(P):
    G = rh.convert(P, cache=False)
    assert set(np.unique(G.vertices)) == {0.0, 1.0}  # they look exact
    assert G.exact is None
    assert "floats" in repr(G)


def test_float_equalities_agree_contradict_each_other_or_are_too_close_to_call():
    def point(difference):
        P = rh.Polyhedron(A_eq=[[0.1, 0.3], [0.2, 0.6], [1.0, -1.0]], b_eq=[1e-3, 2e-3 * (1 + difference), 0.0])
        return rh.convert(P, cache=False).vertices

    np.testing.assert_allclose(point(0), [[2.5e-3, 2.5e-3]])
    with pytest.raises(rh.EmptySetError, match="contradicts the others"):
        point(1e-7)
    with pytest.raises(rh.UnverifiedError, match="differs from what the others imply"):
        point(1e-10)


def test_floats_give_what_the_same_set_gives_in_integers():
    Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))
    turned = rh.Polyhedron(cross_polytope(4).A @ Q, 1.0)
    G = rh.convert(turned, cache=False, verify="full")
    assert G.exact is None
    assert len(G.vertices) == 8
    np.testing.assert_allclose(np.sort(np.linalg.norm(G.vertices, axis=1)), 1.0)


def test_floats_with_zeros_in_their_generators_are_converted():
    P = rh.Polyhedron([[1, -2, 0.3], [0, 1, -1]], [1, 0], lower=0)
    G = rh.convert(P, cache=False, verify="full")
    assert (len(G.vertices), len(G.rays)) == (3, 3)
    assert (G.vertices == 0).any()


# -- budgets, progress, stopping ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (dict(max_generators=1000), r"Stopped at \d+ generators after \d+ of \d+ inequalities .*method=\"shrink\""),
        (dict(max_pairs=1000), "pairs of rays to look at"),
        (dict(max_seconds=0.2), r"after 0\.\d s"),
        (dict(max_bytes=3_000_000), "going on needs about"),
    ],
)
def test_a_conversion_that_explodes_stops_at_its_budget(limit, message):
    with pytest.raises(rh.BudgetExceededError, match=message):
        rh.convert(rh.ordered(None, (16, 16)), cache=False, **limit)


def test_a_product_of_many_vertices_is_refused_before_it_is_built():
    with pytest.raises(rh.BudgetExceededError, match=r"product of 784 blocks with about 10\^236 vertices"):
        rh.convert(rh.box(-1, 1, (28, 28)))


def test_a_block_too_large_to_be_dense_is_refused():
    with pytest.raises(rh.BudgetExceededError, match="MiB"):
        rh.convert(rh.monotone(20_000))


def test_progress_is_reported_and_drawn(capsys):
    steps = []
    rh.convert(feasible_cone(30, 8, 0), cache=False, progress=steps.append)
    assert steps[-1].row == steps[-1].rows > 0
    assert steps[-1].rays > 0
    rh.convert(feasible_cone(30, 8, 0), cache=False, progress=True)
    assert "rays" in capsys.readouterr().err


def test_unknown_options_list_the_choices():
    with pytest.raises(ValueError, match="choose one of auto, ppl, pplite, normaliz, cdd"):
        rh.convert(rh.simplex(3), engine="magic")
    with pytest.raises(ValueError, match="always verified"):
        rh.convert(rh.simplex(3), verify=False)


def test_a_missing_engine_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PyNormaliz", None)
    with pytest.raises(rh.MissingExtraError, match=r"pip install 'rayhull\[engines\]'"):
        rh.convert(feasible_cone(8, 4, 0), engine="normaliz", cache=False)


@pytest.mark.parametrize("engine", ["ppl", "pplite", "normaliz", "cdd"])
def test_optional_engines_agree_with_ours(engine):
    pytest.importorskip({"normaliz": "PyNormaliz", "cdd": "cdd.gmp"}.get(engine, engine))
    for P in (feasible_cone(12, 5, 1), rh.ordered(None, (3, 3)), rh.Polyhedron([[3, 1]], 2, lower=0)):
        ours, theirs = rh.convert(P, cache=False), rh.convert(P, engine=engine, cache=False)
        np.testing.assert_array_equal(ours.rays, theirs.rays)
        np.testing.assert_array_equal(ours.vertices, theirs.vertices)
    with pytest.raises(ValueError, match="exact rows only"):
        rh.convert(feasible_cone(8, 4, 0, integers=False), engine=engine, cache=False)


def unchecked(A=None, b=None, A_eq=None, b_eq=None, lower=None):
    """The set, empty or not: the constructor refuses an empty one before conversion sees it."""
    rows = None if A is None else read_rows(A, b, None, ("A", "b"))
    equalities = None if A_eq is None else read_rows(A_eq, b_eq, None, ("A_eq", "b_eq"))
    dim = (rows or equalities).dim
    low = None if lower is None else np.full(dim, lower)
    return rh.Polyhedron.from_rows(rows, equalities, low, None, (dim,), check=False)


def test_a_set_that_is_empty_by_less_than_the_solver_sees_is_refused_by_conversion():
    P = unchecked([[1], [-1]], [Fraction(0), Fraction(-1, 10**12)])
    with pytest.raises(rh.EmptySetError):
        rh.convert(P)


TINY = Fraction(1, 10**20)


@pytest.mark.parametrize("gap", [TINY, 0, -TINY], ids=["room", "touching", "empty"])
@pytest.mark.parametrize(
    ("rows", "rhs", "vertices"),
    [
        ([[1, 1], [-1, -1]], lambda gap: [1, gap - 1], (2, 1)),  # two rows against each other: lines are left
        ([[-1, 0], [0, -1], [1, 1]], lambda gap: [0, 0, gap], (3, 1)),  # a triangle that shrinks to a point
        ([[1, 0], [-1, 0], [0, 1], [0, -1]], lambda gap: [1, gap - 1, 5, 5], (4, 2)),  # a box that shrinks to a side
    ],
)
def test_emptiness_is_decided_by_the_last_digit(rows, rhs, vertices, gap):
    P = unchecked(rows, rhs(gap))
    if gap < 0:
        with pytest.raises(rh.EmptySetError, match="no common point"):
            rh.convert(P, cache=False)
    else:
        G = rh.convert(P, cache=False)
        assert len(G.vertices) == vertices[0 if gap else 1]


@pytest.mark.parametrize("gap", [TINY, 0, -TINY])
def test_an_inequality_along_an_equality_is_decided_by_the_last_digit(gap):
    P = unchecked([[1, 1]], [1 + gap], [[1, 1]], [1])
    if gap < 0:
        with pytest.raises(rh.EmptySetError, match="add up to 0 <= a negative number"):
            rh.convert(P, cache=False)
    else:
        assert counts(P) == (1, 0, 1)


@pytest.mark.parametrize("gap", [0, TINY])
def test_equalities_agree_to_the_last_digit_or_contradict_each_other(gap):
    P = unchecked(A_eq=[[1, 1], [2, 2]], b_eq=[1, 2 + gap], lower=0)
    if gap:
        with pytest.raises(rh.EmptySetError, match=r"A_eq\[1\] contradicts those before it"):
            rh.convert(P, cache=False)
    else:
        assert counts(P) == (2, 0, 0)


def test_rows_that_are_dependent_modulo_one_prime_are_independent():
    for prime in (2**31 - 1, 2147483629):
        assert counts(rh.Polyhedron([[1, 1], [1, 1 + prime]])) == (1, 2, 0)
        point = rh.convert(rh.Polyhedron([[0, 1]], [5], A_eq=[[1, 1], [1, 1 + prime]], b_eq=[0, prime]), cache=False)
        assert point.exact_vertices.tolist() == [[-1, 1]]
        P = rh.Polyhedron([[-prime, 1, 0], [0, -prime, 1], [-1, -1, prime]], lower=0)
        found = {tuple(int(x) for x in r) for r in rh.convert(P, cache=False).exact.rays}
        assert found == vertices_and_rays(P)[1]


# -- faults of our own, planted: the verification sees each of them --------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "floats"])
def test_a_generator_outside_the_set_is_never_returned(monkeypatch, never_in_fractions, kind):
    from rayhull.conversion.slack_form import SlackForm
    from rayhull.conversion.slack_form_floats import FloatSlackForm

    form = SlackForm if kind == "exact" else FloatSlackForm
    original = form.points

    def shifted(self, t, y):
        tops, bottoms = original(self, t, y)
        return tops + 1, bottoms

    monkeypatch.setattr(form, "points", shifted)
    with pytest.raises(rh.UnverifiedError, match="A generator breaks a row"):
        rh.convert(rh.Polyhedron([[1, 1]] if kind == "exact" else [[0.1, 0.1]], 1, lower=0), cache=False)


@pytest.mark.parametrize("kind", ["exact", "floats"])
def test_a_ray_outside_the_set_is_never_returned(monkeypatch, never_in_fractions, kind):
    from rayhull.conversion.slack_form import SlackForm
    from rayhull.conversion.slack_form_floats import FloatSlackForm

    form = SlackForm if kind == "exact" else FloatSlackForm
    monkeypatch.setattr(form, "simplicial_rays", lambda self: -self.edges[self.equalities :])
    with pytest.raises(rh.UnverifiedError, match="A generator breaks a row"):
        rh.convert(rh.Polyhedron([[1, 1], [0, 1]] if kind == "exact" else [[0.1, 0.1], [0, 1]]), cache=False)


def test_a_row_that_was_thought_dependent_and_is_not_is_noticed(monkeypatch):
    module = importlib.import_module("rayhull.conversion.slack_form")
    original = module.independent_rows
    monkeypatch.setattr(module, "independent_rows", lambda A: tuple(part[:-1] for part in original(A)))
    with pytest.raises(rh.UnverifiedError, match="A row changes along a line"):
        rh.convert(rh.Polyhedron([[1, 1], [1, -1]]), cache=False)


@pytest.mark.parametrize(
    "P",
    [cross_polytope(3), rh.Polyhedron([[1, 1, 1]], 2, lower=0, upper=1), rh.Polyhedron(cross_polytope(3).A * 0.1, 0.3)],
    ids=["degenerate", "cut cube", "floats"],
)
def test_the_full_proof_notices_a_missing_generator(monkeypatch, P):
    module = importlib.import_module("rayhull.conversion.convert")
    original, calls = module.find_rays, []

    def one_less(engine, C, *rest):
        calls.append(C)
        rays = original(engine, C, *rest)
        return rays[1:] if len(calls) == 1 else rays  # the proof itself works right

    monkeypatch.setattr(module, "find_rays", one_less)
    with pytest.raises(rh.UnverifiedError, match="A generator is missing"):
        rh.convert(P, cache=False, verify="full")
    monkeypatch.undo()
    rh.convert(P, cache=False, verify="full")


@pytest.mark.parametrize("low", [-1, 0])
def test_an_equality_of_the_hull_is_not_proved_by_an_inequality_of_the_set(low):
    square = rh.Polyhedron(lower=[low, 0], upper=[low + 1, 1])
    side = rh.Generators(vertices=[[0, 0], [0, 1]]).to_polyhedron()  # x0 = 0, and the square says x0 <= 0 or x0 >= 0
    with pytest.raises(rh.UnverifiedError, match="A generator is missing"):
        prove_complete(square, side)


def test_the_full_proof_keeps_to_the_budget():
    P = cross_polytope(5)
    assert counts(P, max_generators=30) == (10, 0, 0)
    with pytest.raises(rh.BudgetExceededError, match="max_generators=30"):
        counts(P, max_generators=30, verify="full")  # its 32 facets


def test_the_full_proof_says_where_it_cannot_decide():
    big = 10**24
    P = rh.Polyhedron([[-big, -1], [big, 1], [1, -big], [-1, big]], [0, 0, 0, 0])  # {0}, in four inequalities
    assert counts(P) == (1, 0, 0)
    with pytest.raises(rh.UnverifiedError, match="cannot decide this set"):
        counts(P, verify="full")


@pytest.mark.parametrize("fault", ["not extreme", "outside", "a line"])
def test_what_an_engine_says_is_verified(monkeypatch, fault):
    from rayhull.conversion.engines import ENGINES

    P = feasible_cone(8, 3, 0)

    def wrong(rows):
        k = rows.shape[1]
        rays = rh.conversion.double_description.extreme_rays(rows[k:].astype(np.int64)).tolist()
        if fault == "a line":
            return rays, [[1] * k]
        both = zip(rays[0], rays[1], strict=True)
        return [*rays, [a + b if fault == "not extreme" else -a for a, b in both]], []

    monkeypatch.setitem(ENGINES, "ppl", wrong)
    with pytest.raises(rh.UnverifiedError):
        rh.convert(P, engine="ppl", cache=False)


def test_memory_stays_below_100_mb_at_784_dimensions():
    code = (
        "import resource, rayhull as rh\n"
        "P = [rh.monotone(784), rh.checkerboard(), rh.windows((28, 28), 8, 5)]\n"
        "rh.convert(rh.monotone(20), cache=False)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for p in P: rh.convert(p, cache=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    used = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert used < 100 * 1024  # kB


def test_the_fuzz_finds_nothing_and_finds_a_missing_ray(monkeypatch):
    assert fuzz_conversion.run(seconds=2.0, seed=0)
    module = importlib.import_module("rayhull.conversion.convert")
    original = module.find_rays
    monkeypatch.setattr(module, "find_rays", lambda *arguments: original(*arguments)[1:])
    with pytest.raises(AssertionError, match="wrong on numpy"):
        fuzz_conversion.run(seconds=20.0, seed=0)


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
    ],
)
def test_bad_generators_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        rh.Generators(**arguments)
