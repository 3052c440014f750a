"""``method="auto"``: which way it takes, that it is the same every time, and where outputs start."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.core import operators
from rayhull.maps.coefficients import round_coordinates
from rayhull.nn import choice, costs
from rayhull.nn.base_point import coordinates_at, seen_from_inside
from rayhull.nn.choice import approach, has_many_vertices, shrink
from rayhull.nn.directions import Options
from rayhull.nn.export import to_onnx
from rayhull.nn.orders import chain_of_slopes
from rayhull.nn.trial import GOOD, WIDE, Figures, Trial, mapped
from rayhull.sets import interior
from rayhull.sets.interior import base_point
from tests.zoo import ZOO


def thin() -> rh.Polyhedron:
    W = np.random.default_rng(12).standard_normal((5, 30))
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return rh.Polyhedron(np.vstack([W, -W]), np.full(10, 5e-4), lower=-1, upper=1)


def portfolio() -> rh.Polyhedron:
    sectors = np.kron(np.eye(5), np.ones((1, 10)))
    return rh.Polyhedron(sectors, np.full(5, 0.3), A_eq=np.ones((1, 50)), b_eq=[1.0], lower=0, upper=0.1)


WAYS = {
    "chain": (lambda: rh.monotone(9), "order", "own increments"),
    "long chain": (lambda: rh.monotone(33), "order", "its nearest point by pooling"),
    "chain in a box": (lambda: rh.monotone(9) & rh.box(0, 1), "order", "own increments"),
    "grid": (lambda: rh.ordered(None, (5, 4)) & rh.box(0, 1), "order", "least majorant"),
    "simplex": (lambda: rh.simplex(30), "vertices", "30 vertices"),
    "tiles in a box": (lambda: rh.checkerboard((8, 8), (2, 2)) & rh.box(-1, 1), "shift", "clipped shift"),
    "interval": (lambda: rh.box(-1, 1, 3), "shrink", "clamp"),
    "convex curve": (lambda: rh.convex(32), "rays", "a coefficient for each slack"),
    "long curve": (lambda: rh.convex(50), "projection", "along its 48 rows"),
    "rising curve": (lambda: rh.concave(50) & rh.monotone(50), "rays", "49 rays"),
    "orthogonal rows": (lambda: rh.nonnegative(4), "rays", "nearly orthogonal"),
    "sectors": (portfolio, "approach", "10 dual steps 1.00"),
    "thin": (thin, "approach", "round dual steps 1.0"),
    "steep at most": (lambda: rh.convex(30) & rh.lipschitz(30, 0.1), "order", "29 slopes by its own increments"),
    "falling and concave": (
        lambda: rh.concave(6) & rh.lipschitz(6, 2) & rh.monotone(6, increasing=False),
        "order",
        "5",
    ),
    "curve in a box": (lambda: rh.convex(30) & rh.box(0, 1), "projection", "no cheaper way"),
    "long curve in a box": (lambda: rh.convex(300) & rh.box(0, 1), "projection", "no cheaper way"),
}


@pytest.mark.parametrize("name", WAYS)
def test_auto_takes_the_way_that_learns(name: str) -> None:
    make, method, reason = WAYS[name]
    found = [rh.MapInto(make()) for _ in range(2)]
    assert found[0].blocks()[0].method == method
    assert reason in found[0].describe()
    assert found[0].describe() == found[1].describe()


def test_one_row_and_bounds_are_known_to_have_many_vertices_where_they_have():
    rng, known = np.random.default_rng(0), 0
    for _ in range(40):
        P = rh.Polyhedron(rng.integers(-3, 4, (1, 5)), rng.integers(0, 4, 1), lower=-1, upper=rng.integers(0, 3, 5))
        count = len(P.generators().vertices)
        assert not has_many_vertices(P, count)
        known += has_many_vertices(P, 15)
    assert known > 10
    assert not has_many_vertices(rh.simplex(30), 60)
    assert not has_many_vertices(rh.Polyhedron([[1] * 30], 1, lower=0), 60)


@pytest.mark.parametrize("name", [name for name in WAYS if WAYS[name][1] != "projection"])
def test_every_way_is_strict_in_onnx_runtime_and_compiles(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    P = WAYS[name][0]()
    layer = rh.Constrained(6, P, strict=True)
    h = 10 * torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    path = to_onnx(layer.fold(), 6, tmp_path / "layer.onnx")
    x = torch.as_tensor(runtime.InferenceSession(str(path)).run(None, {"features": h.numpy()})[0])
    rows = (P.A, P.b) if len(P.inequalities) else (None, None)
    assert bool(rh.Polyhedron(*rows, lower=P.lower, upper=P.upper, shape=P.shape).contains_exactly(x).all())
    assert torch.allclose(x, layer.fold()(h), atol=1e-5)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(h), layer(h), atol=1e-5)
    assert torch.allclose(torch.vmap(layer)(h), layer(h), atol=1e-5)


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


def test_points_of_the_set_leave_nearest_points_and_other_maps_an_error() -> None:
    P = portfolio()
    view = seen_from_inside(P)
    trial = Trial.of(P, view.base, coordinates_at(P, view, 1.0))
    assert bool(P.contains(trial.points, atol=1e-9).all())
    active = (trial.points < 1e-9) | (trial.points > 0.1 - 1e-9)
    assert 0.2 < float(active.double().mean()) < 0.99  # faces, not only the inside
    options = Options(steps=40, factory=WIDE)
    assert trial.amplification(lambda u: rh.project(P, u)) == pytest.approx(1.0)
    assert trial.amplification(lambda u: mapped(P, approach(P, options), u)) < GOOD
    assert trial.amplification(lambda u: mapped(P, shrink(P, options), u)) > 2


def test_reach_is_what_a_way_gets_of_objectives_whose_optima_are_vertices() -> None:
    P = portfolio()
    place = choice.Place.of(P, Options())
    trial = Trial.of(P, place.view.base, place.matrix)
    few, many = (partial(mapped, P, approach(P, Options(steps=k, factory=WIDE))) for k in (10, 40))
    assert trial.reach(lambda u: rh.project(P, u)) > 1  # at twice the distance it gets more
    assert trial.reach(partial(mapped, P, shrink(P, Options(factory=WIDE)))) < 0.4
    assert trial.judge(few).near
    assert trial.reach(few) < 1 < trial.reach(many)
    assert rh.MapInto(P).blocks()[0].approach[0].steps == 40


def test_a_set_of_one_point_has_nothing_to_reach() -> None:
    n = choice.SMALL + 1  # smaller sets take their vertices
    P = rh.Polyhedron(np.ones((2, n)) * [[1.0], [-1.0]], [2.0 * n, 0.0], A_eq=np.eye(n), b_eq=np.ones(n))
    assert (rh.Constrained(4, P)(torch.randn(8, 4)) == 1).all()


def test_where_no_dual_steps_reach_as_far_the_cheapest_near_ones_are_taken() -> None:
    said = rh.MapInto(thin()).describe()
    assert "10 round dual steps 1.01, 4%, 0.936" in said
    assert rh.MapInto(thin()).blocks()[0].approach[0].steps == 10


def test_coefficients_of_nearest_points_are_in_units_of_each_coordinate() -> None:
    units = np.array([0.1, 1.0, 10.0])
    A = np.array([[1.0, 1, 1], [1, -1, 0]])
    layers = [
        rh.MapInto(
            rh.Polyhedron(A / s, 1, lower=-s, upper=s), method="nearest", base=np.zeros(3), dtype=torch.float64
        )
        for s in (np.ones(3), units)
    ]
    c = torch.randn(64, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    same, scaled = (into.unconstrained(c) for into in layers)
    torch.testing.assert_close(scaled / torch.as_tensor(units), same, rtol=1e-6, atol=1e-6)
    eye = torch.eye(3, dtype=torch.float64)
    moved = layers[0].unconstrained(eye) - layers[0].unconstrained(0 * eye)
    assert bool((moved[eye == 0] == 0).all())  # a coefficient moves its own coordinate


def test_the_base_point_is_found_once_for_all_ways_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(choice, "seen_from_inside", lambda P, *given: calls.append(P) or seen_from_inside(P, *given))
    into = rh.MapInto(thin())
    assert "10 round dual steps" in into.describe()
    assert len(calls) == 1


def test_many_bounds_do_not_keep_auto_from_comparing_ways() -> None:
    rng = np.random.default_rng(0)
    into = rh.MapInto(rh.Polyhedron(rng.standard_normal((40, 900)) / 30, np.ones(40), lower=-1, upper=1))
    assert "error over the nearest point's" in into.describe()


def test_ways_are_tried_by_what_they_cost_and_none_that_costs_more_than_the_nearest_point() -> None:
    P = thin()
    found = choice.candidates(P, choice.Place.of(P, Options()))
    assert [way.cost for way in found] == sorted(way.cost for way in found)
    assert [way.name for way in found[:4]] == ["shrink", "5 dual steps", "10 dual steps", "20 dual steps"]
    said = rh.MapInto(P).describe()
    assert f"10 round dual steps 1.01, 4%, 0.936, {costs.dual_steps(P, 10, round_metric=True):.2g}" in said
    assert f"nearest point 1, 0%, 1, {costs.nearest_point(P):.2g}" in said
    assert "40 round" not in said


def test_the_nearest_point_is_taken_where_it_costs_less(monkeypatch: pytest.MonkeyPatch) -> None:
    P = portfolio()
    assert costs.dual_steps(P, 10) < costs.nearest_point(P)
    monkeypatch.setattr(choice, "nearest_point", lambda P: costs.dual_steps(P, 5))
    into = rh.MapInto(P)
    assert into.blocks()[0].method == "projection"
    assert "10 dual steps" not in into.describe()


def test_a_machine_without_compiled_code_takes_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    said = [rh.MapInto(make()).describe() for make in (portfolio, thin)]
    monkeypatch.setattr(operators, "available", lambda: False)
    assert [rh.MapInto(make()).describe() for make in (portfolio, thin)] == said


def test_costs_grow_with_rows_steps_and_places() -> None:
    small, large = (rh.Polyhedron(np.random.default_rng(0).standard_normal((m, 40)), 1.0) for m in (10, 100))
    assert costs.shrink(small) < costs.shrink(large)
    assert costs.dual_steps(small, 5) < costs.dual_steps(small, 20) < costs.dual_steps(large, 20)
    assert costs.nearest_point(small) < costs.nearest_point(large)
    one, four = (rh.checkerboard((8, 8), tiles) & rh.box(-1, 1) for tiles in ((1, 1), (2, 2)))
    assert "about" in rh.MapInto(one).describe()
    blocks = rh.MapInto(four).blocks()[0]
    assert costs.estimate(blocks) == pytest.approx(blocks.count * costs.formula(blocks.polyhedron, 16, "shift"))


def test_a_set_too_large_to_compare_ways_on_is_warned_of_with_what_the_others_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(choice, "ENTRIES", 0)
    P = portfolio()
    with pytest.warns(UserWarning, match=rf"steps=20 dual steps \({costs.dual_steps(P, 20):.2g} µs\)"):
        into = rh.MapInto(P)
    assert "too many rows to compare ways on" in into.describe()


def curve_in_a_box() -> rh.Polyhedron:
    return rh.convex(30) & rh.box(0, 1)


def test_dual_steps_that_do_badly_are_warned_of_with_their_figures() -> None:
    with pytest.warns(UserWarning, match="10 dual steps leaves 13 times the nearest .* 85%") as caught:
        into = rh.MapInto(curve_in_a_box(), steps=10)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "error over the nearest point's, way left: 12.95, 85%" in into.describe()
    rh.MapInto(curve_in_a_box())  # what the warning advises; warnings raise
    assert "1.00, 4%" in rh.MapInto(portfolio(), steps=10).describe()  # does well, without a warning


def test_sides_of_the_sample_that_are_followed_badly_are_warned_of() -> None:
    P, varies = curve_in_a_box(), {"upper": (1.0, 2.0)}
    with pytest.warns(UserWarning, match=r"40 dual steps leaves 1.8 times .* 66% of the way .* \(steps=80\)"):
        into = rh.MapInto(P, varies=varies)
    assert "way left: 1.80, 66%" in into.describe()
    nearest = rh.MapInto(P, method="nearest", varies=varies)
    upper = torch.linspace(1, 2, 8)[:, None].expand(8, 30)
    assert bool(P.contains(nearest(10 * torch.randn(8, 30), upper=upper), upper=upper).all())
    total = rh.Polyhedron(np.eye(5)[:2], 0.7, A_eq=np.ones((1, 5)), b_eq=[1.0], lower=0)
    assert "way left: 1.00, 0%" in rh.MapInto(total, varies={"b_eq": (0.5, 2.0)}).describe()


@pytest.mark.parametrize("name", ZOO)
def test_no_set_of_the_zoo_is_warned_of(name: str) -> None:
    into = rh.MapInto(ZOO[name]())  # warnings raise
    assert not any("too many rows" in part.reason for part in into.blocks())


@pytest.mark.parametrize(("figures", "poor"), [((3.1, 0.0), True), ((1.0, 0.51), True), ((2.9, 0.49), False)])
def test_an_error_or_a_way_left_beyond_its_limit_is_poor(figures: tuple[float, float], poor: bool) -> None:
    assert Figures(*figures).poor is poor


def test_a_diagonal_serves_where_it_is_round_and_only_there() -> None:
    rng = np.random.default_rng(0)
    box = np.vstack([np.eye(300), -np.eye(300)])
    rows = rng.standard_normal((100, 300)) / 17
    assert round_coordinates(np.vstack([rows, box]), np.ones(700)).ndim == 1
    assert round_coordinates(np.vstack([rows, box]), np.r_[np.full(100, 1e-3), np.ones(600)]).ndim == 2
    assert round_coordinates(np.vstack([rows, box]), np.ones(700), size=1.0).ndim == 2  # unbounded: needs the ridge


@pytest.mark.parametrize("steps", [0, 3, 20])
def test_the_user_chooses_the_number_of_dual_steps(steps: int) -> None:
    P = portfolio()
    layer = rh.Constrained(8, P, steps=steps)
    assert layer.map.blocks()[0].approach[0].steps == steps
    assert bool(P.contains(layer(10 * torch.randn(64, 8))).all())
    layer.strict = True
    x = layer(10 * torch.randn(64, 8))
    inequalities = rh.Polyhedron(P.A, P.b, lower=P.lower, upper=P.upper)
    assert bool(inequalities.contains_exactly(x).all())


def test_more_dual_steps_come_nearer() -> None:
    P = portfolio()
    nearest = rh.MapInto(P, method="nearest", dtype=torch.float64)
    u = 0.02 + 0.1 * torch.randn(64, 50, dtype=torch.float64)
    apart = []
    for steps in (0, 5, 20):
        into = rh.MapInto(P, steps=steps, dtype=torch.float64)
        apart.append(float((into(into.coefficients_of(u)) - nearest(nearest.coefficients_of(u))).square().mean()))
    assert apart[2] < 0.5 * apart[1] < 0.25 * apart[0]


def test_the_user_gives_the_base_point_and_the_scale() -> None:
    base = np.array([0.2, 0.3])
    P = rh.Polyhedron([[1, 1]], 1, lower=0)
    into = rh.MapInto(P, method="shrink", base=base)
    assert np.allclose(into(torch.zeros(1, 2)).numpy(), base)
    with pytest.raises(ValueError, match="strictly inside"):
        rh.MapInto(P, method="shrink", base=np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="shape"):
        rh.MapInto(P, method="shrink", base=np.zeros(3))
    large = rh.Constrained(16, rh.convex(20), scale=rh.scale_from(np.full((3, 20), 100.0)))
    x = large(torch.randn(256, 16))
    assert 30 < float(x.detach().square().mean().sqrt()) < 500


def test_a_base_point_with_clear_slack_spares_the_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    P = rh.Polyhedron(np.random.default_rng(0).standard_normal((20, 10)), 1.0, lower=-1, upper=1)
    monkeypatch.setattr(interior, "newton", lambda *given: pytest.fail("the centre was worked out"))
    into = rh.MapInto(P, method="shrink", base=np.zeros(10))
    assert bool(P.contains(into(10 * torch.randn(64, 10))).all())
    flat = rh.Polyhedron([[1, 1], [-1, -1]], [1, -1], lower=0)  # x1 + x2 = 1, by two rows without slack
    monkeypatch.undo()
    x = rh.MapInto(flat, method="shrink", base=np.array([0.25, 0.75]))(torch.randn(64, 2))
    assert torch.allclose(x.sum(-1), torch.ones(64), atol=1e-6)


def test_quantiles_have_no_ties_after_training() -> None:
    torch.manual_seed(0)
    layer = rh.Constrained(4, rh.monotone(9))
    optimiser = torch.optim.Adam(layer.parameters(), 0.05)
    levels = torch.arange(1, 10) / 10
    for _ in range(200):
        h, y = torch.randn(64, 4), torch.randn(64, 1)
        error = y - layer(h)
        optimiser.zero_grad()
        torch.maximum(levels * error, (levels - 1) * error).mean().backward()
        optimiser.step()
    assert bool((layer(torch.randn(256, 4)).diff(dim=-1) > 0).all())


def test_slopes_are_a_chain_only_where_the_ends_bound_all_of_them() -> None:
    found = chain_of_slopes(rh.concave(6) & rh.lipschitz(6, 2) & rh.monotone(6, increasing=False))
    assert found is not None
    assert (found.lower, found.upper, found.path.tolist()) == (-2, 0, [4, 3, 2, 1, 0])
    uneven = rh.convex(4) & rh.Polyhedron([[0, -1, 1, 0]], 1)  # bounds the middle slope, not the largest
    others = (uneven, rh.convex(4) & rh.box(0, 1), rh.lipschitz(4, 1), rh.unimodal(6, mode=2), rh.simplex(4))
    assert all(chain_of_slopes(P) is None for P in others)


def test_all_ways_can_be_compared() -> None:
    table = rh.compare(portfolio())
    rows = {row.method: row for row in table}
    assert rows["projection"].error == pytest.approx(1.0)
    assert rows["shrink"].error > 2 > rows["approach"].error
    assert rows["order"].microseconds is None
    assert rows["auto"].strict
    assert len(repr(table).splitlines()) == 9


def test_a_free_start_closes_and_never_reaches_evaluation() -> None:
    P = portfolio()
    layer = rh.Constrained(8, P)
    schedule = rh.FreeStart(layer, steps=4)
    h = 10 * torch.randn(64, 8)
    violations = []
    for _ in range(5):
        violations.append(float(P.violation(layer.train()(h).detach()).max()))
        assert bool(P.contains(layer.eval()(h)).all())
        schedule.step()
    assert violations[0] > violations[2] > 0
    assert violations[4] < 1e-6
    with pytest.raises(ValueError, match="identity"):
        rh.FreeStart(rh.Constrained(8, rh.simplex(4)), steps=4)
