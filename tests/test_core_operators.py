"""The core's operators: every answer must meet the optimality conditions, which only the nearest point does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.core import operators

pytestmark = pytest.mark.skipif(not operators.available(), reason="the core is not compiled")
seeds = st.integers(0, 2**31)


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


def solve(rows, m, sides, y, count, effort):
    guess = torch.zeros(len(y), count, dtype=torch.bool), torch.zeros(y.shape, dtype=torch.int8)
    guess[0][:, m:] = True
    return operators.active_set(rows, m, sides, y, guess, effort)


EFFORTS = {
    "pivoting": operators.Effort(0, 0.1, 24, 2000, False),
    "bounds last": operators.Effort(0, 0.1, 24, 2000, True),
    "gradients first": operators.Effort(12, 0.1, 24, 2000, False),
    "exact": operators.Effort(0, 0.1, 0, 2000, False),
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
    x, multipliers, residual, _, status = solve(store(G), m, around, y, count, EFFORTS[effort])
    assert (status == 0).all()
    assert (residual < 1e-13).all()
    assert_nearest(G.expand(50, -1, -1), m, around, y, x, multipliers)


def test_a_chain_of_differences_is_solved_inside_its_envelope():
    G = torch.nn.functional.normalize(
        (torch.eye(40) - 2 * torch.eye(40).roll(1, 1) + torch.eye(40).roll(2, 1))[:38].double()
    )
    around, y = sides(torch.zeros(1, 38, dtype=torch.float64), 40, 1.0), random(0, 30, 40)
    x, multipliers, _, _, status = solve(sparse_rows(G), 38, around, y, 38, EFFORTS["bounds last"])
    assert (status == 0).all()
    assert_nearest(G.expand(30, -1, -1), 38, around, y, x, multipliers, atol=1e-10)


def test_every_sample_may_have_rows_of_its_own():
    G, y = torch.nn.functional.normalize(random(0, 20, 6, 9), dim=2), random(1, 20, 9)
    around = sides((G @ (0.1 * random(2, 20, 9, 1)))[:, :, 0], 9, 2.0)
    effort = operators.Effort(20, 0.0, 24, 2000, False)
    x, multipliers, _, _, status = solve(operators.Rows.of_samples(G), 4, around, y, 6, effort)
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


def test_an_empty_set_is_proven_empty_and_nan_is_unsolved():
    G = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    around, y = sides(torch.tensor([[-1.0, -1.0]], dtype=torch.float64), 2, 5.0), random(0, 3, 2)
    assert (solve(dense_rows(G), 2, around, y, 2, EFFORTS["pivoting"])[4] == 2).all()
    around = sides(torch.ones(1, 2, dtype=torch.float64), 2, 5.0)
    y[1, 0] = float("nan")
    for effort in EFFORTS.values():
        assert solve(dense_rows(G), 2, around, y, 2, effort)[4].tolist() == [0, 1, 0]


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
    t, residual, _ = operators.clipped_shift(y, index, a, (c, lower, upper), equality, out)
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
    _, lower, upper = sides(None, d, bound)
    lower = lower + 0.1 * random(seed + 2, 1, d).round()
    x, multipliers, residual, status = operators.pool_adjacent(y, weights, lower, upper)
    empty = (lower.cummax(1).values > upper).any()
    assert (status == (2 if empty else 0)).all()
    if not empty:
        assert (residual < 1e-12).all()
        root = weights.sqrt()
        D = torch.eye(d, dtype=torch.float64)[:-1] - torch.eye(d, dtype=torch.float64)[1:]
        around = torch.zeros(1, d - 1, dtype=torch.float64), lower * root, upper * root
        assert_nearest((D / root).expand(20, -1, -1), d - 1, around, y * root, x * root, multipliers, atol=1e-10)


def test_doors_refuse_what_does_not_fit():
    y = random(0, 4, 3)
    none = torch.zeros(0, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="one row, or one for each sample"):
        operators.pool_adjacent(y, torch.ones(3, dtype=torch.float64), y[:2], y)
    with pytest.raises(RuntimeError, match="another dtype"):
        operators.pool_adjacent(y.float(), torch.ones(3, dtype=torch.float64), y, y)
    index = torch.tensor([[0, 3]], dtype=torch.int32)
    with pytest.raises(RuntimeError, match="out of range"):
        operators.clipped_shift(y, index, torch.ones(2).double(), sides(y[:1, :1], 2, 1.0), False, torch.empty_like(y))
    rows = operators.Rows(
        torch.ones(2).double(), torch.tensor([0, 9]).int(), torch.tensor([0, 1, 2]), none[:, None], y[0, :2]
    )
    with pytest.raises(RuntimeError, match="out of range"):
        solve(rows, 2, sides(y[:1, :2], 3, 1.0), y, 2, EFFORTS["exact"])


def test_operators_are_traced_without_data():
    y, weights = random(0, 4, 5), torch.ones(5, dtype=torch.float64)
    lower, upper = sides(None, 5, 1.0)[1:]
    torch.library.opcheck(torch.ops.rayhull_core.pool_adjacent, (y, weights, lower, upper))
    rows, guess = (
        dense_rows(random(1, 2, 5)),
        (torch.zeros(4, 2, dtype=torch.bool), torch.zeros(4, 5, dtype=torch.int8)),
    )
    c = torch.ones(1, 2, dtype=torch.float64)
    torch.library.opcheck(torch.ops.rayhull_core.active_set, (*rows, c, 2, lower, upper, y, *guess, *EFFORTS["exact"]))
    torch.library.opcheck(torch.ops.rayhull_core.active_system, (*rows, random(2, 4, 2), *guess))
