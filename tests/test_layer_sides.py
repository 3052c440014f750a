"""Sets that follow the sample: every side, in every way that can, inside for each sample and by its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps.sample_rows import onto_two_rows
from rayhull.nn.export import to_onnx
from tests.zoo import ZOO

DTYPES = (torch.float32, torch.float64)


def dispatch() -> rh.Polyhedron:
    """Three plants meet a demand within their limits; the first yields at most twice the second."""
    return rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3, lower=0, upper=[4, 3, 2])


def six_rows() -> rh.Polyhedron:
    return rh.Polyhedron(np.random.default_rng(0).standard_normal((6, 3)), 1.0)


def moved(P: rh.Polyhedron, names: tuple[str, ...], n: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Sides of n samples around the stated ones that keep the set's own centre inside, as each sample's own numbers."""
    generator = torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.rand(n, *shape, generator=generator, dtype=torch.float64)

    sides: dict[str, Any] = {}
    middle = torch.as_tensor(P.interior_point().ravel())
    if "A" in names or "b" in names:
        A = torch.as_tensor(P.inequalities.matrix.toarray())
        rows = A + 0.1 * (noise(*A.shape) - 0.5) if "A" in names else A.expand(n, -1, -1)
        slack = torch.as_tensor(P.inequalities.rhs) - A @ middle
        sides |= {"A": rows} if "A" in names else {}
        sides["b"] = (rows @ middle) + (0.5 + noise(len(A))) * slack.clamp_min(0.05)
    if "b_eq" in names:
        E = torch.as_tensor(P.equalities.matrix.toarray())
        sides["b_eq"] = (E @ middle) * (0.9 + 0.2 * noise(len(E)))
    for name, sign, bound in (("upper", 1, P.upper_bounds), ("lower", -1, P.lower_bounds)):
        if name in names:
            slack = (sign * (torch.as_tensor(bound) - middle)).nan_to_num(posinf=1.0).clamp(0.2, 3.0)
            sides[name] = (middle + sign * (0.5 + noise(P.dim)) * slack).reshape(n, *P.shape)
    return {name: value.to(dtype) for name, value in sides.items()}


CASES = {
    "dispatch, demand": (dispatch, ("b_eq",)),
    "dispatch, all right-hand sides": (dispatch, ("b", "b_eq", "lower", "upper")),
    "dispatch, rows": (dispatch, ("A", "b")),
    "polytope, b": (lambda: ZOO["random floats in a box"](), ("b",)),
    "polytope, bounds": (lambda: ZOO["random floats in a box"](), ("lower", "upper")),
    "polytope, rows": (lambda: ZOO["random floats in a box"](), ("A", "b", "upper")),
    "simplex, total": (lambda: rh.simplex(5), ("b_eq", "upper")),
    "independent rows": (lambda: rh.Polyhedron(np.eye(2, 3), 1.0), ("A", "b")),
    "more rows than coordinates": (six_rows, ("A", "b")),
    "monotone, added bounds": (lambda: rh.monotone(4), ("lower", "upper")),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_every_sample_is_inside_its_own_set(case: str, dtype: torch.dtype, strict: bool) -> None:
    torch.manual_seed(0)
    make, names = CASES[case]
    P, n = make(), 64
    sides = moved(P, names, n, dtype)
    layer = rh.Constrained(4, P, method="shrink", strict=strict, dtype=dtype)
    for scale in (1e-3, 1.0, 1e3):
        x = layer(scale * torch.randn(n, 4, dtype=dtype), **sides)
        assert x.dtype == dtype
        assert bool(P.contains(x, atol=max(1.0, scale) * (1e-5 if dtype == torch.float32 else 1e-10), **sides).all())
        if strict:
            inequalities = {name: value for name, value in sides.items() if name != "b_eq"}
            without = rh.Polyhedron(
                P.A if len(P.inequalities) else None,
                P.b if len(P.inequalities) else None,
                lower=P.lower,
                upper=P.upper,
                shape=P.shape,
            )
            assert bool(without.contains_exactly(x, **inequalities).all())
    assert float(x.detach().std(0).max()) > 1e-3


def test_gradients_reach_every_side() -> None:
    P = dispatch()
    layer = rh.Constrained(4, P, method="shrink", dtype=torch.float64)
    names = ("A", "b", "b_eq", "upper")
    sides = moved(P, names, 3, torch.float64)
    h = 3 * torch.randn(3, 4, dtype=torch.float64)

    def points(*values: torch.Tensor) -> torch.Tensor:
        return layer(h, **dict(zip(names, values, strict=True)))

    assert torch.autograd.gradcheck(points, tuple(sides[name].requires_grad_() for name in names), atol=1e-4)


def test_a_stated_range_gives_a_proven_base_rule() -> None:
    P = dispatch()
    layer = rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)}, dtype=torch.float64)
    assert layer.map.rule is not None
    assert bool((layer.map.rule.slack > 0).all())
    demand = torch.linspace(1, 6, 50, dtype=torch.float64)[:, None]
    x = layer(10 * torch.randn(50, 4, dtype=torch.float64), b_eq=demand)
    assert bool(P.contains(x, b_eq=demand, atol=1e-9).all())
    assert (
        "b_eq of the sample: 40 dual steps, then a shrink, from base points by an affine rule (slack >= "
        in layer.describe()
    )
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
    with pytest.raises(rh.EmptySetError, match="among samples 0, 1"):
        layer(h, upper=-2 * torch.ones(16, 4, 4))


