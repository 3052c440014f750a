"""Sets of awkward numbers: fractions beside floats, large integers, rows of extreme scale, thin sets."""

from fractions import Fraction as F

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.exact.elimination import independent_rows, rank
from rayhull.sets.rows import unit_rows

# -- exact numbers ------------------------------------------------------------------------------------------------


def test_a_float_above_a_stated_fraction_is_outside_exactly():
    P = rh.Polyhedron(upper=np.array([F(1, 10)], object))
    assert not P.contains_exactly(np.array([[0.1]])).any()  # the float 0.1 is above 1/10
    assert P.contains_exactly(np.nextafter(np.array([[0.1]]), 0)).all()
    low = rh.Polyhedron(lower=np.array([F(1, 3)], object))
    assert not low.contains_exactly(np.array([1 / 3]))  # the float 1/3 is below 1/3
    assert low.contains_exactly(np.nextafter([1 / 3], 1))


def test_fractions_beside_inexact_floats_keep_their_exact_value():
    P = rh.Polyhedron(upper=np.array([F(1, 10)], object), lower=-0.3)
    assert not P.is_exact
    data, rhs = P.rows.exact
    assert F(int(rhs[0]), int(data[0])) == F(1, 10)
    assert F(int(rhs[1]), int(data[1])) == F(-0.3)
    assert not P.contains_exactly(np.array([0.1]))
    rows = rh.Polyhedron(np.array([[F(1, 3), 0.1]], object), [0.3])
    assert rows.contains_exactly(np.array([0.0, 2.0]))  # 2 · 0.1 < 0.3 as floats
    assert not rows.contains_exactly(np.array([0.0, 3.0]))  # 3 · 0.1 is above the float 0.3, though 3 * 0.1 rounds


def test_blocks_that_differ_only_beyond_float64_stay_apart():
    upper = np.array([F(0.1), F(0.1) - F(1, 10**30)], object)
    P = rh.Polyhedron(upper=upper, lower=0)
    assert len(P.block_groups) == len(P.mirrored_groups) == 2
    same = rh.Polyhedron(upper=np.array([F(1, 10), F(1, 10)], object), lower=0)
    assert len(same.block_groups) == 1


def test_mirror_images_share_a_group_and_their_rows_swap_bounds():
    P = rh.Polyhedron([[1, 2, 0, 0], [0, 0, -1, -2]], [1, 1], lower=[0, -3, -5, -7], upper=[5, 7, 0, 3])
    (group,) = P.mirrored_groups
    assert group.sign.tolist() == [1, -1]
    part = group.polyhedron.rows
    for k, sign in enumerate(group.sign):
        np.testing.assert_array_equal(P.rows.rhs[group.rows[k]], part.rhs)
        stated = P.rows.matrix[group.rows[k]][:, group.index[k]].toarray()
        np.testing.assert_array_equal(stated, sign * part.matrix.toarray())
    assert len(P.block_groups) == 2


def test_equal_bounds_are_told_from_almost_equal_fractions():
    thin = rh.Polyhedron(lower=np.array([F(1, 10) - F(1, 10**30)], object), upper=np.array([F(1, 10)], object))
    assert len(thin.rows) == 2
    assert len(thin.equality_rows) == 0
    with pytest.raises(rh.EmptySetError, match="lower > upper"):
        rh.Polyhedron(lower=np.array([F(1, 10)], object), upper=np.array([F(1, 10) - F(1, 10**30)], object))


def test_fractions_whose_common_denominator_passes_62_bits_stay_exact():
    primes = [2**31 - 1, 2**31 - 19, 2**31 - 61]
    P = rh.Polyhedron([[F(1, p) for p in primes], [F(1, 3), 0, 1]], [F(1, 7), F(2, 5)])
    data, rhs = P.rows.exact
    assert [F(int(v), int(rhs[0])) for v in data[:3]] == [F(7, p) for p in primes]
    assert [F(int(v), int(rhs[1])) for v in data[3:]] == [F(5, 6), F(5, 2)]
    x = np.array([0.0, 0.0, float(primes[2])])
    assert not P.contains_exactly(x)
    assert P.contains_exactly(np.array([0.125 * primes[0], 0.0, -1e9]))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64])
def test_the_least_integer_of_a_kind_is_a_bound_like_any_other(kind):
    least = np.iinfo(kind).min
    P = rh.Polyhedron(lower=kind(least), upper=0, shape=2)
    assert P.contains(np.full(2, float(least)))
    assert not P.contains(np.full(2, 1.5 * least))
    assert P.rows.exact[1].tolist() == [0, 0, -int(least), -int(least)]


