r"""Coefficients of their own for slacks: what users of quantiles and curves expect, no ties by construction.

A set {A x <= b} with independent rows has one ray for each row: along r_j only the slack of row j grows. So

.. math:: x = x_0 + L γ + \sum_j σ_j (f(β_j) - 1)\, r_j, \qquad f(β) = \mathrm{softplus}(β) / \log 2

has the slacks σ_j f(β_j) > 0, where σ are those of the base point x0: coefficients 0 give the base point, and unit ones
change each slack by a fair share of itself. For a chain x_1 <= x_2 <= ... the slacks are the increments.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rayhull.maps.nonnegative import softplus


def share(beta: Tensor) -> Tensor:
    """softplus(β) / log 2: positive, 1 at 0, about linear above.

    Examples:
        >>> import torch
        >>> from rayhull.maps.increments import share
        >>> share(torch.tensor([-30.0, 0.0, 30.0])).round(decimals=2)
        tensor([ 0.0000,  1.0000, 43.2800])
    """
    return softplus(beta) * (1 / math.log(2))


def chain(level: Tensor, beta: Tensor, steps: Tensor) -> Tensor:
    """An increasing chain from its mean level and its own increments: x_j - x_{j-1} = steps_j · share(β_j).

    Shape: level (\\*, 1), beta (\\*, n - 1), steps (n - 1,) > 0 → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.increments import chain
        >>> chain(torch.zeros(1), torch.zeros(2), torch.ones(2))
        tensor([-1.,  0.,  1.])
    """
    risen = torch.nn.functional.pad(steps * share(beta), (1, 0)).cumsum(-1)
    return level + (risen - risen.mean(-1, keepdim=True))


def between(x: Tensor, lower: float, upper: float) -> Tensor:
    """lower + (upper - lower) sigmoid(x): increasing, so it keeps every order, and strictly between the bounds.

    With one bound only, softplus takes the sigmoid's place; with none x stays.

    Examples:
        >>> import math, torch
        >>> from rayhull.maps.increments import between
        >>> between(torch.tensor([-9.0, 0.0, 9.0]), 0.0, 1.0).round(decimals=2), between(torch.zeros(1), 1.0, math.inf)
        (tensor([0.0000, 0.5000, 1.0000]), tensor([1.6931]))
    """
    if math.isinf(lower) and math.isinf(upper):
        return x
    if math.isinf(upper):
        return lower + softplus(x)
    if math.isinf(lower):
        return upper - softplus(-x)
    return lower + (upper - lower) * torch.sigmoid(x)


def between_inverse(x: Tensor, lower: float, upper: float) -> Tensor:
    """The x of :func:`between`, for points strictly between the bounds.

    Examples:
        >>> import torch
        >>> from rayhull.maps.increments import between, between_inverse
        >>> between_inverse(between(torch.tensor([0.5]), -1.0, 3.0), -1.0, 3.0)
        tensor([0.5000])
    """
    if math.isinf(lower) and math.isinf(upper):
        return x
    if math.isinf(upper):
        return inverse_softplus(x - lower)
    if math.isinf(lower):
        return -inverse_softplus(upper - x)
    return torch.logit((x - lower) / (upper - lower))


def inverse_softplus(y: Tensor) -> Tensor:
    """x with softplus(x) = y > 0: y + log(1 - exp(-y))."""
    return y + torch.log(-torch.expm1(-y))
