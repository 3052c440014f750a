"""Layers on an accelerator: a pretended one, which counts what is launched and what keeps the host waiting."""

from __future__ import annotations

import copy
import re
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch

import rayhull as rh
from benchmarks.device import birkhoff, counted, flow, storage, timed
from benchmarks.pretended import DEVICE, Count, Elsewhere
from rayhull.nn.export import to_onnx
from tests.zoo import ZOO

# launches of a closed form or a shrink, of a strict finish, of a step, in all; backwards of a step, and of the rest
CLOSED, STRICT, STEP, MOST = 53, 70, 12, 400
BACK, BACK_REST = 25, 140
MOST_LONG = 500  # where 96 steps are taken
SETS = {
    **ZOO,
    "birkhoff": lambda: birkhoff(9),
    "storage": lambda: storage(12),
    "flow": lambda: flow(8, 20),
    "long chain in a box": lambda: rh.monotone(100) & rh.box(-1, 1),
    "curve in a box": lambda: rh.convex(20) & rh.box(-1, 1),
}
every_set = pytest.mark.parametrize("name", SETS)


def built(name: str, **options: object) -> rh.Constrained:
    torch.manual_seed(0)
    try:
        return rh.Constrained(4, SETS[name](), **options)
    except rh.RayhullError as error:
        pytest.skip(str(error)[:60])


def on_device(layer: torch.nn.Module) -> torch.nn.Module:
    with Count():
        return copy.deepcopy(layer).to(DEVICE)


def run(layer, h: torch.Tensor, asks: frozenset[str] | set[str] = frozenset(), **sides: torch.Tensor):
    """Points, gradients by features and sides, and the counts of a forward and a backward pass."""
    leaves = {"h": h, **sides}
    with Count() as forward:
        leaves = {key: Elsewhere(v.clone()).requires_grad_() for key, v in leaves.items()}
        features, given = leaves["h"], {key: v for key, v in leaves.items() if key != "h"}
        layer(features, **given)  # constants of the first call
        forward.launches.clear()
        assert not forward.waits.keys() - {"copy to the device", *asks}
        forward.waits.clear()
        x = layer(features, **given)
    with Count() as backward:
        grads = torch.autograd.grad((x * torch.linspace(1, 2, x.shape[-1], device=DEVICE)).sum(), list(leaves.values()))
    return x.kept.detach(), dict(zip(leaves, (g.kept for g in grads), strict=True)), forward, backward


def as_graph(layer, h: torch.Tensor, **sides: torch.Tensor):
    """The same points and gradients by the same tensor operations on the CPU."""
    layer = copy.deepcopy(layer)
    layer.map.prepare()
    leaves = {key: v.clone().requires_grad_() for key, v in {"h": h, **sides}.items()}
    with pytest.MonkeyPatch.context() as patch:
        for module in ("rayhull.nn.ways", "rayhull.nn.per_sample", "rayhull.nn.map_into", "rayhull.projection.module"):
            patch.setattr(f"{module}.is_away", lambda device: device.type != "meta")
        patch.setattr("rayhull.maps.graphs.is_away", lambda device: device.type != "meta")
        for module in (
            "rayhull.nn.ways",
            "rayhull.maps.steps",
            "rayhull.nn.strict",
            "rayhull.nn.map_into",
            "rayhull.projection.project",
        ):
            patch.setattr(sys.modules[module], "is_plain", lambda x: False)  # one is named as its function
        x = layer(leaves["h"], **{key: v for key, v in leaves.items() if key != "h"})
        grads = torch.autograd.grad((x * torch.linspace(1, 2, x.shape[-1])).sum(), list(leaves.values()))
    return x.detach(), dict(zip(leaves, grads, strict=True))


def all_modules(module: torch.nn.Module):
    """Its modules, and those of the forms for devices, which are no modules of it."""
    for part in module.modules():
        yield part
        for form in getattr(part, "_forms", ()):
            yield from all_modules(form)


def steps_of(layer) -> int:
    return max((way.steps for way in all_modules(layer.map) if hasattr(way, "steps")), default=0)


def budget_back(layer) -> int:
    return BACK * steps_of(layer) + BACK_REST * len(layer.map.polyhedron.mirrored_groups)


