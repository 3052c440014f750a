"""Double description: known answers, both paths alike, exact at any size, budgets kept."""

import itertools
import signal
import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.conversion import verification
from rayhull.conversion.budget import Limits
from rayhull.conversion.double_description import extreme_rays, minor_divisor
from rayhull.core import conversion as core
from rayhull.core import library
from rayhull.core.reference import adjacency
from rayhull.core.reference.verification import BROKEN, NEGATIVE, NO_FAULT
from rayhull.errors import BudgetExceededError, UnverifiedError
from rayhull.exact import elimination, numbers
from tests.cones import (
    KNOWN,
    PATHS,
    brute_force,
    core_or_reference,
    in_basis_coordinates,
    isotonic,
    matrices,
    random_rows,
)
from tests.zoo import cyclic_cone, metric_cone


@PATHS
@pytest.mark.parametrize("name", KNOWN)
def test_known_cones_have_the_known_number_of_rays(name, compiled):
    A, count = KNOWN[name]
    assert len(extreme_rays(in_basis_coordinates(A))) == count


@PATHS
def test_the_rays_of_one_row_are_these_in_this_order(compiled):
    Y = extreme_rays(np.array([[2, -3]]))
    assert Y.dtype == np.int64
    assert Y.tolist() == [[1, 0], [3, 2]]


@PATHS
@pytest.mark.parametrize("dtype", [np.int64, object, float])
def test_small_shapes_work(dtype, compiled):
    assert extreme_rays(np.zeros((0, 3), dtype)).tolist() == np.eye(3)[::-1].tolist()
    assert extreme_rays(np.zeros((2, 3), dtype)).tolist() == np.eye(3)[::-1].tolist()
    assert extreme_rays(np.zeros((0, 0), dtype)).shape == (0, 0)
    assert extreme_rays(np.zeros((3, 0), dtype)).shape == (0, 0)
    assert extreme_rays(np.array([[1]], dtype)).tolist() == [[1]]
    assert extreme_rays(np.array([[-1]], dtype)).shape == (0, 1)
    assert extreme_rays(-np.ones((1, 4), dtype)).shape == (0, 4)


@PATHS
def test_a_cone_may_be_a_single_ray(compiled):
    C = np.array([[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]])
    assert extreme_rays(C).tolist() == [[1, 1, 1]]


def both(C):
    """By the reference and by the core."""
    for compiled in (False, True):
        with core_or_reference(compiled):
            yield extreme_rays(C)


def test_core_and_reference_give_the_same_array():
    for seed in range(6):
        for C in (random_rows(14, 6, seed), random_rows(14, 6, seed, float)):
            a, b = both(C)
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


@pytest.mark.parametrize("threads", [1, 3])
def test_large_rows_through_trees_and_edges_match_the_reference(threads, monkeypatch):
    monkeypatch.setattr(core, "threads", lambda: threads)
    monkeypatch.setattr(core, "SHORT", 20_000)  # go on in a thread after some rows
    cyclic = in_basis_coordinates(cyclic_cone(20, 8).A).astype(int)  # 2275 rays, most of them simple
    grid = in_basis_coordinates(isotonic(7))  # 3430 rays, few of them simple
    for C in (cyclic, grid, random_rows(20, 9, 1, float)):
        a, b = both(C)
        assert np.array_equal(a, b)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [random_rows(20, 9, 1), random_rows(70, 4, 2), in_basis_coordinates(metric_cone(6).A)])
def test_every_search_finds_each_adjacent_pair_once(rows, threads, monkeypatch):
    monkeypatch.setattr(core, "threads", lambda: threads)
    C, k, rng = rows.astype(int), rows.shape[1], np.random.default_rng(0)
    Y = extreme_rays(C)
    sets = adjacency.packed(np.concatenate([Y == 0, Y @ C.T == 0], axis=1))
    simple = np.bitwise_count(sets).sum(axis=1) == k - 1
    for _ in range(5):
        height = Y @ rng.standard_normal(k) / Y.sum(axis=1)
        side = height - np.median(height)
        above, below = np.flatnonzero(side > 0), np.flatnonzero(side < 0)
        wanted = found(adjacency.adjacent_pairs(sets, above, below, k - 2))
        for way in (0, core.DIRECTLY, core.BY_TREES):
            assert found(core.adjacent_pairs(sets, above, below, k - 2, way)) == wanted
        above, below = above[simple[above]], below[simple[below]]
        wanted = found(adjacency.adjacent_pairs(sets, above, below, k - 2))
        assert found(core.adjacent_pairs(sets, above, below, k - 2, core.BY_EDGES)) == wanted


