"""Rules in the user's words: expressions, rules, text, names of coordinates, slack, and comparing sets."""

import copy
import pickle
import time
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse
import torch

import rayhull as rh
from tests.zoo import ZOO

DISPATCH = "coal + gas + wind == 100; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 40"


def value_at(expression, **values):
    """What an expression is at given values of its variables, by its own sparse rows."""
    table = {}
    for v in expression.variables:
        table |= {v.start + i: x for i, x in enumerate(np.ravel(values[v.name]).tolist())}
    out = list(np.ravel(expression.constant).tolist())
    for i in range(expression.size):
        for k in range(expression.starts[i], expression.starts[i + 1]):
            out[i] += expression.data[k] * table[int(expression.columns[k])]
    return np.array(out, dtype=object).reshape(expression.shape)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2 * x - 3,
        lambda x: x[1:, ::2] + np.arange(2),
        lambda x: x.sum(axis=0) * [1, 2, 3, 4],
        lambda x: x.sum() / 7,
        lambda x: np.sum(x) + np.sum(x, axis=0) - np.mean(x, axis=(0, 1)),
        lambda x: x.diff(axis=0),
        lambda x: x.diff(n=2),
        lambda x: x.mean(axis=1) - x.mean(axis=0)[0],
        lambda x: x.T @ np.arange(3),
        lambda x: np.arange(6).reshape(2, 3) @ x,
        lambda x: x[[0, 2], [1, 1]] - 1.5,
        lambda x: x[x.shape[0] - 1] + x[..., None],
        lambda x: x.reshape(4, 3)[1] if hasattr(x, "variables") else np.reshape(x, (4, 3))[1],
        lambda x: sum(row for row in x),
        lambda x: -x + 5 - (1 - x) * 2,
    ],
)
def test_expressions_do_what_arrays_do(f):
    class Known(np.ndarray):
        def diff(self, n=1, axis=-1):
            return np.diff(self, n=n, axis=axis)

    values = np.array([[Fraction(3 * i - 2 * j * j + 1) for j in range(4)] for i in range(3)], dtype=object).view(Known)
    x = rh.variables("x", shape=(3, 4))
    expected = np.asarray(f(values))
    found = value_at(f(x), x=values)
    assert found.shape == expected.shape
    assert (found == expected).all()


def test_rules_make_the_set_they_say():
    coal, gas, wind = rh.variables("coal", "gas", "wind")
    P = rh.rules(coal + gas + wind == 100, coal <= 2 * gas, coal >= 0, gas >= 0, wind >= 0, wind <= 40)
    expected = rh.Polyhedron(
        [[1, -2, 0]], [0], [[1, 1, 1]], [100], lower=0, upper=[np.inf, np.inf, 40], coordinates=["coal", "gas", "wind"]
    )
    assert expected == P
    assert P.same_set(expected)
    assert P.is_exact
    assert rh.parse(DISPATCH) == P
    assert list(P.rows.names) == ["coal <= 2*gas", "wind <= 40", "coal >= 0", "gas >= 0", "wind >= 0"]
    assert "3 coordinates (coal, gas, wind) in 1 block" in P.describe()
    assert repr(P).startswith("Polyhedron(coal, gas, wind: 1 inequality")


def test_an_array_of_variables_gives_the_event_shape():
    x = rh.variables("x", shape=(5, 24))
    P = rh.rules((x.diff() <= 3).named("ramp"), x.sum(axis=0) == np.arange(24), x >= 0)
    assert P.shape == (5, 24)
    assert len(P.inequalities) == 5 * 23
    assert P.rows.names[30] == "ramp[1, 7]"
    assert P.coordinates[25] == "x[1, 1]"
    assert isinstance(P.A, type(rh.monotone(50).A))  # sparse


def test_numbers_stay_exact():
    x, y = rh.variables("x", "y")
    P = rh.rules(x / 3 + y / 7 <= Fraction(12, 11), x >= Fraction(1, 3), y * 0.5 >= 0)
    assert P.is_exact
    assert P.lower.tolist() == [Fraction(1, 3), 0]
    assert rh.parse("0.1*x + 0.2*y <= 0.3").is_exact
    assert not rh.rules(0.1 * x + y <= 1).is_exact
    big = rh.rules((2**40 * x) * 2**40 + y <= 1)
    assert big.rows.integers[0].tolist() == [2**80, 1]
    stays = rh.rules(0.3 * x <= 1, y <= 1)  # 1 / 0.3 would be another number: it stays a row
    assert (len(stays.inequalities), stays.upper.tolist()) == (1, [np.inf, 1])


