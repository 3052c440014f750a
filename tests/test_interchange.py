"""Constraints of cvxpy, in and out."""

import numpy as np
import pytest

import rayhull as rh

cp = pytest.importorskip("cvxpy")


def test_affine_constraints_become_the_set_they_state():
    x = cp.Variable((2, 3), name="x")
    y = cp.Variable(name="y", nonneg=True)
    listed = [cp.sum(x, axis=0) <= np.arange(3) + y, x[0, 1] == 2 * y + 1, cp.diff(x, axis=1) >= 0, x >= -4]
    P = rh.from_cvxpy(listed)
    assert P.coordinates == ("x[0, 0]", "x[0, 1]", "x[0, 2]", "x[1, 0]", "x[1, 1]", "x[1, 2]", "y")
    rng = np.random.default_rng(0)
    inside = []
    for point in [*P.sample(20, seed=0), *(P.sample(60, seed=1) + 0.3 * rng.standard_normal((60, 7)))]:
        y.save_value(point[6])
        x.save_value(point[:6].reshape(2, 3))
        worst = max(float(np.max(c.violation())) for c in listed)
        inside.append(worst <= 1e-9 and point[6] >= -1e-9)
        assert P.contains(point, atol=1e-9) == inside[-1]
    assert any(inside)
    assert not all(inside)


def test_a_single_variable_gives_the_event_shape_and_its_value_is_left_alone():
    x = cp.Variable((2, 2), name="x", nonneg=True)
    x.value = np.ones((2, 2))
    P = rh.from_cvxpy([cp.sum(x, axis=1) == 1])
    assert rh.parse("x[0, 0] + x[0, 1] == 1; x[1, 0] + x[1, 1] == 1; x >= 0", shapes={"x": (2, 2)}) == P
    assert P.shape == (2, 2)
    assert (x.value == 1).all()
    bounded = cp.Variable(3, name="b", bounds=[0, np.array([1, 2, np.inf])])
    assert rh.from_cvxpy([cp.sum(bounded) >= 1]).upper.tolist() == [1, 2, np.inf]


@pytest.mark.parametrize("make", [lambda x: cp.abs(x) <= 1, lambda x: cp.SOC(x[0], x[1:]), lambda x: x**2 <= 1])
def test_what_is_not_affine_is_refused(make):
    with pytest.raises(ValueError, match="not an affine equality or inequality"):
        rh.from_cvxpy([make(cp.Variable(3))])


def test_integers_are_refused():
    with pytest.raises(ValueError, match="is integer, which no linear rule states"):
        rh.from_cvxpy([cp.Variable(2, name="n", integer=True) >= 0])


def test_a_set_becomes_constraints():
    P = rh.monotone((2, 3)) & rh.box(-1, 1) & rh.sum_to(0, (2, 3))
    x, constraints = P.to_cvxpy()
    target = 5 - np.arange(6.0).reshape(2, 3)
    cp.Problem(cp.Minimize(cp.sum_squares(x - target)), constraints).solve()
    assert P.contains(x.value, atol=1e-4)
    assert np.allclose(x.value, rh.project(P, target), atol=1e-3)
    assert rh.from_cvxpy(constraints).same_set(rh.Polyhedron(P.A, P.b, P.A_eq, P.b_eq, P.lower, P.upper, shape=P.shape))
