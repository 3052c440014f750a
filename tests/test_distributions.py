"""Densities on sets: log-determinants, inverses, integrals, the uniform law, and the manners of torch.distributions."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Independent, MultivariateNormal, Normal, biject_to, transform_to

import rayhull as rh
from rayhull.distributions import IntoPolyhedron, IntoRows, OnPolyhedron, Uniform, polyhedron
from tests.zoo import ZOO, cross_polytope, general

F64 = torch.float64


def pentagon():
    return rh.Polyhedron([[1, 1], [-1, 2]], [1, 1], lower=-1, upper=[0.75, 1])


def coefficients(into, n=6, seed=0):
    """Points of R^k from near the centre to near the boundary, (n, k)."""
    generator = torch.Generator().manual_seed(seed)
    scale = torch.logspace(-1, 0.5, n, dtype=F64)[:, None]
    return torch.randn(n, into.coefficients, generator=generator, dtype=F64) * scale


def jacobian_log_det(into, c):
    """log|det| of autograd's Jacobian, in an orthonormal basis of the affine hull."""
    J = torch.func.vmap(torch.func.jacrev(lambda v: into._call(v).flatten()))(c)
    basis = torch.linalg.qr(J[0])[0]
    return torch.linalg.slogdet(basis.mT @ J)[1]


@pytest.mark.parametrize("method", ["auto", "radial"])
@pytest.mark.parametrize("name", ZOO)
def test_the_log_determinant_is_autograds_and_the_inverse_is_exact(name, method):
    P = ZOO[name]()
    into = IntoPolyhedron(P, method)
    c = coefficients(into)
    x = into(c)
    assert x.shape == (len(c), *P.shape)
    assert P.contains(x).all()
    torch.testing.assert_close(into.inv(x), c, rtol=0, atol=1e-9)
    torch.testing.assert_close(into.log_abs_det_jacobian(c, x), jacobian_log_det(into, c), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("make", "method"),
    [
        (lambda: rh.Polyhedron([[1, 1]], 1, lower=0), "softmax"),
        (lambda: rh.Polyhedron([[-1, 0], [1, -1]]), "softplus"),
        (lambda: pentagon(), "radial"),
    ],
)
def test_a_density_in_the_plane_integrates_to_one(make, method):
    P = make()
    q = OnPolyhedron(Normal(torch.tensor([0.3, -0.2], dtype=F64), torch.tensor([0.5, 0.8], dtype=F64)), P)
    assert {block.method for block, _, _ in q.into.blocks} == {method}
    n, side = 1500, 12.0 if method == "softplus" else 3.0
    axis = torch.linspace(-side, side, n, dtype=F64) + side / n / 3
    grid = torch.cartesian_prod(axis, axis)
    inside = P.contains(grid)
    total = q.log_prob(grid[inside]).exp().sum() * (2 * side / (n - 1)) ** 2
    assert abs(float(total) - 1) < 4e-3


@pytest.mark.parametrize("name", ["cross-polytope", "equalities and bounds", "simplex", "random floats in a box"])
def test_a_density_integrates_to_one_against_uniform_points(name):
    P = ZOO[name]()
    torch.manual_seed(0)
    u = Uniform(P, dtype=F64)
    k = IntoPolyhedron(P).coefficients
    q = OnPolyhedron(Normal(torch.zeros(k, dtype=F64), torch.full((k,), 0.7, dtype=F64)), P)
    ratio = (q.log_prob(u.sample((40_000,))) + u.log_volume).exp()
    error = ratio.std() / math.sqrt(len(ratio))
    assert abs(float(ratio.mean()) - 1) < 5 * float(error)
    assert float(error) < 0.05


def test_samples_follow_the_density_that_is_stated():
    P = pentagon()
    torch.manual_seed(0)
    q = OnPolyhedron(MultivariateNormal(torch.zeros(2, dtype=F64), torch.eye(2, dtype=F64)), P)
    u = Uniform(P, dtype=F64)
    x, grid = q.sample((40_000,)), u.sample((40_000,))
    weights = q.log_prob(grid).exp() * float(u.log_volume.exp())
    for f in (lambda v: v[:, 0], lambda v: v[:, 1] ** 2, lambda v: (v[:, 0] > v[:, 1]).double()):
        expected, error = (f(grid) * weights).mean(), (f(grid) * weights).std() / 200
        assert abs(float(f(x).mean() - expected)) < 5 * float(error) + 0.01


