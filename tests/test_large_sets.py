"""Sets of many coordinates stay sparse: the same points as the dense factor gives, built and refused in time."""

from __future__ import annotations

import copy
import pickle
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import rayhull as rh
from rayhull.core import operators
from rayhull.maps.leak import block_of_each
from rayhull.maps.steps import Plane
from rayhull.nn import export, per_sample, recognise, sample_finish
from rayhull.projection import plan
from rayhull.sets import base_rule, frame, linear_programs, products, systems
from rayhull.sets.linear_programs import is_bounded
from rayhull.sets.systems import System, independent_sparse_rows, products_of_factor

Make = Callable[[], rh.Polyhedron]
needs_core = pytest.mark.skipif(not operators.available(), reason="needs the compiled core")


def flow(nodes: int, edges: int) -> rh.Polyhedron:
    """What goes into a node comes out of it, but for its supply: rows that sum to 0."""
    rng = np.random.default_rng(nodes)
    begin, end = np.arange(edges) % nodes, (np.arange(edges) + rng.integers(1, nodes, edges)) % nodes
    place = np.tile(np.arange(edges), 2)
    E = sp.csr_array((np.repeat([1.0, -1.0], edges), (np.append(begin, end), place)), shape=(nodes, edges))
    upper = rng.uniform(0.5, 2, edges)
    return rh.Polyhedron(A_eq=E, b_eq=E @ (upper * rng.uniform(0.3, 0.7, edges)), lower=0, upper=upper)


def storage(hours: int) -> rh.Polyhedron:
    """Charge, discharge and the state of charge, which they change from hour to hour."""
    one, ones = sp.eye_array(hours), np.ones(hours)
    change = sp.diags_array([ones, -ones[1:]], offsets=[0, -1])
    E = sp.csr_array(sp.hstack([-0.9 * one, one / 0.9, change]))
    upper = np.concatenate([ones, ones, 3.6 * ones])
    return rh.Polyhedron(A_eq=E, b_eq=2.0 * (np.arange(hours) == 0), lower=np.repeat([0, 0, 0.4], hours), upper=upper)


def ramps(hours: int) -> rh.Polyhedron:
    """Limited changes and a total: short rows, and a long one; a row across the total, too."""
    ones = np.ones(hours - 1)
    step = sp.csr_array(sp.diags_array([-ones, ones], offsets=[0, 1], shape=(hours - 1, hours)))
    first = sp.csr_array((np.ones(4), (np.zeros(4, int), np.arange(4))), shape=(1, hours))
    rows, rhs = sp.vstack([step, -step, first]), np.append(np.full(2 * hours - 2, 0.15), 2.5)
    return rh.Polyhedron(rows, rhs, np.ones((1, hours)), [hours / 2], lower=0, upper=1)


def short_rows(d: int, entries: int = 5, bound: float | None = 1.0) -> rh.Polyhedron:
    rng = np.random.default_rng(0)
    places = np.repeat(np.arange(d), entries), rng.integers(0, d, d * entries)
    A = sp.csr_array((rng.standard_normal(d * entries), places), shape=(d, d))
    return rh.Polyhedron(A, np.ones(d), lower=None if bound is None else -bound, upper=bound)


SETS: dict[str, Make] = {
    "flow": lambda: flow(20, 50),
    "storage": lambda: storage(12),
    "ramps": lambda: ramps(24),
    "short rows": lambda: short_rows(40, 3),
    "rows without bounds": lambda: rh.lipschitz(30, 0.5) & rh.Polyhedron(np.eye(1, 30), [1.0]),
}


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    lower_limits(monkeypatch)
    monkeypatch.setattr(recognise, "EXACT", 8)
    monkeypatch.setattr(plan, "PRODUCTS", 0)


def lower_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (systems, frame):
        monkeypatch.setattr(module, "COORDINATES", 8)


