r"""Maps onto the simplex {w >= 0, sum w = 1}, for the convex weights of vertices. Pure functions of tensors.

The paper's is the softmax, whose gradient vanishes once one entry leads. The others keep it longer: sparsemax and
entmax are piecewise smooth and reach the faces, the normalised ones are as cheap as a sum.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rayhull.maps.cone import softplus

Weights = Callable[[Tensor], Tensor]


def softmax(z: Tensor) -> Tensor:
    """exp(z_i) / sum exp(z_j): the paper's."""
    return torch.softmax(z, -1)


def sparsemax(z: Tensor) -> Tensor:
    """The nearest point of the simplex: max(z - τ, 0), with τ such that the sum is 1.

    Examples:
        >>> import torch
        >>> from rayhull.maps.simplex import sparsemax
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
        >>> from rayhull.maps.simplex import entmax
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


def named(function: str | Weights) -> Weights:
    """The simplex map of this name, or the user's own."""
    if callable(function):
        return function
    if function not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(WEIGHTS)} or a function, got {function!r}.")
    return WEIGHTS[function]
