"""The nearest point with right-hand sides that depend on the sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rayhull as rh
from experiments.solvers import OneByOne
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection.plan import plan


def proxy() -> tuple[rh.Polyhedron, torch.Tensor, dict[str, torch.Tensor]]:
    rng = np.random.default_rng(6)
    A, E = rng.standard_normal((6, 10)), rng.standard_normal((4, 10))
    P = rh.Polyhedron(A, np.ones(6), E, np.zeros(4), lower=-3, upper=3)
    inside = rng.uniform(-1, 1, (5, 10))
    sides = {"b": inside @ A.T + 0.5, "b_eq": inside @ E.T, "lower": inside - 2, "upper": inside + 1.5}
    return P, torch.tensor(3 * rng.standard_normal((5, 10))), {k: torch.tensor(v) for k, v in sides.items()}


def test_sample_wise_sides_give_what_each_set_alone_gives() -> None:
    P, x, sides = proxy()
    z = rh.project(P, x, **sides)
    for n in range(len(x)):
        b, b_eq, lower, upper = (sides[k][n].numpy() for k in ("b", "b_eq", "lower", "upper"))
        alone = rh.Polyhedron(P.A, b, P.A_eq, b_eq, lower, upper)
        torch.testing.assert_close(rh.project(alone, x[n]), z[n], atol=1e-11, rtol=0)


def test_gradients_reach_every_right_hand_side() -> None:
    P, x, sides = proxy()
    names = list(sides)
    inputs = [v[:2].clone().requires_grad_() for v in (x, *sides.values())]

    def f(x: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        return rh.project(P, x, **dict(zip(names, given, strict=True)))

    assert torch.autograd.gradcheck(f, inputs, eps=1e-7, atol=1e-5)
    assert torch.autograd.gradgradcheck(lambda *v: f(*v) * v[0], inputs, eps=1e-7, atol=1e-5)


def test_sparse_rows_keep_their_right_hand_sides_and_gradients() -> None:
    rng = np.random.default_rng(8)
    edges = [(i, j) for i in range(30) for j in range(i + 1, 30) if rng.random() < 0.08]
    A = np.zeros((len(edges), 30))
    A[np.arange(len(edges)), [i for i, _ in edges]], A[np.arange(len(edges)), [j for _, j in edges]] = 1, -1
    P = rh.Polyhedron(A, np.zeros(len(edges)))
    x, b = torch.tensor(rng.standard_normal((3, 30))), torch.tensor(rng.uniform(0, 0.5, (3, len(edges))))
    torch.testing.assert_close(rh.project(P, x, b=b), OneByOne(P, "daqp")(x, b=b), atol=1e-9, rtol=0)
    inputs = (x[:1].requires_grad_(), b[:1].clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda x, b: rh.project(P, x, b=b), inputs, eps=1e-7, atol=1e-5)


def test_one_side_for_all_samples_collects_their_gradients() -> None:
    P, x, sides = proxy()
    shared = sides["b"][:1].clone().requires_grad_()
    apart = sides["b"][:1].expand(5, -1).clone().requires_grad_()
    given = {k: v[:1] for k, v in sides.items() if k != "b"}
    rh.project(P, x, b=shared[0], **given).sum().backward()
    rh.project(P, x, b=apart, **given).sum().backward()
    torch.testing.assert_close(shared.grad[0], apart.grad.sum(0))


@pytest.mark.parametrize(
    "P", [rh.monotone(4) & rh.box(-1, 1), rh.simplex(4), rh.convex(5)], ids=["chain", "shift", "rows"]
)
def test_closed_forms_take_sample_wise_sides_too(P: rh.Polyhedron) -> None:
    x = 2 * torch.randn(4, P.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    low, high = -torch.rand(4, P.dim).double() - 0.5, torch.rand(4, P.dim).double() + 0.5
    same = OneByOne(P & rh.box(-9, 9, P.shape), "daqp")(x, lower=low, upper=high)  # it wants to know that bounds come
    torch.testing.assert_close(rh.project(P, x, lower=low, upper=high), same, atol=1e-9, rtol=0)


def test_contradictory_sides_name_their_samples_or_give_the_least_violation() -> None:
    P = rh.Polyhedron([[1, 1], [-1, -1]], [1, 1])
    x = torch.tensor([[2.0, 2], [3, 0], [0, 1]]).double()
    b = torch.tensor([[1.0, 1], [-1, -1], [0, 0]]).double()  # the second asks x + y <= -1 and >= 1
    with pytest.raises(EmptySetError, match="sample 1"):
        rh.project(P, x, b=b)
    z, info = rh.project(P, x, b=b, infeasible="least", return_info=True)
    assert info.infeasible.tolist() == [False, True, False]
    torch.testing.assert_close(z[1], torch.tensor([1.5, -1.5]).double(), atol=1e-5, rtol=0)  # both broken by 1
    torch.testing.assert_close(z[0], torch.tensor([0.5, 0.5]).double())
    with pytest.raises(EmptySetError, match="samples 0, 1, 2"):
        rh.project(rh.simplex(2), x, lower=0.8)
    with pytest.raises(EmptySetError, match="sample 0"):
        rh.project(rh.box(-1, 1, 2), x[:1], lower=2.0)


def test_a_single_contradictory_sample_is_named_like_one_of_many() -> None:
    P, x = rh.Polyhedron([[1, 1], [-1, -1]], [1, 1]), torch.tensor([[3.0, 0.0]]).double()
    b = torch.tensor([[-1.0, -1.0]]).double()
    with pytest.raises(EmptySetError, match="sample 0"):
        rh.project(P, x, b=b)
    z, info = rh.project(P, x, b=b, infeasible="least", return_info=True)
    assert info.infeasible.tolist() == [True]
    torch.testing.assert_close(z, torch.tensor([[1.5, -1.5]]).double(), atol=1e-5, rtol=0)


def test_bounds_of_the_sample_reach_mirror_images() -> None:
    """Two blocks, one the other's mirror image: x0 + x1 <= 1 in [-2, 1], and -x2 - x3 <= 1 in [-1, 2]."""
    P = rh.Polyhedron([[1, 1, 0, 0], [0, 0, -1, -1]], [1, 1], lower=[-2, -2, -1, -1], upper=[1, 1, 2, 2])
    assert len(plan(P)) == 1
    x = torch.tensor([[3.0, 0.2, -3.0, -0.2], [-5.0, 0.1, 5.0, 9.0]], dtype=torch.float64, requires_grad=True)
    low = torch.tensor([[-0.5, -0.5, -0.7, -0.3]], dtype=torch.float64, requires_grad=True)
    for sides in ({"lower": low}, {"upper": -low}, {"lower": low, "upper": low + 2}):
        alone = [
            rh.Polyhedron(
                P.A, P.b, **({"lower": P.lower, "upper": P.upper} | {k: v[0].detach() for k, v in sides.items()})
            )
            for _ in x
        ]
        z = rh.project(P, x, **sides)
        for n, own in enumerate(alone):
            expected = rh.project(own, x[n].detach(), solver="dual")
            torch.testing.assert_close(z[n], expected, atol=1e-9, rtol=0)
    assert torch.autograd.gradcheck(lambda v, a: rh.project(P, v, lower=a), (x, low), eps=1e-6, atol=1e-6)
    assert torch.autograd.gradcheck(lambda v, a: rh.project(P, v, upper=-a), (x, low), eps=1e-6, atol=1e-6)
    assert torch.autograd.gradgradcheck(lambda v, a: rh.project(P, v, lower=a), (x, low), eps=1e-6, atol=1e-6)


