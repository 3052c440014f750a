"""Double description: known answers, both paths alike, exact at any size, budgets kept."""

import itertools
import signal
import sys
import threading
import time
from math import gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.conversion import combine, double_description, verification
from rayhull.conversion.budget import Limits, interrupts
from rayhull.conversion.denominator import common_denominator
from rayhull.conversion.double_description import extreme_rays
from rayhull.errors import BudgetExceededError, MissingExtraError, UnverifiedError
from tests.cones import KNOWN, PATHS, brute_force, in_basis_coordinates, matrices, random_rows
from tests.zoo import cyclic_cone, metric_cone


@pytest.fixture(scope="module")
def warm():
    """Every kernel compiled, so that none is inside a measured time."""
    from rayhull.conversion import _compiled

    with pytest.MonkeyPatch.context() as patch:
        for most in (0, 1000):
            patch.setattr(_compiled, "MOST_RAYS", most)
            extreme_rays(random_rows(12, 6, 0), compiled=True)


@PATHS
@pytest.mark.parametrize("name", KNOWN)
def test_known_cones_have_the_known_number_of_rays(name, compiled):
    A, count = KNOWN[name]
    assert len(extreme_rays(in_basis_coordinates(A), compiled=compiled)) == count


@PATHS
def test_the_rays_of_one_row_are_these_in_this_order(compiled):
    Y = extreme_rays(np.array([[2, -3]]), compiled=compiled)
    assert Y.dtype == np.int64
    assert Y.tolist() == [[1, 0], [3, 2]]


@PATHS
@pytest.mark.parametrize("dtype", [np.int64, object, float])
def test_small_shapes_work(dtype, compiled):
    assert extreme_rays(np.zeros((0, 3), dtype), compiled=compiled).tolist() == np.eye(3)[::-1].tolist()
    assert extreme_rays(np.zeros((2, 3), dtype), compiled=compiled).tolist() == np.eye(3)[::-1].tolist()
    assert extreme_rays(np.zeros((0, 0), dtype), compiled=compiled).shape == (0, 0)
    assert extreme_rays(np.zeros((3, 0), dtype), compiled=compiled).shape == (0, 0)
    assert extreme_rays(np.array([[1]], dtype), compiled=compiled).tolist() == [[1]]
    assert extreme_rays(np.array([[-1]], dtype), compiled=compiled).shape == (0, 1)
    assert extreme_rays(-np.ones((1, 4), dtype), compiled=compiled).shape == (0, 4)


@PATHS
def test_a_cone_may_be_a_single_ray(compiled):
    C = np.array([[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1]])
    assert extreme_rays(C, compiled=compiled).tolist() == [[1, 1, 1]]


def test_both_paths_give_the_same_array():
    for seed in range(6):
        for C in (random_rows(14, 6, seed), random_rows(14, 6, seed, float)):
            a, b = (extreme_rays(C, compiled=compiled) for compiled in (False, True))
            assert a.dtype == b.dtype
            assert np.array_equal(a, b)


def test_large_rows_through_the_trees_match_the_numpy_path(monkeypatch):
    from rayhull.conversion import _compiled, _pattern_tree

    monkeypatch.setattr(_compiled, "MOST_RAYS", 0)  # no row is cheap
    monkeypatch.setattr(_pattern_tree, "BUDGET", 1000)  # many small chunks: every pair must come exactly once
    for C in (random_rows(16, 9, 1), random_rows(16, 9, 1, float), in_basis_coordinates(metric_cone(6).A).astype(int)):
        assert np.array_equal(extreme_rays(C, compiled=True), extreme_rays(C, compiled=False))


@pytest.mark.parametrize("few", [1 << 20, 60])  # all edges in one table, or a few at a time
@pytest.mark.parametrize("rows", [random_rows(20, 9, 1), random_rows(70, 4, 2), in_basis_coordinates(metric_cone(6).A)])
def test_edges_and_trees_find_each_adjacent_pair_once(rows, few, monkeypatch):
    from rayhull.conversion import _edge_table, _pattern_tree, adjacency

    monkeypatch.setattr(_edge_table, "MOST_EDGES", few)
    monkeypatch.setattr(_edge_table, "PROBES", few)
    C, k, rng = rows.astype(int), rows.shape[1], np.random.default_rng(0)
    Y = extreme_rays(C, compiled=False)
    sets = adjacency.packed(np.concatenate([Y == 0, Y @ C.T == 0], axis=1))
    for _ in range(5):
        height = Y @ rng.standard_normal(k) / Y.sum(axis=1)
        side = height - np.median(height)
        above, below = np.flatnonzero(side > 0), np.flatnonzero(side < 0)
        found = [
            np.concatenate(list(way.adjacent_pairs(sets, above, below, k - 2))).tolist()
            for way in (adjacency, _edge_table, _pattern_tree)
        ]
        assert sorted(found[0]) == sorted(found[1]) == sorted(found[2])