def test_base_points_may_come_with_the_call() -> None:
    P = rh.Polyhedron([[1.0, 1.0]], 1.0)
    layer, n = rh.Constrained(3, P, method="shrink"), 32
    base = 5 * torch.randn(n, 2)
    b = base.sum(-1, keepdim=True) + 1
    x = layer(10 * torch.randn(n, 3), b=b, base=base)
    assert bool(P.contains(x, b=b, atol=1e-4).all())


def test_samples_without_a_point_are_named_or_given_what_was_asked_for() -> None:
    P, demand, h = dispatch(), torch.tensor([[3.0], [100.0], [2.0]]), torch.randn(3, 4)
    with pytest.raises(rh.EmptySetError, match=r"among samples 1: .* of sample 1\."):
        rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)})(h, b_eq=demand)
    x = rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)}, infeasible="nan")(h, b_eq=demand)
    assert x.isnan().any(-1).tolist() == [False, True, False]
    least = rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)}, infeasible="least")(h, b_eq=demand)
    assert bool(least.isfinite().all())
    assert torch.allclose(least.sum(-1)[[0, 2]], demand[[0, 2], 0], atol=1e-5)
    with pytest.raises(rh.RayhullError, match="strict=True cannot certify samples 1:"):
        rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)}, strict=True)(h, b_eq=demand)


def test_sides_of_the_wrong_shape_or_batch_are_told_so() -> None:
    layer, h = rh.Constrained(4, dispatch(), method="shrink"), torch.randn(5, 4)
    with pytest.raises(ValueError, match=r"b_eq must have shape \(\*, 1\), got \(5, 2\)"):
        layer(h, b_eq=torch.ones(5, 2))
    with pytest.raises(ValueError, match=r"do not broadcast: points \(5,\), b_eq \(3,\)"):
        layer(h, b_eq=torch.ones(3, 1))
    with pytest.raises(ValueError, match=r"A must have shape \(\*, 1, 3\)"):
        layer(h, A=torch.ones(5, 1, 2))


def test_batches_of_none_one_and_many() -> None:
    P = dispatch()
    layer = rh.Constrained(4, P, varies={"b_eq": (1.0, 6.0)})
    for batch in ((), (0,), (1,), (2, 3)):
        demand = torch.full((*batch, 1), 2.5)
        x = layer(torch.randn(*batch, 4), b_eq=demand)
        assert x.shape == (*batch, 3)
        assert bool(P.contains(x, b_eq=demand, atol=1e-5).all())
    assert layer(torch.randn(7, 4), b_eq=torch.tensor([2.5])).shape == (7, 3)  # one side for all samples


def test_a_checkpoint_does_not_depend_on_earlier_calls() -> None:
    used, fresh = (rh.Constrained(4, dispatch(), varies={"b_eq": (1.0, 6.0)}) for _ in range(2))
    h, demand = torch.randn(5, 4), torch.full((5, 1), 2.5)
    x = used(h, b_eq=demand)
    assert used.state_dict().keys() == fresh.state_dict().keys()
    fresh.load_state_dict(used.state_dict())
    assert torch.equal(fresh(h, b_eq=demand), x)
    fresh.load_state_dict(used.state_dict())


@pytest.mark.parametrize("way", ["shrink", "approach"])
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


