"""The nearest point inside torch.func gives what it gives outside: values, derivatives, second ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.functional import hessian, jacobian
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, vmap

import rayhull as rh
from tests.zoo import ZOO

SETS = {
    "rows and bounds": rh.Polyhedron([[1, 1, 1], [1, -1, 0]], [1, 1], lower=0),
    "a chain": rh.monotone(3),
    "a simplex": rh.simplex(3),
    "blocks": rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1),
    "weighted": rh.Polyhedron([[1, 1, 1]], [1], A_eq=[[1, 0, -1]], b_eq=[0.5], lower=-1),
}
WEIGHTS = {"weighted": [1.0, 2.0, 3.0]}


def module_and_points(name: str) -> tuple[rh.Projection, Tensor]:
    torch.manual_seed(0)
    P = SETS[name]
    return rh.Projection(P, weights=WEIGHTS.get(name)), 2 * torch.randn(5, 2, *P.shape, dtype=torch.float64)


def leaf(value: Tensor) -> Tensor:
    return value.clone().requires_grad_()


def of_each(f: Callable[..., Tensor], x: Tensor) -> Tensor:
    """f of every point of a batch of two axes, one call each."""
    return torch.stack([torch.stack([f(v) for v in row]) for row in x])


@pytest.mark.parametrize("name", SETS)
def test_vmap_takes_the_points_of_all_calls_as_one_batch(name: str) -> None:
    nearest, x = module_and_points(name)
    for mapped in (vmap(nearest), vmap(vmap(nearest)), vmap(nearest, in_dims=1, out_dims=1)):
        assert torch.equal(mapped(x), nearest(x))


@pytest.mark.parametrize("name", SETS)
def test_derivatives_agree_with_those_of_autograd(name: str) -> None:
    nearest, x = module_and_points(name)
    J = of_each(lambda v: jacobian(nearest, v), x)
    assert torch.allclose(vmap(vmap(jacrev(nearest)))(x), J, atol=1e-12)
    assert torch.allclose(vmap(vmap(jacfwd(nearest)))(x), J, atol=1e-12)


@pytest.mark.parametrize("name", SETS)
def test_second_derivatives_agree_with_those_of_autograd(name: str) -> None:
    nearest, x = module_and_points(name)

    def loss(v: Tensor) -> Tensor:
        return (nearest(v).sin() * torch.arange(v.numel()).reshape(v.shape)).sum()

    six = x[:3].flatten(0, 1)
    H = hessian(loss, six)
    assert H.abs().max() > 1e-3
    for found in (jacrev(jacrev(loss)), jacfwd(jacrev(loss)), jacrev(jacfwd(loss))):
        assert torch.allclose(found(six), H, atol=1e-12)


@pytest.mark.parametrize("side", ["b", "lower"])
@pytest.mark.parametrize("shared", [False, True])
def test_sides_of_each_call(side: str, shared: bool) -> None:
    nearest, x = module_and_points("rows and bounds")
    weight = torch.randn_like(x[0])
    own = 0.3 * torch.rand(5, {"b": 2, "lower": 3}[side], dtype=torch.float64) - (0.2 if side == "lower" else 0)
    own = own[0] if shared else own

    def loss(value: Tensor, v: Tensor) -> Tensor:
        return (nearest(v, **{side: value}) * weight).sum()

    found = vmap(grad(loss), in_dims=(None if shared else 0, 0))(own, x)
    outside = own.expand(5, -1)[:, None].clone().requires_grad_()
    (nearest(x, **{side: outside}) * weight).sum().backward()
    assert outside.grad is not None
    assert outside.grad.abs().max() > 1e-3
    assert torch.allclose(found, outside.grad[:, 0], atol=1e-12)
    moved = jvp(lambda value: nearest(x, **{side: value}), (outside[:, :1].detach(),), (torch.ones_like(outside),))[1]
    step = 1e-6
    ahead, behind = (nearest(x, **{side: outside.detach() + s}) for s in (step, -step))
    assert torch.allclose(moved, (ahead - behind) / (2 * step), atol=1e-6)


@pytest.mark.parametrize("name", ZOO)
def test_every_set_gives_each_sample_its_gradient(name: str) -> None:
    torch.manual_seed(0)
    P = ZOO[name]()
    layer = rh.Constrained(6, P, method="nearest", dtype=torch.float64)
    h, w = (torch.randn(5, *shape, dtype=torch.float64) for shape in ((6,), P.shape))
    assert torch.equal(vmap(layer)(h), layer(h))
    found = vmap(grad(lambda sample, weight: (layer(sample) * weight).sum()))(h, w)
    h = leaf(h)
    assert torch.allclose(found, torch.autograd.grad((layer(h) * w).sum(), h)[0], atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_every_set_has_the_same_gradient_in_a_compiled_program(name: str) -> None:
    torch.manual_seed(0)
    P = ZOO[name]()
    layer = rh.Constrained(6, P, method="nearest", dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    h, w = (torch.randn(5, *shape, dtype=torch.float64) for shape in ((6,), P.shape))
    own, found = (torch.autograd.grad((run(v) * w).sum(), v)[0] for run in (layer, compiled) for v in [leaf(h)])
    assert torch.allclose(found, own, atol=1e-10)


@pytest.mark.parametrize("strict", [False, True])
def test_gradients_of_each_sample_through_a_layer(strict: bool) -> None:
    torch.manual_seed(0)
    layer = rh.Constrained(4, SETS["rows and bounds"], method="nearest", strict=strict, dtype=torch.float64)
    h, parameters = torch.randn(6, 4, dtype=torch.float64), dict(layer.named_parameters())

    def loss(p: Any, sample: Tensor) -> Tensor:
        return functional_call(layer, p, (sample,)).square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, h)
    for i, sample in enumerate(h):
        own = torch.autograd.grad(layer(sample).square().sum(), list(parameters.values()))
        for name, g in zip(parameters, own, strict=True):
            assert torch.allclose(found[name][i], g, atol=1e-12)


def test_a_vmap_inside_a_compiled_program() -> None:
    nearest, x = module_and_points("rows and bounds")
    b = torch.rand(5, 2, dtype=torch.float64)
    compiled = torch.compile(vmap(lambda v, own: nearest(v, b=own)), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, b), nearest(x, b=b[:, None]))


@pytest.mark.parametrize("name", SETS)
def test_a_compiled_program_has_the_same_gradient(name: str) -> None:
    nearest, x = module_and_points(name)
    compiled = torch.compile(nearest, fullgraph=True, backend="aot_eager")
    own, found = (torch.autograd.grad(run(v).sin().sum(), v)[0] for run in (nearest, compiled) for v in [leaf(x)])
    assert torch.allclose(found, own, atol=1e-12)


def test_a_compiled_side_that_some_samples_share_has_its_gradient() -> None:
    nearest, x = module_and_points("rows and bounds")
    compiled = torch.compile(nearest, fullgraph=True, backend="aot_eager")
    b = torch.rand(5, 1, 2, dtype=torch.float64)
    own, found = (torch.autograd.grad(run(x, b=v).sin().sum(), v)[0] for run in (nearest, compiled) for v in [leaf(b)])
    assert torch.allclose(found, own, atol=1e-12)


def test_what_looks_at_numbers_says_what_to_take_inside() -> None:
    P = SETS["rows and bounds"]
    nearest, x = module_and_points("rows and bounds")
    A = torch.tensor(P.A)
    for f in (lambda v: rh.project(P, v), lambda v: nearest(v, A=A), lambda v: nearest(v, return_info=True)[0]):
        with pytest.raises(rh.RayhullError, match=r"rh\.Projection\(P\)"):
            vmap(f)(x)
        with pytest.raises(torch._dynamo.exc.Unsupported, match=r"rh\.Projection\(P\)"):
            torch.compile(f, fullgraph=True, backend="eager")(x)