@PATHS
def test_row_order_and_repeats_do_not_change_the_answer(compiled):
    C = random_rows(10, 6, 3)
    Y = extreme_rays(C, compiled=compiled)
    shuffled = np.concatenate([C, 3 * C, C.sum(axis=0, keepdims=True)])[np.random.default_rng(0).permutation(21)]
    assert np.array_equal(extreme_rays(shuffled, compiled=compiled), Y)


@PATHS
@pytest.mark.parametrize("scale", [10**6, 10**12, 10**18, 10**30])
def test_integers_of_any_size_are_exact(scale, compiled):
    rng = np.random.default_rng(0)
    C = random_rows(4, 4, 5).astype(object) * scale + rng.integers(-99, 99, (4, 4)).astype(object)
    Y = extreme_rays(C, compiled=compiled)
    assert [tuple(y) for y in Y.tolist()] == brute_force(C)
    assert Y.dtype == (np.int64 if max(Y.ravel()) < 2**63 else object)
    assert scale < 10**18 or Y.dtype == object


@PATHS
def test_products_past_64_bits_are_exact(compiled):
    rng = np.random.default_rng(2)
    C = rng.integers(-(2**40), 2**40, (7, 4))
    C *= np.where(C.sum(axis=1) >= 0, 1, -1)[:, None]
    assert [tuple(y) for y in extreme_rays(C, compiled=compiled).tolist()] == brute_force(C)


