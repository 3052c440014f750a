"""Bounds and right-hand sides of the sample, beside cones: they mean the set that is stated with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import rayhull as rh
from rayhull.errors import EmptySetError, RayhullError

BALL, INF = rh.ball(1, d=3), torch.inf


def within(lower: Any = None, upper: Any = None) -> rh.ConvexSet:
    return BALL & rh.Polyhedron(lower=lower, upper=upper, shape=3)


def rows(*b: float) -> rh.ConvexSet:
    return BALL & rh.Polyhedron([[1, 1, 1], [-1, -1, -1]], b)


CASES: dict[str, tuple[rh.ConvexSet, dict[str, Any], rh.ConvexSet]] = {
    "no bound where one is stated": (within(-0.5, 0.5), {"upper": [INF, 0.5, INF]}, within(-0.5, [INF, 0.5, INF])),
    "no bounds at all": (within(-0.5, 0.5), {"lower": [-INF] * 3, "upper": [INF] * 3}, BALL),
    "a bound where none is stated": (BALL, {"upper": [0.1, INF, 0.2]}, within(None, [0.1, INF, 0.2])),
    "a bound that says nothing": (within(-0.5, 0.5), {"upper": [1e15, 0.5, 0.5]}, within(-0.5, [INF, 0.5, 0.5])),
    "bounds beside equalities": (BALL & rh.sum_to(0.5, 3), {"upper": [0.3] * 3}, within(None, 0.3) & rh.sum_to(0.5, 3)),
    "another single value": (within([0.2, -1, -1], [0.2, 1, 1]), {"lower": [0.3, -1, -1], "upper": [0.3, 1, 1]},
                             within([0.3, -1, -1], [0.3, 1, 1])),
    "room for a single value": (within([0.2, -1, -1], [0.2, 1, 1]), {"upper": [0.5, 1, 1]},
                                within([0.2, -1, -1], [0.5, 1, 1])),
    "room where rows left none": (rows(0.2, -0.2), {"b": [0.3, 0.3]}, rows(0.3, 0.3)),
}  # fmt: skip


def given(case: str, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    return {name: torch.tensor(value, dtype=dtype) for name, value in CASES[case][1].items()}


@pytest.mark.parametrize("case", CASES)
def test_the_nearest_point_is_that_of_the_set_stated_with_the_sides(case: str) -> None:
    S, _, stated = CASES[case]
    x = 3 * torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rh.project(S, x, **given(case)), rh.project(stated, x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["nearest", "steps", "shrink"])
@pytest.mark.parametrize("case", CASES)
def test_layers_are_inside_the_set_stated_with_the_sides(case: str, method: str) -> None:
    S, _, stated = CASES[case]
    into = rh.MapInto(S, method=method)
    sides = given(case, torch.float32)
    x = into(3 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), **sides)
    assert bool(S.contains(x, **sides).all())
    assert bool(stated.contains(x).all())


TILTED = rh.ellipsoid([[3.0, 1, 0], [1, 2, 0], [0, 0, 1]], 2, centre=[1, 2, 3])
TILTED = TILTED & rh.Polyhedron(A_eq=[[1.0, 2, -1]], b_eq=[2.1], lower=[-9] * 3, shape=3)


@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink"])
@pytest.mark.parametrize("side", ["h", "centre", "b_eq"])
def test_layers_are_inside_the_sets_of_their_samples_at_every_scale(side: str, method: str) -> None:
    into, generator = rh.MapInto(TILTED, method=method), torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float64):
        into.to(dtype)
        for scale in (1, 1e3, 1e6, 1e30):
            stated = {"h": torch.tensor([2.0]), "centre": torch.tensor([1.0, 2, 3]), "b_eq": torch.tensor([2.1])}[side]
            sides: Any = {side: stated.to(dtype) + 0.2 * torch.rand(16, len(stated), dtype=dtype, generator=generator)}
            c = scale * torch.randn(16, into.coefficients, dtype=dtype, generator=generator)
            assert bool(TILTED.contains(into(c, **sides), **sides).all()), (dtype, scale)


def test_a_strict_layer_with_a_centre_of_the_sample_keeps_the_equalities() -> None:
    into = rh.MapInto(TILTED, strict=True, dtype=torch.float64)
    centre = torch.tensor([1.0, 2, 3], dtype=torch.float64) + 0.2 * torch.rand(16, 3, dtype=torch.float64)
    x = into(3 * torch.randn(16, 3, dtype=torch.float64), centre=centre)
    assert bool(TILTED.contains(x, centre=centre).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", list(CASES)[:5])
def test_strict_layers_hold_bounds_that_the_set_has_not(case: str, dtype: torch.dtype) -> None:
    S, sides = CASES[case][0], given(case, dtype)
    into = rh.MapInto(S, strict=True, dtype=dtype)
    x = into(3 * torch.randn(50, 3, dtype=dtype), **sides)
    free = rh.ConvexSet(rh.Polyhedron(lower=S.lower, upper=S.upper, shape=3), S.cones)  # without equalities
    assert bool(free.contains_exactly(x, **sides).all())


def test_a_strict_layer_refuses_another_single_value_until_its_base_point_has_it() -> None:
    S, sides = CASES["another single value"][0], given("another single value")
    into, c = rh.MapInto(S, strict=True, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    with pytest.raises(RayhullError, match="Give base points"):
        into(c, **sides)
    x = into(c, **sides, base=torch.tensor([0.3, 0.0, 0.0], dtype=torch.float64))
    assert bool((x[:, 0] - 0.3).abs().max() < 1e-15)


@pytest.mark.parametrize("strict", [False, True])
def test_a_centre_that_is_no_number_is_refused_by_its_name(strict: bool) -> None:
    with pytest.raises(ValueError, match="centre must hold numbers, got NaN in sample 1"):
        rh.MapInto(BALL, strict=strict)(torch.zeros(2, 3), centre=torch.tensor([[0.0, 0, 0], [0, torch.nan, 0]]))


def test_bounds_beyond_every_point_leave_an_empty_set() -> None:
    with pytest.raises(EmptySetError, match="sample 0 is empty"):
        rh.project(BALL, torch.zeros(2, 3), upper=torch.tensor([-2.0, 0, 0]))
    with pytest.raises(ValueError, match="upper must hold numbers"):
        rh.project(BALL, torch.zeros(2, 3), upper=torch.tensor([-INF, 0, 0]))


def test_gradients_reach_bounds_that_the_set_has_not() -> None:
    x = 3 * torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    upper = torch.full((3,), 0.1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u: rh.project(BALL, x, upper=u), (upper,))
    upper = torch.tensor([0.1, 1e9, INF], dtype=torch.float64, requires_grad=True)
    rh.project(within(-0.5, 0.5), x, upper=upper).sum().backward()
    assert upper.grad is not None
    assert upper.grad.isfinite().all()
    assert upper.grad[0] != 0


def test_a_row_along_the_equalities_says_nothing_or_leaves_nothing() -> None:
    plane = BALL & rh.sum_to(0.5, 3)
    S = plane & rh.Polyhedron([[1, 1, 1]], [2])
    x = 3 * torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(rh.project(S, x), rh.project(plane, x), rtol=0, atol=1e-12)
    with pytest.raises(EmptySetError, match="sample 0 is empty"):
        rh.project(S, x, b=torch.tensor([0.2]))
