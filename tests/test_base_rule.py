"""Base points that follow the sample: rules proven for a whole range."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import rayhull as rh
from rayhull.errors import EmptySetError
from rayhull.sets.base_rule import FAIR, NoBaseRuleError

DISPATCH = rh.sum_to(1, 4) & rh.box(0, [0.5, 0.5, 1.0, 0.25])


def exact_slack(P, x, **sides):
    """The slack of every row at x in fractions, with the sides of one θ."""
    A, b = P.inequalities.matrix.toarray(), sides.get("b", P.inequalities.rhs)
    low, high = sides.get("lower", P.lower_bounds), sides.get("upper", P.upper_bounds)
    point = [Fraction(v) for v in x.tolist()]
    rows = [
        Fraction(c) - sum(Fraction(a) * v for a, v in zip(row, point, strict=True)) for row, c in zip(A, b, strict=True)
    ]
    above = [Fraction(h) - v for h, v in zip(high, point, strict=True) if np.isfinite(h)]
    below = [v - Fraction(at) for at, v in zip(low, point, strict=True) if np.isfinite(at)]
    return [*rows, *above, *below]


def test_a_rule_is_inside_at_every_corner_of_its_range_by_at_least_what_it_promises():
    rng = np.random.default_rng(0)
    P = rh.Polyhedron(rng.normal(size=(5, 3)), np.full(5, 2.0), A_eq=[[1.0, 1.0, 1.0]], b_eq=[0.0])
    rule = P.base_rule({"b": (1.5, 3.0), "b_eq": (-0.5, 0.5)})
    assert (rule.slack > 0).all()
    for corner in product(*zip(rule.low, rule.high, strict=True)):
        x = rule(np.array(corner))
        slack = exact_slack(P, x, b=np.array(corner[:5]))
        assert min(s - Fraction(p) for s, p in zip(slack, rule.slack, strict=True)) >= -Fraction(1, 10**14)
        assert abs(x.sum() - corner[5]) < 1e-12


def test_the_promised_slack_is_reached_somewhere():
    rule = DISPATCH.base_rule({"b_eq": (0.5, 2.0)})
    least = np.min([[float(s) for s in exact_slack(DISPATCH, rule(np.array([t])))] for t in (0.5, 2.0)], axis=0)
    np.testing.assert_allclose(least, rule.slack, rtol=1e-9, atol=1e-12)


def test_a_fair_rule_of_least_norm_needs_no_linear_program(monkeypatch):
    monkeypatch.setattr("rayhull.sets.base_rule.largest_margin", None)
    P = rh.sum_to(1, 3) & rh.box(0, 1)
    rule = P.base_rule({"b_eq": (0.9, 1.1)})
    np.testing.assert_allclose(rule.matrix, np.full((3, 1), 1 / 3))
    assert (rule.slack > FAIR * 0.3).all()


def test_damped_least_squares_find_a_fair_rule_where_the_smallest_one_keeps_nothing(monkeypatch):
    monkeypatch.setattr("rayhull.sets.base_rule.largest_margin", None)  # no linear program
    rng = np.random.default_rng(0)
    E, G = rng.normal(size=(10, 20)), rng.normal(size=(10, 20))
    P = rh.Polyhedron(G, np.abs(G @ np.linalg.pinv(E)).sum(1), E, np.zeros(10))  # E⁺θ touches a row at some corner
    rule = P.base_rule({"b_eq": (-1.0, 1.0)})
    assert (rule.slack > FAIR * P.inequalities.rhs).all()
    np.testing.assert_allclose(E @ rule.matrix, np.eye(10), atol=1e-12)
    assert np.linalg.norm(rule.matrix) < 1.5 * np.linalg.norm(np.linalg.pinv(E))


def test_linear_programs_find_a_rule_where_the_smallest_one_leaves_the_set():
    # a generator of capacity 0.25 cannot follow a demand up to 2 as the others do
    rule = DISPATCH.base_rule({"b_eq": (0.1, 2.1)})
    assert rule.matrix[3] < rule.matrix[2]
    assert (rule.slack > 0).all()


def test_a_range_that_no_rule_covers_is_refused_with_the_rows_in_the_way():
    with pytest.raises(NoBaseRuleError, match="upper bound of") as refusal:
        DISPATCH.base_rule({"b_eq": (0.5, 2.4)})
    assert all("upper bound" in name for name in refusal.value.rows)


def test_a_row_that_the_equalities_fix_needs_no_margin():
    P = rh.Polyhedron(A_eq=[[1, 0, 0]], b_eq=[0], lower=-1, upper=1)  # x0 is given, and |x0| <= 1
    rule = P.base_rule({"b_eq": (-1, 1)})
    np.testing.assert_allclose(rule(np.array([[1.0]]))[0], [1, 0, 0], atol=1e-12)


@pytest.mark.parametrize(
    ("varies", "message"),
    [
        ({"A": (0, 1)}, "rows that vary"),
        ({"b_eq": (1, 0)}, "low <= high"),
        ({"b_eq": (0, np.inf)}, "finite"),
        ({"b_eq": (np.zeros(3), 1)}, r"of shape \(1,\)"),
        ({"b_eq": 1.0}, r"a pair \(low, high\) of two numbers or arrays of shape \(1,\), got 1.0"),
        ({"b": (0, 1)}, "states no b"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(varies, message):
    with pytest.raises(ValueError, match=message):
        DISPATCH.base_rule(varies)


def test_a_range_whose_middle_has_no_point_is_refused_by_that_name():
    P = rh.Polyhedron([[1, 1]], [1], A_eq=[[1, 1]], b_eq=[0])
    with pytest.raises(
        EmptySetError, match=r"middle \(low \+ high\) / 2 of varies\['b_eq'\] has no feasible point: A\[0\]"
    ):
        P.base_rule({"b_eq": (0.0, 4.0)})


def test_a_range_in_which_a_row_that_nothing_moves_breaks_is_refused():
    P = rh.Polyhedron([[1, 1, 0]], [1], A_eq=[[1, 1, 0]], b_eq=[0], lower=-9, upper=9)  # x0 + x1 = θ <= 1
    assert P.base_rule({"b_eq": (-1.0, 1.0)}).slack[0] == pytest.approx(0, abs=1e-9)
    with pytest.raises(NoBaseRuleError, match=r"no slack for A\[0\]") as refusal:
        P.base_rule({"b_eq": (-1.0, 1.1)})
    assert refusal.value.rows == ("A[0]",)


def test_the_promised_slack_counts_the_rounding_of_its_own_sums():
    """Where what is left is a difference of large numbers, the promise is below the exact slack, not near it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        centre = 1e6 * rng.normal(size=3)
        A = rng.normal(size=(6, 3))
        P = rh.Polyhedron(A, A @ centre + 1e-3, lower=centre - 1, upper=centre + 1)
        b = A @ centre
        rule = P.base_rule({"b": (b + 1e-3, b + 3e-3)})
        for theta in (rule.low, rule.high):
            exact = [
                Fraction(k) + sum(Fraction(a) * Fraction(t) for a, t in zip(row, theta.tolist(), strict=True))
                for row, k in zip(rule.matrix.tolist(), rule.offset.tolist(), strict=True)
            ]
            slack = [
                Fraction(c) - sum(Fraction(a) * v for a, v in zip(row, exact, strict=True))
                for row, c in zip(A.tolist(), theta.tolist(), strict=True)
            ]
            assert all(Fraction(p) <= s for p, s in zip(rule.slack[:6].tolist(), slack, strict=True))


