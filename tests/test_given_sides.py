"""Membership with rows, right-hand sides and bounds of the sample: the same as a set stated with them."""

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.testing import assert_feasible

RNG = np.random.default_rng(0)
A, A_EQ = RNG.standard_normal((3, 4)), RNG.standard_normal((1, 4))
P = rh.Polyhedron(A, np.ones(3), A_EQ, [0.0], lower=-1, upper=2)
N = 7
SIDES = {
    "A": RNG.standard_normal((N, 3, 4)),
    "b": RNG.random((N, 3)) * 2,
    "A_eq": RNG.standard_normal((N, 1, 4)),
    "b_eq": RNG.standard_normal((N, 1)),
    "lower": -RNG.random((N, 4)),
    "upper": RNG.random((N, 4)),
}
STATED = {"A": P.A, "b": P.b, "A_eq": P.A_eq, "b_eq": P.b_eq, "lower": P.lower, "upper": P.upper}


def alone(k, given):
    """The set of sample k, stated by itself (it may be empty)."""
    kept = STATED | {name: value[k] if value.ndim == SIDES[name].ndim else value for name, value in given.items()}
    read = rh.sets.reading
    rows = read.read_rows(kept["A"], kept["b"], None, ("A", "b"))
    equalities = read.read_rows(kept["A_eq"], kept["b_eq"], None, ("A_eq", "b_eq"))
    return rh.Polyhedron.from_rows(rows, equalities, kept["lower"], kept["upper"], (4,), check=False)


