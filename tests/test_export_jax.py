"""Layers in JAX: values and derivatives of torch's, jit and vmap, strict in 64-bit mode, trained to the same loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rayhull as rh
from tests.exporting import KINDS, a_day, dispatch, exportable, features, inequalities, near, snippet
from tests.zoo import ZOO

jax = pytest.importorskip("jax")
MODES = {"training": True, "evaluation": False}


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """JAX's 64-bit mode, which a test may leave."""
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def slopes(module: nn.Module, h: torch.Tensor, weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """The gradient in torch, of the features ("") and of each parameter."""
    h = h.clone().requires_grad_()
    names, values = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad((module(h) * weight).sum(), [h, *values])
    return dict(zip(("", *names), found, strict=True))


def compare(layer: rh.Constrained, tolerance: float = 1e-4) -> Any:
    """Values, those of vmap, and slopes in parameters and features are torch's; what comes out."""
    h = features()
    parameters, apply = rh.to_jax(layer)
    weight = torch.randn(layer(h).shape, generator=torch.Generator().manual_seed(2))

    def all_at_once(parameters: Any, h: Any) -> Any:
        grad = jax.grad(lambda p, h: (apply(p, h) * weight.numpy()).sum(), (0, 1))
        return apply(parameters, h), jax.vmap(apply, (None, 0))(parameters, h), grad(parameters, h)

    x, one_by_one, (own, of_h) = jax.jit(all_at_once)(parameters, h.numpy())
    assert near(x, layer(h), tolerance)
    assert near(one_by_one, layer(h), tolerance)
    for name, slope in slopes(layer, h, weight).items():
        size = 1 + float(slope.abs().max())
        assert near(np.asarray(own[name] if name else of_h) / size, slope / size, 10 * tolerance), name
    return np.asarray(x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("kind", KINDS)
def test_jax_has_the_values_and_slopes_of_torch_the_leak_included(kind: str, strict: bool, mode: str) -> None:
    layer = exportable(KINDS[kind](), strict=strict).train(MODES[mode])
    x = compare(layer)
    assert not strict or bool(inequalities(layer.polyhedron).contains_exactly(x).all())


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_every_set_is_strict_in_jax(name: str) -> None:
    strict = name != "implicit equality"
    layer = exportable(ZOO[name](), strict=strict)
    x = compare(layer, 5e-4)  # steps along a band are within 2e-4 of float64
    assert not strict or bool(inequalities(layer.polyhedron).contains_exactly(x).all())


def test_the_leak_is_in_the_slope_of_training_mode_alone() -> None:
    layer, far = rh.Constrained(4, rh.box(0, 1, 2)), 100 * np.ones((1, 4), np.float32)
    for mode, leaks in ((True, True), (False, False)):
        parameters, apply = rh.to_jax(layer.train(mode))
        slope = jax.jit(jax.grad(lambda p, apply=apply: apply(p, far).sum()))(parameters)
        assert bool(np.abs(slope["linear.bias"]).max() > 0) == leaks


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_slopes_in_the_sides_are_those_of_torch(strict: bool) -> None:
    layer, h = dispatch(strict=strict), features(20)
    day = {name: side[20:].requires_grad_() for name, side in a_day(40).items()}
    parameters, apply = rh.to_jax(layer, sides=tuple(day))
    given = {name: side.detach().numpy() for name, side in day.items()}
    assert near(jax.jit(apply)(parameters, h.numpy(), **given), layer(h, **day), 1e-4)
    found = jax.jit(jax.grad(lambda sides: (apply(parameters, h.numpy(), **sides) ** 2).sum()))(given)
    expected = torch.autograd.grad(layer(h, **day).square().sum(), list(day.values()))
    for name, slope in zip(day, expected, strict=True):
        assert near(found[name], slope, 1e-3), name


def test_bounds_of_the_sample_pass_their_slope_through_a_clipped_shift() -> None:
    P = rh.Polyhedron(A_eq=[[1, 2, 3, 4]], b_eq=5, lower=0, upper=2)
    layer, h = rh.Constrained(4, P, method="nearest", dtype=torch.float64).eval(), features(20, torch.float64)
    upper = (1.5 + torch.rand(20, 4, dtype=torch.float64)).requires_grad_()
    parameters, apply = rh.to_jax(layer, sides=("upper",))
    assert near(jax.jit(apply)(parameters, h.numpy(), upper=upper.detach().numpy()), layer(h, upper=upper), 1e-9)
    found = jax.jit(jax.grad(lambda u: (apply(parameters, h.numpy(), upper=u) ** 2).sum()))(upper.detach().numpy())
    (expected,) = torch.autograd.grad(layer(h, upper=upper).square().sum(), upper)
    assert float(expected.abs().max()) > 0.1
    assert near(found, expected, 1e-8)


def test_single_precision_serves_plain_layers_and_refuses_strict_ones() -> None:
    strict, wide, plain = (exportable(KINDS["steps"](), **o) for o in ({"strict": True}, {"dtype": torch.float64}, {}))
    parameters, apply = rh.to_jax(strict)
    jax.config.update("jax_enable_x64", False)
    for call in (lambda: apply(parameters, features().numpy()), lambda: rh.to_jax(strict), lambda: rh.to_jax(wide)):
        with pytest.raises(rh.RayhullError, match=r"64-bit mode, which is off: jax.config.update.*strict=False"):
            call()
    compare(plain)


def test_bfloat16_is_a_dtype_of_jax() -> None:
    layer = rh.Constrained(4, rh.monotone(4) & rh.box(-1, 1), dtype=torch.bfloat16, strict=True).eval()
    parameters, apply = rh.to_jax(layer)
    x = np.asarray(jax.jit(apply)(parameters, features().numpy()).astype("float32"))
    assert near(x, layer(features(dtype=torch.bfloat16)), 0.02)
    assert bool(layer.polyhedron.contains_exactly(x).all())


def test_buffers_that_training_changes_are_refused() -> None:
    layer = rh.Constrained(4, rh.simplex(3), batch_norm=True)
    with pytest.raises(rh.RayhullError, match=r"training mode changes batch_norm.*call .eval\(\) first"):
        rh.to_jax(layer)
    rh.to_jax(layer.eval())


def test_a_network_trains_in_jax_to_the_loss_of_torch() -> None:
    optax = pytest.importorskip("optax")
    torch.manual_seed(0)
    P = rh.Polyhedron([[1.0, 1.0], [-1.3, 0.4], [0.2, -1.1]], [1.0, 0.7, 0.6])
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), rh.Constrained(16, P, method="steps", steps=5))
    h = torch.randn(64, 2)
    target = torch.stack([h[:, 0].sin(), h.prod(-1)], 1)  # partly outside
    parameters, apply = rh.to_jax(model)
    rule = optax.adam(0.01)

    @jax.jit
    def step(parameters: Any, state: Any) -> Any:
        loss, slope = jax.value_and_grad(lambda p: ((apply(p, h.numpy()) - target.numpy()) ** 2).mean())(parameters)
        change, state = rule.update(slope, state)
        return optax.apply_updates(parameters, change), state, loss

    state, optimiser = rule.init(parameters), torch.optim.Adam(model.parameters(), 0.01)
    first = None
    for _ in range(60):
        optimiser.zero_grad()
        loss = (model(h) - target).square().mean()
        loss.backward()
        optimiser.step()
        parameters, state, there = step(parameters, state)
        first = loss.item() if first is None else first
        assert abs(float(there) - loss.item()) < 1e-3 * first
    assert loss.item() < 0.5 * first
    assert bool(P.contains(np.asarray(jax.jit(apply)(parameters, h.numpy())), atol=1e-5).all())


def test_the_snippet_of_the_page_runs() -> None:
    names = snippet("import jax")
    assert bool(names["layer"].polyhedron.contains(np.asarray(names["x"]), atol=1e-6).all())
    assert set(names["slope"]) == {"linear.weight", "linear.bias"}
