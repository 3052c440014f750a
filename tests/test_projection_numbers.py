"""The nearest point where numbers are extreme: far points, huge and tiny rows, nearly parallel rows, denormals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.errors import EmptySetError
from rayhull.projection.plan import plan
from rayhull.projection.problem import EMPTY, TOLERANCE, Solution, is_empty, residual, unproven_empty
from rayhull.projection.sides import Sides
from tests.compiled import needs_core
from tests.fuzz_projection import certify


def random_polytope(seed: int) -> rh.Polyhedron:
    rng = np.random.default_rng(seed)
    m, d = rng.integers(5, 25), rng.integers(2, 10)
    return rh.Polyhedron(rng.standard_normal((m, d)), np.ones(m))


def problem_of(P: rh.Polyhedron, x: torch.Tensor):  # type: ignore[no-untyped-def]
    return plan(P)[0].problem(x)


@needs_core
@pytest.mark.parametrize("scale", [1e8, 1e12, 1e20, 1e38])
def test_far_points_of_ordinary_polytopes_are_answered_inside_without_a_fallback(scale: float) -> None:
    for seed in range(8):
        P = random_polytope(seed)
        x = scale * torch.randn(16, P.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        z, info = rh.project(P, x, return_info=True)
        assert P.contains(z).all()
        assert info.residual.max() <= TOLERANCE
        assert not info.fallback.any()


@needs_core
def test_nearly_parallel_rows_are_told_apart_far_away() -> None:
    P = rh.Polyhedron([[1, 1], [1 + 1e-9, 1 + 1e-9], [1, -1]], [1, 1, 1])
    z, info = rh.project(P, torch.tensor([[2e8, 1e8]], dtype=torch.float64), return_info=True)
    assert P.contains(z).all()
    assert info.residual.max() <= TOLERANCE


def test_a_fallback_is_held_to_the_promised_residual(monkeypatch: pytest.MonkeyPatch) -> None:
    P = random_polytope(0)
    block, x = plan(P)[0], 3 * torch.randn(4, P.dim, dtype=torch.float64)
    right = block.solver

    class Sloppy(type(right)):  # type: ignore[misc]
        def solve(self, problem, guess=None):  # type: ignore[no-untyped-def]
            solution = right.solve(problem, guess)
            solution.read_from(problem)
            solution.z += 1e-9
            solution.residual[:] = 1e-8
            return solution  # its status still says SOLVED

    monkeypatch.setattr(block, "solver", Sloppy(block.form))
    monkeypatch.setattr(right, "solve", right.solve)
    first = block.solver.solve

    def unsolved(problem, guess=None):  # type: ignore[no-untyped-def]
        solution = first(problem, guess)
        solution.status[:], solution.open = 1, len(solution.status)
        return solution

    monkeypatch.setattr(block.solver, "solve", unsolved)
    monkeypatch.setattr(block, "fallbacks", (Sloppy(block.form), *block.fallbacks))
    z, info = rh.project(P, x, return_info=True)
    assert info.residual.max() <= TOLERANCE
    assert certify(P, x, z) is None


@pytest.mark.parametrize("slope", [1 + 1e-8, 1.001])
def test_two_nearly_parallel_equalities_are_a_point(slope: float) -> None:
    P = rh.Polyhedron(A_eq=[[1, 1], [1, slope]], b_eq=[0, 0])
    z, info = rh.project(P, torch.tensor([1.0, 2.0], dtype=torch.float64), return_info=True)
    torch.testing.assert_close(z, torch.zeros(2, dtype=torch.float64), atol=1e-15, rtol=0)
    assert not info.fallback.any()


def test_nearly_parallel_integer_equalities_are_kept() -> None:
    P = rh.Polyhedron(A_eq=[[1, 1, 1], [10**10, 10**10, 10**10 + 1]], b_eq=[0, 1])
    x = torch.tensor([[1.0, 2.0, 5.0]], dtype=torch.float64, requires_grad=True)
    z = rh.project(P, x)
    torch.testing.assert_close(z, torch.tensor([[-1.0, 0.0, 1.0]]).double(), atol=1e-14, rtol=0)
    b_eq = torch.tensor([[0.0, 2.0]], dtype=torch.float64)
    torch.testing.assert_close(rh.project(P, x, b_eq=b_eq)[0, 2].item(), 2.0)
    assert torch.autograd.gradcheck(lambda v: rh.project(P, v), x, eps=1e-6, atol=1e-6)


def test_dependent_equalities_of_a_sample_must_agree() -> None:
    P = rh.Polyhedron(A_eq=[[1, 1, 1], [10**10, 10**10, 10**10 + 1], [2, 2, 2]], b_eq=[0, 1, 0])
    x = torch.zeros(1, 3, dtype=torch.float64)
    rh.project(P, x, b_eq=torch.tensor([[0.0, 2.0, 0.0]]).double())
    with pytest.raises(EmptySetError, match="sample 0"):
        rh.project(P, x, b_eq=torch.tensor([[0.0, 2.0, 5.0]]).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_simplex_sums_to_one_at_any_scale(dtype: torch.dtype) -> None:
    x = torch.randn(50, 6, dtype=dtype, generator=torch.Generator().manual_seed(3))
    for scale in (1e8, 1e16, 1e30):
        z = rh.project(rh.simplex(6), scale * x)
        torch.testing.assert_close(z.sum(-1), torch.ones(50, dtype=dtype))
        assert torch.equal(z.argmax(-1), x.argmax(-1))


@pytest.mark.parametrize("scale", [1e160, 1e300, 1e-165, 1e-300])
def test_rows_of_any_scale_state_the_same_set(scale: float) -> None:
    A = np.array([[1.0, 1.0], [1.0, -1.0], [-2.0, 1.0]])
    x = torch.tensor([[3.0, 0.0], [1.0, 7.0], [-4.0, 1.0]], dtype=torch.float64)
    z = rh.project(rh.Polyhedron(scale * A, scale * np.ones(3)), x)
    torch.testing.assert_close(z, rh.project(rh.Polyhedron(A, np.ones(3)), x), atol=1e-14, rtol=0)
    E = rh.Polyhedron(A_eq=[[scale, scale]], b_eq=[scale])
    torch.testing.assert_close(rh.project(E, x).sum(-1), torch.ones(3).double())


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("kind", ["chain", "decreasing", "grid"])
def test_an_order_in_a_box_needs_no_fallback_and_is_the_order_clamped(kind: str, scale: float) -> None:
    order = {"chain": rh.monotone(100), "decreasing": rh.monotone((3, 6), increasing=False)}
    plain = order.get(kind, rh.ordered(None, (5, 5)))
    P = plain & rh.box(0, 1)
    x = scale * torch.randn(64, *P.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    z, info = rh.project(P, x, return_info=True)
    assert not info.fallback.any()
    assert info.residual.max() <= TOLERANCE
    torch.testing.assert_close(z, rh.project(plain, x).clamp(0, 1), atol=1e-12, rtol=0)


def test_bounds_that_differ_along_an_order_are_not_clamped_after() -> None:
    P = rh.Polyhedron([[1, -1]], [0], lower=[-9, 1])
    z = rh.project(P, torch.tensor([1.0, -1.0], dtype=torch.float64))
    torch.testing.assert_close(z, torch.ones(2).double())  # the order alone, then clamped, would give (0, 1)


@pytest.fixture
def flushed() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor keeps denormals")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.usefixtures("flushed")
def test_denormals_under_flush_to_zero_are_points_like_others() -> None:
    for P in (rh.simplex(3), rh.monotone(4), rh.convex(5), rh.monotone(4) & rh.box(-1, 1), rh.box(-1, 1, 3)):
        signs = torch.randn(9, P.dim, generator=torch.Generator().manual_seed(0)).double().sign()
        assert P.contains(rh.project(P, 1e-310 * signs)).all()


def test_bounds_alone_go_through_every_solver() -> None:
    x = 2 * torch.randn(6, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for solver in ("auto", "active set", "dual"):
        assert torch.equal(rh.project(rh.box(-1, 1, (2, 3)), x, solver=solver), x.clamp(-1, 1))


def test_a_loose_row_with_a_large_side_hides_no_contradiction() -> None:
    P = rh.Polyhedron([[1, 1], [1, 0]], [1, 1e9], lower=0)
    x = torch.tensor([[3.0, 0.0], [1.0, 7.0]], dtype=torch.float64)
    assert P.contains(rh.project(P, x)).all()
    with pytest.raises(EmptySetError, match="sample 1"):
        rh.project(P, x, b=torch.tensor([[1, 1e9], [-1, 1e9]]).double())


def test_a_thin_slab_keeps_its_width() -> None:
    P = rh.Polyhedron([[1, -1], [-1, 1]], [1e-8, 0], lower=0, upper=1)
    z = rh.project(P, torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64))
    torch.testing.assert_close((z[:, 0] - z[:, 1]), torch.tensor([1e-8, 0.0]).double(), atol=1e-15, rtol=0)


# -- the certificate bites -----------------------------------------------------------------------------------------


def test_the_residual_sees_each_of_the_four_conditions_broken() -> None:
    P = rh.Polyhedron([[1, 0], [0, 1]], [1, 5])
    P = P & rh.Polyhedron([[1, 1]], [9])  # one block
    x = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    problem = problem_of(P, x)
    z, right = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[2.0, 0.0, 0.0]]).double()
    assert residual(problem, z, right) <= 1e-15
    broken = {
        "a row does not hold": (z + torch.tensor([[0.5, 0.0]]), right),
        "a row with a multiplier is not met": (z - torch.tensor([[0.5, 0.0]]), right),
        "a multiplier is missing": (z, 0 * right),
        "not the clipped shift": (z + torch.tensor([[0.0, 0.5]]), right),
    }
    for name, (point, multipliers) in broken.items():
        assert residual(problem, point, multipliers).item() > 0.01, name


def test_a_negative_multiplier_is_no_certificate() -> None:
    P = rh.Polyhedron([[1, 0], [-1, 0], [1, 1]], [1, -1, 9])  # x[0] = 1 by two rows
    x = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    z = torch.tensor([[1.0, 0.0]]).double()
    problem = problem_of(P, x)
    assert residual(problem, z, torch.tensor([[2.0, 0.0, 0.0]]).double()) <= 1e-15
    assert residual(problem, z, torch.tensor([[0.0, -2.0, 0.0]]).double()).item() > 0.1


def test_a_claim_of_emptiness_is_proved_or_dropped() -> None:
    P = rh.Polyhedron([[1, 1], [-1, -1]], [1, 1])
    x = torch.zeros(2, 2, dtype=torch.float64)
    b = torch.tensor([[1.0, 1.0], [-1.0, -1.0]]).double()
    problem = plan(P)[0].problem(x, Sides(b=b))
    assert not is_empty(problem, 0)
    assert is_empty(problem, 1)
    count = torch.full((2,), EMPTY)
    claimed = Solution(x.clone(), torch.zeros(2, 2).double(), torch.zeros(2).double(), count, count.clone())
    assert unproven_empty(problem, claimed).tolist() == [0]
    assert unproven_empty(problem_of(P, x), claimed).tolist() == [0, 1]  # a set itself is never empty
    close = plan(P)[0].problem(x, Sides(b=torch.tensor([[1.0, -1.0], [1.0, -1.00000002]], dtype=torch.float64)))
    assert [is_empty(close, n) for n in range(2)] == [False, True]  # by less than a linear program sees at first
