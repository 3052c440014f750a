"""Stories of sets of the sample: ranges, base points of the call, programs and files; the contract has every set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps.closed_forms import onto_two_rows
from rayhull.nn.export import to_onnx
from rayhull.projection.sides import Sides

DTYPES = (torch.float32, torch.float64)


def dispatch() -> rh.Polyhedron:
    """Three plants meet a demand within their limits; the first yields at most twice the second."""
    return rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3, lower=0, upper=[4, 3, 2])


def test_a_stated_range_gives_a_proven_base_rule() -> None:
    P = dispatch()
    layer = rh.Constrained(4, P, method="steps", varies={"b_eq": (1.0, 6.0)}, dtype=torch.float64)
    rule = layer.map._per_sample.rule
    assert rule is not None
    assert bool((rule.slack > 0).all())
    demand = torch.linspace(1, 6, 50, dtype=torch.float64)[:, None]
    x = layer(10 * torch.randn(50, 4, dtype=torch.float64), b_eq=demand)
    assert bool(P.contains(x, b_eq=demand, atol=1e-9).all())
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    h = torch.randn(50, 4, dtype=torch.float64)
    assert torch.allclose(compiled(h, b_eq=demand), layer(h, b_eq=demand))
    assert torch.allclose(layer.fold()(h, b_eq=demand), layer(h, b_eq=demand))


def test_a_range_from_zero_to_minus_zero_is_a_range() -> None:
    layer = rh.Constrained(4, dispatch(), varies={"lower": (np.zeros(3), -np.zeros(3)), "b_eq": (1.0, 6.0)})
    assert layer(torch.randn(2, 4), b_eq=torch.ones(2, 1)).shape == (2, 3)


def test_sides_that_leave_the_stated_base_point_find_another() -> None:
    P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)
    layer, h = rh.Constrained(3, P, method="rays"), 10 * torch.randn(16, 3)
    upper = torch.full((16, 4, 4), -0.25)
    x = layer(h, b=torch.full((16, 4), 4.0), upper=upper)  # 0 is in none of these sets
    assert bool(P.contains(x, b=torch.full((16, 4), 4.0), upper=upper, atol=1e-5).all())
    with pytest.raises(rh.EmptySetError, match="samples 0, 1"):
        layer(h, upper=-2 * torch.ones(16, 4, 4))


def test_base_points_may_come_with_the_call() -> None:
    P = rh.Polyhedron([[1.0, 1.0]], 1.0)
    layer, n = rh.Constrained(3, P, method="shrink"), 32
    base = 5 * torch.randn(n, 2)
    b = base.sum(-1, keepdim=True) + 1
    x = layer(10 * torch.randn(n, 3), b=b, base=base)
    assert bool(P.contains(x, b=b, atol=1e-4).all())


@pytest.mark.parametrize("method", ["auto", "steps", "shrink"])
def test_samples_without_a_point_are_named_or_given_what_was_asked_for(method: str) -> None:
    P, demand, h = dispatch(), torch.tensor([[3.0], [100.0], [2.0]]), torch.randn(3, 4)
    with pytest.raises(rh.EmptySetError, match=r"of sample 1\."):
        rh.Constrained(4, P, method=method, varies={"b_eq": (1.0, 6.0)})(h, b_eq=demand)
    x = rh.Constrained(4, P, method=method, varies={"b_eq": (1.0, 6.0)}, infeasible="nan")(h, b_eq=demand)
    assert x.isnan().any(-1).tolist() == [False, True, False]
    least = rh.Constrained(4, P, method=method, varies={"b_eq": (1.0, 6.0)}, infeasible="least")(h, b_eq=demand)
    assert bool(least.isfinite().all())
    assert torch.allclose(least.sum(-1)[[0, 2]], demand[[0, 2], 0], atol=1e-5)
    with pytest.raises(rh.RayhullError, match="sample.* 1"):
        rh.Constrained(4, P, method=method, varies={"b_eq": (1.0, 6.0)}, strict=True)(h, b_eq=demand)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["steps", "shrink", "nearest"])
def test_a_base_point_off_the_equalities_is_not_taken(method: str, strict: bool) -> None:
    P, h = dispatch(), 3 * torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    layer, demand = rh.Constrained(4, P, method=method, strict=strict), torch.tensor([[3.0], [2.5], [2.5]])
    base = torch.tensor([[0.8, 1.2, 1.0], [0.8, 1.0, 0.7], [0.5, 1.0, 0.7]])  # the last one misses its demand
    x = layer(h, b_eq=demand, base=base)
    assert P.contains(x, b_eq=demand).all()
    if method != "nearest":
        torch.testing.assert_close(x[2], rh.project(P, layer.unconstrained(h), b_eq=demand)[2], atol=1e-5, rtol=0)
    hidden = torch.func.vmap(lambda u, own, at: layer(u, b_eq=own, base=at))(h, demand, base)
    assert hidden[2].isnan().all() or (method == "nearest" and not strict)
    assert P.contains(layer(h, base=base[[0, 0, 2]])).all()


@pytest.mark.parametrize("method", ["shrink", "steps", "nearest"])
def test_sides_keep_what_inequalities_hold_with_equality(method: str) -> None:
    """Both rows together say x1 = x2: no base point of the sample may leave that."""
    P = rh.Polyhedron([[1, -1, 0], [-1, 1, 0]], 0, A_eq=[[1, 2, 1]], b_eq=1, lower=-10, upper=10)
    layer, h, total = rh.Constrained(4, P, method=method), torch.randn(5, 4), torch.tensor([[2.0]])
    assert bool(P.contains(layer(h, b_eq=total), b_eq=total).all())
    assert bool(P.contains(layer(h, base=torch.tensor([1.0, 2.0, -4.0]))).all())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("size", "row"), [(1.0, 1e7), (1e-9, 1.0)])
def test_an_empty_set_is_empty_at_any_size(size: float, row: float, *, compiled: bool) -> None:
    P = rh.Polyhedron([[row, row]], [size * row], lower=[0, -size], upper=size)
    layer = rh.Constrained(3, P, method="nearest", infeasible="nan")
    b = torch.tensor([[-1.0 - 1e-3], [0.5], [1e-2]]) * size * row
    run = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    x = run(100 * torch.randn(3, 3), b=b)
    assert x.isnan().all(1).tolist() == [True, False, False]
    assert bool(P.contains(x[1:], b=b[1:]).all())


def test_a_checkpoint_does_not_depend_on_earlier_calls() -> None:
    used, fresh = (rh.Constrained(4, dispatch(), varies={"b_eq": (1.0, 6.0)}) for _ in range(2))
    h, demand = torch.randn(5, 4), torch.full((5, 1), 2.5)
    x = used(h, b_eq=demand)
    assert used.state_dict().keys() == fresh.state_dict().keys()
    fresh.load_state_dict(used.state_dict())
    assert torch.equal(fresh(h, b_eq=demand), x)
    fresh.load_state_dict(used.state_dict())


@pytest.mark.parametrize("way", ["shrink", "steps"])
def test_sides_are_inputs_of_an_onnx_file_where_the_base_point_stays(tmp_path, way: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    P = rh.Polyhedron([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], 1.0, lower=-1, upper=1)
    layer = rh.Constrained(4, P, method=way)
    given = {"b": 0.5 + torch.rand(5, 2), "upper": 0.5 + torch.rand(5, 3)}
    h, file = torch.randn(5, 4), to_onnx(layer, 4, tmp_path / "layer.onnx", sides=tuple(given))
    feed = {"features": h.numpy(), **{name: side.numpy() for name, side in given.items()}}
    (x,) = onnxruntime.InferenceSession(file).run(None, feed)
    assert torch.allclose(torch.as_tensor(x), layer(h, **given), atol=1e-5)


def test_sides_that_only_a_solver_follows_are_refused_by_the_onnx_exporter(tmp_path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(rh.RayhullError, match=r"need nearest points that only a solver finds here.*varies="):
        to_onnx(rh.Constrained(4, dispatch(), method="vertices"), 4, tmp_path / "layer.onnx", sides=("b_eq",))


def ruled(dtype: torch.dtype, **options: Any) -> rh.Constrained:
    """A layer of the dispatch whose base points come from an affine rule."""
    limits = torch.tensor([4.0, 3.0, 2.0])
    varies = {"b_eq": (2.0, 5.0), "upper": ((0.9 * limits).tolist(), (1.2 * limits).tolist())}
    return rh.Constrained(4, dispatch(), method="steps", varies=varies, dtype=dtype, **options).eval()


def a_day(n: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Demand and limits of n samples within the ranges of :func:`ruled`; the first asks for more than there is."""
    random = torch.Generator().manual_seed(0)
    demand = 2 + 3 * torch.rand(n, 1, generator=random)
    upper = torch.tensor([4.0, 3.0, 2.0]) * (0.9 + 0.3 * torch.rand(n, 3, generator=random))
    demand[0] = 50.0
    return {"b_eq": demand.to(dtype), "upper": upper.to(dtype)}


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sides_with_a_base_rule_are_inputs_of_a_program_and_of_an_onnx_file(tmp_path, dtype, strict: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    layer, given, h = ruled(dtype, strict=strict, infeasible="nan"), a_day(40, dtype), 30 * torch.randn(40, 4).to(dtype)
    expected = layer(h, **given)
    batch = torch.export.Dim("batch")
    program = torch.export.export(
        layer, (h[:3],), {n: s[:3] for n, s in given.items()},
        dynamic_shapes={"features": {0: batch}} | {name: {0: batch} for name in given},
    )  # fmt: skip
    file = to_onnx(layer.fold(), 4, tmp_path / "layer.onnx", sides=tuple(given))
    feed = {"features": h.numpy(), **{name: side.numpy() for name, side in given.items()}}
    (x,) = runtime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)
    without = rh.Polyhedron([[1, -2, 0]], 0, lower=0, upper=[4, 3, 2])
    for found in (program.module()(h, **given), torch.as_tensor(x)):
        assert bool(found[0].isnan().all())
        assert torch.allclose(found[1:], expected[1:], atol=1e-4 if dtype == torch.float32 else 1e-6)
        assert torch.allclose(found[1:].sum(-1, keepdim=True), given["b_eq"][1:], rtol=1e-5)
        inside = without.contains_exactly if strict else without.contains
        assert bool(inside(found[1:], upper=given["upper"][1:]).all())


