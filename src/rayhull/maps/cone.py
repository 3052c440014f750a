r"""The way into a cone along its lines and rays: x = L γ + R f(β) with f >= 0. Pure functions of tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NonNegative = Callable[[Tensor], Tensor]
LOST = 2.0**-40  # what is left of a float64 vector below this share has lost too many digits


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


def without(u: Tensor, basis: Tensor) -> Tensor:
    """u less its part in the span of an orthonormal basis: u - Q Qᵀ u.

    What is left runs over the lines of a cone when Q spans its rows: no basis of the lines is needed, and the cost is
    twice the rank, not the number of lines.

    Shape: u (\\*, d), basis (d, k) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.cone import without
        >>> without(torch.tensor([3.0, 4.0]), torch.tensor([[1.0], [0.0]]))
        tensor([0., 4.])
    """
    return u - (u @ basis) @ basis.mT


def without_carefully(u: Tensor, basis: Tensor) -> Tensor:
    """As :func:`without`, twice, and 0 where next to nothing is left of u: never a direction of rounding errors."""
    once = without(u, basis)
    lost = once.abs().amax(-1, keepdim=True) <= LOST * u.abs().amax(-1, keepdim=True)
    return without(torch.where(lost, torch.zeros_like(once), once), basis)


def along_rays(beta: Tensor, rays: Tensor, nonnegative: NonNegative) -> Tensor:
    """The rays followed forwards: sum of f(β_j) r_j.

    Shape: beta (\\*, r), rays (r, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.cone import along_rays
        >>> along_rays(torch.tensor([-2.0, 1.0]), torch.eye(2), torch.abs)
        tensor([2., 1.])
    """
    return nonnegative(beta) @ rays


def into_simplicial_cone(u: Tensor, rows: Tensor, rays: Tensor, nonnegative: NonNegative = torch.relu) -> Tensor:
    r"""Lines and rays of {x : A x <= 0}, A with independent rows, from one u in R^d.

    .. math:: x = u - A^+ A u + R f(-A u), \qquad R = -A^+, \quad\text{so}\quad A x = -f(-A u) \le 0

    With f = relu it is u + R relu(A u), the identity inside the cone.

    Shape: u (\\*, d), rows A (m, d), rays R (m, d) → (\\*, d)

    Examples:
        >>> import torch
        >>> from rayhull.maps.cone import into_simplicial_cone
        >>> A = torch.tensor([[1.0, -1.0]])              # x0 <= x1
        >>> into_simplicial_cone(torch.tensor([[3.0, 1.0], [0.0, 5.0]]), A, -torch.linalg.pinv(A).mT)
        tensor([[2., 2.],
                [0., 5.]])
    """
    flat = u.reshape(-1, u.shape[-1])
    if len(rows) == 1 and torch.compiler.is_compiling():
        values = (flat * rows).sum(-1, keepdim=True)  # fused with what follows, which a product is not
    else:
        values = flat @ rows.mT  # (*, m)
    weights = torch.relu(values) if nonnegative is torch.relu else values + nonnegative(-values)
    if len(rays) == 1 and not torch.is_grad_enabled():
        return torch.addcmul(flat, weights, rays).reshape(u.shape)  # one pass; its backward pass would take more
    return torch.addmm(flat, weights, rays).reshape(u.shape)
