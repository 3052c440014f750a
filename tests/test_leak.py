"""A leak past a map into the set: the same points, gradient that leads back across rows that bind, in training only."""

from __future__ import annotations

import pytest
import torch

import rayhull as rh
from rayhull.maps.leak import moved, not_outwards

P = rh.monotone(6)
POLYTOPE = rh.Polyhedron([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], [1.0, 0.5], lower=-1, upper=1)
ONE = torch.tensor([])  # block
WAYS = {
    "projection": (POLYTOPE, "projection"),
    "approach": (POLYTOPE, "approach"),
    "shrink": (POLYTOPE, "shrink"),
    "shift": (rh.Polyhedron([[1.0, 1.0, 1.0]], 1.0, lower=0, upper=1), "shift"),
    "long chain": (rh.monotone(40), "auto"),
    "blocks": (rh.box(0, 1, 4) & rh.Polyhedron([[1.0, 1.0, 0.0, 0.0]], 1.0), "shrink"),
}


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def grads(layer: torch.nn.Module, x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(layer(x), x, g)[0]


def expected(exact: torch.Tensor, u: torch.Tensor, x: torch.Tensor, g: torch.Tensor, share: float) -> torch.Tensor:
    """The formula, sample by sample, for a set of one block."""
    leaked = []
    for own, d in zip(g, u - x, strict=True):
        outwards = min(0.0, float(own @ d))
        leaked.append(own if outwards == 0 else own - outwards * d / float(d @ d))
    return (1 - share) * exact + share * torch.stack(leaked)


# -- the nearest point alone -------------------------------------------------------------------------------------------


def test_a_leak_changes_no_point():
    x = draw(64, 6)
    assert torch.equal(rh.Projection(P, leak=0.1)(x), rh.Projection(P)(x))


@pytest.mark.parametrize("through", ["eager", "compiled"])
def test_in_training_a_share_of_the_gradient_passes_and_in_evaluation_none(through):
    x, g = draw(2, 32, 6, seed=1)
    exact, leaky = rh.Projection(P), rh.Projection(P, leak=0.25)
    through_it = torch.compile(leaky, backend="aot_eager", fullgraph=True) if through == "compiled" else leaky
    derivative = grads(exact, x, g)
    torch.testing.assert_close(grads(through_it, x, g), expected(derivative, x, exact(x), g, 0.25))
    leaky.eval()
    torch.testing.assert_close(grads(through_it, x, g), derivative, rtol=0, atol=0)


def test_a_step_against_the_gradient_takes_no_point_further_away():
    x, g = draw(2, 512, 6, seed=2).double()
    stepped = x - 1e-6 * grads(rh.Projection(P, leak=0.5), x, g)
    before, after = ((v - rh.project(P, v)).norm(dim=-1) for v in (x, stepped))
    assert bool((after <= before + 1e-9).all())
    plain = x - 1e-6 * 0.5 * g  # the whole of the gradient does
    assert bool(((plain - rh.project(P, plain)).norm(dim=-1) > before + 1e-7).any())


def test_where_the_loss_pulls_towards_targets_in_the_set_nothing_is_left_out():
    u, target = draw(2, 64, 6, seed=3)
    x, t = rh.project(P, u), rh.project(P, target)
    torch.testing.assert_close(not_outwards(x - t, u - x, ONE), x - t)


def test_blocks_leak_each_by_itself():
    x, g = torch.tensor([[2.0, 2.0, 0.5]]), torch.tensor([[1.0, -1.0, 1.0]])
    got = grads(rh.Projection(rh.box(0, 1, 3), leak=0.1), x, g)
    torch.testing.assert_close(got, torch.tensor([[0.1, 0.0, 1.0]]))  # back, outwards, inside


def test_points_far_away_and_not_finite_leak_no_nan():
    d = torch.tensor([[1e30, -1e30], [torch.inf, 0.0], [0.0, 0.0]])
    got = not_outwards(torch.tensor([-1.0, 0.0]).expand(3, 2), d, ONE)
    torch.testing.assert_close(got, torch.tensor([[-0.5, -0.5], [-1.0, 0.0], [-1.0, 0.0]]))


def test_what_rounding_moved_has_no_direction():
    x, free = torch.tensor([[1.0, 100.0], [1.0, 100.00001]])[:, None]
    assert torch.equal(moved(x, free, ONE), torch.zeros(1, 2))


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


def test_an_objective_drives_no_free_point_away():
    u = torch.tensor([[3.0, 0.0]], requires_grad=True)
    layer, optimizer = rh.Projection(rh.box(0, 1, 2), leak=0.5), torch.optim.SGD([u], 0.1)
    for _ in range(100):
        optimizer.zero_grad()
        (-layer(u).sum()).backward()
        optimizer.step()
    assert float(u.detach().max()) <= 3.0
    torch.testing.assert_close(layer(u), torch.ones(1, 2))


@pytest.mark.parametrize("leak", [-0.1, 1.5, float("nan")])
def test_a_leak_is_a_share(leak):
    for make in (lambda: rh.Projection(P, leak=leak), lambda: rh.Constrained(2, POLYTOPE, method="shrink", leak=leak)):
        with pytest.raises(ValueError, match="leak is a share of the gradient, from 0 .* got"):
            make()


def test_the_leak_is_named_where_there_is_one():
    assert "leak=0.1" in repr(rh.Projection(P, leak=0.1))
    assert "leak" not in repr(rh.Projection(P))
    assert "0.1 of the gradient leaks" in rh.Constrained(2, POLYTOPE, method="shrink").describe()
    assert "leak" not in rh.Constrained(2, P).describe()


# -- layers ------------------------------------------------------------------------------------------------------------


def layers(name: str, **options: float) -> tuple[rh.Constrained, rh.Constrained]:
    """The same layer, with a leak and without."""
    torch.manual_seed(0)
    made = [rh.Constrained(3, WAYS[name][0], method=WAYS[name][1], **given) for given in (options, {"leak": 0.0})]
    made[1].load_state_dict(made[0].state_dict())
    return made[0].double(), made[1].double()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.usefixtures("either_form")
def test_a_layer_that_is_the_keeps_inside_leaks_a_tenth(name):
    leaky, exact = layers(name)
    h = 3 * draw(64, 3, seed=4).double()
    assert leaky.leak == 0.1
    assert torch.equal(leaky(h), exact(h))
    x, g = exact(h), draw(64, *exact.polyhedron.shape, seed=5).double()
    u = exact.free(h)
    (direct,) = torch.autograd.grad((x * g).sum(), exact.linear.bias, retain_graph=True)
    block = leaky.map.block
    d = moved(x.detach(), u.detach(), block)
    (past,) = torch.autograd.grad((u * not_outwards(g, d, block)).sum(), exact.linear.bias)
    (got,) = torch.autograd.grad((leaky(h) * g).sum(), leaky.linear.bias)
    torch.testing.assert_close(got, 0.9 * direct + 0.1 * past)
    assert not torch.allclose(got, direct)


@pytest.mark.parametrize("name", WAYS)
def test_in_evaluation_and_with_no_leak_the_gradient_is_the_derivative(name):
    leaky, exact = layers(name)
    h, g = 3 * draw(16, 3, seed=6).double(), draw(16, *exact.polyhedron.shape, seed=7).double()
    torch.testing.assert_close(grads(leaky.eval(), h, g), grads(exact, h, g), rtol=0, atol=0)
    assert torch.autograd.gradcheck(exact, h[:2].clone().requires_grad_(), atol=1e-5)


def test_inside_the_set_the_gradient_is_the_derivative():
    leaky, exact = layers("projection")
    h = 1e-3 * draw(16, 3).double()
    torch.testing.assert_close(grads(leaky, h, torch.ones(16, 3)), grads(exact, h, torch.ones(16, 3)))


def test_a_strict_layer_leaks_and_stays_inside():
    layer = rh.Constrained(3, POLYTOPE, method="steps", strict=True)
    x = layer(1e3 * draw(64, 3).requires_grad_())
    assert bool(POLYTOPE.contains_exactly(x).all())
    x.sum().backward()
    assert bool(layer.linear.weight.grad.isfinite().all())


def test_free_points_that_overflow_leak_nothing_that_is_not_finite():
    layer = rh.Constrained(1, POLYTOPE, method="shrink", strict=True)
    x = layer(torch.full((2, 1), 3e38))
    assert bool(POLYTOPE.contains_exactly(x).all())


def test_sides_of_the_sample_leak_where_the_free_point_needs_no_phase_one():
    b = torch.tensor([[1.0, 0.5], [0.5, 0.2]])
    leaky, exact = (rh.Constrained(3, POLYTOPE, method="shrink", leak=leak) for leak in (0.1, 0.0))
    exact.load_state_dict(leaky.state_dict())
    h = 30 * draw(2, 3)
    assert torch.equal(leaky(h, b=b), exact(h, b=b))
    ones = torch.ones(2, 3)
    got, derivative = (grads(lambda v, own=own: own(v, b=b), h, ones) for own in (leaky, exact))
    assert not torch.allclose(got, derivative)
    A = POLYTOPE.A[None] + 0.1 * draw(2, 2, 3).double().numpy()
    rows = {"A": torch.as_tensor(A, dtype=torch.float32), "b": b}
    got, derivative = (grads(lambda v, own=own: own(v, **rows), h, ones) for own in (leaky, exact))
    torch.testing.assert_close(got, derivative)


def test_a_compiled_layer_leaks_as_an_eager_one():
    leaky, _ = layers("approach")
    h, g = 3 * draw(16, 3).double(), draw(16, 3, seed=1).double()
    compiled = torch.compile(leaky, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(grads(compiled, h, g), grads(leaky, h, g))


@pytest.mark.parametrize("way", ["shrink", "steps", "nearest"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("either_form")
def test_the_gradient_inside_is_the_derivative_whatever_rounding_moves(way, dtype):
    leaky, exact = (layer.to(dtype) for layer in layers(way))
    h, g = 0.05 * draw(64, 3).to(dtype), draw(64, 3, seed=1).to(dtype)
    inside = (leaky.free(h) - leaky(h)).abs().amax(-1) < 1e-6
    assert inside.sum() > 32
    got, derivative = grads(leaky, h, g)[inside], grads(exact, h, g)[inside]
    torch.testing.assert_close(got, derivative)


def test_gradients_of_single_samples_and_forward_mode_go_through():
    leaky, exact = layers("approach")
    h = 3 * draw(8, 3).double()
    single = torch.func.vmap(torch.func.grad(lambda v: leaky(v).sum()))(h)
    torch.testing.assert_close(single, grads(leaky, h, torch.ones(8, 3)))
    tangents = (torch.func.jvp(own, (h,), (torch.ones_like(h),))[1] for own in (leaky, exact))
    torch.testing.assert_close(*tangents)


def test_second_derivatives_are_finite_inside_and_outside():
    leaky, _ = layers("shrink")
    h = (torch.tensor([[1e-3], [3.0]]) * draw(2, 3)).double().requires_grad_()
    (slope,) = torch.autograd.grad(leaky(h).square().sum(), h, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum(), h)
    assert bool(second.isfinite().all())


def test_a_way_without_a_free_point_takes_no_leak():
    assert rh.Constrained(2, P).leak == 0.0
    with pytest.raises(ValueError, match="have a free point to leak to.*method='projection'"):
        rh.Constrained(2, P, leak=0.1)
    assert rh.Constrained(2, P, method="nearest", leak=0.1).leak == 0.1


def test_a_long_chain_goes_to_its_nearest_point_and_keeps_what_is_inside():
    Q = rh.monotone(40)
    into = rh.MapInto(Q)
    assert "a long chain of 40: its nearest point by pooling" in into.describe()
    outside = draw(8, 40, seed=3)
    torch.testing.assert_close(into(into.coefficients_of(outside)), rh.project(Q, outside))
    increasing = draw(8, 40).sort(-1).values
    torch.testing.assert_close(into(into.coefficients_of(increasing)), increasing)
    assert bool(Q.contains_exactly(into(draw(64, 40, seed=1))).all())
    falling = rh.MapInto(rh.monotone(40, increasing=False))
    assert bool(falling.polyhedron.contains_exactly(falling(draw(64, 40, seed=2))).all())
    assert "by its own increments" in rh.MapInto(rh.monotone(40) & rh.box(0, 1)).describe()
    assert "by its own increments" in rh.MapInto(rh.monotone(32)).describe()