def test_wide_gcd_and_division_match_python():
    from rayhull.conversion import _wide

    rng = np.random.default_rng(0)
    words = [int(x) for x in rng.integers(0, 2**63, 40)] + [1, 2, 3, 2**62, 2**63 - 1]
    for a, b, g in itertools.product(words[:6] + words[-5:], words[6:10], (1, 6, 2**20 * 12345, 2**61 + 2)):
        x, y = a * g, b * g
        split = [np.uint64(v) for pair in ((x >> 64, x % 2**64), (y >> 64, y % 2**64)) for v in pair]
        high, low = _wide.gcd128(*split)
        assert (int(high) << 64) + int(low) == gcd(x, y)
        _, odd, twos = _wide.shift_out_twos(np.uint64(0), np.uint64(g))
        inverse = _wide.odd_inverse(odd)
        for sign, off in itertools.product((1, -1), (0, 1)):
            value = sign * x + off
            high, low = np.int64(value >> 64), np.uint64(value % 2**64).astype(np.int64)
            right, quotient = _wide.divide_exactly(high, low, np.int64(g), twos, inverse)
            assert right == (value % g == 0 and abs(value // g) < 2**62)
            assert not right or quotient == value // g


def test_a_hidden_denominator_is_found():
    B = np.array([[3, 7, 1], [2, -5, 11], [13, 4, 6]])
    det = abs(round(np.linalg.det(B)))
    C = np.round(np.random.default_rng(0).integers(-9, 9, (6, 3)) @ np.linalg.inv(B) * det).astype(int) * 1000
    assert common_denominator(C) % det == 0
    assert common_denominator(np.array([[1, 2], [3, 4]])) == 1


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
            extreme_rays(C, limits=limits, compiled=compiled)
        assert "shrink" in str(caught.value)
    assert len(extreme_rays(C[:4], limits=Limits(max_generators=500), compiled=compiled)) < 500


@PATHS
def test_a_long_row_stops_near_its_time_limit(compiled, warm):
    C = random_rows(60, 16, 0)
    started = time.monotonic()
    with pytest.raises(BudgetExceededError):
        extreme_rays(C, limits=Limits(max_seconds=1.0, max_generators=None), compiled=compiled)
    assert time.monotonic() - started < 4.0  # far below what the row would take, far above a busy machine


@PATHS
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_stops_at_once(compiled, warm):
    C = random_rows(60, 16, 0)
    main = threading.main_thread().ident
    timer = threading.Timer(0.7, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        extreme_rays(C, limits=Limits(max_generators=None), compiled=compiled)
    assert time.monotonic() - started < 4.0


@PATHS
def test_progress_is_reported_and_ends_with_all_rows(compiled):
    seen = []
    C = in_basis_coordinates(cyclic_cone(20, 8).A).astype(int)
    extreme_rays(C, report=lambda *step: seen.append(step), compiled=compiled)
    assert seen[-1] == (len(C), len(C), 2275, 0)
    assert all(0 <= row <= rows == len(C) for row, rows, _, _ in seen)
    assert len(seen) < 100


def test_numba_is_asked_for_by_name_when_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "rayhull.conversion._compiled", None)
    monkeypatch.delattr("rayhull.conversion._compiled", raising=False)
    C = np.array([[1, -1]])
    with pytest.raises(MissingExtraError, match=r"rayhull\[fast\]"):
        extreme_rays(C, compiled=True)
    assert extreme_rays(C).tolist() == [[1, 0], [1, 1]]


def test_long_work_loads_the_kernels_and_short_work_does_not(monkeypatch):
    asked = []
    monkeypatch.setattr(double_description, "_is_loaded", lambda: False)
    monkeypatch.setattr(double_description, "_kernels", lambda required: asked.append(required))
    extreme_rays(random_rows(10, 6, 0))
    assert asked == []
    monkeypatch.setattr(double_description, "MANY_PAIRS", 10)
    extreme_rays(random_rows(10, 6, 0))
    assert asked


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="2 dimensions"):
        extreme_rays(np.zeros(3))
    with pytest.raises(ValueError, match="NaN"):
        extreme_rays(np.array([[np.nan, 1.0]]))
    with pytest.raises(ValueError, match="complex"):
        extreme_rays(np.zeros((2, 2), complex))


# Verification


def test_verification_refuses_what_is_not_an_answer():
    C = in_basis_coordinates(metric_cone(5).A).astype(int)
    Y = extreme_rays(C)
    E = np.zeros(len(Y))
    for kernels in (None, double_description._kernels(True)):
        assert len(verification.verified(C, Y, E, kernels)) == len(Y)
        for wrong, word in [
            (np.concatenate([Y, Y[:1]]), "twice"),
            (np.concatenate([Y, Y[:1] + Y[1:2]]), "not extreme"),
            (np.concatenate([Y, -Y[:1]]), "negative"),
            (np.concatenate([Y, np.eye(len(Y[0]), dtype=int)]), "breaks a row"),
        ]:
            with pytest.raises(UnverifiedError, match=word):
                verification.verified(C, wrong, np.zeros(len(wrong)), kernels)


@pytest.mark.parametrize("size", [3, 2**20, 2**40, 2**61, 2**90])
def test_verification_is_exact_for_any_integers(size):
    rng = np.random.default_rng(0)
    C, Y = (np.array([[int(x * size) for x in row] for row in rng.uniform(-1, 1, (50, 3))], dtype=object) for _ in "CY")
    C[::5] = np.array([np.cross(*pair) for pair in zip(Y[::5], Y[1::5], strict=True)])  # product 0 with two of Y
    C[1::5] = C[::5] + np.array([0, 0, 1])
    product = Y @ C.T
    for kind in {object, np.int64 if abs(C).max() < 2**62 else object}:
        high, low = verification._products(C.astype(kind), Y.astype(kind))
        assert np.array_equal(high < 0, product < 0)
        assert np.array_equal((high == 0) & (low == 0), product == 0)


def test_rank_modulo_a_prime_matches_the_rank():
    rng = np.random.default_rng(0)
    M = rng.integers(-3, 4, (200, 5, 3)) @ rng.integers(-3, 4, (200, 3, 4))
    assert np.array_equal(verification._rank(M % verification.PRIME), np.linalg.matrix_rank(M.astype(float)))


# Fuzz


@settings(max_examples=250, deadline=None)
@given(matrices, st.booleans())
def test_any_small_cone_has_the_rays_of_brute_force(C, compiled):
    assert [tuple(y) for y in extreme_rays(C, compiled=compiled).tolist()] == brute_force(C)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([2**20, 2**40, 2**61, 2**80]))
def test_any_size_of_integers_has_the_rays_of_brute_force(seed, size):
    rng = np.random.default_rng(seed)
    C = np.array([[int(a * size) for a in row] for row in rng.uniform(-1, 1, (4, 3))], dtype=object)
    for compiled in (False, True):
        assert [tuple(y) for y in extreme_rays(C, compiled=compiled).tolist()] == brute_force(C)


def test_python_integers_return_to_machine_words_when_they_fit():
    assert combine.narrowed(np.array([[2**61]], dtype=object)).dtype == np.int64
    assert combine.narrowed(np.array([[2**62]], dtype=object)).dtype == object


def test_an_interrupt_that_compiled_code_swallowed_is_still_one():
    first, second = SystemError("returned a result with an exception set"), SystemError("the same again")
    first.__cause__, second.__cause__ = KeyboardInterrupt(), first
    with pytest.raises(KeyboardInterrupt), interrupts():
        raise second
    with pytest.raises(SystemError), interrupts():
        raise SystemError("a real one")
