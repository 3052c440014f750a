"""The nearest point of sparse sets, by an interior point: flows, storage, ramps, curves with dependent rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

import rayhull as rh
from rayhull.core import operators
from rayhull.errors import EmptySetError, UnverifiedError
from rayhull.projection.intervals import intervals
from rayhull.projection.plan import plan
from rayhull.projection.problem import with_long_multipliers
from rayhull.projection.solvers.any_rows import InteriorPoint
from rayhull.projection.standard_form import Matrix

long_floats = np.finfo(np.longdouble).eps < 2.0**-60
needs_long_floats = pytest.mark.skipif(not long_floats, reason="needs floats longer than float64")
needs_core = pytest.mark.skipif(not operators.available(), reason="needs the compiled core")


def flow(nodes: int, edges: int, seed: int = 0) -> tuple[rh.Polyhedron, Tensor]:
    """Conservation at every node (one row follows from the others) and capacities, around a point inside."""
    rng = np.random.default_rng(seed)
    start, way = rng.integers(0, nodes, edges), rng.integers(1, nodes, edges)
    ends, every = np.concatenate([start, (start + way) % nodes]), np.tile(np.arange(edges), 2)
    E = sp.csr_array((np.repeat([1.0, -1.0], edges), (ends, every)), shape=(nodes, edges))
    inside = rng.uniform(0.2, 0.8, edges)
    return rh.Polyhedron(A_eq=E, b_eq=E @ inside, lower=0.0, upper=1.0), torch.tensor(inside)


def storage(hours: int) -> rh.Polyhedron:
    """Power within limits, a state of charge within limits that follows it."""
    one = sp.eye_array(hours)
    E = sp.hstack([-one, one - sp.diags_array(np.ones(hours - 1), offsets=-1)], format="csr")
    lower, upper = (np.repeat(v, hours) for v in ((-1.0, 0.0), (1.0, 4.0)))
    return rh.Polyhedron(A_eq=E, b_eq=np.eye(hours)[0] * 2, lower=lower, upper=upper)


def ramps(hours: int) -> rh.Polyhedron:
    step = np.diff(np.eye(hours), axis=0)
    return rh.Polyhedron(np.vstack([step, -step]), 0.3, np.ones((1, hours)), hours / 2, lower=0.0, upper=1.0)


def dispatch(buses: int, decades: float = 1.5) -> rh.Polyhedron:
    """Power of units and angles of buses: each bus is balanced, each line of other weight has its limit."""
    rng = np.random.default_rng(0)
    begin = np.concatenate([np.arange(1, buses), rng.integers(0, buses, buses // 3)])  # a tree and further lines
    way = np.concatenate([rng.integers(1, 4, buses - 1), rng.integers(1, buses, buses // 3)])
    end = np.where(np.arange(len(begin)) < buses - 1, np.maximum(begin - way, 0), (begin + way) % buses)
    lines, at, weight = len(begin), np.arange(0, buses, 4), 10 ** rng.uniform(0.5, 0.5 + decades, len(begin))
    across = np.eye(buses)[begin] - np.eye(buses)[end]
    balance = np.hstack([np.eye(buses)[:, at], -across.T @ np.diag(weight) @ across])
    first = np.eye(1, len(at) + buses, len(at))
    inside = np.concatenate([rng.uniform(0.5, 1.5, len(at)), 0.1 * rng.standard_normal(buses)])
    inside[len(at) :] -= inside[len(at)]
    limits = 1.2 * np.abs(across @ inside[len(at) :]) + 0.2 / weight
    A = np.hstack([np.zeros((2 * lines, len(at))), np.vstack([across, -across])])
    E, power, angle = np.vstack([balance, first]), np.ones(len(at)), np.full(buses, np.inf)
    bounds = {"lower": np.concatenate([0 * power, -angle]), "upper": np.concatenate([2 * power, angle])}
    return rh.Polyhedron(A, np.tile(limits, 2), E, E @ inside, **bounds)


def scattered(d: int, seed: int, lower: float = -np.inf, upper: float = np.inf) -> rh.Polyhedron:
    """Random rows, some twice, some opposite to others, some that meet at the point 0.1; one coordinate fixed."""
    rng = np.random.default_rng(seed)
    rows = sp.random_array((d, d), density=3 / d, rng=rng).toarray() + np.eye(d)
    A = np.vstack([rows, rows[:4], -rows[4:9], 2 * rows[9:12]])
    b = A @ np.full(d, 0.1) + np.where(np.arange(len(A)) < d // 2, 0.0, 0.5)
    low, high = np.full(d, lower), np.full(d, upper)
    low[3] = high[3] = 0.1
    return rh.Polyhedron(A, b, lower=low, upper=high)


SETS = {
    "flow": flow(30, 90)[0],
    "storage": storage(48),
    "ramps with a fixed total": ramps(60),
    "third differences": rh.Polyhedron(-np.diff(np.eye(60), 3, axis=0), 0.0) & rh.box(-2, 2),
    "convex with limited slopes": rh.convex(50) & rh.lipschitz(50, 0.2),
    "increasing and concave": rh.monotone(50) & rh.concave(50),
    "random rows": scattered(60, 0),
    "random rows in a box": scattered(60, 1, -0.5, 0.6),
    "random rows above 0": scattered(60, 2, 0.0),
    "convex in a box of thickness 0": rh.convex(40) & rh.Polyhedron(A_eq=np.eye(40)[:3], b_eq=[1.0, 0.5, 0.2]),
}


def points(P: rh.Polyhedron, n: int = 11, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(n, P.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def peer(P: rh.Polyhedron, x: np.ndarray) -> np.ndarray:
    """By another solver, to ten digits."""
    clarabel = pytest.importorskip("clarabel")
    A = sp.vstack([P.A, P.A_eq, np.eye(P.dim), -np.eye(P.dim)], format="csc")
    b = np.concatenate([P.b, P.b_eq, P.upper_bounds, -P.lower_bounds])
    kept = np.isfinite(b)
    cones = [clarabel.NonnegativeConeT(len(P.b)), clarabel.ZeroConeT(len(P.b_eq))]
    cones.append(clarabel.NonnegativeConeT(int(kept.sum()) - len(P.b) - len(P.b_eq)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    problem = sp.csc_array(sp.eye_array(P.dim)), -x, sp.csc_matrix(A[kept]), b[kept], cones, settings
    return np.array(clarabel.DefaultSolver(sp.csc_matrix(problem[0]), *problem[1:]).solve().x)


@needs_core
@pytest.mark.parametrize("P", SETS.values(), ids=SETS)
def test_the_point_is_the_one_that_other_solvers_find(P):
    x = points(P)
    z, info = rh.project(P, x, return_info=True)
    assert info.solvers == ("interior point",)
    assert not info.fallback.any()
    assert float(info.residual.max()) < 1e-12
    torch.testing.assert_close(z, rh.project(P, x, solver="active set"), atol=1e-12, rtol=0)
    for n in range(3):
        other = peer(P, x[n].numpy())
        np.testing.assert_allclose(z[n], other, atol=1e-3)  # it stops early among dependent rows, further away
        assert float(torch.dist(z[n], x[n])) < np.linalg.norm(other - x[n].numpy()) + 1e-7


@needs_core
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_factor_in_floats_takes_the_path_to_the_same_point(scale):
    """A factor with many more entries than the rows is taken in floats until the active set is known."""
    P, inside = flow(300, 900)
    own = plan(P)[0].form.matrix.intervals
    assert own is not None
    assert own.by_rows
    assert len(own.pattern_rows) > 3 * len(own.data)
    x = inside + points(P, 9, scale)
    z, info = rh.project(P, x, return_info=True)
    assert info.solvers == ("interior point",)
    assert not info.fallback.any()
    assert int(info.steps.max()) <= 30
    assert float(info.residual.max()) < 1e-14
    torch.testing.assert_close(z[0], torch.from_numpy(peer(P, x[0].numpy())), atol=1e-5, rtol=0)


@needs_core
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_points_near_and_far_are_certified(name, scale):
    P = SETS[name]
    scale = (
        min(scale, 1e3) if name == "third differences" else scale
    )  # forces of 1e5 distances: no solver has more digits
    z, info = rh.project(P, points(P, 4, scale), return_info=True)
    assert float(info.residual.max()) <= 1e-10
    assert P.contains(z, atol=1e-9).all()


@needs_core
@pytest.mark.parametrize("name", ["flow", "storage", "ramps with a fixed total"])
@pytest.mark.parametrize("scale", [10.0, 1e2, 1e4])
def test_far_points_take_the_interior_point_few_steps_more(name, scale):
    _, info = rh.project(SETS[name], points(SETS[name], 16, scale), return_info=True)
    assert info.solvers == ("interior point",)
    assert int(info.steps.max()) <= 40
    assert float(info.steps.double().mean()) <= 16


@needs_core
@pytest.mark.parametrize("scale", [1e3, 1e4])
def test_far_points_among_equalities_of_weak_and_strong_lines_need_no_second_solver(scale):
    P = dispatch(120)
    assert not plan(P)[0].form.matrix.intervals.by_rows
    z, info = rh.project(P, points(P, 24, scale), return_info=True)
    assert info.solvers == ("interior point",)
    assert not info.fallback.any()
    assert int(info.steps.max()) <= 40
    assert float(info.residual.max()) <= 1e-10
    assert P.contains(z, atol=1e-9).all()


@needs_core
def test_what_large_multipliers_round_away_is_not_solved_again(monkeypatch):
    P, calls, solve = dispatch(120, decades=2.5), [], InteriorPoint.by_kernel
    monkeypatch.setattr(InteriorPoint, "by_kernel", lambda *given: calls.append(given) or solve(*given))
    z, info = rh.project(P, points(P, 24, 10.0), return_info=True)
    assert len(calls) == 1
    assert 1e-13 < float(info.residual.max()) <= 1e-10
    torch.testing.assert_close(z, rh.project(P, points(P, 24, 10.0), solver="active set"), atol=1e-12, rtol=0)


@needs_core
@needs_long_floats
@pytest.mark.parametrize(("decades", "scale"), [(2.5, 1e5), (2.5, 1e7), (3.5, 1e5), (3.5, 1e7)])
def test_points_whose_multipliers_need_more_digits_are_certified(decades, scale):
    P = dispatch(120, decades)
    x = points(P, 24, scale)
    z, info = rh.project(P, x, return_info=True)
    assert float(info.multipliers_eq.abs().max()) > 1e6
    assert not info.fallback.any()
    assert float(info.residual.max()) <= 1e-10
    assert P.contains(z, atol=1e-9).all()
    torch.testing.assert_close(rh.project(P, z + 1e2 / scale * (x - z)), z, atol=1e-9, rtol=0)


@needs_core
@needs_long_floats
def test_long_multipliers_certify_no_other_point():
    P = dispatch(120, decades=2.5)
    [block], x = plan(P), points(P, 8, 1e5)
    problem = block.problem(x, None, torch.empty_like(x))
    solution = block.solver.solve(problem)
    solution.read_from(problem)
    other = (solution.z + rh.project(P, x.flip(0))) / 2
    assert bool((with_long_multipliers(problem, solution.z, solution.multipliers)[1] <= 1e-10).all())
    assert bool((with_long_multipliers(problem, other, solution.multipliers)[1] > 1e-6).all())


@needs_core
def test_a_large_sparse_set_has_no_solver_of_cubic_cost_to_fall_back_on():
    fallbacks = plan(dispatch(700))[0].fallbacks
    assert not any(solver.name in ("active set", "least distance") for solver in fallbacks)


@needs_core
def test_steps_of_no_length_end_an_attempt():
    P = SETS["increasing and concave"]
    _, info = rh.project(P, points(P, 8, 1e6), return_info=True)
    assert int(info.steps.max()) <= 120  # with what is solved again from close by


@needs_core
@pytest.mark.parametrize("name", ["flow", "ramps with a fixed total", "random rows in a box", "increasing and concave"])
def test_gradients_are_those_of_the_active_set(name):
    P, seed = SETS[name], torch.Generator().manual_seed(1)
    found = []
    for solver in ("auto", "active set"):
        x = points(P).requires_grad_()
        weight = torch.randn(x.shape, dtype=torch.float64, generator=seed.manual_seed(1))
        found.append(torch.autograd.grad((rh.project(P, x, solver=solver) * weight).sum(), x)[0])
    torch.testing.assert_close(*found, atol=1e-10, rtol=0)


@needs_core
def test_sides_of_the_sample_have_derivatives():
    P, inside = flow(12, 30)
    x = (inside + points(P, 3)).requires_grad_()
    b_eq = (inside @ torch.as_tensor(P.A_eq.toarray() if sp.issparse(P.A_eq) else P.A_eq).mT).expand(3, -1)
    lower = torch.full((3, 30), -0.1, dtype=torch.float64, requires_grad=True)
    upper = torch.full((3, 30), 1.1, dtype=torch.float64, requires_grad=True)
    assert plan(P)[0].solver.name == "interior point"
    torch.autograd.gradcheck(lambda *v: rh.project(P, v[0], b_eq=b_eq, lower=v[1], upper=v[2]), (x, lower, upper))


@needs_core
def test_sides_that_contradict_each_other_are_named():
    P, _ = flow(30, 90)
    x, upper = points(P), torch.ones(11, 90, dtype=torch.float64)
    upper[4] = 1e-3
    with pytest.raises(EmptySetError, match="sample 4"):
        rh.project(P, x, upper=upper)
    z = rh.project(P, x, upper=upper, infeasible="least")
    torch.testing.assert_close(z[0], rh.project(P, x)[0])


@needs_core
def test_a_large_set_without_points_is_found_out_without_a_dense_matrix(monkeypatch):
    P = storage(3000)
    monkeypatch.setattr(Matrix, "dense_array", property(lambda self: pytest.fail("the rows were made dense")))
    upper = torch.tensor([[4.0], [1e-3]], dtype=torch.float64).expand(2, 6000)
    x = torch.zeros(2, 6000, dtype=torch.float64)
    with pytest.raises(EmptySetError, match="sample 1"):
        rh.project(P, x, upper=upper)
    with pytest.raises(UnverifiedError, match="least violation of 3000 rows of 6000 coordinates"):
        rh.project(P, x, upper=upper, infeasible="least")
    assert rh.project(P, x, upper=upper, infeasible="nan").isnan().all(1).tolist() == [False, True]


@needs_core
def test_float32_and_a_warm_start_give_the_same_points():
    P = SETS["storage"]
    x = points(P)
    layer = rh.Projection(P, warm_start=True)
    first, again = layer(x), layer(x)
    torch.testing.assert_close(first, again, atol=1e-13, rtol=0)
    torch.testing.assert_close(rh.project(P, x.float()), first.float(), atol=1e-5, rtol=0)
    assert int(layer(x, return_info=True)[1].steps.max()) <= 2  # the guess stood the test, up to rounding


@needs_core
def test_opposite_rows_are_the_two_sides_of_one_interval():
    form = plan(ramps(20))[0].form
    found, _ = intervals(form.matrix.rows, form.m)
    high, low = found.high.tolist(), found.low.tolist()
    assert len(high) == 20  # 19 pairs, and the total
    assert sorted(high + low) == sorted([*range(39), 38])
    assert sum(a == b for a, b in zip(high, low, strict=True)) == 1


@needs_core
def test_the_pattern_of_a_factor_holds_its_fill():
    rows = sp.csc_array(sp.random_array((40, 60), density=0.1, rng=np.random.default_rng(0)))
    matrix = sp.csc_array(rows @ rows.T + sp.eye_array(40))
    begin, below = operators.sparse_pattern(*map(torch.from_numpy, (matrix.indptr.astype(np.int64), matrix.indices)))
    filled = np.tril(np.abs(np.linalg.cholesky(matrix.toarray())) > 1e-14, -1)
    assert begin.diff().tolist() == filled.sum(0).tolist()
    assert below.tolist() == np.nonzero(filled.T)[1].tolist()


@needs_core
@pytest.mark.parametrize("name", ["flow", "storage"])
def test_the_system_of_the_active_rows_is_solved_for_every_sample(name):
    form, rng = plan(SETS[name])[0].form, torch.Generator().manual_seed(0)
    assert form.matrix.intervals is not None
    G = torch.tensor(form.matrix.dense_array)
    state = (torch.rand(19, G.shape[1], generator=rng) < 0.2).to(torch.int8)
    H = (G * (state == 0)[:, None].double()) @ G.mT
    q = (H @ torch.randn(19, len(G), 1, generator=rng).double())[:, :, 0]
    w = operators.interval_system(form.matrix.intervals, q, torch.ones(19, len(G), dtype=torch.bool), state)
    torch.testing.assert_close((H @ w[:, :, None])[:, :, 0], q, atol=1e-8, rtol=0)
