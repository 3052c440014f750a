"""Fifteen made problems of the learning benchmark.

Smooth functions of eight features give points of the set; training and validation targets carry noise, the test loss
is to the clean ones. Problems with an objective instead of targets report the gap to the optimum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special
import scipy.stats
import torch
from torch import Tensor

import rayhull as rh
from benchmarks import by_hand
from benchmarks.by_hand import ByHand
from benchmarks.learning_problem import LEVELS, Array, Problem, least, mean_variance, pinball, squared, tensor

NOISE, SIZES = 0.1, {"train": 4096, "val": 500, "test": 1000}


def features(rng: np.random.Generator) -> dict[str, Array]:
    return {part: rng.uniform(-1, 1, (n, 8)) for part, n in SIZES.items()}


def smooth(rng: np.random.Generator, k: int) -> Callable[[Array], Array]:
    """k smooth functions of eight features, of about unit size."""
    first, bias = rng.standard_normal((8, 16)) / 1.5, rng.standard_normal(16) * 0.5
    second = rng.standard_normal((16, k)) * 0.4
    return lambda X: np.tanh(X @ first + bias) @ second


def regression(P: rh.Polyhedron, target: Callable[[Array], Array], seed: int) -> Problem:
    """Noisy targets to learn from, clean ones to be judged by."""
    rng = np.random.default_rng(seed)
    X = features(rng)
    clean = {part: target(x) for part, x in X.items()}
    noisy = {part: y + NOISE * rng.standard_normal(y.shape) * (part != "test") for part, y in clean.items()}
    return Problem(P, {k: tensor(v) for k, v in X.items()}, {k: tensor(v) for k, v in noisy.items()}, squared)


def nearest(P: rh.Polyhedron, raw: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Targets on the faces of P: the points of P nearest to smooth functions that leave it."""
    return lambda X: np.asarray(rh.project(P, torch.as_tensor(raw(X))))


# -- curves ------------------------------------------------------------------------------------------------------------


def _convex_curve(z: Array, t: Array) -> Array:
    """A parabola and the maximum of four lines."""
    lines = np.max(z[:, 2:6, None] * t + z[:, 6:10, None] * 0.5, axis=1)
    return 0.7 * np.exp(z[:, 1:2] * 0.5) * (t - z[:, :1] * 0.5) ** 2 + lines - 0.7


def convex() -> Problem:
    s, t = smooth(np.random.default_rng(2), 10), np.linspace(-1, 1, 50)
    return regression(rh.convex(50), lambda X: _convex_curve(s(X), t), 0)


def convex_lipschitz() -> Problem:
    s, t = smooth(np.random.default_rng(2), 10), np.linspace(-1, 1, 50)
    bound = 1.5 * (t[1] - t[0])

    def target(X: Array) -> Array:
        y = _convex_curve(s(X), t)
        slopes = np.clip(np.diff(y, axis=1), -bound, bound)  # convex still: clipping is increasing
        curve = np.concatenate([np.zeros((len(y), 1)), np.cumsum(slopes, 1)], 1)
        return curve + (y[:, 25] - curve[:, 25])[:, None]

    return regression(rh.convex(50) & rh.lipschitz(50, float(bound)), target, 0)


def monotone_concave() -> Problem:
    s, t = smooth(np.random.default_rng(3), 10), np.linspace(0, 1, 50)

    def target(X: Array) -> Array:
        z = s(X)
        lines = np.min(np.exp(z[:, 2:5, None] * 0.7) * t + z[:, 5:8, None] * 0.5, axis=1)
        rise = np.exp(z[:, :1] * 0.5) * (1 - np.exp(-3 * np.exp(z[:, 1:2]) * t))
        return rise + np.minimum(lines, 1 + z[:, 8:9] * 0.3) - 1

    return regression(rh.monotone(50) & rh.concave(50), target, 0)


def differences() -> Problem:
    """Second and third differences not negative."""
    third = np.zeros((27, 30))
    for i in range(27):
        third[i, i : i + 4] = [1, -3, 3, -1]
    s, t = smooth(np.random.default_rng(10), 5), np.linspace(-1, 1, 30)

    def target(X: Array) -> Array:
        z = s(X)
        growth = 0.5 * np.exp(z[:, :1] * 0.5) * np.exp(t * np.exp(0.3 * z[:, 1:2]))
        return 0.4 * (growth + 0.5 * np.exp(z[:, 2:3]) * (t + 1) ** 3 / 4 + z[:, 3:4] * t + z[:, 4:5] - 1)

    return regression(rh.convex(30) & rh.Polyhedron(third, np.zeros(27)), target, 0)


