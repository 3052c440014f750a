"""Functions onto the non-negative numbers, for the coefficients of rays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NonNegative = Callable[[Tensor], Tensor]

NONNEGATIVE: dict[str, NonNegative] = {
    "abs": torch.abs,
    "relu": torch.relu,
    "softplus": torch.nn.functional.softplus,
    "square": torch.square,
}


def named(function: str | NonNegative) -> NonNegative:
    """The function of this name, or the user's own."""
    if callable(function):
        return function
    if function not in NONNEGATIVE:
        raise ValueError(f"nonnegative must be one of {', '.join(NONNEGATIVE)} or a function, got {function!r}.")
    return NONNEGATIVE[function]
