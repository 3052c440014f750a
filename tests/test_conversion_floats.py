"""Conversion of floats: right at every size and scale, exact where rounding could decide, or refused."""

import itertools

import numpy as np
import pytest

import rayhull as rh
from tests import fuzz_conversion
from tests.cones import KNOWN, PATHS
from tests.fuzz_conversion import as_fractions
from tests.zoo import ZOO, counts, cross_polytope, cyclic_cone


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


def test_the_fuzz_judges_what_it_once_found_wrong():
    """Rows that noise of 1e-9 keeps from being parallel, in any order of the coordinates."""
    assert fuzz_conversion.one(np.random.default_rng([20261119, 3491])).startswith("right")


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


@PATHS
@pytest.mark.parametrize("name", ["cube 6", "cross-polytope 5", "metric 5", "isotonic 4", "cyclic 12,6"])
@pytest.mark.parametrize("seed", range(2))
def test_a_turned_cone_keeps_its_rays(name, seed, compiled):
    A, count = KNOWN[name]
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((A.shape[1],) * 2))[0]
    G = rh.convert(rh.Polyhedron(A.astype(float) @ Q), cache=False)
    assert (len(G.vertices), len(G.rays), len(G.lines)) == (1, count, 0)
    assert G.exact is None or name == "cyclic 12,6"  # ill-conditioned: converted as fractions


NEARLY_PARALLEL = [[1, 0.1], [1, 0.1 + 1e-6], [1, 0.1 + 2e-6]]


def test_rows_that_are_nearly_parallel_are_converted_as_the_fractions_that_they_are():
    G = rh.convert(rh.Polyhedron(NEARLY_PARALLEL), cache=False)
    same = rh.convert(rh.Polyhedron(as_fractions(NEARLY_PARALLEL)), cache=False)
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


def test_a_vertex_far_away_is_found_by_floats_alone(never_in_fractions):
    G = rh.convert(rh.Polyhedron([[1.0, 1e-9]], [1.0], lower=0), cache=False)
    np.testing.assert_allclose(G.vertices, [[0, 0], [0, 1e9], [1, 0]])
    with pytest.raises(rh.UnverifiedError):
        rh.convert(rh.Polyhedron([[1.0, 1e-15]], [1.0], lower=0), cache=False)  # a vertex at 1e15, or a ray?


@pytest.mark.parametrize("apart", [1e-9, 1e-11, 1e-12])
def test_rows_that_are_almost_the_same_are_neither_one_nor_two_in_floats_alone(apart, never_in_fractions):
    with pytest.raises(rh.UnverifiedError, match="cannot tell whether these inequalities are independent"):
        rh.convert(rh.Polyhedron([[1.0, 0.1], [1.0, 0.1 + apart]], 1.0), cache=False)


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


def unbounded_floats(seed):
    """Random rows, or rows of small integers seen in other coordinates: strips, prisms and wedges of many rows."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 4))
    m = int(rng.integers(d, 6))
    if seed % 2:
        return rh.Polyhedron(rng.normal(size=(m, d)), np.abs(rng.normal(size=m)))
    turned = rng.integers(-2, 3, size=(m, d)) @ (10.0 ** rng.integers(-2, 3, size=d)[:, None] * rng.normal(size=(d, d)))
    return rh.Polyhedron(turned, rng.integers(0, 4, size=m) + turned @ rng.normal(size=d))


def way_back(P):
    """Whether generators → rows → generators keeps an unbounded set; None for a bounded one."""
    G = rh.convert(P, cache=False)
    if not len(G.rays) + len(G.lines):
        return None
    back = rh.convert(G.to_polyhedron(cache=False), cache=False)
    unit = np.abs(G.vertices).max(initial=1e-300)
    near = np.abs(back.vertices[:, None] - G.vertices).max(axis=2).min(axis=1) <= 1e-6 * unit
    return [len(a) for a in (G.vertices, G.rays, G.lines)] == [
        len(a) for a in (back.vertices, back.rays, back.lines)
    ] and near.all()


def test_unbounded_floats_keep_their_rays_on_the_way_back():
    """(1, 0), the row 0 <= 1 of the polar cone, came out as (1, 1e-17) and bounded 127 of 289 sets at 1e17."""
    kept = [found for seed in range(300) if (found := way_back(unbounded_floats(seed))) is not None]
    assert len(kept) >= 200
    assert all(kept)


def test_rows_that_rounding_would_turn_from_parallel_are_exact_or_refused(monkeypatch):
    """A half strip of floats whose two sides would meet at 1e17: its one ray would come back as two."""
    vertices = [[0.01952739713405253, 0.7052332342908024], [1.433195933010586, 0.6659742140190404]]
    strip = rh.Generators(vertices, [[-0.0277710221847866, -1.0]])
    P = strip.to_polyhedron(cache=False)
    assert P.is_exact
    assert counts(P) == (2, 1, 0)
    assert 4 < P.violation(np.array([0.7, 5.0])) < 10  # rows of ordinary size
    monkeypatch.setattr("rayhull.conversion.generators.MOST_FRACTIONS", 0)
    with pytest.raises(rh.UnverifiedError, match="rounding alone"):
        strip.to_polyhedron(cache=False)
    exact = rh.Generators(as_fractions(vertices), as_fractions(strip.rays))
    assert counts(exact.to_polyhedron()) == (2, 1, 0)


def test_the_order_of_float_generators_does_not_hang_on_the_last_digits():
    """Which differ between processors: a layer's coefficients must mean the same vertices everywhere."""
    G = rh.convert(ZOO["random floats in a box"](), cache=False)
    noise = np.random.default_rng(0)
    for _ in range(5):
        vertices, rays = (v * (1 + 1e-15 * noise.standard_normal(v.shape)) for v in (G.vertices, G.rays))
        shuffled = noise.permutation(len(vertices))
        moved = rh.Generators.from_floats(vertices[shuffled], rays, G.lines)
        assert np.allclose(moved.vertices, G.vertices, rtol=0, atol=1e-12)
