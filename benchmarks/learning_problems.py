"""The problems of the learning benchmark: inputs, a set, a loss. Thirteen are made, five come from real data.

Made ones: smooth functions of eight features give points of the set; training and validation targets carry noise, the
test loss is to the clean ones. Problems with an objective instead of targets report the gap to the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import scipy.stats
import torch
from torch import Tensor

import rayhull as rh

Array = np.ndarray
Loss = Callable[[Tensor, Tensor], Tensor]
NOISE, SIZES = 0.1, {"train": 4096, "val": 500, "test": 1000}


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs X and what the loss needs of each sample, for training, validation and test.

    ``loss(y, data)`` takes points (\\*, d) and data (\\*, ...) and gives (\\*). ``optimum`` is the least test loss, for
    problems that report the gap to it. ``sides`` makes of an input what of the set depends on the sample, and
    ``varies`` says between which values.
    """

    P: rh.Polyhedron
    inputs: Mapping[str, Tensor]
    data: Mapping[str, Tensor]
    loss: Loss
    optimum: float | None = None
    sides: Callable[[Tensor], dict[str, Tensor]] | None = None
    varies: Mapping[str, tuple[float, float]] | None = None
    steps: int = 1000
    name: str = ""


def squared(y: Tensor, target: Tensor) -> Tensor:
    return (y - target).square().mean(-1)


def tensor(values: Array) -> Tensor:
    return torch.as_tensor(np.asarray(values), dtype=torch.float32)


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


def _mean_variance(sigma: Array, aversion: float) -> Loss:
    S = tensor(sigma)
    return lambda y, mu: -(mu * y).sum(-1) + aversion / 2 * ((y @ S) * y).sum(-1)


def _least(P: rh.Polyhedron, Q: Array, linear: Array, **sides: Array) -> Array:
    """min ½ yᵀQy + pᵀy over P for each p, by Clarabel: the points (n, d). ``b_eq`` may be of the sample."""
    import clarabel
    import scipy.sparse as sp

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    rows = sp.csc_matrix(sp.vstack([P.equality_rows.matrix, P.rows.matrix]))
    cones = [clarabel.ZeroConeT(len(P.equality_rows)), clarabel.NonnegativeConeT(len(P.rows))]
    found = []
    for i, p in enumerate(linear):
        rhs = np.concatenate([sides["b_eq"][i] if sides else P.equality_rows.rhs, P.rows.rhs])
        solver = clarabel.DefaultSolver(sp.csc_matrix(np.triu(Q)), p, rows, rhs, cones, settings)
        found.append(np.array(solver.solve().x))
    return np.array(found)


def portfolio() -> Problem:
    """Mean and variance of 50 assets in five sectors: sum 1, caps 0.1, sectors at most 0.3."""
    rng = np.random.default_rng(8)
    sectors = np.kron(np.eye(5), np.ones((1, 10)))
    P = rh.Polyhedron(sectors, np.full(5, 0.3), A_eq=np.ones((1, 50)), b_eq=[1.0], lower=0, upper=0.1)
    s, L = smooth(rng, 50), rng.standard_normal((50, 10)) * 0.3
    sigma, aversion = L @ L.T + 0.05 * np.eye(50), 5.0
    X = features(rng)
    mu = {part: s(x) for part, x in X.items()}
    loss = _mean_variance(sigma, aversion)
    best = _least(P, aversion * sigma, -mu["test"])
    data = {k: tensor(v) for k, v in mu.items()}
    optimum = float(loss(tensor(best), data["test"]).mean())
    return Problem(P, {k: tensor(v) for k, v in X.items()}, data, loss, optimum)


LEVELS = torch.arange(1, 10) / 10


def pinball(y: Tensor, target: Tensor) -> Tensor:
    error = target - y  # target (*, 1)
    return torch.maximum(LEVELS * error, (LEVELS - 1) * error).mean(-1)


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

    best = tensor(_least(P, np.diag(q), np.tile(p, (400, 1)), b_eq=inputs["test"]))
    data = {k: tensor(v) for k, v in inputs.items()}
    return Problem(
        P, data, data, loss, float(loss(best, data["test"]).mean()), lambda x: {"b_eq": x}, {"b_eq": (-1, 1)}
    )


# -- real data ---------------------------------------------------------------------------------------------------------


