"""Where "hard" lives: the yardstick, exact numbers, sides of the sample on mirror images, the order of blocks."""

from __future__ import annotations

import io
from fractions import Fraction as F

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rayhull as rh
from rayhull.exact import elimination
from rayhull.exact.numbers import product
from rayhull.maps.coefficients import without_carefully
from rayhull.maps.shrink import smooth_factor
from rayhull.nn import per_sample
from rayhull.sets.rows import Rows

# -- the yardstick --------------------------------------------------------------------------------------------------

ROW = rh.Polyhedron([[1.0, -2.0]], 3.0)  # at (1, -1) the row holds with equality, and ‖a‖₁ max|x| + |b| = 6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_contains_is_sixteen_ulp_wide(dtype, kind):
    eps = np.finfo(dtype).eps
    points = np.array([[1 + 6 * ulps * eps, -1] for ulps in (0, 15, 17)], dtype)
    assert ROW.contains(kind(points)).tolist() == [True, True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_width_grows_with_the_right_hand_side_alone_too(dtype):
    eps = float(np.finfo(dtype).eps)
    P = rh.Polyhedron([[1.0, 1.0]], 1.0)  # (1024, -1023): ‖a‖₁ max|x| = 2048, |b| = 1
    wide = rh.Polyhedron([[1.0, -1.0]], 4096.0)
    assert P.contains(np.array([1024 + 16 * 2049 * eps * 0.9, -1023], dtype))
    assert wide.contains(np.array([2048 + 16 * 8000 * eps, -2048], dtype))  # 2 x 2048 + 4096 = 8192
    assert not wide.contains(np.array([2048 + 16 * 8400 * eps, -2048], dtype))


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_point_that_is_not_finite_is_outside(kind):
    P = rh.Polyhedron([[1.0, 0.0]], 1.0)
    points = kind(np.array([[-np.inf, 0.0], [0.0, np.nan], [0.0, 0.0]]))
    assert P.contains(points).tolist() == [False, False, True]
    assert P.contains_exactly(points).tolist() == [False, False, True]


def test_the_exact_judge_sees_equalities_from_both_sides():
    P = rh.Polyhedron(A_eq=[[1, 2]], b_eq=[1])
    points = np.array([[0.5, 0.25], [0.5, np.nextafter(0.25, 0)], [0.5, np.nextafter(0.25, 1)]])
    assert P.contains_exactly(points).tolist() == [True, False, False]


@pytest.mark.parametrize("bound", [F(1, 10), F(1, 3), F(2, 3)])
def test_the_exact_judge_takes_a_fraction_as_it_is_stated(bound):
    near = float(bound)
    inside, outside = (near, np.nextafter(near, 1)) if F(near) <= bound else (np.nextafter(near, 0), near)
    upper = rh.Polyhedron(upper=np.array([bound], object))
    assert upper.contains_exactly(np.array([[inside], [outside]])).tolist() == [True, False]
    lower = rh.Polyhedron(lower=np.array([-bound], object))
    assert lower.contains_exactly(np.array([[-inside], [-outside]])).tolist() == [True, False]


# -- exact numbers --------------------------------------------------------------------------------------------------


def test_large_integers_beside_floats_are_not_rounded():
    P = rh.Polyhedron([[1.0, 0.0]], 0.5) & rh.Polyhedron([[2**53 + 1, 0], [0, 1]], [2**53, 1])
    assert P.contains_exactly([[0.5, 0.0]]).tolist() == [True]
    edge = float(F(2**53, 2**53 + 1))  # the nearest float below 1 is above this bound
    Q = rh.Polyhedron([[1.0, 0.0]], 7.5) & rh.Polyhedron([[2**53 + 1, 0], [0, 1]], [2**53, 1])
    assert Q.contains_exactly([[np.nextafter(edge, 0), 0.0], [1.0, 0.0]]).tolist() == [True, False]


@pytest.mark.parametrize("bits", [20, 26, 28, 30, 31, 40])
def test_products_of_any_size_are_those_of_python(bits):
    left, right = np.array([[2**bits + 1, -3]]), np.array([[2**bits + 1], [2**bits - 1]])
    assert product(left, right).tolist() == [[(2**bits + 1) ** 2 - 3 * (2**bits - 1)]]


def test_a_rank_that_one_prime_hides_is_found():
    prime = next(elimination._primes())
    P = rh.Polyhedron([[1, 1], [-1, -1], [1, prime + 1], [-1, -prime - 1]], 1)  # modulo the first all four are parallel
    assert P.is_bounded
    assert len(P.generators().vertices) == 4


def test_a_sparse_rank_is_that_of_the_dense_rows(monkeypatch):
    monkeypatch.setattr(elimination, "DENSE_ENTRIES", 0)
    rng = np.random.default_rng(0)
    for _ in range(50):
        A = rng.integers(-2, 3, (int(rng.integers(1, 7)), 5))
        A = np.concatenate([A, A[:2] + A[-1]])
        rows = sp.csr_array(A)
        rows.eliminate_zeros()
        assert elimination.rank(rows.data, rows.indices, rows.indptr, 5) == np.linalg.matrix_rank(A)


def test_fractions_with_long_denominators_state_the_rows_they_state():
    p, q = 2**61 - 1, 2**31 - 1
    P = rh.Polyhedron([[F(1, p), F(1, q)], [F(3, q), F(-1, 7)]], [F(2, p), F(1, 3)])
    data, rhs = P.inequalities.exact
    rows = [[F(int(v)) for v in data[2 * i : 2 * i + 2]] + [F(int(rhs[i]))] for i in range(2)]
    stated = [[F(1, p), F(1, q), F(2, p)], [F(3, q), F(-1, 7), F(1, 3)]]
    for row, wanted in zip(rows, stated, strict=True):
        factor = row[0] / wanted[0]
        assert factor > 0
        assert row == [factor * v for v in wanted]


@pytest.mark.parametrize("scale", [2.0**700, 2.0**-700])
def test_rows_of_any_scale_state_the_same_set(scale):
    P = rh.Polyhedron([[3.0, 4.0]], 5.0)
    Q = rh.Polyhedron([[3 * scale, 4 * scale]], 5 * scale)
    points = np.random.default_rng(0).standard_normal((200, 2)) * 2
    assert (P.contains(points) == Q.contains(points)).all()
    assert (P.contains_exactly(points) == Q.contains_exactly(points)).all()


def test_blocks_with_other_right_hand_sides_are_other_sets():
    P = rh.Polyhedron([[1, 1, 0, 0], [0, 0, 1, 1]], [1, 2], lower=0)
    assert len(P.block_groups) == 2
    assert sorted(map(tuple, P.generators().vertices.tolist()))[-1] == (1.0, 0.0, 2.0, 0.0)


def test_dark_and_bright_tiles_are_one_kind_of_block():
    kinds = (rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)).mirrored_groups
    assert [sorted(kind.sign.tolist()) for kind in kinds] == [[-1, -1, 1, 1]]