def both(make: Make, monkeypatch: pytest.MonkeyPatch, steps: int = 12) -> tuple[rh.MapInto, rh.MapInto]:
    """The dense and the sparse layer, in the same units around the same point."""
    P = make()
    base = P.block_groups[0].polyhedron.interior_point() if len(P.blocks) == 1 else P.interior_point()
    monkeypatch.setattr(recognise, "FAR", 1.0)
    options = {"method": "steps", "steps": steps, "base": base, "dtype": torch.float64}
    dense = rh.MapInto(P, **options)
    lower_limits(monkeypatch)
    sparse = rh.MapInto(make(), **options)
    assert isinstance(sparse.parts[0].way.equal, Plane)
    assert isinstance(dense.parts[0].way.equal, Tensor)
    return dense, sparse


# -- the same points ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_sparse_steps_are_the_dense_ones_with_their_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dense, sparse = both(SETS[name], monkeypatch)
    c = 3 * torch.randn(16, dense.coefficients, dtype=torch.float64)
    weights = torch.randn(dense.polyhedron.dim, dtype=torch.float64)
    found = []
    for into in (dense, sparse):
        leaf = c.clone().requires_grad_()
        x = into(leaf)
        found.append((x.detach(), *torch.autograd.grad((x * weights).sum(), leaf)))
    for ours, expected in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize("name", SETS)
def test_many_sparse_steps_end_at_the_nearest_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sparse = both(SETS[name], monkeypatch, steps=600)
    u = sparse.base + 2 * torch.randn(8, sparse.polyhedron.dim, dtype=torch.float64) * sparse.units
    x = sparse(sparse.coefficients_of(u))
    torch.testing.assert_close(x, rh.project(sparse.polyhedron, u), atol=1e-4, rtol=0)


