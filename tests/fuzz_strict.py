"""strict=True on random sets, dtypes, scales and ways in, judged in rational arithmetic."""

from __future__ import annotations

import copy
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rayhull as rh
from rayhull.nn.export import to_onnx

Run = Callable[[torch.Tensor], torch.Tensor]
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SCALES = (1e-30, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e30)
METHODS = ("auto", "nearest", "steps", "shrink", "vertices")
CHECKPOINTS, COMPILED, EXPORTED = 0.25, 0.002, 0.05  # how often; a compilation takes some 20 s, an export 1 s
SAMPLES, MANY, SIDED = {"eager": 4096, "folded": 4096, "checkpoint": 4096}, 20_000, 256


def inequalities_of(P: rh.Polyhedron) -> rh.Polyhedron:
    """The set without its equalities: what strict promises exactly."""
    return rh.Polyhedron.from_rows(P.inequalities, None, P.lower, P.upper, P.shape, check=False)


def random_set(rng: np.random.Generator) -> rh.Polyhedron:
    """A cone, a polytope, an unbounded set or a ready-made one, with integers or floats, around 0 or far from it."""
    d, m = int(rng.integers(2, 9)), int(rng.integers(1, 12))
    A = rng.integers(-9, 10, (m, d)).astype(float) if rng.random() < 0.5 else rng.standard_normal((m, d))
    A = A * 10.0 ** rng.integers(-3, 4, (m, 1)) if rng.random() < 0.3 else A
    inside = rng.standard_normal(d)
    kind = rng.integers(8)
    if kind == 0:
        return rh.Polyhedron(A * -np.sign(A @ inside + 1e-9)[:, None])
    if kind == 1:
        return rh.Polyhedron(A, A @ inside + rng.random(m) * np.abs(A).sum(1) + 0.1)
    if kind == 2:
        return rh.Polyhedron(A, rng.random(m) * np.abs(A).sum(1), lower=-1, upper=rng.random(d) + 0.5)
    if kind == 3:
        centre = 100 * inside
        return rh.Polyhedron(A, A @ centre + np.abs(A).sum(1), lower=centre - 3, upper=centre + 5)
    if kind == 4:  # equalities, and an interior
        E = A[: max(1, d // 3)]
        return rh.Polyhedron(A_eq=E, b_eq=E @ inside, lower=inside - rng.random(d) - 0.1, upper=inside + 1)
    if kind == 5:  # blocks of one coordinate, mirror images, fractions beside floats
        ends = np.array([Fraction(int(rng.integers(1, 50)), int(rng.integers(1, 50))) for _ in range(d)], object)
        return rh.Polyhedron(lower=-ends if rng.random() < 0.5 else -rng.random(d), upper=ends)
    ready = (
        rh.monotone(d + 1, step=float(rng.random())),
        rh.convex(d + 2) & rh.box(0, 1),
        rh.simplex(d),
        rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1),
        rh.ordered(None, (3, 3)),
        rh.product(rh.simplex(3), rh.monotone(3), rh.convex(4) & rh.box(-2, 1), rh.concave(4) & rh.box(-1, 2)),
        rh.Polyhedron(np.eye(d) - 2 * np.eye(d, k=1), A_eq=np.ones((1, d)), b_eq=[0]),
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


def ways_to_run(layer: rh.Constrained, rng: np.random.Generator, folder: Path) -> Iterator[tuple[str, Run]]:
    """The layer as it stands, folded, from a checkpoint in float16; now and then compiled, or in ONNX Runtime."""
    yield "eager", layer
    yield "folded", layer.fold()
    if rng.random() < CHECKPOINTS:
        yield "checkpoint", from_checkpoint(layer)
    if rng.random() < COMPILED:
        yield "compiled", layer.fold(compile=True)
    if rng.random() < EXPORTED and layer.linear.weight.dtype != torch.bfloat16:
        try:
            path = to_onnx(layer.fold() if rng.random() < 0.5 else layer, 4, folder / "layer.onnx")
        except rh.RayhullError:  # a nearest point without a formula
            return
        yield "onnx, optimised", onnx_run(path, optimised=True)
        yield "onnx, as it is", onnx_run(path, optimised=False)


def from_checkpoint(layer: rh.Constrained) -> rh.Constrained:
    """A fresh layer with what a float16 copy of an ordinary one saved."""
    fresh = copy.deepcopy(layer)
    state = {k: v.half() if v.is_floating_point() else v for k, v in layer.state_dict().items()}
    fresh.strict = False
    fresh.load_state_dict(state)
    fresh.strict = True
    return fresh


def onnx_run(path: Path, *, optimised: bool) -> Run:
    import onnxruntime

    options, levels = onnxruntime.SessionOptions(), onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda h: torch.as_tensor(session.run(None, {"features": h.numpy()})[0])


def features(rng: np.random.Generator, scale: float, samples: int, dtype: torch.dtype) -> torch.Tensor:
    values = torch.as_tensor(rng.standard_normal((samples, 4)) * scale)
    largest = torch.finfo(dtype).max
    return values.clamp(-largest, largest).to(dtype)


def judge(P: rh.Polyhedron, rng: np.random.Generator, folder: Path) -> Counter[str]:
    """Every dtype, scale and way to run on one set, one way in; raises at the first output outside."""
    method, smooth = str(rng.choice(METHODS)), bool(rng.random() < 0.2)
    exact, seen = inequalities_of(P), Counter[str]()
    for dtype in DTYPES:
        options: dict[str, Any] = {"method": method, "smooth": smooth, "strict": True, "max_generators": 2000}
        try:
            layer = rh.Constrained(4, P, dtype=dtype, **options).eval()
        except rh.RayhullError:
            seen["refused"] += 1
            continue
        for name, run in ways_to_run(layer, rng, folder):
            samples = SAMPLES.get(name, MANY)
            for scale in SCALES:
                with torch.no_grad():
                    x = run(features(rng, scale, samples, dtype))
                what = f"{P!r}, {method}, {dtype}, {name}, scale {scale:g}"
                outside = outside_of(exact, x)
                if outside:
                    raise AssertionError(f"{outside} outside: {what}.")
                worst = equality_error(P, x)
                if worst > 1.0:
                    raise AssertionError(f"an equality is off by {worst:.3g} of what is stated: {what}.")
                seen[name] += samples
                seen[str(dtype).removeprefix("torch.")] += samples
    return seen


def equality_error(P: rh.Polyhedron, x: torch.Tensor) -> float:
    """The largest |a·x - b| over what docs/strict.md states for it: ulps of ‖a‖₁ max(|x|, |q|), q the centre."""
    rows = P.equality_rows
    if not len(rows):
        return 0.0
    points, a = x.double().reshape(len(x), -1).numpy(), rows.matrix
    size = np.maximum(np.abs(points).max(1), float(np.abs(P.centre.point).max()))[:, None]
    ulps = 16 + P.dim if x.dtype == torch.float64 else 1
    off = np.abs(points @ a.T.toarray() - rows.rhs)
    return float((off / (ulps * torch.finfo(x.dtype).eps * abs(a).sum(1) * size)).max())


def judge_sides(P: rh.Polyhedron, rng: np.random.Generator) -> Counter[str]:
    """A strict layer whose samples bring their own rows, right-hand sides or bounds, judged by those very numbers."""
    dtype = DTYPES[int(rng.integers(2))]
    sides = random_sides(P, rng, dtype)
    try:
        layer = rh.Constrained(4, P, method="shrink", strict=True, dtype=dtype, infeasible="nan")
    except rh.RayhullError:
        return Counter({"sides refused": 1})
    x = layer(features(rng, float(rng.choice(SCALES[1:-1])), SIDED, dtype), **sides)
    known = x.reshape(SIDED, -1).isfinite().all(-1)
    inside = inequalities_of(P).contains_exactly(x[known], **{k: v[known] for k, v in sides.items() if k != "b_eq"})
    if not inside.all():
        raise AssertionError(f"{P!r}: {int((~inside).sum())} outside, {dtype}, with {', '.join(sides)} of the sample.")
    return Counter({"sides of the sample": int(known.sum()), "sides without a proof (NaN)": int((~known).sum())})


def random_sides(P: rh.Polyhedron, rng: np.random.Generator, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Sides of SIDED samples around a point of the set, each about as far from it as the stated one."""
    middle, sides = P.interior_point().ravel(), {}
    A = P.inequalities.matrix.toarray()
    if len(A) and rng.random() < 0.7:
        rows = A + 0.1 * np.abs(A).max() * rng.standard_normal((SIDED, *A.shape)) * (rng.random() < 0.5)
        slack = np.maximum(P.inequalities.rhs - A @ middle, 0.1 * np.abs(A).sum(1)) * (
            0.2 + rng.random((SIDED, len(A)))
        )
        sides |= {"A": rows, "b": rows @ middle + slack}
    for name, sign, bound in (("upper", 1, P.upper_bounds), ("lower", -1, P.lower_bounds)):
        if rng.random() < 0.5:
            slack = np.clip(np.nan_to_num(sign * (bound - middle), posinf=1.0), 0.05, 10.0)
            sides[name] = (middle + sign * slack * (0.2 + rng.random((SIDED, P.dim)))).reshape(SIDED, *P.shape)
    return {name: torch.as_tensor(value).to(dtype) for name, value in sides.items()}


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Judge random sets until the time is over; the counts of outputs judged."""
    rng, start, found = np.random.default_rng(seed), time.monotonic(), Counter[str]()
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - start < seconds:
            try:
                P = random_set(rng)
            except rh.EmptySetError:
                continue
            try:
                with torch.no_grad():
                    found += judge_sides(P, rng)
                found += judge(P, rng, Path(folder))
            except AssertionError:
                print(f"  before the wrong answer: {dict(found)}")
                raise
            found["sets"] += 1
    return dict(found)