def test_bounds_on_one_variable_take_the_tightest_and_keep_its_name():
    x, y = rh.variables("x", "y")
    P = rh.rules(x <= 5, (2 * x <= 6).named("cap"), -x <= 1, x + y <= 10, y == 2)
    assert (P.lower.tolist(), P.upper.tolist()) == ([-1, 2], [3, 2])
    assert list(P.rows.names) == ["x + y <= 10", "cap", "-x <= 1"]
    assert list(P.equality_rows.names) == ["y == 2"]
    looser, tighter = rh.rules(x <= 5, variables=(x, y)), rh.rules(x <= 4, variables=(x, y))
    assert list((looser & tighter).rows.names) == list((tighter & looser).rows.names) == ["x <= 4"]


def test_an_empty_set_is_refused_in_the_users_words():
    with pytest.raises(rh.EmptySetError, match="a \\+ b >= 3, a <= 1 and b <= 1 contradict"):
        rh.parse("a + b >= 3; a <= 1; b <= 1")
    with pytest.raises(rh.EmptySetError, match="a"):
        rh.parse("a >= 3; a <= 1")
    with pytest.raises(rh.EmptySetError, match="These 3 of 5 rows have no common point: a \\+ b >= 3, a <= 1 and b"):
        rh.parse("a + b >= 3; a <= 1; b <= 1; a - b <= 9; b >= 0")


@pytest.mark.parametrize(
    ("rule", "error", "message"),
    [
        (lambda x: 0 <= x[0] <= 1, TypeError, "Python reads 0 <= x <= 1 as .* write two rules"),
        (lambda x: x * x, TypeError, "\\(x\\[0\\]\\) \\* \\(x\\[0\\]\\) is not linear.* rayhull.norm\\(e\\) <= c"),
        (lambda x: x**2, TypeError, "not linear.* rayhull.quadratic"),
        (lambda x: 1 / x, TypeError, "division by \\(x\\[0\\]\\)"),
        (lambda x: abs(x), TypeError, "write two rules: e <= c, e >= -c"),
        (lambda x: x < 1, TypeError, "write <= instead of <"),
        (lambda x: max(x[0], x[1]), TypeError, "For max\\(a, b\\) <= c write two rules: a <= c, b <= c"),
        (lambda x: x != 1, TypeError, "!= has no convex set"),
        (lambda x: x / 0, ZeroDivisionError, "divided by 0"),
        (lambda x: x + np.ones(3), ValueError, "shapes \\(4,\\) and \\(3,\\) do not go together"),
        (lambda x: x[7], IndexError, "out of bounds.*shape \\(4,\\)"),
        (lambda x: x + "a", TypeError, "must hold numbers"),
        (lambda x: rh.rules(1 <= 2), TypeError, "Two plain numbers were compared"),
        (lambda x: rh.rules(), ValueError, "at least one rule"),
        (lambda x: rh.rules(x * float("nan") <= 1), ValueError, "NaN"),
        (lambda x: rh.variables("a", "b", "a"), ValueError, "'a' is given 2 times"),
        (lambda x: rh.variables(), ValueError, "one name or more"),
        (lambda x: rh.rules(x >= 0, rh.variables("x") <= 1), ValueError, "'x' is given 2 times"),
        (lambda x: rh.rules(x >= 0, variables=(rh.variables("y"),)), ValueError, "use x, which variables= does not"),
        (lambda x: bool(x), TypeError, "no truth value"),
    ],
)
def test_what_is_no_rule_is_refused_with_a_next_step(rule, error, message):
    with pytest.raises(error, match=message):
        rule(rh.variables("x", shape=4))


