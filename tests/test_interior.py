"""The base point: strictly inside, in the scale of the data, on every set of the zoo."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import splu

import rayhull as rh
from rayhull.sets import barrier, interior, systems
from rayhull.sets.interior import base_point, centre, scale_from
from tests.zoo import ZOO

LARGE = {"convex curves": lambda: rh.convex(50), "two shapes": lambda: rh.monotone(50) & rh.concave(50)}


@pytest.mark.parametrize("name", [*ZOO, *LARGE])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_a_base_point_has_slack_in_every_row_that_has_any(name: str, scale: float) -> None:
    P = {**ZOO, **LARGE}[name]()
    x = base_point(P, scale)
    loose = ~centre(P).implicit
    assert bool(P.contains(x.reshape(P.shape)))
    assert bool(((P.rows.rhs - P.rows.matrix @ x)[loose] > 0).all())


@pytest.mark.parametrize("make", [*LARGE.values(), lambda: rh.nonnegative(6), lambda: rh.checkerboard((8, 8), (2, 2))])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2])
def test_cones_get_a_base_point_of_the_scale_asked_for(make: object, scale: float) -> None:
    x = base_point(make(), scale)  # type: ignore[operator]
    assert np.sqrt((x**2).mean()) == pytest.approx(scale, rel=1e-5)


def test_a_set_far_away_gets_a_point_near_its_near_side() -> None:
    x = base_point(rh.Polyhedron(lower=[1000.0, -5.0]), 1.0)
    assert 1000.1 < x[0] < 1005
    assert abs(x[1]) < 5


def test_bounded_sets_keep_their_centre() -> None:
    P = rh.Polyhedron([[1, 1]], 1, lower=0)
    assert np.array_equal(base_point(P, 1e3), centre(P).point)


def test_the_scale_comes_from_the_targets() -> None:
    assert scale_from(np.full((4, 3), -2.0)) == 2.0
    with pytest.raises(ValueError, match="finite"):
        scale_from(np.array([np.nan]))
    with pytest.raises(ValueError, match="positive"):
        base_point(rh.convex(5), 0.0)


def dense_and_bounds(*, equalities: int, limit: float) -> rh.Polyhedron:
    rng = np.random.default_rng(0)
    rows, equal = rng.standard_normal((100, 250)) / 15, rng.standard_normal((equalities, 250))
    lower, upper = -rng.uniform(0.5, 1, 250), rng.uniform(0.5, 1, 250)
    sides = {"A_eq": equal, "b_eq": np.zeros(equalities)} if equalities else {}
    return rh.Polyhedron(rows, np.full(100, limit), lower=lower, upper=upper, **sides)


@pytest.mark.parametrize("equalities", [0, 20])
@pytest.mark.parametrize("limit", [1.0, -0.1])  # the middle between the bounds is inside, or is not
def test_dense_rows_and_sparse_rows_have_the_same_centre(
    equalities: int, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = centre(dense_and_bounds(equalities=equalities, limit=limit)).point
    P = dense_and_bounds(equalities=equalities, limit=limit)
    assert barrier.is_filled(P.rows.matrix)
    monkeypatch.setattr(barrier, "is_filled", lambda A: False)
    monkeypatch.setattr(rh.Polyhedron, "at_hand", None)
    assert np.abs(found - centre(P).point).max() < 1e-6
    assert bool(P.contains(found))


def test_a_large_set_with_slack_between_its_bounds_needs_no_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interior, "deepest", lambda *given: pytest.fail("a linear program was solved"))
    P = dense_and_bounds(equalities=20, limit=1.0)
    point = centre(P).point
    assert not centre(P).implicit.any()
    assert (P.rows.rhs - P.rows.matrix @ point > 0.01).all()


def few_dense_rows(limit: float) -> rh.Polyhedron:
    rows = np.random.default_rng(0).standard_normal((100, 250)) / 15
    return rh.Polyhedron(rows, np.full(100, limit))


@pytest.mark.parametrize("limit", [1.0, -0.1])  # 0 is inside, or is not
def test_few_dense_rows_have_the_base_point_that_sparse_steps_find(
    limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = base_point(few_dense_rows(limit), 0.5)
    monkeypatch.setattr(barrier, "is_filled", lambda A: False)
    monkeypatch.setattr(rh.Polyhedron, "at_hand", None)
    assert np.abs(found - base_point(few_dense_rows(limit), 0.5)).max() < 1e-6
    assert bool(few_dense_rows(limit).contains(found))


def test_a_large_unbounded_set_around_zero_needs_no_linear_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interior, "deepest", lambda *given: pytest.fail("a linear program was solved"))
    P = few_dense_rows(1.0)
    assert (P.rows.rhs - P.rows.matrix @ base_point(P) > 0.01).all()


WITHIN_ONE = {
    "tiles": lambda: rh.checkerboard((8, 8), tiles=(2, 2)) & rh.box(-1, 1),
    "a chain": lambda: rh.monotone(6) & rh.box(-1, 1),
    "an equality": lambda: rh.Polyhedron(A_eq=[[1, 1, 1]], b_eq=[0.5], lower=-1, upper=1),
}


@pytest.mark.parametrize("name", WITHIN_ONE)
def test_a_set_within_one_has_the_centre_that_a_linear_program_leads_to(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    P = WITHIN_ONE[name]()
    with monkeypatch.context() as patch:
        patch.setattr(rh.Polyhedron, "at_hand", None)
        expected = centre(WITHIN_ONE[name]())
    if name != "a chain":  # no rows that all lie on one side of the middle
        monkeypatch.setattr(interior, "deepest", lambda *given: pytest.fail("a linear program was solved"))
    found = centre(P)
    assert np.abs(found.point - expected.point).max() < 1e-12
    assert (found.implicit == expected.implicit).all()


def test_a_single_point_beside_a_bound_is_found() -> None:
    A, b, lower = [[2, 1], [-1, -3], [1, -1]], [1.1, 0.2, 1.0], np.array([0.7, -0.3])
    P = rh.Polyhedron(A, b, lower=lower, upper=lower + [2e-11, 1])  # depth beside it is below a linear program's digits
    assert np.abs(P.centre.point - lower).max() < 1e-11
    assert P.centre.implicit[:3].all()


def test_the_first_layer_of_the_paper_needs_no_linear_program() -> None:
    code = """