def found(pairs):
    return sorted(pair for some in pairs for pair in some.tolist())


@PATHS
def test_row_order_and_repeats_do_not_change_the_answer(compiled):
    C = random_rows(10, 6, 3)
    Y = extreme_rays(C)
    shuffled = np.concatenate([C, 3 * C, C.sum(axis=0, keepdims=True)])[np.random.default_rng(0).permutation(21)]
    assert np.array_equal(extreme_rays(shuffled), Y)


@PATHS
@pytest.mark.parametrize("scale", [10**6, 10**12, 10**18, 10**30])
def test_integers_of_any_size_are_exact(scale, compiled):
    rng = np.random.default_rng(0)
    C = random_rows(4, 4, 5).astype(object) * scale + rng.integers(-99, 99, (4, 4)).astype(object)
    Y = extreme_rays(C)
    assert [tuple(y) for y in Y.tolist()] == brute_force(C)
    assert Y.dtype == (np.int64 if max(Y.ravel()) < 2**63 else object)
    assert scale < 10**18 or Y.dtype == object


@PATHS
def test_products_past_64_bits_are_exact(compiled):
    rng = np.random.default_rng(2)
    C = rng.integers(-(2**40), 2**40, (7, 4))
    C *= np.where(C.sum(axis=1) >= 0, 1, -1)[:, None]
    assert [tuple(y) for y in extreme_rays(C).tolist()] == brute_force(C)


@pytest.mark.parametrize("bits", [8, 16, 24, 31, 40, 55])
def test_sums_of_products_past_64_bits_are_divided_as_in_python(bits):
    rng = np.random.default_rng(bits)
    for k in (3, 4, 6):
        C = rng.integers(-(2**bits), 2**bits, (8, k)) * rng.choice([1, 2, 12], (8, 1))
        a, b = both(C * np.where(C.sum(axis=1, dtype=object) >= 0, 1, -1).astype(int)[:, None])
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)


def test_a_hidden_denominator_is_found():
    B = np.array([[3, 7, 1], [2, -5, 11], [13, 4, 6]])
    det = abs(round(np.linalg.det(B)))
    C = np.round(np.random.default_rng(0).integers(-9, 9, (6, 3)) @ np.linalg.inv(B) * det).astype(int) * 1000
    assert minor_divisor(C) % det == 0
    assert minor_divisor(np.array([[1, 2], [3, 4]])) == 1


# Budgets, progress, interruption


@PATHS
def test_each_budget_stops_with_its_message(compiled):
    C = in_basis_coordinates(cyclic_cone(30, 8).A).astype(int)
    for limits, words in [
        (Limits(max_generators=500), "max_generators=500"),
        (Limits(max_pairs=10_000), "max_pairs=10000"),
        (Limits(max_bytes=100_000), "max_bytes=100000"),
        (Limits(max_seconds=0.0), "max_seconds=0"),
    ]:
        with pytest.raises(BudgetExceededError, match=words) as caught:
            extreme_rays(C, limits=limits)
        assert "nearest" in str(caught.value)
    assert len(extreme_rays(C[:4], limits=Limits(max_generators=500))) < 500


@PATHS
def test_a_long_row_stops_near_its_time_limit(compiled):
    C = random_rows(60, 16, 0)
    started = time.monotonic()
    with pytest.raises(BudgetExceededError):
        extreme_rays(C, limits=Limits(max_seconds=1.0, max_generators=None))
    assert time.monotonic() - started < 4.0  # far below what the row would take, far above a busy machine


