"""Changes to a Cholesky factor L L^T = G_W D G_W^T when a row joins or leaves, or a coordinate is fixed or freed."""

from __future__ import annotations

from numba import njit

from rayhull.projection._kernels.rows import OPTIONS


@njit(**OPTIONS)
def fill_envelope(L, first, k):  # type: ignore[no-untyped-def]
    """Write the zeros that the envelope left out, for the changes below fill it in."""
    for i in range(k):
        for j in range(first[i]):
            L[i, j] = 0.0
        first[i] = 0


@njit(**OPTIONS)
def append(L, k, w, sign, diagonal):  # type: ignore[no-untyped-def]
    """One more row, with L w = G_W D n."""
    for a in range(k):
        L[k, a] = sign * w[a]
    L[k, k] = diagonal


@njit(**OPTIONS)
def remove(L, k, at):  # type: ignore[no-untyped-def]
    """Leave out row ``at``: the rows below move up, and rotations bring back the triangle."""
    for i in range(at, k - 1):
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
    for j in range(at, k - 1):
        a, b = L[j, j], L[j, j + 1]
        length = (a * a + b * b) ** 0.5
        cosine, sine = a / length, b / length
        L[j, j] = length
        for i in range(j + 1, k - 1):
            p, q = L[i, j], L[i, j + 1]
            L[i, j] = cosine * p + sine * q
            L[i, j + 1] = cosine * q - sine * p


@njit(**OPTIONS)
def rank_one(L, k, w, sign):  # type: ignore[no-untyped-def]
    """L L^T + sign w w^T, in place; w is used up. False if the result is not positive definite."""
    for i in range(k):
        square = L[i, i] * L[i, i] + sign * w[i] * w[i]
        if square <= 1e-14 * L[i, i] * L[i, i]:
            return False
        length = square**0.5
        cosine, sine = length / L[i, i], w[i] / L[i, i]
        L[i, i] = length
        for e in range(i + 1, k):
            L[e, i] = (L[e, i] + sign * sine * w[e]) / cosine
            w[e] = cosine * w[e] - sine * L[e, i]
    return True
