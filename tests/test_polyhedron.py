"""The set: what it is built from, what it answers, what it refuses."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rayhull as rh
from rayhull.sets.products import block_groups
from tests.brute_force import homogeneous_rows
from tests.zoo import ZOO


@pytest.fixture(params=ZOO, ids=lambda name: name.replace(" ", "-"))
def P(request):
    return ZOO[request.param]()


# -- every set of the zoo -----------------------------------------------------------------------------------------


def test_samples_and_the_interior_point_are_inside(P):
    assert P.contains(P.interior_point())
    assert P.contains(P.sample(50, seed=0)).all()
    assert P.violation(P.sample(50, seed=0)).max() < 1e-9


def test_interior_point_has_room_in_every_row_that_is_not_an_equality(P):
    middle = P.centre
    slack = P.rows.rhs - P.rows.matrix @ middle.point
    assert (slack[~middle.implicit] > 1e-6).all()


def test_torch_and_numpy_agree_and_keep_their_kind(P):
    x = np.random.default_rng(0).standard_normal((3, 2, *P.shape)) * 2
    tensor = torch.as_tensor(x)
    assert P.violation(x).shape == (3, 2)
    assert isinstance(P.contains(x), np.ndarray)
    assert isinstance(P.contains(tensor), torch.Tensor)
    np.testing.assert_allclose(P.violation(tensor).numpy(), P.violation(x), rtol=1e-12)
    np.testing.assert_array_equal(P.contains(tensor).numpy(), P.contains(x))


def test_blocks_partition_the_coordinates_and_groups_carry_their_rows(P):
    covered = np.sort(np.concatenate([*P.blocks, np.zeros(0, int)]))
    np.testing.assert_array_equal(covered, np.arange(P.dim))
    x = P.sample(4, seed=1).reshape(4, -1)
    for group in P.block_groups:
        for k, places in enumerate(group.index):
            part = group.polyhedron
            np.testing.assert_allclose(part.rows.rhs, P.rows.rhs[group.rows[k]])
            whole = (P.rows.matrix[group.rows[k]] @ x.T).T
            np.testing.assert_allclose((part.rows.matrix @ x[:, places].T).T, whole)
            same = P.equality_rows.matrix[group.equality_rows[k]] @ x.T
            np.testing.assert_allclose(part.equality_rows.matrix @ x[:, places].T, same)


def test_a_set_survives_pickle_and_deepcopy(P):
    for other in (pickle.loads(pickle.dumps(P)), copy.deepcopy(P)):
        assert other.fingerprint == P.fingerprint
        assert other.contains(P.interior_point())


def test_repr_and_describe_are_readable(P):
    named = P.coordinate_names is not None and "[" not in P.coordinates[0]
    assert repr(P).startswith(f"Polyhedron({', '.join(P.coordinates) if named else f'shape={P.shape}'}: ")
    said = P.describe().splitlines()
    assert len(said) == 3
    assert " block" in said[1]


# -- what goes in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "A",
    [
        [[1, -2], [0, 3]],
        np.array([[1, -2], [0, 3]], np.int8),
        np.array([[1.0, -2], [0, 3]], np.float32),
        np.array([[Fraction(1), Fraction(-2)], [0, 3]], dtype=object),
        sp.csr_matrix([[1, -2], [0, 3]]),
        sp.coo_array(np.array([[1.0, -2], [0, 3]])),
        torch.tensor([[1, -2], [0, 3]]),
        torch.tensor([[1.0, -2], [0, 3]]),
    ],
    ids=["list", "int8", "float32", "fractions", "sparse", "coo", "torch ints", "torch floats"],
)
def test_rows_come_from_any_kind_of_array_and_stay_exact(A):
    P = rh.Polyhedron(A, [1, 2])
    assert P.is_exact
    np.testing.assert_array_equal(P.rows.dense_integers()[0], [[1, -2], [0, 3]])
    np.testing.assert_array_equal(P.violation(np.array([[4.0, 1.0]])), [1.0])


def test_what_was_stated_is_given_back():
    A = np.array([[Fraction(1, 3), 2]], dtype=object)
    P = rh.Polyhedron(A, Fraction(1, 7), lower=-1, upper=[1, math.inf])
    assert P.A[0, 0] == Fraction(1, 3)
    assert P.b.tolist() == [Fraction(1, 7)]
    assert P.lower.tolist() == [-1, -1]
    assert P.upper.tolist() == [1, math.inf]
    assert P.A_eq.shape == (0, 2)
    assert sp.issparse(rh.monotone(5).A)


def test_fractions_become_integers_row_by_row_and_tenths_do_not():
    P = rh.Polyhedron([[Fraction(1, 3), Fraction(1, 2)]], [Fraction(1, 7)])
    data, rhs = P.rows.integers
    assert [Fraction(int(v), int(rhs[0])) for v in data] == [Fraction(7, 3), Fraction(7, 2)]
    assert rh.Polyhedron([[0.5, 2.75]]).is_exact
    assert not rh.Polyhedron([[0.1, 1.0]]).is_exact


def test_scalars_broadcast_and_none_means_zero():
    assert rh.Polyhedron(np.eye(3), 2).b.tolist() == [2, 2, 2]
    assert rh.Polyhedron(np.eye(3)).is_cone
    assert rh.Polyhedron(lower=[0, 1], upper=3).shape == (2,)


# -- what it answers ----------------------------------------------------------------------------------------------


def test_violation_is_the_largest_excess_over_rows_bounds_and_equalities():
    P = rh.Polyhedron([[1, 1]], [1], [[1, -1]], [0], lower=-1, upper=5)
    x = np.array([[0.25, 0.25], [2.0, 2.0], [0.0, 0.5], [-3.0, -3.0]])
    np.testing.assert_allclose(P.violation(x), [0, 3, 0.5, 2])


def test_violation_is_differentiable():
    x = torch.tensor([[2.0, 2.0]], requires_grad=True)
    rh.Polyhedron([[1, 3]], [1]).violation(x).sum().backward()
    assert x.grad.tolist() == [[1.0, 3.0]]


def test_contains_judges_by_the_dtype_unless_told():
    P = rh.Polyhedron([[1.0, 1.0]], [1.0])
    x = np.array([0.5, 0.5 + 1e-7])
    assert not P.contains(x)
    assert P.contains(x.astype(np.float32))
    assert P.contains(x, atol=1e-6)
    assert not P.contains(np.array([math.nan, 0.0]))
    assert not P.contains(torch.tensor([-math.inf, 0.0]))


def test_contains_exactly_sees_one_ulp():
    P = rh.Polyhedron([[1, 1, 1]], 1)
    third = np.full(3, 1 / 3)  # the float below 1/3
    assert P.contains_exactly(third)
    assert not P.contains_exactly(np.nextafter(third, 1))
    assert P.contains(np.nextafter(third, 1))
    tenth = rh.Polyhedron([[0.1]], 0.1)
    assert tenth.contains_exactly(torch.tensor([1.0]))
    assert not tenth.contains_exactly(np.nextafter([1.0], 2))
    assert not P.contains_exactly(np.array([1e300, 1.5, -1e300]))  # floats would add up to 0


def test_contains_exactly_agrees_with_fractions(P):
    s = P.sample(10, seed=0)
    tiny, huge = (size * np.random.default_rng(0).standard_normal((5, *P.shape)) for size in (1e-300, 1e300))
    x = np.concatenate([s, np.round(s * 4) / 4, np.nextafter(s, 9), tiny, huge, np.zeros((1, *P.shape))])
    above, equal = homogeneous_rows(P)
    expected = []
    for point in x.reshape(len(x), -1):
        exact = [Fraction(1), *map(Fraction, point.tolist())]
        values = [[sum(a * v for a, v in zip(row, exact, strict=True)) for row in rows] for rows in (above, equal)]
        expected.append(all(v >= 0 for v in values[0]) and not any(values[1]))
    np.testing.assert_array_equal(P.contains_exactly(x), expected)


@pytest.mark.parametrize(
    ("P", "cone", "bounded"),
    [
        (rh.nonnegative(3), True, False),
        (rh.simplex(3), False, True),
        (rh.box(-1, 1, 3), False, True),
        (rh.monotone(3), True, False),
        (rh.Polyhedron([[1, 0], [0, 1], [-1, -1]], 1), False, True),
        (rh.Polyhedron([[1, 0], [-1, 0]], 1), False, False),
        (rh.Polyhedron([[-1, 0], [0, 1], [-1, 2]], 1), False, False),  # along (1, -1): no shortcut sees it
        (rh.Polyhedron(np.eye(2, dtype=int), 0, lower=0), True, True),
        (rh.Polyhedron(shape=2), True, False),
    ],
)
def test_cones_and_bounded_sets_are_known_as_such(P, cone, bounded):
    assert (P.is_cone, P.is_bounded) == (cone, bounded)


def test_intersection_joins_rows_and_takes_the_tighter_bounds():
    P = rh.box(-1, 2, 3) & rh.box([0, -2, -2], 1) & rh.monotone(3)
    assert P.lower.tolist() == [0, -1, -1]
    assert P.upper.tolist() == [1, 1, 1]
    assert len(P.inequalities) == 2


def test_a_box_without_shape_takes_that_of_its_partner():
    left, right = rh.box(-1, 1) & rh.monotone((2, 3)), rh.monotone((2, 3)) & rh.box(-1, 1)
    assert left.fingerprint == right.fingerprint
    with pytest.raises(AttributeError, match="has no shape yet"):
        rh.box(-1, 1).contains([0.0])


def test_product_puts_sets_side_by_side():
    P = rh.product(rh.simplex(2), rh.box(0, 1, 3), rh.monotone(2))
    assert P.shape == (7,)
    assert P.contains(np.array([0.5, 0.5, 0, 1, 0.5, 1, 2]))
    assert not P.contains(np.array([0.5, 0.5, 0, 1, 0.5, 2, 1]))
    assert len(P.blocks) == 5


def test_a_block_is_its_own_only_group_with_every_row_in_its_place(P):
    for group in P.mirrored_groups:
        block = group.polyhedron
        sizes = {"index": block.dim, "rows": len(block.rows), "equality_rows": len(block.equality_rows)}
        for groups in (block.block_groups, block_groups(block), block_groups(block, mirrored=True)):
            assert [one.polyhedron is block and one.sign.tolist() == [1] for one in groups] == [True]
            for part, size in sizes.items():
                assert np.array_equal(getattr(groups[0], part), [np.arange(size)])


def test_zero_is_known_to_be_inside_without_a_product(P):
    assert P.contains_zero == bool(P.contains_exactly(np.zeros(P.shape)))


def test_a_flat_set_of_one_block_is_its_own_block():
    P = rh.convex(5) & rh.box(-1, 1)
    assert P.block_groups[0].polyhedron is P
    assert copy.deepcopy(P).block_groups[0].polyhedron.fingerprint == P.fingerprint
    with_zeros = rh.Polyhedron([[1, 1], [0, 0]], [1, 1])
    assert len(with_zeros.block_groups[0].polyhedron.inequalities) == 1


def test_implicit_equalities_are_found_and_reported():
    P = rh.Polyhedron([[1, 1, 0], [-1, -1, 0]], [1, -1], lower=0, names=["budget", "demand"])
    assert "budget, demand" in P.describe()
    hidden = rh.Polyhedron([[1, 1]], [0], lower=0)
    assert "3 inequalities hold with equality" in hidden.describe()


def test_large_sparse_sets_stay_sparse():
    n = 10_000
    P = rh.monotone(n) & rh.box(0, 1)
    assert P.A.nnz == 2 * (n - 1)
    x = np.sort(np.random.default_rng(0).random((2, n)), axis=1)
    assert P.contains(x).all()
    assert P.contains(P.interior_point())
    assert P.is_bounded
    assert "a cone with 1 line, " in rh.monotone(n).describe()


def test_a_tensor_that_requires_grad_is_refused_with_what_to_do_instead():
    G = torch.ones(1, 2, requires_grad=True)
    with pytest.raises(ValueError, match=r"A is a tensor that requires grad.*A\.detach\(\)"):
        rh.Polyhedron(G)
    assert rh.Polyhedron(G.detach()).contains(np.zeros(2))


# -- what it refuses ----------------------------------------------------------------------------------------------


def test_an_empty_set_is_refused_with_the_rows_that_contradict_each_other():
    rng = np.random.default_rng(0)
    A = np.concatenate([rng.standard_normal((10, 3)), [[1, 1, 0], [-1, -1, 0]]])
    b = np.concatenate([np.ones(10) * 9, [1, -2]])
    names = [f"rule {i}" for i in range(12)]
    with pytest.raises(rh.EmptySetError, match="rule 10 and rule 11 contradict") as error:
        rh.Polyhedron(A, b, names=names)
    assert error.value.rows == ("rule 10", "rule 11")


def test_an_empty_intersection_names_bounds_and_rows():
    with pytest.raises(rh.EmptySetError, match=r"A\[0\] and upper bound of x\[0\]"):
        rh.Polyhedron([[-1, 0]], [-2]) & rh.box(0, 1)


def test_contradictory_equalities_are_refused():
    with pytest.raises(rh.EmptySetError):
        rh.Polyhedron(A_eq=[[1, 1], [2, 2]], b_eq=[1, 3])
    with pytest.raises(rh.EmptySetError, match="only zeros"):
        rh.Polyhedron([[0, 0]], [-1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(A=[[1, 2], [3]]), ValueError, "ragged"),
        (dict(A=[[1, 2], [3, 4]], b=[1, 2, 3]), ValueError, "A has 2 rows but b has 3 entries: give one offset"),
        (dict(A=[1, 2]), ValueError, r"A must be a matrix .* got shape \(2,\)"),
        (dict(A=[[math.nan, 1]]), ValueError, "A holds NaN"),
        (dict(A=[[math.inf, 1]]), ValueError, "A holds an infinity"),
        (dict(A=[[1, 1]], b=[math.inf]), ValueError, "b holds an infinity"),
        (dict(A=[[1j, 1]]), TypeError, "A is complex"),
        (dict(A=[["one", 1]]), TypeError, "A must hold numbers"),
        (dict(A=np.zeros((0, 0))), ValueError, "at least one coordinate"),
        (dict(), ValueError, "how many coordinates"),
        (dict(b=[1]), ValueError, "b was given without A"),
        (dict(A=[[1, 1]], A_eq=[[1, 1, 1]]), ValueError, "numbers of coordinates disagree"),
        (dict(A=[[1, 1]], shape=(3,)), ValueError, "numbers of coordinates disagree"),
        (dict(A=[[1, 1]], lower=[0, 0, 0]), ValueError, r"lower has shape \(3,\)"),
        (dict(lower=[1, 0], upper=[0, 1]), rh.EmptySetError, r"lower > upper in 1 coordinate, first at x\[0\]: 1 > 0"),
        (dict(lower=[math.nan, 0]), ValueError, "lower holds NaN"),
        (dict(lower=[math.inf, 0]), ValueError, "lower holds inf, which no number satisfies"),
        (dict(A=[[1, 1]], names=["a", "b"]), ValueError, "1 row but 2 names"),
        (dict(shape=(0, 3)), ValueError, "positive whole sizes"),
    ],
)
def test_bad_input_gets_a_clear_answer(arguments, error, message):
    with pytest.raises(error, match=message):
        rh.Polyhedron(**arguments)


def test_points_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match=r"points must have shape \(\*, 2, 3\), got \(6,\)"):
        rh.box(0, 1, (2, 3)).contains(np.zeros(6))
    with pytest.raises(TypeError, match="real numbers"):
        rh.box(0, 1, 2).contains(np.array(["a", "b"]))


def test_sets_of_different_shape_do_not_intersect():
    with pytest.raises(ValueError, match=r"\(3,\) and \(4,\)"):
        rh.monotone(3) & rh.monotone(4)


@pytest.mark.parametrize("name", [name for name in ZOO if name != "whole space"])
def test_the_set_of_one_sample_is_the_set_with_its_sides(name):
    P = ZOO[name]()
    given = {"b": P.b + 1, "b_eq": P.b_eq, "upper": P.upper_bounds + 2}
    Q = P.with_sides(**given)
    x = P.interior_point() + np.random.default_rng(0).normal(size=(50, *P.shape))
    sides = {k: v.astype(float).reshape(P.shape if k == "upper" else -1) for k, v in given.items() if np.size(v)}
    assert np.allclose(Q.violation(x), P.violation(x, **sides))
    assert Q.coordinates == P.coordinates
    assert P.with_sides() == P


def test_the_set_of_one_sample_keeps_names_that_are_still_true():
    P = rh.parse("demand: coal + gas == 100; coal <= 60; gas <= 60; coal >= 0; gas >= 0")
    Q = P.with_sides(b_eq=50, upper={"gas": 60, "coal": 30})
    assert {*Q.rows.names} == {"upper bound of coal", "gas <= 60", "coal >= 0", "gas >= 0"}
    assert Q.slack([30, 20])["demand"] == 0
    with pytest.raises(rh.EmptySetError, match="coal <= 60, gas <= 60 and demand contradict each other"):
        P.with_sides(b_eq=150)
    R = rh.parse("x + y <= 3; x - y >= 1; most: x - 2*y <= 4").with_sides(b=[3, -2, 5])
    assert list(R.inequalities.names) == ["x + y <= 3", "y - x <= -2", "most"]
    assert list(pickle.loads(pickle.dumps(R)).inequalities.names) == list(R.inequalities.names)
    with pytest.raises(ValueError, match="A_eq has 1 row but b_eq has 2 entries"):
        P.with_sides(b_eq=[1, 2])
