"""Thirteen problems of the learning benchmark on which nothing was tuned, with what a user would write by hand.

Objectives with corners, targets that tie or touch bounds, sides of the sample, cross-entropy, small and large units.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.special
import torch
from torch import Tensor

import rayhull as rh
from benchmarks import by_hand
from benchmarks.by_hand import ByHand
from benchmarks.learning_made import NOISE, features, smooth
from benchmarks.learning_problem import Array, Loss, Problem, least, squared, tensor

Parts = dict[str, Array]


def tensors(values: Parts) -> dict[str, Tensor]:
    return {part: tensor(v) for part, v in values.items()}


def noisy(clean: Parts, rng: np.random.Generator, size: float = 1.0) -> dict[str, Tensor]:
    """Noise on what is learnt from; the test is clean."""
    return tensors({p: y + (p != "test") * NOISE * size * rng.standard_normal(y.shape) for p, y in clean.items()})


def in_units(size: float) -> Loss:
    """Squared errors in the data's own unit."""
    return lambda y, target: squared(y / size, target / size)


def linear(y: Tensor, price: Tensor) -> Tensor:
    return (y * price).sum(-1)


def objective(
    P: rh.Polyhedron, X: Parts, cost: Parts, hand: ByHand | None, quadratic: Array | None = None, **sides: Parts
) -> Problem:
    """min ½ yᵀQy + cost·y, cost and sides of the sample; in the inputs the sides follow the features."""
    Q, widths = (
        np.zeros((P.dim, P.dim)) if quadratic is None else quadratic,
        [v["test"].shape[1] for v in sides.values()],
    )
    weight = tensor(Q)

    def loss(y: Tensor, c: Tensor) -> Tensor:
        return linear(y, c) + ((y @ weight) * y).sum(-1) / 2

    def of_the_sample(x: Tensor) -> dict[str, Tensor]:
        return dict(zip(sides, x[:, x.shape[1] - sum(widths) :].split(widths, 1), strict=True))

    inputs = tensors({p: np.concatenate([x, *(v[p] for v in sides.values())], 1) for p, x in X.items()})
    data, exact = tensors(cost), {name: v["test"] for name, v in sides.items()}
    optimum = float(loss(tensor(least(P, Q, cost["test"], **exact)), data["test"]).mean())
    varies = {name: _range(v) for name, v in sides.items()}
    return Problem(P, inputs, data, loss, optimum, of_the_sample if sides else None, varies or None, by_hand=hand)


def _range(values: Parts) -> tuple[Array, Array]:
    every = np.concatenate(list(values.values()))
    return every.min(0), every.max(0)


# -- corners -----------------------------------------------------------------------------------------------------------


def storage() -> Problem:
    """Twelve hours of a battery at prices that the features tell: power at most 1, stored between 0 and 3."""
    rng, hours = np.random.default_rng(31), 12
    X, s, sums = features(rng), smooth(rng, hours), np.tril(np.ones((hours, hours)))
    P = rh.Polyhedron(np.vstack([sums, -sums]), np.repeat([2.0, 1.0], hours), lower=-1, upper=1)
    day = np.sin(np.linspace(0, 2 * np.pi, hours))
    return objective(P, X, {p: s(x) + day for p, x in X.items()}, by_hand.storage(hours, 1.0, 3.0, 1.0))


def allocation() -> Problem:
    """A budget of 1 over 15 places, at most 0.2 each and 0.4 in each of three groups, at the best linear value."""
    rng = np.random.default_rng(32)
    X, s = features(rng), smooth(rng, 15)
    rows = np.vstack([np.ones(15), np.kron(np.eye(3), np.ones(5))])
    limits = np.array([1, 0.4, 0.4, 0.4])
    P = rh.Polyhedron(rows, limits, lower=0, upper=0.2)
    hand = by_hand.clamp_and_divide(rows, limits, 0.0, 0.2)
    return objective(P, X, {p: -s(x) for p, x in X.items()}, hand)


# -- ties and bounds ---------------------------------------------------------------------------------------------------


def plateaus(size: float = 1.0, seed: int = 33) -> Problem:
    """A chain of 18 with steps: most neighbours are equal."""
    rng, t = np.random.default_rng(seed), np.linspace(0, 1, 18)
    X, s = features(rng), smooth(rng, 6)

    def target(x: Array) -> Array:
        z = s(x)
        jumps = scipy.special.expit(z[:, :3]), np.exp(0.5 * z[:, 3:])
        return size * ((t > jumps[0][..., None]) * jumps[1][..., None]).sum(1)

    data = noisy({p: target(x) for p, x in X.items()}, rng, size)
    return Problem(rh.monotone(18), tensors(X), data, in_units(size), by_hand=by_hand.chain(18).times(size))


