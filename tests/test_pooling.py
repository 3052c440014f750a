"""Pooling: the nearest increasing chain, in order exactly, the identity inside."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import rayhull as rh
from rayhull.maps.order import means, pooled
from rayhull.nn.export import to_onnx
from tests.compiled import COMPILED

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
KINDS = ("noise", "trend", "integers", "far from 0", "falling", "one outlier")
LENGTHS = (1, 2, 3, 8, 33, 50, 64)


def drawn(kind: str, n: int, many: int = 20, dtype: torch.dtype = torch.float64) -> Tensor:
    u = torch.randn(many, n, generator=torch.Generator().manual_seed(n), dtype=torch.float64)
    u = u + torch.linspace(0, 5, n) if kind == "trend" else (2 * u).round() if kind == "integers" else u
    u = u + 1000 if kind == "far from 0" else u.sort(-1, descending=True).values if kind == "falling" else u
    if kind == "one outlier":
        u[:, n // 3] = 1e6
    return u.to(dtype)


def rising(n: int, dtype: torch.dtype) -> Tensor:
    """Increasing chains: random ones, ones with ties, and ones that rise by their last digits, then by a thousand."""
    u = drawn("noise", n).sort(-1).values
    digits = (1 + u[:, :1].abs()) * (1 + torch.finfo(dtype).eps * torch.arange(n))
    return torch.cat([u, u.round(), digits, torch.where(torch.arange(n) < n // 2, digits, 1e3)]).to(dtype)


def one_by_one(u: Tensor) -> tuple[Tensor, list[int]]:
    """Pool adjacent violators in plain Python, and the sizes of the pools."""
    pools: list[tuple[float, int]] = []
    for entry in u.tolist():
        total, size = entry, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            before = pools.pop()
            total, size = total + before[0], size + before[1]
        pools.append((total, size))
    return torch.cat([torch.full((k,), s / k, dtype=u.dtype) for s, k in pools]), [k for _, k in pools]


# -- the map ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", LENGTHS)
def test_pooling_gives_the_nearest_increasing_chain(kind: str, n: int) -> None:
    for scale in (1e-6, 1.0, 1e6):
        u = scale * drawn(kind, n)
        x = pooled(u)
        size = float(u.abs().max())
        assert torch.allclose(x, torch.stack([one_by_one(v)[0] for v in u]), rtol=0, atol=1e-14 * size)
        if n > 1:
            assert torch.allclose(x, rh.project(rh.monotone(n), u), rtol=0, atol=1e-9 * size)
        assert torch.allclose(pooled(u.float()).double(), x, rtol=0, atol=1e-6 * size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [50, 200])
def test_it_comes_out_in_order_at_every_scale_and_finite(dtype: torch.dtype, n: int) -> None:
    most = torch.finfo(dtype).max
    for kind in KINDS[:-1]:
        u = drawn(kind, n) / 1e4
        for scale in (torch.finfo(dtype).tiny, 1e-6, 1.0, most):
            x = pooled((scale * u).to(dtype))
            assert x.dtype == dtype
            assert bool((x[:, 1:] >= x[:, :-1]).all())
            assert bool(x.isfinite().all())
    x = pooled(torch.tensor([most, most, -most, most, -most], dtype=dtype))
    assert bool((x[1:] >= x[:-1]).all())
    assert bool(x.isfinite().all())


@pytest.mark.parametrize("n", [50, 200])
def test_a_power_of_two_scales_chains_bit_by_bit(n: int) -> None:
    u = drawn("noise", n, dtype=torch.float32)
    for scale in (2.0**-80, 2.0**125):  # their sums would overflow
        assert torch.equal(pooled(scale * u), scale * pooled(u))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_inside_it_is_the_identity_bit_by_bit_and_so_is_its_derivative(dtype: torch.dtype, n: int) -> None:
    for scale in (1e-3, 1.0, 50.0):
        u = (scale * rising(n, dtype)).requires_grad_()
        x, g = pooled(u), torch.randn(u.shape).to(dtype)
        assert torch.equal(x, u)
        assert torch.equal(torch.autograd.grad(x, u, g)[0], g)


@pytest.mark.parametrize("n", [8, 200])
def test_equal_entries_inside_keep_their_own_gradient(n: int) -> None:
    u, g = torch.ones(3, n, requires_grad=True), torch.randn(3, n)
    assert torch.equal(torch.autograd.grad(pooled(u), u, g)[0], g)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [8, 200])
def test_the_smallest_numbers_stay_as_they_are_inside(dtype: torch.dtype, n: int) -> None:
    least = torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    u = 3 * torch.full((n,), least, dtype=dtype)  # halves of it are rounded
    assert bool((u > 0).all())
    assert torch.equal(pooled(u), u)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_pooled_in_float32_and_rounded_once(dtype: torch.dtype) -> None:
    for kind, n in itertools.product(("noise", "falling", "far from 0"), (50, 200)):
        u = drawn(kind, n, dtype=dtype)
        assert torch.equal(pooled(u), pooled(u.float()).to(dtype))


def test_a_chain_that_is_not_finite_is_all_nan_and_no_other_is() -> None:
    u = drawn("noise", 50)
    u[1, 7], u[2, 0], u[3, 49] = torch.nan, torch.inf, -torch.inf
    x = pooled(u)
    assert bool(x[1:4].isnan().all())
    assert torch.equal(x[4:], pooled(u[4:]))


# -- its derivative --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["noise", "trend", "far from 0", "falling", "one outlier"])
def test_the_derivative_is_the_mean_over_each_pool(kind: str) -> None:
    u = drawn(kind, 50).requires_grad_()
    g = drawn("noise", 50)
    expected = torch.stack(
        [
            torch.cat([own.mean().expand(len(own)) for own in row.split(one_by_one(v)[1])])
            for row, v in zip(g, u.detach(), strict=True)
        ]
    )
    assert torch.allclose(torch.autograd.grad(pooled(u), u, g)[0], expected, atol=1e-14)
    (nearest,) = torch.autograd.grad(rh.project(rh.monotone(50), u), u, g)
    assert torch.allclose(nearest, expected, atol=1e-9)


def test_a_derivative_in_float64_has_all_of_its_digits() -> None:
    u = torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(pooled(u)[0], u)[0].tolist() == pytest.approx([1 / 3] * 3, rel=1e-15)


def test_pools_that_tie_are_one() -> None:
    u = torch.tensor([3.0, 1.0, 4.0, 0.0, 2.0, 5.0], requires_grad=True)
    (found,) = torch.autograd.grad(pooled(u), u, torch.arange(6.0))
    assert torch.equal(found, torch.tensor([2.0, 2.0, 2.0, 2.0, 2.0, 5.0]))
    assert torch.equal(
        means(torch.tensor([1.0, 1.0, 2.0]), torch.tensor([1.0, 1.0, 2.0])), torch.tensor([1.0, 1.0, 2.0])
    )


def test_derivatives_agree_with_finite_differences_in_both_modes_and_twice() -> None:
    u = drawn("noise", 7, 3).requires_grad_()
    assert torch.autograd.gradcheck(pooled, u, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(lambda v: pooled(v).square(), u)
    full = torch.func.vmap(torch.func.jacrev(pooled))(u.detach())
    assert torch.allclose(full, torch.func.vmap(torch.func.jacfwd(pooled))(u.detach()))
    assert torch.allclose(full, full.mT)
    assert torch.allclose(full @ full, full)


# -- graphs ----------------------------------------------------------------------------------------------------------


def test_pooling_compiles_and_exports_as_one_graph_with_its_derivative() -> None:
    class Pool(torch.nn.Module):
        def forward(self, u: Tensor) -> Tensor:
            return pooled(u)

    u, g = drawn("trend", 37, dtype=torch.float32), drawn("noise", 37, dtype=torch.float32)
    program = torch.export.export(Pool(), (u[:7],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    compiled = torch.compile(Pool(), fullgraph=True, backend="aot_eager")
    for run in (program.module(), compiled, torch.vmap(Pool())):
        ours, theirs = u.clone().requires_grad_(), u.clone().requires_grad_()
        x, expected = run(ours), pooled(theirs)
        assert torch.equal(x, expected)
        (found,), (right,) = torch.autograd.grad(x, ours, g), torch.autograd.grad(expected, theirs, g)
        assert torch.allclose(found, right, atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
def test_a_long_chain_runs_in_onnx_runtime(strict: bool, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    P = rh.monotone(37, increasing=False)
    layer = rh.Constrained(6, P, strict=strict)
    path = to_onnx(layer.fold(), 6, tmp_path / "layer.onnx")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for scale in (0.1, 30.0):
        h = scale * torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
        x = torch.from_numpy(session.run(None, {"features": h.numpy()})[0])
        assert torch.allclose(x, layer(h), atol=1e-5 * scale)
        assert bool(P.contains_exactly(x).all())


# -- layers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("increasing", [True, False])
def test_a_long_chain_is_inside_exactly_strict_or_not(dtype: torch.dtype, increasing: bool) -> None:
    P = rh.monotone((2, 40), increasing=increasing)
    for strict in (False, True) if COMPILED else (True,):  # without kernels a chain is in order up to rounding
        layer = rh.Constrained(6, P, strict=strict).to(dtype)
        assert "a chain" in layer.describe()
        for scale in (1e-6, 1.0, 1e6):
            h = scale * torch.randn(64, 6, generator=torch.Generator().manual_seed(1)).to(dtype)
            assert bool(P.contains_exactly(layer(h)).all())


def test_chains_too_long_for_a_table_of_means_are_pooled_too() -> None:
    u = np.random.default_rng(0).standard_normal((2, 5000))
    x = pooled(torch.from_numpy(u))
    assert bool((x[:, 1:] >= x[:, :-1]).all())
    assert torch.allclose(x, torch.stack([one_by_one(v)[0] for v in torch.from_numpy(u)]), atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strict_moves_no_pool_and_keeps_the_largest_numbers_finite(dtype: torch.dtype) -> None:
    P, most = rh.monotone(40), torch.finfo(dtype).max
    into = rh.MapInto(P, base=np.arange(40.0), strict=True, dtype=dtype)
    u = drawn("integers", 40, dtype=dtype)
    digits = {"rtol": torch.finfo(dtype).eps, "atol": 1e-14}
    torch.testing.assert_close(into(u - torch.arange(40)), pooled(u.double()).to(dtype), **digits)
    x = into(most * torch.ones(3, 40, dtype=dtype) * torch.tensor([[1], [-1], [0.5]]).to(dtype))
    assert bool(x.isfinite().all())
    assert bool(P.contains_exactly(x).all())
