"""Exact integers under the conversion: products, inverses, sorting and slack forms against Python's integers."""

import numpy as np
import pytest

import rayhull as rh
from rayhull.conversion.slack_form import slack_form
from rayhull.exact.elimination import fraction_free_inverse, inverse, rounded_inverse
from rayhull.exact.numbers import product, sort_rows, times


@pytest.mark.parametrize("bits", [(3, 4), (20, 30), (31, 31), (36, 30), (60, 60), (62, 2)])
@pytest.mark.parametrize("cancel", [False, True])
def test_products_are_those_of_pythons_integers(bits, cancel):
    rng = np.random.default_rng(sum(bits))
    for _ in range(20):
        left = rng.integers(-(2 ** bits[0]), 2 ** bits[0], (6, 5))
        right = rng.integers(-(2 ** bits[1]), 2 ** bits[1], (5, 4))
        if cancel:  # large terms, small sums
            left = np.concatenate([left, left, left[:, :1] // 3], axis=1)
            right = np.concatenate([right, -right, right[:1] // 5 % 7])
        assert (product(left, right) == left.astype(object).dot(right.astype(object))).all()
        assert (times(left[0, :4], right[0]) == left[0, :4].astype(object) * right[0].astype(object)).all()


@pytest.mark.parametrize("size", [3, 2**20, 2**40, 2**61, 2**90])
def test_products_of_any_integers_are_0_where_they_are_0(size):
    rng = np.random.default_rng(0)
    C, Y = (np.array([[int(x * size) for x in row] for row in rng.uniform(-1, 1, (50, 3))], dtype=object) for _ in "CY")
    C[::5] = np.array([np.cross(*pair) for pair in zip(Y[::5], Y[1::5], strict=True)])  # product 0 with two of Y
    C[1::5] = C[::5] + np.array([0, 0, 1])
    for kind in {object, np.int64 if abs(C).max() < 2**62 else object}:
        assert np.array_equal(product(Y.astype(kind), C.astype(kind).T), Y @ C.T)


def test_sums_of_large_terms_that_cancel_stay_in_64_bits():
    left, right = np.array([[2**40, 2**40, 3]]), np.array([[2**40], [-(2**40)], [5]])
    assert product(left, right).tolist() == [[15]]
    assert product(left, right).dtype == np.int64
    assert product(left, np.abs(right)).tolist() == [[2**81 + 15]]


@pytest.mark.parametrize("size", [1, 127, 128, 2**15, 2**31, 2**62])
def test_rows_are_sorted_as_python_sorts_them(size):
    rows = np.random.default_rng(0).integers(-size, size, (200, 3), endpoint=True)
    rows[:100, 0] = size
    rows[50:, 1] = -size
    for some in (rows, rows.astype(object), rows.astype(float)):
        assert some[sort_rows(some)].tolist() == sorted(some.tolist())


def is_inverse(matrix, back, scales):
    exact = matrix.astype(object).dot(back.astype(object))
    common = np.gcd.reduce(np.concatenate([back, scales[None]]).astype(object), axis=0)
    return (exact == np.diag(scales.astype(object))).all() and (scales > 0).all() and (common == 1).all()


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("size", [1, 9, 10**6, 10**12])
def test_inverses_are_exact_and_each_column_has_its_least_denominator(n, size):
    rng = np.random.default_rng(n)
    for _ in range(5):
        matrix = rng.integers(-size, size, (n, n), endpoint=True) + 2 * size * np.eye(n, dtype=int)
        assert is_inverse(matrix, *inverse(matrix))
        assert is_inverse(matrix, *fraction_free_inverse(matrix))


def test_triangular_inverses_are_exact_until_they_pass_64_bits():
    for n in (5, 40, 200):
        differences = np.eye(n, dtype=int) - 2 * np.eye(n, k=-1, dtype=int) + np.eye(n, k=-2, dtype=int)
        powers = np.eye(n, dtype=int) - 3 * np.eye(n, k=-1, dtype=int)
        for matrix in (differences, differences.T, -differences, powers, powers.T):
            back, scales = inverse(matrix)
            assert is_inverse(matrix, back, scales)


def test_a_matrix_of_many_mixed_blocks_is_inverted_in_floats_and_proved():
    rng = np.random.default_rng(0)
    matrix = np.kron(np.eye(9, dtype=int), np.array([[7, 2], [-3, 11]]))  # det 83^9
    for _ in range(40):
        i, j = rng.choice(18, 2, replace=False)
        matrix[:, i] += rng.choice([-1, 1]) * matrix[:, j]
    found = rounded_inverse(matrix)
    assert found is not None
    assert is_inverse(matrix, *found)
    assert found[1].max() == 83


@pytest.mark.parametrize(
    "rows",
    [
        *([[0, 1, -1], [1, -1, 0]], [[1, -2, 1, 0], [0, 1, -2, 1]], [[5, 0, -1, 0]]),  # triangles of units
        *([[1, 1], [2, 1]], [[1, 2]], [[10**30, 1], [1, 10**25]], [[6, 5], [0, 1]]),
    ],
)
def test_along_an_edge_one_row_falls_and_along_a_line_none(rows):
    A = np.array(rows, dtype=object)
    form = slack_form(rh.Polyhedron(A, np.arange(len(rows)) + 5))
    falls = -A.dot(form.edges.T.astype(object))  # (rows, edges)
    assert ((falls != 0).sum(axis=0) == 1).all()
    assert ((falls != 0).sum(axis=1) == 1).all()
    assert (falls.sum(axis=0) == form.scales).all()
    assert (form.scales > 0).all()
    assert not A.dot(form.lines.T.astype(object)).any()
    basis = np.concatenate([form.edges, form.lines]).astype(float)
    assert np.linalg.matrix_rank(basis / np.abs(basis).max(axis=1, keepdims=True)) == A.shape[1]
