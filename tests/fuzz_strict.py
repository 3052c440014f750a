"""strict=True on random sets, dtypes, scales and ways in, judged in rational arithmetic."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import torch

import rayhull as rh

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SCALES = (1e-30, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e30)


def inequalities_of(P: rh.Polyhedron) -> rh.Polyhedron:
    """The set without its equalities: what strict promises exactly."""
    return rh.Polyhedron.from_rows(P.inequalities, None, P.lower, P.upper, P.shape, check=False)


def random_set(rng: np.random.Generator) -> rh.Polyhedron:
    """A cone, a polytope, an unbounded set or a ready-made one, with integers or floats, around 0 or far from it."""
    d, m = int(rng.integers(2, 9)), int(rng.integers(1, 12))
    A = rng.integers(-9, 10, (m, d)).astype(float) if rng.random() < 0.5 else rng.standard_normal((m, d))
    A = A * 10.0 ** rng.integers(-3, 4, (m, 1)) if rng.random() < 0.3 else A
    inside = rng.standard_normal(d)
    kind = rng.integers(6)
    if kind == 0:
        return rh.Polyhedron(A * -np.sign(A @ inside + 1e-9)[:, None])
    if kind == 1:
        return rh.Polyhedron(A, A @ inside + rng.random(m) * np.abs(A).sum(1) + 0.1)
    if kind == 2:
        return rh.Polyhedron(A, rng.random(m) * np.abs(A).sum(1), lower=-1, upper=rng.random(d) + 0.5)
    if kind == 3:
        centre = 100 * inside
        return rh.Polyhedron(A, A @ centre + np.abs(A).sum(1), lower=centre - 3, upper=centre + 5)
    ready = (
        rh.monotone(d + 1, step=float(rng.random())),
        rh.convex(d + 2) & rh.box(0, 1),
        rh.simplex(d),
        rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1),
        rh.ordered(None, (3, 3)),
        rh.lipschitz(d, float(rng.random()) + 0.01) & rh.box(-1, 1),
    )
    return ready[int(rng.integers(len(ready)))]


def outside_of(P: rh.Polyhedron, x: torch.Tensor) -> int:
    """How many points are outside in rational arithmetic; those that float64 can prove to be inside are not asked."""
    points = x.detach().double().reshape(len(x), -1).numpy()
    rows = P.rows
    size = np.abs(points) @ abs(rows.matrix).T.toarray() + np.abs(rows.rhs)
    error = (np.diff(rows.matrix.indptr) + 8) * 2.0**-51 * size
    with np.errstate(invalid="ignore", over="ignore"):
        proven = (points @ rows.matrix.T.toarray() + error <= rows.rhs).all(1) & np.isfinite(points).all(1)
    doubtful = np.flatnonzero(~proven)
    doubtful = np.union1d(doubtful, np.arange(min(4, len(points))))  # and a few of the others, to check the proof
    return int((~P.contains_exactly(x[torch.as_tensor(doubtful)])).sum())


def judge(P: rh.Polyhedron, rng: np.random.Generator, samples: int) -> Counter[str]:
    """Every dtype and scale on one set, one way in; raises at the first output outside."""
    method = str(rng.choice(["auto", "shrink", "vertices"]))
    exact, seen = inequalities_of(P), Counter[str]()
    for dtype in DTYPES:
        try:
            layer = rh.Constrained(4, P, method=method, strict=True, max_generators=2000, dtype=dtype)
        except rh.RayhullError:
            seen["refused"] += 1
            continue
        for scale in SCALES:
            features = torch.as_tensor(rng.standard_normal((samples, 4)) * scale)
            features = features.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).to(dtype)
            with torch.no_grad():
                x = layer(features)
            outside = outside_of(exact, x)
            if outside:
                raise AssertionError(f"{P!r}: {outside} outside, {method}, {dtype}, scale {scale:g}.")
            seen[str(dtype).removeprefix("torch.")] += samples
    return seen


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Judge random sets until the time is over; the counts of outputs judged."""
    rng, start, found = np.random.default_rng(seed), time.monotonic(), Counter[str]()
    torch.manual_seed(seed)
    while time.monotonic() - start < seconds:
        try:
            P = random_set(rng)
        except rh.EmptySetError:
            continue
        found += judge(P, rng, samples=256)
        found["sets"] += 1
    return dict(found)
