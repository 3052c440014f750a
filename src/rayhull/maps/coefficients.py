r"""What coefficients mean: round coordinates, weights of lines and rays, convex weights of vertices. Pure functions.

Round coordinates: in them the set looks like a ball around its base point.

.. math:: y = H^{-1/2} c, \qquad H = \sum_i \frac{a_i a_i^T}{σ_i^2} + ρ

H is the Hessian of the log barrier at the base point, σ the slacks there; {y : yᵀ H y <= 1} is Dikin's ellipsoid, which
lies inside the set. Coefficients of unit size then move each row by a fair share of its slack, however thin or small
the set is. An unbounded set has directions that no row bounds: there ρ is such that standard normal coefficients give
points whose root mean square is the scale of the data. The matrix is constant, so that it folds into the Linear in
front.

The way into a cone goes along its lines and rays: x = L γ + R f(β) with f >= 0.

Convex weights lie on the simplex {w >= 0, sum w = 1}. The paper's map onto it is the softmax, whose gradient vanishes
once one entry leads. The others keep it longer: sparsemax and entmax are piecewise smooth and reach the faces, the
normalised ones are as cheap as a sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from torch import Tensor

from rayhull.sets.rows import Array

SMALLEST, BISECTIONS = 1e-14, 80
FEW, DENSE = 256, 1000  # coordinates up to which H^(-1/2) comes from singular values, and at all (beyond: a diagonal)
ROUND, POWERS = 16.0, 30  # a condition number that needs no better coordinates; power iterations that estimate it
NonNegative = Callable[[Tensor], Tensor]
LOST = 2.0**-40  # what is left of a float64 vector below this share has lost too many digits
Weights = Callable[[Tensor], Tensor]


# -- round coordinates -----------------------------------------------------------------------------------------------


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
        diagonal: from the diagonal of H alone, as beyond 1000 coordinates, and beyond 256 where that is round already.
            Bounds stay bounds in such coordinates.

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.coefficients import round_coordinates
        >>> thin = np.array([[1.0, 1.0], [-1.0, -1.0]])                         # |x + y| <= 0.01
        >>> M = round_coordinates(thin, np.array([0.01, 0.01]), size=1.0)
        >>> bool(abs(M @ [1, 1]).max() < 0.01), bool(abs(M @ [1, -1]).max() > 1)
        (True, True)
    """
    weighted = sp.csr_array(sp.diags_array(1 / slack) @ sp.csr_array(rows))
    hull = equal is None or not equal.shape[1]
    scales = hull and size is None and FEW < weighted.shape[1] <= DENSE and diagonal_is_round(weighted)
    if diagonal or scales or weighted.shape[1] > DENSE:
        curvature = np.asarray(weighted.power(2).sum(0)).ravel()
        return np.asarray(1 / np.sqrt(curvature + ridge(curvature, size, len(curvature))))
    if hull:
        curvature, directions = _principal(weighted.toarray())
    else:
        assert equal is not None
        basis = scipy.linalg.null_space(equal.T)  # (d, free)
        curvature, directions = _principal(weighted @ basis)
        directions = directions @ basis.T  # (free, d)
    spread = 1 / np.sqrt(curvature + ridge(curvature, size, weighted.shape[1]))
    return np.asarray((directions.T * spread) @ directions)


def ridge(curvature: Array, size: float | None, d: int) -> float:
    """ρ >= 0 with sum 1 / (h + ρ) <= d R², by bisection; next to nothing where R is None.

    Examples:
        >>> import numpy as np
        >>> from rayhull.maps.coefficients import ridge
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


def diagonal_is_round(weighted: sp.csr_array) -> bool:
    """Whether coordinates scaled by the diagonal of WᵀW alone have a condition number of at most ROUND.

    By a Cholesky factor and power iterations, forwards and backwards: a tenth of the time of all eigenvalues.

    Examples:
        >>> import numpy as np, scipy.sparse as sp
        >>> from rayhull.maps.coefficients import diagonal_is_round
        >>> diagonal_is_round(sp.csr_array(np.diag([1.0, 1e3]))), diagonal_is_round(sp.csr_array([[1, 1], [0, 1e-3]]))
        (True, False)
    """
    many = np.diff(weighted.indptr) > 1  # a bound adds to the diagonal alone
    dense, bounds = weighted[np.flatnonzero(many)].toarray(), weighted[np.flatnonzero(~many)]
    gram = dense.T @ dense + np.diag(np.asarray(bounds.power(2).sum(0)).ravel())
    scale = 1 / np.sqrt(np.diag(gram))
    try:
        factor = scipy.linalg.cho_factor(scale[:, None] * gram * scale)
    except (np.linalg.LinAlgError, ValueError):
        return False
    upper = np.triu(factor[0])
    start = np.cos(np.arange(len(scale)))
    largest = _growth(lambda x: upper.T @ (upper @ x), start)
    return largest * _growth(lambda x: scipy.linalg.cho_solve(factor, x), start) <= ROUND


def _growth(times: Callable[[Array], Array], x: Array) -> float:
    """The largest eigenvalue of a positive definite map, by power iterations from a fixed vector."""
    for _ in range(POWERS):
        x = times(x / np.linalg.norm(x))
    return float(np.linalg.norm(x))


def _principal(weighted: Array) -> tuple[Array, Array]:
    """Curvatures of WᵀW and their directions (one a row): from singular values, which keep a thin set's digits."""
    d = weighted.shape[1]
    if d > FEW:  # several times faster
        curvature, directions = np.linalg.eigh(weighted.T @ weighted)
        return np.maximum(curvature, 0.0), directions.T
    _, values, directions = np.linalg.svd(weighted, full_matrices=True)
    return np.concatenate([values**2, np.zeros(d - len(values))]), directions


