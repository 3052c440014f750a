"""Random sets and batches through ``project``: every answer is certified by its KKT conditions, or an error was raised.

The certificate shares nothing with the library's own: the push x - z must be a non-negative combination of the rows
that z meets, found by SciPy's NNLS.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

import rayhull as rh
from rayhull.errors import EmptySetError, UnverifiedError

Array = np.ndarray[Any, Any]


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Try random cases for so long; raises on the first wrong answer, with what is needed to see it again."""
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        case = int(rng.integers(2**62))
        counts.update(one_case(case, most=128))
    return dict(counts)


def one_case(case: int, most: int = 8) -> Counter[str]:
    """One random set, batch of at most so many points, and options, all from one number."""
    rng = np.random.default_rng(case)
    kind, P = random_set(rng)
    counts = Counter({"cases": 1, kind: 1})
    if P is None:
        return counts
    x = random_points(rng, P, most)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["weights"] = np.exp(rng.uniform(-2, 2, P.dim)).reshape(P.shape)
    if rng.random() < 0.15:
        options["solver"] = str(rng.choice(["active set", "dual"]))
    tensor = torch.tensor(x, dtype=torch.float32 if rng.random() < 0.2 else torch.float64)
    moved = torch.zeros_like(tensor)
    sizes = tensor.double().abs().max()  # moved points far smaller or larger than the move would be its rounding
    if rng.random() < 0.4 and tensor.dtype == torch.float64 and 1e-2 < sizes < 1e8:  # a set of each sample: P moved
        moved = torch.tensor(rng.integers(-8, 9, x.shape) / 4)
        options |= sides_of_moved_sets(P, moved.numpy().reshape(len(x), -1))
        counts["sides"] += len(x)
    try:
        z, info = rh.project(P, tensor + moved, return_info=True, **options)
    except UnverifiedError:
        return counts + Counter({"refused": 1})
    except EmptySetError as error:
        raise AssertionError(f"case {case} ({kind}): a set that is not empty was called empty: {error}") from error
    wrong = certify(P, (tensor + moved) - moved, z - moved, options.get("weights"), moved=float(moved.abs().max()))
    if wrong is not None:
        raise AssertionError(f"case {case} ({kind}, {info.solvers}, {tensor.dtype}, {sorted(options)}): {wrong}")
    return counts + Counter({"samples": len(x), "fallback": int(info.fallback.sum())})


def sides_of_moved_sets(P: rh.Polyhedron, v: Array) -> dict[str, Array]:
    """Right-hand sides and bounds of P + v for each row of v."""
    n, sides = len(v), {}
    if len(P.inequalities):
        sides["b"] = P.inequalities.rhs + v @ P.inequalities.matrix.toarray().T
    if len(P.equalities):
        sides["b_eq"] = P.equalities.rhs + v @ P.equalities.matrix.toarray().T
    for name, bound in (("lower", P.lower_bounds), ("upper", P.upper_bounds)):
        if np.isfinite(bound).any():
            sides[name] = (bound + v).reshape(n, *P.shape)
    return sides