@pytest.mark.parametrize(
    ("text", "message", "caret"),
    [
        ("coal <= 2 gas", "write 2*gas", 10),
        ("a <= (b + 2", "never closed", 5),
        ("a < 3", "write <= instead of <", 2),
        ("x*y <= 1", "not linear", 1),
        ("a <= 2 +", "the end of the rule", 8),
        ("a + b", "expected <=, >= or ==", 5),
        ("a <= 1/0", "divided by 0", 6),
        ("foo(a) <= 2", "there are sum, mean, diff", 0),
        ("a <= 3 & b", "'&' has no meaning", 7),
        ("x[2, 1] <= 1; x[1] + x[5, 0, 0] <= 2", "too many indices", 21),
        ("a <= " + "(" * 200 + "b" + ")" * 200, "nested more than 100", 105),
        ("a <= 1e99999999", "more than 300 digits", 5),
    ],
)
def test_a_text_is_refused_at_the_place(text, message, caret):
    with pytest.raises(ValueError) as caught:
        rh.parse("ok: fine <= 1\n" + text)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("line 2: ")
    assert message in lines[0]
    assert lines[1] == "    " + text
    assert lines[2].index("^") == 4 + caret


def test_a_text_may_have_names_comments_chains_lines_and_arrays():
    P = rh.parse(
        """
        balance: sum(x[0, :]) = 1      # one row of probabilities
        0 <= x <= 0.5 ; x[1, 0] ≥ -(2 - 3)/10
        diff(x[1, :]) <= y / 2
        """,
        shapes={"x": (2, 3)},
    )
    assert P.shape == (7,)
    assert P.coordinates[-1] == "y"
    assert P.lower[3] == Fraction(1, 10)
    assert list(P.equalities.names) == ["balance"]
    assert rh.parse("x[0] + x[2] <= 1; y >= 0").coordinates == ("x[0]", "x[1]", "x[2]", "y")


def test_what_a_rule_prints_can_be_parsed_again():
    P = rh.parse("2*a - b/3 <= 0.25*c + 1; a + b + c == 2; a >= -1; c <= 7/3")
    names = "; ".join([*P.equality_rows.names, *P.rows.names])
    again = rh.parse(names, shapes=None)
    x, y = (np.random.default_rng(0).standard_normal((50, 3)) for _ in range(2))
    order = [again.coordinates.index(name) for name in P.coordinates]
    assert (P.contains(x + y) == again.contains((x + y)[:, np.argsort(order)])).all()
    assert P.is_exact
    assert again.is_exact


def test_slack_names_every_rule_worst_first():
    P = rh.parse(DISPATCH)
    found = P.slack([50.0, 10, 39])
    assert found.names[0] == "coal <= 2*gas"
    assert found["coal <= 2*gas"] == -30
    assert found["coal + gas + wind == 100"] == -1
    assert found["wind <= 40"] == 1
    assert (np.diff(found.values) >= 0).all()
    assert len(found) == 6
    assert "broken" in repr(found).splitlines()[0]
    x = torch.tensor([[50.0, 10, 40], [40, 20, 40]], requires_grad=True)
    many = P.slack(x)
    assert many.values.shape == (2, 6)
    many["coal <= 2*gas"].sum().backward()
    assert x.grad.tolist() == [[-1, 2, 0]] * 2
    with pytest.raises(KeyError, match="no rule is called 'gas'"):
        found["gas"]


def test_a_point_is_explained_in_words():
    P = rh.parse(DISPATCH)
    text = P.explain([50, 10, 40])
    assert "outside: 1 of 6 rules is broken" in text
    assert "broken  coal <= 2*gas, by 30" in text
    assert "binds   wind <= 40" in text
    assert "3 rules have slack, the least 10: gas >= 0" in text
    assert "inside: all 6 rules hold" in P.explain([40, 30, 30])
    with pytest.raises(ValueError, match="explain takes one point of shape \\(3,\\)"):
        P.explain(np.zeros((2, 3)))


@pytest.mark.parametrize("name", ZOO)
def test_slack_agrees_with_violation_and_a_set_is_equal_to_itself(name):
    P, Q = ZOO[name](), ZOO[name]()
    assert P == Q
    assert hash(P) == hash(Q)
    assert rh.box(0, 1, (3, 7)) != P
    x = np.random.default_rng(0).standard_normal((20, *P.shape)) * 3
    found = P.slack(x)
    least = found.values.min(-1) if len(found) else np.zeros(20)
    assert np.allclose(np.maximum(0, -least), P.violation(x))