def cdf() -> Problem:
    """Distribution functions on 100 points, learnt from the empirical ones of eight draws."""
    s, t = smooth(np.random.default_rng(4), 4), np.linspace(-3, 3, 100)
    rng = np.random.default_rng(5)
    X = features(np.random.default_rng(0))
    data = {}
    for part, x in X.items():
        z = s(x)
        share = 1 / (1 + np.exp(-2 * z[:, :1]))
        one = scipy.stats.norm.cdf((t - z[:, 1:2] + 1) / (0.4 * np.exp(0.5 * z[:, 3:4])))
        F = share * one + (1 - share) * scipy.stats.norm.cdf((t - z[:, 2:3] - 1) / 0.5)
        draws = rng.uniform(size=(len(x), 8))
        data[part] = F if part == "test" else (F[:, None, :] >= draws[:, :, None]).mean(1)
    P = rh.monotone(100) & rh.box(0, 1)
    return Problem(P, {k: tensor(v) for k, v in X.items()}, {k: tensor(v) for k, v in data.items()}, squared)


def _cleaned(P: rh.Polyhedron, parts: Callable[[Array, Array], Array]) -> Problem:
    """Noisy curves of 50 points in, the clean curves out: sums of four parts at random places, between -1 and 1."""
    rng, t = np.random.default_rng(0), np.linspace(0, 1, 50)
    inputs, data = {}, {}
    for part, n in SIZES.items():
        places, weights = rng.uniform(size=(n, 4, 1)), rng.uniform(size=(n, 4, 1))
        curve = (weights * parts(t, places)).sum(1)
        curve = 2 * curve / np.abs(curve).max(1, keepdims=True) - 1
        inputs[part], data[part] = tensor(curve + NOISE * rng.standard_normal(curve.shape)), tensor(curve)
    return Problem(P, inputs, data, squared)


def noisy_monotone() -> Problem:
    return _cleaned(rh.monotone(50), lambda t, place: scipy.special.expit(20 * (t - place)))


def noisy_convex() -> Problem:
    return _cleaned(rh.convex(50), lambda t, place: np.abs(t - place))


def isotonic_image() -> Problem:
    s = smooth(np.random.default_rng(6), 4)
    down, right = np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12), indexing="ij")

    def target(X: Array) -> Array:
        z = s(X)[:, :, None, None]
        rise = np.exp(z[:, 0]) * down + np.exp(z[:, 1]) * right + z[:, 2] + 0.5 * np.exp(z[:, 3]) * down**3
        return (1 / (1 + np.exp(-3 * rise))).reshape(len(X), -1)

    return regression(rh.ordered(None, (12, 12)) & rh.box(0, 1), target, 0)


# -- polytopes ---------------------------------------------------------------------------------------------------------


def _unit(A: Array) -> Array:
    return A / np.linalg.norm(A, axis=1, keepdims=True)


def polytope() -> Problem:
    rng = np.random.default_rng(7)
    P = rh.Polyhedron(_unit(rng.standard_normal((30, 50))), np.ones(30), lower=-1, upper=1)
    s = smooth(rng, 51)
    return regression(P, nearest(P, lambda X: s(X)[:, :50] * 0.33 * np.exp(0.7 * s(X)[:, 50:])), 0)


def parallel() -> Problem:
    """Ten rows and their copies turned by 1e-3."""
    rng = np.random.default_rng(11)
    A = _unit(rng.standard_normal((10, 30)))
    turned = rng.standard_normal((10, 30))
    turned = _unit(turned - (turned * A).sum(1, keepdims=True) * A)
    P = rh.Polyhedron(np.vstack([A, A + 1e-3 * turned]), np.zeros(20))
    return regression(P, nearest(P, smooth(rng, 30)), 0)


def thin() -> Problem:
    """Five directions in which the set is 1e-3 wide."""
    rng = np.random.default_rng(12)
    W = _unit(rng.standard_normal((5, 30)))
    P = rh.Polyhedron(np.vstack([W, -W]), np.full(10, 5e-4), lower=-1, upper=1)
    s = smooth(rng, 30)
    return regression(P, nearest(P, lambda X: 0.8 * s(X)), 0)