def certify(
    P: rh.Polyhedron, x: torch.Tensor, z: torch.Tensor, weights: Array | None = None, moved: float = 0.0
) -> str | None:
    """What is wrong with z as the nearest points to x, or None; ``moved``: how far both were moved and back."""
    noise = 256 * np.finfo(float).eps * moved
    exact = x.dtype == torch.float64
    tolerance = 2e-9 if exact else 2e-5
    points, nearest = (v.detach().double().numpy().reshape(len(v), -1) for v in (x, z))
    w = np.ones(P.dim) if weights is None else np.asarray(weights, float).ravel()
    A, E = P.rows.matrix.toarray(), P.equality_rows.matrix.toarray()
    norms = np.linalg.norm(A, axis=1) if len(A) else np.zeros(0)
    for n, (y, p) in enumerate(zip(points, nearest, strict=True)):
        size = np.abs(p).max()
        excess = np.concatenate([(A @ p - P.rows.rhs) / norms, np.abs(E @ p - P.equality_rows.rhs)])
        scale = size + np.abs(np.concatenate([P.rows.rhs / norms, P.equality_rows.rhs])).max(initial=0.0)
        scale += np.finfo(float).eps * np.abs(y).max()  # a point that should be 0 is 0 up to the rounding of x
        if excess.max(initial=0.0) > tolerance * (scale + 1e-300) + noise:
            return f"sample {n}: outside by {excess.max():.1e} at scale {scale:.1e}"
        push = w * (y - p)
        if np.abs(push).max() <= tolerance * (np.abs(w * y).max() + 1e-300) + 100 * noise * w.max():
            continue
        loose = noise + tolerance * 10 * (scale + np.abs(y).max() * 1e-7 + 1e-300)
        met = (A @ p - P.rows.rhs) / norms >= -loose
        cone = np.concatenate([A[met], E, -E])
        lengths = np.linalg.norm(cone, axis=1, keepdims=True)
        left = nnls((cone / lengths).T, push / np.linalg.norm(push), maxiter=1000)[1] if len(cone) else 1.0
        if (
            left * np.linalg.norm(push)
            > tolerance * 100 * (np.abs(w * y).max() + np.abs(w * p).max()) + 100 * noise * w.max()
        ):
            return f"sample {n}: the push is no combination of the rows it meets, {left:.1e} is left"
    return None


def random_points(rng: np.random.Generator, P: rh.Polyhedron, most: int = 8) -> Array:
    """Gaussian points at many scales, integers with ties, points of the set and of its boundary."""
    n = int(rng.integers(1, most + 1))
    how = rng.integers(4)
    if how == 0:
        return rng.standard_normal((n, *P.shape)) * 10.0 ** rng.integers(-12, 13)
    if how == 1:
        return rng.integers(-2, 3, (n, *P.shape)).astype(float)
    start = rng.standard_normal((n, *P.shape)) * 3
    if how == 2:
        return np.asarray(rh.project(P, start))  # at the kinks
    return start


def random_set(rng: np.random.Generator) -> tuple[str, rh.Polyhedron | None]:
    """A random set around a point that it contains; None where the numbers happened to state an empty set."""
    kinds = (dense, integers, chain, order, one_row, affine, parallel, single_point, ready_made, blocks)
    kind = kinds[int(rng.integers(len(kinds)))]
    try:
        return kind.__name__, kind(rng)
    except (EmptySetError, UnverifiedError):
        return kind.__name__, None


def _around(rng: np.random.Generator, A: Array, **more: Any) -> rh.Polyhedron:
    inside = rng.standard_normal(A.shape[1])
    return rh.Polyhedron(A, A @ inside + rng.exponential(1.0, len(A)) * (rng.random(len(A)) < 0.8), **more)


def dense(rng: np.random.Generator) -> rh.Polyhedron:
    m, d = rng.integers(1, 25, 2)
    box = {"lower": -4.0, "upper": 4.0} if rng.random() < 0.5 else {}
    return _around(rng, rng.standard_normal((m, d)) * 10.0 ** rng.integers(-6, 7, (m, 1)), **box)


def integers(rng: np.random.Generator) -> rh.Polyhedron:
    """Many zeros, ties and duplicate rows."""
    m, d = rng.integers(1, 20), rng.integers(1, 10)
    A = rng.integers(-1, 2, (m, d))
    A = A[rng.integers(0, m, 2 * m)]
    low = rng.integers(-3, 1, d) if rng.random() < 0.5 else None
    return rh.Polyhedron(A, rng.integers(0, 3, 2 * m), lower=low, upper=rng.integers(0, 3, d))


