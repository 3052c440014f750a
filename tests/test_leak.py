"""A leak past the nearest point: the same points, a share more of the gradient, in training only."""

from __future__ import annotations

import pytest
import torch

import rayhull as rh

P = rh.monotone(6)


def grads(layer: torch.nn.Module, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(layer(x), x, g)[0]


def test_a_leak_changes_no_point():
    x = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rh.Projection(P, leak=0.1)(x), rh.Projection(P)(x))


@pytest.mark.parametrize("through", ["eager", "compiled"])
def test_in_training_a_share_of_the_gradient_passes_and_in_evaluation_none(through):
    draw = torch.Generator().manual_seed(1)
    x, g = torch.randn(2, 32, 6, generator=draw)
    exact, leaky = rh.Projection(P), rh.Projection(P, leak=0.25)
    through_it = torch.compile(leaky, backend="aot_eager", fullgraph=True) if through == "compiled" else leaky
    torch.testing.assert_close(grads(through_it, x, g), grads(exact, x, g) + 0.25 * g)
    leaky.eval()
    torch.testing.assert_close(grads(through_it, x, g), grads(exact, x, g), rtol=0, atol=0)


def test_what_is_tied_learns_apart():
    """The target orders the first pair; both start tied, with one gradient for the two that cancels."""
    target = torch.tensor([0.0, 1.0, 2.0])
    reached = []
    for leak in (0.0, 0.1):
        u = torch.tensor([2.5, 0.5, 2.0], requires_grad=True)  # pooled: (1.5, 1.5, 2)
        layer, optimizer = rh.Projection(rh.monotone(3), leak=leak), torch.optim.SGD([u], 0.5)
        for _ in range(200):
            optimizer.zero_grad()
            (layer(u) - target).square().sum().backward()
            optimizer.step()
        reached.append(float((layer(u) - target).detach().square().sum()))
    assert reached[0] > 0.4
    assert reached[1] < 1e-4


@pytest.mark.parametrize("leak", [-0.1, 1.5, float("nan")])
def test_a_leak_is_a_share(leak):
    with pytest.raises(ValueError, match="leak is a share of the gradient, from 0 .* got"):
        rh.Projection(P, leak=leak)


def test_the_leak_is_named_where_there_is_one():
    assert "leak=0.1" in repr(rh.Projection(P, leak=0.1))
    assert "leak" not in repr(rh.Projection(P))