@PATHS
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_stops_at_once(compiled):
    C = random_rows(60, 16, 0)
    main = threading.main_thread().ident
    timer = threading.Timer(0.7, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        extreme_rays(C, limits=Limits(max_generators=None))
    assert time.monotonic() - started < 4.0


@PATHS
def test_progress_is_reported_and_ends_with_all_rows(compiled):
    seen = []
    C = in_basis_coordinates(cyclic_cone(20, 8).A).astype(int)
    extreme_rays(C, report=lambda *step: seen.append(step))
    assert seen[-1] == (len(C), len(C), 2275, 0)
    assert all(0 <= row <= rows == len(C) for row, rows, _, _ in seen)
    assert len(seen) < 100


@pytest.mark.parametrize("outcomes", [[core.NO_MEMORY], [core.PAUSED, core.NO_MEMORY]], ids=["at once", "in a thread"])
def test_a_lack_of_memory_is_said_with_what_to_do(outcomes, monkeypatch):
    if library.load("conversion") is None:
        pytest.skip("the core is not compiled")
    left, call = iter(outcomes), core._call
    monkeypatch.setattr(
        core, "_call", lambda lib, name, *rest: next(left) if "take" in name else call(lib, name, *rest)
    )
    with pytest.raises(MemoryError, match="lower max_bytes"):
        extreme_rays(random_rows(14, 6, 0))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="2 dimensions"):
        extreme_rays(np.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        extreme_rays(np.array([[np.nan, 1.0]]))
    with pytest.raises(ValueError, match="complex"):
        extreme_rays(np.zeros((2, 2), complex))


# Verification


@PATHS
def test_verification_refuses_what_is_not_an_answer(compiled):
    C = in_basis_coordinates(metric_cone(5).A).astype(int)
    Y = extreme_rays(C)
    E = np.zeros(len(Y))
    assert len(verification.verified(C, Y, E)) == len(Y)
    for wrong, word in [
        (np.concatenate([Y, Y[:1]]), "twice"),
        (np.concatenate([Y, Y[:1] + Y[1:2]]), "not extreme"),
        (np.concatenate([Y, -Y[:1]]), "negative"),
        (np.concatenate([Y, np.eye(len(Y[0]), dtype=int)]), "breaks a row"),
    ]:
        with pytest.raises(UnverifiedError, match=word):
            verification.verified(C, wrong, np.zeros(len(wrong)))


@PATHS
@pytest.mark.parametrize("size", [1, 2**20, 2**27, 2**58], ids=["doubles", "doubles too", "64 bits", "128 bits"])
def test_rays_whose_tight_rows_have_full_rank_are_extreme(compiled, size):
    rng = np.random.default_rng(0)
    points, seen = np.array(list(itertools.product(range(3), repeat=4))), set()
    for _ in range(20):
        C = rng.integers(-1, 2, (4, 4))
        Y = points[(points @ C.T >= 0).all(axis=1)]
        fault, zeros, _ = core.examine(C * size, Y * size, verification.PRIME)
        assert fault == 0
        assert np.array_equal(adjacency.unpacked(zeros, 8), np.concatenate([Y == 0, Y @ C.T == 0], axis=1))
        for y in Y:
            rows = C[C @ y == 0][:, y > 0]
            is_extreme = y.any() and (np.linalg.matrix_rank(rows) if rows.size else 0) == (y > 0).sum() - 1
            with nullcontext() if is_extreme else pytest.raises(UnverifiedError, match="not extreme"):
                verification.verified(C * size, y[None] * size, np.zeros(1))
            seen.add(((y > 0).sum(), bool(is_extreme)))
    assert {(2, True), (3, True), (4, True), (2, False), (3, False), (4, False)} < seen


@PATHS
@pytest.mark.parametrize("size", [1, 2**24, 2**28, 2**40, 2**62 - 2], ids=["1", "48 bits", "56", "80", "124"])
def test_a_slack_that_is_off_by_one_is_seen(compiled, size):
    rest = [0] * 6
    for slack, row, ray in [  # size² - 1 has twice as many digits as size, and all of them count
        (1, [size, 1 - size], [size, size + 1]),
        (0, [size, -size], [size, size]),
        (-1, [size + 1, -size], [size - 1, size]),
        (size**2, [size, 0], [size, size]),  # 2^80 is 0 in 64 bits
        (-(size**2), [-size, 0], [size, size]),
    ]:
        C, y = np.array([row + rest]), np.array([ray + rest])
        found = core.examine(C, y, verification.PRIME)
        assert found.fault == (NO_FAULT if slack >= 0 else BROKEN)
        assert slack < 0 or adjacency.unpacked(found.zeros, 9)[0].tolist() == [False] * 2 + [True] * 6 + [slack == 0]
    assert core.examine(C, -abs(C), verification.PRIME).fault == 1


@PATHS
@pytest.mark.parametrize("place", [0, 1023, 1024, 2999])
def test_a_fault_is_seen_wherever_it_stands_among_many_rays(compiled, place):
    C, Y = np.array([[2, -1, 0], [0, 1, -1]]), np.tile([[1, 2, 1], [1, 1, 1], [1, 0, 0]], (1000, 1))
    assert core.examine(C, Y, verification.PRIME).fault == NO_FAULT
    for wrong, fault in (([1, 3, 0], BROKEN), ([1, 0, -1], NEGATIVE)):
        spoilt = Y.copy()
        spoilt[place] = wrong
        assert core.examine(C, spoilt, verification.PRIME).fault == fault


@PATHS
def test_primitive_products_are_exact_at_any_size(compiled):
    rng = np.random.default_rng(0)
    weights, edges = rng.integers(-(2**20), 2**20, (50, 6)), rng.integers(-(2**10), 2**10, (6, 7)) * 3**30
    weights[1], weights[2, ::2] = 0, 0
    pairs = [(weights[:, : len(some)], some) for some in (edges, edges[:, :2], edges[:0], edges // 3**30)]
    pairs += [(weights * 2**20, edges + 1)]  # quotients of 80 bits
    pairs += [(weights, edges // 3**15)]  # sums of 57 bits, which would be taken undivided
    pairs += [(np.full((1, 64), 2**61), np.full((64, 2), [2**61, 2**61 - 1]))]  # sums of 128 bits
    long, few = np.full((1, 65), 2**61), np.full((65, 2), 2**61)
    long[0, -1], few[-1] = 1, [3, 5]
    pairs += [(long, few)]  # 2^128 + 3 and + 5, which would come round to 3 and 5
    for left, right in pairs:
        exact = left.astype(object) @ right.astype(object)
        assert np.array_equal(core.primitive_product(left, right), numbers.primitive(exact))


def test_rows_are_divided_by_what_all_their_entries_share():
    rows = np.array([[6, -9, 0], [0, 0, 0], [5, 5, 10], [1, 7, 3], [-4, 0, 0], [2**61, 2**60, 0]])
    expected = [[2, -3, 0], [0, 0, 0], [1, 1, 2], [1, 7, 3], [-1, 0, 0], [2, 1, 0]]
    assert numbers.primitive(rows).tolist() == expected
    assert numbers.primitive(rows.astype(object)).tolist() == expected
    assert numbers.primitive(rows[:, :1]).ravel().tolist() == [1, 0, 1, 1, -1, 1]
    assert numbers.primitive(rows[:0]).shape == (0, 3)


@PATHS
def test_core_and_reference_choose_the_same_independent_rows(compiled):
    rng = np.random.default_rng(0)
    shapes = [(9, 4, 4), (4, 9, 3), (20, 20, 7), (3, 3, 0), (5, 1, 1)]
    for (m, k, rank), size in itertools.product(shapes, [2**20, 2**57]):
        A = rng.integers(-3, 4, (m, rank)) @ rng.integers(-size, size, (rank, k))
        rows, columns = core.independent_rows(A)
        expected = elimination.independent_rows(A)
        assert np.array_equal(rows, expected[0])
        assert np.array_equal(columns, expected[1])
        assert len(rows) == rank
    later = np.array([[0, 2, 1], [1, 2, 3], [1, 0, 2]])  # the second has an entry before the first's pivot
    for order in (later, later[:, ::-1]):
        assert core.independent_rows(order)[0].tolist() == [0, 1]


# Fuzz


@settings(max_examples=250, deadline=None)
@given(matrices, st.booleans())
def test_any_small_cone_has_the_rays_of_brute_force(C, compiled):
    with core_or_reference(compiled):
        assert [tuple(y) for y in extreme_rays(C).tolist()] == brute_force(C)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2**20, 2**40, 2**61, 2**80]))
def test_any_size_of_integers_has_the_rays_of_brute_force(seed, size):
    rng = np.random.default_rng(seed)
    C = np.array([[int(a * size) for a in row] for row in rng.uniform(-1, 1, (4, 3))], dtype=object)
    for Y in both(C):
        assert [tuple(y) for y in Y.tolist()] == brute_force(C)


def test_python_integers_return_to_machine_words_when_they_fit():
    assert numbers.narrow(np.array([[2**61]], dtype=object)).dtype == np.int64
    assert numbers.narrow(np.array([[2**62]], dtype=object)).dtype == object