def test_the_constraint_is_known_to_biject_to_and_transform_to():
    P = rh.box(-1, 1, (2, 2)) & rh.sum_to(0, (2, 2))
    inside = polyhedron(P)
    assert inside.event_dim == 2
    assert inside.check(torch.zeros(3, 2, 2)).tolist() == [True] * 3
    assert not inside.check(torch.ones(2, 2))
    for registry in (biject_to, transform_to):
        into = registry(inside)
        x = into(torch.randn(5, into.coefficients))
        assert inside.check(x).all()
        assert x.shape == (5, 2, 2)


def test_a_distribution_has_shapes_gradients_and_an_expansion():
    P = cross_polytope(3)
    loc = torch.zeros(4, 3, requires_grad=True)
    q = OnPolyhedron(Normal(loc, torch.ones(3)), P)
    assert (q.batch_shape, q.event_shape) == ((4,), (3,))
    x = q.rsample((7,))
    assert x.shape == (7, 4, 3)
    q.log_prob(x).sum().backward()
    assert torch.isfinite(loc.grad).all()
    assert q.expand((2, 4)).rsample().shape == (2, 4, 3)
    assert P.contains(q.deterministic_sample).all()
    with pytest.raises(ValueError, match="distribution over 3 coefficients"):
        OnPolyhedron(Normal(torch.zeros(5), 1.0), P)


def test_the_entropy_is_that_of_the_samples():
    torch.manual_seed(0)
    q = OnPolyhedron(Normal(torch.zeros(3, dtype=F64), torch.full((3,), 0.5, dtype=F64)), cross_polytope(3))
    values = -q.log_prob(q.sample((20_000,)))
    assert abs(float(q.entropy(20_000) - values.mean())) < 5 * float(values.std()) / math.sqrt(10_000)


def test_the_mode_is_the_image_of_the_bases_mode_at_every_call():
    P = rh.box(-1, 1, 2)
    loc = torch.tensor([[0.0, 0.0], [0.5, -2.0]], dtype=F64, requires_grad=True)
    q = OnPolyhedron(Normal(loc, 2.0), P)
    state = torch.random.get_rng_state()
    assert torch.equal(q.mode, q.mode)
    assert torch.equal(q.mode, IntoPolyhedron(P)(loc))
    assert torch.equal(q.mode, q.deterministic_sample)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert q.mode[0].tolist() == [0.0, 0.0]  # the centre, though the density is greater in the corners
    assert q.log_prob(torch.full((2, 2), 0.99, dtype=F64))[0] > q.log_prob(q.mode)[0]
    q.mode.sum().backward()
    assert loc.grad.all()


def test_where_coordinates_do_not_meet_the_mode_is_the_median_of_each():
    torch.manual_seed(0)
    q = OnPolyhedron(Normal(torch.tensor([0.3, -1.0], dtype=F64), 1.0), rh.nonnegative(2))
    below = (q.sample((10_000,)) < q.mode).double().mean(0)
    assert (below - 0.5).abs().max() < 0.02


@pytest.mark.parametrize(
    ("P", "expected"),
    [
        (rh.box(-1, 2, 4), 81.0),
        (cross_polytope(4), 2**4 / math.factorial(4)),
        (cross_polytope(6), 2**6 / math.factorial(6)),
        (rh.box(0, 1, 3) & rh.Polyhedron([[1, 1, 1]], 2), 5 / 6),
        (rh.ordered(None, (2, 3)) & rh.box(0, 1), 5 / math.factorial(6)),  # 5 linear extensions
        (rh.ordered(None, (3, 3)) & rh.box(0, 1), 42 / math.factorial(9)),
        (rh.monotone(5) & rh.box(0, 1), 1 / math.factorial(5)),
    ],
)
def test_volumes_of_known_polytopes(P, expected):
    assert math.isclose(P.volume(), expected, rel_tol=1e-12)