@pytest.mark.parametrize(
    "name", ["triangle", "cross-polytope", "simplex", "ordered", "equalities and bounds", "halfspaces"]
)
def test_subsets_are_found_by_linear_programs(name):
    P = ZOO[name]()
    row = np.arange(1.0, P.dim + 1) ** 2
    smaller = P & rh.Polyhedron([row], row @ P.interior_point().ravel(), shape=P.shape)
    assert smaller.is_subset(P)
    assert not P.is_subset(smaller)
    assert P.same_set(P & rh.Polyhedron(2 * P.rows.matrix.toarray(), 2 * P.rows.rhs + 1e-12, shape=P.shape))
    with pytest.raises(ValueError, match="cannot be compared"):
        P.is_subset(rh.box(0, 1, 11))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_sets_are_compared_in_their_own_unit(unit):
    P, smaller = rh.box(0, unit, 2), rh.box(0, 0.999 * unit, 2)
    assert smaller.is_subset(P)
    assert not P.is_subset(smaller)
    assert P.same_set(rh.Polyhedron(np.vstack([np.eye(2), -np.eye(2)]) * 3, np.array([3, 3, 0, 0]) * unit))


def test_equalities_are_compared_from_both_sides():
    line = rh.parse("x + y == 1; x >= 0; y >= 0")
    below, above = rh.parse("x + y <= 1; x >= 0; y >= 0"), rh.parse("x + y >= 1; x >= 0; y >= 0; x <= 2; y <= 2")
    assert line.is_subset(below)
    assert line.is_subset(above)
    assert not below.is_subset(line)
    assert not above.is_subset(line)


def test_terms_of_one_variable_are_one_term():
    x = rh.variables("x", shape=3)
    assert repr(x[0] + x[1] + 2 * x[0]) == "3*x[0] + x[1]"
    assert repr(x[0] - x[0] + 1) == "1"
    assert len((x.sum() + x.sum()).data) == 3


def test_points_are_in_a_set():
    P = rh.simplex(3)
    assert [0.2, 0.3, 0.5] in P
    assert torch.tensor([0.2, 0.3, 0.6]) not in P
    assert np.full((4, 3), 1 / 3) in P


class Frame:
    """What pandas and its kin have in common."""

    def __init__(self, columns, values):
        self.columns, self.values = columns, np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_columns_are_taken_by_name():
    P = rh.parse(DISPATCH)
    point = np.array([40.0, 30, 30])
    frame = Frame(["wind", "coal", "gas"], [[30.0, 40, 30], [40, 10, 50]])
    assert P.contains(frame).all()
    assert frame in P
    assert P.contains_exactly(frame).all()
    assert P.violation(frame).tolist() == [0, 0]
    assert (P.slack(frame)["coal >= 0"] == [40, 10]).all()
    assert P.explain(Frame(frame.columns, frame.values[:1])) == P.explain(point)
    assert np.allclose(rh.project(P, frame), [point, [10, 50, 40]])
    assert P.contains(Frame([0, 1, 2], [point])).all()  # numbers are no names
    grid = rh.Polyhedron(lower=[[0, 1], [2, 3]], upper=9, shape=(2, 2), coordinates=["a", "b", "c", "d"])
    assert Frame(["d", "c", "b", "a"], [[3, 2, 1, 0]]) in grid


def test_columns_of_other_names_are_refused_and_a_set_without_names_takes_them_as_they_come():
    P = rh.parse(DISPATCH)
    for names in (["coal", "gas", "sun"], ["coal", "gas"], ["coal", "gas", "gas"], ["coal", "gas", "wind", "sun"]):
        with pytest.raises(ValueError, match="columns are called coal, gas.* coordinates coal, gas, wind: give one"):
            P.contains(Frame(names, np.zeros((2, len(names)))))
    assert Frame(["a", "b", "c"], [[0.2, 0.3, 0.5]]) in rh.simplex(3)


def test_a_pandas_frame_and_its_rows_are_taken_by_name():
    pandas = pytest.importorskip("pandas")
    P = rh.parse(DISPATCH)
    frame = pandas.DataFrame({"wind": [30.0, 40], "coal": [40.0, 10], "gas": [30.0, 50]})
    assert P.contains(frame).tolist() == [True, True]
    assert frame.iloc[0] in P
    with pytest.raises(ValueError, match="frame\\[list\\(P.coordinates\\)\\]"):
        P.contains(frame.assign(hour=[1, 2]))
    assert frame.assign(hour=[1, 2])[list(P.coordinates)] in P


