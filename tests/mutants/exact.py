"""Faults in the arithmetic of integers of any size."""

from tests.mutants import Mutant

ARITHMETIC = ("test_exact_arithmetic.py", "test_pins.py")
MUTANTS = [
    Mutant(
        "exact/matrices.py",
        "    if bound >= INT64_SAFE:\n        if left",
        "    if False:\n        if left",
        ARITHMETIC,
        "a product is not checked against 62 bits",
    ),
    Mutant(
        "exact/matrices.py",
        "return bool((size < INT64_SAFE).all())",
        "return True",
        ARITHMETIC,
        "sums of large terms always seem to fit",
    ),
    Mutant(
        "exact/matrices.py",
        "    if bound < 2**53:  # exact",
        "    if bound < 2**62:  # exact",
        ARITHMETIC,
        "products beyond 2^53 are taken in floats",
    ),
    Mutant(
        "exact/matrices.py",
        "    if max(1, largest(left)) * max(1, largest(right)) < INT64_SAFE:",
        "    if True:",
        ARITHMETIC,
        "entrywise products wrap around",
    ),
    Mutant(
        "exact/matrices.py",
        "bits = bits ^ ((bits >> 63) & np.int64(2**63 - 1))",
        "bits = bits ^ ((bits >> 63) & np.int64(0))",
        ARITHMETIC,
        "negative floats are sorted upside down",
    ),
    Mutant(
        "exact/elimination.py",
        "proved > bits[: rank + 1].sum()",
        "proved > 0",
        ARITHMETIC,
        "one prime decides a rank",
    ),
    Mutant(
        "exact/elimination.py",
        "    return None if back.any() else _lowest_terms(scaled, scales)",
        "    return _lowest_terms(scaled, scales)",
        ARITHMETIC,
        "a rounded inverse is believed without its product",
    ),
    Mutant(
        "exact/elimination.py",
        "        if reach[i] >= INT64_SAFE:\n            return None",
        "        if False:\n            return None",
        ARITHMETIC,
        "triangular substitution wraps around",
    ),
    Mutant(
        "exact/elimination.py",
        "    sign = -1 if previous < 0 else 1",
        "    sign = 1",
        ARITHMETIC,
        "an inverse has negative denominators",
    ),
    Mutant(
        "exact/elimination.py",
        "                row[column] = (row.get(column, 0) - value * v) % prime",
        "                row[column] = (row.get(column, 0) + value * v) % prime",
        ARITHMETIC,
        "sparse elimination adds where it should subtract",
    ),
    Mutant(
        "exact/numbers.py",
        "DYADIC_SCALE = 2.0**12",
        "DYADIC_SCALE = 2.0**60",
        ("test_polyhedron.py",),
        "0.1 counts as an exact number",
    ),
    Mutant(
        "exact/numbers.py",
        '    kind = object if "O" in kinds or large else np.float64',
        "    kind = np.float64",
        ("test_polyhedron.py", "test_pins.py"),
        "large integers beside floats are rounded",
    ),
]