@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_two_rows_of_the_sample_are_inputs_of_an_onnx_file(tmp_path, strict: bool) -> None:
    """A safe control layer: barrier rows A(s) u <= b(s) come with the state."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    P = rh.Polyhedron(np.eye(2), np.ones(2))
    torch.manual_seed(0)
    layer = rh.Constrained(4, P, strict=strict)
    angle = torch.linspace(0.3, 2.8, 40)[:, None] + torch.tensor([0.0, 1.0]) * torch.linspace(0.5, 2.5, 40)[:, None]
    random = torch.Generator().manual_seed(0)
    A = torch.stack([angle.cos(), angle.sin()], 2)
    h, b = 9 * torch.randn(40, 4, generator=random), torch.randn(40, 2, generator=random)
    A[0], b[0] = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([-1.0, -1.0])  # a slab with nothing in it
    file = to_onnx(layer.fold(), 4, tmp_path / "layer.onnx", sides=("A", "b"))
    feed = {"features": h.numpy(), "A": A.numpy(), "b": b.numpy()}
    (x,) = runtime.InferenceSession(file, providers=["CPUExecutionProvider"]).run(None, feed)
    found = torch.as_tensor(x)
    assert bool(found[0].isnan().all())
    assert torch.allclose(found[1:], layer(h[1:], A=A[1:], b=b[1:]), rtol=1e-4, atol=1e-4)
    assert not strict or bool(P.contains_exactly(found[1:], A=A[1:], b=b[1:]).all())


def test_a_layer_with_ranges_compiles_at_its_first_call() -> None:
    layer, given, h = ruled(torch.float64, infeasible="nan"), a_day(5, torch.float64), torch.randn(5, 4).double()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")(h, **given)
    assert torch.allclose(compiled[1:], layer(h, **given)[1:], atol=1e-12)


def test_one_or_two_rows_of_the_sample_give_the_nearest_point() -> None:
    """Rows at every angle, parallel ones too, that nothing, one or both of them bind."""
    random = torch.Generator().manual_seed(0)
    angle = torch.linspace(0, 3.0, 200, dtype=torch.float64)
    A = torch.stack([torch.stack([angle * 0 + 1, angle * 0], 1), torch.stack([angle.cos(), angle.sin()], 1)], 1)
    A = A * (0.1 + torch.rand(200, 2, 1, generator=random, dtype=torch.float64))
    b, u = (torch.randn(200, 2, generator=random, dtype=torch.float64) for _ in range(2))
    b[::7, 1] = torch.inf  # a row that says nothing
    for rows in (A, A[:, :1]):
        Q, rhs = rh.Polyhedron(np.eye(2)[: rows.shape[1]], np.ones(rows.shape[1])), b[:, : rows.shape[1]]
        near = rh.project(Q, 3 * u, A=rows, b=rhs.clamp_max(1e6))
        found, certified = onto_two_rows(3 * u, rows, rhs)
        found, _ = onto_two_rows(found, rows, rhs)
        assert bool(certified.all())
        assert torch.allclose(found, near, atol=1e-7)
        strict = rh.MapInto(Q, method="shrink", dtype=torch.float64, strict=True)
        assert bool(Q.contains_exactly(strict(3 * u, A=rows, b=rhs), A=rows, b=rhs.clamp_max(1e6)).all())
    slab = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]), torch.tensor([[-1.0, -1.0]])  # x >= 1 and x <= -1
    assert not onto_two_rows(torch.zeros(1, 2), *slab)[1]
    assert not onto_two_rows(torch.zeros(1, 2), torch.zeros(1, 1, 2), torch.tensor([[-1.0]]))[1]


# -- which way is taken ----------------------------------------------------------------------------------------------


def test_a_nearest_layer_gives_the_nearest_point_of_the_samples_own_set() -> None:
    """With stated ranges too: base points are for steps and for the strict finish."""
    torch.manual_seed(0)
    P, demand = dispatch(), torch.linspace(1, 6, 50, dtype=torch.float64)[:, None]
    for varies in (None, {"b_eq": (1.0, 6.0)}):
        layer = rh.Constrained(4, P, method="nearest", varies=varies, dtype=torch.float64)
        h = 10 * torch.randn(50, 4, dtype=torch.float64)
        near = rh.project(P, layer.unconstrained(h), b_eq=demand)
        several = layer(h.reshape(5, 10, 4), b_eq=demand.reshape(5, 10, 1)).reshape(50, -1)  # kernels take one axis
        for x in (layer(h, b_eq=demand), several, layer.eval()(h, b_eq=demand)):
            torch.testing.assert_close(x, near, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("options", [{"method": "nearest"}, {"method": "steps"}, {"method": "shrink"}], ids=str)
def test_a_point_of_the_samples_own_set_stays_where_it_is(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    P = rh.Polyhedron([[1.0, 1.0, 0.0], [0.0, -1.0, 1.0]], 1.0, lower=-1, upper=1)
    layer = rh.Constrained(4, P, dtype=torch.float64, **options)
    h, b = torch.randn(200, 4, dtype=torch.float64), 0.5 + torch.rand(200, 2, dtype=torch.float64)
    u, x = layer.unconstrained(h), layer(h, b=b)
    inside = P.contains(u, b=b)
    assert 20 < int(inside.sum()) < 180
    assert torch.allclose(x[inside], u[inside], atol=1e-12)
    assert float((x - u)[~inside].detach().abs().amax(-1).min()) > 0


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink"])
def test_a_row_that_nothing_moves_is_not_certified_once_its_side_is_broken(method: str, strict: bool) -> None:
    P = rh.Polyhedron([[1, 1]], [1], A_eq=[[1, 1]], b_eq=[0], lower=-9, upper=9)  # x + y is the sample's, and at most 1
    layer = rh.Constrained(3, P, method=method, infeasible="nan", strict=strict, varies={"b_eq": (-1.0, 1.0)})
    x = layer(torch.randn(2, 3), b_eq=torch.tensor([[0.5], [1.05]]))
    assert x.isnan().any(-1).tolist() == [False, True]


def test_tile_means_of_the_sample_go_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image of 32x32 with 64 means: a clipped shift for each tile, never rows of the whole image."""
    monkeypatch.setattr("rayhull.projection.sample_rows.nearest", None)
    monkeypatch.setattr("rayhull.nn.per_sample.PerSample.points", None)
    P = rh.conserves((32, 32), (8, 8), means=np.full((8, 8), 0.5)) & rh.box(0, 1)
    layer, means = rh.Constrained(8, P), 0.1 + 0.8 * torch.rand(16, 64)
    (block,) = layer.map.parts[0].way.nearest.projector.plan()
    assert (block.count, block.form.matrix.count) == (64, 1)
    x = layer(9 * torch.randn(16, 8), b_eq=means)
    assert P.contains(x, b_eq=means).all()
    x.sum().backward()