def partial_order() -> Problem:
    """Sixteen scores between 0 and 1, each at least that of two earlier ones; many tie or are at a bound."""
    rng, d = np.random.default_rng(34), 16
    edges = sorted({(int(i), j) for j in range(2, d) for i in rng.choice(j, 2, replace=False)})
    P, X, s = rh.ordered(edges, d) & rh.box(0, 1), features(rng), smooth(rng, d)
    raw = {p: 0.5 + s(x) for p, x in X.items()}
    clean = {p: np.asarray(rh.project(P, torch.as_tensor(y))) for p, y in raw.items()}
    return Problem(P, tensors(X), noisy(clean, rng), squared, by_hand=by_hand.order_in_unit_box(edges, d))


def distribution() -> Problem:
    """Distribution functions of uniform variables on 24 points, exactly 0 and 1 at the ends, from eight draws each."""
    rng, t = np.random.default_rng(35), np.linspace(0, 1, 24)
    X, s = features(rng), smooth(rng, 2)
    middle = {p: 0.5 + 0.2 * np.tanh(s(x)[:, :1]) for p, x in X.items()}
    width = {p: 0.1 + 0.3 * scipy.special.expit(2 * s(x)[:, 1:]) for p, x in X.items()}
    clean = {p: np.clip((t - middle[p]) / width[p] + 0.5, 0, 1) for p in X}
    draws = {p: (F[:, None] >= rng.uniform(size=(len(F), 8, 1))).mean(1) for p, F in clean.items()}
    data = tensors(draws | {"test": clean["test"]})
    P = rh.monotone(24) & rh.box(0, 1)
    return Problem(P, tensors(X), data, squared, by_hand=by_hand.bounded_chain(24, 0.0, 1.0))


# -- sides of the sample -----------------------------------------------------------------------------------------------


def flow() -> Problem:
    """What eight towns need (b_eq) along the roads of a ring with chords, both ways; the ninth has the store."""
    rng, towns = np.random.default_rng(36), 9
    pairs = [(i, (i + k) % towns) for i in range(towns) for k in (1, 3)]
    edges = [*pairs, *((j, i) for i, j in pairs)]
    balance = np.zeros((towns, len(edges)))
    for e, (i, j) in enumerate(edges):
        balance[i, e], balance[j, e] = -1, 1
    P = rh.Polyhedron(A_eq=balance[:-1], b_eq=np.full(towns - 1, 0.5), lower=0, upper=1.5)
    X, s = features(rng), smooth(rng, len(edges))
    needs = {p: rng.uniform(0.1, 0.6, (len(x), towns - 1)) for p, x in X.items()}
    toll = {p: 1 + 0.5 * np.tanh(s(x)) for p, x in X.items()}
    return objective(P, X, toll, None, 0.2 * np.eye(len(edges)), b_eq=needs)


def dispatch() -> Problem:
    """Ten plants meet a demand (b_eq) with what the weather leaves of each (upper)."""
    rng, d = np.random.default_rng(37), 10
    X, s = features(rng), smooth(rng, d)
    P = rh.Polyhedron(A_eq=np.ones((1, d)), b_eq=[3.0], lower=0, upper=np.ones(d))
    demand = {p: rng.uniform(2, 4, (len(x), 1)) for p, x in X.items()}
    upper = {p: rng.uniform(0.5, 1.0, (len(x), d)) for p, x in X.items()}
    cost = {p: 2 + s(x) for p, x in X.items()}
    return objective(P, X, cost, by_hand.fixed_sum(d, 0.0, 1.0), 0.1 * np.eye(d), b_eq=demand, upper=upper)


def safe_action() -> Problem:
    """Four numbers, nearest to what a controller wants, within ten two-sided rows whose limits (b) are the state's."""
    rng, d, m = np.random.default_rng(38), 4, 10
    A = rng.standard_normal((m, d))
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    P, X, s = rh.Polyhedron(np.vstack([A, -A]), np.ones(2 * m)), features(rng), smooth(rng, d)
    limits = {p: rng.uniform(0.2, 1.0, (len(x), 2 * m)) for p, x in X.items()}
    wanted = {p: s(x) for p, x in X.items()}
    hand = by_hand.clamp_and_divide(P.A, np.ones(2 * m))
    return objective(P, X, {p: -2 * y for p, y in wanted.items()}, hand, 2 * np.eye(d), b=limits)