def test_the_largest_unsigned_integer_is_a_bound_like_any_other():
    most = np.iinfo(np.uint64).max
    P = rh.Polyhedron(upper=np.uint64(most), lower=0, shape=1)
    assert P.rows.exact[1].tolist() == [int(most), 0]
    assert rh.Polyhedron(np.array([[1]], np.uint8), np.array([255], np.uint8), lower=np.uint64(3)).contains([255.0])


def test_points_beyond_float64_are_not_judged_exactly():
    with pytest.raises(ValueError, match="beyond float64"):
        rh.box(0, 1, 1).contains_exactly(np.array([2**60 + 1]))
    with pytest.raises(ValueError, match="beyond float64"):
        rh.box(0, 1, 1).contains_exactly(torch.tensor([2**60 + 1]))


# -- rank ---------------------------------------------------------------------------------------------------------


def test_integers_that_agree_modulo_a_prime_are_told_apart():
    P = rh.Polyhedron([[1, 1], [-1, -1], [1, 2**31], [-1, -(2**31)]], 1)
    assert P.is_bounded
    assert " line" not in P.describe()
    assert rh.Polyhedron([[1, 1], [1, 2**31]]).generators().rays.shape == (2, 2)


@pytest.mark.parametrize("step", [2**31 - 1, 2**31 - 19, (2**31 - 1) * (2**31 - 19), 10**40])
def test_rank_is_exact_also_for_numbers_that_many_primes_divide(step):
    matrix = np.array([[1, 1, 0], [1, 1 + step, 0], [2, 2 + step, 0]], dtype=object)
    rows, pivots = independent_rows(matrix)
    assert (len(rows), len(set(pivots.tolist()))) == (2, 2)
    flat = matrix[:, :2].ravel()
    assert rank(flat, np.tile([0, 1], 3), np.array([0, 2, 4, 6]), 3) == 2
    assert rank(flat, np.tile([0, 1], 3), np.array([0, 2, 4, 6]), 3_000_000) == 2  # never dense


def test_dependent_sparse_rows_are_reduced():
    n = 3000
    ring = rh.Polyhedron(rh.monotone(n).A) & rh.ordered([(n - 1, 0)], n)  # x0 <= x1 <= ... <= x0
    data, _ = ring.rows.exact
    assert rank(data, ring.rows.indices, ring.rows.indptr, n) == n - 1


def test_nearly_parallel_integer_equalities_are_all_kept():
    E, e = [[1, 1, 1], [10**10, 10**10, 10**10 + 1]], [0, 1]  # x3 = 1 and x1 + x2 = -1
    P = rh.Polyhedron(A_eq=E, b_eq=e)
    kept = P.independent_equalities
    assert sorted(map(tuple, kept.dense_integers()[0].tolist())) == [(0, 0, 1), (1, 1, 0)]
    np.testing.assert_allclose(P.interior_point(), [-0.5, -0.5, 1.0], atol=1e-12)
    x = P.sample(20, seed=0)
    np.testing.assert_allclose(x[:, 2], 1.0, atol=1e-12)
    out = rh.Constrained(4, P).double()(torch.randn(50, 4, dtype=torch.float64))
    np.testing.assert_allclose(out[:, 2].detach().numpy(), 1.0, atol=1e-12)


def test_repeated_equalities_count_once_and_good_ones_stay_as_they_are():
    twice = rh.Polyhedron(A_eq=[[1, 2, 3], [2, 4, 6], [0, 1, 1]], b_eq=[1, 2, 0])
    assert len(twice.independent_equalities) == 2
    plain = rh.Polyhedron(A_eq=[[1, 2, 3], [0, 1, 1]], b_eq=[1, 0])
    assert plain.independent_equalities is plain.equality_rows


def test_nearly_dependent_floats_are_kept_and_unclear_ones_refused_by_name():
    point = rh.Polyhedron(A_eq=[[1.0, 1.0], [1.0, 1 + 1e-8]], b_eq=[0.0, 0.0])
    assert len(point.independent_equalities) == 2
    np.testing.assert_allclose(point.interior_point(), 0.0, atol=1e-9)
    unclear = rh.Polyhedron(A_eq=[[1.0, 1.0], [1.0, 1 + 1e-13]], b_eq=[0.0, 0.0])
    with pytest.raises(rh.UnverifiedError, match=r"equality A_eq\[\d\] depends on the others"):
        _ = unclear.independent_equalities


