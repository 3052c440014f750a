"""One contract over every set and every way in: inside at every scale, gradients right, every point reachable."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

import rayhull as rh
from rayhull.nn.recognise import unit_start
from rayhull.testing import assert_feasible
from tests.zoo import ZOO

SCALES = (1e-30, 1e-6, 1.0, 1e6, 1e30)
OVER_BUDGET = {("checkerboard", "vertices")}  # what the contracts below leave out
NO_APEX = {"box", "simplex", "simplex along an axis", "lipschitz", "capped simplex", "conserves", "corridor"} | {
    "ramps", "storage", "flow", "marginals", "birkhoff",
    "cross-polytope", "random floats in a box", "far from the origin", "equalities and bounds", "implicit equality"
}  # fmt: skip
METHODS = ("auto", "nearest", "steps", "shrink", "vertices", "rays")


def tolerance(P: rh.Polyhedron, x: torch.Tensor, c: torch.Tensor) -> float:
    """32 ulp of ‖a‖₁ max(|x|, |c|) + |b|: rounding is relative to the coefficients where the map cancels them."""
    rows = [r for r in (P.rows, P.equality_rows) if len(r)]
    steepest = max((float(abs(r.matrix).sum(1).max()) for r in rows), default=0.0)
    offset = max((float(np.abs(r.rhs).max()) for r in rows), default=0.0)
    size = max(float(x.detach().abs().max()), float(c.detach().abs().max()))
    return 32 * torch.finfo(x.dtype).eps * (steepest * size + offset)


def within_bounds(P: rh.Polyhedron, x: torch.Tensor) -> bool:
    """Whether stated bounds hold without any tolerance, as numbers of x's dtype."""
    low, high = (torch.as_tensor(v).to(x.dtype).reshape(P.shape) for v in (P.lower_bounds, P.upper_bounds))
    return bool(((low <= x) & (x <= high)).all())


@pytest.mark.filterwarnings("ignore:20 steps leave")  # named, not advised
@pytest.mark.parametrize("name", ZOO)
def test_outputs_are_inside_at_every_scale_in_training_and_evaluation(name: str) -> None:
    torch.manual_seed(0)
    P = ZOO[name]()
    for method in METHODS:
        try:
            layer = rh.Constrained(6, P, method=method, batch_norm=method == "vertices", max_generators=300)
        except rh.RayhullError:  # too many vertices, or no apex
            assert (name, method) in OVER_BUDGET or (method == "rays" and name in NO_APEX)
            continue
        assert (name, method) not in OVER_BUDGET
        for training, scale in itertools.product((True, False), SCALES):
            h = torch.randn(16, 6) * scale
            x = layer.train(training)(h)
            assert x.shape == (16, *P.shape)
            c = layer.linear(h)
            assert bool(P.contains(x, atol=tolerance(P, x, c)).all()), (method, scale, float(P.violation(x).max()))
            assert within_bounds(P, x), (method, scale)


@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink", "vertices"])
def test_shares_go_into_a_cross_entropy_as_they_are(method: str) -> None:
    P = rh.Polyhedron([[1, 1, 0], [0, 1, 1]], [1.2, 1.4], lower=0, upper=1)
    x = rh.Constrained(6, P, method=method)(100 * torch.randn(512, 6))
    loss = torch.nn.functional.binary_cross_entropy(x, torch.ones_like(x))  # refuses -1e-9 and 1 + 1e-7
    assert bool(loss.isfinite())
    assert bool((x == 1).any()) or method == "vertices"


def test_a_set_without_an_apex_is_told_what_can_serve_it() -> None:
    with pytest.raises(rh.RayhullError, match="method='shrink'"):
        rh.Constrained(6, rh.simplex(4), method="rays")


@pytest.mark.parametrize("strict", [False, True])
def test_an_unconstrained_point_has_the_dtype_and_shape_of_a_point_of_the_set(strict: bool) -> None:
    P = rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1)
    layer, h = rh.Constrained(3, P, strict=strict), 10 * torch.randn(5, 3)
    free = layer.unconstrained(h)
    assert (free.dtype, free.shape) == (torch.float32, (5, 8, 8))
    assert not P.contains(free).all()
    assert layer.map.coefficients_of(free).dtype == torch.float32