def test_a_set_without_interior_has_a_volume_within_its_hull():
    birkhoff = rh.sum_to(1, (3, 3), axis=0) & rh.sum_to(1, (3, 3), axis=1) & rh.nonnegative((3, 3))
    assert math.isclose(birkhoff.volume(relative=True), 9 / 8, rel_tol=1e-12)
    assert math.isclose(rh.simplex(4).volume(relative=True), math.sqrt(4) / 6, rel_tol=1e-12)
    with pytest.raises(ValueError, match="no interior: it is 4-dimensional in R\\^9.*relative=True"):
        birkhoff.volume()
    with pytest.raises(ValueError, match="unbounded.*P & rayhull.box"):
        rh.monotone(3).volume()


def test_the_volume_of_floats_agrees_with_counting():
    P = general(8, 4, 3)
    points = np.random.default_rng(0).uniform(-1, 1, (200_000, 4))
    share = float(P.contains(points).mean())
    assert abs(P.volume() / 16 - share) < 5 * math.sqrt(share * (1 - share) / len(points))


def test_uniform_points_are_uniform():
    torch.manual_seed(0)
    P = pentagon()
    u = Uniform(P, dtype=F64)
    assert u.method == "triangulation"
    x = u.sample((20_000,)).numpy()
    assert P.contains(x).all()
    # cut by a line through the middle into pieces of known volume
    pieces = [P & rh.Polyhedron([[1, 3]], [0]), P & rh.Polyhedron([[-1, -3]], [0])]
    expected = np.array([piece.volume() / P.volume() for piece in pieces]) * len(x)
    found = np.array([piece.contains(x).sum() for piece in pieces])
    assert stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue > 1e-3
    assert stats.kstest(Uniform(rh.box(0, 1, 2), dtype=F64).sample((5000,))[:, 0].numpy(), "uniform").pvalue > 1e-3


def test_hit_and_run_takes_over_and_says_so():
    u = Uniform(rh.box(0, 1, 3) & rh.Polyhedron([[1, 1, 1]], 2), method="hit-and-run")
    assert u.method in repr(u)
    x = u.sample((4000,))
    assert u.polyhedron.contains(x).all()
    exact = Uniform(u.polyhedron)
    assert stats.ks_2samp(x[:, 0].numpy(), exact.sample((4000,))[:, 0].numpy()).pvalue > 1e-3
    with pytest.raises(rh.BudgetExceededError, match="no density"):
        u.log_prob(x)
    with pytest.raises(ValueError, match="unbounded"):
        Uniform(rh.monotone(3))


@pytest.mark.parametrize("name", ["simplex", "monotone", "cross-polytope", "concave in a box", "equalities and bounds"])
def test_float32_near_the_boundary_stays_finite_and_right(name):
    P = ZOO[name]()
    into = IntoPolyhedron(P)
    c = coefficients(into, 40).float() * torch.logspace(0, 3, 40)[:, None]
    x = into(c)
    assert P.contains(x).all()
    wide = into.log_abs_det_jacobian(c.double(), x.double())
    torch.testing.assert_close(into.log_abs_det_jacobian(c, x).double(), wide, rtol=1e-5, atol=1e-3)
    back = into.inv(x)
    assert torch.isfinite(back).all()
    # what the inverse returns maps to the same point, up to a few ulp of the point's scale
    torch.testing.assert_close(into(back), x, rtol=0, atol=64 * 1.2e-7 * max(1.0, float(x.abs().max())))


