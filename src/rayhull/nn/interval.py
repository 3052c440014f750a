"""Blocks of one coordinate, strictly: a clamp to the outermost numbers of the dtype that are inside."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.nn.strict import DTYPES, Strict
from rayhull.sets.exact_membership import exact_integers

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class StrictInterval(Strict):
    """x → min(max(x, low), high) with low and high rounded inwards. Shape: (\\*, 1) → (\\*, 1), in dtype"""

    def __init__(self, P: Polyhedron) -> None:
        super().__init__()
        low, high = exact_interval(P)
        self.limits = {dtype: (_inwards(low, dtype, up=True), _inwards(high, dtype, up=False)) for dtype in DTYPES}
        self.stated = f"[{'-inf' if low is None else float(low)}, {'inf' if high is None else float(high)}]"

    def check(self, dtype: torch.dtype) -> None:
        low, high = self.limits[dtype]
        if not low <= high:
            short = str(dtype).removeprefix("torch.")
            raise RayhullError(f"strict=True: no {short} number lies in {self.stated}: use a wider dtype.")

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        low, high = self.limits[dtype]
        return x.clamp(low, high).to(dtype)


def exact_interval(P: Polyhedron) -> tuple[Fraction | None, Fraction | None]:
    """The bounds of a set with one coordinate, from all of its rows; None where there is none."""
    data, rhs = exact_integers(P.rows)
    ends = [(Fraction(int(b), int(a)), int(a) > 0) for a, b in zip(data, rhs, strict=True)]
    lows = [value for value, is_upper in ends if not is_upper]
    highs = [value for value, is_upper in ends if is_upper]
    return max(lows, default=None), min(highs, default=None)


def _inwards(bound: Fraction | None, dtype: torch.dtype, up: bool) -> float:
    """The nearest number of dtype that is >= bound (up) or <= bound; the largest one where there is no bound."""
    largest = float(torch.finfo(dtype).max)
    if bound is None:
        return -largest if up else largest
    number = torch.tensor(float(bound), dtype=torch.float64).to(dtype)
    number = number.clamp(-largest, largest)
    towards = torch.tensor(largest if up else -largest, dtype=dtype)
    while (Fraction(number.item()) < bound) if up else (Fraction(number.item()) > bound):
        after = torch.nextafter(number, towards)
        if after == number:
            return float("inf") if up else float("-inf")
        number = after
    return float(number.item())
