"""Ready-made sets mean what their formulas say."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import rayhull as rh


@pytest.mark.parametrize(
    ("P", "inside", "outside"),
    [
        (rh.monotone(3), [1, 1, 2], [1, 2, 1]),
        (rh.monotone(3, increasing=False), [2, 1, 1], [1, 2, 1]),
        (rh.monotone(3, step=1), [0, 1, 2.5], [0, 1, 1.5]),
        (rh.monotone(3, increasing=False, step=1), [2, 1, 0], [2, 1.5, 0]),
        (rh.convex(4), [4, 1, 0, 0], [0, 1, 1, 2]),
        (rh.concave(4), [0, 1, 1.5, 1], [4, 1, 0, 0]),
        (rh.unimodal(4, mode=1), [0, 3, 2, 2], [0, 1, 2, 1]),
        (rh.unimodal(4, mode=3), [0, 1, 2, 2], [0, 1, 2, 1]),
        (rh.simplex(3), [0.5, 0.5, 0], [0.5, 0.6, -0.1]),
        (rh.sum_to(2, 3), [3, 0, -1], [1, 1, 1]),
        (rh.lipschitz(3, 0.5), [0, 0.5, 0.25], [0, 0.6, 0.6]),
        (rh.ordered([(2, 0)], 3), [1, 9, 0], [0, 9, 1]),
        (rh.Polyhedron([[1, -1, 0]]), [0, 1, 5], [1, 0, 5]),
        (rh.nonnegative(2), [0, 1], [-0.1, 1]),
        (rh.ramps(3, up=1, down=2), [0, 1, -1], [0, 1, -1.5]),
        (rh.ramps(3, up=[1, 3]), [0, 1, 4], [0, 2, 4]),
        (rh.flow([(0, 1), (1, 2), (0, 2)], 3, capacity=2, demand=[-3, 0, 3]), [1, 1, 2], [1, 2, 1]),
        (rh.marginals([1, 2], [2, 1]), [[0.5, 0.5], [1.5, 0.5]], [[1, 0], [0.5, 1]]),
        (rh.birkhoff(2), [[0.3, 0.7], [0.7, 0.3]], [[0.3, 0.7], [0.3, 0.7]]),
        (rh.hierarchy([None, 0, [0, 1]]), [0.9, 0.5, 0.5], [0.9, 0.4, 0.5]),
        (rh.hierarchy([None, 0]), [1, 1], [1.1, 1]),
    ],
)
def test_each_set_contains_what_it_should(P, inside, outside):
    assert P.contains(np.array(inside, float))
    assert not P.contains(np.array(outside, float))


def test_the_checkerboard_is_dark_at_the_top_left():
    P = rh.checkerboard((28, 28), tiles=(4, 4))
    assert P.A.shape == (16, 784)
    x = np.zeros((28, 28))
    x[:7, :7] = -1
    x[:7, 7:14] = 1
    assert P.contains(x)
    assert not P.contains(-x)
    assert P.rows.names[1] == "tile (0, 1)"


def test_windows_order_or_sign_their_sums():
    P = rh.windows((28, 28), 8, 5)
    assert P.A.shape == (40, 784)
    assert P.contains(np.arange(784.0).reshape(28, 28))
    assert not P.contains(-np.arange(784.0).reshape(28, 28))
    signs = rh.windows(6, 3, signs=[1, -1])
    assert signs.contains(np.array([0, 0, 1, 0, -1, 0.0]))
    assert not signs.contains(np.array([0, 0, 1, 0, 1, 0.0]))
    assert rh.windows(6, 3, signs=[1, 0]).A.shape[0] == 1


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sets_go_along_an_axis_of_a_larger_shape(axis):
    x = np.sort(np.random.default_rng(0).random((5, 24)), axis=axis)
    P = rh.monotone((5, 24), axis)
    assert P.contains(x)
    assert not P.contains(np.flip(x, axis))
    assert len(P.blocks) == (24 if axis == 0 else 5)
    assert len(P.block_groups) == 1


def test_grid_order_increases_along_every_axis():
    P = rh.ordered(None, (3, 4))
    x = np.add.outer(np.arange(3.0), np.arange(4.0))
    assert P.contains(x)
    assert not P.contains(x[::-1])
    assert not P.contains(x[:, ::-1])
    assert rh.ordered([((0, 0), (1, 1))], (2, 2)).A.toarray().tolist() == [[1, 0, 0, -1]]


def test_a_battery_keeps_its_books():
    P = rh.storage(3, power=[2, 2, 1], energy=4, efficiency=(0.5, 0.25), start=1, end=1, hours=2)
    charge, discharge, level = [2.0, 0, 0], [0, 0.125, 0.125], [3.0, 2, 1]
    x = np.array([charge, discharge, level])
    assert P.is_exact
    assert P.contains(x)
    assert not P.contains(x + [[0] * 3, [0] * 3, [0, 0, 0.1]])
    assert not P.contains(x - [[0] * 3, [0, 0, -0.125], [0, 0, 1]])  # the level at the end
    assert P.contains(x + [[0] * 3, [0] * 3, [1] * 3], b_eq=[2, 0, 0])  # a sample that starts with more
    assert not P.contains(x + [[0] * 3, [0] * 3, [1] * 3])
    assert P.b_eq.tolist() == [1, 0, 0]
    assert "balance[1]" in P.slack(x).names
    assert rh.storage(1, 1, 1).shape == (3, 1)


def test_names_of_a_network_are_in_its_messages():
    P = rh.flow([("plant", "town"), ("sea", "town")], ["plant", "sea", "town"], demand=[-1, -2, 3])
    assert list(P.equalities.names) == ["demand of plant", "demand of sea"]
    assert [1, 2] in P


def test_ready_made_sets_are_sparse_and_exact():
    for P in (rh.monotone(50), rh.convex(50), rh.checkerboard(), rh.windows((28, 28), 7), rh.simplex(50)):
        assert P.is_exact
    assert rh.monotone(3, step=Fraction(1, 3)).is_exact
    assert rh.sum_to(Fraction(1, 3), 3).equality_rows.integers[1].tolist() == [1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rh.monotone(1), "length of at least 2"),
        (lambda: rh.convex((3, 2)), "length of at least 3"),
        (lambda: rh.monotone((3, 4), axis=2), "axis 2 is out of range"),
        (lambda: rh.unimodal(4, mode=4), "mode must be an index from 0 to 3"),
        (lambda: rh.checkerboard((28, 28), tiles=(5, 4)), "do not divide"),
        (lambda: rh.checkerboard(28), "two axes"),
        (lambda: rh.windows(5, 6), "does not fit"),
        (lambda: rh.windows(6, 3, signs=2), "signs must be -1, 0 or"),
        (lambda: rh.windows((6, 6), (3, 3, 3)), "one for each of 2 axes"),
        (lambda: rh.ordered([(0, 3)], 3), "not a coordinate"),
        (lambda: rh.ordered([(1, 1)], 3), "says nothing"),
        (lambda: rh.box(1, -1), "lower > upper"),
        (lambda: rh.along(rh.monotone(3), (2, 4)), "has length 4, but the set has 3"),
        (lambda: rh.lipschitz(3, -1), "no common point"),
        (lambda: rh.product(rh.simplex(2), shape=(3,)), "do not fill shape"),
        (lambda: rh.flow([(0, 3)], 3), "3 is none of 0, 1, 2"),
        (lambda: rh.flow([("a", "b")], ["a", "b"], demand=[1, 1]), "demands of all nodes sum to 2"),
        (lambda: rh.flow([("a", "b")], ["a", "b"], demand=[1]), "2 nodes but 1 demands"),
        (lambda: rh.flow([(0, 1)], 3, demand=[-2, 1, 1]), "no common point"),
        (lambda: rh.marginals([1, 1], [1, 2]), "rows sum to 2, columns to 3"),
        (lambda: rh.hierarchy({"cat": "animal"}), "'animal' is none of 'cat'"),
        (lambda: rh.storage(4, power=1, energy=1, start=3), "no common point"),
    ],
)
def test_impossible_requests_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


NAN = float("nan")
UNIT = rh.simplex(2)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rh.flow([(0, 1), (1, 2)], 3, demand={"a": 1}), "no node"),
        (lambda: rh.flow([(0, 1), (1, 2)], 3, demand=[-1, 0, NAN]), "sum to nan"),
        (lambda: rh.flow([(0, 1)], 1.5), "one name or more"),
        (lambda: rh.marginals([1, 3], [2, 2, NAN]), "columns to nan"),
        (lambda: rh.marginals([1, 3], ["a", 2]), "columns must hold numbers"),
        (lambda: rh.birkhoff((2, 3)), "rows sum to 2, columns to 3"),
        (lambda: rh.storage(3, 1, 1, end=NAN), "holds NaN"),
        (lambda: rh.storage(3, 1, 1, hours=0), "the length of a step"),
        (lambda: rh.rules((x := rh.variables("x")) >= 0, x >= NAN), "x >= nan holds NaN"),
        (lambda: rh.rules(rh.variables("x") <= 1, variables=3), "does not list"),
        (lambda: rh.variables("x", shape=3).diff(n=-1), "n=-1"),
        (lambda: rh.box(NAN, 1), "lower holds NaN"),
        (lambda: rh.box([[0, 1], [1]], 1), "ragged"),
        (lambda: rh.monotone(3, step="a"), "step must hold numbers"),
        (lambda: rh.ordered(3, 3), "an edge is a pair"),
        (lambda: rh.checkerboard((8, 8), 4), "tiles must be two"),
        (lambda: rh.hierarchy(3), "the parent of each class"),
        (lambda: rh.quantiles(0.5), "two or more numbers"),
        (lambda: rh.windows((4, 4), 2, signs=[1, 2, 3]), "for each of"),
        (lambda: rh.Polyhedron([[1, 1]], 1, names=3), "1 row but 3 came"),
        (lambda: rh.Polyhedron([[1, 1]], 1, coordinates=3), "must be 2 names"),
        (lambda: UNIT.contains([0, 1], atol=NAN), "atol must be"),
        (lambda: UNIT.contains([0, 1], axis=5), "axis must be one of the 1 axes"),
        (lambda: UNIT.sample(-1), "how many points"),
        (lambda: rh.Polyhedron([[1e300, 1]], 1).in_units(1e300, 1), "these units holds an infinity"),
        (lambda: rh.distributions.IntoPolyhedron(UNIT).inv(torch.zeros(5)), "a point must have shape"),
        (lambda: rh.distributions.IntoRows(torch.ones(2, 3), torch.ones(3)), "b must have shape"),
    ],
)
def test_what_makes_no_sense_is_refused_in_our_words(make: Any, said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        make()


def test_volumes_beyond_floats_are_infinite_and_sets_without_rules_have_no_slack() -> None:
    assert rh.box(-1e200, 1e200, 3).volume() == float("inf")
    assert repr(rh.Polyhedron(shape=3).slack(np.ones((2, 3)))) == ""
