"""Every set of the zoo, every side that it may take, every way in: each sample inside its own set."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rayhull as rh
from tests.slopes import stated_sides
from tests.zoo import ZOO

WAYS: dict[str, dict[str, Any]] = {
    "auto": {},
    "nearest": {"method": "nearest"},
    "steps": {"method": "steps", "steps": 5},
    "shrink": {"method": "shrink"},
    "vertices": {"method": "vertices"},
    "rays": {"method": "rays"},
}
NO_APEX = {  # no point where rows meet, so that method="rays" is refused
    "box", "simplex", "simplex along an axis", "lipschitz", "capped simplex", "conserves", "corridor", "cross-polytope",
    "random floats in a box", "far from the origin", "equalities and bounds", "implicit equality",
    "ramps", "storage", "flow", "marginals", "birkhoff",
}  # fmt: skip
PAIRS = [(name, way) for name in ZOO for way in WAYS if way != "rays" or name not in NO_APEX]
POLYTOPE = [way for way in WAYS if way != "rays"]  # ways into a set without an apex
N = 6


@functools.cache
def layer_of(name: str, way: str, strict: bool = False, dtype: torch.dtype = torch.float64) -> rh.Constrained:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="5 steps leave")
        return rh.Constrained(3, ZOO[name](), strict=strict, dtype=dtype, **WAYS[way])


def varied(P: rh.Polyhedron) -> Iterator[dict[str, Tensor]]:
    """For each side the set may take: values of N samples around the stated ones, the set's own centre inside."""
    generator = torch.Generator().manual_seed(0)
    middle = torch.as_tensor(P.interior_point().ravel())

    def noise(*shape: int) -> Tensor:
        return torch.rand(N, *shape, generator=generator, dtype=torch.float64)

    A, E = (torch.as_tensor(rows.matrix.toarray()) for rows in (P.inequalities, P.equalities))
    if len(A):
        slack = (torch.as_tensor(P.inequalities.rhs) - A @ middle).clamp(0.05, 10)
        yield {"b": A @ middle + (0.5 + noise(len(A))) * slack}
        rows = A + 0.1 * (noise(*A.shape) - 0.5)
        yield {"A": rows, "b": rows @ middle + (0.5 + noise(len(A))) * slack}
    if len(E):
        yield {"b_eq": (middle * (0.95 + 0.1 * noise(P.dim))) @ E.mT}  # of a point: equalities may be dependent
        rows = E + 0.1 * (noise(*E.shape) - 0.5)
        yield {"A_eq": rows, "b_eq": rows @ middle}
    above = (torch.as_tensor(P.upper_bounds) - middle).clamp(0.2, 3)
    below = (middle - torch.as_tensor(P.lower_bounds)).clamp(0.2, 3)
    upper, lower = (
        (middle + s * (0.5 + noise(P.dim)) * room).reshape(N, *P.shape) for s, room in ((1, above), (-1, below))
    )
    yield from ({"upper": upper}, {"lower": lower}, {"lower": lower, "upper": upper})


def inequalities(P: rh.Polyhedron) -> rh.Polyhedron:
    """The set without its equalities, which no float meets exactly."""
    A, b = (P.A, P.b) if len(P.inequalities) else (None, None)
    return rh.Polyhedron(A, b, lower=P.lower, upper=P.upper, shape=P.shape)


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_the_stated_values_give_the_same_points(name: str, way: str) -> None:
    torch.manual_seed(0)
    layer = layer_of(name, way)
    sides = stated_sides(layer.polyhedron)
    for given in (*({side: value} for side, value in sides.items()), sides):
        each = {side: value.expand(N, *value.shape) for side, value in given.items()}
        for scale in (1e-2, 3.0, 1e3):
            h = scale * torch.randn(N, 3, dtype=torch.float64)
            x = layer(h).detach()
            assert torch.allclose(layer(h, **each), x, rtol=0, atol=1e-9 * (1 + float(x.abs().max()))), (scale, *given)


