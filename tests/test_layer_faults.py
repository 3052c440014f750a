"""What once went wrong at the edges of the layer, each with the input that showed it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rayhull as rh
from rayhull.nn.export import to_onnx

POLYTOPE = rh.Polyhedron(np.random.default_rng(0).standard_normal((12, 6)), 1.0)
WAYS = {
    "shrink": (lambda: rh.simplex((2, 3)), "shrink"),
    "rays and shrink": (lambda: rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1), "rays"),
    "nearest, many blocks": (lambda: rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1), "auto"),
    "nearest": (lambda: rh.ordered(None, (3, 3)), "auto"),
    "steps": (lambda: POLYTOPE, "steps"),
    "vertices": (lambda: rh.monotone(4) & rh.box(0, 1), "vertices"),
    "several kinds": (lambda: rh.product(rh.simplex(3), rh.box(-1, 1, 2), rh.monotone(4)), "auto"),
}


def half(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value.half() if value.is_floating_point() else value for name, value in state.items()}


@pytest.mark.parametrize("strict", [False, True])
def test_a_checkpoint_in_a_shorter_dtype_leaves_the_geometry_alone(strict: bool) -> None:
    torch.manual_seed(0)
    layer, fresh = (rh.Constrained(4, POLYTOPE, strict=strict) for _ in range(2))
    before = {name: value.clone() for name, value in fresh.map.named_buffers()}
    for state in (copy.deepcopy(layer).half().state_dict(), half(layer.state_dict())):
        fresh.load_state_dict(state)
        assert all(torch.equal(value, before[name]) for name, value in fresh.map.named_buffers())
        x = fresh(10 * torch.randn(1000, 4))
        assert bool((POLYTOPE.contains_exactly(x) if strict else POLYTOPE.contains(x)).all())


def test_a_checkpoint_with_another_base_point_is_refused_by_name() -> None:
    layer = rh.Constrained(4, POLYTOPE)
    state = layer.state_dict()
    state["map.parts.0.way.base"] += 0.01
    with pytest.raises(RuntimeError, match=r"parts\.0\.way\.base is not what this version of rayhull derives"):
        layer.load_state_dict(state)


@pytest.mark.parametrize("way", WAYS)
def test_strict_is_a_switch_and_checkpoints_go_both_ways(way: str) -> None:
    make, method = WAYS[way]
    P, h = make(), 10 * torch.randn(64, 4)
    trained, deployed = rh.Constrained(4, P, method=method), rh.Constrained(4, P, method=method, strict=True)
    assert trained.state_dict().keys() == deployed.state_dict().keys()
    deployed.load_state_dict(trained.state_dict())
    ordinary = trained(h)
    trained.strict = True
    assert torch.equal(trained(h), deployed(h))
    assert "strict" in trained.describe()
    trained.strict = False
    assert torch.equal(trained(h), ordinary)
    trained.load_state_dict(deployed.state_dict())
    assert torch.equal(trained(h), ordinary)


def test_a_set_that_strict_refuses_leaves_the_layer_as_it_was() -> None:
    P = rh.box(1000, 1001, 4) & rh.Polyhedron([[1, 1, 1, 1]], 4002)
    layer = rh.Constrained(3, P, dtype=torch.bfloat16)
    with pytest.raises(rh.RayhullError, match="too coarse"):
        layer.strict = True
    assert not layer.strict
    assert layer(torch.randn(2, 3).bfloat16()).shape == (2, 4)


@pytest.mark.parametrize("batch_norm", [False, True])
def test_weights_that_are_not_finite_come_out_as_nan_under_strict(batch_norm: bool) -> None:
    for P in (rh.monotone(4), rh.simplex(4), rh.box(0, 1, 4)):
        for value in (torch.nan, torch.inf):
            layer = rh.Constrained(3, P, strict=True, batch_norm=batch_norm).eval()
            with torch.no_grad():
                layer.linear.weight[0, 0] = value
            assert bool(layer(torch.randn(5, 3)).isnan().all())
            assert bool(layer.fold()(torch.randn(5, 3)).isnan().all())


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e160, 1e300])
@pytest.mark.parametrize("method", ["auto", "shrink", "vertices"])
def test_rows_of_any_scale_state_the_same_set(scale: float, method: str) -> None:
    rng = np.random.default_rng(1)
    A, chain = rng.standard_normal((5, 3)), np.array([[1.0, -1, 0], [0, 1, -1]])
    cases = [
        (rh.Polyhedron(A * scale, np.full(5, scale)), rh.Polyhedron(A, 1.0)),
        (rh.Polyhedron(chain * scale), rh.monotone(3)),
        (rh.Polyhedron(chain * scale, lower=-1, upper=1), rh.monotone(3) & rh.box(-1, 1)),
        (rh.Polyhedron(A_eq=np.full((1, 3), scale), b_eq=[scale], lower=0), rh.simplex(3)),
    ]
    for stated, plain in cases:
        for strict in (False, True):
            x = rh.Constrained(2, stated, method=method, strict=strict)(10 * torch.randn(200, 2))
            assert bool(plain.contains(x, atol=1e-4).all())
            assert float(x.detach().std()) > 1e-2  # no collapse to a point


def test_bounds_that_were_never_stated_are_added_by_the_call() -> None:
    P = rh.Polyhedron([[1.0, 1.0]], 1.0, upper=1)
    x = rh.Constrained(2, P, method="shrink")(10 * torch.randn(100, 2), lower=torch.full((2,), -1.0)).detach()
    assert float(x.min()) == -1.0
    free = rh.Constrained(2, rh.Polyhedron(shape=3))(10 * torch.randn(100, 2), upper=torch.full((3,), 0.5))
    assert bool((free <= 0.5).all())
    layer = rh.Constrained(2, rh.simplex(3), method="vertices")
    x = layer(10 * torch.randn(100, 2), upper=torch.full((3,), 0.5))
    assert bool((rh.simplex(3) & rh.box(0, 0.5)).contains(x).all())


def test_the_nearest_point_of_nan_is_nan_and_other_samples_are_left_alone() -> None:
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((8, 5)), 1.0, lower=-1, upper=1)
    for strict in (False, True):
        layer, h = rh.Constrained(3, P, method="nearest", strict=strict), torch.randn(6, 3)
        h[2, 1] = torch.nan
        x = layer(h)
        assert x.isnan().any(-1).tolist() == [False, False, True, False, False, False]
        assert bool(P.contains(x[[0, 1, 3, 4, 5]]).all())


def test_the_nearest_point_of_any_finite_input_is_inside() -> None:
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((8, 5)), 1.0, lower=-1, upper=1)
    layer = rh.Constrained(3, P, method="nearest", strict=True)
    for scale in (1e3, 1e8, 1e12, 1e30, 1e38):
        x = layer((torch.randn(50, 3, dtype=torch.float64) * scale).clamp(-3e38, 3e38).float())
        assert bool(P.contains_exactly(x).all())


def test_the_nearest_point_follows_every_side_of_the_sample() -> None:
    P = rh.Polyhedron([[1, 1, 0]], 2, A_eq=[[1, 1, 1]], b_eq=1, lower=0)
    demand, h = torch.rand(16, 1) + 0.5, torch.randn(16, 2)
    x = rh.Constrained(2, P, method="nearest")(h, b_eq=demand)
    assert torch.allclose(x.sum(-1, keepdim=True), demand, atol=1e-6)
    y = rh.Constrained(2, P, method="shrink")(h, b_eq=demand)
    assert torch.allclose(y.sum(-1, keepdim=True), demand, atol=1e-6)


def test_the_meta_device_takes_the_right_checkpoint_and_refuses_another() -> None:
    P = rh.monotone(5) & rh.box(-1, 1)
    trained, h = rh.Constrained(4, P, batch_norm=True).eval(), torch.randn(3, 4)
    layer = rh.Constrained(4, P, batch_norm=True, device="meta").to_empty(device="cpu").eval()
    with pytest.raises(RuntimeError, match="another set"):
        layer.load_state_dict(rh.Constrained(4, rh.monotone(5) & rh.box(-2, 2), batch_norm=True).state_dict())
    layer.load_state_dict(trained.state_dict())
    assert torch.equal(layer(h), trained(h))


@pytest.mark.parametrize("way", WAYS)
def test_averaged_models_average_buffers_too(way: str) -> None:
    make, method = WAYS[way]
    layer = rh.Constrained(4, make(), method=method)
    averaged = torch.optim.swa_utils.AveragedModel(layer, use_buffers=True)
    for _ in range(3):
        averaged.update_parameters(layer)
    assert torch.allclose(averaged(h := torch.randn(3, 4)), layer(h), atol=1e-6)


class Devices(TorchDispatchMode):
    """Notes the device of every tensor that an operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self.seen.add(tensor.device.type)
        return out


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_forward_pass_stays_on_the_layers_device(way: str, strict: bool) -> None:
    make, method = WAYS[way]
    layer = rh.Constrained(4, make(), method=method, strict=strict).to("meta")
    with Devices() as devices:
        x = layer(torch.empty(7, 4, device="meta"))
    assert devices.seen == {"meta"}
    assert x.device.type == "meta"


