"""Functions onto the non-negative numbers, for the coefficients of rays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NonNegative = Callable[[Tensor], Tensor]


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


def named(function: str | NonNegative) -> NonNegative:
    """The function of this name, or the user's own."""
    if callable(function):
        return function
    if function not in NONNEGATIVE:
        raise ValueError(f"nonnegative must be one of {', '.join(NONNEGATIVE)} or a function, got {function!r}.")
    return NONNEGATIVE[function]
