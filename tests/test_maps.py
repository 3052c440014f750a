"""The pure functions: known answers, ranges, and no NaN at any scale."""

from __future__ import annotations

import pytest
import torch

from rayhull.maps.coefficients import (
    NONNEGATIVE,
    WEIGHTS,
    into_simplicial_cone,
    nonnegative_named,
    weights_named,
    without,
    without_carefully,
)
from rayhull.maps.sample_rows import proven
from rayhull.maps.shrink import factor, finite, pull, shrink, smooth_factor, strict_factor

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


def test_a_simplicial_cone_keeps_what_is_inside() -> None:
    A = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    u = torch.tensor([[1.0, 2.0, 3.0]])
    rays = -torch.linalg.pinv(A).mT
    assert torch.equal(into_simplicial_cone(u, A, rays), u)
    x = into_simplicial_cone(-u, A, rays, torch.abs)
    assert torch.allclose(x @ A.mT, -(u @ A.mT).abs(), atol=1e-6)


def test_shrinking_is_the_keeps_inside_and_ends_on_the_boundary() -> None:
    y = torch.tensor([[0.3, -0.2], [3.0, -2.0], [0.0, 0.0]])
    x = shrink(y, y.abs().amax(-1))
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


def test_the_strict_factor_survives_infinite_gauges() -> None:
    one = torch.tensor([1.0], dtype=torch.float64)
    assert float(strict_factor(one * torch.inf, one, *torch.tensor([1e-3, 1.0, 1e300]).double())) == 0.0


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