@pytest.mark.parametrize("way", ["nearest", "steps", "shrink"])
def test_the_stated_values_for_more_samples_than_features_give_the_same_points(way: str) -> None:
    torch.manual_seed(0)
    P = rh.Polyhedron([[1, 1, 1]], 3, lower=[0, 1, -1], upper=[2, 1, 5])  # one coordinate has a single value
    layer = rh.Constrained(3, P, dtype=torch.float64, **WAYS[way])
    h = 3 * torch.randn(5, 3, dtype=torch.float64)
    x = layer(h).expand(2, 5, 3)
    for name, value in stated_sides(P).items():
        found = layer(h, **{name: value.expand(2, 5, *value.shape)})
        assert found.shape == x.shape
        assert torch.allclose(found, x, rtol=0, atol=1e-12), name


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("way", ["nearest", "steps", "shrink"])
def test_stated_values_in_a_shorter_dtype_hold_as_they_were_given(way: str, strict: bool) -> None:
    P = rh.Polyhedron([[1, 1], [1, -2]], [0.7, 0.9], lower=-1, upper=0.7)
    torch.manual_seed(0)
    for own, shorter in (
        (torch.float64, torch.float32),
        (torch.float32, torch.float16),
        (torch.float16, torch.float16),
    ):
        layer = rh.Constrained(3, P, strict=strict, **WAYS[way]).to(own)  # float32(0.7) and float16(0.9) are less
        h = 5 * torch.randn(100, 3).to(own)
        for name, value in stated_sides(P).items():
            sides = {name: value.to(shorter)}
            x = layer(h, **sides)
            held = P.contains_exactly(x, **sides) if strict else P.contains(x, **sides)
            assert bool(held.all()), (own, name)


def test_a_strict_layer_holds_right_hand_sides_that_its_dtype_rounds_to_zero() -> None:
    P = rh.Polyhedron([[1e-12, 2e-12], [-3e-12, 1e-12]], 1e-12, lower=-2, upper=2)
    torch.manual_seed(0)
    layer = rh.Constrained(3, P, method="shrink", strict=True, dtype=torch.float16)
    b = torch.full((50, 2), 1e-12).half()  # 0
    assert bool(P.contains_exactly(layer(torch.randn(50, 3).half(), b=b), b=b).all())


@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_every_sample_is_inside_its_own_set(name: str, way: str) -> None:
    torch.manual_seed(0)
    layer = layer_of(name, way)
    P = layer.polyhedron
    for sides in varied(P):
        for scale in (1e-2, 1.0, 1e3):
            x = layer(scale * torch.randn(N, 3, dtype=torch.float64), **sides)
            size = max(1.0, float(x.detach().abs().max()))
            assert bool(P.contains(x, atol=1e-9 * size, **sides).all()), (scale, *sides)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("name", "way"), PAIRS)
