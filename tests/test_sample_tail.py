"""Sides of the sample in the compiled tail: the points, gradients and refusals of the tensor operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.core import operators
from rayhull.nn import sample_tail, tail
from rayhull.projection.sides import Sides

pytestmark = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")
N = 11


def polytope() -> rh.Polyhedron:
    random = np.random.default_rng(0)
    return rh.Polyhedron(random.standard_normal((6, 5)), np.ones(6), lower=-1, upper=1)


def dispatch() -> rh.Polyhedron:
    """A demand that each sample brings, limits, and a row; the last plant is fixed by the equalities."""
    return rh.Polyhedron(
        [[1, -2, 0, 0]], 0.5, A_eq=[[1, 1, 1, 0], [0, 0, 0, 1]], b_eq=[3, 1], lower=0, upper=[4, 3, 2, 2]
    )


def blocks() -> rh.Polyhedron:
    """Two blocks of two coordinates, the second one the first's mirror image."""
    rows = np.random.default_rng(1).standard_normal((3, 2))
    return rh.Polyhedron(np.block([[rows, 0 * rows], [0 * rows, -rows]]), np.ones(6), lower=-1, upper=1)


def half_bounded() -> rh.Polyhedron:
    """Rows, an equality, and no upper bounds."""
    return rh.Polyhedron([[1, -1, 0], [0, 1, -1]], [0.2, 0.3], A_eq=[[1, 1, 1]], b_eq=[1], lower=0)


def without_equalities(P: rh.Polyhedron) -> rh.Polyhedron:
    rows = P.inequalities
    return rh.Polyhedron(rows.matrix.toarray(), rows.rhs, lower=P.lower_bounds, upper=P.upper_bounds)


def noise(*shape, seed=0, dtype=torch.float64):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def sides_of(P, names, dtype=torch.float64):
    """Sides around the stated ones that keep the centre inside."""
    made = {
        "b": torch.as_tensor(P.inequalities.rhs) + 0.2 * noise(N, len(P.inequalities)),
        "b_eq": torch.as_tensor(P.equalities.rhs) * (1 + 0.05 * noise(N, len(P.equalities), seed=1)),
        "lower": torch.as_tensor(P.lower_bounds) - 0.2 * noise(N, P.dim, seed=2),
        "upper": torch.as_tensor(P.upper_bounds) + 0.2 * noise(N, P.dim, seed=3),
    }
    return {name: made[name].to(dtype).requires_grad_() for name in names}


CASES = {
    "stays: b, shrink": (polytope, ("b",), {"method": "shrink"}),
    "stays: b and bounds, dual steps": (polytope, ("b", "lower", "upper"), {"method": "approach"}),
    "stays: bounds, dual steps": (polytope, ("upper",), {"method": "approach"}),
    "stays: blocks and mirror images": (blocks, ("b", "lower"), {"method": "approach"}),
    "rule: demand, shrink": (dispatch, ("b_eq",), {"method": "shrink", "varies": {"b_eq": ([2.9, 0.9], [3.3, 1.1])}}),
    "rule: demand, dual steps": (dispatch, ("b_eq",), {"approach": 7, "varies": {"b_eq": ([2.9, 0.9], [3.3, 1.1])}}),
    "rule: demand, lower bounds alone": (half_bounded, ("b_eq",), {"approach": 5, "varies": {"b_eq": (0.9, 1.1)}}),
    "phase 1: lower bounds alone": (half_bounded, ("b",), {"strict": True, "method": "approach"}),
    "rule: all, strict": (
        dispatch,
        ("b", "b_eq", "lower", "upper"),
        {"strict": True, "approach": 5, "varies": {"b_eq": ([2.9, 0.9], [3.3, 1.1])}},
    ),
    "phase 1: b, strict": (polytope, ("b",), {"strict": True, "method": "approach"}),
    "phase 1: bounds, strict": (polytope, ("lower", "upper"), {"strict": True, "method": "shrink"}),
    "points: b, strict": (polytope, ("b",), {"strict": True, "method": "projection"}),
}


def built(case, dtype=torch.float64):
    make, names, options = CASES[case]
    P = make()
    return rh.MapInto(P, dtype=dtype, **options), sides_of(P, names, dtype)


