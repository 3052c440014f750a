"""A set on any axis of a tensor, and a layer in standardised units: the same points as by hand."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

import rayhull as rh
from tests.zoo import ZOO

P = rh.Polyhedron([[1, 2, -1]], [1], A_eq=[[1, 1, 1]], b_eq=[2], lower=-1, upper=3)
X = 3 * torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TOTAL = torch.rand(2, 1, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


# -- along an axis ---------------------------------------------------------------------------------------------------


def test_the_nearest_point_on_an_axis_is_that_of_the_moved_tensor() -> None:
    by_hand = rh.project(P, X.movedim(1, -1), b_eq=TOTAL.movedim(1, -1)).movedim(-1, 1)
    assert torch.equal(rh.project(P, X, b_eq=TOTAL, axis=1), by_hand)
    assert torch.equal(rh.Projection(P, axis=1)(X, b_eq=TOTAL), by_hand)
    assert np.array_equal(rh.project(P, X.numpy(), b_eq=TOTAL.numpy(), axis=-3), by_hand.numpy())
    z, info = rh.project(P, X, axis=1, return_info=True)
    assert z.shape == X.shape
    assert info.residual.shape == (2, 4, 5)


def test_membership_looks_along_an_axis() -> None:
    z = rh.project(P, X, b_eq=TOTAL, axis=1)
    assert P.contains(z, b_eq=TOTAL, axis=1).shape == (2, 4, 5)
    assert P.contains(z, b_eq=TOTAL, axis=1).all()
    assert not P.contains(z, axis=1).any()
    assert torch.equal(P.violation(X, axis=1), P.violation(X.movedim(1, -1)))
    assert P.violation(z, b_eq=TOTAL, axis=1).max() < 1e-12
    assert not P.contains_exactly(X.numpy(), axis=1).any()
    assert P.contains(np.tile([[1], [0], [1]], 7), axis=0).all()


LAYERS: dict[str, Callable[..., torch.nn.Module]] = {
    "auto": lambda axis: rh.Constrained(3, P, axis=axis, dtype=torch.float64),
    "strict": lambda axis: rh.Constrained(3, P, axis=axis, strict=True, dtype=torch.float64),
    "steps, BatchNorm": lambda axis: rh.Constrained(3, P, axis=axis, steps=5, batch_norm=True, dtype=torch.float64),
    "vertices": lambda axis: rh.Constrained(3, rh.simplex(4), axis=axis, dtype=torch.float64),
    "MapInto": lambda axis: rh.MapInto(P, axis=axis, dtype=torch.float64),
}


@pytest.mark.filterwarnings("ignore:5 steps leave")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_a_layer_on_an_axis_is_the_layer_on_the_moved_tensor(name: str, training: bool) -> None:
    layer, moved = (LAYERS[name](axis).train(training) for axis in (1, -1))
    moved.load_state_dict(layer.state_dict())
    x, y = (X.clone().requires_grad_() for _ in range(2))
    sides = {} if name == "vertices" else {"b_eq": TOTAL}
    at_last = {side: value.movedim(1, -1) for side, value in sides.items()}
    out, same = layer(x, **sides), moved(y.movedim(1, -1), **at_last).movedim(-1, 1)
    assert torch.equal(out, same)
    out.square().sum().backward()
    same.square().sum().backward()
    assert torch.equal(x.grad, y.grad)  # type: ignore[arg-type]
    if name in ("auto", "strict"):
        assert torch.equal(layer.unconstrained(X), moved.unconstrained(X.movedim(1, -1)).movedim(-1, 1))
        assert torch.allclose(layer.fold()(X), layer.eval()(X), atol=1e-12)
    if name == "MapInto":
        assert torch.allclose(layer.unconstrained(layer.coefficients_of(X)), X)


def test_a_layer_on_an_axis_compiles_and_is_saved() -> None:
    layer = rh.Constrained(3, rh.monotone(4) & rh.box(0, 1), axis=1).eval()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    assert torch.allclose(compiled(X.float()), layer(X.float()), atol=1e-6)
    again = rh.Constrained(3, rh.monotone(4) & rh.box(0, 1), axis=1).eval()
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(X.float()), layer(X.float()))


def test_an_axis_is_for_sets_of_one_axis() -> None:
    for call in (
        lambda: rh.Constrained(3, rh.simplex((2, 3)), axis=1),
        lambda: rh.project(rh.simplex((2, 3)), X, axis=1),
        lambda: rh.simplex((2, 3)).contains(X, axis=1),
    ):
        with pytest.raises(ValueError, match=r"axis= is for sets of one axis, and this one has shape \(2, 3\)"):
            call()
    with pytest.raises(ValueError, match="expected 3 features on axis 1"):
        rh.Constrained(3, P, axis=1)(X.movedim(1, -1).float())


# -- units -----------------------------------------------------------------------------------------------------------

MEAN, STD = np.array([100.0, 0.3, -2e4]), np.array([25.0, 0.1, 3e3])
OTHER = rh.Polyhedron([[1, 300, 0.01]], [5], lower=[0, 0, -5e4], upper=[200, 1, 0])


@pytest.mark.parametrize("name", [name for name in ZOO if name != "whole space"])
def test_a_set_in_other_units_holds_the_same_points(name: str) -> None:
    Q = ZOO[name]()
    mean, std = Fraction(1, 3), np.arange(1, Q.dim + 1).reshape(Q.shape)
    other = Q.in_units(mean, std)
    assert other.is_exact == Q.is_exact
    z = other.sample(8, seed=0)
    assert Q.contains(float(mean) + std * z).all()
    assert other.contains((Q.sample(8, seed=0) - float(mean)) / std).all()
    assert other.in_units(-mean / std, [Fraction(1, int(s)) for s in std.ravel()]).same_set(Q)


def test_units_of_floats_are_rounded_and_names_stay() -> None:
    Q = rh.parse("limit: heat <= 1000 * share; heat >= 0; 0 <= share <= 1")
    other = Q.in_units([500.1, 0.3], [200.7, 0.1])
    assert other.coordinates == Q.coordinates
    assert list(other.rows.names) == list(Q.rows.names)
    assert other.upper.tolist() == [np.inf, pytest.approx(7)]


def test_a_layer_in_units_gives_the_nearest_point_in_them() -> None:
    layer = rh.Constrained(4, OTHER, units=(MEAN, STD), dtype=torch.float64).eval()
    h = 2 * torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    c = layer.linear(h)
    mean, std = torch.as_tensor(MEAN), torch.as_tensor(STD)
    assert torch.allclose(layer.unconstrained(h), mean + std * c)
    z = rh.project(OTHER.in_units(MEAN, STD), c)
    assert torch.allclose((layer(h) - mean) / std, z, atol=1e-9)
    assert OTHER.contains(layer(h)).all()
    assert torch.allclose(layer.fold()(h), layer(h), atol=1e-8)
    upper = torch.as_tensor([150.0, 0.5, -1e4]).expand(64, 3)
    near = rh.project(OTHER.in_units(MEAN, STD), c, upper=(upper - mean) / std)
    assert torch.allclose((layer(h, upper=upper) - mean) / std, near, atol=1e-9)
    rows = torch.as_tensor([[1.0, 100, 0.02]]).double()
    near = rh.project(OTHER.in_units(MEAN, STD), c, A=rows * std, b=torch.tensor([5.0]).double() - rows @ mean)
    assert torch.allclose((layer(h, A=rows) - mean) / std, near, atol=1e-6)


def test_a_strict_layer_in_units_is_strictly_inside() -> None:
    layer = rh.Constrained(4, OTHER, units=(torch.as_tensor(MEAN), torch.as_tensor(STD)), strict=True)
    x = layer(9 * torch.randn(256, 4, generator=torch.Generator().manual_seed(0)))
    assert OTHER.contains_exactly(x).all()
    assert bool((layer.unconstrained(torch.zeros(1, 4)) == torch.as_tensor(MEAN).float()).all())


def test_a_box_in_units_is_clamped() -> None:
    layer = rh.MapInto(rh.box(0, 1, 2), units=(0.5, [0.1, 10.0]))
    assert layer(torch.tensor([[1.0, 1.0], [-9.0, 0.01]])).tolist() == [
        [pytest.approx(0.6), 1.0],
        [0.0, pytest.approx(0.6)],
    ]


def test_training_in_units_learns_columns_of_very_different_size() -> None:
    torch.manual_seed(0)
    h = torch.randn(256, 4)
    w = torch.randn(4, 3)
    free = torch.as_tensor(MEAN) + torch.as_tensor(STD) * (h @ w).double()
    y = rh.project(OTHER, free, weights=STD**-2).float()
    layer = rh.Constrained(4, OTHER, units=(MEAN, STD))
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(200):
        optimizer.zero_grad()
        loss = ((layer(h) - y) / torch.as_tensor(STD).float()).square().mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.05


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"units": (0, 0)}, "std positive and finite"),
        ({"units": (np.zeros(2), 1)}, "mean must be a number or have shape"),
        ({"units": (0, 1), "method": "shrink"}, "units= go with the nearest point"),
        ({"units": (0,)}, r"units must be a pair, \(mean, std\) of the data, got \(0,\)"),
        ({"units": np.zeros((50, 2))}, r"units must be a pair, \(mean, std\) of the data, got \(50, 2\)\."),
        ({"units": (0, 1), "steps": 5}, "units= go with the nearest point"),
    ],
)
def test_units_that_cannot_be_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rh.MapInto(OTHER, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("P", [rh.monotone(4), rh.simplex(4) & rh.box(0, 0.6), rh.convex(5)], ids=str)
@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_a_layer_in_units_is_exported_with_the_distance_of_its_units(P, mean):
    torch.manual_seed(0)
    layer = rh.Constrained(8, P, units=(mean, np.arange(1.0, P.dim + 1)), dtype=torch.float64)
    x = torch.randn(64, 8, dtype=torch.float64)
    folded = layer.fold()
    assert torch.allclose(folded(x), layer(x), rtol=0, atol=1e-12)
    out = torch.export.export(folded, (x,)).module()(x)
    assert torch.allclose(out, layer(x), rtol=0, atol=5e-3)
    assert float(P.violation(out).max()) <= 1e-13


@pytest.mark.parametrize("side", ["b_eq", "lower"])
@pytest.mark.parametrize("mean", [0.0, 50.0])
def test_a_strict_layer_in_units_keeps_the_sides_of_the_sample(side: str, mean: float) -> None:
    """The mean of the data is not inside: neither eager calls nor graphs draw points towards it."""
    torch.manual_seed(0)
    Q = rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3, lower=0, upper=[4, 3, 2])
    layer = rh.Constrained(5, Q, strict=True, units=(np.full(3, mean), np.array([1.0, 2.0, 3.0]))).eval()
    given = {side: 2 + 2 * torch.rand(20, 1) if side == "b_eq" else -torch.rand(20, 3)}
    h = 3 * torch.randn(20, 5)
    x, rows = layer(h, **given), rh.Polyhedron([[1, -2, 0]], 0, lower=0, upper=[4, 3, 2])
    near = rh.project(Q, layer.unconstrained(h), weights=[1, 1 / 4, 1 / 9], **given)
    torch.testing.assert_close(x, near, atol=1e-4, rtol=0)
    layer.map.prepare()
    for points in (x, torch.export.export(layer, (h,), given).module()(h, **given)):
        assert Q.contains(points, **given).all()
        assert rows.contains_exactly(points, **{k: v for k, v in given.items() if k != "b_eq"}).all()
