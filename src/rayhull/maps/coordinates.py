r"""Round coordinates: in them the set looks like a ball around its base point.

.. math:: y = H^{-1/2} c, \qquad H = \sum_i \frac{a_i a_i^T}{σ_i^2} + \frac{1}{d R^2}

H is the Hessian of the log barrier at the base point, σ the slacks there; {y : yᵀ H y <= 1} is Dikin's ellipsoid, which
lies inside the set. Coefficients of unit size then move each row by a fair share of its slack, however thin or small
the set is. The second term is a ridge for directions that no row bounds: they get steps of the size R of the data.

The matrix is constant, so that it starts in, or folds into, the Linear in front.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from rayhull.sets.rows import Array

DENSE = 2000  # coordinates up to which H^(-1/2) is worked out; beyond, from H's diagonal (no d x d matrix is made)


def round_coordinates(
    rows: sp.csr_array | Array, slack: Array, size: float = 1.0, *, equal: Array | None = None, diagonal: bool = False
) -> Array:
    """M = H^(-1/2), symmetric (d, d), or the diagonal (d,) of a diagonal one.

    Args:
        rows: the inequalities' rows (m, d).
        slack: b - A x0 (m,), positive.
        size: R, the scale of the data, for free directions.
        equal: an orthonormal basis (d, k) of the equalities' row space: M then maps into their null space.
        diagonal: from the diagonal of H alone, as beyond 2000 coordinates. Bounds stay bounds in such coordinates.

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.coordinates import round_coordinates
        >>> thin = np.array([[1.0, 1.0], [-1.0, -1.0]])                         # |x + y| <= 0.01
        >>> M = round_coordinates(thin, np.array([0.01, 0.01]))
        >>> bool(abs(M @ [1, 1]).max() < 0.01), bool(abs(M @ [1, -1]).max() > 1)
        (True, True)
    """
    weighted = sp.csr_array(sp.diags_array(1 / slack) @ sp.csr_array(rows))
    ridge = 1 / (weighted.shape[1] * size**2)
    if diagonal or weighted.shape[1] > DENSE:
        return np.asarray(1 / np.sqrt(np.asarray(weighted.power(2).sum(0)).ravel() + ridge))
    root = _inverse_root(_inside(weighted.toarray(), equal), ridge)
    return _inside(root, equal)


def _inside(matrix: Array, equal: Array | None) -> Array:
    """The rows of a matrix less their part in the equalities' row space."""
    return matrix if equal is None or not equal.shape[1] else matrix - (matrix @ equal) @ equal.T


def _inverse_root(weighted: Array, ridge: float) -> Array:
    """(WᵀW + ridge)^(-1/2) from the singular values of W: squaring W would lose half of the digits of a thin set."""
    _, values, directions = scipy.linalg.svd(weighted, full_matrices=True)
    squares = np.zeros(weighted.shape[1])
    squares[: len(values)] = values**2
    return np.asarray((directions.T / np.sqrt(squares + ridge)) @ directions)