# -- a whole model as an ONNX file -----------------------------------------------------------------------------------


class Plant(torch.nn.Module):
    """A model whose arguments have names of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = torch.nn.Linear(5, 4), ruled(torch.float32)

    def forward(self, h: torch.Tensor, b_eq: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(h).relu(), b_eq=b_eq)


class Renamed(Plant):
    def forward(self, h: torch.Tensor, demand: torch.Tensor) -> torch.Tensor:
        return super().forward(h, demand)


def test_a_whole_model_with_sides_is_exported_whatever_its_first_argument_is_called(tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    torch.manual_seed(0)
    model, h, demand = Plant().eval(), torch.randn(7, 5), torch.linspace(2, 5, 7)[:, None]
    file = to_onnx(model, 5, tmp_path / "model.onnx", sides=("b_eq",))
    (x,) = runtime.InferenceSession(file).run(None, {"features": h.numpy(), "b_eq": demand.numpy()})
    assert torch.allclose(torch.as_tensor(x), model(h, demand), atol=1e-5)


def test_a_model_that_has_no_argument_for_a_side_is_told_so(tmp_path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises((ValueError, rh.RayhullError), match="b_eq"):
        to_onnx(Renamed().eval(), 5, tmp_path / "model.onnx", sides=("b_eq",))


def test_a_strict_layer_with_cones_takes_base_points_of_several_batch_dimensions() -> None:
    torch.manual_seed(0)
    P, radius, base = rh.ball(1.0, d=3), torch.rand(2, 4, 1) + 0.5, 0.1 * torch.randn(2, 4, 3)
    x = rh.MapInto(P, strict=True)(9 * torch.randn(2, 4, 3), h=radius, base=base)
    assert P.contains_exactly(x, h=radius).all()


def test_a_side_that_there_is_not_is_named_with_those_that_are() -> None:
    layer = rh.Constrained(3, rh.simplex(4))
    with pytest.raises(TypeError, match="unknown side 'beq': the sides are b, b_eq, lower, upper, A, A_eq, base, h"):
        layer(torch.zeros(2, 3), beq=torch.ones(2, 1))


TWICE = rh.Polyhedron(A_eq=[[1, 1, 1], [2, 2, 2]], b_eq=[1, 2], lower=0)
AGREE, DISAGREE = torch.tensor([[1.5, 3.0]]), torch.tensor([[1.5, 3.5]])


@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("S", [TWICE, TWICE & rh.ball(3, d=3)], ids=["rows", "cones"])
def test_equalities_of_the_sample_that_contradict_each_other_are_refused(S, strict: bool, method: str) -> None:
    layer = rh.Constrained(4, S, method=method, strict=strict)
    h = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(h, b_eq=AGREE).sum(-1), torch.full((2,), 1.5))
    with pytest.raises(rh.EmptySetError):
        layer(h, b_eq=DISAGREE)
    with pytest.raises(rh.EmptySetError):
        rh.project(S, h[:, :3], b_eq=DISAGREE)


@pytest.mark.parametrize("method", ["steps", "shrink"])
def test_contradicting_equalities_give_nan_where_it_is_asked_for_and_in_graphs(method: str) -> None:
    layer, h = rh.Constrained(4, TWICE, method=method, infeasible="nan"), torch.ones(2, 4)
    both = torch.cat([AGREE, DISAGREE])
    assert layer(h, b_eq=both).isnan().any(-1).tolist() == [False, True]
    assert torch.func.vmap(lambda u, b: layer(u, b_eq=b))(h, both).isnan().any(-1).tolist() == [False, True]


def test_sides_of_dependent_equalities_are_judged_alike_by_sparse_rows() -> None:
    own = rh.MapInto(TWICE, method="shrink")._per_sample
    sides = Sides(b_eq=torch.cat([AGREE, DISAGREE]))
    assert own.agreeing(sides).tolist() == [True, False]
    own._large = True
    assert own.agreeing(sides).tolist() == [True, False]