def test_a_strict_layer_keeps_the_samples_inequalities_exactly(name: str, way: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    if name == "implicit equality":
        with pytest.raises(rh.RayhullError, match="State them as equalities"):
            layer_of(name, way, strict=True, dtype=dtype)
        return
    layer = layer_of(name, way, strict=True, dtype=dtype)
    P = layer.polyhedron
    for sides in ({side: value.to(dtype) for side, value in given.items()} for given in varied(P)):
        for scale in (1e-2, 1.0, 1e3):
            x = layer(scale * torch.randn(N, 3, dtype=dtype), **sides)
            given = {side: value for side, value in sides.items() if side not in ("A_eq", "b_eq")}
            assert bool(inequalities(P).contains_exactly(x, **given).all()), (scale, *sides)
            size = max(1.0, float(x.detach().abs().max()))
            assert bool(P.contains(x, atol=(1e-9 if dtype == torch.float64 else 1e-4) * size, **sides).all()), scale


# -- samples of every kind in one batch --------------------------------------------------------------------------------

CORNER = rh.Polyhedron([[1, 1]], 1, lower=-1, upper=1)  # x + y <= b in a box, all of it of the sample
MIXED: dict[str, tuple[float, list[float], list[float]]] = {
    "ordinary": (1.0, [-1, -1], [1, 1]),
    "empty": (9.0, [2, -1], [1, 1]),
    "a line": (9.0, [1, -1], [1, 1]),
    "a point": (9.0, [1, 2], [1, 2]),
    "thin": (9.0, [1 - 1e-7, -1], [1, 1]),
    "unbounded": (1.0, [-torch.inf, -torch.inf], [0, 0]),
    "far": (9999.0, [1000, 500], [1001, 501]),
}
FEASIBLE = torch.tensor([name != "empty" for name in MIXED])
SOLID = torch.tensor([name not in ("empty", "a line", "a point") for name in MIXED])


def mixed(way: str, infeasible: str, *, strict: bool = False) -> tuple[Tensor, dict[str, Tensor]]:
    """Points for the mixed batch, and its sides."""
    torch.manual_seed(0)
    layer = rh.Constrained(3, CORNER, infeasible=infeasible, strict=strict, dtype=torch.float64, **WAYS[way])
    b, lower, upper = (torch.tensor(side, dtype=torch.float64) for side in zip(*MIXED.values(), strict=True))
    sides = {"b": b[:, None], "lower": lower, "upper": upper}
    return layer(10 * torch.randn(len(b), 3, dtype=torch.float64), **sides).detach(), sides


def some(sides: dict[str, Tensor], which: Tensor) -> dict[str, Tensor]:
    return {name: value[which] for name, value in sides.items()}


@pytest.mark.parametrize("way", POLYTOPE)
def test_one_empty_sample_spoils_no_other(way: str) -> None:
    x, sides = mixed(way, "nan")
    assert bool(CORNER.contains(x[SOLID], **some(sides, SOLID)).all())
    assert x[~FEASIBLE].isnan().all()


@pytest.mark.parametrize("way", POLYTOPE)
def test_flat_samples_go_to_the_nearest_point_and_empty_ones_to_the_least_violation(way: str) -> None:
    x, sides = mixed(way, "least")
    assert bool(CORNER.contains(x[FEASIBLE], **some(sides, FEASIBLE)).all())
    assert float(CORNER.violation(x[~FEASIBLE], **some(sides, ~FEASIBLE))) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("way", POLYTOPE)
def test_an_empty_sample_is_refused_unless_asked_otherwise(way: str) -> None:
    with pytest.raises(rh.EmptySetError, match="samples? .*1"):
        mixed(way, "raise")


@pytest.mark.parametrize("way", POLYTOPE)
def test_strict_proves_a_sample_or_gives_nan(way: str) -> None:
    x, sides = mixed(way, "nan", strict=True)
    proven = ~x.isnan().any(-1)
    assert bool(proven[SOLID].all())
    assert not bool(proven[~FEASIBLE].any())
    assert bool(CORNER.contains_exactly(x[proven], **some(sides, proven)).all())
    with pytest.raises(rh.RayhullError, match="sample.* 1"):
        mixed(way, "raise", strict=True)


# -- batches and bad input ---------------------------------------------------------------------------------------------

CROSS = rh.Polyhedron([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], 1)


@pytest.mark.parametrize("way", POLYTOPE)
@pytest.mark.parametrize("side", ["b", "A", "upper"])
def test_batches_of_none_one_and_many(way: str, side: str) -> None:
    layer = rh.Constrained(3, CROSS, dtype=torch.float64, **WAYS[way])
    value = {"b": torch.full((5,), 2.0), "A": 2 * torch.as_tensor(CROSS.A), "upper": torch.full((2,), 0.5)}[side]
    sides = {side: value.double()}
    h = torch.randn(4, 3, dtype=torch.float64)
    together = layer(h, **sides)
    assert torch.allclose(layer(h[:1], **sides), together[:1], atol=1e-12)
    assert torch.allclose(layer(h[0], **sides), together[0], atol=1e-12)
    assert layer(h[:0], **sides).shape == (0, 2)
    assert layer(h[:0], **{side: value.double().expand(0, *value.shape)}).shape == (0, 2)


@pytest.mark.parametrize(("way", "strict"), [("steps", True), ("nearest", False)])
def test_a_hundred_thousand_samples(way: str, strict: bool) -> None:
    n = 100_000
    layer = rh.Constrained(3, CROSS, strict=strict, **WAYS[way])
    b = 0.5 + torch.rand(n, 5)
    with torch.no_grad():
        x = layer(10 * torch.randn(n, 3), b=b)
    assert float(CROSS.violation(x.double(), b=b.double()).max()) <= (0 if strict else 1e-6)


def test_a_hundred_thousand_matrices_of_the_sample() -> None:
    n = 100_000
    layer = rh.Constrained(3, rh.Polyhedron([[1, 0, 0], [0, 1, 0]], 1), strict=True)
    A, b = torch.randn(n, 2, 3), torch.randn(n, 2)
    with torch.no_grad():
        x = layer(10 * torch.randn(n, 3), A=A, b=b)
    assert bool(((A.double() @ x.double()[:, :, None])[:, :, 0] <= b.double()).all())


@pytest.mark.parametrize("way", POLYTOPE)
@pytest.mark.parametrize(
    ("sides", "error", "message"),
    [
        ({"b": torch.ones(4, 3)}, ValueError, r"b must have shape \(\*, 5\), got \(4, 3\)"),
        ({"b": torch.ones(3, 5)}, ValueError, r"do not broadcast: points \(4,\), b \(3,\)"),
        ({"A": torch.ones(4, 5)}, ValueError, r"A must have shape \(\*, rows, 2\), got \(4, 5\)"),
        ({"A": torch.ones(3, 5, 2)}, ValueError, r"do not broadcast: points \(4,\), A \(3,\)"),
        ({"b_eq": torch.ones(4, 1)}, ValueError, "b_eq was given, but the set states no A_eq: give A_eq too"),
        ({"upper": torch.ones(4, 3)}, ValueError, r"upper must have shape \(\*, 2\), got \(4, 3\)"),
        ({"h": torch.ones(4, 1)}, TypeError, "unknown side 'h': the sides are A, b, A_eq, b_eq, lower, upper"),
        ({"b": torch.tensor([[1.0] * 5, [1.0] * 4 + [torch.nan]] * 2)}, ValueError, "b must hold numbers, got NaN"),
        ({"A": torch.full((4, 5, 2), torch.nan)}, ValueError, "A must hold numbers, got NaN"),
        ({"upper": torch.full((4, 2), torch.nan)}, ValueError, "upper must hold numbers, got NaN"),
        (
            {"A_eq": torch.ones(3, 1, 2), "b_eq": torch.ones(3, 1)},
            ValueError,
            r"points \(4,\), b_eq \(3,\), A_eq \(3,\)",
        ),
    ],
)
def test_bad_input_is_told_so(way: str, sides: dict[str, Tensor], error: type[Exception], message: str) -> None:
    layer = rh.Constrained(3, CROSS, dtype=torch.float64, **WAYS[way])
    with pytest.raises(error, match=message):
        layer(torch.randn(4, 3, dtype=torch.float64), **sides)


@pytest.mark.parametrize("way", POLYTOPE)
@pytest.mark.parametrize("given", [2, [2.0] * 5, np.full(5, 2), torch.tensor(2), torch.full((4, 5), 2)], ids=str)
def test_sides_may_be_numbers_lists_arrays_and_integers(way: str, given: Any) -> None:
    layer, h = rh.Constrained(3, CROSS, **WAYS[way]), torch.randn(4, 3)
    torch.testing.assert_close(layer(h, b=given), layer(h, b=torch.full((4, 5), 2.0)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("way", POLYTOPE)
@pytest.mark.parametrize("name", ["equalities and bounds", "triangle"])
def test_gradients_agree_with_finite_differences_in_rows_of_the_sample(name: str, way: str) -> None:
    """Those in the other sides are in test_sides_gradients.py."""
    torch.manual_seed(1)
    layer, h = layer_of(name, way), torch.randn(2, 3, dtype=torch.float64)
    for sides in (given for given in varied(layer.polyhedron) if {"A", "A_eq"} & set(given)):
        own = {side: value[:2].clone().requires_grad_() for side, value in sides.items()}

        def points(*values: Tensor, names: tuple[str, ...] = tuple(own)) -> Tensor:
            return layer(h, **dict(zip(names, values, strict=True)))

        assert torch.autograd.gradcheck(points, tuple(own.values()), atol=1e-4, rtol=1e-3), tuple(own)


# -- graphs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["shrink", "steps", "nearest"])
@pytest.mark.parametrize("side", ["b", "upper"])
def test_sides_are_inputs_of_compiled_and_exported_programs(way: str, side: str) -> None:
    torch.manual_seed(0)
    layer, n = rh.Constrained(3, CORNER, dtype=torch.float64, **WAYS[way]), torch.export.Dim("n")
    h, value = 5 * torch.randn(7, 3, dtype=torch.float64), 0.5 + torch.rand(7, {"b": 1, "upper": 2}[side]).double()
    x = layer(h, **{side: value})
    program = torch.export.export(
        layer, (h[:3],), {side: value[:3]}, dynamic_shapes={"features": {0: n}, side: {0: n}}
    ).module()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for made in (compiled, program):
        assert torch.allclose(made(h, **{side: value}), x, atol=1e-12)
    assert bool(CORNER.contains(x, **{side: value}).all())


@pytest.mark.parametrize("strict", [False, True])
def test_rows_of_the_sample_are_inputs_of_a_compiled_program(strict: bool) -> None:
    torch.manual_seed(0)
    layer = rh.Constrained(3, rh.Polyhedron([[1, 0, 0], [0, 1, 0]], 1), strict=strict, dtype=torch.float64)
    h, A, b = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, 3), (6, 2, 3), (6, 2)))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(h, A=A, b=b), layer(h, A=A, b=b), atol=1e-12)


