"""The bounds of ``strict=True`` grant each float64 step at least what it gets wrong, measured in fractions.

Random features cannot see these margins: several are granted at once, and rarely needed together. So each step is taken
alone, with numbers that round as badly as they can, and its true error is compared with the term of docs/strict.md.
"""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps.strict import EPS, gamma, roundoff
from rayhull.nn.constants import Factory
from rayhull.nn.gauge import Gauge
from rayhull.nn.strict import StrictPull, interior_ray, slack_below

PAGE = (Path(__file__).parent.parent / "docs" / "strict.md").read_text(encoding="utf-8")
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
FLOAT64 = Factory(None, torch.float64)


def awkward(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers that round badly: all digits set, ties, both signs, several scales."""
    digits = rng.choice([1 - 2.0**-53, 1 + 2.0**-52, 1 + 2.0**-26, 1 / 3, 0.1, 0.7, 1.5 - 2.0**-52], shape)
    return digits * rng.choice([-1.0, 1.0], shape) * 2.0 ** rng.integers(-3, 4, shape)


def exact_dot(a: np.ndarray, x: np.ndarray) -> F:
    return sum((F(float(v)) * F(float(w)) for v, w in zip(a, x, strict=True)), F(0))


def test_a_gauge_is_as_wrong_as_its_bound_grants_and_no_more():
    """Step 1 of the page: a·z / σ, entries rounded, at most γₙ ‖a‖₁ ζ / σ off."""
    rng, worst = np.random.default_rng(0), 0.0
    for n in (1, 2, 3):
        for _ in range(400):
            a, z, h = awkward(rng, n), awkward(rng, n), abs(awkward(rng, 1))
            P = rh.Polyhedron(a[None], 1.0)
            gauge = Gauge(P, np.array([0]), h, FLOAT64)
            off = abs(F(float(gauge(torch.as_tensor(z)[None])[0])) - exact_dot(a, z) / F(float(h[0])))
            granted = F(gamma(n)) * F(float(np.abs(a).sum())) * F(float(np.abs(z).max())) / F(float(h[0]))
            assert off <= granted
            worst = max(worst, float(off / (n * F(EPS) / F(gamma(n)) * granted)))
    assert worst > 1  # n ε alone would not do: the entries of a / σ are rounded too


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_point_is_as_wrong_as_its_roundoff_grants_and_no_more(dtype):
    """Step 2: x = round(q + t z) is at most u′(|q| + t ζ) off, coordinate by coordinate."""
    rng = np.random.default_rng(0)
    q, z = torch.as_tensor(awkward(rng, 4000)), torch.as_tensor(awkward(rng, 4000))
    t = torch.as_tensor(rng.choice([1 - 2.0**-53, 1 / 3, 0.1, 0.7, 1 - 2.0**-26], 4000))
    x = (q + t * z).to(dtype).double()
    worst = F(0)
    for point, base, share, way in zip(x.tolist(), q.tolist(), t.tolist(), z.tolist(), strict=True):
        off = abs(F(point) - F(base) - F(share) * F(way))
        worst = max(worst, off / (abs(F(base)) + F(share) * abs(F(way))))
    assert worst <= F(roundoff(dtype))
    if dtype == torch.float64:
        assert worst > F(EPS)  # one rounding alone is not enough


def test_a_slack_is_never_more_than_the_true_one():
    """σ itself is a lower bound: float64, less (n + 8)·2ε(|a|·|q| + |b|)."""
    rng, too_large = np.random.default_rng(0), 0
    for _ in range(300):
        a, q = awkward(rng, 6), awkward(rng, 6)
        b = float(a @ q) + 2.0**-40
        P = rh.Polyhedron(a[None], b)
        true = F(b) - exact_dot(a, q)
        assert F(float(slack_below(P, np.array([0]), q)[0])) <= true
        too_large += F(b - float(a @ q)) > true
    assert too_large > 30  # without the term it would be, often


def test_the_gain_along_a_ray_is_never_more_than_the_true_one():
    """The second kind of anchor: σ + s ρ, with ρ the gain of a row along the ray, also a lower bound."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        A = np.concatenate([-np.abs(awkward(rng, 3, 4)), awkward(rng, 1, 4) - 9])
        P = rh.Polyhedron(A, np.abs(awkward(rng, 4)) - 2)
        direction, numbers = interior_ray(P), np.arange(4)
        assert direction is not None
        point = P.interior_point().ravel()
        pull = StrictPull(P, None, FLOAT64)
        least = pull._least_slack(P, numbers, point, direction)
        for i in numbers:
            row = P.rows.matrix[[i]].toarray()[0]
            gain = -exact_dot(row, direction)
            assert F(float(least[i])) <= min(F(float(P.rows.rhs[i])) - exact_dot(row, point), gain)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 784])
def test_the_constants_are_those_of_the_page(dtype, n):
    u = torch.finfo(dtype).eps / 2
    assert roundoff(dtype) == u + 16 * EPS
    assert gamma(n) == (n + 16) * EPS / (1 - (n + 16) * EPS)
    for sentence in ("u′ = u + 16ε", "γₙ = (n + 16)ε / (1 − (n + 16)ε)", "less (n + 8)·2ε", "with 3u′ for u′"):
        assert sentence in PAGE


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_pull_grants_three_roundings_and_the_product(dtype):
    """The point, the anchor and the last rounding: slopes of the excess in max|x|, over the rows' steepness."""
    P = rh.monotone(5)
    pull = StrictPull(P, None, FLOAT64)
    numbers = pull.numbers_of(dtype)
    wanted = (gamma(2) + 3 * roundoff(dtype)) * pull.tight_steepest
    assert any(np.isclose(value, wanted, rtol=1e-12, atol=0) for value in numbers)
