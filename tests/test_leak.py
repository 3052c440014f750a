"""A leak past a map into the set: the same points, a gradient that leads back across rows, linear, in training only."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import rayhull as rh
from rayhull.maps.leak import Leak, along_the_set, damped, leaking
from rayhull.nn.steps import Steps
from rayhull.nn.ways import Seen

P = rh.monotone(6)
POLYTOPE = rh.Polyhedron([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], [1.0, 0.5], lower=-1, upper=1)
WAYS = {
    "nearest": (POLYTOPE, "nearest"),
    "steps": (POLYTOPE, "steps"),
    "shrink": (POLYTOPE, "shrink"),
    "one row": (rh.Polyhedron([[1.0, 1.0, 1.0]], 1.0, lower=0, upper=1), "auto"),
    "chain": (rh.monotone(40), "auto"),
    "blocks": (rh.box(0, 1, 4) & rh.Polyhedron([[1.0, 1.0, 0.0, 0.0]], 1.0), "shrink"),
    "blocks at once": (rh.box(0, 1, 4) & rh.Polyhedron([[1.0, 1.0, 0.0, 0.0]], 1.0), "nearest"),
    "inverse": (rh.Polyhedron([[1, 2], [-1, -2], [1, -1], [-1, 1]], 1), "auto"),
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def grads(layer: torch.nn.Module, x: Tensor, g: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(layer(x), x, g)[0]


def second_term(g: Tensor, d: Tensor, unit: Tensor | float, block: Tensor) -> Tensor:
    """g - κ (g·d) d / |d|², written out sample by sample and block by block."""
    scaled, out = (d / unit).flatten(1), g.flatten(1).clone()
    number = block if block.numel() else torch.zeros(out.shape[1], dtype=torch.int64)
    for i in range(len(out)):
        for own in (number == k for k in number.unique()):
            u, v = scaled[i, own], out[i, own]
            out[i, own] = v - (v @ u) * u / (1 + u @ u)
    return out.reshape(g.shape)


# -- the formula -------------------------------------------------------------------------------------------------------


def test_a_leak_changes_no_point() -> None:
    x = draw(64, 6)
    assert torch.equal(rh.Projection(P, leak=0.1)(x), rh.Projection(P)(x))


@pytest.mark.parametrize("through", ["eager", "compiled"])
def test_in_training_a_share_of_the_gradient_passes_and_in_evaluation_none(through: str) -> None:
    x, g = draw(2, 32, 6, seed=1)
    exact, leaky = rh.Projection(P), rh.Projection(P, leak=0.25)
    through_it = torch.compile(leaky, backend="aot_eager", fullgraph=True) if through == "compiled" else leaky
    derivative = grads(exact, x, g)
    expected = 0.75 * derivative + 0.25 * second_term(g, x - exact(x), 1.0, torch.empty(0))
    torch.testing.assert_close(grads(through_it, x, g), expected)
    leaky.eval()
    torch.testing.assert_close(grads(through_it, x, g), derivative)


def test_across_the_set_the_less_passes_the_further_a_point_is_away() -> None:
    """A loss without targets would drive a point away for ever: at a distance of r it has half of its gradient."""
    g = torch.tensor([1.0, 1.0])
    for distance, left in ((0.0, 1.0), (1.0, 0.5), (3.0, 0.1)):
        torch.testing.assert_close(along_the_set(g, torch.tensor([distance, 0.0])), torch.tensor([left, 1.0]))
    torch.testing.assert_close(along_the_set(g, torch.tensor([6.0, 0.0]) / 2), torch.tensor([0.1, 1.0]))


def test_blocks_leak_each_by_itself() -> None:
    x, g = torch.tensor([[2.0, 4.0, 0.5]]), torch.tensor([[1.0, -1.0, 1.0]])
    got = grads(rh.Projection(rh.box(0, 1, 3), leak=0.1), x, g)
    torch.testing.assert_close(got, torch.tensor([[0.05, -0.01, 1.0]]))


def test_points_far_away_and_not_finite_leak_no_nan() -> None:
    d = torch.tensor([[1e30, -1e30], [torch.inf, 0.0], [torch.nan, 0.0]])
    got = along_the_set(torch.tensor([-1.0, 0.0]).expand(3, 2), d)
    torch.testing.assert_close(got, torch.tensor([[-0.5, -0.5], [0.0, 0.0], [-1.0, 0.0]]))


@pytest.mark.parametrize("leak", [-0.1, 1.5, float("nan")])
def test_a_leak_is_a_share(leak: float) -> None:
    for make in (lambda: rh.Projection(P, leak=leak), lambda: rh.Constrained(2, POLYTOPE, method="shrink", leak=leak)):
        with pytest.raises(ValueError, match="leak is a share of the gradient, from 0 .* got"):
            make()


# -- linear in the gradient --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WAYS)
def test_the_gradient_is_linear_in_that_of_the_loss(name: str) -> None:
    leaky, _ = layers(name)
    h, (g, other) = 3 * draw(16, 3), draw(2, 16, *leaky.polyhedron.shape, seed=1)
    both = grads(leaky, h, g) - 2.5 * grads(leaky, h, other)
    torch.testing.assert_close(grads(leaky, h, g - 2.5 * other), both)


class Reversed(torch.autograd.Function):
    """x forwards, -g backwards: gradient reversal."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return -g