def test_the_centre_is_where_the_slacks_balance():
    P = rh.Polyhedron([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1]], [1, 1, 1, 1, 1])
    x = P.interior_point()
    slack = np.array(P.b, float) - P.A @ x
    pull = P.A.T @ (1 / slack)  # of the log barrier; a weak term holds unbounded sets
    assert np.abs(pull + x / max(1.0, np.abs(x).max()) ** 2).max() < 0.5
    assert np.abs(x[0] - x[1]) < 1e-6
    assert x[0] < -0.2  # the Chebyshev centre is at -0.121


def test_what_is_left_beside_a_span_is_never_rounding_alone():
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(6, 2, dtype=torch.float64)).Q
    inside = 1e8 * torch.randn(50, 2, dtype=torch.float64) @ basis.mT
    assert not without_carefully(inside, basis).any()
    beside = without_carefully(torch.randn(50, 6, dtype=torch.float64), basis)
    left = without_carefully(inside + beside, basis)
    assert bool(((left @ basis).abs().amax(-1) <= 4e-16 * left.abs().amax(-1)).all())


def test_the_smooth_factor_never_stretches():
    gauge = torch.linspace(0, 5, 51)
    factor = smooth_factor(gauge)
    assert bool((factor <= 1).all())
    assert bool((gauge * factor <= 1).all())


# -- the layer ------------------------------------------------------------------------------------------------------

TILES = rh.checkerboard((4, 4), tiles=(2, 2))


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("which", ["both", "lower", "upper"])
def test_bounds_of_the_sample_hold_on_mirror_images_where_they_are_not_symmetric(which, monkeypatch):
    monkeypatch.setattr(
        per_sample, "_apart", per_sample._from_base
    )  # what comes to the rescue of a wrong bound would hide it
    torch.manual_seed(0)
    layer = rh.Constrained(3, TILES & rh.box(-1, 1), method="shrink")
    assert layer.map.parts[0].mirrored
    h = 10 * torch.randn(64, 3)
    lower = -0.95 + 0.1 * torch.rand(64, 4, 4)
    upper = 0.7 + 0.1 * torch.rand(64, 4, 4)
    given = {"lower": lower, "upper": upper} if which == "both" else {which: {"lower": lower, "upper": upper}[which]}
    x = layer(h, **given)
    low, high = given.get("lower", torch.tensor(-1.0)), given.get("upper", torch.tensor(1.0))
    assert bool((x >= low - 1e-6).all())
    assert bool((x <= high + 1e-6).all())
    assert TILES.contains(x, atol=1e-5).all()
    assert bool((x > high - 1e-4).any())  # the bounds are reached: they are not met by standing still
    assert bool((x < low + 1e-4).any())