def test_derivatives_of_sparse_steps_agree_with_finite_differences_once_and_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, sparse = both(SETS["ramps"], monkeypatch, steps=3)
    c = torch.randn(2, sparse.coefficients, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(sparse, (c,), atol=1e-5)
    assert torch.autograd.gradgradcheck(lambda c: sparse(c).square(), (c,), atol=1e-4)


@pytest.mark.slow
def test_transforms_and_the_compiler_take_sparse_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    _, sparse = both(SETS["flow"], monkeypatch, steps=4)
    c = torch.randn(6, sparse.coefficients, dtype=torch.float64)
    expected = sparse(c)
    torch.testing.assert_close(torch.vmap(sparse)(c), expected)
    tangent = torch.func.jvp(sparse, (c,), (torch.ones_like(c),))[1]
    torch.testing.assert_close(tangent, (sparse(c + 1e-6) - sparse(c - 1e-6)) / 2e-6, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.compile(sparse, backend="eager")(c), expected)


# -- the contract ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["auto", "shrink"])
@pytest.mark.parametrize("name", SETS)
def test_every_point_of_a_large_set_is_inside(name: str, method: str, strict: bool) -> None:
    P = SETS[name]()
    layer = rh.Constrained(4, P, method=method, strict=strict)
    for scale in (1e-6, 1.0, 1e6):
        x = layer(scale * torch.randn(32, 4))
        assert bool(P.contains(x).all())
        if strict:
            assert _meets_inequalities(P, x)
    same = pickle.loads(pickle.dumps(layer))
    u = torch.randn(4, 4)
    assert torch.equal(same(u), layer(u))
    assert torch.equal(copy.deepcopy(layer)(u), layer(u))


def _meets_inequalities(P: rh.Polyhedron, x: Tensor) -> bool:
    """In rational arithmetic, equalities aside."""
    alone = rh.Polyhedron.from_rows(P.inequalities, None, P.lower, P.upper, P.shape, check=False)
    return bool(alone.contains_exactly(x).all())


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("side", ["b", "b_eq", "lower", "upper"])
def test_sides_of_the_sample_go_through_sparse_steps(side: str) -> None:
    P = ramps(24)
    into = rh.MapInto(P, method="steps", steps=400, dtype=torch.float64)
    stated = {"b": P.b, "b_eq": P.b_eq, "lower": P.lower_bounds, "upper": P.upper_bounds}[side]
    change = 0.05 * torch.rand(8, len(stated), dtype=torch.float64) * (-1 if side == "lower" else 1)
    given = {side: (torch.as_tensor(np.asarray(stated, float)) + change).requires_grad_()}
    c = 5 * torch.randn(8, into.coefficients, dtype=torch.float64)
    x = into(c, **given)
    detached = {side: given[side].detach()}
    assert bool(P.contains(x.detach(), **detached).all())
    near = rh.project(P, into.unconstrained(c), **detached)
    torch.testing.assert_close(x.detach(), near, atol=0.05, rtol=0)
    (gradient,) = torch.autograd.grad(x.square().sum(), given[side])
    assert bool(gradient.isfinite().all())
    assert bool(gradient.any())


@pytest.mark.usefixtures("small_limit")
def test_supplies_of_the_sample_move_the_base_point_of_a_flow_whose_rows_depend_on_each_other() -> None:
    P = flow(20, 50)
    into = rh.MapInto(P, method="steps", dtype=torch.float64)
    E = torch.as_tensor(P.equalities.matrix.toarray())
    b_eq = (torch.as_tensor(P.interior_point()) + 0.02 * torch.randn(8, 50, dtype=torch.float64)) @ E.mT
    x = into(torch.randn(8, 50, dtype=torch.float64), b_eq=b_eq)
    assert bool(P.contains(x, b_eq=b_eq, atol=1e-12).all())


@pytest.mark.usefixtures("small_limit")
def test_describe_says_that_steps_were_compared_with_more_steps() -> None:
    said = rh.MapInto(ramps(24)).describe()
    assert "of the way to where 160 steps end" in said


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("make", [lambda: storage(800), lambda: ramps(2500), lambda: flow(400, 1200)])
def test_rows_with_a_short_factor_take_the_exact_point(make: Make, strict: bool) -> None:
    P = make()
    into = rh.MapInto(P, strict=strict)
    assert "by an interior point: its rows have a short sparse factor" in into.describe()
    c = (2 * torch.randn(4, P.dim)).requires_grad_()
    x = into(c)
    assert bool(P.contains(x).all())
    assert not strict or _meets_inequalities(P, x.detach())
    torch.testing.assert_close(x, rh.project(P, into.unconstrained(c)), atol=1e-5, rtol=0)
    x.square().sum().backward()
    assert bool(c.grad.isfinite().all())


def test_an_onnx_file_holds_no_sparse_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    _, sparse = both(SETS["flow"], monkeypatch)
    assert not sparse.parts[0].way.fits_graphs(())
    with pytest.raises(rh.RayhullError, match=r"put what comes out of that file through the layer's map \(head.map\)"):
        export._refuse_what_onnx_lacks(sparse, ())


# -- nearest points --------------------------------------------------------------------------------------------------


@needs_core
@pytest.mark.parametrize("around", [lambda t: 0 * t, lambda t: 3 * t**2, lambda t: np.sin(7 * t)])
def test_noise_around_a_long_curve_has_a_certified_nearest_point(around: Callable[[np.ndarray], np.ndarray]) -> None:
    d = 4000
    y = torch.as_tensor(around(np.linspace(-1, 1, d)) + np.random.default_rng(0).standard_normal((8, d)))
    z, info = rh.project(rh.convex(d), y, return_info=True)
    assert float(info.residual.max()) <= 1e-10
    assert int(info.steps.max()) <= 120
    assert bool(rh.convex(d).contains(z).all())
    torch.testing.assert_close(rh.project(rh.convex(d), z), z, atol=1e-9, rtol=0)
    assert bool(((y - z) * z).sum(1).abs().max() <= 1e-6 * (y**2).sum(1).max())  # of a cone: at right angles


@needs_core
@pytest.mark.parametrize("size", [1e3, 1e6, 1e8, 1e10])
def test_points_far_from_a_set_with_degenerate_vertices_are_certified(size: float) -> None:
    P = rh.sum_to(1, (12, 12)) & rh.sum_to(1, (12, 12), axis=0) & rh.nonnegative((12, 12))
    y = size * torch.randn(2000, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    z, info = rh.project(P, y, return_info=True)
    assert float(info.residual.max()) <= 1e-10
    assert bool(P.contains(z, atol=1e-9).all())


# -- building ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: short_rows(10_000), marks=pytest.mark.slow, id="short rows"),
        pytest.param(lambda: storage(3000), marks=pytest.mark.slow, id="storage"),
        pytest.param(lambda: rh.convex(10_000), marks=pytest.mark.slow, id="convex"),
        pytest.param(lambda: ramps(10_000), id="ramps"),
    ],
)
def test_a_set_of_ten_thousand_coordinates_is_built_without_a_dense_matrix(make: Make) -> None:
    tracemalloc.start()
    try:
        P = make()
        into = rh.MapInto(P)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * P.dim**2 / 4
    x = into(torch.randn(2, into.coefficients))
    assert bool(P.contains(x).all())


