"""The extreme rays of a pointed cone by double description: one inequality at a time.

The cone {y >= 0} has the unit vectors for rays. Each further row c splits the rays by the sign of c y: those below it
go, and every adjacent pair of one above and one below leaves a new ray where the edge between them meets c y = 0. This
file prepares the rows and verifies the rays; the rows are taken in :mod:`rayhull.core.conversion`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rayhull.conversion import verification
from rayhull.conversion.budget import Limits, Tell, Watch
from rayhull.core import conversion as core
from rayhull.core.reference import adjacency, floats
from rayhull.core.reference.double_description import Cone
from rayhull.exact.numbers import INT64_SAFE, largest, narrow, primitive, sort_rows

WORTHWHILE = 2**16  # rows with smaller entries have slacks that fit anyway


def extreme_rays(C: NDArray[Any], *, limits: Limits | None = None, report: Tell | None = None) -> NDArray[Any]:
    """Extreme rays of the pointed cone {y in R^k : y >= 0, C y >= 0}, verified.

    Integers (int64 or Python's) are converted exactly to primitive vectors, floats with a running error estimate to
    vectors with largest entry 1: what they cannot decide raises :class:`~rayhull.errors.UnverifiedError`.
    ``report`` is called with (rows taken, rows, rays, pairs of rays of the next row), some ten times a second.

    Shape: C (n, k) → (r, k), in lexicographic order

    Examples:
        >>> extreme_rays(np.array([[1, 1, -1]]))  # y0 + y1 >= y2
        array([[0, 1, 0],
               [0, 1, 1],
               [1, 0, 0],
               [1, 0, 1]])
    """
    C = _checked(C)
    watch = Watch(limits or Limits(), report, len(C))
    cone, order = _orthant(C), ranks(C)
    while len(cone.left) and len(cone.S):
        cone = core.take_rows(cone, order, watch)
    watch.say(len(C), len(cone.S), 0, last=True)
    Y = cone.S[:, : cone.k]
    Y = verification.verified(cone.C, Y if Y.dtype == np.float64 else primitive(Y), cone.E)
    return Y[sort_rows(Y)]


def verified_rays(C: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Rays that came from elsewhere, in our order, if they pass every check; also for missing ones, along edges."""
    C = _checked(C)
    error = np.full(len(Y), 2 * floats.UNCERTAINTY if C.dtype == np.float64 else 0.0)
    Y = verification.verified(C, Y, error, edges=True)
    return Y[sort_rows(Y)]


def _checked(C: NDArray[Any]) -> NDArray[Any]:
    """C in the arithmetic it will be converted in."""
    C = np.asarray(C)
    if C.ndim != 2:
        raise ValueError(f"C must have 2 dimensions (rows, coordinates), got shape {C.shape}.")
    if C.dtype.kind == "f":
        if not np.isfinite(C).all():
            raise ValueError("C has entries that are NaN or infinite: every row must be finite.")
        return floats.scaled(C.astype(np.float64))
    if C.dtype.kind not in "iuO":
        raise ValueError(f"C must hold integers or floats, got dtype {C.dtype}.")
    if C.dtype != np.int64 or C.min(initial=0) <= -INT64_SAFE or C.max(initial=0) >= INT64_SAFE:
        C = narrow(C.astype(object))
    return C


def _orthant(C: NDArray[Any]) -> Cone:
    """The cone {y >= 0}: unit vectors, each with all coordinates but one at zero; no row of C is taken yet."""
    n, k = C.shape
    E = np.zeros(k)
    S: NDArray[Any] = np.concatenate([np.eye(k, dtype=C.dtype), C.T], axis=1)
    if C.dtype != np.float64:
        denominator = minor_divisor(C)
        if denominator > 1:
            S = S if denominator < INT64_SAFE else S.astype(object)
            S[:, :k] *= denominator
            S = primitive(S)
    else:
        E[:] = floats.UNCERTAINTY
    zeros = np.zeros((k, k + n), bool)
    zeros[:, :k] = ~np.eye(k, dtype=bool)
    return Cone(C, S, adjacency.packed(zeros), E, np.arange(n), np.zeros(n, np.int64), k)


def ranks(C: NDArray[Any]) -> NDArray[np.int64]:
    """Place of each row in the order in which they are taken. A bad order costs a factor of a thousand.

    No order wins everywhere. Compared on our cases, as given and with permuted coordinates and rows: rows that leave
    the first coordinates alone come first, which builds the cone up coordinate by coordinate (isotonic grids,
    cross-polytopes); among equals those of small size, since rows that others imply tend to be sums of them; then
    lexicographic order, descending. Taking the row with the fewest pairs instead is as good on grids, but 30 times
    slower on cross-polytopes and redundant rows.

    >>> ranks(np.array([[1, -1, 0], [0, 2, -1], [0, 40, -30]])).tolist()
    [2, 0, 1]
    """
    if C.dtype == object:  # may be beyond the range of floats
        octave = np.array([int(s).bit_length() - 1 for s in np.abs(C).sum(axis=1)])
    else:
        size = np.abs(C).astype(float).sum(axis=1)
        octave = np.floor(np.log2(np.where(size > 0, size, 1.0)))
    order = np.lexsort([*(-C.T[::-1]), octave, *(C.T[::-1] != 0)])
    out = np.empty(len(C), np.int64)
    out[order] = np.arange(len(C))
    return out


def minor_divisor(C: NDArray[Any]) -> int:
    """The greatest common divisor of 2 x 2 minors of C (1 if they are all zero, or C is small).

    Coordinates y = -B x taken from basis rows B make the other rows into rational combinations of y with the
    denominator D = |det B|. Stated as integer rows C, their slacks C y are all multiples of D at the rays that matter:
    90 bits on 40 random rows in 12 dimensions, where slack / D and y need 46. So rays are kept as primitive vectors
    (D y, C y), which any D allows. Modulo D, the matrix D B^-1 has rank 1 (in general), so C has too: D divides its
    2 x 2 minors.

    >>> import numpy as np
    >>> B = np.array([[2, 1], [1, 300]])  # det 599
    >>> minor_divisor(np.array([[300, -1], [-1, 2]]) * 1000)  # (1000 det B) B^-1
    599000000
    """
    n, k = C.shape
    size = largest(C)
    if n < 2 or k < 2 or size < WORTHWHILE:
        return 1
    C = C if 2 * size * size < INT64_SAFE else C.astype(object)
    minors = C[1:, :-1] * C[0, 1:] - C[1:, 1:] * C[0, :-1]
    return max(int(np.gcd.reduce(minors, axis=None)), 1)