def test_the_rule_of_a_flow_of_fifty_nodes_takes_a_sparse_program_and_says_what_it_does(capsys, monkeypatch):
    monkeypatch.setattr("rayhull.exact.progress.PATIENCE", 0.01)
    rng = np.random.default_rng(0)
    start, edges = rng.integers(0, 50, 120), np.arange(120)
    E = np.zeros((50, 120), int)
    E[start, edges], E[(start + rng.integers(1, 50, 120)) % 50, edges] = 1, -1
    b_eq = E[:-1] @ rng.uniform(0.3, 0.7, 120)
    P = rh.Polyhedron(A_eq=E[:-1], b_eq=b_eq, lower=0, upper=1)
    rule = P.base_rule({"b_eq": (b_eq - 0.02, b_eq + 0.02)})
    np.testing.assert_allclose(E[:-1] @ rule.matrix, np.eye(49), atol=1e-10)
    assert "a base point that follows the sides (linear program" in capsys.readouterr().err


def test_a_linear_program_that_takes_too_long_is_no_rule(monkeypatch):
    monkeypatch.setattr("rayhull.sets.base_rule.SECONDS", 0.0)
    with pytest.raises(NoBaseRuleError, match="within 0 s: let fewer things vary"):
        DISPATCH.base_rule({"b_eq": (0.1, 2.1)})
