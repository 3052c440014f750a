"""The steps of the way in, each alone: towards the nearest point, round coordinates, orders, increments, one row."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import rayhull as rh
from rayhull.maps import sample_rows
from rayhull.maps.approach import LONGER, MOST, approach, clamped, clipped_shift, step_size
from rayhull.maps.coefficients import DENSE, round_coordinates
from rayhull.maps.order import as_tensors, between, between_inverse, chain, into_grid_order, into_order, levels, share
from rayhull.maps.sample_rows import approach_rows, squared_norm_bound

INF = math.inf


def unit_rows(rows: np.ndarray, rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same halfspaces with rows of unit length."""
    norms = np.linalg.norm(rows, axis=1)
    return rows / norms[:, None], rhs / norms


def polytope(d: int = 12, m: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return unit_rows(rng.standard_normal((m, d)), np.full(m, 0.7))


def tensors(*arrays: np.ndarray) -> list[Tensor]:
    return [torch.as_tensor(a, dtype=torch.float64) for a in arrays]


@pytest.mark.parametrize("boxed", [False, True])
@pytest.mark.parametrize("equalities", [0, 2])
def test_many_dual_steps_end_at_the_nearest_point(boxed: bool, equalities: int) -> None:
    A, b = polytope()
    G, c = A[: len(A) - equalities], b[: len(A) - equalities]
    E, e = A[len(A) - equalities :], b[len(A) - equalities :] * 0.1
    P = rh.Polyhedron(
        G, c, E if equalities else None, e if equalities else None, *((-0.5, 0.5) if boxed else (None, None))
    )
    x = torch.randn(20, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bound = torch.full((12,), 0.5, dtype=torch.float64)
    sides = {"lower": -bound, "upper": bound} if boxed else {}
    rows, rhs = tensors(A, np.concatenate([c, e]))
    step = step_size(A) * (LONGER if boxed else 1)
    z = approach(x, rows, rhs, steps=2000, step=step, equalities=equalities, **sides)
    assert torch.allclose(z, rh.project(P, x), atol=1e-6)


def test_longer_steps_beside_bounds_come_nearer_and_the_longest_still_converge() -> None:
    assert LONGER < 2 * (1 + MOST) / (1 + 2 * MOST)
    sectors = np.vstack([np.kron(np.eye(5), np.ones((1, 10))) / np.sqrt(10), np.ones((1, 50)) / np.sqrt(50)])
    rhs = np.append(np.full(5, 0.3) / np.sqrt(10), 1 / np.sqrt(50))
    P = rh.Polyhedron(sectors[:5], rhs[:5], A_eq=sectors[5:], b_eq=rhs[5:], lower=0, upper=0.1)
    x = 0.02 + 0.15 * torch.randn(64, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sides = {"lower": torch.zeros(50, dtype=torch.float64), "upper": torch.full((50,), 0.1, dtype=torch.float64)}
    s, nearest = step_size(sectors), rh.project(P, x)
    plain, longer = (
        (approach(x, *tensors(sectors, rhs), steps=20, step=step, equalities=1, **sides) - nearest).norm()
        for step in (s, LONGER * s)
    )
    assert float(longer) < 0.7 * float(plain)


def test_ten_dual_steps_leave_less_than_half_of_the_way() -> None:
    rng = np.random.default_rng(1)
    A, b = unit_rows(rng.standard_normal((30, 50)), np.ones(30))
    P = rh.Polyhedron(A, b, lower=-1, upper=1)
    x = 2 * torch.as_tensor(rng.standard_normal((64, 50)))
    one = torch.ones(50, dtype=torch.float64)
    z = approach(x, *tensors(A, b), steps=10, step=step_size(A), lower=-one, upper=one)
    nearest = rh.project(P, x)
    left = ((z - nearest).norm(dim=-1) / (x - nearest).norm(dim=-1)).median()
    assert float(left) < 0.3


def test_products_with_rows_and_with_their_gram_matrix_take_the_same_steps() -> None:
    A, b = polytope()
    x = torch.randn(9, 12, dtype=torch.float64)
    wide = torch.full((12,), INF, dtype=torch.float64)
    by_gram = approach(x, *tensors(A, b), steps=7, step=step_size(A))
    by_points = approach(x, *tensors(A, b), steps=7, step=step_size(A), lower=-wide, upper=wide)
    assert torch.allclose(by_gram, by_points, atol=1e-12)


@pytest.mark.parametrize(("m", "d"), [(4, 9), (9, 4)])  # by the Gram matrix, by points
@pytest.mark.parametrize("own", [False, True])
def test_rows_of_the_sample_take_steps_that_end_at_the_nearest_point(m: int, d: int, own: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(*((5,) if own else ()), m, d, dtype=torch.float64, generator=generator)
    x, rhs = torch.randn(5, d, dtype=torch.float64, generator=generator), torch.full((5, m), 0.3, dtype=torch.float64)
    rhs[:, 0] = INF
    z = approach_rows(3 * x, rows, rhs, steps=4000)
    for i in range(5):
        P = rh.Polyhedron((rows[i] if own else rows)[1:].numpy(), 0.3)
        assert torch.allclose(z[i], rh.project(P, 3 * x[i]), atol=1e-6)


def test_steps_of_the_sample_come_nearer_than_full_momentum_does() -> None:
    most = sample_rows.MOST
    assert 2 * (1 + most) / (1 + 2 * most) > sample_rows.LONGER
    rng = np.random.default_rng(17)
    A, b = unit_rows(rng.standard_normal((50, 50)), np.full(50, 3.0))
    x = torch.as_tensor(2 * rng.standard_normal((32, 50)))
    nearest = rh.project(rh.Polyhedron(A, b), x)
    plain = approach(x, *tensors(A, b), steps=40, step=step_size(A)) - nearest
    capped = approach_rows(x, *tensors(A, np.tile(b, (32, 1))), steps=40) - nearest
    assert float(capped.norm()) < 0.3 * float(plain.norm())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bound_of_the_norm_is_never_below_it_and_never_far(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    several = [torch.randn(3, m, d, dtype=dtype, generator=generator) for m, d in ((1, 1), (3, 8), (8, 3), (60, 50))]
    several += [torch.eye(300, dtype=dtype), torch.zeros(4, 4, dtype=dtype), 1e-4 * torch.ones(2, 2, dtype=dtype)]
    for rows in several:
        true = torch.linalg.matrix_norm(rows, 2) ** 2
        bound = squared_norm_bound(rows)[..., 0]
        assert bool((bound >= true * (1 - 1e-5)).all())
        assert bool((bound <= true * min(rows.shape[-2:]) ** (1 / 16) * (1 + 1e-5) + 1e-30).all())


@pytest.mark.parametrize("boxed", [False, True])
def test_the_steps_have_the_right_gradient_also_under_vmap(boxed: bool) -> None:
    A, b = polytope(5, 4)
    rows, rhs = tensors(A, b)
    one = torch.ones(5, dtype=torch.float64)
    sides = {"lower": -one, "upper": one} if boxed else {}

    def steps(x: Tensor) -> Tensor:
        return approach(x, rows, rhs, steps=5, step=step_size(A), **sides)

    x = 2 * torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    assert torch.autograd.gradcheck(steps, x.requires_grad_())
    assert torch.allclose(torch.vmap(steps)(x), steps(x))


def test_no_step_only_clamps() -> None:
    x = torch.randn(4, 3)
    assert torch.equal(approach(x, torch.ones(1, 3), torch.ones(1), steps=0, step=1.0), x)
    assert torch.equal(clamped(x, torch.zeros(3), None), x.clamp_min(0))


def test_round_coordinates_make_every_slack_change_alike() -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((3, 10))
    A, slack = np.concatenate([W, -W, np.eye(10), -np.eye(10)]), np.concatenate([np.full(6, 1e-6), np.ones(20)])
    M = round_coordinates(A, slack)
    moved = np.abs(A @ M @ rng.standard_normal((10, 500))) / slack[:, None]
    assert moved.mean(1).max() < 1.0  # inside on the average, for the thin rows and for the wide ones
    assert moved.mean(1).min() > 0.05


def test_round_coordinates_stay_in_the_affine_hull() -> None:
    equal = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0]
    M = round_coordinates(np.eye(6), np.ones(6), equal=equal)
    assert np.abs(M @ equal).max() < 1e-14
    assert np.linalg.matrix_rank(M) == 4


def test_free_directions_get_steps_of_the_given_size() -> None:
    M = round_coordinates(np.eye(4)[:1], np.ones(1), size=10.0)
    moved = M @ np.random.default_rng(0).standard_normal((4, 10000))
    assert np.sqrt((moved**2).mean()) == pytest.approx(10.0, rel=0.02)
    assert moved[0].std() == pytest.approx(1.0, rel=0.05)  # the bounded one by its slack


def test_many_coordinates_never_make_a_dense_matrix() -> None:
    n = DENSE + 1
    M = round_coordinates(sp.diags_array([np.ones(n), -np.ones(n - 1)], offsets=[0, 1], format="csr"), np.ones(n))
    assert M.shape == (n,)


def test_grid_orders_are_kept_exactly_at_every_scale() -> None:
    for scale in (1e-40, 1e-6, 1.0, 1e30, 2e37):
        x = into_grid_order(torch.randn(50, 5, 6) * scale, 2)
        assert bool((x.diff(dim=-1) >= 0).all())
        assert bool((x.diff(dim=-2) >= 0).all())
        assert bool(x.isfinite().all())


def test_an_order_is_the_keeps_inside_and_never_spreads_a_difference() -> None:
    u, v = torch.randn(2, 40, 7, dtype=torch.float64)
    inside = u.sort(-1).values
    assert torch.equal(into_grid_order(inside, 1), inside)
    apart = (into_grid_order(u, 1) - into_grid_order(v, 1)).abs().amax(-1)
    assert bool((apart <= (u - v).abs().amax(-1) + 1e-15).all())


def test_a_grid_as_pairs_gives_what_the_axes_give() -> None:
    number = np.arange(12).reshape(3, 4)
    pairs = [*zip(number[:-1].ravel(), number[1:].ravel(), strict=True)]
    pairs += [*zip(number[:, :-1].ravel(), number[:, 1:].ravel(), strict=True)]
    up, down = as_tensors(levels(pairs, 12)), as_tensors(levels([(j, i) for i, j in pairs], 12))
    u = torch.randn(30, 3, 4)
    assert torch.equal(into_order(u.flatten(1), up, down).reshape(30, 3, 4), into_grid_order(u, 2))


def test_a_cycle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        levels([(0, 1), (1, 2), (2, 0)], 3)


def test_orders_pass_on_gradients() -> None:
    u = torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: into_grid_order(v, 1), u)


def test_chains_have_the_increments_that_were_asked_for() -> None:
    beta, steps = torch.randn(20, 8, dtype=torch.float64), torch.rand(8, dtype=torch.float64)
    x = chain(torch.randn(20, 1, dtype=torch.float64), beta, steps)
    assert torch.allclose(x.diff(dim=-1), steps * share(beta))
    assert bool((x.diff(dim=-1) > 0).all())


@pytest.mark.parametrize(("lower", "upper"), [(-1.0, 3.0), (2.0, INF), (-INF, -1.0), (-INF, INF)])
def test_bounds_by_an_increasing_function_can_be_undone(lower: float, upper: float) -> None:
    x = torch.linspace(-5, 5, 41, dtype=torch.float64)
    y = between(x, lower, upper)
    assert bool(((y > lower) & (y < upper)).all())
    assert bool((y.diff() > 0).all())
    assert torch.allclose(between_inverse(y, lower, upper), x, atol=1e-9)


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
    a, low, high = tensors(np.array(row), np.array(lower), np.array(upper))
    c = torch.tensor(rhs, dtype=torch.float64)
    z = clipped_shift(x, a, c, low, high, equality=equality)
    assert torch.allclose(z, rh.project(P, x), atol=1e-9)
    few = x[:5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: clipped_shift(v, a, c, low, high, equality=equality), few)


def test_a_broken_bound_moves_no_other_coordinate() -> None:
    into = rh.MapInto(rh.Polyhedron([[0.2, 0.2, 0.2]], 1, lower=-1, upper=1), method="shrink", dtype=torch.float64)
    y = torch.tensor([[50.0, 0.3, -0.4]], dtype=torch.float64)
    for run in (into, into.in_tensor_operations):
        x = run(into.coefficients_of(y))
        assert torch.allclose(x, torch.tensor([[1.0, 0.3, -0.4]], dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("boxed", [False, True])
def test_the_steps_compile_and_export_as_one_graph(boxed: bool) -> None:
    A, b = (torch.as_tensor(v, dtype=torch.float32) for v in polytope(5, 4))
    one = torch.ones(5)

    class Steps(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = approach(x, A, b, steps=4, step=0.2, lower=-one if boxed else None, upper=one if boxed else None)
            return into_grid_order(clipped_shift(x, one, one.sum(), -one, one, equality=False), 1)

    x = torch.randn(7, 5)
    program = torch.export.export(Steps(), (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    more = torch.randn(11, 5)
    assert torch.allclose(program.module()(more), Steps()(more), atol=1e-6)
    assert torch.allclose(torch.compile(Steps(), fullgraph=True, backend="aot_eager")(x), Steps()(x), atol=1e-6)