def drawn(into, scale=2.0, dtype=torch.float64):
    c = torch.randn(N, into.coefficients, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (scale * c).to(dtype).requires_grad_()


@pytest.mark.parametrize("scale", [0.1, 2.0, 100.0])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_points_and_gradients_are_those_of_the_tensor_operations(case, scale, leak):
    into, sides = built(case)
    c = drawn(into, scale)
    share = leak if into.has_free_point(tuple(sides)) else 0.0
    x, defined = into(c, **sides, leak=leak), into.in_tensor_operations(c, (), Sides(**sides), share)
    assert "SampleTail" in type(x.grad_fn).__name__
    assert torch.allclose(x, defined, rtol=1e-11, atol=1e-11)
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    ours, theirs = (torch.autograd.grad((v * weights).sum(), (c, *sides.values())) for v in (x, defined))
    for name, g, h in zip(("c", *sides), ours, theirs, strict=True):
        assert torch.allclose(g, h, rtol=1e-8, atol=1e-9 * (1 + float(h.abs().max()))), name


@pytest.mark.parametrize("case", CASES)
def test_float32_points_are_inside_and_near_those_of_float64(case):
    into, sides = built(case, torch.float32)
    wide = {name: value.double() for name, value in sides.items()}
    c, P = drawn(into, 20.0, torch.float32), into.polyhedron
    x = into(c, **sides)
    assert x.dtype == torch.float32
    assert torch.allclose(x.double(), into.double()(c.double(), **wide), rtol=1e-4, atol=1e-4)
    assert bool(P.contains(x, atol=1e-5, **sides).all())
    if into.strict:
        given = {name: value for name, value in sides.items() if name != "b_eq"}
        assert bool(without_equalities(P).contains_exactly(x, **given).all())


@pytest.mark.parametrize("case", ["stays: b and bounds, dual steps", "rule: all, strict"])
def test_second_derivatives_are_those_of_the_tensor_operations(case):
    into, sides = built(case)
    c = drawn(into, 0.7)
    inputs = (c, *sides.values())
    found = []
    for x in (into(c, **sides), into.in_tensor_operations(c, (), Sides(**sides))):
        slopes = torch.autograd.grad(x.square().sum(), inputs, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in slopes), inputs, allow_unused=True))
    for g, h in zip(*found, strict=True):
        assert (g is None) == (h is None)
        assert g is None or torch.allclose(g, h, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_does_not_depend_on_its_batch(case, dtype):
    into, sides = built(case, dtype)
    if case.startswith("phase 1") or case.startswith("points"):
        pytest.skip("phase 1 stops when all samples are inside")
    c = drawn(into, dtype=dtype).detach()
    x = into(c, **sides)
    one = into(c[3:4], **{name: value[3:4] for name, value in sides.items()})
    assert torch.equal(one[0], x[3])
    assert torch.equal(into(c[3], **{name: value[3] for name, value in sides.items()}), x[3])
    shared = {name: value[3].detach() for name, value in sides.items()}
    assert torch.equal(into(c.reshape(1, N, -1), **shared)[0, 3], x[3])


@pytest.mark.parametrize(("method", "strict"), [("shrink", False), ("projection", True)])
def test_samples_that_are_settled_elsewhere_leak_as_defined(method, strict):
    into = rh.MapInto(polytope(), method=method, strict=strict, dtype=torch.float64, infeasible="least")
    c, b = drawn(into), torch.ones(N, 6, dtype=torch.float64)
    b[4, 0] = -0.5 if method == "shrink" else -99.0  # the stated base point is outside, or the set is empty
    x, defined = into(c, b=b, leak=0.3), into.in_tensor_operations(c, (), Sides(b=b), 0.3)
    g, h = (torch.autograd.grad(v.square().sum(), c)[0] for v in (x, defined))
    assert torch.allclose(g, h, rtol=1e-8, atol=1e-9 * float(h.abs().max()))
    (exact,) = torch.autograd.grad(into(c, b=b).square().sum(), c)
    assert not torch.allclose(g, exact)


def test_samples_without_slack_go_to_what_follows_them():
    P = polytope()
    into = rh.MapInto(P, method="shrink", dtype=torch.float64, infeasible="nan")
    c, b = drawn(into).detach(), torch.ones(N, 6, dtype=torch.float64)
    b[4, 0] = -0.5  # the stated base point is outside, the set is not empty
    x = into(c, b=b)
    assert bool(P.contains(x, b=b).all())
    b[4] = -99.0
    x = into(c, b=b)
    assert x.isnan().any(-1).nonzero().tolist() == [[4]]
    with pytest.raises(rh.RayhullError, match="sample 4"):
        rh.MapInto(P, method="shrink", dtype=torch.float64)(c, b=b)


def test_coefficients_that_are_not_finite_come_out_as_the_tensor_operations_have_it():
    into, sides = built("rule: all, strict")
    c = drawn(into).detach()
    c[2, 1], c[5, 0] = torch.nan, torch.inf
    x, defined = into(c, **sides), into.in_tensor_operations(c, (), Sides(**sides))
    assert torch.allclose(x, defined, equal_nan=True, atol=1e-11)
    assert x.isnan().any(-1).nonzero().tolist() == [[2]]


@pytest.mark.parametrize("case", ["stays: b and bounds, dual steps", "rule: all, strict"])
def test_a_program_that_is_spoiled_is_refused_not_followed(case):
    into, sides = built(case)
    of_sample = case.startswith("rule")
    packed = sample_tail.followed_program(into, torch.float64, True) if of_sample else tail.program(into, torch.float64)
    assert packed.follows
    c = drawn(into).detach()
    base = torch.ones(N, into.polyhedron.dim, dtype=torch.float64) if of_sample else None
    given = (base, *(sides[name].detach() for name in ("b", "lower", "upper")))
    operators.layer_tail_of_samples(c, (), given, packed.layout, packed.numbers)
    for position in range(len(packed.layout)):
        for value in (-2, 2**20, 2**40, -(2**60)):
            spoiled = packed.layout.clone()
            spoiled[position] = value
            try:
                operators.layer_tail_of_samples(c, (), given, spoiled, packed.numbers)
                operators.layer_tail_of_samples_backward(torch.ones_like(c), c, (), given, spoiled, packed.numbers, 0.3)
            except RuntimeError as error:
                assert "rayhull" in str(error)
    with pytest.raises(RuntimeError, match="one row for each sample"):
        operators.layer_tail_of_samples(c, (), (base, given[1][:3], None, None), packed.layout, packed.numbers)
    other = (None if of_sample else given[2], *given[1:])
    with pytest.raises(RuntimeError, match="without these sides"):
        operators.layer_tail_of_samples(c, (), other, packed.layout, packed.numbers)
    if of_sample:
        with pytest.raises(RuntimeError, match="needs sides"):
            operators.layer_tail(c, (), packed.layout, packed.numbers)