@pytest.mark.parametrize("names", [[name] for name in SIDES] + [["A", "b"], ["b", "lower"], list(SIDES)], ids="+".join)
@pytest.mark.parametrize("each", [True, False], ids=["each", "all"])
def test_sides_of_the_sample_mean_the_set_stated_with_them(names, each):
    given = {name: SIDES[name] if each else SIDES[name][0] for name in names}
    x = np.concatenate([P.sample(N // 2 + 1, seed=0), RNG.standard_normal((N // 2, 4))])
    sets = [alone(k, given) for k in range(N)]
    expected = [float(Q.violation(p)) for Q, p in zip(sets, x, strict=True)]
    np.testing.assert_allclose(P.violation(x, **given), expected, rtol=1e-12, atol=1e-14)
    tensors = {name: torch.as_tensor(value, dtype=torch.float64) for name, value in given.items()}
    np.testing.assert_allclose(P.violation(torch.as_tensor(x), **tensors).numpy(), expected, rtol=1e-12, atol=1e-14)
    for question in ("contains", "contains_exactly"):
        answers = [bool(getattr(Q, question)(p)) for Q, p in zip(sets, x, strict=True)]
        assert getattr(P, question)(x, **given).tolist() == answers
        assert getattr(P, question)(torch.as_tensor(x), **tensors).tolist() == answers


def test_points_on_the_samples_own_boundary_are_judged_to_the_last_bit():
    Q = rh.Polyhedron([[1, 1, 1]], [1])
    x = np.full((2, 3), 0.1)
    on = float(np.float64(0.1) * 3)  # 3 · 0.1 in real numbers lies between two floats
    b = np.array([[np.nextafter(0.3, 0)], [on]])
    assert Q.contains_exactly(x, b=b).tolist() == [False, True]
    assert Q.contains_exactly(x, A=np.ones((1, 3)), b=b).tolist() == [False, True]
    assert Q.contains(x, b=b).all()
    assert Q.contains_exactly(x, upper=0.1).all()
    assert not Q.contains_exactly(x, upper=np.nextafter(0.1, 0)).any()


@pytest.mark.parametrize("question", ["contains", "contains_exactly"])
def test_an_infinite_right_hand_side_says_nothing_or_leaves_nothing(question):
    Q = rh.Polyhedron([[1, 1, 0], [0, 0, 1]], [1, 1], A_eq=[[1, -1, 0]], b_eq=[0])
    x = np.array([[9.0, 9.0, 0.5], [9.0, 9.0, 1.5], [0.0, 0.0, 0.5]])
    for points, number in ((x, np.asarray), (torch.as_tensor(x), torch.as_tensor)):
        inside = getattr(Q, question)
        assert inside(points, b=number([np.inf, 1.0])).tolist() == [True, False, True]
        assert inside(points, A=number(np.ones((2, 3))), b=number([np.inf, np.inf])).all()
        assert not inside(points, b=number([-np.inf, 1.0])).any()
        assert not inside(points, b_eq=number([np.inf])).any()
        assert not inside(points, b=number([np.nan, 1.0])).any()


def test_batch_dimensions_of_points_and_sides_broadcast():
    box = rh.box(0, 1, (2, 2))
    x = np.full((3, 1, 2, 2), 1.5)
    upper = np.array([1.0, 2.0])[:, None, None] * np.ones((2, 2, 2))
    assert box.contains(x, upper=upper).tolist() == [[False, True]] * 3
    assert box.contains(x[0, 0], upper=upper).tolist() == [False, True]
    assert box.violation(x, upper=2.0).shape == (3, 1)
    assert box.contains(np.zeros((0, 2, 2)), upper=np.ones((0, 2, 2))).shape == (0,)


def test_a_bound_that_the_set_has_not_is_added():
    assert rh.monotone(3).contains(np.array([0.0, 1, 2]), upper=2.0)
    assert not rh.monotone(3).contains(np.array([0.0, 1, 2]), upper=1.5)
    assert not rh.monotone(3).contains_exactly(torch.tensor([0.0, 1, 2]), lower=0.5)


def test_violation_passes_gradients_to_every_side():
    given = {name: torch.tensor(value, requires_grad=True) for name, value in SIDES.items()}
    x = torch.randn(N, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def total(x, *values):
        return P.violation(x, **dict(zip(given, values, strict=True))).sum()

    assert torch.autograd.gradcheck(total, (x, *given.values()))


@pytest.mark.parametrize(
    ("Q", "given", "message"),
    [
        (P, {"b": np.ones(2)}, r"b must have shape \(\*, 3\), got \(2,\)"),
        (P, {"A": np.ones((3, 5))}, r"A must have shape \(\*, rows, 4\), got \(3, 5\)"),
        (P, {"A": np.ones(4)}, r"A must have shape \(\*, rows, 4\), got \(4,\)"),
        (P, {"A": np.ones((2, 4))}, "A has 2 rows, but the set states 3 right-hand sides: give b too"),
        (P, {"lower": np.ones((2, 3))}, r"lower must have shape \(\*, 4\), got \(2, 3\)"),
        (P, {"b": np.ones((5, 3))}, r"batch dimensions do not broadcast: points \(7,\), b \(5,\)"),
        (rh.box(0, 1, 4), {"b": np.ones(3)}, "b was given, but the set states no A: give A too"),
        (rh.box(0, 1, 4), {"b_eq": np.ones(3)}, "b_eq was given, but the set states no A_eq: give A_eq too"),
    ],
)
def test_sides_that_do_not_fit_are_refused(Q, given, message):
    for like in (np.asarray, torch.as_tensor):
        with pytest.raises(ValueError, match=message):
            Q.contains(like(np.zeros((N, 4))), **given)


def test_assert_feasible_passes_the_sides_on():
    Q = rh.Polyhedron([[1.0, 1.0]], [1.0], lower=-1, upper=1)
    head = rh.Constrained(3, Q)
    b, tight = torch.tensor([1.5]), torch.tensor([-1.0])
    assert assert_feasible(head, Q, 3, b=b, samples=8) > 50
    with pytest.raises(AssertionError, match="outputs are outside"):
        assert_feasible(lambda h, b: head(h), Q, 3, b=tight, samples=8)