@pytest.mark.usefixtures("either_form")
def test_the_shrink_takes_the_right_hand_sides_of_the_sample(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(per_sample, "_apart", per_sample._from_base)
    P = rh.Polyhedron([[1.0, 2.0, 0.0], [0.0, -1.0, 1.0], [-1.0, 0.0, -1.0]], 1.0)
    b = 0.1 + torch.rand(64, 3)
    x = rh.Constrained(3, P, method="shrink", base=np.zeros(3))(10 * torch.randn(64, 3), b=b)
    slack = b - x @ torch.tensor(P.A, dtype=torch.float32).T
    assert bool((slack >= -1e-5).all())
    assert bool((slack.amin(-1) < 1e-4).any())


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("strict", [False, True])
def test_bounds_beside_rows_and_equalities_hold_by_shrinking(strict):
    P = rh.Polyhedron([[1, -1, 0]], [0.5], A_eq=[[1, 1, 1]], b_eq=[1], lower=0, upper=0.75)
    x = rh.Constrained(3, P, method="shrink", strict=strict)(10 * torch.randn(256, 3))
    assert P.contains(x).all()


@pytest.mark.usefixtures("either_form")
def test_ends_of_an_interval_that_no_float_meets_are_rounded_inwards():
    P = rh.Polyhedron(lower=np.array([F(1, 3)], object), upper=np.array([F(11, 10)], object))
    assert F(float(np.float32(1.1))) > F(11, 10)
    x = rh.Constrained(2, P, strict=True)(100 * torch.randn(256, 2)).detach()
    assert P.contains_exactly(x).all()
    assert float(x.max()) == float(np.nextafter(np.float32(1.1), np.float32(0)))


@pytest.mark.usefixtures("either_form")
def test_a_row_that_no_coefficient_moves_is_judged_by_the_sample():
    P = rh.Polyhedron([[1, 1]], [5], A_eq=[[1, 1]], b_eq=[1], lower=0)  # the row is the equality's own
    layer = rh.Constrained(3, P, varies={"b_eq": (1.0, 2.0)})
    h = torch.randn(2, 3)
    assert bool(layer(h, b_eq=torch.tensor([[1.0], [2.0]])).isfinite().all())
    with pytest.raises(rh.RayhullError, match="sample"):
        layer(h, b_eq=torch.tensor([[1.0], [7.0]]))


@pytest.mark.parametrize("method", ["auto", "nearest", "steps", "shrink", "vertices"])
def test_rows_that_hold_with_equality_follow_the_sample(method):
    P = rh.Polyhedron([[1, 1, 0], [-1, -1, 0]], [1, -1], lower=0, upper=1)
    b = torch.tensor([[0.9, -0.9], [1.2, -1.1]])
    x = rh.Constrained(3, P, method=method)(torch.randn(2, 3), b=b)
    assert P.contains(x, b=b).all()


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("which", ["lower", "upper"])
def test_one_bound_of_the_sample_is_enough_for_tiles(which):
    layer = rh.Constrained(3, TILES & rh.box(-0.9, 0.2))
    bound = {"lower": -0.9, "upper": 0.2}[which] + 0.1 * torch.rand(64, 4, 4)
    x = layer(10 * torch.randn(64, 3), **{which: bound})
    assert bool(((x >= bound) if which == "lower" else (x <= bound)).all())
    assert TILES.contains(x, atol=1e-5).all()


SCATTERED = rh.Polyhedron(  # blocks {0, 5}, {1, 2, 6}, {3, 4}: no reshape puts them in order
    [[1, 0, 0, 0, 0, 2, 0], [0, 1, 1, 0, 0, 0, 1], [0, 0, 0, 3, -1, 0, 0]],
    [1, 2, 3],
    lower=-1,
    upper=[1, 2, 3, 4, 5, 6, 7],
)


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("strict", [False, True])
def test_blocks_that_are_no_grid_come_out_in_their_places(strict):
    torch.manual_seed(0)
    into = rh.MapInto(SCATTERED, method="shrink", dtype=torch.float64, strict=strict)
    x = into(10 * torch.randn(256, into.coefficients, dtype=torch.float64))
    assert SCATTERED.contains(x).all()
    inside = torch.as_tensor(SCATTERED.sample(32, seed=0))
    assert torch.allclose(into(into.coefficients_of(inside)), inside, atol=1e-9)
    assert float(x[:, 6].max()) > 2.5  # the last coordinate has the widest bounds


@pytest.mark.usefixtures("either_form")
def test_rows_of_several_lengths_keep_their_right_hand_sides():
    """Short rows are gathered and long ones multiplied: each must meet its own slack."""
    torch.manual_seed(0)
    A = np.zeros((6, 200))
    A[:3] = np.random.default_rng(0).standard_normal((3, 200))
    A[3, :2], A[4, 5:9], A[5, 100] = 1, [1, -1, 1, -1], 1
    P = rh.Polyhedron(A[[3, 0, 4, 1, 5, 2]], [1, 20, 2, 30, 3, 40])
    layer = rh.Constrained(4, P, method="shrink")
    h = 100 * torch.randn(64, 4)
    assert P.contains(layer(h), atol=1e-3).all()
    b = torch.rand(64, 6) + torch.tensor([1.0, 20, 2, 30, 3, 40])
    x = layer(h, b=b).double()
    assert bool((x @ torch.as_tensor(P.A).double().T <= b.double() + 1e-3).all())


@pytest.mark.usefixtures("either_form")
def test_a_sample_without_slack_at_the_base_point_takes_another():
    """From 0, a corner of [-1, 0]², three directions of four would lead nowhere."""
    torch.manual_seed(0)
    P = rh.box(-1, 1, 2) & rh.Polyhedron([[1, 1], [-1, -1]], 1.5)
    layer = rh.Constrained(3, P, method="shrink")
    x = layer(torch.randn(400, 3), upper=torch.zeros(400, 2)).detach()
    assert bool(P.contains(x, upper=torch.zeros(400, 2)).all())
    assert float((x.abs() < 1e-6).all(-1).double().mean()) < 0.5
    with pytest.raises(rh.EmptySetError, match="samples"):
        layer(torch.randn(4, 3), upper=-2 * torch.ones(4, 2))


@pytest.mark.usefixtures("either_form")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("strict", [False, True])
def test_a_checkpoint_in_a_shorter_dtype_leaves_the_geometry_alone(dtype, strict):
    torch.manual_seed(0)
    P = rh.Polyhedron(
        [[0.2, -0.46, 0.13], [-1.19, -0.58, -0.2], [0.9, 1.15, -1.32], [-0.79, 0.65, -1.99]], [2, 1, 2, 2]
    )
    short = rh.Constrained(4, P, method="shrink").to(dtype)
    layer = rh.Constrained(4, P, method="shrink", strict=strict)
    file = io.BytesIO()
    torch.save(short.state_dict(), file)
    file.seek(0)
    layer.load_state_dict({name: value.to(dtype) if value.is_floating_point() else value
                           for name, value in torch.load(file).items()})  # fmt: skip
    x = layer(100 * torch.randn(1000, 4))
    assert P.contains_exactly(x).all() if strict else P.contains(x).all()


@pytest.mark.parametrize("sides", [(1, 2), (2, 1)])
def test_conversion_refuses_contradictory_equalities_by_itself(sides):
    """Where the constructor's own check was left out."""
    both = Rows.stack([rh.Polyhedron(A_eq=[[1, 1]], b_eq=[side]).equalities for side in sides])
    P = rh.Polyhedron.from_rows(Rows.empty(2), both, None, None, (2,), check=False)
    with pytest.raises(rh.EmptySetError):
        rh.convert(P, cache=False)


def test_a_base_point_of_the_sample_is_mirrored_with_its_block(monkeypatch):
    def refuse(*_):
        raise AssertionError("a base point strictly inside has slack in every row")

    monkeypatch.setattr(per_sample, "_apart", refuse)
    P = TILES & rh.box(-1, 1)
    layer = rh.Constrained(3, P, method="shrink", dtype=torch.float64)
    assert layer.map.parts[0].mirrored
    base = torch.as_tensor(P.sample(16, seed=0))
    x = layer(10 * torch.randn(16, 3, dtype=torch.float64), base=base, upper=torch.full((16, 4, 4), 1.5).double())
    assert bool(P.contains(x, upper=torch.full((16, 4, 4), 1.5).double(), atol=1e-9).all())