# -- lines and rays --------------------------------------------------------------------------------------------------


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)). In an ONNX graph written out, because ONNX Runtime has its operator in float32 only."""
    if torch.onnx.is_in_onnx_export():
        return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))
    return torch.nn.functional.softplus(x)


NONNEGATIVE: dict[str, NonNegative] = {
    "abs": torch.abs,
    "relu": torch.relu,
    "softplus": softplus,
    "square": torch.square,
}


def nonnegative_named(function: str | NonNegative) -> NonNegative:
    """The function of this name, or the user's own."""
    if callable(function):
        return function
    if function not in NONNEGATIVE:
        raise ValueError(f"nonnegative must be one of {', '.join(NONNEGATIVE)} or a function, got {function!r}.")
    return NONNEGATIVE[function]


def without(u: Tensor, basis: Tensor) -> Tensor:
    """u less its part in the span of an orthonormal basis: u - Q Qᵀ u.

    What is left runs over the lines of a cone when Q spans its rows: no basis of the lines is needed, and the cost is
    twice the rank, not the number of lines.

    Shape: u (\\*, d), basis (d, k) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.coefficients import without
        >>> without(torch.tensor([3.0, 4.0]), torch.tensor([[1.0], [0.0]]))
        tensor([0., 4.])
    """
    return u - (u @ basis) @ basis.mT


def without_carefully(u: Tensor, basis: Tensor) -> Tensor:
    """As :func:`without`, twice, and 0 where next to nothing is left of u: never a direction of rounding errors."""
    once = without(u, basis)
    lost = once.abs().amax(-1, keepdim=True) <= LOST * u.abs().amax(-1, keepdim=True)
    return without(torch.where(lost, torch.zeros_like(once), once), basis)


def inverse_softplus(y: Tensor) -> Tensor:
    """x with softplus(x) = y > 0: y + log(1 - exp(-y))."""
    return y + torch.log(-torch.expm1(-y))


# -- convex weights --------------------------------------------------------------------------------------------------


def softmax(z: Tensor) -> Tensor:
    """exp(z_i) / sum exp(z_j): the paper's."""
    return torch.softmax(z, -1)


def sparsemax(z: Tensor) -> Tensor:
    """The nearest point of the simplex: max(z - τ, 0), with τ such that the sum is 1.

    Examples:
        >>> import torch
        >>> from rayhull.maps.coefficients import sparsemax
        >>> sparsemax(torch.tensor([0.5, 0.3, -2.0]))
        tensor([0.6000, 0.4000, 0.0000])
    """
    z = z - z.amax(-1, keepdim=True)  # keeps huge coefficients from swallowing the 1
    ordered = z.sort(-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    excess = ordered.cumsum(-1) - 1.0
    kept = (ordered * count > excess).sum(-1, keepdim=True).clamp_min(1)
    threshold = excess.gather(-1, kept - 1) / kept.to(z.dtype)
    return torch.relu(z - threshold)


def entmax(z: Tensor) -> Tensor:
    """1.5-entmax, between softmax and sparsemax: max(z/2 - τ, 0)², with τ such that the sum is 1.

    Examples:
        >>> import torch
        >>> from rayhull.maps.coefficients import entmax
        >>> bool(entmax(torch.tensor([1.0, 0.0, -9.0]))[2] == 0)
        True
    """
    z = (z - z.amax(-1, keepdim=True)) / 2
    ordered = z.sort(-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    mean = ordered.cumsum(-1) / count
    spread = count * ((ordered**2).cumsum(-1) / count - mean**2)
    inner = ((1.0 - spread) / count).clamp_min(0.0)
    # sqrt has an infinite slope at 0; an entry there is not in the support, so its slope is not wanted
    root = torch.where(inner > 0, inner, torch.ones_like(inner)).sqrt() * (inner > 0)
    thresholds = mean - root
    kept = (thresholds <= ordered).sum(-1, keepdim=True).clamp_min(1)
    return torch.relu(z - thresholds.gather(-1, kept - 1)) ** 2


def normalised_abs(z: Tensor) -> Tensor:
    """|z_i| / sum |z_j|, and equal weights at z = 0."""
    return _normalised(z.abs())


def normalised_softplus(z: Tensor) -> Tensor:
    """softplus(z_i) / sum softplus(z_j): like the softmax for negative z, linear for large ones."""
    return _normalised(softplus(z))


def _normalised(w: Tensor) -> Tensor:
    largest = w.amax(-1, keepdim=True)
    none = largest == 0
    w = torch.where(none, torch.ones_like(w), w / torch.where(none, torch.ones_like(largest), largest))
    return w / w.sum(-1, keepdim=True)


WEIGHTS: dict[str, Weights] = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "entmax": entmax,
    "abs": normalised_abs,
    "softplus": normalised_softplus,
}


def weights_named(function: str | Weights) -> Weights:
    """The simplex map of this name, or the user's own."""
    if callable(function):
        return function
    if function not in WEIGHTS:
        raise ValueError(f"simplex must be one of {', '.join(WEIGHTS)} or a function, got {function!r}.")
    return WEIGHTS[function]