def _split(
    X: Array, Y: Array, rng: np.random.Generator, blocks: int = 1
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A fifth for validation and a fifth for test, at random or in time (blocks of neighbours kept together)."""
    group = np.arange(len(X)) // blocks
    order = rng.permutation(group.max() + 1)
    fifth = len(order) // 5
    of = {"val": order[:fifth], "test": order[fifth : 2 * fifth], "train": order[2 * fifth :]}
    pick = {part: np.isin(group, chosen) for part, chosen in of.items()}
    X = (X - X[pick["train"]].mean(0)) / (X[pick["train"]].std(0) + 1e-9)
    return {p: tensor(X[k]) for p, k in pick.items()}, {p: tensor(Y[k]) for p, k in pick.items()}


def engel() -> Problem:
    """Quantiles of food expenditure by income: Engel's 235 households (statsmodels), in thousands of francs."""
    from statsmodels.datasets import engel as source

    table = source.load_pandas().data.to_numpy() / 1000
    X, Y = _split(np.log(table[:, :1]), table[:, 1:], np.random.default_rng(0))
    return Problem(rh.monotone(9), X, Y, pinball, steps=400)


def calibration() -> Problem:
    """How often a tumour is malignant in each of 20 bins of a score, for scores of four measurements out of thirty.

    Breast cancer data (scikit-learn): the curve rises and lies in [0, 1]. Training curves come from one half of the
    patients, those for validation and test from the other.
    """
    from sklearn.datasets import load_breast_cancer

    rng = np.random.default_rng(0)
    source = load_breast_cancer()
    Z, sick = (source.data - source.data.mean(0)) / source.data.std(0), 1 - source.target
    half = rng.permutation(len(Z)) < len(Z) // 2
    X, curves = [], {True: [], False: []}
    for _ in range(3000):
        picked = np.zeros(30)
        picked[rng.choice(30, 4, replace=False)] = 1
        score = Z @ picked
        edges = np.quantile(score, np.linspace(0, 1, 21)[1:-1])
        place = np.digitize(score, edges)
        X.append(picked)
        for side, who in ((True, half), (False, ~half)):
            count = np.bincount(place[who], minlength=20)
            curves[side].append((np.bincount(place[who], sick[who], 20) + 0.5 * (count == 0)) / np.maximum(count, 1))
    learn, _ = _split(np.array(X), np.array(curves[True]), np.random.default_rng(1))
    _, judged = _split(np.array(X), np.array(curves[False]), np.random.default_rng(1))
    _, seen = _split(np.array(X), np.array(curves[True]), np.random.default_rng(1))
    return Problem(rh.monotone(20) & rh.box(0, 1), learn, {**judged, "train": seen["train"]}, squared)


def discount() -> Problem:
    """Discount factors of the next twelve quarters from today's economy (US macro data, statsmodels).

    They fall from 1, by at most 5 % a quarter.
    """
    from statsmodels.datasets import macrodata

    table = macrodata.load_pandas().data
    rate = np.maximum(table["tbilrate"].to_numpy(), 0) / 100
    growth = table[["realgdp", "realcons", "realinv", "m1", "cpi"]].to_numpy()
    growth = np.diff(np.log(growth), axis=0)[:, :]
    now = table[["tbilrate", "unemp", "infl"]].to_numpy()[1:]
    change = np.diff(table[["tbilrate", "unemp"]].to_numpy(), axis=0)
    X = np.concatenate([now, change, growth], 1)[:-12]
    paths = np.stack([rate[i + 2 : i + 14] for i in range(len(X))])
    Y = np.exp(-np.cumsum(paths, 1) / 4)
    fall = np.eye(12, k=1)[:-1] - np.eye(12)[:-1]
    slow = 0.95 * np.eye(12)[:-1] - np.eye(12, k=1)[:-1]
    P = rh.Polyhedron(np.vstack([fall, slow]), np.zeros(22), lower=np.r_[0.95, np.zeros(11)], upper=1)
    inputs, targets = _split(X, Y, np.random.default_rng(0), blocks=8)
    return Problem(P, inputs, targets, squared, steps=400)


def accounts() -> Problem:
    """A portfolio of nine national accounts: shares that grow most next quarter at least risk (US macro data).

    Shares sum to 1, none above 0.3; private accounts (four of them) hold at most 0.6, public ones at least 0.1.
    """
    from statsmodels.datasets import macrodata

    names = ["realgdp", "realcons", "realinv", "realgovt", "realdpi", "cpi", "m1", "tbilrate", "pop"]
    table = macrodata.load_pandas().data[names].to_numpy()
    table[:, 7] = np.cumprod(1 + np.maximum(table[:, 7], 0) / 400)  # what a quarter in bills grows by
    growth = 100 * np.diff(np.log(table), axis=0)
    past = np.concatenate([growth[3:-1], growth[2:-2], growth[1:-3]], 1)
    inputs, returns = _split(past, growth[4:], np.random.default_rng(0), blocks=8)
    groups = np.zeros((2, 9))
    groups[0, [0, 1, 2, 4]], groups[1, [3, 7]] = 1, -1
    P = rh.Polyhedron(groups, [0.6, -0.1], A_eq=np.ones((1, 9)), b_eq=[1.0], lower=0, upper=0.3)
    sigma = np.cov(growth[: len(growth) // 2].T)
    loss = _mean_variance(sigma, 1.0)
    best = tensor(_least(P, sigma, -returns["test"].double().numpy()))  # in hindsight: no forecast can reach it
    return Problem(P, inputs, returns, loss, float(loss(best, returns["test"]).mean()), steps=400)


def sea_temperature() -> Problem:
    """The next twelve months of the sea's temperature from the last twelve: bounds, and at most 1.5 degrees a month.

    El Niño data (statsmodels), 1950 to 2010: a load curve with ramp limits, in degrees over 20, divided by 4.
    """
    from statsmodels.datasets import elnino

    months = (elnino.load_pandas().data.to_numpy()[:, 1:].ravel() - 20) / 4
    n = len(months) - 24
    X = np.stack([months[i : i + 12] for i in range(n)])
    Y = np.stack([months[i + 12 : i + 24] for i in range(n)])
    inputs, targets = _split(X, Y, np.random.default_rng(0), blocks=36)
    return Problem(rh.lipschitz(12, 0.375) & rh.box(-0.5, 2.5), inputs, targets, squared, steps=400)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "DC3's programs": dc3,
    "convex curve": convex,
    "convex, Lipschitz": convex_lipschitz,
    "monotone, concave": monotone_concave,
    "distribution function": cdf,
    "isotonic image": isotonic_image,
    "polytope": polytope,
    "portfolio": portfolio,
    "quantiles": quantiles,
    "two differences": differences,
    "parallel rows": parallel,
    "thin set": thin,
    "simplex": simplex,
    "Engel's quantiles": engel,
    "calibration": calibration,
    "discount factors": discount,
    "national accounts": accounts,
    "sea temperature": sea_temperature,
}