# -- scale --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-165, 1e160, 1e200, 1e307])
def test_rows_of_any_scale_mean_the_same_set(scale):
    A = np.array([[1.0, 1.0], [-1.0, 0.5], [0.25, -1.0]])
    P, Q = rh.Polyhedron(A, np.ones(3)), rh.Polyhedron(A * scale, np.full(3, scale))
    inside, outside = np.array([0.4, 0.5]), np.array([0.6, 0.6])
    for points in (inside, torch.as_tensor(inside)):
        assert Q.contains(points)
        assert Q.contains_exactly(points)
    for points in (outside, torch.as_tensor(outside), np.full(2, 1e308), np.array([1e200, 1.0])):
        assert not Q.contains(points)
        assert not Q.contains_exactly(points)
    assert Q.violation(outside) == pytest.approx(0.2 * scale, rel=1e-3)
    assert Q.is_bounded == P.is_bounded
    np.testing.assert_allclose(Q.interior_point(), P.interior_point(), rtol=1e-3, atol=1e-6)
    assert Q.contains(Q.sample(20, seed=0)).all()


def test_unit_rows_have_length_one_at_any_scale():
    A = np.array([[3.0, 4.0], [3e300, 4e300], [3e-300, 4e-300], [0.0, 0.0]])
    P = rh.Polyhedron(A, [5.0, 1e301, 0.0, 0.0])
    unit, rhs, norms = unit_rows(P.inequalities.matrix, P.inequalities.rhs)
    np.testing.assert_allclose(unit.toarray()[:3], [[0.6, 0.8]] * 3, rtol=1e-15)
    np.testing.assert_allclose(rhs, [1.0, 2.0, 0.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(norms, [5.0, 5e300, 5e-300, 0.0], rtol=1e-14)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_contains_allows_sixteen_ulps_of_the_row_and_no_more(kind):
    P, eps = rh.Polyhedron([[1.0, 1.0]], [1.0]), np.finfo(kind).eps
    for like in (np.asarray, torch.as_tensor):
        for x in (0.5, 0.5 - 2**-5):  # the row's scale is ‖a‖₁ max|x| + |b|
            allowed = 16 * eps * (2 * max(abs(x), 1 - x) + 1)
            inside, outside = (np.array([x, 1 - x + share * allowed], kind) for share in (15 / 16, 17 / 16))
            assert P.contains(like(inside))
            assert not P.contains(like(outside))


# -- thin, flat and empty -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12])
def test_a_distant_redundant_row_does_not_make_a_triangle_thin(far):
    P = rh.Polyhedron([[1.0, 1.0], [1.0, 0.1]], [1.0, far], lower=0)
    assert not P.centre.implicit.any()
    assert (P.rows.rhs - P.rows.matrix @ P.centre.point > 0.1).all()


@pytest.mark.parametrize("width", [1e-6, 1e-8, 1e-10, 1e-12])
def test_a_thin_slab_has_an_interior(width):
    P = rh.Polyhedron([[1.0, -1.0], [-1.0, 1.0]], [width, 0.0], lower=0, upper=1)
    assert not P.centre.implicit.any()
    slack = P.rows.rhs - P.rows.matrix @ P.centre.point
    assert (slack > 0.2 * width).all()
    assert P.contains(P.sample(10, seed=0)).all()


@pytest.mark.parametrize("seed", range(8))
def test_thin_sets_of_many_rows_have_a_centre(seed):
    rng = np.random.default_rng(seed)
    d, width = int(rng.integers(2, 8)), 10.0 ** -int(rng.integers(2, 12))
    A, inside = rng.standard_normal((3 * d, d)), rng.standard_normal(d)
    A = np.concatenate([A, -A[:1]])
    b = np.concatenate([A[: 3 * d] @ inside, -(A[:1] @ inside)]) + width * rng.random(3 * d + 1) + 1e-3 * width
    P = rh.Polyhedron(A, b)
    assert P.contains(P.interior_point())


@pytest.mark.parametrize("gap", [F(1, 10**8), F(1, 10**12), F(1, 10**30)])
def test_a_set_of_fractions_empty_by_a_hair_is_refused(gap):
    with pytest.raises(rh.EmptySetError, match="contradict"):
        rh.Polyhedron([[1, 1], [-1, -1]], [F(1, 3), -F(1, 3) - gap])
    with pytest.raises(rh.EmptySetError) as error:
        rh.Polyhedron([[1, 1, 1], [-1, 0, 0], [0, -1, 0]], [1, F(-1, 3), F(-1, 3) - gap], lower=[0, 0, F(1, 3)])
    assert error.value.rows == ("A[0]", "A[1]", "A[2]", "lower bound of x[2]")
    touching = rh.Polyhedron([[1, 1], [-1, -1]], [F(1, 3), -F(1, 3)])
    assert touching.centre.implicit.all()


def test_equalities_that_contradict_each_other_in_fractions_are_refused():
    with pytest.raises(rh.EmptySetError):
        rh.Polyhedron(A_eq=[[1, 1], [3, 3]], b_eq=[F(1, 3), 1 + F(1, 10**12)])
    assert rh.Polyhedron(A_eq=[[1, 1], [3, 3]], b_eq=[F(1, 3), 1]).contains([0.5, 1 / 3 - 0.5])


# -- requests that make no set ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rh.monotone(2.5), r"positive whole sizes, such as 5 or \(28, 28\), got 2.5"),
        (lambda: rh.monotone(True), "positive whole sizes"),
        (lambda: rh.box(0, 1, "3"), "positive whole sizes"),
        (lambda: rh.simplex(None), "positive whole sizes"),
        (lambda: rh.monotone(3, axis=0.5), "axis must be a whole number, got 0.5"),
        (lambda: rh.unimodal(5, mode=1.5), "mode must be an index from 0 to 4, got 1.5"),
        (lambda: rh.windows(6, 1.5), "size must be a positive whole number"),
        (lambda: rh.windows(6, 2, 0.5), "stride must be a positive whole number"),
        (lambda: rh.ordered([(0, 1.5)], 3), "1.5 is not a coordinate"),
        (lambda: rh.ordered([(0, 1, 2)], 3), r"an edge is a pair \(i, j\), got \(0, 1, 2\)"),
        (lambda: rh.checkerboard((28, 28), tiles=(2.5, 4)), "tiles must be two positive whole numbers"),
        (lambda: rh.sum_to([1, 2], 3), "total must be one number"),
        (lambda: rh.Polyhedron([[10**400, 1]]), "beyond the range of float64"),
        (lambda: rh.Polyhedron(upper=[10**400, 1]), "beyond the range of float64"),
    ],
)
def test_a_request_that_makes_no_set_says_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "ask",
    [
        lambda P: rh.product(rh.simplex(2), P),
        lambda P: rh.along(P, 2),
        rh.convert,
        lambda P: rh.project(P, np.zeros(2)),
    ],
)
def test_what_is_no_set_is_refused_where_a_set_is_needed_and_the_advice_works(ask):
    with pytest.raises(TypeError, match=r"got ndarray: give rayhull.Polyhedron\(A\)"):
        ask(np.eye(2))
    with pytest.raises(TypeError, match=r"give it a shape, rayhull.box\(-1, 1, d\), or .* P & rayhull.box\(-1, 1\)"):
        ask(rh.box(-1, 1))
    ask(rh.box(-1, 1, 2))
    ask(rh.sum_to(0, 2) & rh.box(-1, 1))