def test_a_change_in_place_between_forward_and_backward_is_seen() -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    h = 2 * x
    z = rh.project(rh.simplex(5), h)
    h += 1  # what is active was read from these numbers
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.square().sum().backward()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (5, 3), (2, 2, 3)])
def test_points_and_sides_are_read_and_never_handed_back(shape):
    """Also where they are flat already and nothing has to be copied; without gradients a leaf is a plain tensor."""
    P = rh.Polyhedron([[1.0, 1.0, 1.0]], [1.0])
    x = torch.nn.Parameter(torch.full(shape, -1.0, dtype=torch.float64))  # inside: its own nearest point
    b = torch.ones((1,) * (len(shape) - 1) + (1,), dtype=torch.float64)
    with torch.no_grad():
        z = rh.project(P, x, b=b)
    assert type(z) is torch.Tensor
    assert not z.requires_grad
    assert torch.equal(z, x)
    z.add_(1.0)
    assert bool((x == -1.0).all())
    assert bool((b == 1.0).all())
    rh.project(P, x, b=b).sum().backward()
    assert x.grad.shape == x.shape


def node_balance() -> tuple[rh.Polyhedron, np.ndarray]:
    """A flow of 12 nodes and 30 edges within capacities, with the balance of every node: they sum to 0."""
    rng = np.random.default_rng(0)
    start = rng.integers(0, 12, 30)
    E = np.zeros((12, 30), int)
    E[start, np.arange(30)], E[(start + rng.integers(1, 12, 30)) % 12, np.arange(30)] = 1, -1
    return rh.Polyhedron(A_eq=E, b_eq=np.zeros(12), lower=0, upper=1), rng.uniform(0.3, 0.7, (6, 30)) @ E.T


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_sides_of_dependent_equalities_agree_up_to_the_rounding_of_their_dtype(dtype: torch.dtype) -> None:
    P, demand = node_balance()
    x, b_eq = torch.randn(6, 30, dtype=dtype), torch.tensor(demand, dtype=dtype)
    z, info = rh.project(P, x, b_eq=b_eq, return_info=True)
    assert info.residual.max() < 1e-12
    torch.testing.assert_close(
        z.double() @ torch.tensor(P.A_eq.T).double(), b_eq.double(), atol=8 * torch.finfo(dtype).eps, rtol=0
    )
    assert torch.equal(rh.project(P, x, b_eq=b_eq, infeasible="least"), z)
    b_eq[0, 0] += 64 * torch.finfo(dtype).eps if dtype == torch.bfloat16 else 1e-3
    with pytest.raises(EmptySetError, match="sample 0"):
        rh.project(P, x, b_eq=b_eq)