def test_sides_that_need_another_base_point_are_refused_by_the_onnx_exporter(tmp_path) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(rh.RayhullError, match=r"base points of their own here.*varies="):
        to_onnx(rh.Constrained(4, dispatch(), method="shrink"), 4, tmp_path / "layer.onnx", sides=("b_eq",))


def ruled(dtype: torch.dtype, **options: Any) -> rh.Constrained:
    """A layer of the dispatch whose base points come from an affine rule."""
    limits = torch.tensor([4.0, 3.0, 2.0])
    varies = {"b_eq": (2.0, 5.0), "upper": ((0.9 * limits).tolist(), (1.2 * limits).tolist())}
    return rh.Constrained(4, dispatch(), varies=varies, dtype=dtype, **options).eval()


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


def test_base_points_lie_as_deep_in_a_large_set_as_in_the_same_set_in_other_units() -> None:
    """Watts or megawatts: phase 1 looks for base points in the set's own units."""
    slacks = []
    for unit in (1.0, 1000.0):
        P = rh.Polyhedron([[1, -2, 0]], 0, A_eq=[[1, 1, 1]], b_eq=3 * unit, lower=0, upper=unit * np.array([4.0, 3, 2]))
        into = rh.MapInto(P, method="shrink", dtype=torch.float64)
        demand = unit * torch.linspace(1, 6, 9, dtype=torch.float64)[:, None]
        x = into(torch.zeros(9, 3, dtype=torch.float64), b_eq=demand)
        slacks.append(torch.minimum(x, unit * torch.tensor([4.0, 3, 2]) - x).amin(-1) / unit)
    assert bool((slacks[1] > 0.8 * slacks[0]).all()), slacks


def test_second_derivatives_agree_with_finite_differences() -> None:
    """Of base points by phase 1, and of the equalities' null space."""
    random = torch.Generator().manual_seed(3)
    into = rh.MapInto(dispatch(), method="shrink", smooth=True, dtype=torch.float64)
    c = 0.3 * torch.randn(2, 3, generator=random, dtype=torch.float64)
    E = torch.ones(2, 1, 3, dtype=torch.float64) + 0.1 * torch.rand(2, 1, 3, generator=random, dtype=torch.float64)
    demand = torch.tensor([[2.0], [3.0]], dtype=torch.float64)
    upper = torch.tensor([[4.0, 3.0, 2.0]], dtype=torch.float64).repeat(2, 1)
    points = [t.requires_grad_() for t in (c, E, demand, upper)]
    assert torch.autograd.gradgradcheck(
        lambda c, A_eq, b_eq, upper: into(c, A_eq=A_eq, b_eq=b_eq, upper=upper), points, atol=1e-4, rtol=1e-3
    )


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


# -- the point before it is moved ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"varies": {"b_eq": (1.0, 6.0)}}, {"method": "shrink"}, {"method": "projection"}])
def test_a_free_point_is_what_comes_out_wherever_it_lies_in_the_samples_own_set(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    P = dispatch()
    layer = rh.Constrained(4, P, dtype=torch.float64, **options)
    h, demand = torch.randn(200, 4, dtype=torch.float64), torch.linspace(1, 6, 200, dtype=torch.float64)[:, None]
    free, x = layer.unconstrained(h, b_eq=demand), layer(h, b_eq=demand)
    inside = P.contains(free, b_eq=demand, atol=1e-9)
    assert torch.allclose(free[inside], x[inside], atol=1e-9)
    assert not torch.allclose(free[~inside], x[~inside], atol=1e-3)
    if "method" not in options:  # directions from base points of the sample
        assert 20 < int(inside.sum()) < 180
        assert torch.allclose(free.sum(-1, keepdim=True), demand)
    assert layer.unconstrained(h.reshape(2, 100, 4), b_eq=demand.reshape(2, 100, 1)).shape == (2, 100, 3)


def test_a_free_start_sees_the_sides_of_the_sample() -> None:
    layer = ruled(torch.float64).train()
    given, h = {"b_eq": torch.tensor([[2.0], [5.0]]).double()}, 50 * torch.randn(2, 4).double()
    rh.FreeStart(layer, steps=2)
    assert torch.allclose(layer(h, **given), layer.unconstrained(h, **given))
    assert torch.allclose(layer(h, **given).sum(-1, keepdim=True), given["b_eq"])
    assert not bool(layer.polyhedron.contains(layer(h, **given), **given).all())
    assert bool(layer.polyhedron.contains(layer.eval()(h, **given), **given).all())