@pytest.mark.parametrize("name", ["nearest", "shrink", "chain"])
def test_maximising_is_minimising_the_negative_however_the_sign_is_turned(name: str) -> None:
    made, _ = layers(name)
    h, prices = 3 * draw(32, 3), draw(*made.polyhedron.shape, seed=2)
    ended = []
    for kind in ("negative", "maximize", "reversed"):
        layer = copy.deepcopy(made)
        optimizer = torch.optim.Adam(layer.parameters(), 0.05, maximize=kind == "maximize")
        for _ in range(20):
            x = Reversed.apply(layer(h)) if kind == "reversed" else layer(h)
            loss = (x * prices).square().sum() + (x * prices).sum()
            optimizer.zero_grad()
            (-loss if kind == "negative" else loss).backward()
            optimizer.step()
        ended.append(layer.linear.weight.detach())
    torch.testing.assert_close(ended[1], ended[0], rtol=0, atol=0)
    torch.testing.assert_close(ended[2], ended[0], rtol=0, atol=0)


# -- what it is for ----------------------------------------------------------------------------------------------------


def trained(u: Tensor, layer: torch.nn.Module, target: Tensor, steps: int = 300) -> float:
    """The squared error that is left after gradient steps of u."""
    optimizer = torch.optim.SGD([u], 0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        (layer(u) - target).square().sum().backward()
        optimizer.step()
    return float((layer(u) - target).detach().square().sum())


@pytest.mark.parametrize(
    ("Q", "start", "target"),
    [
        (rh.monotone(3), [2.5, 0.5, 2.0], [0.0, 1.0, 2.0]),  # tied: one gradient for two, which cancels
        (rh.box(0, 1, 3), [2.0, -1.0, 2.0], [0.3, 0.6, 0.9]),  # a corner has no gradient at all
    ],
    ids=["a chain", "a box"],
)
def test_points_that_start_outside_come_back_with_a_leak_and_not_without(
    Q: rh.Polyhedron, start: list[float], target: list[float]
) -> None:
    reached = [
        trained(torch.tensor(start, requires_grad=True), rh.Projection(Q, leak=leak), torch.tensor(target))
        for leak in (0.0, 0.1)
    ]
    assert reached[0] > 0.4
    assert reached[1] < 1e-4


def test_an_objective_drives_no_unconstrained_point_far_away() -> None:
    u = torch.tensor([[3.0, 0.0]], requires_grad=True)
    layer, optimizer = rh.Projection(rh.box(0, 1, 2), leak=0.5), torch.optim.SGD([u], 0.1)
    for _ in range(1000):
        optimizer.zero_grad()
        (-layer(u).sum()).backward()
        optimizer.step()
    assert float(u.detach().max()) < 8  # the whole gradient would take it to 53, and on
    torch.testing.assert_close(layer(u), torch.ones(1, 2))


# -- layers ------------------------------------------------------------------------------------------------------------


def layers(name: str, **options: float) -> tuple[rh.Constrained, rh.Constrained]:
    """The same layer, with a leak and without."""
    torch.manual_seed(0)
    made = [rh.Constrained(3, WAYS[name][0], method=WAYS[name][1], **given) for given in (options, {"leak": 0.0})]
    made[1].load_state_dict(made[0].state_dict())
    return made[0].double(), made[1].double()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.usefixtures("either_form")
def test_a_layer_that_keeps_what_is_inside_leaks_a_tenth_of_the_gradient(name: str) -> None:
    leaky, exact = layers(name)
    assert leaky.leak == 0.1
    h, g = 3 * draw(64, 3, seed=4), draw(64, *exact.polyhedron.shape, seed=5)
    assert torch.equal(leaky(h), exact(h))
    x, u = exact(h), exact.unconstrained(h)
    (direct,) = torch.autograd.grad((x * g).sum(), exact.linear.bias, retain_graph=True)
    past = second_term(g, (u - x).detach(), leaky.map.units, leaky.map._block)
    (past,) = torch.autograd.grad((u * past).sum(), exact.linear.bias)
    (got,) = torch.autograd.grad((leaky(h) * g).sum(), leaky.linear.bias)
    torch.testing.assert_close(got, 0.9 * direct + 0.1 * past)
    assert not torch.allclose(got, direct)


@pytest.mark.parametrize("name", WAYS)
def test_in_evaluation_and_with_no_leak_the_gradient_is_the_derivative(name: str) -> None:
    leaky, exact = layers(name)
    h, g = 3 * draw(16, 3, seed=6), draw(16, *exact.polyhedron.shape, seed=7)
    torch.testing.assert_close(grads(leaky.eval(), h, g), grads(exact, h, g), rtol=0, atol=0)
    assert torch.autograd.gradcheck(leaky, h[:2].clone().requires_grad_(), atol=1e-5)


@pytest.mark.parametrize("name", ["nearest", "steps", "shrink"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.usefixtures("either_form")
def test_inside_the_set_the_gradient_is_the_derivative(name: str, dtype: torch.dtype) -> None:
    leaky, exact = (layer.to(dtype) for layer in layers(name))
    h, g = 0.05 * draw(64, 3).to(dtype), draw(64, 3, seed=1).to(dtype)
    inside = (leaky.unconstrained(h) - leaky(h)).abs().amax(-1) < 1e-6
    assert inside.sum() > 32
    torch.testing.assert_close(grads(leaky, h, g)[inside], grads(exact, h, g)[inside])


def test_a_strict_layer_leaks_as_the_plain_one_and_stays_inside() -> None:
    layer, _ = layers("steps")
    h, g = 10 * draw(64, 3), draw(64, 3, seed=1)
    plain = grads(layer, h, g)
    layer.strict = True
    assert bool(POLYTOPE.contains_exactly(layer(h)).all())
    torch.testing.assert_close(grads(layer, h, g), plain, rtol=0, atol=0)


def test_unconstrained_points_that_overflow_leak_nothing_that_is_not_finite() -> None:
    layer = rh.Constrained(1, POLYTOPE, method="shrink", strict=True)
    x = layer(torch.full((2, 1), 3e38))
    assert bool(POLYTOPE.contains_exactly(x).all())
    x.sum().backward()
    assert layer.linear.bias.grad is not None
    assert bool(layer.linear.bias.grad.isfinite().all())


@pytest.mark.parametrize("name", ["nearest", "steps", "shrink"])
@pytest.mark.parametrize("sides", ["b", "A and b"])
def test_sides_of_the_sample_have_their_whole_gradient_and_the_point_leaks(name: str, sides: str) -> None:
    leaky, exact = layers(name)
    h, g = 30 * draw(8, 3), draw(8, 3, seed=1)
    given = {"b": torch.tensor([1.0, 0.5]) * torch.rand(8, 1).double().add(0.5)}
    given |= {"A": torch.as_tensor(POLYTOPE.A) + 0.1 * draw(8, 2, 3, seed=2)} if sides != "b" else {}
    found = []
    for layer in (leaky, exact):
        leaves = [v.clone().requires_grad_() for v in (h, *given.values())]
        x = layer(leaves[0], **dict(zip(given, leaves[1:], strict=True)))
        found.append((x, *torch.autograd.grad(x, leaves, g)))
    (x, by_h, *by_sides), (same, exactly_h, *exactly_sides) = found
    assert torch.equal(x, same)
    assert not torch.allclose(by_h, exactly_h)
    for own, whole in zip(by_sides, exactly_sides, strict=True):
        torch.testing.assert_close(own, whole)


@pytest.mark.parametrize("name", WAYS)
def test_a_compiled_layer_leaks_as_an_eager_one(name: str) -> None:
    leaky, _ = layers(name)
    h, g = 3 * draw(16, 3), draw(16, *leaky.polyhedron.shape, seed=1)
    compiled = torch.compile(leaky, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(grads(compiled, h, g), grads(leaky, h, g))


@pytest.mark.parametrize("name", WAYS)
def test_gradients_of_single_samples_leak_and_forward_mode_has_the_derivative(name: str) -> None:
    leaky, exact = layers(name)
    h = 3 * draw(8, 3)
    single = torch.func.vmap(torch.func.grad(lambda v: leaky(v).sum()))(h)
    torch.testing.assert_close(single, grads(leaky, h, torch.ones(8, *leaky.polyhedron.shape)))
    tangents = (torch.func.jvp(own, (h,), (torch.ones_like(h),))[1] for own in (leaky, exact))
    torch.testing.assert_close(*tangents)


def test_second_derivatives_are_those_of_the_formula() -> None:
    """Each pass goes back through the map and past it; d counts as a constant."""
    u, share = (3 * draw(4, 5)).requires_grad_(), 0.3
    x = leaking(damped(u, share).clamp(-1, 1), u, Leak(share))
    (slope,) = torch.autograd.grad(x.pow(3).sum(), u, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), u)
    inside, d, x = (u.abs() < 1).double(), (u - x).detach(), x.detach()

    def back(g: Tensor) -> Tensor:
        return (1 - share) * inside * g + share * along_the_set(g, d)

    torch.testing.assert_close(second, back(6 * x * back(torch.ones_like(x))))


def test_first_and_second_derivatives_of_the_shrink_are_those_of_its_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A training step takes the shrink and its leak as one node."""
    layer, h, g = layers("shrink")[0], 3 * draw(8, 3), draw(8, 3, seed=1)

    def derivatives() -> tuple[Tensor, Tensor]:
        x = h.clone().requires_grad_()
        (first,) = torch.autograd.grad((layer(x).sin() * g).sum(), x, create_graph=True)
        return grads(layer, h, g), torch.autograd.grad(first.square().sum(), x)[0]

    as_one_node = derivatives()
    monkeypatch.setattr(Steps, "leaking", Seen.leaking)
    torch.testing.assert_close(as_one_node, derivatives())


def test_the_leak_is_named_where_there_is_one() -> None:
    assert "leak=0.1" in repr(rh.Projection(P, leak=0.1))
    assert "leak" not in repr(rh.Projection(P))
    assert "0.1 of the gradient leaks" in rh.Constrained(2, POLYTOPE).describe()
    assert "leak" not in rh.Constrained(2, P, leak=0.0).describe()


def test_a_way_without_an_unconstrained_point_takes_no_leak() -> None:
    assert rh.Constrained(2, P, method="rays").leak == 0.0
    with pytest.raises(ValueError, match="unconstrained point to leak to.*method='nearest'"):
        rh.Constrained(2, P, method="rays", leak=0.1)
    assert rh.Constrained(2, P, method="nearest", leak=0.2).leak == 0.2


@pytest.mark.parametrize("way", ["steps", "one row", "blocks"])
def test_an_exported_layer_in_training_mode_has_the_gradient_of_the_layer(way: str) -> None:
    """In tensor operations, which run elsewhere, too: JAX has it from there."""
    Q, method = WAYS[way]
    layer, h = rh.Constrained(3, Q, method=method, dtype=torch.float64), 9 * draw(5, 3)
    program, g = torch.export.export(layer, (h.clone().requires_grad_(),)).module(), draw(5, *Q.shape, seed=1)
    assert torch.allclose(grads(program, h, g), grads(layer, h, g), atol=1e-9)
    assert not torch.allclose(grads(layer.eval(), h, g), grads(program, h, g), atol=1e-3)
    assert torch.allclose(program(h), layer(h), atol=1e-12)