def test_the_least_violation_is_given_where_nothing_can_be_certified() -> None:
    P, demand = node_balance()
    x, b_eq = torch.randn(6, 30).double(), torch.tensor(demand)
    b_eq[0, 0] += 5e-9  # too little for a proof
    with pytest.raises(UnverifiedError, match="sample"):
        rh.project(P, x, b_eq=b_eq)
    z, info = rh.project(P, x, b_eq=b_eq, infeasible="least", return_info=True)
    assert info.infeasible.any()
    assert P.violation(z, b_eq=b_eq).max() < 1e-6


def test_a_set_says_that_an_equality_follows_from_the_others() -> None:
    assert "12 equalities, 60 bounds; 1 equality follows from the others" in node_balance()[0].describe()
    assert "follow" not in rh.simplex(3).describe()


@pytest.mark.parametrize("sides", [{"b": [[-1.0, 1.0]]}, {"b_eq": [[0.5, 0.0]]}])
def test_a_row_of_zeros_refuses_a_side_that_it_cannot_meet(sides: dict[str, list[list[float]]]) -> None:
    P = rh.Polyhedron([[0, 0], [1, 1]], [1, 1], A_eq=[[0, 0], [1, -1]], b_eq=[0, 0], lower=-1, upper=1)
    x, given = torch.ones(2, 2, dtype=torch.float64), {k: torch.tensor(v).double() for k, v in sides.items()}
    for nearest in (lambda **own: rh.project(P, x, **own), lambda **own: rh.Projection(P)(x, **own)):
        with pytest.raises(EmptySetError, match="samples 0, 1"):
            nearest(**given)
    for method in ("auto", "shrink"):
        with pytest.raises(EmptySetError, match="sample"):
            rh.Constrained(2, P, method=method)(x.float(), **{k: v.float() for k, v in given.items()})
        lost = rh.Constrained(2, P, method=method, infeasible="nan")(x.float(), **given)
        assert bool(lost.isnan().all())
    z, info = rh.project(P, x, infeasible="least", return_info=True, **given)
    assert info.infeasible.all()
    torch.testing.assert_close(z, torch.full((2, 2), 0.5).double())


def test_one_empty_block_makes_the_whole_point_nan() -> None:
    P, b_eq = rh.product(rh.simplex(2), rh.simplex(3)), torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0]])
    x, b_eq = torch.rand(3, 5).double().requires_grad_(), b_eq.double()
    z = rh.project(P, x, b_eq=b_eq, infeasible="nan")
    assert z.isfinite().all(1).tolist() == [True, False, False]
    assert z.isnan().all(1).tolist() == [False, True, True]
    torch.testing.assert_close(z[0], rh.project(P, x[0], b_eq=b_eq[0]))
    rows = torch.as_tensor(P.equalities.matrix.toarray()).expand(3, -1, -1)
    torch.testing.assert_close(rh.project(P, x, A_eq=rows, b_eq=b_eq, infeasible="nan"), z, equal_nan=True)
    (slope,) = torch.autograd.grad(z[0].sum() + z[1:].nansum(), x)
    assert bool(slope.isfinite().all())


@pytest.mark.parametrize("P", [rh.box(-1, 1, 2), rh.simplex(2), rh.monotone(2) & rh.box(0, 1)], ids=str)
@pytest.mark.parametrize(("name", "value"), [("lower", torch.inf), ("upper", -torch.inf), ("lower", torch.nan)])
def test_a_bound_that_no_number_satisfies_is_refused(P: rh.Polyhedron, name: str, value: float) -> None:
    sides = {"lower": torch.zeros(3, 2), "upper": torch.ones(3, 2)}
    sides["lower"][1, 0] = sides["upper"][1, 0] = value if value == value else 0.0  # both infinite: they do not cross
    sides[name][1, 0] = value
    with pytest.raises(ValueError, match=f"{name} must hold numbers"):
        rh.project(P, torch.zeros(3, 2), **sides)
