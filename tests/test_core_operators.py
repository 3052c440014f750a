"""The core's operators: every answer must meet the optimality conditions, which only the nearest point does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.core import operators
from rayhull.maps.coefficients import without_carefully
from rayhull.maps.leak import Leak
from rayhull.maps.shrink import EPS, pull

pytestmark = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")
seeds = st.integers(0, 2**31)
BATCHES = (0, 1, 7, 8, 9, 64)


def random(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sides(c, d, bound):
    return c, torch.full((1, d), -bound, dtype=torch.float64), torch.full((1, d), bound, dtype=torch.float64)


def assert_nearest(G, m, sides, y, x, multipliers, atol=1e-12):
    """x = clip(y − G^T multipliers), rows met, multipliers non-negative and 0 where a row is slack."""
    c, lower, upper = sides
    v = y - (multipliers[:, None] @ G)[:, 0]
    gap = (G @ x[:, :, None])[:, :, 0] - c
    torch.testing.assert_close(x, torch.clamp(v, lower, upper), atol=atol, rtol=atol)
    assert (gap[:, :m] <= atol).all()
    assert (gap[:, m:].abs() <= atol).all()
    assert (multipliers[:, :m] >= 0).all()
    assert ((multipliers[:, :m] * gap[:, :m]).abs() <= atol * (1 + multipliers[:, :m])).all()


def dense_rows(G):
    none = G.new_zeros(0)
    return operators.Rows(G, none.int(), none.long(), G @ G.T, G.abs().sum(1))


def sparse_rows(G):
    row, column = G.nonzero(as_tuple=True)
    begin = torch.nn.functional.pad(torch.bincount(row, minlength=len(G)).cumsum(0), (1, 0))
    return operators.Rows(G[row, column], column.int(), begin, G @ G.T, G.abs().sum(1))


def whole(y, scale=None):
    """The points as one block each, and memory for the answer."""
    return operators.InPlace(y, torch.arange(y.shape[1], dtype=torch.int32)[None], scale, torch.full_like(y, 7.0))


def solve(rows, m, sides, y, effort, guess=(None, None), scale=None):
    """Points, multipliers, residuals and status; the counts must be those of the status."""
    at = whole(y, scale)
    multipliers, residual, _, status, open_, blurred = operators.active_set(at, rows, m, sides, guess, effort)
    assert open_ == (status != 0).sum()
    assert blurred >= ((status == 1) | (residual > 2e-14)).sum()
    return at.out, multipliers, residual, status


EFFORTS = {
    "pivoting": operators.Effort(0, 0.1, 24, 2000),
    "gradients first": operators.Effort(12, 0.1, 24, 2000),
    "exact": operators.Effort(0, 0.1, 0, 2000),
}


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("bound", [0.4, float("inf")])
@pytest.mark.parametrize("store", [dense_rows, sparse_rows])
@pytest.mark.parametrize(("count", "d", "m"), [(8, 12, 8), (8, 12, 4), (30, 10, 30), (1, 3, 0), (0, 4, 0)])
def test_the_active_set_operator_finds_nearest_points(effort, bound, store, count, d, m):
    G = torch.nn.functional.normalize(random(0, count, d), dim=1) if count else torch.zeros(0, d, dtype=torch.float64)
    inside = 0.1 * random(1, d)
    c = (G @ inside)[None] + torch.cat([0.05 * torch.rand(m, dtype=torch.float64), torch.zeros(count - m)])
    around, y = sides(c, d, bound), random(2, 50, d)
    x, multipliers, residual, status = solve(store(G), m, around, y, EFFORTS[effort])
    assert (status == 0).all()
    assert (residual < 1e-13).all()
    assert_nearest(G.expand(50, -1, -1), m, around, y, x, multipliers)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("bound", [0.6, float("inf")])
@pytest.mark.parametrize("multiplied", [True, False])
def test_a_sample_is_solved_to_the_last_bit_as_if_it_were_alone(effort, bound, multiplied):
    """Rows with which the factor of the sample before began are not factored again."""
    G, y = torch.nn.functional.normalize(random(0, 19, 14), dim=1), random(1, 40, 14)
    c = (G @ (0.1 * random(2, 14)))[None] + 0.05 * (torch.arange(19) < 12)
    rows = dense_rows(G) if multiplied else dense_rows(G)._replace(products=G.new_zeros(0, 0))
    together = solve(rows, 12, sides(c, 14, bound), y, EFFORTS[effort])
    alone = [solve(rows, 12, sides(c, 14, bound), y[n : n + 1], EFFORTS[effort]) for n in range(40)]
    for found, each in zip(together, zip(*alone, strict=True), strict=True):
        assert torch.equal(found, torch.cat(each))
    assert (together[3] == 0).all()
    assert_nearest(G.expand(40, -1, -1), 12, sides(c, 14, bound), y, *together[:2])


@pytest.mark.parametrize("effort", EFFORTS)
def test_a_wrong_guess_of_the_active_rows_is_corrected(effort):
    """Every row is said to hold the point: those that would have to pull are dropped."""
    G, y = random(0, 2, 3), 0.2 * random(1, 40, 3)
    around = sides(torch.full((1, 2), 0.3).double(), 3, 1.0)
    guess = torch.ones(40, 2, dtype=torch.bool), torch.zeros(40, 3, dtype=torch.int8)
    x, multipliers, residual, status = solve(dense_rows(G), 2, around, y, EFFORTS[effort], guess)
    assert (status == 0).all()
    assert (residual <= 1e-10).all()
    assert_nearest(G.expand(40, -1, -1), 2, around, y, x, multipliers)


def test_a_chain_of_differences_is_solved_inside_its_envelope():
    G = torch.nn.functional.normalize(
        (torch.eye(40) - 2 * torch.eye(40).roll(1, 1) + torch.eye(40).roll(2, 1))[:38].double()
    )
    around, y = sides(torch.zeros(1, 38, dtype=torch.float64), 40, 1.0), random(0, 30, 40)
    x, multipliers, _, status = solve(sparse_rows(G), 38, around, y, EFFORTS["pivoting"])
    assert (status == 0).all()
    assert_nearest(G.expand(30, -1, -1), 38, around, y, x, multipliers, atol=1e-10)


def differences(tails, heads, roots):
    """Unit rows along z[tail] / root[tail] − z[head] / root[head], and the same for the forest."""
    each = torch.arange(len(tails))
    G = roots.new_zeros((len(tails), len(roots)))
    G[each, tails], G[each, heads] = 1 / roots[tails], -1 / roots[heads]
    G = torch.nn.functional.normalize(G, dim=1)
    return G, sparse_rows(G)._replace(roots=roots, sweep=torch.arange(len(tails)).flip(0).int())


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(2, 25), st.floats(0.5, 3.0), st.booleans(), st.booleans(), st.booleans())
def test_the_forest_finds_nearest_points_of_any_differences(seed, d, density, acyclic, weighted, bounded):
    """Orders and rows in a circle, with steps and weights, in no box or in one of its own for each coordinate."""
    rng = torch.Generator().manual_seed(seed)
    tails, heads = torch.randint(0, d, (2, max(1, int(density * d))), generator=rng)
    if acyclic:
        tails, heads = torch.minimum(tails, heads), torch.maximum(tails, heads)
    tails, heads = tails[tails != heads], heads[tails != heads]
    roots = 0.3 + 2 * torch.rand(d, generator=rng).double() if weighted else torch.ones(d).double()
    G, rows = differences(tails, heads, roots)
    inside, slack = random(seed + 1, d), torch.rand(len(G), generator=rng).double()
    c = (G @ inside + torch.where(slack < 0.5, 0.0, slack - 0.5))[None]  # some rows met by that point, some slack
    width = 0.1 + torch.rand(1, d, generator=rng).double() if bounded else torch.full((1, d), torch.inf).double()
    around, y = (c, inside - width, inside + width), 2 * random(seed + 2, 20, d)
    x, multipliers, residual, status = solve(rows, len(G), around, y, EFFORTS["exact"])
    assert (status == 0).all()
    assert (residual < 1e-13).all()
    assert_nearest(G.expand(20, -1, -1), len(G), around, y, x, multipliers)
    guess = torch.rand(20, len(G), generator=rng) < 0.5, torch.zeros(20, d, dtype=torch.int8)
    again, *_ = solve(rows, len(G), around, y, EFFORTS["exact"], guess)
    torch.testing.assert_close(again, x, atol=1e-12, rtol=1e-12)


def test_the_forest_proves_differences_empty():
    """x0 < x1 < x2 < x0 by steps of 0.7 has no point; nor has x0 < x1 < x2 alone in a box that is 1 wide."""
    tails, heads, ones = torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), torch.ones(10).double()
    G, rows = differences(tails, heads, ones)
    y, c = random(0, 20, 10), torch.full((1, 3), -0.5).double()
    assert (solve(rows, 3, sides(c, 10, torch.inf), y, EFFORTS["exact"])[3] == 2).all()
    G, rows = differences(tails[:2], heads[:2], ones)
    assert (solve(rows, 2, sides(c[:, :2], 10, 0.5), y, EFFORTS["exact"])[3] == 2).all()
    x, multipliers, _, status = solve(rows, 2, sides(c[:, :2], 10, 0.8), y, EFFORTS["exact"])
    assert (status == 0).all()
    assert_nearest(G.expand(20, -1, -1), 2, sides(c[:, :2], 10, 0.8), y, x, multipliers)


def test_rows_that_are_no_differences_are_refused_by_the_forest():
    ones = torch.ones(4).double()
    G, rows = differences(torch.tensor([0, 1]), torch.tensor([1, 2]), ones)
    y, around = random(0, 3, 4), sides(torch.zeros(1, 2).double(), 4, 1.0)
    for other, said in (
        (rows._replace(data=rows.data.abs()), "no differences"),
        (rows._replace(roots=-ones), "no differences"),
        (rows._replace(begin=torch.tensor([0, 1, 4])), "no differences"),
        (rows._replace(roots=ones[:3]), "root for each"),
        (rows._replace(sweep=rows.sweep[:1]), "root for each"),
        (rows._replace(sweep=rows.sweep + 1), "out of range"),
        (dense_rows(G)._replace(roots=ones, sweep=rows.sweep), "sparse rows"),
    ):
        with pytest.raises(RuntimeError, match=said):
            solve(other, 2, around, y, EFFORTS["exact"])


def test_every_sample_may_have_rows_of_its_own():
    G, y = torch.nn.functional.normalize(random(0, 20, 6, 9), dim=2), random(1, 20, 9)
    around = sides((G @ (0.1 * random(2, 20, 9, 1)))[:, :, 0], 9, 2.0)
    effort = operators.Effort(20, 0.0, 24, 2000)
    x, multipliers, _, status = solve(operators.Rows.of_samples(G), 4, around, y, effort)
    assert (status == 0).all()
    assert_nearest(G, 4, around, y, x, multipliers)
    active, state = torch.ones(20, 6, dtype=torch.bool), torch.zeros(20, 9, dtype=torch.int8)
    q = random(3, 20, 6)
    w = operators.active_system(operators.Rows.of_samples(G), q, active, state)
    torch.testing.assert_close((G @ G.mT @ w[:, :, None])[:, :, 0], q)


def test_the_system_of_the_active_rows_leaves_out_fixed_coordinates():
    G, q = random(0, 5, 8), random(1, 30, 5)
    active = torch.rand(30, 5, generator=torch.Generator().manual_seed(2)) < 0.6
    state = torch.zeros(30, 8, dtype=torch.int8)
    state[torch.arange(30), torch.arange(30) % 8], state[::2, 3] = 1, -1
    for store in (dense_rows, sparse_rows):
        w = operators.active_system(store(G), q, active, state)
        for i in range(30):
            H = G[active[i]][:, state[i] == 0]
            torch.testing.assert_close(H @ H.T @ w[i, active[i]], q[i, active[i]], atol=1e-9, rtol=1e-9)
            assert (w[i, ~active[i]] == 0).all()


def test_rows_that_join_those_kept_from_the_last_sample_stay_inside_the_factor():
    G, q = random(0, 6, 9), random(1, 40, 6)
    rows = dense_rows(G)._replace(products=G.new_zeros(0, 0))  # made by the kernel, three rows at a time
    active, state = torch.ones(40, 6, dtype=torch.bool), torch.zeros(40, 9, dtype=torch.int8)
    active[::2, :2] = False  # of six rows, four are kept and two join
    w = operators.active_system(rows, q, active, state)
    for i in range(40):
        H = G[active[i]]
        torch.testing.assert_close(H @ H.T @ w[i, active[i]], q[i, active[i]], atol=1e-9, rtol=1e-9)


def test_an_empty_set_is_proven_empty_and_nan_is_unsolved():
    G = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    around, y = sides(torch.tensor([[-1.0, -1.0]], dtype=torch.float64), 2, 5.0), random(0, 3, 2)
    assert (solve(dense_rows(G), 2, around, y, EFFORTS["pivoting"])[3] == 2).all()
    around = sides(torch.ones(1, 2, dtype=torch.float64), 2, 5.0)
    y[1, 0] = float("nan")
    for effort in EFFORTS.values():
        assert solve(dense_rows(G), 2, around, y, effort)[3].tolist() == [0, 1, 0]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**31), st.booleans(), st.sampled_from([1e-3, 1.0, 1e6, 1e30])
)
def test_clipped_shifts_of_any_size_meet_their_row(size, count, seed, equality, scale):
    a = random(seed, size) + 0.1
    y = scale * random(seed + 1, 7, size * count + 2)
    index = torch.randperm(size * count + 2, generator=torch.Generator().manual_seed(seed))[: size * count]
    index = index.reshape(count, size).int()
    c, lower, upper = sides(torch.full((1, 1), 0.3 * float(a.abs().sum()), dtype=torch.float64), size, 1.0)
    out = torch.full_like(y, 7.0)
    at = operators.InPlace(y, index, None, out)
    t, residual, _, status, open_ = operators.clipped_shift(at, a, (c, lower, upper), equality)
    t = t[:, 0]
    assert open_ == 0 == status.sum()
    z, v = (w[:, index.long()].reshape(-1, size) for w in (out, y))
    assert (residual < 1e-12).all()
    total = z @ a
    assert (total <= c + 1e-12).all()
    assert (equality | (t >= 0)).all() if not equality else ((total - c).abs() < 1e-12).all()
    assert ((t == 0) | ((total - c[:, 0]).abs() < 1e-12)).all()
    torch.testing.assert_close(z, torch.clamp(v - t[:, None] * a, lower, upper), atol=1e-9 * scale, rtol=0)
    rest = torch.ones(y.shape[1], dtype=torch.bool)
    rest[index.flatten().long()] = False
    assert (out[:, rest] == 7.0).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), seeds, st.sampled_from([0.3, 1.0, float("inf")]), st.booleans())
def test_pooled_chains_are_nearest_increasing_sequences(d, seed, bound, coarse):
    y = random(seed, 20, d)
    y = y.round() if coarse else y  # values that coincide
    weights = random(seed + 1, d).abs() + 0.1
    root = weights.sqrt()
    _, lower, upper = sides(None, d, bound)
    lower = lower + 0.1 * random(seed + 2, 1, d).round()
    order = torch.randperm(d, generator=torch.Generator().manual_seed(seed))
    between = torch.randperm(d - 1, generator=torch.Generator().manual_seed(seed + 3))
    path = operators.Path(order.int(), between.int(), torch.ones(d - 1, dtype=torch.float64), root)
    around = torch.zeros(1, d - 1, dtype=torch.float64), torch.empty_like(lower), torch.empty_like(upper)
    around[1][:, order], around[2][:, order] = lower * root, upper * root
    at = whole(y, root[None])
    multipliers, residual, _, status, open_ = operators.pool_adjacent(at, path, around)
    x, multipliers = at.out, multipliers[:, between]
    assert open_ == (status != 0).sum()
    empty = (lower.cummax(1).values > upper).any()
    assert (status == (2 if empty else 0)).all()
    if not empty:
        assert (residual < 1e-12).all()
        D = torch.eye(d, dtype=torch.float64)[:-1] - torch.eye(d, dtype=torch.float64)[1:]
        around = torch.zeros(1, d - 1, dtype=torch.float64), lower * root, upper * root
        assert_nearest((D / root).expand(20, -1, -1), d - 1, around, y * root, x * root, multipliers, atol=1e-10)


def test_doors_refuse_what_does_not_fit():
    y = random(0, 4, 3)
    none = torch.zeros(0, dtype=torch.float64)
    path = operators.Path(torch.arange(3).int(), torch.arange(2).int(), none.new_ones(2), none.new_ones(3))
    with pytest.raises(RuntimeError, match="one row, or one for each sample"):
        operators.pool_adjacent(whole(y), path, (y[:1, :2], y[:2], y))
    with pytest.raises(RuntimeError, match="another dtype"):
        operators.pool_adjacent(whole(y.half()), path, (y[:1, :2], y, y))
    with pytest.raises(RuntimeError, match="like the points"):
        operators.pool_adjacent(whole(y)._replace(out=y.float()), path, (y[:1, :2], y, y))
    with pytest.raises(RuntimeError, match="out of range"):
        operators.pool_adjacent(whole(y), path._replace(rows=torch.tensor([0, 2]).int()), (y[:1, :2], y, y))
    at = operators.InPlace(y, torch.tensor([[0, 3]], dtype=torch.int32), None, torch.empty_like(y))
    with pytest.raises(RuntimeError, match="out of range"):
        operators.clipped_shift(at, torch.ones(2).double(), sides(y[:1, :1], 2, 1.0), False)
    rows = operators.Rows(
        torch.ones(2).double(), torch.tensor([0, 9]).int(), torch.tensor([0, 1, 2]), none[:, None], y[0, :2]
    )
    with pytest.raises(RuntimeError, match="out of range"):
        solve(rows, 2, sides(y[:1, :2], 3, 1.0), y, EFFORTS["exact"])


def test_blocks_are_read_from_and_written_to_their_places_at_their_scale():
    x, index = random(0, 3, 7).float(), torch.tensor([[5, 0], [2, 6]], dtype=torch.int32)
    scale = torch.tensor([[2.0, 1.0], [-1.0, -3.0]], dtype=torch.float64)
    G, c = torch.tensor([[0.6, 0.8]], dtype=torch.float64), torch.full((1, 1), -0.5, dtype=torch.float64)
    around, out = sides(c, 2, 1.0), torch.full_like(x, 7.0)
    operators.active_set(
        operators.InPlace(x, index, scale, out), dense_rows(G), 1, around, (None, None), EFFORTS["pivoting"]
    )
    points = (x[:, index.long()].double() * scale).reshape(6, 2)
    z, *_ = solve(dense_rows(G), 1, around, points, EFFORTS["exact"])
    torch.testing.assert_close(out[:, index.long()], (z.reshape(3, 2, 2) / scale).float())
    shifted = torch.full_like(x, 7.0)
    operators.clipped_shift(operators.InPlace(x, index, scale, shifted), G[0], around, False)
    torch.testing.assert_close(shifted, out)
    assert (out[:, [1, 3, 4]] == 7.0).all()


def test_bounds_that_cross_are_empty_and_an_order_is_clamped_to_its_box():
    G = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64) / 2**0.5
    y, effort = 3 * random(0, 20, 3), EFFORTS["pivoting"]
    around = sides(torch.zeros(1, 2, dtype=torch.float64), 3, 0.5)
    x, multipliers, _, status = solve(dense_rows(G), 2, around, y, effort._replace(clamped=True))
    assert (status == 0).all()
    torch.testing.assert_close(x, solve(dense_rows(G), 2, around, y, effort)[0])
    assert_nearest(G.expand(20, -1, -1), 2, around, y, x, multipliers)
    crossed = around[0], around[2], around[1]
    assert (solve(dense_rows(G), 2, crossed, y, effort)[3] == 2).all()
    assert (operators.clipped_shift(whole(y), G[0], (crossed[0][:, :1], *crossed[1:]), False)[3] == 2).all()


# -- backward passes of blocks in their places -------------------------------------------------------------------------

SCALES = ("none", "mirrored", "weighted")


def blocks(seed, n, count, d, scaled, dtype):
    """Points with ``count`` blocks at random places, the index and its scale."""
    rng = torch.Generator().manual_seed(seed)
    index = torch.randperm(count * d + 2, generator=rng)[: count * d].reshape(count, d).int()
    signs = 1.0 - 2.0 * torch.randint(0, 2, (count, d), generator=rng).double()
    weights = (
        0.5 + torch.rand(count, d, generator=rng).double() if scaled == "weighted" else torch.ones(count, d).double()
    )
    return random(seed, n, count * d + 2).to(dtype), index, None if scaled == "none" else signs * weights


def in_blocks(x, index, scale):
    picked = x[:, index.long()].double()
    return (picked if scale is None else picked * scale).reshape(-1, index.shape[1])


def pulled_back(G, active, v, lower, upper, g):
    """The definition: g − Gᵀ w where v is at no bound, G_W D G_Wᵀ w = G_W D g over active rows; who is free; w."""
    free, w = ~((v > upper) | (v < lower)), torch.zeros(active.shape).double()
    for s in range(len(g)):
        W = G[active[s]] * free[s]
        w[s, active[s]] = torch.linalg.pinv(W @ W.T, rtol=1e-10, hermitian=True) @ (W @ g[s])
    return torch.where(free, g - w @ G, 0.0), free, w


def assert_gradients_in_places(out, index, scale, wanted, tolerance):
    inverse = None if scale is None else 1 / scale
    torch.testing.assert_close(in_blocks(out, index, inverse), wanted, atol=tolerance, rtol=tolerance)
    rest = torch.ones(out.shape[1], dtype=torch.bool)
    rest[index.flatten().long()] = False
    assert (out[:, rest] == 7.0).all()


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("scaled", SCALES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("equality", [False, True])
def test_gradients_of_clipped_shifts_are_those_of_the_definition(n, scaled, own, equality):
    for dtype, tolerance, d in ((torch.float64, 1e-12, 5), (torch.float32, 1e-5, 3)):
        x, index, scale = blocks(n, n, 3, d, scaled, dtype)
        a, lower = random(1, d), -random(2, 3 * n if own else 1, d).abs()
        upper, c = lower + random(3, 1, d).abs() + 0.2, torch.full((1, 1), -0.1).double()
        c = c if equality else c + 0.5
        at = operators.InPlace(x, index, scale, torch.empty_like(x))
        shifts, *_ = operators.clipped_shift(at, a, (c, lower, upper), equality)
        shifts[1:2] = torch.nan  # of a block with no feasible point
        g, out = random(4, *x.shape).to(dtype), torch.full_like(x, 7.0)
        w = operators.clipped_shift_backward(g, at._replace(out=out), a, shifts, (lower, upper), equality)
        mine = in_blocks(g, index, None if scale is None else 1 / scale)
        mine[1:2] = 0.0
        v = in_blocks(x, index, scale) - shifts * a
        wanted, _, w_wanted = pulled_back(a[None], (shifts > 0) | equality, v, lower, upper, mine)
        assert_gradients_in_places(out, index, scale, wanted, tolerance)
        torch.testing.assert_close(w, w_wanted)


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("scaled", SCALES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("one_box", [False, True])
def test_gradients_of_pooled_chains_are_those_of_the_definition(n, scaled, own, one_box):
    for dtype, tolerance, d in ((torch.float64, 1e-9, 7), (torch.float32, 1e-4, 4), (torch.float64, 1e-9, 1)):
        x, index, scale = blocks(n, n, 2, d, scaled, dtype)
        rng = torch.Generator().manual_seed(d)
        order, between = torch.randperm(d, generator=rng), torch.randperm(d - 1, generator=rng)
        roots, unit_steps = 0.5 + torch.rand(d, generator=rng).double(), 0.5 + torch.rand(d - 1, generator=rng).double()
        path = operators.Path(order.int(), between.int(), unit_steps, roots)
        G = torch.zeros(d - 1, d).double()  # along the path
        for k, row in enumerate(between):
            G[row, k], G[row, k + 1] = 1 / (roots[k] * unit_steps[row]), -1 / (roots[k + 1] * unit_steps[row])
        width = torch.ones(2 * n if own else 1, d) if one_box else 0.2 + random(3, 2 * n if own else 1, d).abs()
        lower, upper = -0.4 * width.double() * roots[order.argsort()], 0.4 * width.double() * roots[order.argsort()]
        c = torch.zeros(1, d - 1).double() if one_box else random(5, 1, d - 1).abs()
        at = operators.InPlace(x, index, scale, torch.empty_like(x))
        multipliers, *_, open_ = operators.pool_adjacent(at, path, (c, lower, upper))
        assert open_ == 0
        multipliers[1:2] = torch.nan  # of a block with no feasible point
        g, out = random(4, *x.shape).to(dtype), torch.full_like(x, 7.0)
        w = operators.pool_adjacent_backward(g, at._replace(out=out), path, multipliers, (lower, upper))
        mine = in_blocks(g, index, None if scale is None else 1 / scale)
        mine[multipliers.isnan().any(1)] = 0.0
        active, v = multipliers > 0, in_blocks(x, index, scale) - multipliers @ G
        bounds = lower[:, order] - 1e-12, upper[:, order] + 1e-12  # of a pool at its box one coordinate is held
        wanted, free, w_wanted = pulled_back(G, active, v, *bounds, mine)
        assert_gradients_in_places(out, index, scale, wanted, tolerance)
        torch.testing.assert_close(w, w_wanted, atol=tolerance, rtol=tolerance)
        assert not free.all() or n < 2


@pytest.mark.parametrize("n", BATCHES)
@pytest.mark.parametrize("scaled", SCALES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "differences"])
def test_gradients_of_active_sets_are_those_of_the_definition(n, scaled, own, kind):
    """Whatever is active: a row that depends on others, all of them, none; coordinates at bounds."""
    for dtype, tolerance, d in ((torch.float64, 1e-9, 7), (torch.float32, 1e-4, 4)):
        x, index, scale = blocks(n, n, 2, d, scaled, dtype)
        rng = torch.Generator().manual_seed(d)
        tails = torch.cat([torch.arange(d - 1), torch.randint(0, d - 1, (d,), generator=rng)])
        G, rows = differences(tails, torch.full_like(tails, d - 1), 0.5 + torch.rand(d, generator=rng).double())
        if kind != "differences":
            G = torch.nn.functional.normalize(random(6, d + 1, d) * (random(7, d + 1, d) > 0), dim=1)
            G[-1] = G[0]
            rows = dense_rows(G) if kind == "dense" else sparse_rows(G)
        m = len(G) if kind == "differences" else len(G) - 2
        multipliers = (random(8, 2 * n, len(G)) - 0.7).relu() * torch.tensor([0.0, 1.0]).double()[
            torch.randint(0, 2, (2 * n, 1), generator=rng)
        ]
        lower = -0.5 - random(2, 2 * n if own else 1, d).abs()
        bounds = lower, -0.9 * lower
        g, out = random(4, *x.shape).to(dtype), torch.full_like(x, 7.0)
        operators.active_set_backward(g, operators.InPlace(x, index, scale, out), rows, m, multipliers, bounds)
        active = multipliers > 0
        active[:, m:] = True
        mine = in_blocks(g, index, None if scale is None else 1 / scale)
        wanted, free, _ = pulled_back(G, active, in_blocks(x, index, scale) - multipliers @ G, *bounds, mine)
        assert_gradients_in_places(out, index, scale, wanted, tolerance)
        assert not free.all() or n < 2


def test_backward_passes_in_places_refuse_what_does_not_fit():
    x, index, scale = blocks(0, 4, 2, 3, "weighted", torch.float64)
    a, lower, upper, out = random(1, 3), random(2, 1, 3), random(3, 1, 3), torch.empty_like(x)
    shifts, multipliers, ones = random(4, 8, 1), random(5, 8, 2), torch.ones(3).double()
    path = torch.arange(3).int(), torch.arange(2).int(), ones[:2], ones
    at, bounds = operators.InPlace(x, index, scale, out), (lower, upper)
    for said, values in (
        ("one gradient for each point", (x[:3], at, a, shifts, bounds, True)),
        ("one multiplier for each row", (x, at, a, shifts[:7], bounds, True)),
        ("one coefficient", (x, at, a[:2], shifts, bounds, True)),
        ("out of range", (x, at._replace(places=index + 9), a, shifts, bounds, True)),
        ("like the points", (x, at._replace(out=out.float()), a, shifts, bounds, True)),
        ("one row, or one for each", (x, at, a, shifts, (lower.expand(3, 3), upper), True)),
    ):
        with pytest.raises(RuntimeError, match=said):
            operators.clipped_shift_backward(*values)
    for said, values in (
        ("one gradient for each point", (x[:3], at, path, multipliers, bounds)),
        ("one multiplier", (x, at, path, multipliers[:7], bounds)),
        ("one multiplier", (x, at, path, multipliers[:, :1], bounds)),
        ("a path needs", (x, at, (path[0][:2], *path[1:]), multipliers, bounds)),
        ("out of range", (x, at, (path[0] + 1, *path[1:]), multipliers, bounds)),
    ):
        with pytest.raises(RuntimeError, match=said):
            operators.pool_adjacent_backward(*values)
    G = random(6, 2, 3)
    for said, values in (
        ("one gradient for each point", (x[:3], at, dense_rows(G), 2, multipliers, bounds)),
        ("one multiplier", (x, at, dense_rows(G), 2, multipliers[:, :1], bounds)),
        ("rows of another width", (x, at, dense_rows(G[:, :2]), 2, multipliers, bounds)),
        ("derivative of their own", (x, at, operators.Rows.of_samples(random(7, 0, 2, 3)), 2, multipliers, bounds)),
    ):
        with pytest.raises(RuntimeError, match=said):
            operators.active_set_backward(*values)


# -- the layer's operators, each against its definition in torch -------------------------------------------------------


def splitting_constants(seed, n, k, rank=None):
    """Constants of the size of a real splitting: T has its eigenvalues in [0, 1]."""
    shapes = ((k, n), (k, n), (k, k if rank is None else rank), (n, k), (n, n))
    rows, first, turn, last, onto = (0.4 * random(seed + i, *shape) for i, shape in enumerate(shapes))
    turn = turn / torch.linalg.matrix_norm(turn, 2).clamp_min(1e-9)
    return rows, first, turn @ turn.T if rank is None else turn, last, onto


def split(y, rows, first, turn, last, onto, low, high, steps, relaxation):
    """The definition."""
    T = turn if turn.shape[0] == turn.shape[1] else turn @ turn.T
    t, s = y @ rows.T, y @ first.T
    for _ in range(steps):
        w = t.clamp(low, high)
        t = t + relaxation * (s + (2 * w - t) @ T - w)
    return y @ onto.T + (2 * t.clamp(low, high) - t) @ last.T


@pytest.mark.parametrize("count", BATCHES)
@pytest.mark.parametrize(("n", "k", "rank"), [(3, 5, None), (9, 8, None), (12, 30, 7), (1, 1, None), (4, 0, None)])
@pytest.mark.parametrize("own", [False, True])
def test_splitting_and_its_gradient_are_those_of_the_definition(count, n, k, rank, own):
    constants = splitting_constants(0, n, k, rank)
    y, low = random(5, count, n).requires_grad_(), -random(6, count if own else 1, k).abs()
    high = low + random(7, 1, k).abs()
    low[:, ::3] = -torch.inf
    sides = low.expand(count, k).clone().requires_grad_(), high.expand(count, k).clone().requires_grad_()
    wanted, g = split(y, *constants, *sides, 6, 1.7), random(8, count, n)
    x, states = operators.splitting(y.detach(), *constants, low, high, 6, 1.7, True)
    torch.testing.assert_close(x, wanted)
    assert states.shape == (count, 7, k)
    assert operators.splitting(y.detach(), *constants, low, high, 6, 1.7, False)[1].numel() == 0
    gradients = torch.autograd.grad(wanted, (y, *sides), g, allow_unused=True)
    found = operators.splitting_backward(g, states, *constants, 6, 1.7)
    for gradient, mine, like in zip(gradients, found, (y, *sides), strict=True):
        torch.testing.assert_close(mine, torch.zeros_like(like) if gradient is None else gradient)
    single, kept = operators.splitting(y.detach().float(), *constants, low, high, 6, 1.7, True)
    torch.testing.assert_close(single.double(), wanted, atol=1e-4, rtol=1e-4)
    if torch.equal(kept, states):  # rounding may move a number that is next to a bound
        for mine, other in zip(found, operators.splitting_backward(g.float(), kept, *constants, 6, 1.7), strict=True):
            torch.testing.assert_close(other.double(), mine, atol=1e-4, rtol=1e-4)


def test_a_splitting_does_not_depend_on_how_many_samples_there_are():
    constants, y = splitting_constants(0, 10, 21), random(5, 19, 10).float()
    low, high = -random(6, 1, 21).abs(), random(7, 1, 21).abs()
    x, states = operators.splitting(y, *constants, low, high, 9, 1.6, True)
    for i in range(19):
        alone = operators.splitting(y[i : i + 1], *constants, low, high, 9, 1.6, True)
        assert torch.equal(alone[0][0], x[i])
        assert torch.equal(alone[1][0], states[i])


@pytest.mark.parametrize("count", [1, 9])
def test_a_splitting_that_overflows_in_single_precision_is_repeated_in_double(count):
    constants, y = splitting_constants(0, 3, 5), random(5, count, 3).float()
    y[0] *= 1e30
    large = [constants[0] * 1e15, *constants[1:3], constants[3] * 1e-15, constants[4]]
    low, high = torch.full((2, 1, 5), torch.inf, dtype=torch.float64) * torch.tensor([-1.0, 1.0])[:, None, None]
    x, states = operators.splitting(y, *large, low, high, 4, 1.5, True)
    wanted = split(y.double(), *large, low, high, 4, 1.5)
    torch.testing.assert_close(x, wanted.float(), rtol=1e-4, atol=1e-4)
    g = torch.full((count, 3), 1e30)
    gy, *_ = operators.splitting_backward(g, states, *large, 4, 1.5)
    torch.testing.assert_close(gy.double(), split_transposed(g.double(), large, 4, 1.5), rtol=1e-4, atol=1e-4)


def split_transposed(g, constants, steps, relaxation):
    y = torch.zeros_like(g).requires_grad_()
    return torch.autograd.grad(split(y, *constants, None, torch.tensor(torch.inf), steps, relaxation), y, g)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_sample_that_is_not_a_number_stays_none_and_leaves_the_others(dtype):
    constants, y = splitting_constants(0, 4, 6), random(5, 10, 4).to(dtype)
    low, high = -torch.ones(10, 6).double(), torch.ones(10, 6).double()
    x, _ = operators.splitting(y, *constants, low, high, 5, 1.5, False)
    y[3, 1], low[8, 2] = torch.nan, torch.nan
    after, states = operators.splitting(y, *constants, low, high, 5, 1.5, True)
    assert after.isnan().all(1).nonzero()[:, 0].tolist() == [3, 8]
    others = [i for i in range(10) if i not in (3, 8)]
    assert torch.equal(after[others], x[others])
    assert (states[3] == 0).all()


def test_a_splitting_refuses_constants_that_do_not_fit():
    constants, y = splitting_constants(0, 4, 6), random(5, 3, 4)
    low, high = -torch.ones(1, 6).double(), torch.ones(1, 6).double()
    for i, wrong in enumerate(constants):
        other = [*constants[:i], wrong[:-1], *constants[i + 1 :]]
        with pytest.raises(RuntimeError, match="do not fit each other"):
            operators.splitting(y, *other, low, high, 2, 1.5, True)
    for said, values in (
        ("another size", (y[:, :3], *constants, low, high, 2)),
        ("one row, or one for each", (y, *constants, low[:, :5], high, 2)),
        ("one row, or one for each", (y, *constants, low, high.expand(2, 6), 2)),
        ("steps", (y, *constants, low, high, -1)),
        ("another dtype", (y, *(v.float() for v in constants), low, high, 2)),
        ("another dtype", (y.half(), *constants, low, high, 2)),
    ):
        with pytest.raises(RuntimeError, match=said):
            operators.splitting(*values, 1.5, True)
    states = operators.splitting(y, *constants, low, high, 2, 1.5, True)[1]
    for other in (states[:2], states[:, :2], states[:, :, :5]):
        with pytest.raises(RuntimeError, match="another splitting"):
            operators.splitting_backward(y, other, *constants, 2, 1.5)


def pulled(
    x,
    places,
    sign,
    hull,
    equal,
    start,
    along,
    tight,
    tight_bounds,
    loose,
    loose_rhs,
    loose_bounds,
    numbers,
    moving,
    conic,
):
    """The definition."""
    out, dtype, count = x.clone(), x.dtype, len(x)
    x = (x[:, places.long()].double() * sign[:, None]).reshape(-1, len(start))
    loose_slope, tight_slope, constant, kept, tiny, reach, limit = numbers
    x = hull + without_carefully(x - hull, equal) if equal.shape[1] else x
    size = x.abs().amax(1)
    scale = size.clamp(tiny, reach) if moving else torch.zeros_like(size)
    excess = torch.full_like(size, -1.0)
    if len(loose) or len(loose_bounds):
        values = [x @ loose.T - loose_rhs]
        if len(loose_bounds):
            values += [x * loose_bounds[0] - loose_bounds[2], -x * loose_bounds[1] - loose_bounds[3]]
        excess = torch.cat(values, 1).amax(1) + loose_slope * (size + scale) + constant
        excess = excess if conic else excess / (1 + scale)
    if len(tight) or len(tight_bounds):
        values = [x @ tight.T, *([x * tight_bounds[0], -x * tight_bounds[1]] if len(tight_bounds) else [])]
        excess = torch.maximum(excess, (torch.cat(values, 1).amax(1) + tight_slope * (size + scale)) / scale)
    inside = pull(x, start + scale[:, None] * along, (excess + 8 * EPS) / kept, limit)
    inside = torch.where(size[:, None] < tiny, 0.0, inside) if conic else inside
    out[:, places.long()] = (inside.reshape(count, *places.shape) * sign[:, None]).to(dtype)
    return out


def strict_constants(seed, n, kind, places=None, sign=(1.0,)):
    """What a set with its interior point at ``start`` + scale · ``along`` gives; (moving, conic) by the kind."""
    places = torch.arange(n)[None] if places is None else places
    none, moving, conic = random(0, 0, n), kind != "fixed", kind == "conic"
    equal = torch.linalg.qr(random(seed, n, n // 3)).Q
    bounds = random(seed + 1, 4, n).abs()
    bounds[2:, ::2] = torch.inf
    bounds[:2, ::2] = 0.0
    tight = (random(seed + 2, 5, n), bounds[:2]) if conic else (none, none)
    numbers = torch.tensor([1e-3, 2e-3, 1e-4, 0.9, 1e-30, 5.0, 1e30], dtype=torch.float64)
    loose = random(seed + 3, 9, n), random(seed + 4, 9).abs(), bounds
    return (
        places.int(),
        torch.tensor(sign, dtype=torch.float64),
        random(seed + 5, n),
        equal,
        0.1 * random(seed + 6, n),
        random(seed + 7, n),
        *tight,
        *loose,
        numbers,
        moving,
        conic,
    )


@pytest.mark.parametrize("count", BATCHES)
@pytest.mark.parametrize("n", [2, 9])
@pytest.mark.parametrize("kind", ["fixed", "moving", "conic"])
@pytest.mark.parametrize("left_out", [(), ("bounds",), ("loose",), ("rows",)])
def test_the_strict_pull_is_that_of_the_definition(count, n, kind, left_out):
    constants, none = list(strict_constants(0, n, kind)), random(0, 0, n)
    if "bounds" in left_out:
        constants[7] = constants[10] = none
    if "loose" in left_out:
        constants[8:11] = none, random(0, 0), none
    if "rows" in left_out:
        constants[6] = constants[8] = none
        constants[9] = random(0, 0)
    x = random(9, count, n) * torch.logspace(-3, 3, max(count, 1), dtype=torch.float64)[:count, None]
    x[1:2] = 0.0
    torch.testing.assert_close(operators.strict_pull(x, *constants), pulled(x, *constants), rtol=1e-9, atol=1e-12)
    single = x.float()
    torch.testing.assert_close(operators.strict_pull(single, *constants), pulled(single, *constants))


@pytest.mark.parametrize("count", BATCHES)
def test_the_strict_pull_serves_blocks_where_they_stand(count):
    places = torch.tensor([[9, 2, 3, 4], [1, 0, 7, 8]])  # 5 and 6 are of other blocks
    constants = strict_constants(0, 4, "moving", places, (1.0, -1.0))
    for x in (3 * random(9, count, 10), 3 * random(9, count, 10).float()):
        got = operators.strict_pull(x, *constants)
        torch.testing.assert_close(got, pulled(x, *constants))
        assert torch.equal(got[:, 5:7], x[:, 5:7])


def test_the_strict_pull_leaves_what_is_well_inside_and_what_is_no_number():
    constants = list(strict_constants(0, 6, "fixed"))
    constants[3] = constants[3][:, :0]  # no equalities
    x = constants[4] + 1e-3 * random(9, 11, 6)
    assert torch.equal(operators.strict_pull(x, *constants), x)
    x[2, 3], x[9, 0], x[10] = torch.nan, torch.inf, 1e308
    out = operators.strict_pull(x, *constants)
    assert out.isnan().all(1).nonzero()[:, 0].tolist() == [2, 9]
    assert torch.equal(out[:2], x[:2])
    assert out[10].isfinite().all()


def test_the_strict_pull_refuses_what_does_not_fit():
    constants, x = list(strict_constants(0, 6, "conic")), random(9, 3, 6)
    said = ["another size"] * 6 + ["gauge of another size"] * 3 + ["right-hand side", "gauge of another size", "seven"]
    for i, message in enumerate(said):
        other = constants[i][..., :-1] if i not in (3, 6, 7, 8, 10) else constants[i].new_zeros(3, 5)
        with pytest.raises(RuntimeError, match=message):
            operators.strict_pull(x, *constants[:i], other, *constants[i + 1 :])
    with pytest.raises(RuntimeError, match="another size"):
        operators.strict_pull(x[:, :5], *constants)
    with pytest.raises(RuntimeError, match="another dtype"):
        operators.strict_pull(x.half(), *constants)
    with pytest.raises(RuntimeError, match="out of range"):
        operators.strict_pull(x, constants[0] + 1, *constants[1:])


@pytest.mark.parametrize("count", BATCHES)
@pytest.mark.parametrize("n", [1, 9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_leak_is_that_of_the_definition(count, n, dtype):
    g, d, through = (random(seed, count, n).to(dtype) for seed in (0, 1, 2))
    d[:1, 0], d[1:2, 0], d[2:3, 0], d[3:, ::2] = torch.nan, torch.inf, -1e30, 0.0
    unit, block = random(3, n).abs().to(dtype), torch.arange(n) // 2 * (n > 1)
    for leak in (Leak(0.1), Leak(0.3, unit), Leak(0.3, unit, block)):
        for other in (None, through):
            with torch.no_grad():
                got = leak.gradient(g, d, other)
            torch.testing.assert_close(got, leak.gradient(g, d, other))  # with gradients enabled: the definition
        with torch.no_grad():
            got = leak.gradient(g, d, clamps=True)
        torch.testing.assert_close(got, leak.gradient(g, d, clamps=True))


def test_the_leak_refuses_what_does_not_fit():
    g, unit, none = random(0, 3, 4), random(1, 4), torch.empty(0, dtype=torch.int64)
    for said, args in (
        ("other points", (g[:2], None, unit, none)),
        ("other points", (g, g[:, :2], unit, none)),
        ("one unit", (g, None, unit[:3], none)),
        ("one unit", (g, None, unit, torch.zeros(3, dtype=torch.int64))),
        ("out of range", (g, None, unit, torch.tensor([0, 1, 2, 4]))),
        ("another dtype", (g.float(), None, unit, none)),
    ):
        with pytest.raises(RuntimeError, match=said):
            operators.leak(g, *args, 0.1, 1e15, False)
