r"""The nearest increasing chain, by pooling. Pure functions of tensors.

The nearest point of {x_1 <= x_2 <= ... <= x_n} to u is constant on pools of neighbours, each at the mean of its own u:

.. math:: x_i = \max_{j \le i} \min_{k \ge i} \frac{u_j + \dots + u_k}{k - j + 1}

Two neighbouring chains a and b that are increasing already become one by a level v between them, at which what the
first loses is what the second gains:

.. math:: (\min(a, v), \max(b, v)), \qquad \sum_i \max(a_i - v, 0) = \sum_i \max(v - b_i, 0)

So a chain is merged from stretches of 16 entries in log2(n / 16) rounds, each over all pairs at once, in memory for a
few chains; the stretches, and short chains, come from tables of all their means. It comes out increasing exactly, in
floats too, whatever the rounding of v: minima and maxima are exact and keep the order of each side, and v parts the
two. Chains with a_m <= b_1 stay as they are, so that inside the order the map is the identity, bit by bit. The
derivative is the mean over each pool: neighbours whose x are equal, unless none of them moved.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

SHORT, STRETCH = 64, 16  # entries of a chain, and of a stretch of a long one, whose means are taken in a table


def pooled(u: Tensor) -> Tensor:
    """The nearest increasing chain; all NaN where an entry is not finite.

    Shape: (\\*, n) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import pooled
        >>> u = torch.tensor([1.0, 3.0, 2.0, 2.5, 4.0], requires_grad=True)
        >>> x = pooled(u)
        >>> x.detach(), torch.autograd.grad(x[3], u)[0].round(decimals=2)
        (tensor([1.0000, 2.5000, 2.5000, 2.5000, 4.0000]), tensor([0.0000, 0.3300, 0.3300, 0.3300, 0.0000]))
    """
    wide = u if u.dtype in (torch.float32, torch.float64) else u.float()  # sums of halves are too coarse
    short = u.shape[-1] <= SHORT
    x = of_all_means(wide.detach()) if short else _merged_from_stretches(wide.detach())
    mean = _means_of_few(wide, x) if short else means(wide, x)
    known = (wide.detach() * 0).sum(-1, keepdim=True)  # 0, or NaN
    return (x + known + (mean - mean.detach())).to(u.dtype)  # x itself, with the derivative of the means


def means(u: Tensor, x: Tensor) -> Tensor:
    """The mean of u over each pool, at every entry of it: neighbours whose x are equal, unless none of them moved.

    Shape: u, x (\\*, n) → (\\*, n)
    """
    begins = x[..., 1:] != x[..., :-1]
    number = torch.nn.functional.pad(begins.long(), (1, 0)).cumsum(-1)  # of each entry's pool
    size, moved = (_sums(v, number) for v in (torch.ones_like(x), (u.detach() != x).to(x.dtype)))
    return torch.where(moved > 0, _sums(u / size, number), u)  # divided first: no overflow


def _means_of_few(u: Tensor, x: Tensor) -> Tensor:
    """The same in a table: entries of an increasing chain that are equal are neighbours."""
    same = x.unsqueeze(-1) == x.unsqueeze(-2)
    moved = (same & (u.detach() != x).unsqueeze(-2)).any(-1)
    share = same.to(u.dtype) / same.sum(-1, keepdim=True)  # divided first: no overflow
    return torch.where(moved, (share @ u.unsqueeze(-1)).squeeze(-1), u)


def _sums(v: Tensor, number: Tensor) -> Tensor:
    """The sum over each entry's pool. Shape: (\\*, n) → (\\*, n)"""
    return torch.zeros_like(v).scatter_add(-1, number, v).gather(-1, number)


