"""Heads for models that exist: what a trained Linear said is kept inside the set, and the set always holds."""

import pytest
import torch
from torch import nn

import rayhull as rh
from tests.zoo import ZOO, cross_polytope


@pytest.mark.parametrize("name", ["monotone", "box", "cross-polytope", "ordered grid", "checkerboard", "random cone"])
def test_a_head_says_what_the_linear_said_inside_the_set(name):
    P = ZOO[name]()
    torch.manual_seed(0)
    linear = nn.Linear(6, P.dim, dtype=torch.float64)
    with torch.no_grad():
        linear.bias.copy_(torch.as_tensor(P.interior_point()).flatten())
        linear.weight.mul_(0.5)
    head = rh.Constrained.from_linear(linear, P)
    h = torch.randn(400, 6, dtype=torch.float64) * torch.logspace(-3, 5, 400, dtype=torch.float64)[:, None]
    said, x = linear(h).reshape(400, *P.shape), head(h)
    inside = (P.slack(said).values > 1e-9).all(-1)
    assert 20 < inside.sum() < 400
    assert (P.violation(x) <= 1e-12 * (1 + said.flatten(1).abs().amax(1))).all()
    torch.testing.assert_close(x[inside], said[inside], rtol=1e-9, atol=1e-9)


def test_constrain_replaces_a_named_linear_and_training_goes_on():
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.ModuleDict({"a": nn.Identity()})["a"], nn.Linear(8, 5))
    P = rh.monotone(5) & rh.box(0, 1)
    assert rh.constrain(model, "3", P, strict=True) is model
    assert isinstance(model[3], rh.Constrained)
    x = model(torch.randn(16, 3))
    assert P.contains_exactly(x).all()
    x.sum().backward()
    assert model[3].linear.weight.grad.abs().sum() > 0
    deep = nn.ModuleDict({"decoder": nn.Sequential(nn.ReLU(), nn.Linear(4, 3, bias=False))})
    rh.constrain(deep, "decoder.1", rh.simplex(3))
    assert rh.simplex(3).contains(deep["decoder"](torch.randn(2, 4))).all()


def test_what_cannot_be_replaced_is_refused_with_the_names_there_are():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with pytest.raises(ValueError, match="no Linear called 'head': it has 0"):
        rh.constrain(model, "head", rh.monotone(4))
    with pytest.raises(ValueError, match="no Linear called '1'"):
        rh.constrain(model, "1", rh.monotone(4))
    with pytest.raises(ValueError, match="4 outputs but the set has 5 coordinates"):
        rh.constrain(model, "0", rh.monotone(5))
    with pytest.raises(ValueError, match="moves points of the set too"):
        rh.Constrained.from_linear(nn.Linear(2, 3), cross_polytope(3), method="vertices")


def test_layers_are_drawn():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    P = rh.parse("x + y <= 1; -x + 2*y <= 1; x >= -1; y >= -1; x <= 3/4")
    for method in ("shrink", "vertices", "nearest"):
        ax = rh.Constrained(3, P, method=method).plot()
        assert ax.get_xlabel() == "x"
        assert len(ax.lines) + len(ax.collections) > 2
    assert rh.MapInto(rh.monotone(4), strict=True).plot((0, 3)).get_ylabel() == "x[3]"
    matplotlib.pyplot.close("all")


def test_a_pointwise_convolution_becomes_a_head_at_every_pixel():
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 4, 1, bias=False), nn.Conv2d(4, 4, 3))
    before, h = model[2], torch.randn(2, 6, 5, 7)
    P = rh.simplex(4)
    rh.constrain(model, "2", P, strict=True, method="nearest")
    x, said = model[2](h), before(h)
    assert x.shape == said.shape == (2, 4, 5, 7)
    pixels = x.movedim(1, -1)
    torch.testing.assert_close(pixels, rh.project(P, said.movedim(1, -1)), rtol=1e-5, atol=1e-5)
    assert rh.nonnegative(4).contains_exactly(pixels).all()
    with pytest.raises(ValueError, match="no Linear called '3': it has 2.linear"):  # 3 x 3 is no Linear
        rh.constrain(model, "3", P)
    with pytest.raises(ValueError, match="no Linear called '0'"):  # pixels of padding would be lost
        rh.constrain(nn.Sequential(nn.Conv2d(6, 4, 1, padding=1)), "0", P)
    rh.constrain(again := nn.Sequential(nn.Conv2d(6, 4, 1, bias=False)), "0", P, strict=True, method="nearest")
    again.load_state_dict({"0.weight": before.weight})
    torch.testing.assert_close(again(h), x)
    with pytest.raises(ValueError, match="4 outputs but the set has 3 coordinates"):
        rh.constrain(nn.Sequential(nn.Conv2d(6, 4, 1)), "0", rh.simplex(3))


