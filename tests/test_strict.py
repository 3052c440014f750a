"""strict=True: zero violation in rational arithmetic, in every dtype and at every scale."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps import shrink as steps
from rayhull.nn import strict as strict_module
from rayhull.nn.constants import Factory
from tests import fuzz_strict
from tests.fuzz_strict import DTYPES, equality_error, inequalities_of, outside_of, run
from tests.test_layer import OVER_BUDGET
from tests.zoo import ZOO

SCALES = (1e-30, 1e-6, 1.0, 1e6, 1e30)
EXCEPT = "implicit equality"
CASES = [("auto", dtype) for dtype in DTYPES]
CASES += [(method, torch.float32) for method in ("nearest", "steps", "shrink", "vertices", "rays")]
CASES += [("steps", torch.bfloat16), ("shrink", torch.float16), ("vertices", torch.float64)]
CURVE = rh.convex(6)
COARSE = {"far from the origin", "long curve"}  # refused in the short dtypes


def features(dtype: torch.dtype, scale: float, samples: int = 12, n: int = 5) -> torch.Tensor:
    largest = torch.finfo(dtype).max
    values = torch.randn(samples, n, dtype=torch.float64) * scale
    return values.clamp(-largest, largest).to(dtype)


@pytest.mark.filterwarnings("ignore:20 steps leave")
@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("name", [n for n in ZOO if n != EXCEPT])
def test_every_inequality_holds_exactly(name: str) -> None:
    torch.manual_seed(0)
    P = ZOO[name]()
    exact = inequalities_of(P)
    for method, dtype in CASES:
        if name in COARSE and dtype in (torch.bfloat16, torch.float16):
            continue
        try:
            layer = rh.Constrained(5, P, method=method, strict=True, dtype=dtype, max_generators=300)
        except rh.BudgetExceededError:
            assert (name, method) in OVER_BUDGET
            continue
        except rh.RayhullError as error:
            assert method == "rays"
            assert "needs a point where the rows meet" in str(error)
            continue
        assert (name, method) not in OVER_BUDGET
        for module in (layer, layer.fold()) if dtype == torch.float32 else (layer,):
            x = torch.cat([module(features(dtype, scale)) for scale in SCALES])
            assert x.dtype == dtype
            assert bool(x.isfinite().all())
            assert outside_of(exact, x) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("method", ["auto", "shrink"])
def test_chains_in_any_order_and_intervals_on_either_side_of_0_hold_exactly(method: str, dtype: torch.dtype) -> None:
    shuffled = rh.ordered([(2, 0), (0, 3), (3, 1), (1, 4)], 5)
    mirrored = rh.Polyhedron(lower=[Fraction(1, 3), -3, 1], upper=[2, Fraction(-1, 3), Fraction(11, 10)])
    for P in (shuffled, mirrored, rh.product(shuffled, mirrored)):
        layer = rh.Constrained(5, P, method=method, strict=True, dtype=dtype)
        for scale in SCALES:
            assert bool(P.contains_exactly(layer(features(dtype, scale, 64))).all())


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflow_ends_inside(dtype: torch.dtype) -> None:
    P = rh.Polyhedron([[1, -2, 0], [0, 1, -1]])
    layer = rh.Constrained(5, P, strict=True, dtype=dtype)
    with torch.no_grad():
        layer.linear.weight.mul_(1e4)
    x = layer(features(dtype, 1e300))
    assert bool(x.isfinite().all())
    assert bool(P.contains_exactly(x).all())


def test_features_that_are_not_finite_come_out_as_nan() -> None:
    for P in (rh.monotone(4), rh.simplex(4), rh.box(0, 1, 4)):
        layer = rh.Constrained(3, P, strict=True)
        h = torch.randn(4, 3)
        h[1, 0], h[2, 1] = torch.nan, torch.inf
        for module in (layer, layer.fold()):
            x = module(h)
            assert bool(x[1:3].isnan().all())
            assert bool(P.contains(x[[0, 3]]).all())


def test_points_well_inside_are_not_moved() -> None:
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((12, 6)), 1.0, lower=-1, upper=1)
    x = torch.as_tensor(P.sample(200, seed=0), dtype=torch.float32)
    middle = torch.as_tensor(P.interior_point(), dtype=torch.float32)
    x = middle + 0.9 * (x - middle)
    into = rh.MapInto(P, strict=True, method="shrink", dtype=torch.float64)
    assert torch.equal(into(into.coefficients_of(x.double())).float(), x)


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_boundary_points_move_by_a_small_multiple_of_the_roundoff(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    finish = strict_module.finish_of(CURVE, Factory(dtype=dtype))
    assert isinstance(finish, strict_module.Pull)
    x = rh.project(CURVE, torch.randn(500, 6, dtype=torch.float64) * scale).to(dtype)
    moved = (finish(x, dtype).double() - x.double()).abs().amax(-1)
    unit = torch.finfo(dtype).eps / 2
    # docs/strict.md: at most 16 (u + γ_n) max ‖a‖₁ / ρ of the size of x, and the rounding itself
    bound = 16 * (steps.roundoff(dtype) + steps.gamma(finish.entries)) * finish.tight_steepest + unit
    assert bool((moved <= bound * (x.double().abs().amax(-1) + torch.finfo(dtype).tiny)).all())


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink", "vertices", "rays"])
def test_strict_moves_points_by_rounding_alone_and_has_the_gradient_of_the_plain_map(method: str) -> None:
    for name in ("concave in a box", "simplex", "monotone", "box", "conserves", "ordered grid"):
        torch.manual_seed(0)
        try:
            layer = rh.Constrained(4, ZOO[name](), method=method)
        except rh.RayhullError:
            continue
        h = 3 * torch.randn(32, 4)
        g, found = torch.randn(32, *layer.polyhedron.shape), []
        for strict in (False, True):
            layer.strict = strict
            x = layer(h)
            found.append((x.detach(), torch.autograd.grad(x, layer.linear.weight, g)[0]))
        torch.testing.assert_close(found[1][0], found[0][0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[1][1], found[0][1], rtol=0, atol=0)


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink", "vertices", "rays"])
@pytest.mark.parametrize("name", [name for name in ZOO if len(ZOO[name]().equality_rows)])
def test_equalities_hold_at_coefficients_of_any_size(name: str, method: str, dtype: torch.dtype) -> None:
    P = ZOO[name]()
    try:
        into = rh.MapInto(P, method=method, strict=True, dtype=dtype, max_generators=2000)
    except rh.RayhullError:
        pytest.skip(f"{method} does not serve this set")
    torch.manual_seed(0)
    for scale in (1e-30, 1.0, 1e6, 1e30):
        x = into(scale * torch.randn(200, into.coefficients, dtype=dtype))
        assert outside_of(inequalities_of(P), x) == 0
        assert equality_error(P, x) <= 1.0


def test_sets_that_the_dtype_cannot_resolve_are_refused_at_construction_and_at_a_cast() -> None:
    P = rh.box(1000, 1001, 4) & rh.Polyhedron([[1, 1, 1, 1]], 4002)
    with pytest.raises(rh.RayhullError, match="bfloat16 is too coarse"):
        rh.Constrained(3, P, strict=True, dtype=torch.bfloat16)
    layer = rh.Constrained(3, P, strict=True)
    with pytest.raises(rh.RayhullError, match="float16 is too coarse"):
        layer.half()
    assert layer.linear.weight.dtype == torch.float32
    with pytest.raises(rh.RayhullError, match="no bfloat16 number lies in"):
        rh.Constrained(3, rh.box(1.001, 1.002, 3), strict=True, dtype=torch.bfloat16)


def test_a_set_without_interior_is_refused_with_the_rows() -> None:
    with pytest.raises(rh.RayhullError, match=r"A\[0\], A\[1\].*A_eq"):
        rh.Constrained(3, ZOO[EXCEPT](), strict=True)


def test_autocast_comes_out_inside_in_bfloat16() -> None:
    P = rh.monotone(6) & rh.box(-1, 1)
    layer = rh.Constrained(5, P, strict=True)
    with torch.autocast("cpu", torch.bfloat16):
        x = layer(torch.randn(64, 5))
    assert x.dtype == torch.bfloat16
    assert bool(P.contains_exactly(x).all())


def test_the_fuzzer_finds_nothing_and_finds_a_broken_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_strict, "COMPILED", 0.0)
    monkeypatch.setattr(fuzz_strict, "EXPORTED", 0.0)
    assert run(1.0, seed=3)["sets"] > 0
    for module in (steps, strict_module):
        monkeypatch.setattr(module, "gamma", lambda n: 0.0)
        monkeypatch.setattr(module, "roundoff", lambda dtype: 0.0)
    with pytest.raises(AssertionError, match="outside"):
        run(20.0, seed=3)


F = Fraction


@pytest.mark.parametrize("method", ["auto", "shrink"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (-0.3, [F(1, 10)]),  # a fraction beside a float that is not exact
        (0, [F(0.1), F(0.1) - F(1, 10**30)]),  # coordinates whose bounds are the same float
    ],
    ids=["beside a float", "the same float"],
)
def test_a_fraction_is_never_rounded_to_the_float_above_it(lower, upper, dtype, method) -> None:
    torch.manual_seed(0)
    P = rh.Polyhedron(lower=lower, upper=np.array(upper, object))
    layer = rh.Constrained(3, P, strict=True, dtype=dtype, method=method)
    x = layer(10 * torch.randn(500, 3, dtype=dtype))
    assert all(F(v) <= most for row in x.tolist() for v, most in zip(row, upper, strict=True))


@pytest.mark.parametrize("method", ["auto", "rays", "shrink"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("P", "dtype"),
    [
        (rh.Polyhedron([[1, -2, 0], [0, 1, 3]], [0, 0], A_eq=[[1, 2, 1]], b_eq=[0]), torch.float32),
        (rh.Polyhedron([[1, 0, 0], [0, 1, 0]], [2, 3], A_eq=[[1, 1, 1]], b_eq=[1]), torch.float64),
    ],
    ids=["a cone", "a quadrant"],
)
def test_the_stated_bound_of_an_equality_holds_on_unbounded_sets(P, dtype, scale, method) -> None:
    torch.manual_seed(0)
    try:
        layer = rh.Constrained(4, P, strict=True, dtype=dtype, method=method)
    except rh.RayhullError:
        pytest.skip(f"{method} does not serve this set")
    x = layer(scale * torch.randn(500, 4, dtype=dtype)).detach()
    assert outside_of(inequalities_of(P), x) == 0
    assert equality_error(P, x) <= 1.0


@pytest.mark.parametrize("seed", range(4))
def test_random_equalities_hold_within_the_stated_ulps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    E, inside = rng.standard_normal((4, 11)), rng.standard_normal(11)
    P = rh.Polyhedron(A_eq=E, b_eq=E @ inside, lower=inside - 1, upper=inside + 2)
    for dtype in (torch.float64, torch.float32, torch.float16):
        layer = rh.Constrained(5, P, strict=True, dtype=dtype)
        x = torch.cat([layer(features(dtype, scale)) for scale in (1e-30, 1.0, 1e4)]).double()
        off = (x @ torch.as_tensor(E.T) - torch.as_tensor(E @ inside)).abs()
        allowed = (1 if dtype != torch.float64 else 16) * torch.finfo(dtype).eps * torch.as_tensor(np.abs(E).sum(1))
        assert bool((off <= allowed * x.abs().amax(-1, keepdim=True)).all())


def test_intervals_that_are_mirror_images_of_each_other_hold_exactly() -> None:
    P = rh.Polyhedron(lower=[1, -2], upper=[2, -1])
    assert P.mirrored_groups[0].sign.tolist() == [1, -1]
    x = rh.Constrained(3, P, strict=True)(10 * torch.randn(200, 3)).detach()
    assert bool(P.contains_exactly(x).all())
    assert bool((x.std(0) > 0.1).all())


@pytest.mark.parametrize("P", [rh.monotone(3), rh.simplex(3), rh.box(0, 1, 3), rh.ball(1, d=3)], ids=repr)
def test_a_batch_without_samples_passes_through(P: rh.Polyhedron) -> None:
    layer = rh.Constrained(4, P, strict=True)
    for module in (layer, layer.eval(), layer.fold()):
        assert module(torch.randn(0, 4)).shape == (0, 3)
        assert module(torch.randn(2, 0, 4)).shape == (2, 0, 3)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")  # torch's
def test_a_single_point_takes_no_coefficients_in_a_graph_either() -> None:
    layer = rh.Constrained(3, rh.Polyhedron(A_eq=np.eye(2), b_eq=[1, 2]), method="rays", strict=True)
    x = torch.func.vjp(layer, torch.randn(4, 3))[0]
    assert torch.equal(x, torch.tensor([1.0, 2.0]).expand(4, 2))
