r"""Zero violation: pulls whose rounding errors are bounded beforehand. Pure functions of tensors.

Everything is computed in float64 (unit roundoff ε = 2^-53) and rounded once, at the end, to the dtype that comes out
(unit roundoff u, smallest normal number τ). Then x = round(q + t z) meets a row a·x <= b of n entries when

.. math:: t\,(a·z + k ζ) \le σ - u' (|a|·|q| + τ ‖a‖_1), \qquad k = (γ_n + u') ‖a‖_1

where q is the base point with slack σ = b - a·q, z the direction, ζ >= max|z| and u' = u + 16 ε. docs/strict.md derives
it.

Numbers that carry a proof are tensors: the ONNX exporter passes Python's floats through float32, which would undo it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

EPS = 2.0**-53  # the unit roundoff of float64
LARGEST = 2.0**127  # float64 coefficients beyond are cut: products stay finite, and float32 holds the number


def roundoff(dtype: torch.dtype) -> float:
    """u' = u + 16 ε: one rounding to dtype, and the float64 steps before it."""
    return torch.finfo(dtype).eps / 2 + 16 * EPS


def gamma(n: int) -> float:
    """(n + 16) ε / (1 - (n + 16) ε): bounds a float64 dot product of n terms, whatever its order, and 16 steps more."""
    return (n + 16) * EPS / (1 - (n + 16) * EPS)


def finite(c: Tensor) -> Tensor:
    """Coefficients in float64, cut where they are infinite or so large that products would be. NaN stays NaN."""
    limit = LARGEST if c.dtype == torch.float64 else torch.finfo(c.dtype).max
    return c.to(torch.float64).clamp(-limit, limit)


def overflow_cut(c: Tensor, origin: Sequence[Tensor]) -> Tensor:
    """c with what overflowed cut to the largest number, and NaN for samples whose origin is not finite.

    ``origin`` is what c was computed from: features (\\*, k) with a row for each sample, then weights that serve all.

    Examples:
        >>> import torch
        >>> from rayhull.maps.strict import overflow_cut
        >>> c, features = torch.tensor([[torch.inf], [torch.inf]]), torch.tensor([[3e38], [torch.inf]])
        >>> overflow_cut(c, [features, torch.tensor([[9.0]])])
        tensor([[3.4028e+38],
                [       nan]])
    """
    features, *weights = origin
    mark = (features * 0.0).sum(-1, keepdim=True)  # 0, or NaN
    if weights:
        flat = [w.detach().flatten() for w in weights]
        ends = torch.stack([end for w in flat for end in (w.amin(0), w.amax(0))])  # NaN stays NaN
        mark = mark + (ends * 0.0).sum()
    return c.nan_to_num(0.0) + mark.to(c.dtype)


def strict_factor(gauge: Tensor, size: Tensor, margin: Tensor, kept: Tensor, limit: Tensor) -> Tensor:
    """The largest t <= 1 that provably keeps q + t z inside: kept / (gauge + margin size).

    ``margin`` bounds k / σ over the rows, and ``kept`` is 1 less u' (|a|·|q| + τ ‖a‖₁) / σ, what rounding takes of the
    slack; t z stays below ``limit`` in size.

    Shape: gauge max_i a_i·z / σ_i (\\*), size max|z| (\\*) → (\\*)

    Examples:
        >>> import torch
        >>> from rayhull.maps.strict import strict_factor
        >>> g, (margin, kept, limit) = torch.tensor([0.5, 2.0]), torch.tensor([1e-3, 1.0, 1e30])
        >>> strict_factor(g, g, margin, kept, limit)
        tensor([1.0000, 0.4995])
    """
    bound = torch.maximum(gauge + margin * size, size / limit)
    return kept / torch.maximum(bound, kept)


def pull(x: Tensor, base: Tensor, excess: Tensor, limit: Tensor) -> Tensor:
    """x moved towards the base point by the share y / (1 + y), y = max(0, excess), or not at all.

    ``excess`` is an upper bound of max_i (a_i·x - b_i) / σ_i with every rounding error in it; ``limit`` bounds what
    comes out.

    Shape: x, base (\\*, n), excess (\\*) → (\\*, n)

    Examples:
        >>> import torch
        >>> from rayhull.maps.strict import pull
        >>> x = torch.tensor([[1.5, 0.0], [0.5, 0.0]])                            # the box |x| <= 1 around 0
        >>> pull(x, torch.zeros_like(x), x.abs().amax(-1) - 1, limit=torch.tensor(1e30))
        tensor([[1.0000, 0.0000],
                [0.5000, 0.0000]])
    """
    away = x - base
    excess = torch.maximum(excess, away.abs().amax(-1) / limit - 1.0).clamp_min(0.0).unsqueeze(-1)
    moved = base + away / (1.0 + excess)
    # q + (x - q) is not quite x: where nothing is to be moved, x itself comes out. NaN takes the first way, and stays.
    return torch.where(excess == 0, x, moved)