# -- cross-entropy, and units ------------------------------------------------------------------------------------------


def _rising(groups: int, marks: int) -> rh.Polyhedron:
    """Each group's shares of the marks; the mean mark rises from group to group."""
    means = np.zeros((groups - 1, groups, marks))
    for i in range(groups - 1):
        means[i, i], means[i, i + 1] = np.arange(marks), -np.arange(marks)
    each = np.kron(np.eye(groups), np.ones((1, marks)))
    return rh.Polyhedron(means.reshape(groups - 1, -1), np.zeros(groups - 1), each, np.ones(groups), lower=0)


def _counted(P: rh.Polyhedron, X: Parts, clean: Parts, rng: np.random.Generator) -> Problem:
    """Shares (n, groups, marks), learnt by cross-entropy from twelve draws each. By hand: a softmax, the sums alone."""
    _, groups, marks = clean["test"].shape
    counts = {p: rng.multinomial(12, q) / 12 for p, q in clean.items()} | {"test": clean["test"]}
    data = tensors({p: q.reshape(len(q), -1) for p, q in counts.items()})

    def divergence(y: Tensor, q: Tensor) -> Tensor:
        return (torch.xlogy(q, q) - q * y.clamp(min=1e-6).log()).sum(-1) / groups

    return Problem(P, tensors(X), data, divergence, by_hand=by_hand.simplexes(groups, marks), partly_by_hand=True)


def ratings() -> Problem:
    """Five groups' shares of six ratings; the mean rating rises from group to group."""
    rng, groups, marks = np.random.default_rng(39), 5, 6
    X, s = features(rng), smooth(rng, groups + marks)

    def shares(x: Array) -> Array:
        z = s(x)
        level = np.sort(z[:, :groups], 1)[..., None] * np.linspace(-1, 1, marks)
        return scipy.special.softmax(level + z[:, None, groups:], axis=2)

    return _counted(_rising(groups, marks), X, {p: shares(x) for p, x in X.items()}, rng)


def matching() -> Problem:
    """Who goes where, five to five: rows and columns of shares have the sum 1."""
    rng, n = np.random.default_rng(71), 5
    X, s, ones = features(rng), smooth(rng, n * n), np.ones((1, n))
    sums = np.vstack([np.kron(np.eye(n), ones), np.kron(ones, np.eye(n))])

    def balanced(x: Array) -> Array:
        K = np.exp(1.5 * s(x)).reshape(-1, n, n)
        for _ in range(200):  # Sinkhorn's steps
            K /= K.sum(1, keepdims=True)
            K /= K.sum(2, keepdims=True)
        return K

    return _counted(
        rh.Polyhedron(A_eq=sums, b_eq=np.ones(2 * n), lower=0), X, {p: balanced(x) for p, x in X.items()}, rng
    )


def zeros() -> Problem:
    """Shares of which many are 0, of rising mean, by squared errors."""
    rng, groups, marks = np.random.default_rng(74), 3, 6
    P, X, s = _rising(groups, marks), features(rng), smooth(rng, groups * marks)
    clean = {p: np.asarray(rh.project(P, torch.as_tensor(0.2 + 0.5 * s(x)))) for p, x in X.items()}
    hand = by_hand.simplexes(groups, marks)
    return Problem(P, tensors(X), noisy(clean, rng, 0.3), squared, by_hand=hand, partly_by_hand=True)


def loads() -> Problem:
    """Loads of a country, its two halves and six towns, in units of 10 000: they add up and are not negative."""
    rng, size = np.random.default_rng(41), 1e4
    S = np.vstack([np.ones(6), np.kron(np.eye(2), np.ones(3)), np.eye(6)])
    X, s = features(rng), smooth(rng, 6)
    clean = {p: size * np.maximum(1 + s(x), 0) @ S.T for p, x in X.items()}
    P = rh.reconciled(S) & rh.nonnegative(9)
    return Problem(P, tensors(X), noisy(clean, rng, size), in_units(size), by_hand=by_hand.hierarchy(S).times(size))


FRESH: dict[str, Callable[[], Problem]] = {
    "storage, linear prices": storage,
    "allocation with caps": allocation,
    "chain with plateaus": plateaus,
    "partial order in a box": partial_order,
    "uniform distribution": distribution,
    "flow, b_eq": flow,
    "dispatch, b_eq and upper": dispatch,
    "safe action, b": safe_action,
    "rating matrix": ratings,
    "matching": matching,
    "shares with zeros": zeros,
    "chain at 1e-3": lambda: plateaus(1e-3, 40),
    "loads at 1e4": loads,
}