def test_a_head_takes_the_options_of_layers():
    model = nn.Sequential(nn.Linear(3, 4))
    P = rh.Polyhedron([[1, 2, 3, 4], [4, 3, 2, 1]], 1, lower=-1)
    rh.constrain(model, "0", P, steps=40, strict=True, base=-torch.ones(4).mul(0.5).numpy())
    assert "40 steps and a shrink, as asked" in model[0].describe()
    assert P.contains_exactly(model(10 * torch.randn(64, 3))).all()
    with pytest.raises(TypeError, match="no option 'stricter'"):
        rh.constrain(nn.Sequential(nn.Linear(3, 4)), "0", P, stricter=True)


@pytest.mark.parametrize("strict", [False, True])
def test_a_layer_needs_no_bias(strict):
    P = rh.monotone(5) & rh.box(0, 1)
    layer, h = rh.Constrained(3, P, bias=False, strict=strict, batch_norm=True), torch.randn(16, 3)
    assert set(dict(layer.named_parameters())) == {"linear.weight", "batch_norm.weight", "batch_norm.bias"}
    layer(h).sum().backward()
    layer.eval()
    assert P.contains(layer(h)).all()
    torch.testing.assert_close(layer.fold()(h), layer(h))
    again = rh.Constrained(3, P, bias=False, strict=strict, batch_norm=True).eval()
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(h), layer(h))


def test_what_loads_where():
    """A checkpoint holds the weights, the geometry that they are relative to, and the mark of the set."""
    P, h = rh.monotone(5) & rh.box(0, 1), torch.randn(8, 3)
    layer = rh.Constrained(3, P)
    state = layer.state_dict()
    assert set(state) == {"linear.weight", "linear.bias", "map._extra_state", "map.parts.0.way.base",
                          "map.parts.0.way.units"}  # fmt: skip
    for options in ({"strict": True}, {"leak": 0.0}, {"smooth": True}, {"infeasible": "nan"}):  # switches: same weights
        other = rh.Constrained(3, P, **options)
        other.load_state_dict(state)
        torch.testing.assert_close(other(h), layer(h), rtol=1e-5, atol=1e-5)
    same = rh.Constrained(3, rh.Polyhedron(P.A, P.b, lower=0, upper=1))  # the same rows, stated again
    same.load_state_dict(state)
    weights = {name: value for name, value in state.items() if name.startswith("linear")}
    bare = rh.Constrained(3, P)
    assert bare.load_state_dict(weights, strict=False).unexpected_keys == []  # the geometry comes from the set
    assert torch.equal(bare(h), layer(h))
    with pytest.raises(RuntimeError, match="another set"):
        rh.Constrained(3, rh.monotone(5) & rh.box(0, 2)).load_state_dict(state)
    with pytest.raises(RuntimeError, match="base is not what this version of rayhull derives"):
        rh.Constrained(3, P, base=P.interior_point() * 0.9).load_state_dict(state)
    with pytest.raises(RuntimeError, match="size mismatch|Missing key"):
        rh.Constrained(3, P, method="vertices").load_state_dict(state)


def test_a_checkpoint_of_the_plain_model_loads_after_a_linear_was_constrained() -> None:
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    trained = {name: torch.randn_like(value) / 4 for name, value in plain.state_dict().items()}
    model = rh.constrain(plain, "2", rh.box(-100, 100, 3))
    model.load_state_dict(trained)
    h = torch.randn(8, 4)
    free = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    free.load_state_dict(trained)
    assert torch.allclose(model(h), free(h), atol=1e-4)


def test_a_side_that_was_said_to_vary_and_is_forgotten_is_named_once() -> None:
    layer = rh.Constrained(3, rh.sum_to(1, 4) & rh.box(0, 1), varies={"b_eq": (0.5, 2.0)})
    h = torch.randn(2, 3)
    with pytest.warns(UserWarning, match="b_eq vary with the sample.*the stated values are taken"):
        layer(h)
    layer(h)
    layer(h, b_eq=torch.ones(2, 1))
