"""strict=True on sets with cones, judged in rational arithmetic."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import torch

import rayhull as rh
from rayhull.errors import RayhullError
from tests.convex_sets import SETS, without_equalities

SCALES = (1e-6, 1.0, 1e2, 1e4, 1e6)
DTYPES = (torch.float32, torch.float64)


def judged(S: rh.ConvexSet, samples: int, dtype: torch.dtype, seed: int) -> int:
    """How many strict outputs were judged; AssertionError for one that is outside."""
    into, rules = rh.MapInto(S, strict=True, dtype=dtype), without_equalities(S)
    generator, count = torch.Generator().manual_seed(seed), 0
    for scale in SCALES:
        c = (scale * torch.randn(samples, into.coefficients, generator=generator)).to(dtype)
        inside = rules.contains_exactly(into(c))
        assert bool(inside.all()), f"{int((~inside).sum())} of {samples} outputs are outside {S} ({dtype}, {scale:g})"
        count += samples
    return count


def random_set(rng: np.random.Generator) -> rh.ConvexSet:
    """A ball, an ellipsoid, a quadratic row or a cone, alone or with rows and bounds, near 0 or far from it."""
    d = int(rng.integers(2, 7))
    L = rng.standard_normal((d, int(rng.integers(1, d + 1)))) * 10.0 ** rng.integers(-1, 2)
    centre = rng.standard_normal(d) * 10.0 ** rng.integers(-1, 3)
    Q, kind = L @ L.T, rng.integers(4)
    Q = (Q + Q.T) / 2
    if kind == 0:
        S = rh.ball(float(rng.random() + 0.1), centre=centre)
    elif kind == 1:
        S = rh.ellipsoid(Q, float(rng.random() + 0.1), centre=centre)
    elif kind == 2:
        S = rh.quadratic(Q, rng.standard_normal(d), -float(rng.random()) - 0.1)
    else:
        x = rh.variables("x", shape=d)
        S = rh.rules(rh.norm(L.T @ x + rng.standard_normal(L.shape[1])) <= rng.standard_normal(d) @ x + 10.0)
    if rng.random() < 0.5:
        A, inside = rng.standard_normal((2, d)), S.interior_point()
        S = S & rh.Polyhedron(A, A @ inside + rng.random(2) * 0.1 * (1 + np.abs(inside).max()))
    return S


def run(seconds: float, seed: int) -> Counter[Any]:
    """The zoo, then random sets; refusals are counted by their kind, steps that leave much of the way are no matter."""
    rng, found, end = np.random.default_rng(seed), Counter[Any](), time.monotonic() + seconds
    names = list(SETS)
    while names or time.monotonic() < end:
        try:
            with warnings.catch_warnings(action="ignore", category=UserWarning):
                S = SETS[names.pop()]() if names else random_set(rng)
                for dtype in DTYPES:
                    found[str(dtype).removeprefix("torch.")] += judged(S, 8192, dtype, int(rng.integers(2**31)))
            found["sets"] += 1
        except RayhullError as error:
            found[f"refused ({type(error).__name__})"] += 1
    return found
