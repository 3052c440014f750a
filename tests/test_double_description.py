"""Double description: known answers, both paths alike, budgets kept, floats right or refused."""

import itertools
import signal
import sys
import threading
import time
from fractions import Fraction
from math import comb, gcd

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rayhull.conversion import combine, completeness, double_description, rank, verify
from rayhull.conversion.denominator import common_denominator
from rayhull.conversion.double_description import extreme_rays
from rayhull.conversion.limits import Limits
from rayhull.errors import BudgetExceededError, MissingExtraError, UnverifiedError

PATHS = pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "numba"])


@pytest.fixture(scope="module")
def warm():
    """Every kernel compiled, so that none is inside a measured time."""
    from rayhull.conversion import _compiled

    with pytest.MonkeyPatch.context() as patch:
        for most in (0, 1000):
            patch.setattr(_compiled, "MOST_RAYS", most)
            extreme_rays(random_rows(12, 6, 0), compiled=True)


def in_basis_coordinates(A):
    """Integer C with {A x <= 0} = {y >= 0, C y >= 0}, y = -B x, for the first independent rows B of A; d = rank."""
    A = [[Fraction(int(a)) for a in row] for row in A]
    d = len(A[0])
    reduced, basis = [], []  # reduced: echelon rows with what combination of basis rows they are
    rest = []
    for row in A:
        vector, combination = list(row), [Fraction(0)] * d
        for pivot, echelon, made in reduced:
            factor = vector[pivot]
            vector = [a - factor * b for a, b in zip(vector, echelon, strict=True)]
            combination = [a + factor * b for a, b in zip(combination, made, strict=True)]
        pivot = next((i for i, a in enumerate(vector) if a), None)
        if pivot is None:
            rest.append(combination)
            continue
        made = [-a for a in combination]
        made[len(basis)] += 1
        basis.append(row)
        reduced.append((pivot, [a / vector[pivot] for a in vector], [a / vector[pivot] for a in made]))
    C = []
    for row in rest:
        scale = np.lcm.reduce([a.denominator for a in row])
        row = [int(a * scale) for a in row]
        C.append([a // max(1, gcd(*row)) for a in row])
    assert len(basis) == d, "the cone must be pointed"
    return np.array(C, dtype=object).reshape(len(rest), d)


def cube(n):
    return np.array([[-1, *(s * (i == j) for j in range(n))] for i in range(n) for s in (1, -1)])


def cross_polytope(n):
    return np.array([[-1, *signs] for signs in itertools.product((1, -1), repeat=n)])


def cyclic(n, d):
    return -np.array([[t**j for j in range(d + 1)] for t in range(-(n // 2), n - n // 2)])


def metric(n):
    edges = {frozenset(p): i for i, p in enumerate(itertools.combinations(range(n), 2))}
    rows = []
    for triple in itertools.combinations(range(n), 3):
        sides = [edges[frozenset(p)] for p in itertools.combinations(triple, 2)]
        for long in sides:
            row = np.zeros(len(edges), int)
            row[sides] = -1
            row[long] = 1
            rows.append(row)
    return np.array(rows)


def isotonic(n):
    """The n x n grid order, first entry fixed at 0: pointed."""
    rows = []
    for i, j in itertools.product(range(n), repeat=2):
        for a, b in ((i + 1, j), (i, j + 1)):
            if a < n and b < n:
                row = np.zeros((n, n), int)
                row[i, j], row[a, b] = 1, -1
                rows.append(row.ravel()[1:])
    return np.array(rows)


def random_rows(n, k, seed, dtype=int):
    """Rows that (1, ..., 1) satisfies: a pointed cone with interior."""
    rng = np.random.default_rng(seed)
    C = rng.integers(-9, 10, (n, k)) if dtype is int else rng.standard_normal((n, k))
    return C * np.where(C.sum(axis=1) >= 0, 1, -1)[:, None]


def brute_force(C):
    """Primitive extreme rays by trying every k - 1 rows, exactly."""
    k = np.shape(C)[1]
    rows = [[int(i == j) for j in range(k)] for i in range(k)] + [[int(a) for a in row] for row in C]
    found = set()
    for some in itertools.combinations(rows, k - 1):
        y = [(-1) ** i * determinant([[row[j] for j in range(k) if j != i] for row in some]) for i in range(k)]
        if sum(y) < 0:
            y = [-a for a in y]
        if any(y) and all(sum(a * b for a, b in zip(row, y, strict=True)) >= 0 for row in rows):
            found.add(tuple(a // gcd(*y) for a in y))
    return sorted(found)


def determinant(M):
    if not M:
        return 1
    return sum((-1) ** j * a * determinant([row[:j] + row[j + 1 :] for row in M[1:]]) for j, a in enumerate(M[0]) if a)


def exactly(C):
    """Floats as the integers they are, up to the scale of each row."""
    rows = []
    for row in np.asarray(C):
        fractions = [Fraction(float(a)) for a in row]
        scale = max(f.denominator for f in fractions)
        rows.append([int(f * scale) for f in fractions])
    return np.array(rows, dtype=object).reshape(np.shape(C))


def agree(floats, integers):
    """Is each float ray an integer ray scaled to largest entry 1, and each met once?"""
    if len(floats) != len(integers) or not len(floats):
        return len(floats) == len(integers)
    exact = np.array([[float(Fraction(int(a), int(max(y)))) for a in y] for y in integers]).reshape(floats.shape)
    distance = np.abs(floats[:, None] - exact[None]).max(axis=2, initial=0.0)
    return sorted(distance.argmin(axis=1)) == list(range(len(exact))) and (distance.min(axis=1) < 1e-6).all()


KNOWN = {
    "cube 6": (cube(6), 64),
    "cross-polytope 5": (cross_polytope(5), 10),
    "cyclic 12,6": (cyclic(12, 6), 112),
    "cyclic 20,8": (cyclic(20, 8), 2275),
    "metric 4": (metric(4), 7),
    "metric 5": (metric(5), 25),
    "metric 6": (metric(6), 296),
    "isotonic 4": (isotonic(4), comb(8, 4) - 2),
    "isotonic 6": (isotonic(6), comb(12, 6) - 2),
}


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
    for C in (random_rows(16, 9, 1), random_rows(16, 9, 1, float), in_basis_coordinates(metric(6)).astype(int)):
        assert np.array_equal(extreme_rays(C, compiled=True), extreme_rays(C, compiled=False))


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
    C = in_basis_coordinates(cyclic(30, 8)).astype(int)
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
    C = in_basis_coordinates(cyclic(20, 8)).astype(int)
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
    C = in_basis_coordinates(metric(5)).astype(int)
    Y = extreme_rays(C)
    E = np.zeros(len(Y))
    for kernels in (None, double_description._kernels(True)):
        assert len(verify.verified(C, Y, E, kernels)) == len(Y)
        for wrong, word in [
            (np.concatenate([Y, Y[:1]]), "twice"),
            (np.concatenate([Y, Y[:1] + Y[1:2]]), "not extreme"),
            (np.concatenate([Y, -Y[:1]]), "negative"),
            (np.concatenate([Y, np.eye(len(Y[0]), dtype=int)]), "breaks a row"),
        ]:
            with pytest.raises(UnverifiedError, match=word):
                verify.verified(C, wrong, np.zeros(len(wrong)), kernels)


@pytest.mark.parametrize("size", [3, 2**20, 2**40, 2**61, 2**90])
def test_verification_is_exact_for_any_integers(size):
    rng = np.random.default_rng(0)
    C, Y = (np.array([[int(x * size) for x in row] for row in rng.uniform(-1, 1, (50, 3))], dtype=object) for _ in "CY")
    C[::5] = np.array([np.cross(*pair) for pair in zip(Y[::5], Y[1::5], strict=True)])  # product 0 with two of Y
    C[1::5] = C[::5] + np.array([0, 0, 1])
    product = Y @ C.T
    for kind in {object, np.int64 if abs(C).max() < 2**62 else object}:
        high, low = verify._products(C.astype(kind), Y.astype(kind))
        assert np.array_equal(high < 0, product < 0)
        assert np.array_equal((high == 0) & (low == 0), product == 0)


def test_a_missing_float_ray_is_noticed():
    C = random_rows(12, 6, 0, float)
    scaled = double_description.floats.scaled(C)
    Y = extreme_rays(scaled)
    zeros = np.concatenate([Y == 0, np.abs(Y @ scaled.T) < 1e-12], axis=1)
    completeness.check_edges(zeros, verify.packed(zeros), 6)
    for gone in (0, len(Y) // 2):
        rest = np.delete(zeros, gone, axis=0)
        with pytest.raises(UnverifiedError, match="no ray at its other end"):
            completeness.check_edges(rest, verify.packed(rest), 6)


def test_rank_modulo_a_prime_matches_the_rank():
    rng = np.random.default_rng(0)
    M = rng.integers(-3, 4, (200, 5, 3)) @ rng.integers(-3, 4, (200, 3, 4))
    assert np.array_equal(rank._rank(M % rank.PRIME), np.linalg.matrix_rank(M.astype(float)))


# Floats


@PATHS
@pytest.mark.parametrize("seed", range(3))
def test_generic_floats_give_the_exact_rays(seed, compiled):
    C = random_rows(12, 6, seed, float)
    Y = extreme_rays(C, compiled=compiled)
    assert np.all(Y.max(axis=1) == 1.0)
    assert agree(Y, extreme_rays(exactly(C), compiled=False))


@PATHS
@pytest.mark.parametrize("name", ["cube 6", "cross-polytope 5", "metric 5", "isotonic 4", "cyclic 12,6"])
def test_rotated_cones_keep_their_rays(name, compiled):
    A, count = KNOWN[name]
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((A.shape[1], A.shape[1])))
    A = A @ Q / np.abs(A).max(axis=1, keepdims=True)
    B = A[: A.shape[1]] if np.linalg.matrix_rank(A[: A.shape[1]]) == A.shape[1] else None
    if B is None:
        from scipy.linalg import qr

        order = qr(A.T, pivoting=True)[2]
        A = A[order]
        B = A[: A.shape[1]]
    C = np.linalg.solve(B.T, A[len(B) :].T).T
    try:
        assert len(extreme_rays(C, compiled=compiled)) == count
    except UnverifiedError:
        assert name == "cyclic 12,6"  # ill-conditioned: refused, not wrong


@PATHS
@pytest.mark.parametrize("name", ["cube 6", "metric 5", "isotonic 4", "cyclic 12,6"])
@pytest.mark.parametrize("noise", [0, 1e-16, 1e-15, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6])
def test_noisy_floats_are_right_or_refused(name, noise, compiled):
    A, count = KNOWN[name]
    C = in_basis_coordinates(A).astype(float)
    rng = np.random.default_rng(0)
    noisy = (C / np.abs(C).max(axis=1, keepdims=True) + noise * rng.standard_normal(C.shape)) * 10.0 ** rng.integers(
        -3, 4, (len(C), 1)
    )
    try:
        Y = extreme_rays(noisy, compiled=compiled)
    except UnverifiedError:
        assert noise > 1e-15 or name == "cyclic 12,6"  # ill-conditioned
    else:
        assert (len(Y) == count and noise <= 1e-12) or agree(Y, extreme_rays(exactly(noisy), compiled=False))


@PATHS
@pytest.mark.parametrize("distance", [1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-14])
def test_nearly_parallel_rows_are_right_or_refused(distance, compiled):
    for seed in range(5):
        C = random_rows(6, 5, seed, float)
        near = np.concatenate([C, C + distance * np.random.default_rng(seed + 100).standard_normal(C.shape)])
        try:
            Y = extreme_rays(near, compiled=compiled)
        except UnverifiedError:
            continue
        as_one = distance <= 1e-12 and len(Y) == len(extreme_rays(C, compiled=compiled))
        assert as_one or agree(Y, extreme_rays(exactly(near), compiled=False))


@PATHS
def test_small_slacks_of_ill_conditioned_rays_are_not_taken_for_zero(compiled):
    """Noise of 1e-8 on dependent rows: a zero level that grows with the error lost rays here, silently."""
    C = np.array(
        [[1, 1, 1, -1, 1, 1], [-1, 1, -1, -1, -1, 0], [0, 0, 0, 0, 0, 1], [-1, -1, 1, 1, 1, 0],
         [0, 0, 1, -1, -1, 0], [0, 0, 1, 1, 1, 0], [0, 0, 1, -1, -1, 0], [1, 1, -1, 0, 0, 0]]
    )  # fmt: skip
    for seed in (8, 29, 35, 36, 37, 39):
        noisy = C + 1e-8 * np.random.default_rng(seed).standard_normal(C.shape)
        try:
            Y = extreme_rays(noisy, compiled=compiled)
        except UnverifiedError:
            continue
        assert agree(Y, extreme_rays(exactly(noisy), compiled=False))


# Fuzz

entries = st.integers(-3, 3)
shapes = st.tuples(st.integers(0, 5), st.integers(1, 4))
matrices = shapes.flatmap(
    lambda s: st.lists(entries, min_size=s[0] * s[1], max_size=s[0] * s[1]).map(lambda x: np.array(x, int).reshape(s))
)


@settings(max_examples=250, deadline=None)
@given(matrices, st.booleans())
def test_any_small_cone_has_the_rays_of_brute_force(C, compiled):
    assert [tuple(y) for y in extreme_rays(C, compiled=compiled).tolist()] == brute_force(C)


@settings(max_examples=150, deadline=None)
@given(matrices, st.booleans(), st.sampled_from([0.0, 1e-16, 1e-15]), st.integers(0, 2**32 - 1))
def test_any_small_float_cone_is_right_or_refused(C, compiled, noise, seed):
    rng = np.random.default_rng(seed)
    noisy = C * (1 + noise * rng.standard_normal(C.shape)) * 10.0 ** rng.integers(-3, 4, (len(C), 1))
    try:
        Y = extreme_rays(noisy, compiled=compiled)
    except UnverifiedError:
        return
    assert agree(Y, brute_force(C))


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
