"""Five problems of the learning benchmark from data that statsmodels and scikit-learn carry.

``split`` draws which rows train, validate and test. Four of the data sets have a few hundred rows, neighbours in time
that stay together, so that which forty of them are the test decides more than any way does: these are split six times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

import rayhull as rh
from benchmarks.learning_problem import Array, Problem, least, mean_variance, pinball, squared, tensor


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


def engel(split: int = 0) -> Problem:
    """Quantiles of food expenditure by income: Engel's 235 households (statsmodels), in thousands of francs."""
    from statsmodels.datasets import engel as source

    table = source.load_pandas().data.to_numpy() / 1000
    X, Y = _split(np.log(table[:, :1]), table[:, 1:], np.random.default_rng(split))
    return Problem(rh.monotone(9), X, Y, pinball, steps=400)


def calibration(split: int = 0) -> Problem:
    """How often a tumour is malignant in each of 20 bins of a score, for scores of four measurements out of thirty.

    Breast cancer data (scikit-learn): the curve rises and lies in [0, 1]. Training curves come from one half of the
    patients, those for validation and test from the other.
    """
    from sklearn.datasets import load_breast_cancer

    rng = np.random.default_rng(split)
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


def discount(split: int = 0) -> Problem:
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
    inputs, targets = _split(X, Y, np.random.default_rng(split), blocks=8)
    return Problem(P, inputs, targets, squared, steps=400)


def accounts(split: int = 0) -> Problem:
    """A portfolio of nine national accounts: shares that grow most next quarter at least risk (US macro data).

    Shares sum to 1, none above 0.3; private accounts (four of them) hold at most 0.6, public ones at least 0.1.
    """
    from statsmodels.datasets import macrodata

    names = ["realgdp", "realcons", "realinv", "realgovt", "realdpi", "cpi", "m1", "tbilrate", "pop"]
    table = macrodata.load_pandas().data[names].to_numpy()
    table[:, 7] = np.cumprod(1 + np.maximum(table[:, 7], 0) / 400)  # what a quarter in bills grows by
    growth = 100 * np.diff(np.log(table), axis=0)
    past = np.concatenate([growth[3:-1], growth[2:-2], growth[1:-3]], 1)
    inputs, returns = _split(past, growth[4:], np.random.default_rng(split), blocks=8)
    groups = np.zeros((2, 9))
    groups[0, [0, 1, 2, 4]], groups[1, [3, 7]] = 1, -1
    P = rh.Polyhedron(groups, [0.6, -0.1], A_eq=np.ones((1, 9)), b_eq=[1.0], lower=0, upper=0.3)
    sigma = np.cov(growth[: len(growth) // 2].T)
    loss = mean_variance(sigma, 1.0)
    best = tensor(least(P, sigma, -returns["test"].double().numpy()))  # in hindsight: no forecast can reach it
    return Problem(P, inputs, returns, loss, float(loss(best, returns["test"]).mean()), steps=400)


def sea_temperature(split: int = 0) -> Problem:
    """The next twelve months of the sea's temperature from the last twelve: bounds, and at most 1.5 degrees a month.

    El Niño data (statsmodels), 1950 to 2010: a load curve with ramp limits, in degrees over 20, divided by 4.
    """
    from statsmodels.datasets import elnino

    months = (elnino.load_pandas().data.to_numpy()[:, 1:].ravel() - 20) / 4
    n = len(months) - 24
    X = np.stack([months[i : i + 12] for i in range(n)])
    Y = np.stack([months[i + 12 : i + 24] for i in range(n)])
    inputs, targets = _split(X, Y, np.random.default_rng(split), blocks=36)
    return Problem(rh.lipschitz(12, 0.375) & rh.box(-0.5, 2.5), inputs, targets, squared, steps=400)


REAL: dict[str, Callable[[int], Problem]] = {
    "Engel's quantiles": engel,
    "calibration": calibration,
    "discount factors": discount,
    "national accounts": accounts,
    "sea temperature": sea_temperature,
}
SPLITS = {"Engel's quantiles": 6, "discount factors": 6, "national accounts": 6, "sea temperature": 6}
