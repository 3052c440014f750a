"""The pure functions: known answers, ranges, and no NaN at any scale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps.closed_forms import clipped_shift, onto_two_rows, shift_of
from rayhull.maps.coefficients import (
    NONNEGATIVE,
    WEIGHTS,
    nonnegative_named,
    weights_named,
    without,
    without_carefully,
)
from rayhull.maps.shrink import factor, finite, proven, pull, smooth_factor
from rayhull.sets.frame import round_coordinates

INF = float("inf")
SCALES = (1e-30, 1e-6, 1.0, 1e6, 1e30)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("scale", SCALES)
def test_convex_weights_lie_on_the_simplex_at_every_scale(name: str, scale: float) -> None:
    w = WEIGHTS[name](torch.randn(64, 7) * scale)
    assert bool((w >= 0).all())
    assert torch.allclose(w.sum(-1), torch.ones(64), atol=1e-5)


@pytest.mark.parametrize("name", WEIGHTS)
def test_convex_weights_have_the_right_gradient(name: str) -> None:
    torch.manual_seed(0)
    assert torch.autograd.gradcheck(WEIGHTS[name], torch.randn(3, 5, dtype=torch.float64, requires_grad=True))


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    assert torch.allclose(WEIGHTS["sparsemax"](torch.tensor([2.0, 0.0, 0.0])), torch.tensor([1.0, 0.0, 0.0]))


def test_entmax_solves_its_own_equation() -> None:
    z = torch.randn(20, 6, dtype=torch.float64)
    w = WEIGHTS["entmax"](z)
    threshold = (z / 2 - w.sqrt()).where(w > 0, torch.nan)  # sqrt(w) = z/2 - τ, one τ for the whole support
    spread = threshold.nan_to_num(-torch.inf).amax(-1) - threshold.nan_to_num(torch.inf).amin(-1)
    assert float(spread.abs().max()) < 1e-12


@pytest.mark.parametrize("name", NONNEGATIVE)
def test_functions_for_rays_are_never_negative(name: str) -> None:
    assert bool((nonnegative_named(name)(torch.linspace(-5, 5, 101)) >= 0).all())


def test_unknown_names_are_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="abs, relu, softplus, square"):
        nonnegative_named("sigmoid")
    with pytest.raises(ValueError, match="softmax, sparsemax"):
        weights_named("argmax")


def test_shrinking_is_the_identity_inside_and_ends_on_the_boundary() -> None:
    y = torch.tensor([[0.3, -0.2], [3.0, -2.0], [0.0, 0.0]])
    x = y * factor(y.abs().amax(-1, keepdim=True))
    assert torch.equal(x[0], y[0])
    assert float(x[1].abs().max()) == pytest.approx(1.0)
    assert torch.equal(x[2], y[2])


def test_the_smooth_factor_keeps_a_gradient_where_the_plain_one_has_none() -> None:
    g = torch.tensor([0.0, 0.5, 5.0, 50.0], dtype=torch.float64, requires_grad=True)
    length = g * smooth_factor(g)
    assert bool((length < 1).all())
    (slope,) = torch.autograd.grad(length.sum(), g)
    assert bool((slope > 0).all())
    assert float((g * factor(g)).detach()[2]) == pytest.approx(1.0)


def test_without_leaves_nothing_in_the_span() -> None:
    basis = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64)).Q
    assert float((without(torch.randn(5, 6, dtype=torch.float64), basis) @ basis).abs().max()) < 1e-14
    assert torch.equal(without_carefully(1e30 * basis.mT, basis), torch.zeros(2, 6, dtype=torch.float64))


def test_a_pull_leaves_points_inside_untouched_bit_by_bit() -> None:
    x = torch.rand(50, 3, dtype=torch.float64) * 1e-30
    assert torch.equal(
        pull(x, torch.ones(3, dtype=torch.float64), torch.full((50,), -0.5).double(), torch.tensor(1e30)), x
    )


def test_a_tie_is_not_proven_and_a_bound_is() -> None:
    rows, rhs = torch.tensor([[0.5, 0.25]]), torch.tensor([[0.75]])
    assert proven(torch.tensor([[0.9, 0.9], [1.0, 1.0]]), rows, rhs).tolist() == [True, False]
    assert proven(torch.tensor([[1.0, 1.0]]), torch.eye(2), torch.ones(1, 2)).tolist() == [True]
    assert proven(torch.tensor([[torch.nan, 0.0]]), torch.eye(2), torch.ones(1, 2)).tolist() == [False]


def test_coefficients_are_cut_only_where_they_would_overflow() -> None:
    c = torch.tensor([1.0, torch.inf, -torch.inf, torch.nan])
    cut = finite(c)
    assert cut[0] == 1
    assert bool(cut[1:3].isfinite().all())
    assert bool(cut[3].isnan())


def test_round_coordinates_make_every_slack_change_alike() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((3, 10))
    A, slack = np.concatenate([W, -W, np.eye(10), -np.eye(10)]), np.concatenate([np.full(6, 1e-6), np.ones(20)])
    M = round_coordinates(A, slack)
    moved = np.abs(A @ M @ rng.standard_normal((10, 500))) / slack[:, None]
    assert moved.mean(1).max() < 1.0  # inside on the average, for the thin rows and for the wide ones
    assert moved.mean(1).min() > 0.05


def test_free_directions_get_steps_of_the_given_size() -> None:
    M = round_coordinates(np.eye(4)[:1], np.ones(1), size=10.0)
    moved = M @ np.random.default_rng(0).standard_normal((4, 10000))
    assert np.sqrt((moved**2).mean()) == pytest.approx(10.0, rel=0.02)
    assert moved[0].std() == pytest.approx(1.0, rel=0.05)  # the bounded one by its slack


def one_row_cases() -> list[tuple[list[float], float, list[float], list[float], bool]]:
    bounds = [([0, 0, 0, 0], [1, 1, 1, 1]), ([-INF] * 4, [INF] * 4), ([-1, -INF, 0, -2], [INF, 1, 0.5, 2])]
    rows = [[1, 1, 1, 1], [1, -2, 0, 0.5]]
    return [(r, 0.5, *b, e) for r, b, e in itertools.product(rows, bounds, (True, False))]


@pytest.mark.parametrize(("row", "rhs", "lower", "upper", "equality"), one_row_cases())
def test_one_row_and_bounds_have_their_nearest_point(
    row: list[float], rhs: float, lower: list[float], upper: list[float], equality: bool
) -> None:
    stated = {"A_eq": [row], "b_eq": [rhs]} if equality else {"A": [row], "b": [rhs]}
    P = rh.Polyhedron(**stated, lower=lower, upper=upper)
    x = 3 * torch.randn(200, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    a, low, high = (torch.tensor(v, dtype=torch.float64) for v in (row, lower, upper))
    c = torch.tensor(rhs, dtype=torch.float64)
    z = clipped_shift(x, a, c, low, high, equality=equality)
    assert torch.allclose(z, rh.project(P, x), atol=1e-9)
    few = x[:5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: clipped_shift(v, a, c, low, high, equality=equality), few)
    if np.isfinite([lower, upper]).all():
        sides = tuple(v.clone().requires_grad_() for v in (c + 0.0137, low - 0.0071, high + 0.0113))  # off every kink
        assert torch.autograd.gradcheck(
            lambda v, *own: clipped_shift(v, a, *own, equality=equality), (few.detach(), *sides)
        )


@pytest.mark.parametrize("scale", [1.0, 1e8, 1e16, 1e20])
def test_a_shift_that_is_found_again_settles_from_any_distance(scale: float) -> None:
    y = scale * torch.randn(64, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    row, c = torch.tensor([-1.0, 1.0, 2.0], dtype=torch.float64) / 6**0.5, torch.tensor([-0.4], dtype=torch.float64)
    low, high = torch.full_like(row, -1.0), torch.full_like(row, 5.0)
    for _ in range(3):
        y = y - shift_of(y, row, c, low, high, far=True) * row
    assert torch.allclose(y.clamp(low, high) @ row, c, atol=1e-14)


def test_one_or_two_rows_of_the_sample_have_their_nearest_point_or_are_not_found() -> None:
    generator = torch.Generator().manual_seed(0)
    for m in (1, 2):
        u, A, b = (torch.randn(64, *shape, generator=generator, dtype=torch.float64) for shape in ((4,), (m, 4), (m,)))
        x, found = onto_two_rows(3 * u, A, b)
        assert bool(found.all())
        expected = torch.stack(
            [rh.project(rh.Polyhedron(a, c), 3 * v) for a, c, v in zip(A.numpy(), b.numpy(), u, strict=True)]
        )
        torch.testing.assert_close(x, expected, atol=1e-9, rtol=0)
    opposite = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
    _, found = onto_two_rows(torch.ones(2, 2), opposite, torch.tensor([[-1.0, -1.0], [-1.0, 1.0]]))
    assert found.tolist() == [False, False]


@pytest.mark.usefixtures("either_form")
def test_a_broken_bound_moves_no_other_coordinate() -> None:
    into = rh.MapInto(rh.Polyhedron([[0.2, 0.2, 0.2]], 1, lower=-1, upper=1), method="shrink", dtype=torch.float64)
    x = into(into.coefficients_of(torch.tensor([[50.0, 0.3, -0.4]], dtype=torch.float64)))
    assert torch.allclose(x, torch.tensor([[1.0, 0.3, -0.4]], dtype=torch.float64), atol=1e-12)