@pytest.mark.parametrize("way", ["shrink", "steps", "nearest"])
@pytest.mark.parametrize("side", ["b", "upper"])
def test_vmap_takes_the_sides_of_each_sample(way: str, side: str) -> None:
    torch.manual_seed(0)
    layer = rh.Constrained(3, CORNER, dtype=torch.float64, **WAYS[way])
    h, value = 5 * torch.randn(7, 3, dtype=torch.float64), 0.5 + torch.rand(7, {"b": 1, "upper": 2}[side]).double()

    def loss(features: Tensor, own: Tensor) -> Tensor:
        return layer(features, **{side: own}).square().sum()

    assert torch.allclose(torch.vmap(loss)(h, value), layer(h, **{side: value}).square().sum(-1), atol=1e-12)
    slopes = torch.vmap(torch.func.grad(loss, argnums=1))(h, value)
    leaf = value.clone().requires_grad_()
    assert torch.allclose(slopes, torch.autograd.grad(loss(h, leaf), leaf)[0], atol=1e-12)


def test_a_base_point_without_slack_gives_nan_in_a_vmap_and_another_point_outside() -> None:
    layer = rh.Constrained(3, CORNER, method="shrink", dtype=torch.float64)
    h, b = torch.randn(2, 3, dtype=torch.float64), torch.tensor([[1.0], [-1.5]], dtype=torch.float64)
    x = torch.vmap(lambda features, own: layer(features, b=own))(h, b)
    assert bool(CORNER.contains(x[:1], b=b[:1]).all())
    assert bool(x[1].isnan().all())
    assert bool(CORNER.contains(layer(h, b=b), b=b).all())
    slope = torch.func.grad(lambda features: layer(features, b=b).sum())(h)  # no vmap: its numbers are in sight
    assert bool(slope.isfinite().all())