def test_densities_compile_vmap_and_ignore_autocast():
    P = cross_polytope(3)
    into = IntoPolyhedron(P)
    c = torch.randn(5, 3)

    def both(v):
        x = into(v)
        return x, into.log_abs_det_jacobian(v, x), into._inverse(x)

    expected = both(c)
    for found in (torch.compile(both, fullgraph=True, backend="eager")(c), torch.func.vmap(both)(c)):
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for a, b in zip(both(c), expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("in_round_coordinates", [False, True])
def test_rows_of_the_sample_have_a_density_and_gradients(in_round_coordinates):
    torch.manual_seed(0)
    A = torch.randn(4, 7, 3, dtype=F64, requires_grad=True)
    base = torch.randn(4, 3, dtype=F64)
    b = (A.detach() @ base[..., None]).squeeze(-1) + torch.rand(4, 7, dtype=F64) + 0.1
    into = IntoRows(A, b, base, round=in_round_coordinates)
    c = torch.randn(4, 3, dtype=F64)
    x = into(c)
    assert into.codomain.check(x).all()
    torch.testing.assert_close(into._inverse(x), c, rtol=0, atol=1e-9)
    for i in range(4):
        one = IntoRows(A[i].detach(), b[i], base[i], round=in_round_coordinates)
        J = torch.func.jacrev(one._call)(c[i])
        expected = torch.linalg.slogdet(J)[1]
        torch.testing.assert_close(into.log_abs_det_jacobian(c, x)[i], expected, rtol=0, atol=1e-9)
    q = OnPolyhedron(Independent(Normal(torch.zeros(4, 3, dtype=F64), 1.0), 1), into)
    q.log_prob(q.rsample()).sum().backward()
    assert torch.isfinite(A.grad).all()
    assert A.grad.any()
    with pytest.raises(ValueError, match="base point of 4 of 4 samples"):
        IntoRows(A, b, base + 100)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_rows_of_the_sample_are_checked_as_contains_does(dtype):
    A, b, P = torch.ones(1, 1, dtype=dtype), torch.ones(1, dtype=dtype), rh.Polyhedron([[1.0]], [1.0])
    ulp = 2 * torch.finfo(dtype).eps  # of ‖a‖₁ max|x| + |b| at x = 1
    x = 1 + ulp * torch.tensor([[0.0], [15.0], [17.0]], dtype=dtype)
    inside = IntoRows(A, b).codomain.check(x)
    assert inside.tolist() == [True, True, False]
    assert torch.equal(inside, P.contains(x))


def test_a_transform_is_equal_to_one_for_the_same_set():
    assert IntoPolyhedron(rh.simplex(3)) == IntoPolyhedron(rh.simplex(3))
    assert IntoPolyhedron(rh.simplex(3)) != IntoPolyhedron(rh.simplex(4))
    with pytest.raises(ValueError, match="'auto' or 'radial'"):
        IntoPolyhedron(rh.simplex(3), method="softmax")
    with pytest.raises(ValueError, match="expected 2 coefficients"):
        IntoPolyhedron(rh.simplex(3))(torch.randn(3))


def test_what_is_no_set_no_base_or_no_row_is_refused_or_served():
    for takes_a_set in (IntoPolyhedron, Uniform):
        with pytest.raises(TypeError, match="expected a set without cones, got ConvexSet: give the rows alone"):
            takes_a_set(rh.ball(1, d=2))
    with pytest.raises(ValueError, match="over 2 coefficients, the dimension of the set, got event shape"):
        OnPolyhedron(Normal(0.0, 1.0), rh.box(0, 1, 2))
    with pytest.raises(ValueError, match="least slack nan"):
        IntoRows(torch.tensor([[1.0, math.nan]]), torch.ones(1))
    free = IntoRows(torch.zeros(3, 0, 2), torch.zeros(3, 0))  # without rows every point is its own
    assert torch.equal(free(torch.ones(3, 2)), torch.ones(3, 2))
    assert torch.equal(free.log_abs_det_jacobian(torch.ones(3, 2), None), torch.zeros(3))


def test_one_point_is_checked_against_the_rows_of_every_sample():
    A, b = torch.ones(4, 1, 2), torch.tensor([[0.5], [1.5], [2.5], [3.5]])
    inside = IntoRows(A, b).codomain.check
    assert inside(torch.ones(2)).tolist() == [False, False, True, True]
    assert inside(torch.ones(3, 1, 2)).shape == (3, 4)


@pytest.mark.parametrize("P", [rh.box(0, 1, 3), rh.simplex(3), pentagon()], ids=["softplus", "softmax", "radial"])
def test_a_first_use_in_inference_leaves_gradients_to_later_ones(P):
    into = IntoPolyhedron(P)
    c = torch.randn(4, into.coefficients, requires_grad=True)
    with torch.inference_mode():
        into(c)
    x = into(c)
    (x.square().sum() + into.log_abs_det_jacobian(c, x).sum()).backward()
    assert c.grad.any()
