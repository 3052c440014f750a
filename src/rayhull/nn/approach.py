"""Steps between the direction and the shrink: what moves a point towards the set before the shrink closes the rest."""

from __future__ import annotations

from torch import Tensor

from rayhull.nn.constants import Constants
from rayhull.nn.sides import Sides


class Step(Constants):
    """Base: a direction from the base point → a direction that is nearer to the set. The shrink comes after it.

    Attributes:
        follows: which sides of the sample ``forward`` takes into account.

    Shape: y (\\*, count, n), base (n,) or (\\*, count, n) → (\\*, count, n)
    """

    follows: frozenset[str] = frozenset()

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError
