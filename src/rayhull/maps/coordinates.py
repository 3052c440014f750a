r"""Round coordinates: in them the set looks like a ball around its base point.

.. math:: y = H^{-1/2} c, \qquad H = \sum_i \frac{a_i a_i^T}{σ_i^2} + ρ

H is the Hessian of the log barrier at the base point, σ the slacks there; {y : yᵀ H y <= 1} is Dikin's ellipsoid, which
lies inside the set. Coefficients of unit size then move each row by a fair share of its slack, however thin or small
the set is. An unbounded set has directions that no row bounds: there ρ is such that standard normal coefficients give
points whose root mean square is the scale of the data.

The matrix is constant, so that it starts in, or folds into, the Linear in front.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.sets.rows import Array

SMALLEST, BISECTIONS = 1e-14, 80
FEW, DENSE = (
    256,
    1000,
)  # coordinates up to which H^(-1/2) is worked out; beyond, from H's diagonal (no d x d matrix is made)


def round_coordinates(
    rows: sp.csr_array | Array,
    slack: Array,
    size: float | None = None,
    *,
    equal: Array | None = None,
    diagonal: bool = False,
) -> Array:
    """M = H^(-1/2), symmetric (d, d), or the diagonal (d,) of a diagonal one.

    Args:
        rows: the inequalities' rows (m, d).
        slack: b - A x0 (m,), positive.
        size: the scale of the data where the set is unbounded; None for a bounded set, which has its own.
        equal: an orthonormal basis (d, k) of the equalities' row space: M then maps into their null space.
        diagonal: from the diagonal of H alone, as beyond 1000 coordinates. Bounds stay bounds in such coordinates.

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.coordinates import round_coordinates
        >>> thin = np.array([[1.0, 1.0], [-1.0, -1.0]])                         # |x + y| <= 0.01
        >>> M = round_coordinates(thin, np.array([0.01, 0.01]), size=1.0)
        >>> bool(abs(M @ [1, 1]).max() < 0.01), bool(abs(M @ [1, -1]).max() > 1)
        (True, True)
    """
    weighted = sp.csr_array(sp.diags_array(1 / slack) @ sp.csr_array(rows))
    if diagonal or weighted.shape[1] > DENSE:
        curvature = np.asarray(weighted.power(2).sum(0)).ravel()
        return np.asarray(1 / np.sqrt(curvature + ridge(curvature, size, len(curvature))))
    if equal is None or not equal.shape[1]:
        curvature, directions = _principal(weighted.toarray())
    else:
        basis = scipy.linalg.null_space(equal.T)  # (d, free)
        curvature, directions = _principal(weighted @ basis)
        directions = directions @ basis.T  # (free, d)
    spread = 1 / np.sqrt(curvature + ridge(curvature, size, weighted.shape[1]))
    return np.asarray((directions.T * spread) @ directions)


def ridge(curvature: Array, size: float | None, d: int) -> float:
    """ρ >= 0 with sum 1 / (h + ρ) <= d R², by bisection; next to nothing where R is None.

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.coordinates import ridge
        >>> round(ridge(np.array([0.0, 0.0, 1e6, 1e6]), 1.0, 4), 3)          # two free directions of four
        0.5
    """
    least = SMALLEST * float(curvature.max(initial=1.0))
    if size is None or (1 / (curvature + least)).sum() <= d * size**2:
        return least
    low, high = least, 1 / size**2
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if (1 / (curvature + middle)).sum() > d * size**2 else (low, middle)
    return high


def _principal(weighted: Array) -> tuple[Array, Array]:
    """Curvatures of WᵀW and their directions (one a row): from singular values, which keep a thin set's digits."""
    d = weighted.shape[1]
    if d > FEW:  # several times faster
        curvature, directions = np.linalg.eigh(weighted.T @ weighted)
        return np.maximum(curvature, 0.0), directions.T
    _, values, directions = np.linalg.svd(weighted, full_matrices=True)
    return np.concatenate([values**2, np.zeros(d - len(values))]), directions