def budget(layer, strict: bool) -> int:
    """What a layer may launch: a closed form, or so many a step; a strict finish for each kind of block."""
    steps, kinds = steps_of(layer), len(layer.map.polyhedron.mirrored_groups)
    return min(
        MOST, (CLOSED if not steps else CLOSED + STEP * steps) * max(1, kinds) + (STRICT * kinds if strict else 0)
    )


@every_set
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_no_layer_keeps_the_host_waiting_and_each_has_a_budget_of_launches(name: str, strict: bool) -> None:
    layer, h = built(name, strict=strict), 2 * torch.randn(8, 4)
    away = on_device(layer)
    x, grads, forward, backward = run(away, h)
    assert not forward.waits
    assert not backward.waits
    assert forward.launches.total() <= budget(away, strict)
    assert backward.launches.total() <= budget_back(away)
    expected, slopes = as_graph(layer, h)
    torch.testing.assert_close(x, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(grads["h"], slopes["h"], atol=1e-4, rtol=1e-4)
    P = layer.polyhedron
    assert bool(P.contains(x).all())
    rows = P.inequalities.matrix.toarray()
    if strict and len(rows):
        exact = rh.Polyhedron(P.inequalities.matrix, P.inequalities.rhs, lower=P.lower, upper=P.upper, shape=P.shape)
        assert bool(exact.contains_exactly(x).all())


@every_set
def test_points_inside_stay_where_they_are_and_others_differ_by_what_is_said(name: str) -> None:
    layer = built(name)
    into = layer.map
    if not into.keeps_inside:
        pytest.skip("weights of vertices")
    c = torch.randn(64, into.coefficients) * torch.logspace(-2, 0.5, 64)[:, None]
    with Count():
        x = copy.deepcopy(into).to(DEVICE)(Elsewhere(c)).kept
    near, free = into(c), into.unconstrained(c)
    inside = into.polyhedron.contains(free, atol=0)
    scale = 1 + free.abs().amax()
    torch.testing.assert_close(x[inside], free[inside], atol=2e-5 * float(scale), rtol=0)
    left = float((x - near).norm() / (near - near.mean(0)).norm())
    assert left < 0.03


def test_a_long_curve_between_bounds_takes_more_steps_and_ends_near() -> None:
    layer = rh.Constrained(4, rh.concave(40) & rh.box(-1, 1), strict=True)
    away = on_device(layer)
    assert "96 steps and a shrink, which leave 2." in away.describe()  # 72: 11 %
    _, _, forward, backward = run(away, torch.randn(8, 4))
    assert not forward.waits + backward.waits
    assert forward.launches.total() <= MOST_LONG
    assert backward.launches.total() <= BACK // 2 * steps_of(away) + BACK_REST


@pytest.mark.parametrize("name", ["convex", "long curve", "ordered grid", "birkhoff"])
@pytest.mark.parametrize("method", ["nearest", "steps", "shrink"])
def test_every_way_runs_on_a_device(name: str, method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few steps
        layer = built(name, method=method)
    x, _, forward, backward = run(on_device(layer), torch.randn(8, 4))
    assert not forward.waits + backward.waits
    assert bool(layer.polyhedron.contains(x).all())
    if method == "shrink":
        assert forward.launches.total() <= CLOSED


def sides_of(P: rh.Polyhedron, n: int) -> dict[str, torch.Tensor]:
    """Every side that the set has, a little wider than stated; equalities as they are."""
    found, wider = {}, 1 + torch.rand(n, 1) / 10
    if len(P.inequalities):
        found["b"] = torch.as_tensor(P.inequalities.rhs, dtype=torch.float32) + wider / 20
    if len(P.equalities):
        found["b_eq"] = torch.as_tensor(P.equalities.rhs, dtype=torch.float32) * torch.ones(n, 1)
    if np.isfinite(P.upper_bounds).all():
        upper = torch.as_tensor(P.upper_bounds, dtype=torch.float32) + wider / 20
        found["upper"] = upper.reshape(n, *P.shape)
    return found


@every_set
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_sides_of_the_sample_keep_nobody_waiting_where_their_ranges_are_known(name: str, strict: bool) -> None:
    P, h = SETS[name](), torch.randn(8, 4)
    if name in ("implicit equality", "whole space"):
        pytest.skip("nothing to follow")
    sides = sides_of(P, 8)
    if not sides:
        pytest.skip("no such side")
    ranges = {key: (v.amin(0).double().numpy() - 1e-3, v.amax(0).double().numpy() + 1e-3) for key, v in sides.items()}
    if "b_eq" in ranges:
        ranges["b_eq"] = (P.equalities.rhs, P.equalities.rhs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = built(name, varies=ranges, strict=strict)
        away = on_device(layer)
    x, grads, forward, backward = run(away, h, **sides)
    assert not forward.waits + backward.waits
    assert forward.launches.total() <= MOST
    assert backward.launches.total() <= budget_back(away)
    expected, slopes = as_graph(layer, h, **sides)
    torch.testing.assert_close(x, expected, atol=1e-5, rtol=1e-5)
    for key, slope in slopes.items():
        torch.testing.assert_close(grads[key], slope, atol=1e-3, rtol=1e-3)
    assert float(P.violation(x, **sides).max()) < 1e-4


def test_without_ranges_a_device_is_asked_once_whether_base_points_serve() -> None:
    P, h = storage(12), torch.randn(8, 4)
    layer = built("storage")
    away = on_device(layer)
    b = torch.full((8, 24), 2.5)
    x, _, forward, backward = run_asking(away, h, b=b)
    assert forward.waits == {"_local_scalar_dense": 1}
    assert not backward.waits
    assert float(P.violation(x, b=b).max()) < 1e-5
    b[3, :12] = -0.1  # the stated base point is outside: the nearest point of that sample's own set
    x = run_asking(away, h, b=b)[0]
    torch.testing.assert_close(x[3], layer(h, b=b)[3], atol=1e-5, rtol=0)
    assert float(P.violation(x, b=b).max()) < 1e-5
    (lost,) = (
        (~run_asking(on_device(built("storage", varies={"b": (2.0, 3.0)})), h, b=b)[0].isfinite()).any(-1).nonzero()
    )
    assert lost.tolist() == [3]  # beyond the ranges that were stated: not a number, and nobody waits


def run_asking(layer, h: torch.Tensor, **sides: torch.Tensor):
    return run(layer, h, asks={"_local_scalar_dense", "nonzero", "index", "index_put_", "copy to the host"}, **sides)


def test_an_empty_set_of_a_sample_is_not_a_number_on_a_device() -> None:
    P = rh.box(0, 1, 3) & rh.Polyhedron([[1, 1, 1]], 2)
    away = on_device(rh.Constrained(4, P))
    b = torch.tensor([[2.0], [-1.0], [1.0]])
    x = run(away, torch.randn(3, 4), b=b)[0]
    assert x.isnan().all(-1).tolist() == [False, True, False]


def test_a_graph_takes_equalities_of_the_sample_beside_a_coordinate_of_one_value() -> None:
    """No base point is moved onto them, so that steps from the stated one would miss them."""
    P = rh.Polyhedron(
        [[1, 2, 0, 1], [0, 1, -1, 1]], [3, 2], [[1, 1, 1, 1]], [3], lower=[0, 0, 0, 1], upper=[4, 3, 2, 1]
    )
    layer, h, demand = rh.Constrained(4, P, method="nearest"), 3 * torch.randn(6, 4), torch.full((6, 1), 2.5)
    layer.map.prepare()
    program = torch.export.export(layer, (h,), {"b_eq": demand})
    torch.testing.assert_close(program.module()(h, b_eq=demand), layer(h, b_eq=demand), atol=1e-5, rtol=0)


def test_moving_a_layer_switches_its_way_and_keeps_its_weights(tmp_path) -> None:
    layer = built("long curve")
    assert "off the CPU" not in layer.describe()
    away = on_device(layer)
    assert "off the CPU and in exported graphs: 72 steps and a shrink, which leave 0." in away.describe()
    h = torch.randn(8, 4)
    with Count():
        assert away.state_dict().keys() == layer.state_dict().keys()
        back = copy.deepcopy(away).to("cpu")
    assert torch.equal(back(h), layer(h))
    with Count():
        made = rh.Constrained(4, rh.convex(40), device=DEVICE)
        made.load_state_dict(away.state_dict())
    assert made.describe() == away.describe()
    assert torch.equal(run(made, h)[0], run(away, h)[0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_cast_takes_the_form_with_it(dtype: torch.dtype) -> None:
    layer = built("convex")
    layer.map.prepare()
    (form,) = layer.map.parts[0].way._forms
    away = on_device(layer.to(dtype))
    assert form.rows_.dtype == torch.promote_types(dtype, torch.float32)  # halves are too coarse for geometry
    with Count() as count:
        x = away(Elsewhere(torch.randn(8, 4, dtype=dtype)))
    assert x.dtype == dtype
    assert not count.waits
    assert bool(layer.polyhedron.contains(x.kept, atol=1e-1 if dtype == torch.bfloat16 else 1e-9).all())


def test_features_that_are_not_finite_come_out_as_nan() -> None:
    h = torch.randn(4, 4)
    h[1, 0], h[2, 1] = torch.nan, torch.inf
    for name in ("convex", "sum_to", "monotone", "corridor"):
        x = run(on_device(built(name)), h)[0]
        assert x.flatten(1).isnan().all(1).tolist() == [False, True, True, False]


@pytest.mark.parametrize("name", ["convex", "monotone", "sum_to", "flow"])
@pytest.mark.parametrize("sided", [False, True], ids=["plain", "sides"])
def test_a_compiled_layer_is_one_graph(name: str, sided: bool) -> None:
    layer, h = built(name).eval(), torch.randn(8, 4)
    sides = sides_of(layer.polyhedron, 8) if sided else {}
    whole = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(whole(h, **sides), layer(h, **sides), atol=1e-5, rtol=1e-5)


def test_the_pretended_device_sees_what_waits() -> None:
    with Count() as count:
        x = Elsewhere(torch.ones(3))
        x.cpu(), bool((x > 0).all()), x[x > 0], torch.ones(3).to(DEVICE)
    assert count.waits == {"copy to the host": 1, "_local_scalar_dense": 1, "index": 1, "copy to the device": 1}
    with pytest.raises((RuntimeError, TypeError)):
        x.numpy()


def test_the_benchmark_counts_on_a_pretended_device_and_times_on_a_real_one() -> None:
    plain, strict = counted(["monotone(40)"])
    assert plain["waits"] == strict["waits"] == 0
    assert plain["forward"] <= CLOSED
    assert re.fullmatch(r"[1-9]\d* \+ \d+", plain["compiled"])
    (row,) = timed(["monotone(40)"], "cpu", rounds=1)
    assert row["layer"] > 0
    assert row["nearest point"] > 0


def test_every_default_layer_has_an_onnx_file(tmp_path) -> None:
    for name in ("convex", "storage"):
        check_onnx(name, tmp_path)


@pytest.mark.slow
@every_set
@pytest.mark.parametrize("sided", [False, True], ids=["strict", "sides"])
def test_every_set_has_an_onnx_file_that_stays_strict(name: str, sided: bool, tmp_path) -> None:
    try:
        check_onnx(name, tmp_path, strict=not sided, sided=sided)
    except rh.RayhullError as refused:  # what only a solver follows, with the way that can
        assert sided
        assert 'method="steps"' in str(refused)


def check_onnx(name: str, folder, *, strict: bool = False, sided: bool = False) -> None:
    """What comes out of the file, for another batch than it was traced with, is what the layer's form gives."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer, h = built(name, strict=strict), 2 * torch.randn(7, 4)
    P = layer.polyhedron
    sides = sides_of(P, 7) if sided else {}
    file = to_onnx(layer.fold(), 4, folder / "layer.onnx", sides=tuple(sides))
    feed = {"features": h.numpy(), **{key: side.numpy() for key, side in sides.items()}}
    (x,) = (torch.from_numpy(v) for v in runtime.InferenceSession(file).run(None, feed))
    torch.testing.assert_close(x, as_graph(layer.eval(), h, **sides)[0], atol=1e-4, rtol=1e-4)
    assert bool((P.violation(x, **sides) <= 1e-4 * x.flatten(1).abs().amax(1).clamp(min=1)).all())
    if strict:
        rows = torch.as_tensor(P.inequalities.matrix.toarray())
        b = sides.get("b", torch.as_tensor(P.inequalities.rhs))
        assert all(exactly_below(rows, point, side) for point, side in zip(x.flatten(1), b.expand(7, -1), strict=True))


def exactly_below(rows: torch.Tensor, point: torch.Tensor, side: torch.Tensor) -> bool:
    """A x <= b in rational arithmetic."""
    values = [Fraction(v) for v in point.tolist()]
    return all(
        sum(Fraction(a) * v for a, v in zip(row, values, strict=True) if a) <= Fraction(limit)
        for row, limit in zip(rows.tolist(), side.tolist(), strict=True)
    )
