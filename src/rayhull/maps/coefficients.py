"""What coefficients mean: weights of lines and rays, convex weights of vertices. Pure functions of tensors.

The way into a cone goes along its lines and rays: x = L γ + R f(β) with f >= 0.

Convex weights lie on the simplex {w >= 0, sum w = 1}. The paper's map onto it is the softmax, whose gradient vanishes
once one entry leads. The others keep it longer: sparsemax and entmax are piecewise smooth and reach the faces, the
normalised ones are as cheap as a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

NonNegative = Callable[[Tensor], Tensor]
Weights = NonNegative
LOST = 2.0**-40  # what is left of a float64 vector below this share has lost too many digits


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


def _named(what: str, known: dict[str, NonNegative], function: str | NonNegative) -> NonNegative:
    """The function of this name, or the user's own."""
    if callable(function):
        return function
    if function not in known:
        raise ValueError(f"{what} must be one of {', '.join(known)} or a function, got {function!r}.")
    return known[function]


nonnegative_named = partial(_named, "nonnegative", NONNEGATIVE)


def without(u: Tensor, basis: Tensor | Callable[[Tensor], Tensor]) -> Tensor:
    """u less its part in the span of an orthonormal basis: u - Q Qᵀ u; or as a plane of sparse rows has it.

    What is left runs over the lines of a cone when Q spans its rows: no basis of the lines is needed, and the cost is
    twice the rank, not the number of lines.

    Shape: u (\\*, d), basis (d, k) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.coefficients import without
        >>> without(torch.tensor([3.0, 4.0]), torch.tensor([[1.0], [0.0]]))
        tensor([0., 4.])
    """
    return u - (u @ basis) @ basis.mT if isinstance(basis, Tensor) else basis(u)


def without_carefully(u: Tensor, basis: Tensor | Callable[[Tensor], Tensor]) -> Tensor:
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

weights_named = partial(_named, "simplex", WEIGHTS)