import sys, torch, rayhull as rh
P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)
x = rh.Constrained(16, P)(torch.randn(4, 16))
assert bool(P.contains(x).all())
print("scipy.optimize" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_half_lines_together_have_the_base_point_of_each(scale: float) -> None:
    low, high = np.array([0.0, 2.0, -np.inf, -np.inf, -3.0, -1.0]), np.array([np.inf, np.inf, -1.5, 4.0, 90.0, 1.0])
    together = base_point(rh.Polyhedron(lower=low, upper=high), scale)
    rows = [rh.Polyhedron([[1], [-1]], [b, -a]) for a, b in zip(low[4:], high[4:], strict=True)]  # not bounds: Newton
    rows += [rh.Polyhedron([[-1]], [-a]) for a in low[:2]] + [rh.Polyhedron([[1]], [b]) for b in high[2:4]]
    alone = np.concatenate([base_point(P, scale) for P in rows])[[2, 3, 4, 5, 0, 1]]
    np.testing.assert_allclose(together, alone, rtol=1e-7)


@pytest.mark.parametrize("d", [500, 3000, 8000])
@pytest.mark.parametrize("share", [0.1, 0.7])
def test_sums_of_many_equal_terms_are_judged_as_short_ones_are(d: int, share: float) -> None:
    P, x = rh.sum_to(share * d, d) & rh.box(0, 1), np.full(d, share)
    assert x in P
    assert torch.tensor(x) in P
    assert P.interior_point() in P
    assert x * (1 + 1e-12) not in P


def test_an_order_between_bounds_with_a_given_sum_has_a_factor_that_stays_sparse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = []

    def counted(*given: Any, **options: Any) -> Any:
        found = splu(*given, **options)
        sizes.append(found.nnz)
        return found

    monkeypatch.setattr(systems, "splu", counted)
    P = rh.monotone(1100) & rh.box(0, 1) & rh.sum_to(400, 1100)
    x = P.interior_point()
    assert x in P
    assert P.slack(x).least[1:].min() > 0
    assert 0 < max(sizes) < 20 * P.dim


def test_a_sum_of_many_coordinates_is_met_by_a_system_of_one_equation(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(matrix: Any, **options: Any) -> Any:
        sizes.append(matrix.shape[0])
        return splu(matrix, **options)

    monkeypatch.setattr(systems, "splu", counted)
    assert (rh.sum_to(500, 5000) & rh.box(0, 1)).interior_point().sum() == pytest.approx(500, rel=1e-15)
    assert set(sizes) == {1}