def chain(rng: np.random.Generator) -> rh.Polyhedron:
    d = int(rng.integers(2, 30))
    order = rng.permutation(d)
    rows = np.zeros((d - 1, d))
    factor = np.exp(rng.standard_normal(d - 1)) if rng.random() < 0.5 else np.ones(d - 1)
    rows[np.arange(d - 1), order[:-1]], rows[np.arange(d - 1), order[1:]] = factor, -factor
    steps = factor * (rng.uniform(-0.1, 0.05, d - 1) if rng.random() < 0.5 else 0.0)
    bounds = {} if rng.random() < 0.4 else {"lower": rng.uniform(-2, -1, d), "upper": rng.uniform(2, 3, d)}
    return rh.Polyhedron(rows, steps, **bounds)


def order(rng: np.random.Generator) -> rh.Polyhedron:
    d = int(rng.integers(2, 20))
    pairs = {tuple(sorted(p)) for p in rng.integers(0, d, (2 * d, 2)).tolist() if p[0] != p[1]}
    return rh.ordered(sorted(pairs) or [(0, 1)], d)


def one_row(rng: np.random.Generator) -> rh.Polyhedron:
    d = int(rng.integers(1, 30))
    a = rng.standard_normal((1, d)) * (rng.random(d) < 0.9) + 0.0
    low, high = -rng.exponential(1, d), rng.exponential(1, d)
    low, high = np.where(rng.random(d) < 0.2, -np.inf, low), np.where(rng.random(d) < 0.2, np.inf, high)
    if rng.random() < 0.5 and a.any():
        return rh.Polyhedron(A_eq=a, b_eq=[0.0], lower=low, upper=high)
    return rh.Polyhedron(a, rng.exponential(1, 1), lower=low, upper=high)


def affine(rng: np.random.Generator) -> rh.Polyhedron:
    d = int(rng.integers(2, 20))
    E = rng.standard_normal((int(rng.integers(1, d)), d))
    E = np.concatenate([E, E[:1] * 2]) if rng.random() < 0.5 else E  # a dependent row
    inside = rng.standard_normal(d)
    if rng.random() < 0.5:
        return rh.Polyhedron(A_eq=E, b_eq=E @ inside)
    A = rng.standard_normal((int(rng.integers(1, 10)), d))
    return rh.Polyhedron(A, A @ inside + rng.exponential(1, len(A)), E, E @ inside)


def parallel(rng: np.random.Generator) -> rh.Polyhedron:
    """Rows that differ by 1e-10 to 1e-4."""
    m, d = rng.integers(1, 8), rng.integers(2, 8)
    A = rng.standard_normal((m, d))
    return _around(rng, np.concatenate([A, A + rng.standard_normal(A.shape) * 10.0 ** rng.integers(-10, -3)]))


def single_point(rng: np.random.Generator) -> rh.Polyhedron:
    d = int(rng.integers(1, 8))
    inside = rng.integers(-3, 4, d)
    if rng.random() < 0.5:
        return rh.Polyhedron(lower=inside, upper=inside, shape=d)
    return rh.Polyhedron(np.concatenate([np.eye(d), -np.eye(d)]).astype(int), np.concatenate([inside, -inside]))


def ready_made(rng: np.random.Generator) -> rh.Polyhedron:
    n = int(rng.integers(3, 20))
    made = [
        rh.convex(n), rh.concave(n) & rh.box(-1, 1), rh.unimodal(n, n // 2), rh.lipschitz(n, 0.25), rh.simplex((2, n)),
        rh.checkerboard((6, 6), (2, 2)) & rh.box(-1, 1), rh.windows((6, 6), 3, 2), rh.ordered(None, (3, 4)),
        rh.monotone((n, 3), axis=0) & rh.box(0, 1), rh.sum_to(2, n) & rh.box(-1, 2),
    ]  # fmt: skip
    return made[int(rng.integers(len(made)))]


def blocks(rng: np.random.Generator) -> rh.Polyhedron:
    return rh.product(*(kind(rng) for kind in (one_row, chain, dense)))


if __name__ == "__main__":
    print(run(seconds=60.0, seed=int(time.time())))
