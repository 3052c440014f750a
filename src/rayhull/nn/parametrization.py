"""Weights in a set, through torch.nn.utils.parametrize."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rayhull.maps.nonnegative import NonNegative
from rayhull.nn.keeping import keeping_map

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Parametrization(nn.Module):
    """A weight that stays in the set, whatever the optimiser does to the tensor behind it.

    The tensor behind has the weight's own shape, and a weight inside the set is kept as it is: "auto" takes the first
    way in that is the identity there ("shrink" always is).

    Args:
        P: a set of the weight's shape.
        method, nonnegative, smooth, strict, device, dtype: as for :class:`rayhull.MapInto`.

    Shape: (event shape) → (event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> from torch.nn.utils import parametrize
        >>> P = rh.nonnegative((3, 5)) & rh.box(0, 2)    # a layer that is monotone in every feature
        >>> lin = parametrize.register_parametrization(torch.nn.Linear(5, 3), "weight", rh.Parametrization(P))
        >>> bool(P.contains(lin.weight))
        True
    """

    def __init__(
        self,
        P: Polyhedron,
        *,
        method: str = "auto",
        nonnegative: str | NonNegative | None = None,
        smooth: bool = False,
        strict: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.map = keeping_map(
            P, method, nonnegative=nonnegative, smooth=smooth, strict=strict, device=device, dtype=dtype
        )

    def forward(self, coefficients: Tensor) -> Tensor:
        return self.map(coefficients.flatten())

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        """Coefficients of a weight: exact for one inside the set; one outside is first mapped into it."""
        if tuple(weight.shape) != self.map.polyhedron.shape:
            raise ValueError(f"the set has shape {self.map.polyhedron.shape}, the weight {tuple(weight.shape)}.")
        return self.map.coefficients_of(weight).reshape(weight.shape)