def test_everything_with_an_entry_for_each_coordinate_is_taken_by_name():
    pandas = pytest.importorskip("pandas")
    P = rh.parse(DISPATCH)
    mixed, ordered = ["wind", "coal", "gas"], list(P.coordinates)

    def both(values):
        series = pandas.Series(values, index=mixed)
        return series, series[ordered].to_numpy()

    frame = pandas.DataFrame(np.random.default_rng(0).uniform(0, 90, (6, 3)), columns=mixed)
    x = frame[ordered].to_numpy()
    weights, upper, mean, std = both([1.0, 2, 9]), both([40.0, 60, 20]), both([9.0, 40, 30]), both([4.0, 9, 20])
    covariance = pandas.DataFrame(np.diag([1.0, 2, 9]) + 0.1, mixed, mixed)
    point = dict(zip(mixed, [30.0, 40, 30], strict=True))
    assert np.allclose(rh.project(P, frame, weights=weights[0]), rh.project(P, x, weights=weights[1]))
    assert np.allclose(rh.project(P, frame, weights=dict(weights[0])), rh.project(P, x, weights=weights[1]))
    by_matrix = (rh.project(P, x, weights=w) for w in (covariance, covariance.loc[ordered, ordered].to_numpy()))
    assert np.allclose(*by_matrix)
    assert np.allclose(rh.project(P, frame, upper=upper[0]), rh.project(P, x, upper=upper[1]))
    assert np.allclose(P.violation(frame, upper=upper[0]), P.violation(x, upper=upper[1]))
    assert P.in_units(mean[0], std[0]) == P.in_units(mean[1], std[1])
    layers = [rh.Constrained(4, P, units=(mean[k], std[k])) for k in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())  # which another mean would refuse
    h = torch.randn(5, 4)
    assert torch.equal(layers[0](h, upper=upper[0]), layers[1](h, upper=torch.tensor(upper[1])))
    inside = both([30.0, 40, 30])
    rh.Constrained(4, P, base=inside[0]).load_state_dict(rh.Constrained(4, P, base=inside[1]).state_dict())
    assert point in P
    assert P.explain(point) == P.explain([40, 30, 30])
    with pytest.raises(ValueError, match="are called coal, gas, the set's coordinates coal, gas, wind"):
        P.contains({"coal": 1.0, "gas": 2.0})


def test_names_follow_the_set():
    P = rh.parse(DISPATCH)
    for same in (copy.deepcopy(P), pickle.loads(pickle.dumps(P)), P & rh.box(-1000, 1000)):
        assert same.coordinates == P.coordinates
        assert same.slack([50, 10, 40]).names[0] == "coal <= 2*gas"
    with pytest.raises(ValueError, match="name their coordinates differently \\(coal, gas, wind and a, b, c\\)"):
        P & rh.parse("a + b + c <= 1")
    both = rh.product(P, rh.parse("a <= 1"))
    assert both.coordinates == ("coal", "gas", "wind", "a")
    assert "a <= 1" in both.rows.names
    two = rh.parse("a + b <= 1; c + d <= 2; c >= 0").block_groups
    assert [group.polyhedron.coordinates for group in two] == [("a", "b"), ("c", "d")]
    with pytest.raises(ValueError, match="coordinates must be 3 names"):
        rh.Polyhedron([[1, 1, 1]], coordinates=["a", "b"])
    with pytest.raises(ValueError, match="'a' is given 2 times"):
        rh.Polyhedron([[1, 1]], coordinates=["a", "a"])


def test_large_arrays_of_variables_are_quick():
    x = rh.variables("x", shape=(100, 500))
    start = time.process_time()
    P = rh.rules(x.diff() <= 1, x.sum(axis=1) == 1)
    assert len(P.inequalities) == 100 * 499
    assert time.process_time() - start < 10


@pytest.mark.parametrize("text", ["x >= -inf", "x <= Infinity", "x <= nan"])
def test_what_reads_as_a_number_is_no_variable(text):
    with pytest.raises(ValueError, match="no name for a variable"):
        rh.parse(text)
    assert rh.parse("inflow <= 1").coordinates == ("inflow",)


