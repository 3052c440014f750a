"""A fixed number of steps towards the nearest point: where they end, kernel beside definition, derivatives, graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

import rayhull as rh
from rayhull.core import operators
from rayhull.maps.steps import ROOT, SWEEP, Factor, clamped, factor, in_tensor_operations, splitting

needs_core = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")
INF = torch.inf


class Problem(NamedTuple):
    """{E x = 0, A x <= b, |x| <= bound}, its constants, and points around it."""

    P: rh.Polyhedron
    factor: Factor
    low: Tensor
    high: Tensor
    y: Tensor


def problem(d: int = 8, m: int = 5, equalities: int = 0, bound: float = INF, points: int = 16) -> Problem:
    rng = np.random.default_rng(d + m)
    A, E = rng.standard_normal((m, d)), rng.standard_normal((equalities, d))
    null = scipy.linalg.null_space(E) if equalities else None
    A = A if null is None else A @ null @ null.T
    A, b = A / np.linalg.norm(A, axis=1, keepdims=True), np.full(m, 0.5)
    P = rh.Polyhedron(A, b, E if equalities else None, np.zeros(equalities) if equalities else None, -bound, bound)
    bounded = bound < INF
    high = torch.as_tensor(np.concatenate([np.full(d, bound), b] if bounded else [b]))
    low = torch.cat([-high[:d], torch.full((m,), -INF)]) if bounded else torch.full((m,), -INF)
    found = Factor(*(torch.as_tensor(np.ascontiguousarray(v)) for v in factor(A, null, bounded=bounded)))
    return Problem(P, found, ROOT * low.double(), ROOT * high, torch.as_tensor(rng.standard_normal((points, d))))


SHAPES = {
    "rows": {},
    "a box": {"bound": 0.6},
    "equalities": {"equalities": 2},
    "equalities and a box": {"equalities": 2, "bound": 0.6},
    "many rows": {"d": 3, "m": 20},
    "many rows and equalities": {"d": 4, "m": 20, "equalities": 1, "bound": 0.6},
    "one coordinate": {"d": 1, "m": 2, "bound": 0.4},
    "no row": {"m": 0, "bound": 0.4},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_many_steps_end_at_the_nearest_point(shape: str) -> None:
    own = problem(**SHAPES[shape])
    x = splitting(3 * own.y, own.factor, own.low, own.high, 3000)
    torch.testing.assert_close(x, rh.project(own.P, 3 * own.y), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_points_inside_stay_where_they_are_for_any_number_of_steps(shape: str) -> None:
    own = problem(**SHAPES[shape])
    inside = torch.as_tensor(own.P.sample(32, seed=0))
    for steps in (0, 1, 7):
        x = splitting(inside, own.factor, own.low, own.high, steps)
        torch.testing.assert_close(x, inside, atol=1e-14 * float(inside.abs().max() + 1), rtol=0)


def test_twenty_steps_leave_a_few_percent_of_the_way() -> None:
    own = problem(d=50, m=30, bound=1.0, points=64)
    y = 2 * own.y
    near = rh.project(own.P, y)
    left = [
        float((splitting(y, own.factor, own.low, own.high, k) - near).norm() / (y - near).norm()) for k in (5, 10, 20)
    ]
    assert left == sorted(left, reverse=True)
    assert left[-1] < 0.03


@pytest.mark.parametrize("equalities", [0, 2])
def test_what_comes_out_meets_the_equalities(equalities: int) -> None:
    own = problem(d=9, m=7, equalities=equalities, bound=0.5)
    x = splitting(100 * own.y, own.factor, own.low, own.high, 3)
    E = torch.as_tensor(own.P.equalities.matrix.toarray(), dtype=torch.float64)
    assert bool(((x @ E.mT).abs() <= 1e-12).all())


def test_the_thin_form_of_the_turn_takes_the_same_steps() -> None:
    own = problem(**SHAPES["many rows"])
    B = own.factor.turn
    assert B.shape == (20, 3)
    whole = own.factor._replace(turn=B @ B.mT)
    thin, wide = (in_tensor_operations(own.y, f, own.low, own.high, 9)[0] for f in (own.factor, whole))
    torch.testing.assert_close(thin, wide, atol=1e-13, rtol=0)


def test_limits_that_are_infinite_hold_nothing() -> None:
    own = problem(bound=0.5)
    free = torch.full_like(own.high, INF)
    x = splitting(own.y, own.factor, -free, free, 5)
    torch.testing.assert_close(x, own.y, atol=1e-12, rtol=0)
    one_sided = splitting(3 * own.y, own.factor, -free, own.high, 3000)
    P = rh.Polyhedron(own.P.A, own.P.b, upper=0.5)
    torch.testing.assert_close(one_sided, rh.project(P, 3 * own.y), atol=1e-6, rtol=0)


def test_an_open_side_does_not_clamp() -> None:
    x = torch.tensor([-2.0, 0.5, 3.0])
    assert clamped(x, torch.zeros(3), None).tolist() == [0.0, 0.5, 3.0]
    assert clamped(x, None, torch.ones(3)).tolist() == [-2.0, 0.5, 1.0]
    assert clamped(x, torch.zeros(3), torch.ones(3)).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("sides", ["stated", "b", "upper", "lower"])
def test_a_layer_of_many_steps_ends_at_the_nearest_point_of_each_sample(sides: str) -> None:
    rng = np.random.default_rng(0)
    A, middle = rng.standard_normal((6, 5)), 3 + rng.standard_normal(5)
    P = rh.Polyhedron(A, A @ middle + 1, lower=middle - 1, upper=middle + 2)
    into = rh.MapInto(P, method="steps", steps=2000, dtype=torch.float64)
    u = torch.as_tensor(middle + 3 * rng.standard_normal((16, 5)))
    stated = {"b": P.b, "lower": P.lower_bounds, "upper": P.upper_bounds}
    moved = 0.3 * rng.random((16, len(stated.get(sides, ())))) * (-1 if sides == "lower" else 1)
    given = {} if sides == "stated" else {sides: torch.as_tensor(np.asarray(stated[sides], float) + moved)}
    x = into(into.coefficients_of(u), **given)
    torch.testing.assert_close(x, rh.project(P, u, **given), atol=1e-6, rtol=0)


# -- the kernel beside the definition ----------------------------------------------------------------------------------


def both(own: Problem, y: Tensor, low: Tensor, high: Tensor, steps: int = 6) -> list[list[Tensor]]:
    """Points, and gradients in y, low and high of a fixed weighted sum: compiled, and by tensor operations."""
    found = []
    g = torch.sin(torch.arange(float(y.shape[-1]))).to(y.dtype)
    constants = Factor(*(v.to(y.dtype) for v in own.factor))
    for wide in (own.factor, None):
        leaves = [v.clone().requires_grad_() for v in (y, low, high)]
        x = splitting(leaves[0], constants, leaves[1], leaves[2], steps, wide=wide)
        found.append([x.detach(), *torch.autograd.grad((x * g).sum(), leaves)])
    return found


@needs_core
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("of_each", [False, True], ids=["stated limits", "limits of the sample"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel_is_its_definition_with_its_gradients(shape: str, of_each: bool, dtype: torch.dtype) -> None:
    own = problem(**SHAPES[shape])
    low, high, y = (v.to(dtype) for v in (own.low, own.high, 2 * own.y))
    if of_each:
        low, high = (v * (0.5 + torch.rand(len(y), v.shape[-1], dtype=dtype)) for v in (low, high))
    tolerance = {"atol": 1e-12 if dtype == torch.float64 else 2e-5, "rtol": 0}
    for compiled, defined in zip(*both(own, y, low, high), strict=True):
        assert compiled.dtype == dtype
        torch.testing.assert_close(compiled, defined, **tolerance)


@needs_core
def test_batches_of_any_shape_and_empty_ones_go_through_the_kernel() -> None:
    own = problem(bound=0.6)
    expected, _ = in_tensor_operations(own.y, own.factor, own.low, own.high, 4)
    run = {"factor": own.factor, "low": own.low, "high": own.high, "steps": 4, "wide": own.factor}
    torch.testing.assert_close(splitting(own.y.reshape(2, 8, 8), **run).reshape(16, 8), expected)
    torch.testing.assert_close(splitting(own.y[0], **run), expected[0])
    torch.testing.assert_close(splitting(own.y[::2].mT.contiguous().mT, **run), expected[::2])
    empty = own.y[:0].clone().requires_grad_()
    x = splitting(empty, **run)
    x.sum().backward()
    assert x.shape == (0, 8)
    assert empty.grad is not None
    assert empty.grad.shape == (0, 8)


@pytest.mark.parametrize("compiled", [pytest.param(True, marks=needs_core), False])
@pytest.mark.parametrize("shape", ["a box", "equalities", "many rows"])
def test_derivatives_agree_with_finite_differences_once_and_twice(shape: str, compiled: bool) -> None:
    own = problem(**SHAPES[shape])
    infinite = own.low.isinf()

    def steps(y: Tensor, low: Tensor, high: Tensor) -> Tensor:
        low = torch.where(infinite, -INF, low)
        return splitting(y, own.factor, low, high, 5, wide=own.factor if compiled else None)

    low = torch.where(infinite, -9.0, own.low)
    leaves = [v.clone().requires_grad_() for v in (2 * own.y[:3], low, own.high)]
    assert torch.autograd.gradcheck(steps, leaves)
    assert torch.autograd.gradgradcheck(lambda *v: steps(*v).square(), leaves)


# -- graphs ------------------------------------------------------------------------------------------------------------


def test_the_steps_compile_export_and_map_as_one_graph() -> None:
    own = problem(bound=0.6)

    class Steps(torch.nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            return splitting(y, own.factor, own.low, own.high, 4, wide=own.factor)

    program = torch.export.export(Steps(), (own.y[:7],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    compiled = torch.compile(Steps(), fullgraph=True, backend="aot_eager")
    for run in (program.module(), compiled, torch.vmap(Steps())):
        torch.testing.assert_close(run(own.y), Steps()(own.y), atol=1e-12, rtol=0)
    tangent = torch.func.jvp(Steps(), (own.y,), (torch.ones_like(own.y),))[1]
    (ahead, behind) = (Steps()(own.y + k * 1e-6) for k in (1, -1))
    torch.testing.assert_close(tangent, (ahead - behind) / 2e-6, atol=1e-6, rtol=0)


@pytest.mark.parametrize("sweep", [False, True], ids=["one penalty", "a sweep"])
@pytest.mark.parametrize("sampled", [False, True], ids=["limits for all", "limits of the sample"])
def test_without_equalities_fewer_operations_give_the_same_point(sweep: bool, sampled: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5, 4)) / 2
    penalties = SWEEP if sweep else (1.0,)
    made = [factor(rows, None, bounded=True, penalty=penalty, square=True) for penalty in penalties]
    first, *others = (Factor(*map(torch.as_tensor, own)) for own in made)
    y, shape = torch.as_tensor(3 * rng.standard_normal((7, 4))), (7, 9) if sampled else (9,)
    low, high = -torch.rand(shape, dtype=torch.float64), torch.rand(shape, dtype=torch.float64)
    few = splitting(y, first, low, high, 12, sweep=others, equal=False)
    torch.testing.assert_close(few, splitting(y, first, low, high, 12, sweep=others))
    inside = y / 100
    wide = torch.full((9,), 10.0, dtype=torch.float64)
    assert torch.equal(splitting(inside, first, -wide, wide, 12, sweep=others, equal=False), inside)
