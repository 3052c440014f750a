"""The nearest point with rows that depend on the sample, and with a metric that is a full matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.core import operators
from rayhull.errors import EmptySetError

Case = tuple[rh.Polyhedron, torch.Tensor, dict[str, torch.Tensor]]


def case(n: int = 6, seed: int = 0) -> Case:
    """n samples with rows, equalities and bounds of their own, each around a point that it contains."""
    rng = np.random.default_rng(seed)
    A, E = rng.standard_normal((n, 5, 7)), rng.standard_normal((n, 2, 7))
    inside = rng.uniform(-1, 1, (n, 7))
    P = rh.Polyhedron(np.ones((5, 7)), np.ones(5), np.eye(2, 7), np.zeros(2), lower=-9, upper=9)
    sides = {
        "A": A,
        "b": np.einsum("nij,nj->ni", A, inside) + 0.3,
        "A_eq": E,
        "b_eq": np.einsum("nij,nj->ni", E, inside),
        "lower": inside - 1.5,
        "upper": inside + 1.2,
    }
    x = torch.tensor(3 * rng.standard_normal((n, 7)))
    return P, x, {name: torch.tensor(v) for name, v in sides.items()}


def alone(sides: dict[str, torch.Tensor], n: int) -> rh.Polyhedron:
    own = {name: v[n].numpy() for name, v in sides.items()}
    return rh.Polyhedron(own["A"], own["b"], own["A_eq"], own["b_eq"], own["lower"], own["upper"])


def test_rows_of_the_sample_give_what_each_set_alone_gives() -> None:
    P, x, sides = case()
    z, info = rh.project(P, x, **sides, return_info=True)
    assert info.residual.max() <= 1e-10
    for n in range(len(x)):
        expected, known = rh.project(alone(sides, n), x[n], return_info=True)
        torch.testing.assert_close(z[n], expected, atol=1e-9, rtol=0)
        for name in ("multipliers", "multipliers_eq", "bound_multipliers"):
            torch.testing.assert_close(getattr(info, name)[n], getattr(known, name), atol=1e-8, rtol=0)


def test_torch_operations_give_the_same_points_as_the_compiled_core(monkeypatch: pytest.MonkeyPatch) -> None:
    P, x, sides = case(20, seed=3)
    expected = rh.project(P, x, **sides)
    monkeypatch.setattr(operators, "available", lambda: False)
    z, info = rh.project(P, x, **sides, return_info=True)
    assert info.solvers == ("dual Newton",)
    torch.testing.assert_close(z, expected, atol=1e-10, rtol=0)


def test_rows_of_the_sample_have_gradients_once_and_twice() -> None:
    P, x, sides = case(1)
    names = list(sides)
    inputs = [v.clone().requires_grad_() for v in (x, *sides.values())]

    def f(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return rh.project(P, x, **dict(zip(names, values, strict=True)))

    assert torch.autograd.gradcheck(f, inputs, eps=1e-6, atol=1e-5, fast_mode=True)
    assert torch.autograd.gradgradcheck(f, inputs, eps=1e-6, atol=1e-4, fast_mode=True)


def test_weights_and_rows_of_the_sample_go_together() -> None:
    P, x, sides = case()
    w = torch.linspace(0.5, 3, 7, dtype=torch.float64)
    z = rh.Projection(P, weights=w)(x, **sides)
    for n in range(len(x)):
        torch.testing.assert_close(z[n], rh.project(alone(sides, n), x[n], weights=w), atol=1e-9, rtol=0)


def test_one_matrix_for_all_samples_collects_their_gradients() -> None:
    P, x, sides = case()
    A = sides["A"][:1].clone().requires_grad_()
    b = sides["b"] + 5
    rh.project(P, x, A=A[0], b=b).square().sum().backward()
    apart = sides["A"][:1].expand(6, -1, -1).clone().requires_grad_()
    rh.project(P, x, A=apart, b=b).square().sum().backward()
    torch.testing.assert_close(A.grad[0], apart.grad.sum(0))


def test_a_contradiction_among_rows_of_the_sample_is_named() -> None:
    P = rh.Polyhedron([[1, 0], [0, 1]], [1, 1])
    A = torch.tensor([[[1.0, 0], [0, 1]], [[1.0, 0], [-1, 0]]])
    b = torch.tensor([[1.0, 1], [-1, -1]])  # the second asks x <= -1 and x >= 1
    x = torch.tensor([[2.0, 2.0], [3.0, 0.5]])
    with pytest.raises(EmptySetError, match="sample 1"):
        rh.project(P, x, A=A, b=b)
    z, info = rh.project(P, x, A=A, b=b, infeasible="least", return_info=True)
    assert info.infeasible.tolist() == [False, True]
    torch.testing.assert_close(z, torch.tensor([[1.0, 1.0], [0.0, 0.5]]), atol=1e-5, rtol=0)


def test_a_row_of_zeros_in_a_sample_states_nothing() -> None:
    P = rh.Polyhedron([[1, 0], [0, 1]], [1, 1])
    A = torch.tensor([[[0.0, 0.0], [0.0, 1.0]]]).double()
    z = rh.project(P, torch.tensor([[7.0, 7.0]]).double(), A=A)
    torch.testing.assert_close(z, torch.tensor([[7.0, 1.0]]).double())


@pytest.mark.parametrize("P", [rh.simplex(5), rh.monotone(5) & rh.box(-1, 1), rh.sum_to(2, 5)], ids=str)
def test_a_matrix_of_weights_is_a_change_of_coordinates(P: rh.Polyhedron) -> None:
    rng = np.random.default_rng(2)
    root = rng.standard_normal((5, 5))
    W = root @ root.T + 0.1 * np.eye(5)
    x = torch.tensor(2 * rng.standard_normal((8, 5)))
    z, info = rh.project(P, x, weights=W, return_info=True)
    assert P.contains(z, atol=1e-12).all()
    A, E = (torch.tensor(r.matrix.toarray()) for r in (P.inequalities, P.equalities))
    force = (z - x) @ torch.tensor(W) + info.multipliers @ A + info.multipliers_eq @ E + info.bound_multipliers
    torch.testing.assert_close(force, torch.zeros_like(force), atol=1e-8, rtol=0)
    torch.testing.assert_close(rh.project(P, x, weights=np.eye(5)), rh.project(P, x), atol=1e-10, rtol=0)
    y = x[:2].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: rh.project(P, v, weights=W), y, eps=1e-6, atol=1e-5)


def test_a_matrix_of_weights_must_be_a_metric() -> None:
    with pytest.raises(ValueError, match="positive definite"):
        rh.project(rh.simplex(2), torch.zeros(2), weights=[[1, 2], [2, 1]])


def test_rows_of_the_wrong_shape_are_refused_with_what_came() -> None:
    P, x, sides = case()
    with pytest.raises(ValueError, match="A has 4 rows, but the set states 5 right-hand sides: give b too"):
        rh.project(P, x, A=sides["A"][:, :4])
    with pytest.raises(ValueError, match=r"A must have shape .*, got \(6, 5, 6\)"):
        rh.project(P, x, A=sides["A"][:, :, :6])