def test_numpys_functions_take_variables():
    x, y = rh.variables("x", "y", shape=(2, 3))
    a, b = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) ** 2
    for f in (
        lambda u, v: np.diff(u, axis=0),
        lambda u, v: np.sum(u) - np.mean(v, axis=1),
        lambda u, v: np.dot([1, 2], u) + np.array([3, 4]) @ v,
        lambda u, v: np.concatenate([u, v], axis=1),
        lambda u, v: np.stack([u, 1 - v], axis=-1),
        lambda u, v: np.roll(u, 1, axis=1) + np.transpose(np.flip(v)).reshape(2, 3),
        lambda u, v: np.hstack([np.ravel(u), v[0]]),
    ):
        assert np.allclose(value_at(f(x, y), x=a, y=b).astype(float), f(a, b))
    for f in (np.cumsum, np.max, np.sort):
        with pytest.raises(TypeError, match="takes no variables"):
            f(x)


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_sparse_matrices_multiply_variables_and_stay_exact(kind):
    x, matrix = rh.variables("x", shape=(3, 2)), np.array([[1, 0, 2], [0, 0, -3]])
    values = np.arange(6).reshape(3, 2)
    A = kind(matrix)
    assert (value_at(A @ x, x=values) == matrix @ values).all()
    assert (value_at(A @ x[:, 0], x=values) == matrix @ values[:, 0]).all()
    assert (value_at(x.T @ A.T, x=values) == values.T @ matrix.T).all()
    assert rh.rules(A @ x[:, 1] <= 1) == rh.rules(matrix @ x[:, 1] <= 1)
    with pytest.raises(ValueError, match=r"shape \(2, 3\) does not go with an expression of shape \(2, 3\)"):
        A @ x.T


def test_statements_of_an_array_are_counted_only_one_by_one():
    x = rh.variables("x", shape=3)
    assert repr(rh.at_most(2, *x)) == "x[0] + x[1] + x[2] <= 2"
    for statements in ((), (x,)):
        with pytest.raises(TypeError, match=r"at_most\(1, \*x\) of an array x"):
            rh.at_most(1, *statements)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_point_that_is_not_finite_is_explained_as_outside(bad, kind):
    P = rh.parse("coal + gas <= 3; 0 <= coal <= 2; gas >= 0")
    x = kind(np.array([1.0, bad]))
    assert P.explain(x) == f"The point is outside: gas is {bad}, and a set holds finite numbers alone."
    assert "broken" in P.slack(x).kinds
    assert P.slack(x).kinds[0] == "broken"
    assert x not in P


def test_points_must_be_real_numbers():
    for x in (np.zeros(2, complex), torch.zeros(2, dtype=torch.complex64), np.array([Fraction(1), 2], object)):
        with pytest.raises(TypeError, match=r"must be real numbers, got an array of .*: give np.asarray\(x, float\)"):
            rh.box(0, 1, 2).contains(x)


class Labelled:
    """What a Series of pandas and its kin have in common."""

    def __init__(self, index, values):
        self.index, self.values = index, np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_rows_and_bounds_with_labels_are_taken_by_the_names_of_coordinates():
    names = ["coal", "gas"]
    P = rh.Polyhedron(
        Frame(["gas", "coal"], [[1, 2]]), 4, lower=Labelled(["gas", "coal"], [0, 1]), upper=9, coordinates=names
    )
    assert (P.A.tolist(), P.lower.tolist()) == ([[2, 1]], [1, 0])
    with pytest.raises(ValueError, match="columns are called gas, oil"):
        rh.Polyhedron(Frame(["gas", "oil"], [[1, 2]]), 4, coordinates=names)
    with pytest.raises(ValueError, match="a list of names was given without A"):
        rh.Polyhedron(lower=0, shape=2, names=["cap"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x <= 1 and y <= 2", "rules stand side by side, with ; between them"),
        ("2x <= 1", r"write 2\*x"),
        ("x <= 1,5", "a number has a point"),
        ("x[99999999999] <= 1", "x has 100000000000 coordinates by its largest index"),
        ("x[1.5] <= 1", "expected an index such as 2, -1 or 1:3, got '1.5'"),
        ("x[3 <= 1", "an index stands in brackets after a name"),
    ],
)
def test_what_people_write_in_place_of_a_rule_is_met_with_the_next_step(text, message):
    with pytest.raises(ValueError, match=message):
        rh.parse(text)