def within(how: str, layer: rh.Constrained, h: Tensor, **sides: Tensor) -> Tensor:
    """What a layer gives in a graph or in a vmap."""
    if how == "vmap":
        return torch.vmap(lambda features, own: layer(features, **own))(h, sides)
    if how == "export":
        return torch.export.export(layer, (h,), sides).module()(h, **sides)
    return torch.compile(layer, fullgraph=how == "fullgraph", backend="eager")(h, **sides)


@pytest.mark.parametrize("how", ["vmap", "export", "fullgraph"])
def test_nearest_points_are_refused_where_numbers_are_hidden_and_the_advice_serves(how: str) -> None:
    torch.manual_seed(0)
    layer, ranged = (
        rh.Constrained(3, CORNER, method="shrink", strict=True, varies=varies, dtype=torch.float64)
        for varies in (None, {"b": (0.5, 2.0)})
    )
    h, b, A = (torch.rand(*shape, dtype=torch.float64) + 0.5 for shape in ((4, 3), (4, 1), (4, 1, 2)))
    with pytest.raises(Exception, match="skipped" if how == "fullgraph" else "call the layer outside") as caught:
        within(how, layer, h, A=A)
    assert how == "fullgraph" or caught.type is rh.RayhullError
    assert torch.allclose(within(how, layer, h, b=b), layer(h, b=b), atol=1e-12)  # the stated base point has slack
    assert torch.allclose(within(how, ranged, h, b=b), ranged(h, b=b), atol=1e-12)
    given = {"b": b, "base": torch.zeros(4, 2, dtype=torch.float64)}
    assert torch.allclose(within(how, layer, h, **given), layer(h, **given), atol=1e-12)
    assert bool(CORNER.contains_exactly(layer(h, A=A), A=A).all())  # outside