def test_arguments_in_the_wrong_place_are_told_where_they_belong() -> None:
    P: Any = rh.box(0, 1, 2)
    with pytest.raises(TypeError, match=r"features comes first, then the set: Constrained\(8, P\)"):
        rh.Constrained(P, 8)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"give rayhull\.Polyhedron\(A, b\)"):
        rh.Constrained(8, (np.eye(2), np.ones(2)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got ndarray: give rayhull\.Polyhedron\(A\) for A x <= 0"):
        rh.Constrained(3, np.eye(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="got ndarray"):
        rh.MapInto(np.eye(2))  # type: ignore[arg-type]
    for make in (rh.Constrained, rh.Constrained.from_linear):
        with pytest.raises(TypeError, match="no option 'metod': it takes method, steps, base, scale"):
            make(3 if make is rh.Constrained else torch.nn.Linear(3, 2), P, metod="rays")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="in_features must be an integer, got 2.5"):
        rh.Constrained(2.5, P)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_process_may_compile_any_number_of_folded_layers() -> None:
    for n in range(2, 12):
        layer = rh.Constrained(3, rh.monotone(n), strict=True)
        folded = layer.fold(compile=True)
        h = torch.randn(4, 3)
        assert torch.allclose(folded(h), layer(h), atol=1e-5)


@pytest.mark.parametrize("method", ["auto", "nearest", "steps"])
@pytest.mark.parametrize(
    ("varies", "message"),
    [
        ({"beq": (1, 2)}, "ranges for b, b_eq, lower, upper, got 'beq'"),
        ({"b_eq": 1.0}, r"a pair \(low, high\)"),
        ({"b_eq": (2, 1)}, "low <= high"),
    ],
)
def test_what_is_no_range_is_refused_by_every_method(method: str, varies: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rh.MapInto(rh.sum_to(1, 4) & rh.box(0, 1), method=method, varies=varies)


def test_a_side_of_the_sample_without_its_last_axis_is_told_how_to_get_it() -> None:
    P = rh.sum_to(1, 4) & rh.box(0, 1)
    message = r"b_eq must have shape \(\*, 1\), got \(5,\): one number for each sample is b_eq\[:, None\]\."
    demand = torch.rand(5)
    with pytest.raises(ValueError, match=message):
        rh.Constrained(8, P)(torch.randn(5, 8), b_eq=demand)
    with pytest.raises(ValueError, match=message):
        P.contains(torch.randn(5, 4), b_eq=demand)
    x = rh.Constrained(8, P)(torch.randn(5, 8), b_eq=demand[:, None])
    assert P.contains(x, b_eq=demand[:, None]).all()


def test_a_set_in_place_of_a_linear_is_refused() -> None:
    with pytest.raises(TypeError, match=r"an nn\.Linear first, then the set, got Polyhedron first"):
        rh.Constrained.from_linear(rh.simplex(3), torch.nn.Linear(2, 3))  # type: ignore[arg-type]


def test_an_export_that_fails_says_why(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    head = rh.Constrained(4, rh.monotone(3)).eval()
    with pytest.raises(rh.RayhullError, match=r"expected 4 features.* Does the model take 9 features \(in_features\)"):
        to_onnx(head, 9, tmp_path / "layer.onnx")
    with pytest.raises(ValueError, match="sides of an ONNX file are A, b, b_eq, lower, upper, got 'beq'"):
        to_onnx(head, 4, tmp_path / "layer.onnx", sides=("beq",))
