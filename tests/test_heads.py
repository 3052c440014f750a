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
    inside = P.contains(said, atol=-1e-9)
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
    for method in ("shrink", "vertices", "projection"):
        ax = rh.Constrained(3, P, method=method).plot()
        assert ax.get_xlabel() == "x"
        assert len(ax.lines) + len(ax.collections) > 2
    assert rh.MapInto(rh.monotone(4), strict=True).plot((0, 3)).get_ylabel() == "x[3]"
    matplotlib.pyplot.close("all")
