"""The constants of the strict proofs: each float64 step's true error, in fractions, beside what is granted for it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.maps.shrink import EPS, gamma, roundoff
from rayhull.nn.constants import Factory, Product
from rayhull.nn.strict import DTYPES, Intervals, Ordered, Pull, finish_of, limit_of
from rayhull.sets.frame import slack_below

PAGE = Path(__file__).parents[1] / "docs" / "strict.md"
UNIT = {torch.float64: 2**-53, torch.float32: 2**-24, torch.bfloat16: 2**-8, torch.float16: 2**-11}


def adversarial(rng: np.random.Generator, n: int) -> np.ndarray:
    """Numbers just below or above a power of two, of either sign: each operation rounds by nearly half an ulp."""
    kind = rng.integers(4, size=n)
    ulps = rng.integers(1, 2000, size=n) * 2.0**-52
    values = np.choose(kind, [1 - ulps / 2, 1 + ulps, rng.random(n) + 1, 1 + rng.random(n) * 2.0**-20])
    return values * rng.choice([-1.0, 1.0], n) if rng.random() < 0.5 else values


def dot(a: np.ndarray, z: np.ndarray) -> Fraction:
    return sum((Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), z.tolist(), strict=True)), Fraction(0))


@pytest.mark.parametrize("n", [1, 2])
def test_a_product_with_divided_rows_is_granted_what_it_loses(n: int) -> None:
    """γ_n ‖a‖₁ ζ / σ for n terms and the division by σ; n ε alone would not do."""
    rng, worst = np.random.default_rng(n), 0.0
    for _ in range(4000):
        a, z, slack = adversarial(rng, n), adversarial(rng, n), float(adversarial(rng, 1)[0].__abs__())
        computed = float(torch.tensor(a / slack) @ torch.tensor(z))
        size = Fraction(float(np.abs(a).sum())) * Fraction(float(np.abs(z).max())) / Fraction(slack)
        worst = max(worst, float(abs(Fraction(computed) - dot(a, z) / Fraction(slack)) / size))
    assert worst <= gamma(n)
    assert worst > n * EPS
    assert gamma(n) >= (n + 16) * EPS


def test_the_last_step_is_granted_what_it_loses() -> None:
    """u' (|q| + t ζ) + u τ for round(q + t z): above u (|q| + t ζ), which the rounding alone would have."""
    rng, above = np.random.default_rng(0), 0
    for dtype in DTYPES:
        q, t, z = (torch.tensor(adversarial(rng, 4000)) for _ in range(3))
        t = t.abs() / 2
        q = torch.where(torch.arange(4000) % 2 == 0, q, q * 2.0**-60)
        x = (q + t * z).to(dtype).double()
        for xs, qs, ts, zs in zip(x.tolist(), q.tolist(), t.tolist(), z.tolist(), strict=True):
            error = abs(Fraction(xs) - Fraction(qs) - Fraction(ts) * Fraction(zs))
            size = abs(Fraction(qs)) + Fraction(ts) * abs(Fraction(zs))
            tiny = Fraction(UNIT[dtype]) * Fraction(torch.finfo(dtype).tiny)
            assert error <= Fraction(roundoff(dtype)) * size + tiny
            above += error > Fraction(UNIT[dtype]) * size
    assert above > 50  # without the 16 ε the bound would be wrong


def test_slack_is_bounded_from_below() -> None:
    rng, closer = np.random.default_rng(1), 0
    for _ in range(100):
        A, point = rng.standard_normal((6, 4)), 10.0 ** rng.integers(-3, 6) * rng.standard_normal(4)
        b = A @ point + rng.random(6)
        P, numbers = rh.Polyhedron(A, b), np.arange(6)
        for cone in (False, True):
            below = slack_below(P, numbers, point, cone=cone)
            plain = (0 if cone else b) - A @ point
            for i in range(6):
                true = (0 if cone else Fraction(b[i])) - dot(A[i], point)
                assert Fraction(below[i]) <= true
                closer += Fraction(plain[i]) > true
    assert closer > 100  # the slack as float64 computes it is no lower bound


def stated(name: str) -> str:
    """The line of the table in docs/strict.md that states a constant."""
    (line,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{name}` ")]
    return line


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_constants_are_those_of_the_page(dtype: torch.dtype) -> None:
    assert "(n + 16) ε / (1 − (n + 16) ε)" in stated("gamma")
    assert gamma(7) == 23 * 2.0**-53 / (1 - 23 * 2.0**-53)
    assert "u + 16 ε" in stated("roundoff")
    assert roundoff(dtype) == UNIT[dtype] + 16 * 2.0**-53
    cone = finish_of(rh.convex(6), Factory())
    assert isinstance(cone, Pull)
    loose, tight, constant, kept, tiny, reach, limit = cone.numbers_of(dtype)
    assert "(γₙ + 3 u′) max ‖a‖₁/ρ" in stated("margin")
    assert (loose, tight) == (0.0, (gamma(3) + 3 * roundoff(dtype)) * cone.tight_steepest)
    assert "1 − 2 u′ max(‖a‖₁/ρ" in stated("kept")
    assert kept == 1 - 2 * roundoff(dtype) * cone.tight_steepest
    assert (tiny, limit, reach) == (torch.finfo(dtype).tiny, torch.finfo(dtype).max / 4, limit)
    polytope = finish_of(rh.Polyhedron([[3, -1, 2], [-1, -1, 1]], [1, 1], lower=-1, upper=1), Factory())
    assert isinstance(polytope, Pull)
    loose, tight, constant, kept, *_ = polytope.numbers_of(dtype)
    margin = (gamma(3) + 3 * roundoff(dtype)) * polytope.loose_steepest
    assert (loose, tight) == (margin, 0.0)
    assert "margin · (max\\|q\\| + τ) + 8 ε max \\|b\\|/σ" in stated("constant")
    assert constant == margin * (polytope.largest + tiny) + 8 * 2.0**-53 * polytope.offset
    assert kept == 1 - 2 * roundoff(dtype) * (polytope.share + polytope.loose_steepest * tiny)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_set_takes_the_pull_but_chains_and_intervals(dtype: torch.dtype) -> None:
    kinds = [(rh.monotone(4), Ordered), (rh.monotone(4) & rh.box(0, 1), Pull), (rh.simplex(3), Pull)]
    kinds += [(rh.sum_to(1, 3), Pull), (rh.monotone(3, step=1), Pull)]
    for P, kind in kinds:
        finish = finish_of(P, Factory(dtype=dtype))
        assert type(finish) is kind
        large = torch.full((1, P.dim), min(2.0**96, torch.finfo(dtype).max), dtype=dtype)
        x = finish(large if len(P.rows) else large * torch.tensor([[1.0, -1.0, 0.0]]).to(dtype), dtype)
        assert bool(x.isfinite().all())
        assert float(x.double().abs().max()) <= 2 * limit_of(dtype)
    into = rh.MapInto(rh.box(0, 1, 3), strict=True, dtype=dtype)
    assert into._finishes is not None
    assert isinstance(into._finishes.each[0], Intervals)


def test_the_product_of_the_gauge_divides_before_it_multiplies() -> None:
    """The entries of the rows are a / σ, rounded once: the 16 in γ counts on it."""
    import scipy.sparse as sp

    matrix = sp.csr_array(np.array([[0.1, 0.7, 0.0], [1.0, 2.0, 3.0]]))
    product = Product(matrix, Factory(dtype=torch.float64))
    y = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    expected = torch.tensor(matrix.toarray()[product.order]) @ y
    assert torch.allclose(product(y), expected, rtol=1e-15)
