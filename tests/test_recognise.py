"""``method="auto"``: the way into every kind of set and why, the same everywhere, and the units that it starts in."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.nn import recognise
from rayhull.nn.constants import Factory
from rayhull.nn.recognise import NEAR, STEPS, Trial
from rayhull.nn.steps import Steps
from rayhull.sets import frame, interior
from rayhull.sets.frame import inside, units_at
from rayhull.sets.interior import base_point
from tests.zoo import ZOO


def portfolio(each: int = 10) -> rh.Polyhedron:
    """Shares of five sectors, at most 0.3 each, none over 1 / each."""
    n = 5 * each
    sectors = np.kron(np.eye(5), np.ones((1, each)))
    return rh.Polyhedron(sectors, np.full(5, 0.3), A_eq=np.ones((1, n)), b_eq=[1.0], lower=0, upper=1 / each)


def curve_in_a_box(n: int = 30) -> rh.Polyhedron:
    return rh.convex(n) & rh.box(0, 1)


def sums_so_far(n: int = 410) -> rh.Polyhedron:
    """Each tenth sum from the first coordinate on within limits: rows that are half filled."""
    sums = np.tril(np.ones((n, n)))[9::10]
    return rh.Polyhedron(np.vstack([sums, -sums]), np.ones(2 * len(sums)), lower=-1, upper=1)


def sums_of_an_image() -> rh.Polyhedron:
    """An 8 x 8 image with given row and column sums, all of them floats, one dropped: they imply it."""
    image = np.random.default_rng(0).random((8, 8))
    rows, columns = np.kron(np.eye(8), np.ones(8)), np.kron(np.ones(8), np.eye(8))
    A = np.vstack([rows, columns])[:15]
    return rh.Polyhedron(A_eq=A, b_eq=A @ image.ravel(), lower=0, upper=1)


TAKEN = {
    "nonnegative": "bounds alone",
    "box": "bounds alone",
    "simplex": "weights of 5 vertices",
    "simplex along an axis": "4 blocks of 3: weights of 3 vertices",
    "sum_to": "one row and bounds",
    "monotone": "a chain",
    "long chain": "a chain",
    "monotone with a step": "a chain",
    "decreasing rows": "a chain",
    "convex": "a curve, along its band",
    "long curve": "a curve, along its band",
    "concave in a box": "by an exact active set: the block is small",
    "unimodal": "differences of coordinates",
    "ordered": "differences of coordinates",
    "ordered grid": "differences of coordinates",
    "lipschitz": "differences of coordinates",
    "checkerboard": "one row and bounds",
    "windows": "by an exact active set: the block is small",
    "window signs": "one row and bounds",
    "halfspaces": "a curve, along its band",
    "capped simplex": "weights of 9 vertices",
    "quantiles": "a chain",
    "conserves": "weights of 4 vertices",
    "reconciled": "equalities alone",
    "corridor": "by an exact active set: the block is small",
    "ramps": "differences of coordinates",
    "storage": "by an exact active set: the block is small",
    "flow": "by an exact active set: the block is small",
    "marginals": "weights of 3 vertices",
    "birkhoff": "weights of 6 vertices",
    "hierarchy": "differences of coordinates",
    "clauses": "by an exact active set: the block is small",
    "triangle": "one row and bounds",
    "cross-polytope": "by an exact active set: the block is small",
    "random cone": "by an exact active set: the block is small",
    "random floats in a box": "by an exact active set: the block is small",
    "far from the origin": "one row and bounds",
    "equalities and bounds": "one row and bounds",
    "implicit equality": "by an exact active set: the block is small",
    "whole space": "no row holds here",
}
OTHERS: dict[str, tuple[Callable[[], rh.Polyhedron], str]] = {
    "sectors": (portfolio, "by an exact active set"),
    "many sectors": (lambda: portfolio(90), "steps and a shrink: what is left of the way"),
    "curve in a box": (curve_in_a_box, "by an exact active set"),
    "long curve in a box": (lambda: curve_in_a_box(401), "by an interior point: its rows have a short sparse factor"),
    "sums so far": (sums_so_far, "the nearest point: steps are far from it"),
    "sums of an image": (sums_of_an_image, "by an exact active set"),
    "many shares": (lambda: rh.simplex(65), "one row and bounds"),
}
SETS = {name: (make, TAKEN[name]) for name, make in ZOO.items()} | OTHERS


@pytest.mark.parametrize("name", SETS)
def test_auto_says_which_way_it_takes_and_why_and_no_time(name: str) -> None:
    make, why = SETS[name]
    said = rh.MapInto(make()).describe()  # warnings raise
    assert why in said
    assert not re.search(r"µs|\bms\b|second|times as", said)


@pytest.mark.parametrize("name", SETS)
def test_the_same_set_gives_the_same_way_without_the_core_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = rh.MapInto(SETS[name][0]()).describe()
    monkeypatch.setattr("rayhull.core.library.load", lambda name: None)
    monkeypatch.setattr("rayhull.core.operators.available", lambda: False)
    torch.manual_seed(7)
    assert rh.MapInto(SETS[name][0]()).describe() == said


@pytest.mark.parametrize("make", [sums_of_an_image, lambda: rh.simplex(5)], ids=("sums of an image", "simplex"))
def test_floats_that_no_conversion_can_verify_take_another_way(
    make: Callable[[], rh.Polyhedron], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unverified(*_: object, **options: object) -> None:
        raise rh.UnverifiedError("rounding could change a sign")

    P = make()
    monkeypatch.setattr(rh.Polyhedron, "generators", unverified)
    assert bool(P.contains(rh.Constrained(4, P)(10 * torch.randn(32, 4))).all())


def test_sets_whose_sides_vary_take_a_way_that_follows_them() -> None:
    P = rh.capped_simplex(4, 0.5)
    assert "weights of 6 vertices" in rh.MapInto(P).describe()
    varied = rh.MapInto(P, varies={"b_eq": (0.5, 1.5)})
    assert varied.keeps_inside
    total = torch.linspace(0.5, 1.5, 16)[:, None]
    x = varied(3 * torch.randn(16, 4), b_eq=total)
    assert bool(P.contains(x, b_eq=total).all())


# -- the trial -------------------------------------------------------------------------------------------------------


def test_a_trial_compares_steps_with_nearest_points_around_the_block_and_far_out() -> None:
    P = portfolio()
    frame = inside(P)
    trial = Trial.of(P, frame, units_at(P, frame, 1.0))
    assert torch.allclose(trial.nearest, rh.project(P, trial.free))
    near, far = (trial.free - torch.as_tensor(frame.base)).norm(dim=-1).chunk(2)
    torch.testing.assert_close(far, 4 * near)
    ways = range(len(trial.ways))
    left = [min(each) for each in zip(*(trial.left(STEPS, way) for way in ways), strict=True)]
    count, _, tried = trial.best()
    assert count == next(k for k, rest in zip(STEPS, left, strict=True) if rest <= NEAR)
    assert tried == left[: len(tried)]
    for number in ways:
        way = trial.ways[number]
        halves = zip(trial.free.chunk(2), trial.nearest.chunk(2), strict=True)
        each = [float((way(u) - z).norm() / (z - way.base).norm()) for u, z in halves]
        assert next(trial.left((way.steps,), number)) == pytest.approx(max(each))


@pytest.mark.parametrize("P", [portfolio(), rh.convex(2500) & rh.box(-1, 1)], ids=["dense", "sparse"])
def test_one_run_goes_through_the_points_after_each_number_of_steps(P: rh.Polyhedron) -> None:
    frame = inside(P)
    way = Steps(P, frame, units_at(P, frame, 1.0), 40, Factory(None, torch.float64))
    u = way.base + 3 * way.units * torch.randn(2, P.dim, dtype=torch.float64)
    for count, found in zip((5, 10, 40), way.after(u, (5, 10, 40)), strict=True):
        way.steps = count
        torch.testing.assert_close(found, way(u))


def test_more_steps_come_nearer_and_the_users_number_is_taken() -> None:
    P = portfolio()
    free, left = 0.02 + 0.1 * torch.randn(64, 50, dtype=torch.float64), []
    nearest = rh.project(P, free)
    for steps in (0, 5, 20, 80):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            into = rh.MapInto(P, steps=steps, dtype=torch.float64)
        assert into.parts[0].way.steps == steps
        x = into(into.coefficients_of(free))
        assert bool(P.contains(x).all())
        left.append(float((x - nearest).norm()))
    assert left[3] < 0.2 * left[2] < 0.2 * left[1] < 0.2 * left[0]


def test_steps_that_end_far_from_the_nearest_point_are_warned_of_where_the_layer_is_made() -> None:
    with pytest.warns(UserWarning, match=r'10 steps leave \d+% of the way .* method="nearest"') as caught:
        into = rh.MapInto(curve_in_a_box(), steps=10)
    assert [str(w.filename) for w in caught] == [__file__]
    assert re.search(r"10 steps and a shrink, as asked; they leave \d+\.\d%", into.describe())
    rh.MapInto(curve_in_a_box(), method="nearest")  # what the warning advises; warnings raise
    rh.MapInto(portfolio(), steps=40)


def test_a_set_too_large_for_a_trial_takes_the_shrink_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "EXACT", 0)
    monkeypatch.setattr(recognise, "ENTRIES", 0)
    monkeypatch.setattr(frame, "COORDINATES", 0)
    with pytest.warns(UserWarning, match='5 rows in 50 coordinates .* method="shrink" says that you know'):
        into = rh.MapInto(portfolio())
    assert "too many rows for steps with a factor" in into.describe()
    rh.MapInto(portfolio(), method="shrink")  # warnings raise


def test_a_set_of_one_point_gives_that_point() -> None:
    n = 65
    P = rh.Polyhedron(np.ones((2, n)) * [[1.0], [-1.0]], [2.0 * n, 0.0], A_eq=np.eye(n), b_eq=np.ones(n))
    assert bool((rh.Constrained(4, P)(torch.randn(8, 4)) == 1).all())


# -- units, scale and base -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:20 steps leave")  # named, not advised
@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("method", ["auto", "shrink", "steps", "nearest"])
def test_outputs_start_around_the_base_point_at_the_scale_of_the_set(name: str, method: str) -> None:
    P = ZOO[name]()
    layer = rh.Constrained(64, P, method=method)
    torch.manual_seed(0)
    x = layer(torch.randn(512, 64)).detach().double().reshape(512, -1).numpy()
    base = base_point(P)
    loose = np.flatnonzero(~P.centre.implicit)
    slack = P.rows.rhs[loose] - P.rows.matrix[loose] @ base
    moved = np.abs((x - base) @ P.rows.matrix[loose].T) / slack if len(loose) else np.zeros((1, 1))
    spread = (x - base).std()
    assert 0 < spread < 3 * max(1.0, float(np.abs(base).max()))
    assert np.median(moved) < 3  # rows change by about their slack, not by many times as much
    if len(loose):
        assert moved.mean() > 0.05


def test_a_coefficient_moves_its_own_coordinate_by_one_unit_for_all() -> None:
    into = rh.MapInto(portfolio(), dtype=torch.float64)
    eye = torch.eye(50, dtype=torch.float64)
    moved = into.unconstrained(eye) - into.unconstrained(0 * eye)
    torch.testing.assert_close(moved, eye * moved[0, 0])
    narrow = rh.MapInto(rh.Polyhedron([[1, 1, 1]], 1, lower=-1, upper=[1, 1, -0.999]), dtype=torch.float64)
    units = narrow.unconstrained(torch.ones(3, dtype=torch.float64)) - narrow.unconstrained(torch.zeros(3).double())
    assert float(units[2]) < 0.0011 < float(units[0])  # none wider than its own bounds


CONES = {
    "chain": lambda: rh.monotone(12),
    "partial order": lambda: rh.ordered([(0, 1), (0, 2), (1, 3), (2, 3)], 4),
    "curve": lambda: rh.convex(12),
    "cone by steps": ZOO["random cone"],
}


@pytest.mark.parametrize("name", CONES)
def test_the_scale_of_the_data_scales_level_and_increments_alike(name: str) -> None:
    P, h = CONES[name](), torch.randn(256, 16, dtype=torch.float64)
    made = {}
    for scale in (1.0, 100.0, 1e-3):
        torch.manual_seed(0)
        made[scale] = rh.Constrained(16, P, scale=scale, dtype=torch.float64)(h)
        torch.testing.assert_close(made[scale] / scale, made[1.0], rtol=1e-6, atol=1e-6)
    assert 0.2 < float(made[1.0].detach().std()) < 5


def test_the_scale_may_be_the_data_themselves() -> None:
    P, data = rh.monotone(6), 70 * np.sort(np.random.default_rng(0).standard_normal((40, 6)))
    said = rh.MapInto(P, scale=float(np.sqrt((data**2).mean())))
    for given in (data, torch.as_tensor(data), data.tolist()):
        into = rh.MapInto(P, scale=given)
        assert torch.equal(into.units, said.units)
    assert float(into.units[0]) > 20


@pytest.mark.parametrize("scale", [0, -1.0, np.inf, np.nan])
def test_a_scale_that_is_no_size_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="scale must be positive and finite, the size of the data"):
        rh.MapInto(rh.monotone(3), scale=scale)


def test_units_that_differ_by_coordinate_are_refused_with_the_recipe_which_works() -> None:
    with pytest.raises(ValueError, match=r"give units=\(mean, std\) of the data"):
        rh.MapInto(rh.monotone(3), scale=np.array([1.0, 10.0, 100.0]))
    mean, std = np.array([1.0, 20.0, 400.0]), np.array([1.0, 10.0, 100.0])
    A = np.array([[1.0, -1, 0], [0, 1, -1]])  # x[0] <= x[1] <= x[2], for x = mean + std * z
    z = rh.Constrained(4, rh.Polyhedron(A * std, -A @ mean))(torch.randn(64, 4))
    assert bool(rh.monotone(3).contains(torch.as_tensor(mean) + torch.as_tensor(std) * z.double(), atol=1e-4).all())


@pytest.mark.parametrize("name", CONES)
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink"])
def test_a_base_point_is_where_coefficients_of_zero_land(name: str, method: str) -> None:
    P = CONES[name]()
    base = 7 * base_point(P) + 0.1 * P.interior_point()
    into = rh.MapInto(P, method=method, base=base, dtype=torch.float64)
    at_zero = into(torch.zeros(into.coefficients, dtype=torch.float64))
    torch.testing.assert_close(at_zero, torch.as_tensor(base))


def test_auto_starts_from_a_base_point_where_weights_of_vertices_would_not() -> None:
    P = rh.simplex(3)
    assert "weights of 3 vertices" in rh.MapInto(P).describe()
    assert rh.MapInto(P, base=[0.2, 0.3, 0.5])(torch.zeros(3)).tolist() == pytest.approx([0.2, 0.3, 0.5])


def test_a_base_point_that_is_not_strictly_inside_is_refused() -> None:
    P = rh.Polyhedron([[1, 1]], 1, lower=0)
    with pytest.raises(ValueError, match="strictly inside"):
        rh.MapInto(P, method="shrink", base=np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match=r"a point of shape \(2,\), got shape \(3,\)"):
        rh.MapInto(P, method="shrink", base=np.zeros(3))


def test_a_base_point_with_clear_slack_spares_the_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((20, 10)), 1.0, lower=-1, upper=1)
    monkeypatch.setattr(interior, "newton", lambda *given: pytest.fail("the centre was worked out"))
    into = rh.MapInto(P, method="shrink", base=np.zeros(10))
    assert bool(P.contains(into(10 * torch.randn(64, 10))).all())
    flat = rh.Polyhedron([[1, 1], [-1, -1]], [1, -1], lower=0)  # x1 + x2 = 1, by two rows without slack
    monkeypatch.undo()
    x = rh.MapInto(flat, method="shrink", base=np.array([0.25, 0.75]))(torch.randn(64, 2))
    assert torch.allclose(x.sum(-1), torch.ones(64), atol=1e-6)


# -- options and training --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": "softmax"}, "no option 'weights': it takes method, steps, base"),
        ({"approach": 10}, "no option 'approach'"),
        ({"method": "projection"}, "method must be one of auto, nearest, steps, shrink, vertices, rays"),
        ({"nonnegative": "exp"}, "nonnegative must be one of .*softplus.* or a function, got 'exp'"),
        ({"simplex": "exp"}, "softmax.*got 'exp'"),
        ({"steps": -1}, "steps must be a number of steps, 0 or more, got -1"),
        ({"steps": True}, "steps must be a number of steps"),
        ({"steps": 2.5}, "steps must be a number of steps"),
        ({"infeasible": "ignore"}, "infeasible must be one of raise, least, nan"),
    ],
)
@pytest.mark.parametrize("P", [rh.monotone(3), rh.simplex(3), rh.box(0, 1, 3)], ids=("chain", "simplex", "box"))
def test_an_option_that_no_layer_has_is_refused_even_where_it_would_not_be_used(
    P: rh.Polyhedron, options: dict[str, object], said: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        rh.Constrained(4, P, **options)  # type: ignore[arg-type]


def train(layer: rh.Constrained, target: torch.Tensor, steps: int = 101, rate: float = 1.0) -> None:
    optimiser = torch.optim.Adam(layer.parameters(), rate)
    h = torch.randn(64, layer.in_features, generator=torch.Generator().manual_seed(0))
    for _ in range(steps):
        optimiser.zero_grad()
        (layer(h) - target).square().mean().backward()
        optimiser.step()


def test_targets_of_another_size_than_the_set_are_warned_of_once_with_what_helps() -> None:
    target = 1000 * torch.arange(1.0, 7.0)
    with pytest.warns(UserWarning, match=r"after 100 training steps .* scale=targets .* base= near them") as caught:
        train(rh.Constrained(4, rh.monotone(6)), target, steps=250)
    assert len(caught) == 1
    layer = rh.Constrained(4, rh.monotone(6), scale=target[None])  # what it advises; warnings raise
    train(layer, target, rate=0.1)
    rh.Constrained(4, rh.monotone(6)).eval()(1e4 * torch.randn(64, 4))  # evaluation is not watched


def test_a_free_start_closes_and_never_reaches_evaluation() -> None:
    P = portfolio()
    layer = rh.Constrained(8, P)
    schedule = rh.nn.adapting.FreeStart(layer, steps=4)
    h = 10 * torch.randn(64, 8)
    violations = []
    for _ in range(5):
        violations.append(float(P.violation(layer.train()(h).detach()).max()))
        assert bool(P.contains(layer.eval()(h)).all())
        schedule.step()
    assert violations[0] > violations[2] > 0
    assert violations[4] < 1e-6
    with pytest.raises(ValueError, match="have an unconstrained point"):
        rh.nn.adapting.FreeStart(rh.Constrained(8, rh.simplex(4)), steps=4)
