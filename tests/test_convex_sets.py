"""Balls, ellipsoids, quadratic rows and second-order cones: statements, layers, nearest points."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

import rayhull as rh
from rayhull.errors import EmptySetError, RayhullError, UnverifiedError
from rayhull.projection import conic
from rayhull.sets import frame
from rayhull.sets.conic_interior import Rules
from tests.convex_sets import SETS, without_equalities
from tests.fuzz_cones import judged

pytestmark = pytest.mark.filterwarnings("ignore:.* steps leave")  # thin sets of the zoo

SCALES = (1e-6, 1.0, 1e2, 1e4, 1e6)
EVERY = pytest.mark.parametrize("name", SETS)
SOME = pytest.mark.parametrize("name", ["half a disk", "unbounded cone", "beside a box"])


# -- statements --------------------------------------------------------------------------------------------------------


def test_a_ball_holds_its_boundary_exactly_and_nothing_beyond():
    S = rh.ball(5, d=2)
    beyond = np.nextafter(3, 4)
    assert S.contains_exactly(np.array([[3.0, 4.0], [beyond, 4.0], [0.0, -5.0]])).tolist() == [True, False, True]
    assert S.contains(np.array([[3.0, 4.0], [beyond, 4.0], [3.1, 4.0]])).tolist() == [True, True, False]


def test_squares_are_compared_with_the_sign_of_the_right_hand_side():
    x, y = rh.variables("x", "y")
    S = rh.rules(rh.norm([x]) <= y)
    assert S.contains_exactly(np.array([[1.0, 1.0], [1.0, -1.0], [0.0, 0.0]])).tolist() == [True, False, True]


def test_exact_judgement_agrees_with_fractions():
    rng = np.random.default_rng(1)
    Q = np.round(rng.standard_normal((3, 3)), 2)
    Q = Q @ Q.T
    S, c = rh.ellipsoid((Q + Q.T) / 2, 1.25, centre=[0.1, 0.2, 0.3]), [Fraction(v) for v in (0.1, 0.2, 0.3)]
    points = rng.standard_normal((50, 3))
    form = [[Fraction(v) for v in row] for row in ((Q + Q.T) / 2).tolist()]
    for p in points:
        y = [Fraction(v) - w for v, w in zip(p.tolist(), c, strict=True)]
        value = sum(form[i][j] * y[i] * y[j] for i in range(3) for j in range(3))
        assert bool(S.contains_exactly(p)) is (value <= Fraction(1.25) ** 2)


def test_a_quadratic_row_is_what_its_formula_says():
    S = rh.quadratic([[2, 0], [0, 0]], [0, -1])  # y >= x²
    points = np.random.default_rng(0).standard_normal((200, 2)) * 2
    assert np.array_equal(S.contains(points), points[:, 1] >= points[:, 0] ** 2)
    assert np.array_equal(S.contains_exactly(points), points[:, 1] >= points[:, 0] ** 2)


@pytest.mark.parametrize("S", [rh.ball(1, d=2), rh.ellipsoid(np.eye(2))])
def test_a_negative_radius_leaves_no_point(S):
    assert not S.contains(np.zeros(2), h=[-0.5])
    assert not S.contains_exactly(np.zeros(2), h=[-0.5])


def test_an_infinite_right_hand_side_of_a_cone_says_nothing_and_no_number_nothing_is_inside_of():
    S, x = rh.ball(1, d=2) & rh.Polyhedron([[1, 1]], [3]), np.array([[1.0, 1.0], [9.0, 0.0]])
    for inside in (S.contains, S.contains_exactly):
        assert inside(x, h=[np.inf]).tolist() == [True, False]
        for sides in ({"h": [np.nan]}, {"h": [-np.inf]}, {"centre": [np.inf, 0]}, {"centre": [np.nan, 0]}):
            assert not inside(0 * x, **sides).any()


@EVERY
def test_a_cone_of_a_quadratic_form_lies_in_the_form(name):
    S = SETS[name]()
    for cone in S.cones:
        if cone.form is not None and cone.centre is not None:
            excess = np.linalg.eigvalsh(cone.E.T @ cone.E - cone.form[0])
            assert excess[0] > -1e-14 * np.abs(cone.form[0]).max()
            assert cone.h <= cone.radius


def test_the_gauge_says_how_far_a_direction_may_be_followed():
    x = rh.variables("x", shape=3)
    S = rh.rules(rh.norm(x[1:]) <= x[0], x[0] + x[1] <= 7)
    rules, base = Rules(S, np.arange(len(S.rows))), np.array([2.0, 1.0, 0.5])
    s = rules.at(base)
    for v in np.random.default_rng(0).standard_normal((50, 3)):
        gauge = rules.excess(rules.boosted(s, rules.lifted(v)))
        ends = [rules.at(base + v / one) for one in gauge]  # on the boundary of the cone, and of the row
        assert abs(abs(ends[0][0]) - np.linalg.norm(ends[0][2:])) < 1e-9 * np.abs(ends[0]).max()
        assert abs(ends[1][1]) < 1e-9 * np.abs(ends[1]).max()
    assert np.allclose(rules.boosted(s, s), [1, 1, 0, 0])


def test_intersections_keep_rows_cones_and_names():
    x, y = rh.variables("x", "y")
    S = rh.rules(rh.norm([x, y]) <= 2, x >= 0) & rh.rules(x + y <= 1)
    assert isinstance(S, rh.ConvexSet)
    assert S.coordinates == ("x", "y")
    assert [0.5, 0.5] in S
    assert [0, -2] in S
    assert [-0.1, 0] not in S
    assert isinstance(rh.Polyhedron([[1, 1]], [1]) & rh.ball(1, d=2), rh.ConvexSet)
    assert S.polyhedron != S
    assert rh.ball(1, d=2) == rh.ball(1, d=2)
    three = rh.ball(1, d=2) & rh.ball(2, d=2) & rh.ball(3, d=2)
    assert [cone.name for cone in three.cones] == ["ball", "ball 2", "ball 3"]


def test_slack_violation_and_words_name_the_cones():
    S = rh.ball(2, d=2) & rh.Polyhedron([[1, 1]], [1], names=["budget"])
    assert float(S.violation(np.array([3.0, 0.0]))) == pytest.approx(2.0)  # of the row
    assert float(S.violation(np.array([0.0, -3.0]))) == pytest.approx(1.0)  # of the ball
    assert float(S.slack([0.0, -3.0])["ball"]) == pytest.approx(-1)
    assert "broken  ball, by 1" in S.explain([0.0, -3.0])
    assert "1 cone" in S.describe()
    assert len(S.describe().splitlines()) == 3
    assert "bounded" in S.describe()


@EVERY
def test_samples_and_the_interior_point_are_inside(name):
    S = SETS[name]()
    assert S.interior_point() in S
    assert S.contains(S.sample(50, seed=0), atol=1e-9).all()


@pytest.mark.parametrize(("least", "bounded"), [(1.5, True), (1.42, True), (1.41, False), (0.5, False)])
def test_a_set_that_its_cones_bound_is_called_bounded(least, bounded):
    x, y, z, w = rh.variables("x", "y", "z", "w")
    for far in (1, 1000):
        S = rh.rules(rh.norm([x, y]) <= z + far, x + y >= least * z)  # a ray has x + y <= √2 z
        assert S.is_bounded is bounded
        assert not rh.rules(rh.norm([x, y]) <= z + far, x + y >= least * z, w <= 1).is_bounded


def test_pictures_show_a_section():
    pytest.importorskip("matplotlib").use("Agg")
    S = rh.ball(2, d=3) & rh.Polyhedron([[1, 1, 0]], [1])
    assert S.plot((0, 2), points=S.sample(5, seed=0)).patches


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: rh.ellipsoid([[1, 2], [2, 1]]), "no negative eigenvalue, got -1"),
        (lambda: rh.ellipsoid([[1, 2], [3, 1]]), "symmetric"),
        (lambda: rh.ball(0, d=2), "one point, which equalities state"),
        (lambda: rh.ball(1), "how many coordinates"),
        (lambda: rh.quadratic([[0, 0], [0, 0]], [1, 0]), "as a row of a Polyhedron"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_norms_make_convex_rules_only():
    x, y = rh.variables("x", "y")
    with pytest.raises(TypeError, match="not convex"):
        rh.norm([x, y]) >= 1  # noqa: B015
    with pytest.raises(ValueError, match="one point at most"):
        rh.rules(rh.norm([x, y]) <= 0)
    assert [0.5, 1] in rh.rules(y >= rh.norm([x]))


def test_an_empty_intersection_is_refused_by_name():
    with pytest.raises(EmptySetError, match="ball"):
        rh.ball(1, d=2) & rh.ball(1, centre=[3, 0])
    with pytest.raises(EmptySetError, match="quadratic"):
        rh.quadratic(np.eye(2), 0, 1)


def test_a_set_that_is_a_point_is_refused_by_layers_with_the_cone_that_touches():
    S = rh.ball(1, d=2) & rh.Polyhedron([[-1, 0]], [-1])
    assert [1, 0] in S
    with pytest.raises(RayhullError, match="ball touches the other rules"):
        rh.Constrained(3, S)


def test_what_takes_rows_alone_says_so():
    with pytest.raises(TypeError, match="without cones"):
        rh.convert(rh.ball(1, d=2))
    with pytest.raises(RayhullError, match="is for rows alone"):
        rh.MapInto(rh.ball(1, d=2), method="vertices")


# -- layers ------------------------------------------------------------------------------------------------------------


@EVERY
def test_every_input_is_mapped_inside_with_finite_gradients(name):
    S = SETS[name]()
    into = rh.MapInto(S)
    for dtype in (torch.float32, torch.float64):
        into.to(dtype)
        for scale in SCALES:
            c = (scale * torch.randn(64, into.coefficients)).to(dtype).requires_grad_()
            x = into(c)
            assert S.contains(x.detach()).all(), (dtype, scale)
            assert torch.autograd.grad(x.square().sum(), c)[0].isfinite().all()


@EVERY
@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink"])
def test_far_features_are_mapped_inside_to_a_few_ulp(name, method):
    S, generator = SETS[name](), torch.Generator().manual_seed(0)
    into = rh.MapInto(S, method=method)
    for dtype in (torch.float32, torch.float64):
        into.to(dtype)
        for scale in (1, 1e3, 1e6, 1e30):
            c = scale * torch.randn(16, into.coefficients, dtype=dtype, generator=generator)
            assert S.contains(into(c)).all(), (dtype, scale)


@EVERY
@pytest.mark.parametrize("method", ["steps", "shrink"])
def test_points_inside_stay_where_they_are(name, method):
    S = SETS[name]()
    into = rh.MapInto(S, method=method, dtype=torch.float64)
    middle = torch.as_tensor(S.interior_point())
    x = middle + 0.9 * (torch.as_tensor(S.sample(20, seed=1)) - middle)
    assert torch.allclose(into(into.coefficients_of(x)), x, atol=1e-6 * float(x.abs().max()))


def test_large_sets_have_their_points_and_come_near_the_nearest_ones(monkeypatch):
    monkeypatch.setattr(frame, "COORDINATES", 3)  # beyond which equalities and the factor are sparse
    S = rh.ball(1, d=4) & rh.sum_to(1, 4) & rh.Polyhedron([[1, 0, 0, 0]], [0.4])
    way = rh.MapInto(S, method="steps", steps=40, dtype=torch.float64).parts[0].way
    assert way.sparse
    middle = torch.as_tensor(S.interior_point())
    inside = middle + 0.9 * (torch.as_tensor(S.sample(20, seed=1)) - middle)
    assert torch.allclose(way(inside), inside, atol=1e-6)
    away = middle + torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(way(away), rh.project(S, away), atol=1e-3)


@EVERY
def test_strict_outputs_are_inside_in_rational_arithmetic(name):
    for dtype in (torch.float32, torch.float64):
        assert judged(SETS[name](), 128, dtype, seed=0) == 128 * len(SCALES)


def test_a_cone_that_is_unbounded_in_some_directions_alone_has_strict_layers():
    x, y, z = rh.variables("x", "y", "z")
    S = rh.rules(rh.norm([x, y]) <= z, x >= 0, x <= 1)
    assert S.interior_direction is None  # no ray gains slack in both bounds
    assert judged(S, 128, torch.float32, seed=0) == 128 * len(SCALES)


def test_a_strict_layer_moves_points_by_rounding_errors_only():
    into = rh.MapInto(rh.ball(2, d=3))
    c = torch.randn(64, 3)
    loose = into(c)
    into.strict = True
    assert (into(c) - loose).abs().max() < 1e-5


@pytest.mark.parametrize("method", ["steps", "shrink", "nearest"])
def test_no_points_at_all_are_mapped_to_none(method):
    into = rh.MapInto(SETS["half a disk"](), method=method)
    assert into(torch.zeros(0, 2)).shape == (0, 2)
    assert into(torch.zeros(0, 2), h=torch.ones(0, 1)).shape == (0, 2)


def test_balls_alone_take_their_nearest_points():
    S = SETS["many balls"]()
    into = rh.MapInto(S, dtype=torch.float64)
    assert "closed form" in into.describe()
    u = 3 * torch.randn(16, *S.shape, dtype=torch.float64)
    near = u * (torch.linspace(1, 3, 20, dtype=torch.float64) / u.norm(dim=-1)).clamp_max(1.0).unsqueeze(-1)
    assert torch.allclose(into(into.coefficients_of(u)), near)


def test_steps_that_leave_much_of_the_way_warn_and_say_so():
    with pytest.warns(UserWarning, match=r"steps leave \d+% of the way to the nearest point"):
        into = rh.MapInto(SETS["thin"]())
    assert "what is left of the way to the nearest point is" in into.describe()


def test_a_ball_that_is_full_leaves_the_other_balls_alone():
    S = SETS["many balls and bounds"]()
    into = rh.MapInto(S, method="shrink", dtype=torch.float64)
    c = torch.full((1, into.coefficients), 0.1, dtype=torch.float64)
    moved = c.clone()
    moved[0, 0] = 1e3
    assert torch.equal(into(c)[0, 1:], into(moved)[0, 1:])


@SOME
def test_layers_have_the_gradients_of_their_formula(name):
    into = rh.MapInto(SETS[name](), dtype=torch.float64)
    c = torch.randn(4, into.coefficients, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(into, c, eps=1e-6, atol=1e-4)


def test_training_reaches_a_point_of_the_boundary():
    torch.manual_seed(0)
    S = rh.ball(1, d=3) & rh.Polyhedron([[1, 0, 0]], [0.5])
    head = rh.Constrained(2, S)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(200):
        optimiser.zero_grad()
        head(torch.ones(8, 2)).sum().neg().mean().backward()
        optimiser.step()
    best = 0.5 + np.sqrt(2 * 0.75)
    assert float(head.eval()(torch.ones(1, 2)).detach().sum()) == pytest.approx(best, abs=0.02)


def test_a_checkpoint_belongs_to_its_set():
    head = rh.Constrained(3, rh.ball(1, d=2))
    state = head.state_dict()
    rh.Constrained(3, rh.ball(1, d=2)).load_state_dict(state)
    with pytest.raises(RuntimeError, match="another set"):
        rh.Constrained(3, rh.ball(2, d=2)).load_state_dict(state)


# -- sides of the sample -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_radii_and_centres_may_come_with_the_sample(strict):
    for S in (
        rh.ball(2, d=3),
        rh.ball(2, d=3) & rh.Polyhedron([[1, 1, 1]], [4]),
        rh.ellipsoid(np.diag([1.0, 2, 3]), 2),
    ):
        into = rh.MapInto(S, strict=strict)
        h, centre = torch.rand(32, 1) + 1.5, 0.1 * torch.randn(32, 3)
        h.requires_grad_(), centre.requires_grad_()
        x = into(3 * torch.randn(32, 3), h=h, centre=centre)
        inside = S.contains_exactly if strict else S.contains
        assert inside(x.detach(), h=h.detach(), centre=centre.detach()).all()
        for slope in torch.autograd.grad(x.sum(), (h, centre)):
            assert slope.isfinite().all()
            assert slope.abs().max() > 0


@pytest.mark.parametrize("strict", [False, True])
def test_right_hand_sides_of_cones_rows_and_bounds_may_come_with_the_sample(strict):
    S = SETS["friction"]()
    into = rh.MapInto(S, strict=strict)
    sides = {"h": torch.rand(32, 1), "upper": torch.tensor([torch.inf, torch.inf, 8.0])}
    x = into(3 * torch.randn(32, 3), **sides)
    assert (S.contains_exactly if strict else S.contains)(x, **sides).all()


def test_a_sample_whose_base_point_is_outside_takes_its_nearest_point():
    S = rh.ball(2, d=2) & rh.Polyhedron([[1, 1]], [1])
    h = torch.full((4, 1), 0.1)  # the base point of the stated set is not in this ball
    x = rh.MapInto(S)(torch.randn(4, 2), h=h)
    assert S.contains(x, h=h).all()
    with pytest.raises(EmptySetError, match="sample"):
        rh.MapInto(S)(torch.randn(4, 2), h=-h)


# -- nearest points ----------------------------------------------------------------------------------------------------


def test_residuals_decide_what_is_refused_and_by_which_name():
    conic._refuse(torch.tensor([0.0, 1e-10]), stated=False)
    with pytest.raises(UnverifiedError, match="sample 1 could not be certified"):
        conic._refuse(torch.tensor([0.0, 1e-6]), stated=False)
    with pytest.raises(EmptySetError, match="sample 2 is empty"):
        conic._refuse(torch.tensor([0.0, 1e-6, 1e-2]), stated=False)
    with pytest.raises(UnverifiedError, match="sample 0"):
        conic._refuse(torch.tensor([1e-2]), stated=True)  # a set itself is never empty


@EVERY
def test_nearest_points_are_certified_and_better_than_every_other_point(name):
    S = SETS[name]()
    x = 3 * torch.randn(8, *S.shape, dtype=torch.float64)
    z, info = rh.project(S, x, return_info=True)
    assert info.residual.max() < 1e-9
    assert S.contains(z, atol=1e-9 * float(1 + z.abs().max())).all()
    for other in torch.as_tensor(S.sample(30, seed=2)):  # obtuse at z: the variational inequality
        product = ((x - z) * (other - z)).flatten(1).sum(1)
        assert (product < 1e-8 * (1 + x.flatten(1).norm(dim=1))).all()


@EVERY
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_nearest_points_of_far_points_are_certified(name, scale):
    S = SETS[name]()
    x = scale * torch.randn(16, *S.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    assert rh.project(S, x, return_info=True)[1].residual.max() < 1e-9


@pytest.mark.parametrize(
    ("name", "scale"), [("risk and a box", 1e5), ("two balls", 1e7), ("thin", 1e9), ("two balls", 1e9)]
)
def test_each_of_many_far_points_has_a_certified_nearest_point(name, scale):
    S = SETS[name]()
    x = scale * torch.randn(200, *S.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert rh.project(S, x, return_info=True)[1].residual.max() < 1e-9


def test_what_is_certified_of_the_farthest_points_is_their_nearest_point():
    S, centre = SETS["ball"](), torch.tensor([1.0, 0, 0], dtype=torch.float64)
    for scale in 10.0 ** np.arange(8, 31, 2):
        away = scale * torch.ones(1, 3, dtype=torch.float64) - centre
        try:
            z = rh.project(S, centre + away)
        except UnverifiedError:
            assert scale > 1e12
        else:
            torch.testing.assert_close(z, centre + 2 * away / away.norm())


def test_points_so_far_away_that_no_digit_of_the_set_is_left_are_refused():
    S = SETS["risk and a box"]()
    for scale in (1e7, 1e8, 1e9, 1e10, 1e12, 1e15):
        x = scale * torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        try:
            assert S.violation(rh.project(S, x)).max() < 1e-5
        except UnverifiedError as error:
            assert scale > 1e7, error


@EVERY
def test_nearest_points_have_the_derivative_of_differences(name):
    S = SETS[name]()
    torch.manual_seed(3)
    x = (3 * torch.randn(2, *S.shape, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rh.project(S, x), x, eps=1e-6, atol=1e-4, fast_mode=True)


@pytest.mark.parametrize("far", [1e2, 1e3])
def test_nearest_points_of_a_cone_seen_nearly_edge_on_have_the_derivative_of_differences(far):
    S = rh.quadratic([[2, 0], [0, 0]], [0, -1])  # y >= x²
    x = torch.tensor([[far, far**2 / 2], [far, far**2 - far]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(rh.project(S, x)[:, 0].sum(), x)
    ends = [[rh.project(S, x.detach() + e * far * v)[:, 0] for e in (1e-4, -1e-4)] for v in torch.eye(2).double()]
    differences = torch.stack([(high - low) / (2e-4 * far) for high, low in ends], 1)
    assert (slope - differences).abs().max() < 1e-6


def test_at_a_kink_what_is_met_without_a_multiplier_counts_as_absent():
    x = torch.tensor([[0.0, 0, 0], [0, 0, 10], [3, 0, 6], [0, 0, 5]], dtype=torch.float64, requires_grad=True)
    z = rh.project(SETS["friction"](), x)  # at the apex, on the row, on the cone, inside
    assert torch.equal(z, x)
    torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], torch.ones_like(x))


def test_a_layer_of_nearest_points_has_a_form_for_graphs():
    S = rh.ball(1.0, d=3) & rh.box(-0.9, 0.9, 3)
    layer, h = rh.Constrained(4, S, method="nearest").eval(), 5 * torch.randn(32, 4)
    folded = layer.fold()
    assert "off the CPU and in exported graphs" in folded.rest.describe()
    torch.testing.assert_close(folded(h), layer(h), rtol=1e-4, atol=1e-5)
    graph = torch.export.export(folded, (h,)).module()
    assert bool(S.contains(graph(h)).all())
    assert bool(((graph(h) - layer(h)).abs() < 0.1).all())


def test_nearest_points_follow_the_sides_of_the_sample():
    S = rh.ball(2, d=3) & rh.Polyhedron([[1, 1, 1]], [1])
    x = torch.randn(3, 3, dtype=torch.float64) * 3
    sides = [torch.rand(3, 1, dtype=torch.float64) + 0.5, torch.rand(3, 3, dtype=torch.float64) * 0.1]
    sides += [torch.rand(3, 1, dtype=torch.float64)]
    for v in sides:
        v.requires_grad_()
    run = lambda h, centre, b: rh.project(S, x, h=h, centre=centre, b=b)  # noqa: E731
    assert S.contains(run(*sides).detach(), h=sides[0].detach(), centre=sides[1].detach(), b=sides[2].detach()).all()
    assert torch.autograd.gradcheck(run, sides, eps=1e-6, atol=1e-4)


@pytest.mark.parametrize("rows", [[[1, 0, 0]], [[1, 1, 0], [1, -1, 0]]])
def test_rows_that_equalities_leave_constant_hold_and_leave_the_others_their_digits(rows):
    P = rh.Polyhedron(A_eq=rows, b_eq=[2.0, 0.0][: len(rows)], lower=0, upper=5)
    S, x = P & rh.ball(9, d=3), 9 * torch.randn(16, 3, dtype=torch.float64)
    torch.testing.assert_close(rh.project(S, x), rh.project(P, x))


@pytest.mark.parametrize("far", [1e6, 1e9, 1e12, 1e15])
def test_rows_far_away_leave_the_others_their_digits(far):
    S, x = rh.ball(1, d=3) & rh.Polyhedron([[1, 1, 0]], [far], lower=[-far, 0, -far]), torch.randn(16, 3).double() * 3
    torch.testing.assert_close(rh.project(S, x), rh.project(rh.ball(1, d=3) & rh.Polyhedron([[0, -1, 0]], [0]), x))


def test_rows_that_hold_with_equality_by_the_stated_sides_alone_are_rows_with_others():
    P = rh.Polyhedron(A_eq=[[1, 1, 0]], b_eq=[0], lower=0, upper=5)  # x1 = x2 = 0, but for the sum of the sample
    S, x, b_eq = P & rh.ball(9, d=3), 3 * torch.randn(16, 3, dtype=torch.float64), torch.rand(16, 1).double()
    torch.testing.assert_close(rh.project(S, x, b_eq=b_eq), rh.project(P, x, b_eq=b_eq))
    torch.testing.assert_close(rh.project(S, x), rh.project(P, x))


def test_the_module_of_nearest_points_takes_radii_and_centres():
    S, x = rh.ball(2, d=3) & rh.Polyhedron([[1, 1, 1]], [1]), torch.randn(4, 3, dtype=torch.float64) * 3
    h, centre = torch.rand(4, 1).double() + 0.5, torch.rand(4, 3).double() * 0.1
    assert torch.equal(rh.Projection(S)(x, h=h, centre=centre), rh.project(S, x, h=h, centre=centre))
    with pytest.raises(ValueError, match="leave out warm_start"):
        rh.Projection(S, warm_start=True)


def test_a_nearest_point_of_the_ball_is_on_its_ray():
    z = rh.project(rh.ball(2, d=2), torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
    assert torch.allclose(z, torch.tensor([[1.2, 1.6], [0.3, 0.4]]))


# -- exports -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@SOME
def test_layers_compile_in_one_graph(name):
    head = rh.Constrained(4, SETS[name](), strict=True)
    features = torch.randn(6, 4)
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(features), head(features), atol=1e-5)


@SOME
def test_layers_export(name):
    head = rh.Constrained(4, SETS[name](), strict=True).eval()
    batch = torch.export.Dim("batch")
    program = torch.export.export(head, (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    features = torch.randn(7, 4)
    assert torch.allclose(program.module()(features), head(features), atol=1e-5)


@SOME
def test_onnx_files_hold_strict_points(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from rayhull.nn.export import to_onnx

    S = SETS[name]()
    head = rh.Constrained(4, S, strict=True)
    path = to_onnx(head, 4, tmp_path / "layer.onnx")
    features = torch.randn(64, 4) * 10
    (x,) = runtime.InferenceSession(str(path)).run(None, {"features": features.numpy()})
    assert np.allclose(x, head(features).detach().numpy(), atol=1e-4)
    assert without_equalities(S).contains_exactly(x).all()


@pytest.mark.parametrize("method", ["auto", "shrink"])
@pytest.mark.parametrize("S", [rh.ball(1, d=1), rh.ball(1, d=3) & rh.box(-0.9, 0.9), rh.ellipsoid([[2, 1], [1, 3]], 1)])
def test_tiny_features_have_finite_gradients(S, method):
    torch.manual_seed(0)
    layer = rh.Constrained(3, S, method=method)
    layer = layer if method == "shrink" or S.dim > 1 else rh.Constrained(3, S, method="steps", steps=5)
    for scale in (0.0, 1e-38, 1e-30, 1e-25, 1e-20, 1e-15, 1e-10):
        h = (scale * torch.randn(8, 3)).requires_grad_()
        layer(h).sum().backward()
        assert h.grad.isfinite().all(), scale


@pytest.mark.parametrize("method", ["auto", "steps", "shrink", "nearest"])
def test_a_batch_without_samples_passes_through(method):
    S = rh.ball(1, d=3) & rh.Polyhedron([[1, 1, 1]], [1])
    layer = rh.Constrained(4, S, method=method)
    for lead in ((0,), (2, 0)):
        assert layer(torch.randn(*lead, 4)).shape == (*lead, 3)
        assert layer(torch.randn(*lead, 4), h=torch.ones(*lead, 1)).shape == (*lead, 3)
        assert rh.project(S, torch.randn(*lead, 3)).shape == (*lead, 3)


@pytest.mark.parametrize("size", [1e9, 1e15, 1e30])
def test_a_layer_by_nearest_points_of_cones_takes_features_of_any_size(size: float) -> None:
    sets = (rh.ball(1, d=3) & rh.box(-0.9, 0.9), 1), (rh.ball(1e3, centre=[1e3, 0, 0]) & rh.sum_to(100.0, 3), 1e3)
    for S, reach in sets:
        layer = rh.Constrained(4, S, method="nearest", dtype=torch.float64)
        h = size * torch.randn(100, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        with torch.no_grad():
            x, straight = layer(h), layer.unconstrained(h)
        assert S.violation(x).max() < 1e-6
        near = rh.project(S, straight / straight.abs().amax(-1, keepdim=True) * 1e4 * reach)
        torch.testing.assert_close(x, near, atol=2e-3 * float(near.abs().max()), rtol=0)
