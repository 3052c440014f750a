"""Sides of the sample: right-hand sides and bounds that come with the call, in the coordinates of each block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rayhull.nn.constants import Constants, Factory

if TYPE_CHECKING:
    from rayhull.sets.blocks import BlockGroup
    from rayhull.sets.polyhedron import Polyhedron


class Sides(NamedTuple):
    """What a call gave; None: as the set states it.

    Shape: for the set b (\\*, m), b_eq (\\*, m_eq), lower, upper and base (\\*, event shape), A (\\*, m, d), A_eq
    (\\*, m_eq, d); for one kind of block (\\*, count, rows of the block) and (\\*, count, n).
    """

    b: Tensor | None = None
    b_eq: Tensor | None = None
    lower: Tensor | None = None
    upper: Tensor | None = None
    A: Tensor | None = None
    A_eq: Tensor | None = None
    base: Tensor | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The names of those that are given."""
        return tuple(name for name, value in self._asdict().items() if value is not None)

    def checked(self, P: Polyhedron) -> Sides:
        """The same with flat bounds; a shape that does not fit is refused."""
        flat = {}
        for name, shape in self._shapes(P).items():
            value = getattr(self, name)
            if tuple(value.shape[value.ndim - len(shape) :]) != shape or value.ndim < len(shape):
                raise ValueError(f"{name} must have shape (*, {', '.join(map(str, shape))}), got {tuple(value.shape)}.")
            flat[name] = value if name in ("A", "A_eq") else value.flatten(value.ndim - len(shape))
        return Sides(**flat)

    def _shapes(self, P: Polyhedron) -> dict[str, tuple[int, ...]]:
        """The event shape of each side that is given; rows of the sample may be more or fewer than the stated ones."""
        m, m_eq = (
            self._rows(matrix, rhs, len(rows))
            for matrix, rhs, rows in ((self.A, self.b, P.inequalities), (self.A_eq, self.b_eq, P.equalities))
        )
        shapes = {"b": (m,), "b_eq": (m_eq,), "A": (m, P.dim), "A_eq": (m_eq, P.dim)}
        return {name: shapes.get(name, P.shape) for name in self.given}

    @staticmethod
    def _rows(matrix: Tensor | None, rhs: Tensor | None, stated: int) -> int:
        return stated if matrix is None or rhs is None or matrix.ndim < 2 else int(matrix.shape[-2])

    def batch(self, points: tuple[int, ...]) -> tuple[int, ...]:
        """The batch dimensions of points and sides together."""
        ends = {"A": 2, "A_eq": 2}
        own = {name: tuple(getattr(self, name).shape[: -ends.get(name, 1)]) for name in self.given}
        try:
            return np.broadcast_shapes(points, *own.values())
        except ValueError:
            got = ", ".join(f"{name} {shape}" for name, shape in own.items())
            raise ValueError(f"batch dimensions do not broadcast: points {points}, {got}.") from None

    def spread(self, batch: tuple[int, ...], dtype: torch.dtype) -> Sides:
        """Every side for every sample, (n, ...), in the dtype."""
        ends = {"A": 2, "A_eq": 2}
        flat = {}
        for name in self.given:
            value = getattr(self, name).to(dtype)
            tail = value.shape[-ends.get(name, 1) :]
            flat[name] = value.expand(*batch, *tail).reshape(-1, *tail)
        return Sides(**flat)


class BlockSides(Constants):
    """The part of the sides that concerns one kind of block, in its coordinates: mirror images swap their bounds."""

    coordinates: Tensor
    mirrored: Tensor
    rows: Tensor
    equality_rows: Tensor
    stated_lower: Tensor
    stated_upper: Tensor

    def __init__(self, P: Polyhedron, blocks: BlockGroup, factory: Factory) -> None:
        super().__init__(factory)
        block = blocks.polyhedron
        stated, stated_eq = len(block.layout.inequalities), len(block.layout.equalities)
        self.index("coordinates", blocks.index)
        self.index("mirrored", (blocks.sign < 0)[:, None])
        self.has_mirrored = bool((blocks.sign < 0).any())
        self.constant("stated_lower", P.lower_bounds[blocks.index])
        self.constant("stated_upper", P.upper_bounds[blocks.index])
        self.index("rows", P.layout.inequalities[blocks.rows[:, :stated]])
        self.index("equality_rows", P.layout.equalities[blocks.equality_rows[:, :stated_eq]])

    def forward(self, sides: Sides) -> Sides:
        if not sides.given:
            return sides
        b = None if sides.b is None else sides.b[..., self.rows]
        b_eq = None if sides.b_eq is None else sides.b_eq[..., self.equality_rows]
        low, high = (None if s is None else s[..., self.coordinates] for s in (sides.lower, sides.upper))
        return Sides(b, b_eq, *self._swapped(low, high))

    def _swapped(self, low: Tensor | None, high: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """low <= x <= high is -high <= -x <= -low where the block is a mirror image."""
        if not self.has_mirrored or (low is None and high is None):
            return low, high
        low = self.stated_lower if low is None else low
        high = self.stated_upper if high is None else high
        return torch.where(self.mirrored, -high, low), torch.where(self.mirrored, -low, high)
