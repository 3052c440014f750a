"""The compiled tail of a layer: the same points and gradients as the tensor operations that define it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import rayhull as rh
from rayhull.core import operators
from rayhull.errors import RayhullError
from rayhull.nn import tail
from tests.zoo import ZOO

pytestmark = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")
METHODS = ("auto", "rays", "vertices", "shift", "shrink", "approach")


def maps(name, dtype=torch.float64):
    """Every map into a set that the operator serves, strict or not."""
    for method in METHODS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                into = rh.MapInto(ZOO[name](), method=method, dtype=dtype, max_generators=500)
        except RayhullError:
            continue
        for strict in (False, True):
            try:
                into.strict = strict
            except RayhullError:
                continue
            if tail.program(into, dtype) is not None:
                yield f"{method}{', strict' if strict else ''}", into


def drawn(into, n=13, scale=3.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return scale * torch.randn(n, into.coefficients, generator=generator, dtype=dtype)


@pytest.mark.parametrize("name", ZOO)
def test_points_and_gradients_are_those_of_the_tensor_operations(name):
    for way, into in maps(name):
        ours, theirs = (drawn(into).requires_grad_() for _ in range(2))
        x, defined = into(ours), into.in_tensor_operations(theirs)
        assert type(x.grad_fn).__name__ == "TailBackward", way
        assert torch.allclose(x, defined, rtol=1e-12, atol=1e-12 * float(defined.detach().abs().max())), way
        weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
        (g,) = torch.autograd.grad((x * weights).sum(), ours)
        (h,) = torch.autograd.grad((defined * weights).sum(), theirs)
        assert torch.allclose(g, h, rtol=1e-8, atol=1e-9 * float(h.abs().max())), way
        if into.keeps_inside:
            leaks_as_defined(into, drawn(into).requires_grad_(), weights, way)


def leaks_as_defined(into, c, weights, way):
    """The gradient with a leak, by the operator and by the tensor operations."""
    x, defined = into(c, leak=0.3), into.in_tensor_operations(c, leak=0.3)
    assert type(x.grad_fn).__name__ == "TailBackward", way
    (g,), (h,), (exact,) = (torch.autograd.grad((v * weights).sum(), c) for v in (x, defined, into(c)))
    assert torch.allclose(g, h, rtol=1e-8, atol=1e-9 * float(h.abs().max())), way
    assert not torch.allclose(g, exact) or torch.allclose(into.point_of(c), x), way


@pytest.mark.parametrize("name", ["box", "simplex", "convex", "random cone", "random floats in a box"])
def test_float32_points_are_inside_and_near_those_of_float64(name):
    for way, into in maps(name, torch.float32):
        c = drawn(into, dtype=torch.float32)
        x, exact = into(c), into.double()(c.double())
        assert x.dtype == torch.float32
        assert torch.allclose(x.double(), exact, rtol=1e-5, atol=1e-5 * float(exact.abs().max())), way
        inside = into.polyhedron.contains_exactly(x) if into.strict and not len(into.polyhedron.equality_rows) else None
        assert inside is None or bool(inside.all()), way
        into.float()


def one_row_in_a_box(dtype, strict):
    P = rh.Polyhedron([[1.0, 2.0, -1.0, 0.5]], 0.25, lower=-1, upper=1)
    return rh.MapInto(P, method="shift", dtype=dtype, strict=strict)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e6, 1e37])
def test_a_long_shift_is_found_in_double_precision(scale, strict):
    """What the shift leaves of large coefficients in a small set is lost in single precision."""
    into, exact = (one_row_in_a_box(dtype, strict) for dtype in (torch.float32, torch.float64))
    c = drawn(into, 40, scale, torch.float32)
    c[::2] /= scale  # a sample whose shift is short is beside one whose shift is long
    x = into(c)
    assert torch.equal(x, torch.stack([into(one) for one in c]))
    assert torch.allclose(x[::2].double(), exact(c[::2].double()), atol=2e-6)
    if scale < 1e9:
        assert torch.allclose(x.double(), exact(c.double()), atol=2e-6)
        assert into.polyhedron.contains(x).all()
    assert not strict or into.polyhedron.contains_exactly(x).all()


def test_a_shift_in_single_precision_leaves_no_more_than_rounding_errors():
    """1000 terms added one after another in single precision would be off by 1e-5 of the largest partial sum."""
    n = 1000
    row = 1.0 + np.random.default_rng(0).random(n)
    into = rh.MapInto(rh.Polyhedron(row[None], 1.0, lower=-1, upper=3), method="shift", dtype=torch.float32)
    x = into(3 + drawn(into, 64, 1.0, torch.float32)).double()
    excess = x @ torch.from_numpy(row) - 1.0
    assert float(excess.abs().max()) < 1e-6 * float(row.sum())


@pytest.mark.parametrize("width", [3, 4, 5, 7, 8, 9, 17])
def test_points_lie_where_their_coordinates_do_whatever_the_runs(width):
    P = rh.checkerboard((8, 2 * width), tiles=(2, 2)) & rh.box(-1, 1)
    into = rh.MapInto(P, dtype=torch.float32)
    assert tail.program(into, torch.float32) is not None
    c = drawn(into, 19, 1.0, torch.float32)
    assert torch.allclose(into(c), into.in_tensor_operations(c), atol=1e-5)


def boxed(**options):
    rng = np.random.default_rng(0)
    P = rh.Polyhedron(rng.standard_normal((6, 5)), np.ones(6), lower=-1, upper=1)
    return rh.MapInto(P, dtype=torch.float64, **options)


@pytest.mark.parametrize("method", ["shrink", "approach"])
@pytest.mark.parametrize("strict", [False, True])
def test_gradients_pass_gradcheck_and_second_ones_are_those_of_the_tensor_operations(method, strict):
    into = boxed(method=method, strict=strict)
    c = drawn(into, 3, 0.7).requires_grad_()
    assert torch.autograd.gradcheck(into, c)
    (g,) = torch.autograd.grad(into(c).square().sum(), c, create_graph=True)
    (h,) = torch.autograd.grad(into.in_tensor_operations(c).square().sum(), c, create_graph=True)
    assert torch.allclose(torch.autograd.grad(g.sum(), c)[0], torch.autograd.grad(h.sum(), c)[0], atol=1e-9)
    (g,) = torch.autograd.grad(into(c, leak=0.3).square().sum(), c, create_graph=True)
    (h,) = torch.autograd.grad(into.in_tensor_operations(c, leak=0.3).square().sum(), c, create_graph=True)
    assert torch.allclose(torch.autograd.grad(g.sum(), c)[0], torch.autograd.grad(h.sum(), c)[0], atol=1e-9)


def test_batches_of_any_shape_and_stride():
    into = boxed(method="approach")
    c = drawn(into, 24)
    x = into(c)
    assert torch.equal(into(c[0]), x[0])
    assert torch.equal(into(c.reshape(2, 3, 4, -1)), x.reshape(2, 3, 4, -1))
    wide = torch.cat([c, c], -1)
    assert torch.equal(into(wide[:, : into.coefficients]), x)
    assert torch.equal(into(c.T.contiguous().T), x)
    assert into(c[:0]).shape == (0, 5)
    assert into(c[:0].requires_grad_()).shape == (0, 5)


def test_threads_do_not_change_the_points():
    into, before = boxed(method="approach", strict=True), torch.get_num_threads()
    c = drawn(into, 5000).requires_grad_()
    found = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            x = into(c)
            found.append((x, *torch.autograd.grad(x.square().sum(), c)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_map_is_packed_anew_when_its_switches_move():
    into = boxed(method="shrink")
    c = drawn(into)
    for change in ({"strict": True}, {"shrinking": False}, {"shrinking": True}, {"smooth": True}, {"strict": False}):
        for name, value in change.items():
            setattr(into, name, value)
        assert torch.allclose(into(c), into.in_tensor_operations(c), atol=1e-12), change


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_not_finite_comes_out_as_the_tensor_operations_have_it(value, strict):
    into = boxed(method="approach", strict=strict)
    c = drawn(into)
    c[3, 1] = value
    x, defined = into(c), into.in_tensor_operations(c)
    assert torch.allclose(x, defined, equal_nan=True, atol=1e-12)


def test_a_strict_layer_tells_an_overflow_from_features_that_are_not_finite():
    P = rh.box(-1, 1, 3) & rh.Polyhedron([[1, 1, 1]], 1)
    layer = rh.Constrained(2, P, strict=True, method="approach")
    assert tail.program(layer.map, torch.float32) is not None
    features = torch.tensor([[3e38, 3e38], [torch.nan, 0], [0, torch.inf], [1, 2]])
    with torch.no_grad():
        layer.linear.weight.fill_(9.0)
        for run in (layer, layer.fold()):
            x = run(features)
            assert x.isnan().all(-1).tolist() == [False, True, True, False]
            assert P.contains_exactly(x[[0, 3]]).all()
        layer.linear.weight[0, 0] = torch.nan
        assert layer(features).isnan().all()


def test_coefficients_that_overflowed_into_no_number_count_as_zero():
    into = rh.MapInto(rh.box(-1, 1, 3) & rh.Polyhedron([[1, 1, 1]], 1), strict=True, method="approach")
    c = torch.tensor([[torch.nan, 0.5, -0.5], [torch.nan, 0.5, -0.5]])  # inf - inf, in the sums of a long Linear
    features = torch.tensor([[3e38], [torch.inf]])  # finite: an overflow; not finite: no answer
    assert tail.serving(into, c) is not None
    x, zero = into(c, origin=(features,)), into(torch.tensor([[0.0, 0.5, -0.5]]))
    assert torch.equal(x[0], zero[0])
    assert x[1].isnan().all()
    assert torch.allclose(into.in_tensor_operations(c, (features,))[0], zero[0], rtol=1e-6)


@pytest.fixture
def calls(monkeypatch):
    """How often the operator that holds a Linear was called."""
    made, run = [], operators.linear_tail
    monkeypatch.setattr(operators, "linear_tail", lambda *given: made.append(given) or run(*given))
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["box", "simplex", "random cone", "random floats in a box", "checkerboard"])
def test_inference_takes_linear_and_map_in_one_call(name, strict, dtype, calls):
    P, size = ZOO[name](), {torch.float32: 1e-5, torch.float64: 1e-13}[dtype]
    layer = rh.Constrained(11, P, strict=strict, dtype=dtype)
    torch.nn.init.normal_(layer.linear.bias)
    for shape in ((11,), (1, 11), (8, 11), (19, 11), (3, 4, 11)):
        h = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
        expected = layer(h.clone().requires_grad_()).detach()
        assert not calls
        with torch.no_grad():
            for module in (layer, layer.fold()):
                x = module(h)
                assert torch.allclose(x, expected, rtol=size, atol=size * float(expected.abs().max()))
                assert torch.equal(module(h.expand(2, *shape))[1], x)  # a sample does not depend on its batch
        assert len(calls) == 4
        calls.clear()


def test_what_watches_the_linear_or_has_a_gradient_sees_two_calls(calls):
    layer, h = rh.Constrained(4, rh.box(-1, 1, 3), method="shrink"), torch.randn(5, 4)
    layer(h)
    assert not calls
    seen = []
    for module in (layer.linear, layer.map):
        handle = module.register_forward_hook(lambda *given: seen.append(given))
        with torch.inference_mode():
            layer(h)
        handle.remove()
    assert len(seen) == 2
    assert not calls
    with torch.no_grad():
        assert rh.Constrained(4, rh.box(-1, 1, 3), batch_norm=True).eval()(h).shape == (5, 3)
        assert not calls
        rh.Constrained(2000, rh.box(-1, 1, 30), method="shrink")(torch.randn(2, 2000))
        assert not calls
        with pytest.raises(ValueError, match="expected 4 features"):
            layer(h[:, :3])
        layer(h)
    assert len(calls) == 1


def test_a_linear_of_another_size_is_refused():
    into = boxed(method="shrink")
    h, weight, bias = torch.randn(3, 7).double(), torch.randn(5, 7).double(), torch.randn(5).double()
    constants = tail.program(into, torch.float64)[:2]
    assert operators.linear_tail(h, weight, bias, *constants).shape == (3, 5)
    few, single = (h, weight[:4], bias[:4]), (h, weight.float(), bias)
    for given in ((h[:, :6], weight, bias), few, (h, weight, bias[:4]), single):
        with pytest.raises(RuntimeError, match="rayhull"):
            operators.linear_tail(*given, *constants)


class Looking(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_what_the_operator_cannot_take_takes_the_tensor_operations():
    into = boxed(method="approach")
    c = drawn(into)
    defined = into.in_tensor_operations(c)
    assert torch.allclose(torch.func.vmap(into)(c), defined)
    jacobian = torch.func.jacrev(into)(c[0])
    assert torch.allclose(torch.func.jacfwd(into)(c[0]), jacobian)
    with forward_ad.dual_level():
        x = into(forward_ad.make_dual(c[0], torch.ones_like(c[0])))
        assert torch.allclose(forward_ad.unpack_dual(x).tangent, jacobian.sum(1))
    with Looking():
        assert not tail.is_plain(c)
        assert torch.allclose(into(c), defined)
    with torch.autocast("cpu"):
        assert not tail.is_plain(c)
    assert not tail.is_plain(c.bfloat16())
    assert not tail.is_plain(c.to("meta"))
    assert tail.program(rh.MapInto(into.polyhedron, method="projection"), torch.float32) is None
    assert tail.program(rh.MapInto(rh.monotone(4), method="rays", nonnegative=torch.exp), torch.float32) is None


@pytest.mark.parametrize("method", ["shrink", "approach", "vertices"])
def test_a_program_that_is_spoiled_is_refused_not_followed(method):
    into = boxed(method=method, strict=True)
    layout, numbers, _ = tail.program(into, torch.float64)
    c = drawn(into, 3)
    first = 7  # kinds, coefficients, dim, strict, stated rows, axes, shape
    for position in range(len(layout)):
        for value in (-2, 2**20, 2**40, -(2**60)):
            spoiled = layout.clone()
            spoiled[position] = value
            try:
                operators.layer_tail(c, (), spoiled, numbers)
                operators.layer_tail_backward(drawn(into, 3)[:, :5], c, (), spoiled, numbers, 0.3)
            except RuntimeError as error:
                assert "rayhull" in str(error)
            else:  # a field that this program does not read, or that means something else in range
                name = tail.FIELDS[position - first] if first <= position < first + len(tail.FIELDS) else ""
                unread = {"moving", "apex", "single"}
                unread |= {"side_rows", "still", "points"}  # a strict program has no sides of its own
                assert position in (3, 4) or name not in tail.COUNTS - unread, name
    with pytest.raises(RuntimeError, match="out of range"):
        operators.layer_tail(c, (), layout, numbers[:-3])
    with pytest.raises(RuntimeError, match="coefficients"):
        operators.layer_tail(c[:, :-1], (), layout, numbers)
    with pytest.raises(RuntimeError, match="float32 or float64"):
        operators.layer_tail(c.half(), (), layout, numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_does_not_depend_on_its_batch(dtype):
    for steps in (0, 10):
        for bounds in ({}, {"lower": -1, "upper": 1}):
            P = rh.Polyhedron(np.random.default_rng(0).standard_normal((7, 13)), np.ones(7), **bounds)
            into = rh.MapInto(P, method="approach", approach=steps, dtype=dtype)
            c = drawn(into, 19, dtype=dtype).requires_grad_()
            x = into(c)
            (g,) = torch.autograd.grad(x.square().sum(), c)
            for i in (0, 18):
                own = c[i].detach().requires_grad_()
                assert torch.equal(into(own), x[i])
                assert torch.equal(torch.autograd.grad(into(own).square().sum(), own)[0], g[i])


@pytest.mark.parametrize("n", [1, 9])
def test_dual_steps_that_overflow_in_single_precision_are_taken_in_double(n):
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((6, 5)), np.ones(6))
    into = rh.MapInto(P, method="approach", strict=True)
    c = drawn(into, n, dtype=torch.float32).sign().mul(3e38).requires_grad_()
    x, defined = into(c), into.in_tensor_operations(c)
    assert torch.allclose(x, defined, rtol=1e-6)
    (g,), (h,) = (torch.autograd.grad(v.sum(), c) for v in (x, defined))
    assert torch.allclose(g, h, rtol=1e-5, atol=1e-45)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["auto", "shrink", "approach"])
def test_a_compiled_graph_calls_the_operator_and_an_exported_one_does_not(method, strict):
    torch.compiler.reset()
    layer = rh.Constrained(6, rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1), method=method, strict=strict)
    names = []

    def backend(graph, _):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    h = drawn(layer.map, 7, dtype=torch.float32)[:, :6]
    assert torch.equal(torch.compile(layer, fullgraph=True, backend=backend)(h), layer(h))
    assert any("layer_tail" in name for name in names)
    program = torch.export.export(layer, (h,))
    assert not any("layer_tail" in str(node.target) for node in program.graph.nodes)
    assert torch.allclose(program.module()(h), layer(h), atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_gradients_of_a_compiled_graph_are_those_of_an_eager_call(strict):
    torch.compiler.reset()
    layer = rh.Constrained(6, rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1), strict=strict)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = []
    for run in (layer, compiled):
        h = drawn(layer.map, 7, dtype=torch.float32)[:, :6].requires_grad_()
        found.append(torch.autograd.grad(run(h).square().sum(), (h, layer.linear.weight)))
    assert all(torch.equal(g, h) for g, h in zip(*found, strict=True))


def test_a_compiled_graph_follows_a_cast_and_a_switch():
    torch.compiler.reset()
    layer = rh.Constrained(4, rh.monotone(5) & rh.box(-1, 1))
    h = torch.randn(3, 4)
    for change in (layer.double, lambda: setattr(layer, "strict", True), lambda: setattr(layer, "shrinking", False)):
        change()
        own = h.to(layer.linear.weight.dtype)
        assert torch.allclose(torch.compile(layer, fullgraph=True, backend="eager")(own), layer(own))