def test_project_takes_the_set_first():
    with pytest.raises(TypeError, match=r"rayhull.project\(P, x\)"):
        rh.project(np.zeros(2), rh.simplex(2))


@pytest.mark.parametrize("power", [-60, -30, 0, 5, 30, 60])
def test_an_exact_set_that_is_not_empty_is_never_called_empty_in_any_unit(power):
    """A vertex at (1e-10, -2) in a slab of 1e-19: linear programs in floats say that there is none."""
    p, unit = 2147483629, F(2) ** power
    rows = [[p, 0], [-p - 1, 0], [-p, 1], [p, 1], [-p, p + 2]]
    P = rh.Polyhedron(rows, [unit * c for c in (1, -1, 2, -1, 0)])
    assert len(P.generators(cache=False).vertices) == 2


def test_a_million_bounds_are_grouped_without_a_look_at_each() -> None:
    lower = np.tile([0.0, -1.0, 0.0, 2.0], 250_000)
    P = rh.Polyhedron(lower=lower, upper=lower + 1)
    groups = P.mirrored_groups
    assert [g.index.shape for g in groups] == [(750_000, 1), (250_000, 1)]
    assert groups[0].sign[:4].tolist() == [1, -1, 1, 1]
    assert [int(g.index[0, 0]) for g in P.block_groups] == [0, 1, 3]
    small = rh.Polyhedron(lower=lower[:4], upper=lower[:4] + 1)
    assert small.contains(small.interior_point())
