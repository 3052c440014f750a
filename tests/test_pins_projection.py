"""The certificate of a nearest point sees each way to be wrong, and closed forms answer without help."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rayhull as rh
from rayhull.projection import plan as plans
from rayhull.projection import problem as certificate
from rayhull.projection.plan import plan
from rayhull.projection.problem import EMPTY, SOLVED, TOLERANCE, UNSOLVED, Problem, Solution, Solver
from rayhull.projection.sides import Sides
from rayhull.projection.standard_form import Matrix
from tests.compiled import needs_core

SQUARE = rh.Polyhedron([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1.0, 1.0, 1.5], lower=-1)


def problem_of(P: rh.Polyhedron, points: list[list[float]], **sides: torch.Tensor) -> Problem:
    (block,) = plan(P)
    return block.problem(torch.tensor(points, dtype=torch.float64), Sides(**sides) if sides else None)


def residual(z: list[float], multipliers: list[float], point: list[float]) -> float:
    problem = problem_of(SQUARE, [point])
    given = (torch.tensor([v], dtype=torch.float64) for v in (z, multipliers))
    return float(certificate.residual(problem, *given)[0])


def test_the_certificate_accepts_the_nearest_point():
    assert residual([1.0, 0.0], [1.0, 0.0, 0.0], [2.0, 0.0]) <= TOLERANCE
    assert residual([0.75, 0.75], [0.0, 0.0, 0.25 * 2**0.5], [1.0, 1.0]) <= TOLERANCE


@pytest.mark.parametrize(
    ("z", "multipliers", "point", "fault"),
    [
        ([2.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0], "a row is broken"),
        ([0.5, 0.0], [1.5, 0.0, 0.0], [2.0, 0.0], "a row with a multiplier is not met"),
        ([1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0], "a multiplier is negative"),
        ([0.5, 0.5], [0.0, 0.0, 0.0], [0.2, 0.2], "feasible, and not the nearest"),
        ([-1.0, 0.0], [0.0, 0.0, 0.0], [-0.5, 0.0], "at a bound that does not hold it"),
        ([float("nan"), 0.0], [0.0, 0.0, 0.0], [2.0, 0.0], "not a number"),
        ([1.0, 0.0], [float("nan"), 0.0, 0.0], [2.0, 0.0], "a multiplier that is not a number"),
    ],
)
def test_the_certificate_sees_each_way_to_be_wrong(z, multipliers, point, fault):
    assert residual(z, multipliers, point) > 1e-3, fault


@pytest.mark.parametrize(("off", "accepted"), [(1e-11, True), (1e-9, False)])
def test_an_answer_is_one_up_to_the_stated_residual(off, accepted):
    problem = problem_of(SQUARE, [[2.0, 0.0]])
    z = torch.tensor([[1.0 + off, 0.0]], dtype=torch.float64)
    multipliers = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    assert certificate.certified(problem, z, multipliers).solved == accepted


def test_a_claim_that_a_set_is_empty_is_not_believed():
    upper = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    problem = problem_of(SQUARE, [[2.0, 0.0]], upper=upper)
    claim = torch.full((1,), EMPTY)
    solution = Solution(torch.zeros(1, 2), torch.zeros(1, 3), torch.zeros(1), torch.zeros(1), claim)
    assert certificate.unproven_empty(problem, solution).tolist() == [0]
    crossed = problem_of(SQUARE, [[2.0, 0.0]], upper=-2 * upper)
    assert certificate.unproven_empty(crossed, solution).tolist() == []


CLOSED = {
    "bounds": rh.box(-1, 1, 6),
    "simplex": rh.simplex(6),
    "tiles": rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1),
    "chain": rh.monotone(8),
    "chain with steps": rh.monotone(8, step=0.5),
    "curve": rh.convex(8),
    "falling chain in a box": rh.monotone(8, increasing=False) & rh.box(-1, 1),
    "equalities": rh.Polyhedron(A_eq=[[1, 2, 3, 0], [0, 1, -1, 2]], b_eq=[1, 2]),
    "grid order in a box": rh.ordered(None, (4, 4)) & rh.box(0, 1),
}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_answer_without_a_second_solver(name, scale):
    P = CLOSED[name]
    points = np.random.default_rng(0).standard_normal((16, *P.shape)) * scale
    z, info = rh.project(P, points, return_info=True)
    assert not info.fallback.any()
    assert float(info.residual.max()) <= TOLERANCE
    assert P.contains(z, atol=1e-12 * max(1.0, scale)).all()


def test_next_to_the_apex_the_apex_is_certified():
    cone = problem_of(rh.Polyhedron([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], 0.0), [[1e6, 1e6]])
    z = torch.tensor([[1e-9, 1e-9]], dtype=torch.float64)  # what rounding at 1e6 leaves; the nearest point is 0
    multipliers = torch.tensor([[1e6, 1e6, 0.0]], dtype=torch.float64)
    solution = certificate.certified(cone, z, multipliers)
    assert solution.solved
    assert solution.z.tolist() == [[0.0, 0.0]]


def test_an_equality_without_a_multiplier_still_holds_the_gradient():
    P = rh.Polyhedron([[1.0, 0.0, 0.0]], 5.0, A_eq=[[1.0, 1.0, 1.0]], b_eq=[0.0])
    x = torch.tensor([[1.0, -2.0, 1.0]], dtype=torch.float64, requires_grad=True)  # in the plane: multiplier 0
    (gradient,) = torch.autograd.grad(rh.project(P, x)[0, 0], x)
    assert torch.allclose(gradient, torch.tensor([[2.0, -1.0, -1.0]], dtype=torch.float64) / 3)


def test_an_equality_out_of_reach_is_empty_from_either_side():
    P = rh.sum_to(1, 3) & rh.box(0, 1)
    x = torch.zeros(2, 3, dtype=torch.float64)
    with pytest.raises(rh.EmptySetError, match="samples 0, 1"):
        rh.project(P, x, b_eq=torch.tensor([[3.5], [-0.5]], dtype=torch.float64))


def test_far_points_meet_their_rows_to_rounding():
    E = rh.Polyhedron(A_eq=[[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], b_eq=[1.0, 0.0])
    z = rh.project(E, np.array([[1e9, -3e8, 7e8]]))
    size = np.abs(z).max()
    assert abs(z.sum() - 1) <= 1e-14 * size * 3
    half = rh.Polyhedron([[0.6, 0.8]], 1.0, lower=-2, upper=2)
    far = np.array([[1e9, 1.3e9], [1e12, 0.7e12]])
    near = rh.project(half, far)
    assert np.abs(near @ [0.6, 0.8] - 1).max() <= 1e-14


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e3, 1e200])
def test_a_row_of_any_length_is_met_at_its_right_hand_side(scale):
    P = rh.Polyhedron([[3.0 * scale, 4.0 * scale]], 5.0 * scale) & rh.Polyhedron([[0.0, 2.0]], 8.0)
    assert np.allclose(rh.project(P, np.array([[6.0, 8.0], [0.0, 5.0]])), [[0.6, 0.8], [-1.8, 2.6]], atol=1e-12)


def test_sparse_rows_are_the_same_map_as_dense_ones():
    dense = np.zeros((30, 40))
    dense[np.arange(30), np.arange(30)], dense[np.arange(30), np.arange(30) + 7] = 0.6, -0.8
    rows = Matrix(sp.csr_array(dense))
    rows.sparse = True
    v, w = torch.randn(5, 40, dtype=torch.float64), torch.randn(5, 30, dtype=torch.float64)
    assert torch.allclose(rows.times(v), v @ torch.as_tensor(dense).T)
    assert torch.allclose(rows.transposed_times(w), w @ torch.as_tensor(dense))


def test_far_points_with_weights_meet_their_row_without_a_second_solver():
    """Weights are not for the compiled kernel: the shift in torch has its own rounds of refinement."""
    P = rh.Polyhedron([[0.6, 0.8, 0.3]], 1.0, lower=-2, upper=2)
    far = np.array([[1e9, 1.3e9, 2e8], [1e12, 0.7e12, -3e11], [1e14, 1e14, 1e14]])
    z, info = rh.project(P, far, weights=[1.0, 2.0, 3.0], return_info=True)
    assert not info.fallback.any()
    assert np.abs(z @ [0.6, 0.8, 0.3] - 1).max() <= 1e-14


def test_far_points_meet_equalities_without_a_second_solver():
    P = rh.Polyhedron(A_eq=[[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], b_eq=[1.0, 0.0])
    z, info = rh.project(P, 1e9 * np.array([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]]), return_info=True)
    assert not info.fallback.any()
    assert np.abs(z @ np.asarray(P.A_eq, float).T - [1.0, 0.0]).max() <= 1e-14


@needs_core
@pytest.mark.parametrize("total", [3.5, -0.5])
def test_an_equality_out_of_reach_is_seen_by_the_closed_form_itself(total):
    P = rh.sum_to(1, 3) & rh.box(0, 1)
    side = torch.tensor([[total]], dtype=torch.float64)
    x = torch.zeros(1, 3, dtype=torch.float64)
    z, info = rh.project(P, x, b_eq=side, infeasible="least", return_info=True)
    assert info.infeasible.all()
    assert not info.fallback.any()
    assert z.sum() == pytest.approx(min(max(total, 0), 3))


class Unable(Solver):
    """Finds nothing, and says so."""

    name = "unable"

    @classmethod
    def fits(cls, form):
        return True

    def solve(self, problem, guess=None):
        n, rows = len(problem.y), problem.matrix.count
        status = torch.full((n,), self.status)
        residual = torch.full((n,), 1e-6, dtype=torch.float64)
        return Solution(problem.y.clone(), problem.y.new_zeros(n, rows), residual, torch.ones_like(status), status)

    status = UNSOLVED


class Careless(Unable):
    """Calls its answer solved, at a residual of 1e-6."""

    name = "careless"
    status = SOLVED


def test_a_second_solver_is_believed_only_up_to_the_stated_residual(monkeypatch):
    monkeypatch.setitem(plans.SOLVERS, "auto", (Unable,))
    monkeypatch.setattr(plans, "GENERIC", (Careless,))
    P = rh.Polyhedron([[1.0, 0.0], [1.0, 1.0]], [1.0, 1.5])
    z, info = rh.project(P, np.array([[2.0, 0.0]]), return_info=True)
    assert info.fallback.all()
    assert np.allclose(z, [[1.0, 0.0]], atol=1e-9)
