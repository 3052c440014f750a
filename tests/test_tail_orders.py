"""Chains, curves and partial orders in the compiled tail: what the tensor operations give, and in order exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.core import operators
from rayhull.nn import tail
from tests.test_layer_tail import drawn

pytestmark = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")


def shuffled(n, **bounds):
    """A chain whose order is not that of its coordinates."""
    path = np.random.default_rng(0).permutation(n)
    return rh.ordered(list(zip(path[:-1].tolist(), path[1:].tolist(), strict=True)), n) & rh.box(
        bounds.get("lower", -np.inf), bounds.get("upper", np.inf), n
    )


SETS = {
    "chain": lambda: rh.monotone(9),
    "chain above": lambda: rh.monotone(9) & rh.box(0.1, np.inf, 9),
    "chain below": lambda: rh.monotone(9) & rh.box(-np.inf, 0.7, 9),
    "chain between": lambda: rh.monotone(9) & rh.box(0.1, 0.7, 9),
    "decreasing chains": lambda: rh.monotone((3, 5), increasing=False) & rh.box(-2, 1, (3, 5)),
    "shuffled chain": lambda: shuffled(12),
    "shuffled chain between": lambda: shuffled(12, lower=-1, upper=3),
    "long chain": lambda: rh.monotone(40),
    "long shuffled chain": lambda: shuffled(40),
    "partial order": lambda: rh.ordered([(0, 1), (0, 2), (1, 3), (2, 3), (4, 3), (3, 5)], 6),
    "partial order above": lambda: rh.ordered([(3, 1), (3, 2), (1, 0), (2, 0)], 4) & rh.box(0.3, np.inf, 4),
    "partial order below": lambda: rh.ordered([(3, 1), (3, 2), (1, 0), (2, 0)], 4) & rh.box(-np.inf, 0.3, 4),
    "grid": lambda: rh.ordered(None, (4, 5)),
    "grid between": lambda: rh.ordered(None, (4, 5)) & rh.box(0, 1),
    "convex, Lipschitz": lambda: rh.convex(9) & rh.lipschitz(9, 1),
    "concave, Lipschitz": lambda: rh.concave(9) & rh.lipschitz(9, 0.3),
    "chain beside a box": lambda: rh.product(rh.monotone(5), rh.box(-1, 1, 3), rh.simplex(4)),
}
CURVES = ("convex, Lipschitz", "concave, Lipschitz")


def maps(name, dtype=torch.float64):
    """The way by order where all blocks are one, else the one that is chosen; ordinary, then strict."""
    P = SETS[name]()
    for strict in (False, True):
        if strict and len(P.equality_rows):
            continue
        yield rh.MapInto(P, method="auto" if "beside" in name else "order", strict=strict, dtype=dtype)


@pytest.mark.parametrize("name", SETS)
def test_points_and_gradients_are_those_of_the_tensor_operations(name):
    for into in maps(name):
        assert any(part.method == "order" for part in into.parts)
        for scale in (0.1, 3.0, 50.0):
            ours, theirs = (drawn(into, scale=scale).requires_grad_() for _ in range(2))
            x, defined = into(ours), into.in_tensor_operations(theirs)
            assert type(x.grad_fn).__name__ == "TailBackward"
            assert torch.allclose(x, defined, rtol=1e-11, atol=1e-12 * float(defined.detach().abs().max()))
            weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
            (g,), (h,) = (torch.autograd.grad((v * weights).sum(), c) for v, c in ((x, ours), (defined, theirs)))
            assert torch.allclose(g, h, rtol=1e-8, atol=1e-10 * float(h.abs().max()))


@pytest.mark.parametrize("name", SETS)
def test_coefficients_zero_give_the_base_point_in_every_dtype_and_batch(name):
    for dtype, digits in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        for into in maps(name, dtype):
            c = torch.zeros(19, into.coefficients, dtype=dtype)
            x, zero = into(c), into.in_tensor_operations(c[0])
            assert torch.allclose(x, zero.expand_as(x), rtol=digits, atol=digits)
            assert into(c[:0]).shape == (0, *into.polyhedron.shape)
            c = drawn(into, 19, dtype=dtype)
            x = into(c)
            assert all(torch.equal(into(c[i]), x[i]) for i in (0, 7, 18))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", [name for name in SETS if name not in CURVES and "beside" not in name])
def test_orders_are_met_exactly_at_every_scale(name, dtype):
    P, (into, strict) = SETS[name](), maps(name, dtype)
    ordered = rh.Polyhedron(P.inequalities.matrix, P.inequalities.rhs)
    for scale in (1e-6, 1e-2, 1.0, 30.0, 1e4):
        c = drawn(into, 400, scale, dtype=dtype)
        assert ordered.contains_exactly(into(c).flatten(1)).all()
        assert P.contains_exactly(strict(c)).all()


@pytest.mark.parametrize("name", ["chain above", "chain below", "chain between", "shuffled chain between"])
def test_increments_of_the_size_of_rounding_errors_keep_their_order(name):
    P, into = SETS[name](), next(maps(name))
    c = drawn(into, 400)
    c[:, 1:] -= 37  # softplus(-37) is half of a float64's last digit
    assert rh.Polyhedron(P.inequalities.matrix, P.inequalities.rhs).contains_exactly(into(c)).all()


@pytest.mark.parametrize("name", SETS)
def test_functions_in_single_precision_give_the_points_of_float64(name):
    single, double = next(maps(name, torch.float32)), next(maps(name))  # strict ones have margins of their own dtype
    for scale in (0.1, 3.0, 50.0):
        c = drawn(single, scale=scale, dtype=torch.float32)
        x, exact = single(c).double(), double(c.double())
        assert torch.allclose(x, exact, rtol=2e-6, atol=1e-6 * float(exact.abs().max()))


@pytest.mark.parametrize("name", ["chain above", "chain below", "chain between", "long chain", "partial order above"])
def test_strict_orders_stand_coefficients_at_the_end_of_their_range(name):
    _, into = maps(name, torch.float32)
    c = drawn(into, 40, dtype=torch.float32).sign().mul(3e38)
    assert into.polyhedron.contains_exactly(into(c)).all()


@pytest.mark.parametrize("name", CURVES)
def test_strict_curves_are_inside_exactly(name):
    for dtype in (torch.float32, torch.float64):
        _, into = maps(name, dtype)
        for scale in (1e-3, 1.0, 30.0, 1e4):
            assert into.polyhedron.contains_exactly(into(drawn(into, 100, scale, dtype=dtype))).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name", ["chain", "chain above", "chain below", "chain between", "long chain", "convex, Lipschitz"]
)
def test_what_is_not_finite_comes_out_as_the_tensor_operations_have_it(name, value):
    for into in maps(name):
        for place in (0, 1, 4, into.coefficients - 1):
            c = drawn(into)
            c[3, place] = value
            for x, defined in zip(into(c), into.in_tensor_operations(c), strict=True):
                size = float(defined.nan_to_num(0.0, 0.0, 0.0).abs().max())
                assert torch.allclose(x, defined, equal_nan=True, rtol=1e-11, atol=1e-12 * size)


@pytest.mark.parametrize("name", ["quantiles", "chain between", "long chain", "grid between", "convex, Lipschitz"])
@pytest.mark.parametrize("strict", [False, True])
def test_inference_takes_linear_and_order_in_one_call(name, strict, monkeypatch):
    P = rh.quantiles([0.1, 0.5, 0.9]) if name == "quantiles" else SETS[name]()
    layer = rh.Constrained(11, P, method="order", strict=strict)
    h, calls, run = torch.randn(21, 11), [], operators.linear_tail
    monkeypatch.setattr(operators, "linear_tail", lambda *given: calls.append(given) or run(*given))
    expected = layer(h).detach()
    with torch.no_grad():
        for module in (layer, layer.fold()):
            assert torch.allclose(module(h), expected, rtol=1e-5, atol=1e-5)
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["shuffled chain between", "long shuffled chain", "grid between", "convex, Lipschitz"])
def test_a_program_of_an_order_that_is_spoiled_is_refused_not_followed(name):
    into = next(maps(name))
    layout, numbers, _ = tail.program(into, torch.float64)
    c = drawn(into, 3)
    first = 6 + len(into.polyhedron.shape)
    read = {"conic", "rays_count", "path_index", "coefficients", "size"} | ({"slacks"} if "long" not in name else set())
    for position in range(len(layout)):
        for value in (-2, 2**20, 2**40, -(2**60)):
            spoiled = layout.clone()
            spoiled[position] = value
            try:
                x = operators.layer_tail(c, (), spoiled, numbers)
                operators.layer_tail_backward(torch.ones_like(x), c, (), spoiled, numbers)
            except RuntimeError as error:
                assert "rayhull" in str(error)
            else:
                assert first <= position < first + len(tail.FIELDS) or position in (3, 4)
                assert position in (3, 4) or tail.FIELDS[position - first] not in read


def test_second_derivatives_are_those_of_the_tensor_operations():
    for name in ("chain between", "long shuffled chain", "partial order above", "convex, Lipschitz"):
        into = next(maps(name))
        c = drawn(into, 3, 0.7).requires_grad_()
        assert torch.autograd.gradcheck(into, c)
        (g,) = torch.autograd.grad(into(c).square().sum(), c, create_graph=True)
        (h,) = torch.autograd.grad(into.in_tensor_operations(c).square().sum(), c, create_graph=True)
        assert torch.allclose(torch.autograd.grad(g.sum(), c)[0], torch.autograd.grad(h.sum(), c)[0], atol=1e-9)
