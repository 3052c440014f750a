"""Faults in the arithmetic of integers of any size."""

from tests.mutants import Mutant

MUTANTS = [
    Mutant(
        "exact/numbers.py",
        "    if bound >= INT64_SAFE:\n        if left",
        "    if False:\n        if left",
        ("test_exact_arithmetic.py::test_products_are_those_of_pythons_integers",),
        "a product is not checked against 62 bits",
    ),
    Mutant(
        "exact/numbers.py",
        "return bool((size < INT64_SAFE).all())",
        "return True",
        (
            "test_exact_arithmetic.py::test_sums_of_large_terms_that_cancel_stay_in_64_bits",
            "test_exact_arithmetic.py::test_products_are_those_of_pythons_integers",
        ),
        "sums of large terms always seem to fit",
    ),
    Mutant(
        "exact/numbers.py",
        "    if bound < 2**53:  # exact",
        "    if bound < 2**62:  # exact",
        ("test_pins.py::test_products_of_any_size_are_those_of_python",),
        "products beyond 2^53 are taken in floats",
    ),
    Mutant(
        "exact/numbers.py",
        "        overflows = operation(largest(left), largest(right)) >= INT64_SAFE",
        "        overflows = False",
        ("test_exact_arithmetic.py",),
        "entrywise products wrap around",
    ),
    Mutant(
        "exact/numbers.py",
        "bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))",
        "bits = bits ^ ((bits >> 63) & np.int64(0))",
        ("test_exact_arithmetic.py::test_rows_are_sorted_as_python_sorts_them",),
        "negative floats are sorted upside down",
    ),
    Mutant(
        "exact/elimination.py",
        "proved > bits[: rank + 1].sum()",
        "proved > 0",
        ("test_pins.py::test_a_rank_that_one_prime_hides_is_found",),
        "one prime decides a rank",
    ),
    Mutant(
        "exact/elimination.py",
        "    return None if back.any() else _lowest_terms(scaled, scales)",
        "    return _lowest_terms(scaled, scales)",
        ("test_exact_arithmetic.py",),
        "a rounded inverse is believed without its product",
    ),
    Mutant(
        "exact/elimination.py",
        "        if most >= INT64_SAFE and not _is_within_reach(",
        "        if False and not _is_within_reach(",
        ("test_exact_arithmetic.py::test_triangular_inverses_are_exact_until_they_pass_64_bits",),
        "triangular substitution wraps around",
    ),
    Mutant(
        "exact/elimination.py",
        "    sign = -1 if previous < 0 else 1",
        "    sign = 1",
        ("test_exact_arithmetic.py::test_inverses_are_exact_and_each_column_has_its_least_denominator",),
        "an inverse has negative denominators",
    ),
    Mutant(
        "exact/elimination.py",
        "                row[column] = (row.get(column, 0) - value * v) % prime",
        "                row[column] = (row.get(column, 0) + value * v) % prime",
        ("test_pins.py::test_a_sparse_rank_is_that_of_the_dense_rows",),
        "sparse elimination adds where it should subtract",
    ),
    Mutant(
        "exact/numbers.py",
        "DYADIC_SCALE = 2.0**12",
        "DYADIC_SCALE = 2.0**60",
        ("test_polyhedron.py::test_fractions_become_integers_row_by_row_and_tenths_do_not",),
        "0.1 counts as an exact number",
    ),
    Mutant(
        "exact/numbers.py",
        '    kind = object if "O" in kinds or large else np.float64',
        "    kind = np.float64",
        (
            "test_pins.py::test_large_integers_beside_floats_are_not_rounded",
            "test_set_numbers.py::test_fractions_beside_inexact_floats_keep_their_exact_value",
        ),
        "large integers beside floats are rounded",
    ),
]