@pytest.mark.parametrize("name", ["monotone", "simplex", "concave in a box", "equalities and bounds", "random cone"])
def test_the_layer_of_nearest_points_is_a_linear_and_a_projection(name: str) -> None:
    P = ZOO[name]()
    layer, h = rh.Constrained(6, P, method="nearest", dtype=torch.float64), torch.randn(16, 6, dtype=torch.float64)
    torch.testing.assert_close(layer(h), rh.project(P, layer.unconstrained(h)), rtol=1e-9, atol=1e-9)
    assert "the nearest point, as asked" in layer.describe()


@pytest.mark.parametrize(
    "name", ["monotone", "simplex", "checkerboard", "random cone", "random floats in a box", "ordered"]
)
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink", "vertices"])
def test_gradients_are_right(name: str, method: str) -> None:
    torch.manual_seed(1)
    P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1) if name == "checkerboard" else ZOO[name]()
    try:
        into = rh.MapInto(P, method=method, dtype=torch.float64, max_generators=20)
    except rh.BudgetExceededError:
        pytest.skip("too many vertices")
    c = torch.randn(2, into.coefficients, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(into, c)
    assert torch.autograd.gradgradcheck(into, c)


@pytest.mark.parametrize("name", ["monotone", "simplex", "concave in a box", "random cone", "triangle", "convex"])
@pytest.mark.parametrize("method", ["auto", "vertices"])
def test_every_point_can_be_reached(name: str, method: str) -> None:
    torch.manual_seed(0)
    P = ZOO[name]()
    target = torch.as_tensor(P.sample(8, seed=1))
    into = rh.MapInto(P, method=method, dtype=torch.float64)
    if into.keeps_inside:
        assert torch.allclose(into(into.coefficients_of(target)), target, atol=1e-9)
        assert torch.allclose(into.unconstrained(into.coefficients_of(-target)), -target, atol=1e-9)
        return
    c = torch.zeros(8, into.coefficients, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([c], max_iter=100, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = (into(c) - target).square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    assert float((into(c) - target).detach().abs().max()) < 2e-2 * float(target.abs().max())


def test_the_checkerboard_takes_one_coefficient_a_pixel_and_the_paper_twice_as_many() -> None:
    P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
    assert rh.Constrained(10, P).linear.out_features == 784
    paper = rh.paper_layer(784, P)
    assert paper.linear.out_features == 1552
    assert float(paper.linear.weight.detach().abs().max()) <= 1 / 784
    assert not paper.linear.bias.any()
    with torch.no_grad():
        paper.linear.weight.mul_(100)
    x = paper(torch.randn(32, 784))
    assert bool(P.contains(x).all())
    assert torch.allclose(x.abs().amax((1, 2)), torch.ones(32), atol=1e-5)  # one global scaling


def test_the_papers_layer_reaches_both_sides_of_a_line() -> None:
    layer = rh.paper_layer(8, rh.Polyhedron([[1, 1, 1]]))
    x = layer(torch.randn(512, 8))
    along = x - x.mean(-1, keepdim=True)  # along the lines, on which no row depends
    assert bool((along.amin(0) < 0).all() & (along.amax(0) > 0).all())


def test_one_tile_that_overflows_leaves_the_others_bright() -> None:
    P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)
    image = torch.tensor([[-0.5, -0.5, 0.5, 0.5], [0.5, 0.5, -0.5, -0.5]]).repeat_interleave(2, 0)
    image[:2, :2] = -50.0
    into = rh.MapInto(P)
    assert torch.allclose(into(into.coefficients_of(image[None]))[0, 2:, 2:].abs(), torch.tensor(0.5))


def test_the_switch_of_the_shrink_step_says_what_holds() -> None:
    cone = rh.monotone(5)
    layer = rh.Constrained(4, cone & rh.box(-1, 1), method="rays")
    h = 100 * torch.randn(32, 4)
    layer.shrinking = False
    x = layer(h)
    assert bool(cone.contains(x, atol=1e-3).all())
    assert float(x.detach().abs().max()) > 1
    assert "shrinking is off" in layer.describe()


def test_the_smooth_shrink_stays_inside_and_keeps_a_full_rank_jacobian() -> None:
    P = rh.simplex(4)
    into = rh.MapInto(P, method="shrink", smooth=True, dtype=torch.float64)
    c = torch.tensor([5.0, -4.0, 2.0, -3.0], dtype=torch.float64)
    assert bool(P.contains(into(c)))
    jacobian = torch.autograd.functional.jacobian(into, c)
    assert int(torch.linalg.matrix_rank(jacobian, atol=1e-9)) == 3
    plain = torch.autograd.functional.jacobian(rh.MapInto(P, method="shrink").double(), c)
    assert int(torch.linalg.matrix_rank(plain, atol=1e-9)) == 2


def test_right_hand_sides_may_depend_on_the_sample() -> None:
    P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)
    layer = rh.Constrained(3, P)
    upper = 0.5 + torch.rand(16, 4, 4)
    h = 10 * torch.randn(16, 3)
    x = layer(h, upper=upper, lower=-upper)
    assert bool((x.abs() <= upper * (1 + 1e-6)).all())
    assert bool(rh.checkerboard((4, 4), tiles=(2, 2)).contains(x, atol=1e-5).all())
    Q = rh.Polyhedron([[1, 2, 0], [0, -1, 1], [-1, 0, -1]], 1)
    b = 1 + torch.rand(16, 3)
    y = rh.Constrained(3, Q)(h, b=b)
    assert bool((y @ torch.tensor(Q.A, dtype=torch.float32).T <= b + 1e-4).all())


@pytest.mark.parametrize("method", ["auto", "steps", "shrink"])
def test_a_mirrored_block_swaps_the_bounds_of_the_sample(method: str) -> None:
    cone = rh.checkerboard((4, 4), tiles=(2, 2))
    layer, h = rh.Constrained(3, cone & rh.box(-1, 1), method=method), 10 * torch.randn(64, 3)
    assert layer.map.parts[0].mirrored or method == "auto"  # one nearest point for all of them
    upper, lower = 0.2 + 0.1 * torch.rand(64, 4, 4), -0.9 - 0.1 * torch.rand(64, 4, 4)
    for given in ({"upper": upper, "lower": lower}, {"upper": upper}, {"lower": lower}):
        x = layer(h, **given)
        assert bool((x <= given.get("upper", torch.ones(())) + 1e-6).all())
        assert bool((x >= given.get("lower", -torch.ones(())) - 1e-6).all())
        assert bool(cone.contains(x, atol=1e-5).all())


def interleaved() -> rh.Polyhedron:
    """Blocks of 3 and 2 coordinates whose places follow no pattern."""
    A = np.zeros((6, 8))
    A[[0, 1, 2], [5, 0, 7]], A[[0, 1, 2], [0, 7, 2]] = 1, -1  # x5 <= x0 <= x7 <= x2
    A[3, [6, 1]] = 1, -1  # x6 <= x1
    A[4, [3, 4]] = 1, -1  # x3 <= x4
    A[5, [4, 3]] = 1, -2  # x4 <= 2 x3
    return rh.Polyhedron(A, lower=-1, upper=[1, 2, 3, 4, 5, 6, 7, 8])


@pytest.mark.parametrize("method", ["auto", "shrink", "vertices"])
def test_blocks_may_stand_anywhere(method: str) -> None:
    P = interleaved()
    layer = rh.Constrained(3, P, method=method)
    assert not layer.map.parts.in_order or method == "auto"  # one nearest point for all of them
    for module in (layer, layer.fold()):
        x = module(3 * torch.randn(200, 3)).detach()
        assert bool(P.contains(x, atol=1e-5).all())
        assert bool((x.std(0) > 0.05).all())
    if layer.map.keeps_inside:
        inside = torch.as_tensor(P.sample(20, seed=0), dtype=torch.float32)
        assert torch.allclose(layer.map(layer.map.coefficients_of(inside)), inside, atol=1e-5)


def test_large_sparse_sets_need_no_conversion() -> None:
    P = rh.ordered(None, (28, 28)) & rh.box(0, 1)
    layer = rh.Constrained(4, P, method="shrink")
    assert bool(P.contains(layer(torch.randn(8, 4))).all())
    assert sum(b.numel() for b in layer.buffers()) < 100 * P.dim


def test_bad_input_gets_a_clear_answer() -> None:
    P = rh.monotone(5)
    with pytest.raises(ValueError, match="in_features must be at least 1, got 0"):
        rh.Constrained(0, P)
    with pytest.raises(ValueError, match=r"expected 4 features.*\(2, 3\)"):
        rh.Constrained(4, P)(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="batch of one sample"):
        rh.Constrained(4, P, batch_norm=True)(torch.zeros(1, 4))
    with pytest.raises(ValueError, match="auto, nearest, steps, shrink, vertices, rays"):
        rh.Constrained(4, P, method="softmax")
    with pytest.raises(rh.BudgetExceededError, match='method="nearest" or method="steps"'):
        rh.Constrained(4, rh.ordered(None, (6, 6)), method="rays", max_generators=100)
    assert bool(rh.Constrained(4, P)(torch.full((1, 4), torch.nan)).isnan().all())


def test_batches_of_any_shape_pass_through() -> None:
    layer = rh.Constrained(4, rh.monotone((2, 3)), batch_norm=True)
    assert layer(torch.randn(5, 6, 4)).shape == (5, 6, 2, 3)
    assert layer.eval()(torch.randn(4)).shape == (2, 3)
    assert layer(torch.randn(0, 4)).shape == (0, 2, 3)


def test_rays_are_scaled_so_that_normal_coefficients_give_unit_outputs() -> None:
    generator = np.random.default_rng(0)
    for rays in (generator.standard_normal((40, 6)), np.abs(generator.standard_normal((7, 6))), np.eye(6) * 1e3):
        x = np.abs(generator.standard_normal((20_000, len(rays)))) @ unit_start(rays)
        assert float(np.sqrt((x**2).mean())) == pytest.approx(1.0, rel=0.05)


def test_outputs_start_at_about_unit_scale() -> None:
    for P in (rh.monotone(20), rh.checkerboard((8, 8), (2, 2)), rh.ordered(None, (3, 3)), rh.nonnegative(10)):
        x = rh.Constrained(64, P)(torch.randn(256, 64)).detach()
        assert 0.2 < float(x.std()) < 5


def test_weights_can_live_in_a_set() -> None:
    P = rh.monotone((3, 5)) & rh.box(0, 2)
    linear = torch.nn.Linear(5, 3)
    torch.nn.utils.parametrize.register_parametrization(linear, "weight", rh.Parametrization(P, method="shrink"))
    assert bool(P.contains(linear.weight))
    inside = torch.as_tensor(P.sample(1, seed=0)[0], dtype=torch.float32)
    linear.weight = inside
    assert torch.allclose(linear.weight, inside, atol=1e-6)
    linear(torch.randn(2, 5)).sum().backward()
    assert linear.parametrizations.weight.original.grad is not None
    kept = rh.Parametrization(rh.simplex(4))  # "auto" would take vertices, which move points of the set
    inside = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert torch.allclose(kept(kept.right_inverse(inside)), inside, atol=1e-6)
    with pytest.raises(ValueError, match="use 'nearest', 'steps' or 'shrink'"):
        rh.Parametrization(rh.simplex(4), method="vertices")


def test_assert_feasible_accepts_the_layer() -> None:
    P = rh.convex(6) & rh.box(-1, 1)
    assert assert_feasible(rh.Constrained(4, P, strict=True), P, 4, exactly=True, samples=8) > 0


@pytest.mark.parametrize("name", ZOO)
def test_the_folded_layer_is_the_same_function(name: str) -> None:
    torch.manual_seed(0)
    P, h = ZOO[name](), torch.randn(3, 5, 6)
    for strict in (False, True) if name != "implicit equality" else (False,):
        layer = rh.Constrained(6, P, batch_norm=True, strict=strict)
        layer(torch.randn(64, 6))  # running statistics
        layer.eval()
        x, y = layer(h), layer.fold()(h)
        assert x.shape == y.shape
        assert torch.allclose(x, y, atol=2e-5 * max(1.0, float(x.detach().abs().max())))


def test_a_set_too_large_for_a_factor_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rayhull.nn.recognise.is_short", lambda P: False)
    monkeypatch.setattr("rayhull.nn.recognise.ENTRIES", 1000)  # of rows that are many, as this set's are
    n = 1500
    P = rh.Polyhedron(scipy.sparse.diags_array([np.ones(n), -0.7 * np.ones(n - 1)], offsets=[0, 1], format="csr"), 1)
    with pytest.warns(UserWarning, match='method="nearest" learns well') as caught:
        rh.Constrained(4, P & rh.box(-1, 1))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rh.Constrained(4, P & rh.box(-1, 1), method="shrink")
        rh.Constrained(4, rh.convex(50))