@pytest.mark.parametrize("how", ["vmap", "export", "fullgraph"])
def test_strict_nearest_points_take_sides_where_numbers_are_hidden(how: str) -> None:
    torch.manual_seed(0)
    P = rh.Polyhedron([[1, 2], [2, 1], [1, -1]], [1, 1, 2], lower=-1)
    layer, h, b = rh.Constrained(3, P, method="nearest", strict=True), 3 * torch.randn(5, 3), 0.5 + torch.rand(5, 3)
    x = within(how, layer, h, b=b)
    assert torch.equal(x, layer(h, b=b))
    assert bool(P.contains_exactly(x, b=b).all())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's, on functions that it does not trace
@pytest.mark.parametrize("method", ["shrink", "nearest"])
def test_a_compiled_program_of_several_graphs_takes_any_side(method: str) -> None:
    torch.manual_seed(0)
    layer = rh.Constrained(3, CORNER, method=method, dtype=torch.float64)
    h, A = torch.randn(4, 3, dtype=torch.float64), 0.5 + torch.rand(4, 1, 2, dtype=torch.float64)
    x = layer(h, A=A)
    with torch.no_grad():
        assert torch.allclose(within("several graphs", layer, h, A=A), x, atol=1e-12)


@pytest.mark.parametrize("way", POLYTOPE)
def test_a_strict_layer_keeps_coordinates_of_one_value_beside_sides_of_the_sample(way: str) -> None:
    P = rh.Polyhedron([[1, 1, 0.5]], 2, [[1, 1, 1]], [1], lower=[0, 0, 0.25], upper=[1, 1, 0.25])
    torch.manual_seed(0)
    layer = rh.Constrained(3, P, strict=True, dtype=torch.float64, **WAYS[way])
    sides = {"b": 1 + torch.rand(N, 1, dtype=torch.float64), "b_eq": 0.5 + torch.rand(N, 1, dtype=torch.float64) / 2}
    x = layer(9 * torch.randn(N, 3, dtype=torch.float64), **sides)
    assert bool(inequalities(P).contains_exactly(x, b=sides["b"]).all())
    assert bool((x[:, 2] == 0.25).all())


@pytest.mark.parametrize("way", ["steps", "shrink"])
def test_a_coordinate_of_one_value_is_kept_in_a_vmap_and_freed_outside(way: str) -> None:
    P = rh.Polyhedron([[1, 1, 1], [1, -1, 0.5]], [1, 1], lower=[0, 0, 0.1], upper=[1, 1, 0.1])
    torch.manual_seed(0)
    into = rh.MapInto(P, varies={"b": (0.8, 1.2)}, dtype=torch.float64, **WAYS[way])
    c, b = torch.randn(N, 3, dtype=torch.float64), 0.8 + 0.4 * torch.rand(N, 2, dtype=torch.float64)
    x = torch.func.vmap(lambda c, b: into(c, b=b))(c, b)
    assert torch.allclose(x, into(c, b=b), rtol=0, atol=1e-12)
    into = rh.MapInto(P, dtype=torch.float64, **WAYS[way])
    c = into.coefficients_of(torch.tensor([0.2, 0.2, 9.0], dtype=torch.float64))
    freed = into(c, upper=torch.tensor([1.0, 1.0, 0.3], dtype=torch.float64))
    assert float(freed[2]) > 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("way", POLYTOPE)
def test_strict_keeps_the_nearest_number_of_a_single_value_that_the_dtype_has_not(way: str, dtype: torch.dtype) -> None:
    P = rh.Polyhedron([[1, 1, 0.5]], 2, lower=[0, 0, 0.1], upper=[1, 1, 0.1])
    layer = rh.Constrained(3, P, strict=True, dtype=dtype, **WAYS[way])
    x = layer(torch.randn(N, 3).to(dtype), b=torch.tensor([1.5]))
    assert bool((x[:, 2] == torch.tensor(0.1, dtype=dtype)).all())
