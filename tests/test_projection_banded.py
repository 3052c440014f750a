"""Rows that only neighbours share: eight samples side by side come out as each does alone."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.projection.plan import plan, structure
from rayhull.projection.solvers.banded import Banded, banded_order
from tests.compiled import needs_core

pytestmark = needs_core
MOST = 250  # steps after which a lane gives up


def differences(d: int, order: int, b: float | np.ndarray = 0.0) -> rh.Polyhedron:
    """Differences of one order at least -b."""
    return rh.Polyhedron(-np.diff(np.eye(d), order, axis=0), b)


def shuffled(d: int) -> rh.Polyhedron:
    """A convex curve whose rows come in no order, at lengths of their own."""
    rng = np.random.default_rng(d)
    rows = -np.diff(np.eye(d), 2, axis=0) * rng.uniform(0.1, 10, (d - 2, 1))
    return rh.Polyhedron(rows[rng.permutation(d - 2)], rng.uniform(-0.1, 0.2, d - 2))


SETS = {
    "convex": rh.convex(50),
    "concave": rh.concave(17),
    "short": rh.convex(4),
    "third": differences(30, 3),
    "fourth": differences(12, 4),
    "bent by so much": differences(40, 2, np.linspace(-0.1, 0.3, 38)),
    "shuffled": shuffled(23),
    "tied in pairs": rh.Polyhedron(np.eye(9, k=1)[:8] - 2 * np.eye(9)[:8], 1.0),
}


def points(d: int, kind: str, n: int = 37) -> torch.Tensor:
    """Points of a kind; 37 of them leave lanes empty at the end."""
    rng = np.random.default_rng(0)
    noise, t = rng.standard_normal((n, d)), np.linspace(-1, 1, d)
    curves = rng.uniform(-1, 2, (n, 1)) * t**2 + rng.standard_normal((n, 1)) * t
    kinds = {
        "noise": noise,
        "noisy curves": curves + 0.1 * noise,
        "nearly curves": curves + 1e-9 * noise,
        "walks": noise.cumsum(1),
        "ties": np.round(noise),
        "zeros": 0 * noise,
        "lines": np.round(curves[:, -1:]) * np.arange(d),
    }
    return torch.from_numpy(kinds[kind])


@pytest.mark.parametrize("kind", ["noise", "noisy curves", "nearly curves", "walks", "ties", "zeros", "lines"])
@pytest.mark.parametrize("name", SETS)
def test_points_are_those_of_the_methods_for_one_sample(name, kind):
    P, y = SETS[name], points(SETS[name].dim, kind)
    z, info = rh.project(P, y, return_info=True)
    known, other = rh.project(P, y, solver="active set", return_info=True)
    assert info.solvers == ("banded",)
    assert other.solvers == ("active set",)
    assert not info.fallback.any()
    assert float(info.residual.max()) <= 1e-13
    assert torch.allclose(z, known, rtol=0, atol=1e-11 * float(y.abs().max() + 1))
    assert torch.equal(rh.project(P, z), z) or torch.allclose(rh.project(P, z), z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e6, 1e12, 1e150])
def test_numbers_of_any_size_are_certified(scale):
    y = scale * points(20, "noise")
    z, info = rh.project(rh.convex(20), y, return_info=True)
    assert float(info.residual.max()) <= 1e-13
    assert torch.allclose(z / scale, rh.project(rh.convex(20), y / scale), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [5, 8, 100, 300, 1000])
def test_short_and_long_curves_are_certified_without_a_fallback(d):
    y = points(d, "noisy curves", 9)
    z, info = rh.project(rh.convex(d), y, return_info=True)
    assert not info.fallback.any()
    assert float(info.residual.max()) <= 1e-11
    assert float(-np.diff(z.numpy(), 2, axis=1).min()) <= 1e-12 * d


@pytest.mark.parametrize(("periods", "noise"), [(1, 1e-3), (7, 1e-3), (7, 1.0)])
def test_waves_of_ten_thousand_points_are_certified(periods, noise):
    """Their runs of rows are thousands long, where rounding alone turns the signs of multipliers."""
    d = 10_000
    y = np.sin(2 * np.pi * periods * np.linspace(0, 1, d)) + noise * np.random.default_rng(0).standard_normal(d)
    x, info = rh.project(rh.convex(d), torch.as_tensor(y), return_info=True)
    assert not info.fallback.any()
    assert float(info.residual.max()) <= 1e-11
    assert rh.convex(d).contains(x)


def pivoted(G: np.ndarray, c: np.ndarray, y: np.ndarray, patience: int = 3, longer: int = 6) -> int:
    """The same pivoting for one sample, in NumPy: its number of steps."""
    active, fewest, stalled, careful = G @ y - c > 1e-15, len(G) + 1, 0, False
    if not active.any():
        return 1
    for step in range(1, MOST):
        W, multipliers = np.flatnonzero(active), np.zeros(len(G))
        multipliers[W] = np.linalg.solve(G[W] @ G[W].T, G[W] @ y - c[W])
        x = y - G.T @ multipliers
        excess = np.where(active, -multipliers, G @ x - c - 1e-14)
        wrong = excess > 0
        if not wrong.any():
            return step + 1  # one more for the rounding
        stalled = 0 if wrong.sum() < fewest else stalled + 1
        fewest = min(fewest, wrong.sum())
        if not careful and stalled > patience:
            active, fewest, stalled, careful = np.ones(len(G), bool), len(G) + 1, 0, True
            continue
        if careful:
            wrong = _selected(wrong & active, wrong & ~active, excess, single=stalled > longer)
        active = active ^ wrong
    return MOST


def _selected(pulling: np.ndarray, violated: np.ndarray, excess: np.ndarray, *, single: bool) -> np.ndarray:
    """All that are violated and the worst of each run that pulls; or the worst of all, violated ones first."""
    if single:
        which = violated if violated.any() else pulling
        return which & (excess >= excess[which].max())
    places = np.flatnonzero(pulling)
    runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []
    worst = np.zeros(len(excess), bool)
    worst[[run[excess[run].argmax()] for run in runs]] = True
    return violated | worst


@pytest.mark.parametrize(("d", "order", "b"), [(12, 2, 0.0), (30, 2, 0.1), (60, 2, 0.0), (20, 3, 0.0), (14, 4, 0.2)])
def test_a_lane_takes_the_steps_that_a_sample_takes_alone(d, order, b):
    """Who gave up, or came out wrong, would go on with the exact method, and have more."""
    P, y = differences(d, order, b), points(d, "noise", 60)
    form = plan(P)[0].form
    G, c = form.matrix.dense_array, form.c
    steps = rh.project(P, y, return_info=True)[1].steps
    assert steps.tolist() == [pivoted(G, c, v) for v in y.numpy()]


def test_who_starts_from_the_answer_has_it_after_two_steps():
    P, y = rh.convex(50), points(50, "noise")
    layer = rh.Projection(P, warm_start=True)
    first, again = layer(y, return_info=True), layer(y, return_info=True)
    assert int(first[1].steps.max()) > 8
    assert int(again[1].steps.max()) <= 2
    assert torch.allclose(first[0], again[0], rtol=0, atol=1e-13)


def test_samples_do_not_see_each_other():
    P, y = rh.convex(30), torch.cat([points(30, "noise"), 1e9 * points(30, "walks"), points(30, "nearly curves")])
    together = rh.project(P, y)
    alone = torch.cat([rh.project(P, v[None]) for v in y])
    assert torch.equal(together, alone)


def test_what_is_not_a_number_is_not_certified():
    y, (block,) = points(20, "noise"), plan(rh.convex(20))
    y[5, 3] = torch.nan
    solution = block.solver.solve(block.problem(y, out=torch.empty_like(y)))
    assert solution.status.nonzero().tolist() == [[5]]
    assert solution.residual.isinf().nonzero().tolist() == [[5]]


def test_sides_of_the_sample_are_followed():
    P, y = differences(30, 2), points(30, "noise")
    b = torch.from_numpy(np.random.default_rng(1).uniform(-0.1, 0.5, (len(y), 28)))
    assert torch.allclose(rh.project(P, y, b=b), rh.project(P, y, b=b, solver="active set"), rtol=0, atol=1e-12)
    upper = torch.full((30,), 0.5, dtype=torch.float64)
    bounded, info = rh.project(P, y, upper=upper, return_info=True)
    assert float(bounded.max()) <= 0.5
    assert float(info.residual.max()) <= 1e-12


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 3, 12)])
def test_derivatives_are_right(weights):
    y = points(12, "noise", 5).requires_grad_()
    b = torch.full((10,), 0.05, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(lambda x, s: rh.project(differences(12, 2), x, b=s, weights=weights), (y, b))
    assert rh.project(rh.convex(12), y, weights=weights, return_info=True)[1].solvers == ("banded",)


def test_only_independent_rows_of_neighbours_are_banded():
    assert structure(rh.convex(9)) == "a curve, along its band"
    assert structure(rh.convex(9) & rh.lipschitz(9, 1)) == "a curve, along its band"
    assert not Banded.fits(plan(rh.convex(9) & rh.monotone(9))[0].form)  # the slopes follow from the first
    assert structure(rh.convex(9) & rh.box(0, 1)) is None
    assert banded_order(shuffled(9).inequalities.matrix) is not None
    assert banded_order(differences(20, 5).inequalities.matrix) is None  # each shares coordinates with five before it
    assert not Banded.fits(plan(rh.simplex(5))[0].form)


CURVES = {
    "increasing and concave": rh.monotone(40) & rh.concave(40),
    "increasing and convex": rh.monotone(40) & rh.convex(40),
    "decreasing by steps, and convex": rh.monotone(40, increasing=False, step=0.1) & rh.convex(40),
}


@pytest.mark.parametrize("P", CURVES.values(), ids=CURVES)
def test_rows_of_curves_may_follow_from_each_other(P):
    x = torch.randn(6, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(1)
    z, info = rh.project(P, x, return_info=True)
    assert info.solvers == ("interior point",)
    assert not info.fallback.any()
    assert P.contains(z).all()
    assert info.multipliers.shape == (6, len(P.inequalities))
    torch.testing.assert_close(z, rh.project(P, x, solver="active set"), atol=1e-11, rtol=0)
    b = torch.rand(6, len(P.inequalities), dtype=torch.float64)  # sides of the sample may need every row
    torch.testing.assert_close(rh.project(P, x, b=b), rh.project(P, x, b=b, solver="active set"), atol=1e-11, rtol=0)


@pytest.mark.parametrize("caller", ["project", "a layer", "a layer with sides"])
def test_a_long_search_for_nearest_points_says_so_and_hears_ctrl_c(monkeypatch, caller):
    P = rh.lipschitz(200, 0.1) & rh.convex(200)
    x = torch.randn(2, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    into = rh.MapInto(P, method="nearest", dtype=torch.float64)
    sides = {} if caller == "a layer" else {"b": torch.as_tensor(P.b).double()[None] + 0.01}

    def found():
        return rh.project(P, x) if caller == "project" else into(x, **sides)

    known = found()
    solver, release, said = plan(P)[0].solver, threading.Event(), []
    solve = solver.solve
    monkeypatch.setattr("rayhull.exact.progress.PATIENCE", 0.01)
    monkeypatch.setattr(
        "rayhull.exact.progress.draw", lambda *line: (said.append(line), signal.raise_signal(signal.SIGINT))
    )
    monkeypatch.setattr(solver, "solve", lambda *given: (release.wait(60), solve(*given))[1])
    with pytest.raises(KeyboardInterrupt):
        found()
    assert "nearest points (interior point) of 2 samples with 596 rows" in said[0][0]
    release.set()
    monkeypatch.undo()
    assert torch.equal(found(), known)