def _merged_from_stretches(u: Tensor) -> Tensor:
    n = u.shape[-1]
    whole, width = 1 << (n - 1).bit_length(), STRETCH
    x = torch.cat([u, u.amax(-1, keepdim=True).expand(*u.shape[:-1], whole - n)], -1)  # the largest stay behind
    x = of_all_means(x.reshape(*u.shape[:-1], whole // width, width)).flatten(-2)
    while width < whole:
        width *= 2
        x = merged(x.reshape(*u.shape[:-1], whole // width, width)).flatten(-2)
    return x[..., :n]


def of_all_means(u: Tensor) -> Tensor:
    """The nearest increasing chain by its formula, which takes n² numbers.

    Shape: (\\*, n) → (\\*, n)
    """
    shares, before = _shares(u) if torch.compiler.is_compiling() else _kept_shares(u.shape[-1], u.device)
    each = u.double() / u.shape[-1]  # differences of sums need the digits, and none may overflow
    sums = each.cumsum(-1)
    mean = ((sums - each).unsqueeze(-1) - sums.flip(-1).unsqueeze(-2)) * shares  # times -1, the last k first
    least = running_maximum(mean).masked_fill(before, torch.inf)
    x = -least.amin(-2).flip(-1).to(u.dtype)
    return torch.where((u[..., 1:] >= u[..., :-1]).all(-1, keepdim=True), u, x)


def _shares(u: Tensor) -> tuple[Tensor, Tensor]:
    """n / (k - j + 1), and whether k comes before j, the last k first. Shape: (n, n)"""
    n = torch.arange(u.shape[-1], device=u.device)
    length = n.flip(-1) + 1 - n.unsqueeze(-1)
    return len(n) / length.clamp_min(1).double(), length < 1


@lru_cache(64)
def _kept_shares(n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.no_grad():
        return _shares(torch.empty(n, device=device))


def merged(x: Tensor) -> Tensor:
    """The nearest increasing chain to one whose two halves are increasing.

    Shape: (\\*, 2 m) → (\\*, 2 m), m a power of two

    Examples:
        >>> import torch
        >>> from rayhull.maps.order import merged
        >>> merged(torch.tensor([0.0, 2.0, 3.0, 9.0, 1.0, 2.0, 5.0, 6.0]))
        tensor([0., 2., 3., 4., 4., 4., 5., 6.])
    """
    half = x.shape[-1] // 2
    values, place = x.sort(-1)
    # where they fall, the last of the first half and the first of the second meet
    taken = _beyond_level(values, place < half) | (place == half - 1) | (place == half)
    weight = taken.to(x.dtype)
    level = (values * (weight / weight.sum(-1, keepdim=True))).sum(-1, keepdim=True)  # divided first: no overflow
    a, b = x[..., :half], x[..., half:]
    falls = a[..., -1:] > b[..., :1]
    return torch.where(falls, torch.cat([torch.minimum(a, level), torch.maximum(b, level)], -1), x)


def _beyond_level(t: Tensor, first: Tensor) -> Tensor:
    """Which entries the level takes: those of the first half that are above it, and those of the second below.

    f(t) = Σ max(a - t, 0) - Σ max(t - b, 0) falls, and is 0 at the level.

    Args:
        t: the entries of both halves, increasing.
        first: which of them are of the first half.

    Shape: (\\*, 2 m) → (\\*, 2 m)
    """
    t = t / (2 * t.shape[-1])  # a power of two: exact, and no sum overflows
    t = t - t.gather(-1, (~first).long().argmax(-1, keepdim=True))  # seen from b_1: the digits are for differences
    above = torch.where(first, t, 0.0).flip(-1).cumsum(-1).flip(-1)
    below = torch.where(first, 0.0, t).cumsum(-1)
    count = first.to(t.dtype).flip(-1).cumsum(-1).flip(-1) + (~first).to(t.dtype).cumsum(-1)
    f = above + below - count * t
    return torch.where(first, -f, f) > 0


def running_maximum(u: Tensor) -> Tensor:
    """max over all that come before on the last axis, and itself.

    In a compiled or exported graph by maxima over windows of 1, 2, 4, ... entries: they fuse, and ONNX has them.

    Shape: (\\*, n) → (\\*, n)
    """
    if not torch.compiler.is_compiling():
        return torch.cummax(u, -1).values
    width = 1
    while width < u.shape[-1]:
        u = torch.cat([u[..., :width], torch.maximum(u[..., width:], u[..., :-width])], -1)
        width *= 2
    return u