def simplex() -> Problem:
    """Shares of 30 parts, from counts of twenty draws."""
    rng = np.random.default_rng(13)
    s, X = smooth(rng, 30), features(rng)
    shares = {part: scipy.special.softmax(2 * s(x), axis=1) for part, x in X.items()}
    data = {p: q if p == "test" else rng.multinomial(20, q) / 20 for p, q in shares.items()}
    return Problem(
        rh.simplex(30), {k: tensor(v) for k, v in X.items()}, {k: tensor(v) for k, v in data.items()}, squared
    )


# -- objectives --------------------------------------------------------------------------------------------------------


def portfolio() -> Problem:
    """Mean and variance of 50 assets in five sectors: sum 1, caps 0.1, sectors at most 0.3."""
    rng = np.random.default_rng(8)
    sectors = np.kron(np.eye(5), np.ones((1, 10)))
    P = rh.Polyhedron(sectors, np.full(5, 0.3), A_eq=np.ones((1, 50)), b_eq=[1.0], lower=0, upper=0.1)
    s, L = smooth(rng, 50), rng.standard_normal((50, 10)) * 0.3
    sigma, aversion = L @ L.T + 0.05 * np.eye(50), 5.0
    X = features(rng)
    mu = {part: s(x) for part, x in X.items()}
    loss = mean_variance(sigma, aversion)
    best = least(P, aversion * sigma, -mu["test"])
    data = {k: tensor(v) for k, v in mu.items()}
    optimum = float(loss(tensor(best), data["test"]).mean())
    return Problem(P, {k: tensor(v) for k, v in X.items()}, data, loss, optimum)


def quantiles() -> Problem:
    """Nine quantiles that do not cross; the gap to the oracle's pinball loss."""
    rng = np.random.default_rng(9)
    X = features(rng)
    mean = {p: np.sin(3 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2] for p, x in X.items()}
    spread = {p: 0.1 + 0.6 * np.abs(x[:, 1]) for p, x in X.items()}
    data = {p: tensor(mean[p] + spread[p] * rng.standard_normal(len(mean[p])))[:, None] for p in X}
    normal = scipy.stats.norm.ppf(LEVELS.double().numpy())
    oracle = tensor(mean["test"][:, None] + spread["test"][:, None] * normal)
    optimum = float(pinball(oracle, data["test"]).mean())
    return Problem(rh.monotone(9), {k: tensor(v) for k, v in X.items()}, data, pinball, optimum)


def dc3() -> Problem:
    """DC3's quadratic programs: A y = x of the sample, G y <= h; the gap to the optimum, on 400 test samples."""
    rng = np.random.RandomState(17)
    q, p, A = rng.random_sample(100), rng.random_sample(100), rng.normal(size=(50, 100))
    X, G = rng.uniform(-1, 1, size=(10000, 50)), rng.normal(size=(50, 100))
    h = np.abs(G @ np.linalg.pinv(A)).sum(1)
    P = rh.Polyhedron(G, h, A_eq=A, b_eq=np.zeros(50))
    inputs = {"train": X[:8334], "val": X[8334:9167], "test": X[9167:9567]}
    quadratic, linear = tensor(q), tensor(p)

    def loss(y: Tensor, x: Tensor) -> Tensor:
        return (0.5 * quadratic * y * y + linear * y).sum(-1)

    best = tensor(least(P, np.diag(q), np.tile(p, (400, 1)), b_eq=inputs["test"]))
    data = {k: tensor(v) for k, v in inputs.items()}
    return Problem(
        P, data, data, loss, float(loss(best, data["test"]).mean()), lambda x: {"b_eq": x}, {"b_eq": (-1, 1)}
    )


MADE: dict[str, Callable[[], Problem]] = {
    "DC3's programs": dc3,
    "convex curve": convex,
    "convex, Lipschitz": convex_lipschitz,
    "monotone, concave": monotone_concave,
    "distribution function": cdf,
    "noisy monotone": noisy_monotone,
    "noisy convex": noisy_convex,
    "isotonic image": isotonic_image,
    "polytope": polytope,
    "portfolio": portfolio,
    "quantiles": quantiles,
    "two differences": differences,
    "parallel rows": parallel,
    "thin set": thin,
    "simplex": simplex,
}
BY_HAND: dict[str, ByHand] = {  # where a user would write it in a few lines
    "convex curve": by_hand.convex(50),
    "convex, Lipschitz": by_hand.convex_lipschitz(50, 1.5 * 2 / 49),
    "distribution function": by_hand.bounded_chain(100, 0.0, 1.0),
    "noisy monotone": by_hand.chain(50),
    "noisy convex": by_hand.convex(50),
    "quantiles": by_hand.chain(9),
    "simplex": by_hand.simplexes(1, 30),
}
