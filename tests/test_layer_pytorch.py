"""Ordinary PyTorch: checkpoints, casts, compile, export, ONNX, vmap, autocast, DDP, pickle, hub."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import pickle
import shutil
import socket
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import rayhull as rh
from rayhull.nn.export import to_onnx
from tests.zoo import ZOO

P = rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1)
SETS = {
    "one row and bounds": lambda: P,
    "vertices": lambda: rh.simplex((2, 3)),
    "steps": lambda: rh.Polyhedron([[1, 2, 0], [0, -1, 1], [-1, 0, -1], [2, 1, 1]], 1, lower=-2, upper=2),
    "several kinds": lambda: rh.product(rh.simplex(3), rh.box(-1, 1, 2), rh.monotone(4)),
    "sparse rows": lambda: rh.ordered(None, (6, 6)) & rh.box(0, 1),
}


def inequalities(Q: rh.Polyhedron) -> rh.Polyhedron:
    """What strict holds exactly: the set without its equalities."""
    rows = (Q.A, Q.b) if len(Q.inequalities) else (None, None)
    return rh.Polyhedron(*rows, lower=Q.lower, upper=Q.upper, shape=Q.shape)


METHOD = {"steps": "steps"}  # others take what auto takes
OPTIONS = {"plain": {}, "strict": {"strict": True}}


@pytest.mark.parametrize("kind", SETS)
def test_copies_pickles_and_checkpoints_give_the_same_outputs(kind: str) -> None:
    Q, h = SETS[kind](), torch.randn(5, 4)
    layer = rh.Constrained(4, Q, batch_norm=True, method=METHOD.get(kind, "auto")).eval()
    expected = layer(h)
    stored = io.BytesIO()
    torch.save(layer.state_dict(), stored)
    stored.seek(0)
    fresh = rh.Constrained(4, Q, batch_norm=True, method=METHOD.get(kind, "auto")).eval()
    fresh.load_state_dict(torch.load(stored, weights_only=True))
    for other in (fresh, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(h), expected)


def test_a_checkpoint_of_another_set_or_of_the_future_is_refused() -> None:
    state = rh.Constrained(4, P).state_dict()
    with pytest.raises(RuntimeError, match="another set"):
        rh.Constrained(4, rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-2, 2)).load_state_dict(state)
    state["map._extra_state"][1] = 99
    with pytest.raises(RuntimeError, match="version 99"):
        rh.Constrained(4, P).load_state_dict(state)


def test_safetensors_carry_the_layer(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    layer, h = rh.Constrained(4, P), torch.randn(3, 4)
    safetensors.save_model(layer, str(tmp_path / "layer.safetensors"))
    fresh = rh.Constrained(4, P)
    safetensors.load_model(fresh, str(tmp_path / "layer.safetensors"))
    assert torch.equal(fresh(h), layer(h))


def test_a_cast_to_float64_restores_the_geometry() -> None:
    third = rh.Polyhedron([[1 / 3, 0.1, 0.7]], [1.0], lower=-1, upper=1)
    wide = rh.Constrained(4, third, dtype=torch.float64)
    cast = rh.Constrained(4, third).half().double()
    for (name, a), b in zip(wide.map.named_buffers(), cast.map.buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_the_layer_works_in_other_dtypes(dtype: torch.dtype) -> None:
    layer = rh.Constrained(4, P, dtype=dtype)
    x = layer(torch.randn(7, 4, dtype=dtype))
    assert x.dtype == dtype
    assert bool(P.contains(x, atol=64 * torch.finfo(dtype).eps).all())
    x.sum().backward()
    assert layer.linear.weight.grad is not None


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("option", OPTIONS)
def test_export_is_one_graph_with_a_dynamic_batch(kind: str, option: str) -> None:
    layer = rh.Constrained(4, SETS[kind](), method=METHOD.get(kind, "auto"), **OPTIONS[option]).eval()
    program = torch.export.export(layer, (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    h = torch.randn(9, 4)
    assert torch.allclose(program.module()(h), layer(h), atol=1e-6)


@pytest.mark.parametrize("option", OPTIONS)
def test_compile_makes_one_graph(option: str) -> None:
    layer = rh.Constrained(4, P, **OPTIONS[option])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    h = torch.randn(6, 4)
    assert torch.allclose(compiled(h), layer(h), atol=1e-6)
    compiled(h).sum().backward()
    assert layer.linear.weight.grad is not None


@pytest.mark.skipif(not shutil.which("c++"), reason="torch.compile needs a C++ compiler")
def test_compile_makes_code_that_stays_inside() -> None:
    layer = rh.Constrained(4, rh.monotone(6) & rh.box(-1, 1), strict=True)
    x = layer.fold(compile=True)(torch.randn(32, 4))
    assert bool(layer.polyhedron.contains_exactly(x).all())


IN_FILES = {"one row and bounds": "plain", "several kinds": "strict", "steps": "strict"}


@pytest.mark.parametrize("kind", IN_FILES)
def test_onnx_runs_with_any_batch_and_stays_inside(kind: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    P, strict = SETS[kind](), IN_FILES[kind] == "strict"
    layer = rh.Constrained(4, P, batch_norm=True, strict=strict, method=METHOD.get(kind, "auto")).eval()
    path = to_onnx(layer.fold(), 4, tmp_path / "layer.onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch in (1, 17):
        h = 10 * torch.randn(batch, 4)
        x = torch.as_tensor(session.run(None, {"features": h.numpy()})[0])
        assert torch.allclose(x, layer(h), atol=1e-5)
        assert bool(P.contains(x, atol=1e-5).all())
        assert not strict or bool(inequalities(P).contains_exactly(x).all())


@pytest.mark.parametrize("option", OPTIONS)
def test_vmap_and_double_backward(option: str) -> None:
    layer = rh.Constrained(4, P, **OPTIONS[option])
    h = torch.randn(5, 4)
    assert torch.allclose(torch.vmap(layer)(h), layer(h), atol=1e-6)
    parameters = dict(layer.named_parameters())

    def loss(p: dict[str, torch.Tensor], sample: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, p, (sample,)).square().sum()

    slopes = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, h)
    assert slopes["linear.weight"].shape == (5, *layer.linear.weight.shape)
    h.requires_grad_()
    (slope,) = torch.autograd.grad(layer(h).square().sum(), h, create_graph=True)
    slope.square().sum().backward()
    assert bool(h.grad.isfinite().all())  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:.* steps leave")
@pytest.mark.parametrize("method", ["auto", "steps", "shrink"])
@pytest.mark.parametrize("name", ZOO)
def test_the_derivative_forwards_is_the_one_backwards(name: str, method: str) -> None:
    into = rh.MapInto(ZOO[name](), method=method, dtype=torch.float64)
    torch.manual_seed(0)
    c = torch.randn(4, into.coefficients, dtype=torch.float64, requires_grad=True)
    for strict in (False, True):
        with contextlib.suppress(rh.RayhullError):  # strict refuses inequalities that hold with equality everywhere
            into.strict = strict
        x = into(c)
        along, weights = torch.randn_like(c), torch.randn_like(x)
        tangent = torch.func.jvp(into, (c.detach(),), (along,))[1]
        (slope,) = torch.autograd.grad(x, c, weights)
        torch.testing.assert_close((tangent * weights).sum(), (slope * along).sum(), atol=1e-8, rtol=1e-8)


def test_a_side_that_is_as_stated_has_its_derivative_forwards() -> None:
    Q = rh.Polyhedron([[1, 2, 0], [2, 1, 1]], 1, lower=-2, upper=2)
    into = rh.MapInto(Q, method="steps", dtype=torch.float64)
    c, b = 3 * torch.ones(1, 3, dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
    tangent = torch.func.jvp(lambda b: into(c, b=b), (b,), (torch.ones_like(b),))[1]
    torch.testing.assert_close(tangent, (into(c, b=b + 1e-6) - into(c, b=b - 1e-6)) / 2e-6, atol=1e-6, rtol=0)
    assert bool(tangent.any())


def test_autocast_runs_the_linear_in_bfloat16() -> None:
    layer = rh.Constrained(4, P)
    with torch.autocast("cpu", torch.bfloat16):
        x = layer(torch.randn(6, 4))
    assert bool(P.contains(x.float(), atol=0.05).all())


@pytest.mark.parametrize("method", ["auto", "steps", "vertices"])
def test_geometry_is_never_computed_in_halves(method: str) -> None:
    Q = rh.Polyhedron([[1 / 3, 0.7, 0.1], [-0.2, 0.9, -1.1]], 1.0, lower=-1, upper=1)
    single, half = rh.MapInto(Q, method=method), rh.MapInto(Q, method=method, dtype=torch.bfloat16)
    c = torch.randn(64, single.coefficients).bfloat16()
    assert torch.equal(half(c), single(c.float()).bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        inside = single(c.float())
    assert torch.equal(inside, single(c.float()))


def test_meta_device_and_to_empty_bring_the_geometry_back() -> None:
    layer = rh.Constrained(4, rh.monotone(5), device="meta").to_empty(device="cpu")
    layer.reset_parameters()
    assert bool(layer.polyhedron.contains(layer(torch.randn(3, 4))).all())


def test_repr_and_describe_say_which_way_and_why() -> None:
    layer = rh.Constrained(4, SETS["several kinds"]())
    assert "by vertices, bounds, nearest" in repr(layer)
    assert "the nearest point by its structure: a chain" in layer.describe()
    assert "2 blocks of 1: the nearest point by its structure: bounds alone" in layer.describe()


def _process(rank: int, train: Callable[[int], None], port: int, done: Barrier) -> None:
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)
    torch.manual_seed(0)
    train(rank)
    done.wait(60)  # neither leaves while the other still talks to it
    os._exit(0)  # all is checked: torch's threads abort now and then while they are taken down


def _in_two_processes(train: Callable[[int], None]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = torch.multiprocessing.get_context("spawn").Barrier(2)
    torch.multiprocessing.spawn(_process, (train, port, done), nprocs=2)


def _train(rank: int) -> None:
    layer = nn.parallel.DistributedDataParallel(rh.Constrained(4, P))
    optimiser = torch.optim.SGD(layer.parameters(), 0.1)
    torch.manual_seed(rank)
    for _ in range(2):
        optimiser.zero_grad()
        layer(torch.randn(8, 4)).square().sum().backward()
        optimiser.step()
    both = [torch.zeros_like(layer.module.linear.weight) for _ in range(2)]
    torch.distributed.all_gather(both, layer.module.linear.weight.detach())
    assert torch.equal(*both)
    assert bool(P.contains(layer(torch.randn(8, 4))).all())


def _train_sharded(rank: int) -> None:
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
    alone = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), rh.Constrained(8, P))
    sharded = copy.deepcopy(alone)
    fully_shard(sharded[2], mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimisers = [torch.optim.SGD(m.parameters(), 0.1) for m in (alone, sharded)]
    for step in range(3):
        h = torch.randn(
            8, 4, generator=torch.Generator().manual_seed(step)
        )  # the same on both, so that one alone agrees
        outputs = [model(h) for model in (alone, sharded)]
        assert torch.allclose(*outputs, atol=1e-5)
        assert bool(P.contains(outputs[1]).all())
        for x, optimiser in zip(outputs, optimisers, strict=True):
            optimiser.zero_grad()
            x.square().sum().backward()
            optimiser.step()
    assert sharded[2].linear.weight.to_local().numel() < alone[2].linear.weight.numel()


@pytest.mark.slow
def test_two_processes_share_the_weights_of_one_layer() -> None:
    _in_two_processes(_train_sharded)


@pytest.mark.slow
def test_two_processes_train_together() -> None:
    _in_two_processes(_train)


def test_the_hub_mixin_saves_and_loads_the_set_too(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    from rayhull.nn.hub import HubConstrained

    layer = HubConstrained(4, rh.monotone(5) & rh.box(-1, 1), batch_norm=True).eval()
    layer.save_pretrained(tmp_path)
    again = HubConstrained.from_pretrained(str(tmp_path)).eval()
    h = torch.randn(3, 4)
    assert torch.equal(again(h), layer(h))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "Q", [rh.sum_to(0, 3), rh.Polyhedron([[1, 1], [-1, -1], [1, -2]], 1, lower=-1, upper=1)], ids=repr
)
def test_features_of_zero_have_a_derivative_in_graphs(Q: rh.Polyhedron, training: bool) -> None:
    layer = rh.Constrained(3, Q, method="nearest", base=torch.zeros(Q.dim)).train(training)
    h = torch.zeros(2, 3)  # and no bias yet: the point before the map is 0
    layer(h).square().sum().backward()
    slope = torch.func.jacrev(layer)(h[0])
    assert torch.allclose(slope, torch.autograd.functional.jacobian(layer, h[0]), atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["nearest", "steps", "shrink"])
def test_fake_tensors_have_shapes_and_gradients(method: str, strict: bool) -> None:
    layer = rh.Constrained(3, rh.convex(5) & rh.box(-1, 1), method=method, strict=strict)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        h, lower = (fake.from_tensor(t) for t in (torch.randn(4, 3), torch.full((5,), -0.5)))
        for given in ({}, {"lower": lower}):
            x = layer(h.requires_grad_(), **given)
            x.sum().backward()
            assert x.shape == (4, 5)
            assert h.grad.shape == h.shape
