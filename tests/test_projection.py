"""The nearest point: right on every set, certified, and differentiable."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rayhull as rh
from experiments.solvers import OneByOne
from rayhull.core import operators
from rayhull.errors import UnverifiedError
from rayhull.projection.plan import plan
from rayhull.projection.solvers import any_rows, one_by_one
from rayhull.projection.solvers.any_rows import ActiveSet
from rayhull.projection.standard_form import StandardForm
from tests.compiled import COMPILED, needs_core
from tests.fuzz_projection import certify

SEED = np.random.default_rng(0)
SETS = {
    "box": rh.box(-1, 1, (2, 3)),
    "tiles": rh.checkerboard((8, 8), (2, 2)) & rh.box(-1, 1),
    "tiles without bounds": rh.checkerboard((8, 8), (2, 2)),
    "rows at right angles": rh.Polyhedron([[1, 1, 1, 1], [1, 1, -1, -1]], [1, 0]),
    "simplex": rh.simplex((3, 5)),
    "sum": rh.sum_to(2, (2, 4)) & rh.box(-1, 2),
    "increasing": rh.monotone(12),
    "decreasing in a box": rh.monotone((3, 6), increasing=False) & rh.box(-1, 1),
    "increasing by steps": rh.monotone(8, step=0.25) & rh.box(-2, 2),
    "convex": rh.convex(12),
    "concave in a box": rh.concave(9) & rh.box(-1, 1),
    "partial order": rh.ordered([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 6),
    "partial order in a box": rh.ordered([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], 6) & rh.box(-1, 1),
    "lipschitz": rh.lipschitz(7, 0.3),
    "unimodal": rh.unimodal(9, 4),
    "equalities": rh.Polyhedron(A_eq=SEED.standard_normal((3, 7)), b_eq=np.ones(3)),
    "dense": rh.Polyhedron(SEED.standard_normal((12, 8)), np.ones(12), lower=-1, upper=1),
    "dense with equalities": rh.Polyhedron(
        SEED.standard_normal((5, 9)), np.ones(5), SEED.standard_normal((3, 9)), np.zeros(3)
    ),
    "fixed coordinates": rh.Polyhedron([[1, 1, 1, 1]], [1], lower=[0, 1, -1, -2], upper=[0, 1, 1, 2]),
}
SMALL = rh.checkerboard((4, 4), (2, 2)) & rh.box(-1, 1)
every_set = pytest.mark.parametrize("P", SETS.values(), ids=SETS)


def points(P: rh.Polyhedron, n: int = 6, scale: float = 2.0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return scale * torch.randn(n, *P.shape, dtype=dtype, generator=torch.Generator().manual_seed(1))


@every_set
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_an_answer_is_inside_and_certified_at_every_scale(P: rh.Polyhedron, scale: float) -> None:
    if scale >= 1e6 and not COMPILED:
        pytest.skip("far points are exact to the last digits by the compiled kernels only; a fallback is, to 1e-10")
    x = points(P, scale=scale)
    z, info = rh.project(P, x, return_info=True)
    assert P.contains(z).all()
    assert certify(P, x, z) is None
    assert info.residual.max() <= 1e-10
    assert not info.infeasible.any()
    assert not (COMPILED and info.fallback.any())


@every_set
def test_every_solver_gives_the_same_point(P: rh.Polyhedron) -> None:
    x = points(P)
    z = rh.project(P, x)
    for solver, error in (("active set", 1e-12), ("dual", 1e-9)):
        torch.testing.assert_close(rh.project(P, x, solver=solver), z, atol=error, rtol=error)
    for solver, error in (("daqp", 1e-9), ("piqp", 1e-6), ("clarabel", 1e-6)):
        torch.testing.assert_close(OneByOne(P, solver)(x), z, atol=error, rtol=error)


@every_set
def test_points_of_the_torch_path_are_inside_to_the_last_digits(P: rh.Polyhedron) -> None:
    assert P.contains(rh.project(P, points(P), solver="dual")).all()


@every_set
def test_weights_change_the_metric_and_nothing_else(P: rh.Polyhedron) -> None:
    w = 0.2 + 3 * torch.rand(P.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    x = points(P)
    z = rh.project(P, x, weights=w)
    assert P.contains(z).all()
    assert certify(P, x, z, w.numpy()) is None
    torch.testing.assert_close(OneByOne(P, "daqp", w)(x), z, atol=1e-9, rtol=0)
    torch.testing.assert_close(rh.project(P, x, weights=3.0), rh.project(P, x), atol=1e-12, rtol=0)


@every_set
def test_the_gradient_is_that_of_finite_differences_once_and_twice(P: rh.Polyhedron) -> None:
    small = {64: SMALL}.get(P.dim, P)  # tiles of 4 x 4 tell as much as those of 8 x 8
    x = points(small, 2).requires_grad_()
    w = torch.linspace(0.5, 2, small.dim, dtype=torch.float64).reshape(small.shape)
    assert torch.autograd.gradcheck(lambda v: rh.project(small, v, weights=w), x, eps=1e-7, atol=1e-5)
    assert torch.autograd.gradgradcheck(lambda v: rh.project(small, v) * v, x, eps=1e-7, atol=1e-5)


@every_set
def test_a_point_inside_stays_and_passes_its_gradient_on(P: rh.Polyhedron) -> None:
    z = rh.project(P, points(P)).detach().requires_grad_()
    again = rh.project(P, z)
    torch.testing.assert_close(again, z, atol=1e-13, rtol=1e-13)
    box = rh.box(-1, 1, P.shape)
    inside = (0.5 * torch.rand(4, *P.shape, dtype=torch.float64)).requires_grad_()
    grad = torch.randn(4, *P.shape, dtype=torch.float64)
    assert torch.equal(torch.autograd.grad(rh.project(box, inside), inside, grad)[0], grad)


def test_sparse_rows_give_what_dense_ones_give() -> None:
    P = rh.convex(80)
    assert plan(P)[0].form.matrix.sparse
    x = points(P, 4).requires_grad_()
    for solver in ("auto", "dual"):
        z = rh.project(P, x, solver=solver)
        torch.testing.assert_close(z, OneByOne(P, "daqp")(x), atol=1e-8, rtol=0)
        assert torch.autograd.gradcheck(
            lambda v, s=solver: rh.project(P, v, solver=s), x[:1], fast_mode=True, atol=1e-4
        )


# -- known answers -------------------------------------------------------------------------------------------------


def test_a_chain_is_isotonic_regression() -> None:
    from sklearn.isotonic import isotonic_regression

    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((200, 50)), np.exp(rng.standard_normal(50))
    expected = np.stack([isotonic_regression(row, sample_weight=w, y_min=-0.5, y_max=0.7) for row in x])
    np.testing.assert_allclose(rh.project(rh.monotone(50) & rh.box(-0.5, 0.7), x, weights=w), expected, atol=1e-12)


def test_a_simplex_is_a_sorted_threshold() -> None:
    x = np.random.default_rng(4).standard_normal((100, 40))
    u = -np.sort(-x, axis=1)
    mean = (np.cumsum(u, axis=1) - 1) / np.arange(1, 41)
    count = (u > mean).sum(1)
    expected = np.maximum(x - mean[np.arange(100), count - 1, None], 0)
    np.testing.assert_allclose(rh.project(rh.simplex(40), x), expected, atol=1e-14)


def test_a_set_that_is_a_point_gives_the_point() -> None:
    P = rh.Polyhedron(np.concatenate([np.eye(3), -np.eye(3)]).astype(int), [1, 2, 3, -1, -2, -3])
    x = points(P).requires_grad_()
    z = rh.project(P, x)
    torch.testing.assert_close(z, torch.tensor([1.0, 2, 3]).double().expand(6, 3), atol=1e-15, rtol=0)
    assert torch.autograd.grad(z.sum(), x)[0].abs().max() < 1e-12


def test_duplicate_rows_change_nothing() -> None:
    A = np.random.default_rng(5).standard_normal((6, 5))
    P, doubled = rh.Polyhedron(A, np.ones(6)), rh.Polyhedron(np.concatenate([A, A, 3 * A]), np.r_[1:1:12j, [3] * 6])
    x = points(P, 20).requires_grad_()
    z, again = rh.project(P, x), rh.project(doubled, x)
    torch.testing.assert_close(z, again, atol=1e-13, rtol=0)
    grads = [torch.autograd.grad((v * x.detach()).sum(), x)[0] for v in (z, again)]
    torch.testing.assert_close(*grads, atol=1e-10, rtol=0)


@needs_core
@pytest.mark.parametrize("bounded", [0, 1, 4])
def test_an_order_with_a_bound_on_one_coordinate_alone_is_in_no_box(bounded: int) -> None:
    """Clipping after the order alone would be wrong there; it was certified, but by a second solver."""
    upper = np.full(6, np.inf)
    upper[bounded] = 0.1
    P = SETS["partial order"] & rh.box(-np.inf, upper)
    x = points(P, 50)
    z, info = rh.project(P, x, return_info=True)
    assert certify(P, x, z) is None
    assert not info.fallback.any()


@needs_core
def test_structure_finds_the_closed_forms() -> None:
    solvers = {name: {block.solver.name for block in plan(P)} for name, P in SETS.items()}
    assert solvers["box"] == {"clamp"}
    assert solvers["tiles"] == solvers["tiles without bounds"] == solvers["simplex"] == {"clipped shift"}
    assert solvers["increasing by steps"] == solvers["decreasing in a box"] == {"chain"}
    assert solvers["partial order in a box"] == {"forest", "clamp"}
    assert {block.solver.name for block in plan(rh.ordered(None, (3, 3)))} == {"forest"}
    assert solvers["equalities"] == {"affine"}
    assert solvers["convex"] == {"banded"}
    assert solvers["rows at right angles"] == {"active set"}


def test_at_a_kink_what_does_not_push_counts_as_absent() -> None:
    x = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
    rh.project(rh.box(-1, 1, 2), x).sum().backward()
    assert torch.equal(x.grad, torch.ones(2, dtype=torch.float64))
    y = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    rh.project(rh.Polyhedron([[1, 1]], [2]), y).sum().backward()
    assert torch.equal(y.grad, torch.ones(2, dtype=torch.float64))


def test_a_forward_derivative_is_refused_and_not_dropped() -> None:
    x = torch.randn(2, 3)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        rh.project(rh.simplex(3), torch.autograd.forward_ad.make_dual(x, x))


# -- certificates and fallbacks ------------------------------------------------------------------------------------


@needs_core
def test_an_unconverged_sample_is_solved_again_or_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    P, module = SETS["dense"], rh.Projection(SETS["dense"])
    x = points(P)
    z = module(x)
    spoil = ActiveSet.solve

    def unconverged(self, problem, *args):  # type: ignore[no-untyped-def]
        solution = spoil(self, problem, *args)
        solution.read_from(problem)
        solution.z[1] += 1.0
        solution.open = 1
        solution.status[1], solution.residual[1] = 1, 1.0
        return solution

    monkeypatch.setattr(ActiveSet, "solve", unconverged)
    again, info = module(x, return_info=True)
    torch.testing.assert_close(again, z, atol=1e-9, rtol=0)
    assert info.fallback.tolist() == [False, True, False, False, False, False]
    monkeypatch.setattr(plan(P)[0], "fallbacks", ())
    with pytest.raises(UnverifiedError, match="sample 1"):
        module(x)


def test_a_spoilt_residual_of_a_closed_form_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    P, module = SETS["simplex"], rh.Projection(SETS["simplex"])
    x = points(P)
    z, shift = module(x), operators.clipped_shift

    def unconverged(at, *args):  # type: ignore[no-untyped-def]
        *found, status, _ = shift(at, *args)
        count = len(at.places)
        at.out[1], status[count : 2 * count] = 7.0, 1  # all blocks of one sample
        return *found, status, count

    monkeypatch.setattr(operators, "clipped_shift", unconverged)
    torch.testing.assert_close(module(x), z, atol=1e-9, rtol=0)


def test_without_the_core_the_answers_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {name: rh.project(P, points(P)) for name, P in SETS.items()}
    monkeypatch.setattr(operators, "available", lambda: False)
    for name, P in SETS.items():
        x = points(P).requires_grad_()
        z = rh.project(P, x)
        torch.testing.assert_close(z, expected[name], atol=1e-9, rtol=0)
        assert torch.autograd.grad(z.sum(), x)[0].isfinite().all()


@every_set
def test_the_last_resort_is_exact(P: rh.Polyhedron) -> None:
    form = StandardForm.of(P)
    x = points(P, 2).reshape(2, -1).numpy()
    for y, z in zip(x, rh.project(P, x.reshape(2, *P.shape)).reshape(2, -1), strict=True):
        answer = one_by_one.nearest(form.matrix.dense_array, form.m, form.c, form.lower, form.upper, y)
        assert answer is not None
        np.testing.assert_allclose(answer[0], z, atol=1e-10)


@needs_core
def test_a_guess_for_all_samples_at_once_leads_to_the_same_points(monkeypatch: pytest.MonkeyPatch) -> None:
    P = SETS["dense"]
    x = points(P, 40)
    alone, first = rh.project(P, x, return_info=True)
    guessed: list[int] = []
    guess = any_rows.first_guess
    monkeypatch.setattr(any_rows, "TOGETHER", 1)
    monkeypatch.setattr(any_rows, "first_guess", lambda problem, steps: guessed.append(steps) or guess(problem, steps))
    together, second = rh.project(P, x, return_info=True)
    assert guessed == [20]
    torch.testing.assert_close(together, alone, atol=1e-12, rtol=0)
    assert max(first.residual.max(), second.residual.max()) < 1e-12


def test_a_short_fuzz_run_finds_no_wrong_answer() -> None:
    from tests.fuzz_projection import run

    assert run(seconds=6.0, seed=0)["samples"] > 20


@pytest.mark.parametrize("case", [1021152503653132095, 1997298734044206741, 3639227289019146049])
def test_cases_that_the_fuzz_once_found_stay_right(case):
    """A point off by the size of the set at 1e12, a false "empty" of a fallback, and an apex judged too strictly."""
    from tests.fuzz_projection import one_case

    assert one_case(case)["cases"] == 1


@pytest.mark.parametrize("scale", [1e6, 1e8, 1e10])
@pytest.mark.parametrize("make", [lambda: rh.birkhoff(3), lambda: rh.marginals([1, 2], [1, 1, 1])])
def test_points_far_from_degenerate_vertices_have_certified_nearest_points(make, scale):
    """Many multipliers belong to such a vertex; those of a point close by, scaled up, keep the signs of the bounds."""
    P = make()
    x = scale * np.random.default_rng(0).standard_normal((200, *P.shape))
    z = rh.project(P, x)
    assert P.contains(z).all()
    assert np.isclose(z, z.round(), atol=1e-9).mean() > 0.95  # most are vertices