def angles(buses: int, units: int) -> rh.Polyhedron:
    """Units and the angles of a ring of buses: what bounds an angle is the balance of its bus, not a row of its own."""
    ring = sp.csr_array(sp.eye_array(buses) - sp.eye_array(buses).tocsr()[np.roll(np.arange(buses), 1)])
    at = sp.csr_array((np.ones(units), (np.arange(units) * (buses // units), np.arange(units))), shape=(buses, units))
    first = sp.csr_array(([1.0], ([0], [units])), shape=(1, units + buses))
    E = sp.vstack([sp.hstack([at, -(ring.T @ ring)]), first])
    A = sp.hstack([sp.csr_array((2 * buses, units)), sp.vstack([ring, -ring])])
    free, demand = np.full(buses, np.inf), np.append(np.full(buses, units / 2 / buses), 0.0)
    bounds = {"lower": np.append(np.zeros(units), -free), "upper": np.append(np.ones(units), free)}
    return rh.Polyhedron(sp.csr_array(A), np.full(2 * buses, 1e4), sp.csr_array(E), demand, **bounds)


@pytest.mark.parametrize("make", [lambda: flow(100, 400), lambda: angles(240, 60)], ids=["flow", "angles"])
def test_the_unit_of_sparse_rows_and_equalities_is_that_of_the_dense_form(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    P = make()
    place = frame.inside(P)
    sparse = frame.units_at(P, place, 1.0).max()
    monkeypatch.setattr(frame, "FEW", P.dim)
    assert sparse == pytest.approx(frame.units_at(P, place, 1.0).max(), rel=0.1)


def test_an_empty_large_set_is_named_by_its_rows() -> None:
    P = storage(1000)
    b_eq = np.asarray(P.b_eq).copy()
    b_eq[0] = 9.0  # more than the battery holds, however much is discharged
    with pytest.raises(rh.EmptySetError) as refused:
        rh.Polyhedron(A_eq=P.A_eq, b_eq=b_eq, lower=P.lower, upper=P.upper)
    assert set(refused.value.rows) == {
        "A_eq[0]",
        "lower bound of x[0]",
        *(f"upper bound of x[{i}]" for i in (1000, 2000)),
    }


def test_a_thin_large_set_is_stated_without_a_dense_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_programs, "reduction", lambda matrix: pytest.fail(f"{matrix.shape} is dense"))
    assert np.full(2100, 1 / 2100) in rh.monotone(2100) & rh.simplex(2100)  # a ball of radius 5e-7 fits in


def test_supplies_that_do_not_add_up_are_refused() -> None:
    P = flow(1000, 3000)
    b_eq = np.asarray(P.b_eq).copy()
    b_eq[0] += 0.01  # so little that the other equalities have points well inside
    with pytest.raises(rh.EmptySetError, match="have no common point"):
        rh.Polyhedron(A_eq=P.A_eq, b_eq=b_eq, lower=P.lower, upper=P.upper)


def test_large_sets_are_known_to_be_bounded_or_not_without_a_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(*_: object, **__: object) -> None:
        raise AssertionError("a linear program")

    monkeypatch.setattr("rayhull.sets.linear_programs.solve", solved)
    assert rh.box(-1, 1, 3000).is_bounded
    assert not rh.convex(3000).is_bounded
    assert not rh.lipschitz(3000, 0.1).is_bounded
    first, last = (sp.csr_array(([1.0], ([0], [j])), shape=(1, 3000)) for j in (0, 2999))
    held = rh.lipschitz(3000, 1) & rh.Polyhedron(A_eq=first, b_eq=[0.0])
    assert held.is_bounded
    chain = rh.monotone(3000) & rh.Polyhedron(sp.vstack([-first, last]), [1.0, 1.0])
    assert chain.is_bounded


def test_rays_are_proved_and_disproved_as_the_linear_program_says(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        A = rng.integers(-1, 2, (int(rng.integers(1, 9)), 4))
        E = rng.integers(-1, 2, (int(rng.integers(0, 3)), 4))
        P = rh.Polyhedron(A, 1, E if len(E) else None, lower=np.where(rng.random(4) < 0.4, -1.0, -np.inf))
        expected = is_bounded(P)
        monkeypatch.setattr(systems, "COORDINATES", 0)
        assert is_bounded(P) == expected
        monkeypatch.undo()


def test_what_cannot_be_held_is_refused_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(base_rule.NoBaseRuleError, match=r"takes about [\d.]+ GB: let fewer things vary"):
        base_rule.base_rule(storage(10_000), {"b_eq": (0.0, 0.1)})
    monkeypatch.setattr(sample_finish, "MOST_BYTES", 100)
    monkeypatch.setattr(per_sample, "ENTRIES", 0)
    P = ramps(24)
    into = rh.MapInto(P, strict=True, dtype=torch.float64)
    with pytest.raises(rh.RayhullError, match=r"dense matrix of [\d.]+ GB: use strict=False"):
        into(torch.zeros(2, into.coefficients, dtype=torch.float64), b=torch.as_tensor(P.b) + 0.1)


# -- systems -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [0, 2])
def test_a_system_gives_the_solution_and_the_multipliers(hard: int) -> None:
    rng = np.random.default_rng(0)
    R, D = rng.standard_normal((5, 9)), 1 + rng.random(9)
    soft = np.where(np.arange(5) < hard, 0.0, 1.0)
    whole = np.block([[np.diag(D), R.T], [R, -np.diag(soft)]])
    r, q = rng.standard_normal((9, 3)), rng.standard_normal((5, 3))
    system = System(D, sp.csr_array(R), soft)
    np.testing.assert_allclose(np.concatenate(system.solve(r, q)), np.linalg.solve(whole, np.concatenate([r, q])))
    np.testing.assert_allclose(system(r), np.linalg.inv(whole)[:9, :9] @ r, atol=1e-8)


def test_products_solve_a_system_whose_eigenvalues_are_near_each_other() -> None:
    A = short_rows(300).rows.unit[0][:300]
    system = System(np.full(300, 3.0), A, np.ones(300))
    assert system.reach is not None
    r = np.random.default_rng(1).standard_normal((300, 4))
    np.testing.assert_allclose(system(r), system.solve(r)[0], atol=1e-8)
    assert System(np.full(300, 1e-3), A, np.ones(300)).reach is None


@pytest.mark.parametrize("name", ["flow", "storage", "short rows"])
def test_the_products_of_a_factor_are_counted_without_making_it(name: str) -> None:
    rows = sp.csr_array(SETS[name]().inequalities.matrix if name == "short rows" else SETS[name]().equalities.matrix.T)
    counted = products_of_factor(rows, np.inf)
    matrix = sp.csc_array(abs(rows).T @ abs(rows))
    factor = systems.factor_of(matrix + sp.diags_array(matrix.sum(0) + 1.0), 0.0)
    made = float(np.square(np.diff(factor.L.indptr)).sum() + np.square(np.diff(rows.indptr)).sum())
    assert 0.7 * made <= counted <= 1.3 * made
    assert products_of_factor(rows, counted) == counted
    assert products_of_factor(rows, counted - 1) == np.inf


def test_dependent_sparse_rows_are_left_out() -> None:
    E = flow(200, 500).equalities.unit[0]
    kept = independent_sparse_rows(E)
    assert len(kept) == np.linalg.matrix_rank(E.toarray()) == np.linalg.matrix_rank(E[kept].toarray())
    rows = short_rows(60, 3).inequalities.unit[0][:20]
    twice = sp.csr_array(sp.vstack([rows[:5], rows]))
    kept = independent_sparse_rows(twice)
    assert np.linalg.matrix_rank(twice[kept].toarray()) == len(kept) == 20


def bounds(d: int, *, open_ends: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Different for every coordinate; some half-lines, some free, one with a single value."""
    low, high = np.sort(np.random.default_rng(0).standard_normal((2, d)) * 3, 0)
    if open_ends:
        low[: d // 3], high[d // 4 : d // 2] = -np.inf, np.inf
        low[-1] = high[-1] = 0.25
    return low, high


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_different_bounds_are_one_group_that_maps_as_every_interval_alone(strict: bool, scale: float) -> None:
    low, high = bounds(60)
    P = rh.Polyhedron(lower=low, upper=high)
    options: Any = {"scale": scale, "strict": strict, "dtype": torch.float64}
    into, u = rh.MapInto(P, **options), 9 * torch.randn(4, 60, dtype=torch.float64, generator=torch.manual_seed(0))
    assert [group.apart for group in P.mirrored_groups] == [True, False, False]  # free ones, and the one with a value
    each = [rh.MapInto(rh.Polyhedron(lower=a, upper=b, shape=(1,)), **options) for a, b in zip(low, high, strict=True)]
    for name in ("base", "units"):
        torch.testing.assert_close(getattr(into, name), torch.cat([getattr(one, name) for one in each]))
    alone = [one(one.coefficients_of(own)) for one, own in zip(each[:-1], u.split(1, -1), strict=False)]
    x = into(into.coefficients_of(u).nan_to_num())
    torch.testing.assert_close(x[:, :-1], torch.cat(alone, -1))
    assert P.contains_exactly(x).all() or not strict


def test_gradients_leak_past_different_bounds_one_by_one() -> None:
    low, high = bounds(60, open_ends=False)
    P = rh.product(rh.box(low, high), rh.simplex(3))
    assert len(block_of_each(P).unique()) == len(P.blocks) == 61
    h, layer = torch.randn(5, 4), rh.Constrained(4, rh.box(low, high)).train()
    layer(h).sum().backward()
    assert torch.isfinite(layer.linear.weight.grad).all()


def test_sides_of_the_sample_and_other_ways_take_different_bounds() -> None:
    low, high = bounds(40)
    layer, h = rh.Constrained(4, rh.Polyhedron(lower=low, upper=high)), 5 * torch.randn(6, 4)
    lower, upper = torch.as_tensor(low).float() + 0.5, torch.as_tensor(high).float() + 0.5
    x = layer(h, lower=lower, upper=upper)
    assert bool((x >= lower - 1e-5).all() and (x <= upper + 1e-5).all())
    box = rh.box(*bounds(40, open_ends=False))
    x = rh.Constrained(4, box, method="vertices")(h)
    assert box.contains(x).all()
    assert len(box.block_groups) == 40  # volumes and densities know every interval
    assert box.volume() == pytest.approx(float(np.prod(box.upper_bounds - box.lower_bounds)))


def test_thousands_of_different_bounds_take_no_set_each(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(products._Grouping, "_subset", counted(products._Grouping._subset, made))
    for low, high in (bounds(20_000), bounds(20_000, open_ends=False)):
        P = rh.Polyhedron(lower=low, upper=high)
        layer = rh.Constrained(2, P, strict=True)
        assert P.contains_exactly(layer(torch.randn(1, 2))).all()
    assert len(made) <= 4


def counted(run: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    def wrapped(*given: Any) -> Any:
        calls.append(1)
        return run(*given)

    return wrapped


def test_large_boxes_are_compared_and_described_without_a_program_or_a_set_for_each_coordinate(monkeypatch):
    monkeypatch.setattr("rayhull.sets.linear_programs.maximum", None)
    P = rh.box(-1, 1, 20_000)
    assert P.same_set(rh.box(-1, 1, 20_000))
    assert P.is_subset(rh.box(-2, 1, 20_000))
    assert (rh.sum_to(1, 5) & rh.box(0, 1)).is_subset(rh.Polyhedron([[1] * 5], 2, lower=-1))
    start = time.process_time()
    many = rh.box(0, np.random.default_rng(0).uniform(1, 2, 20_000))
    assert "20000 coordinates in 20000 blocks (20000 of 1)" in many.describe()
    assert time.process_time() - start < 5
