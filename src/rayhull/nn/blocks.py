"""Blocks: a way at all places where its kind of block stands, and the strict finish of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.leak import block_of_each
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.strict import Finish, Intervals, finish_of
from rayhull.nn.ways import Way
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.products import BlockGroup


class Places(Constants):
    """Where the blocks of one kind stand among flat coordinates; a mirror image carries -x.

    Shape: (\\*, d) ↔ (\\*, count, n)
    """

    index_: Tensor
    sign: Tensor

    def __init__(self, blocks: BlockGroup, factory: Factory) -> None:
        super().__init__(factory)
        self.count, self.size = blocks.index.shape
        self.flat = blocks.index.ravel()
        self.mirrored = bool((blocks.sign < 0).any())
        self.index("index_", self.flat)
        self.constant("sign", blocks.sign[:, None].astype(float))

    def is_whole(self, d: int) -> bool:
        """Whether it is one block, in the order of the coordinates."""
        return self.count == 1 and not self.mirrored and bool(np.array_equal(self.flat, np.arange(d)))

    def read(self, x: Tensor) -> Tensor:
        own = x.index_select(-1, self.index_).reshape(*x.shape[:-1], self.count, self.size)
        return own * self.sign if self.mirrored else own

    def write(self, own: Tensor, x: Tensor) -> Tensor:
        own = own * self.sign if self.mirrored else own
        return x.index_copy(-1, self.index_, own.flatten(-2))


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
        self.alone = len(blocks.index) == 1 and not self.has_mirrored  # as a part takes it, without an axis of blocks
        self.constant("stated_lower", P.lower_bounds[blocks.index])
        self.constant("stated_upper", P.upper_bounds[blocks.index])
        self.index("rows", P.layout.inequalities[blocks.rows[:, :stated]])
        self.index("equality_rows", P.layout.equalities[blocks.equality_rows[:, :stated_eq]])

    def forward(self, sides: Sides) -> Sides:
        b = None if sides.b is None else sides.b[..., self.rows]
        b_eq = None if sides.b_eq is None else sides.b_eq[..., self.equality_rows]
        low, high, base = (
            None if side is None else side[..., self.coordinates] for side in (sides.lower, sides.upper, sides.base)
        )
        if base is not None and self.has_mirrored:
            base = torch.where(self.mirrored, -base, base)
        own = Sides(b, b_eq, *self._swapped(low, high), base=base)
        if not self.alone:
            return own
        return Sides(**{name: getattr(own, name).squeeze(-2) for name in own.given})

    def _swapped(self, low: Tensor | None, high: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """low <= x <= high is -high <= -x <= -low where the block is a mirror image."""
        if not self.has_mirrored or (low is None and high is None):
            return low, high
        low = self.stated_lower if low is None else low
        high = self.stated_upper if high is None else high
        return torch.where(self.mirrored, -high, low), torch.where(self.mirrored, -low, high)


class Part(nn.Module):
    """One way, at all places of its kind of block, or for the whole set at once.

    Shape: coefficients (\\*, count · k) → points (\\*, count · n), in the order of the kind's places
    """

    block: Tensor

    def __init__(self, P: Polyhedron, blocks: BlockGroup, way: Way, why: str, factory: Factory) -> None:
        super().__init__()
        self.way, self.why, self.polyhedron = way, why, blocks.polyhedron
        self.places = Places(blocks, factory)
        self.count, self.size = blocks.index.shape
        self.alone, self.mirrored = self.count == 1 and not self.places.mirrored, self.places.mirrored
        self.coefficients = self.count * way.coefficients
        whole = blocks.polyhedron is P
        self.sides = None if whole else BlockSides(P, blocks, factory)
        several = block_of_each(P) if whole else torch.empty(0, dtype=torch.int64)
        self.register_buffer("block", several, persistent=False)

    def forward(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        u = self.way.start(c if self.alone else self._by_block(c))
        own = sides if self.sides is None or sides is NONE else self.sides(sides)
        leaks = leak and self.way.keeps_inside
        x: Tensor = self.way.leaking(u, own, leak, self.block) if leaks else self.way(u, own)
        return x if self.alone else self._turned(x).flatten(-2)

    def unconstrained(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed, in the set's coordinates. Shape: as ``forward``"""
        u = self.way.start(c if self.alone else self._by_block(c))
        return u if self.alone else self._turned(u).flatten(-2)

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``unconstrained``."""
        if self.alone:
            return self.way.coefficients_of(x)
        return self.way.coefficients_of(self._turned(self._by_block(x))).flatten(-2)

    def _by_block(self, c: Tensor) -> Tensor:
        return c.reshape(*c.shape[:-1], self.count, c.shape[-1] // self.count)

    def _turned(self, x: Tensor) -> Tensor:
        return x * self.places.sign if self.mirrored else x

    def describe(self) -> str:
        many = f"{self.count} blocks of {self.size}" if self.count > 1 else f"one block of {self.size}"
        return f"{many}: {self.why}"


class Parts(nn.ModuleList):
    """The parts of a map, in the order of their coefficients."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Part]: ...

    def split(self, c: Tensor) -> Iterator[tuple[Part, Tensor]]:
        """Each part with its own coefficients."""
        return zip(self, torch.split(c, [part.coefficients for part in self], -1), strict=True)


class Finishes(nn.Module):
    """The strict finish of every kind of block. Shape: (\\*, d) → (\\*, d)"""

    def __init__(self, P: Polyhedron, kinds: Sequence[BlockGroup], factory: Factory) -> None:
        super().__init__()
        single = [kind for kind in kinds if kind.polyhedron.dim == 1 and len(kind.polyhedron.rows)]
        others = [kind for kind in kinds if not any(kind is one for one in single)]
        self.checked: set[torch.dtype] = set()
        self.intervals = Intervals(single, factory) if single else None
        places = [Places(kind, factory) for kind in others]
        self.whole = len(others) == 1 and not single and places[0].is_whole(P.dim)
        self.places = nn.ModuleList(places)
        self.kinds = nn.ModuleList([finish_of(kind.polyhedron, factory) for kind in others])

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold the promise."""
        if dtype not in self.checked:
            for finish in self.modules():
                if isinstance(finish, Finish):
                    finish.check(dtype)
            self.checked.add(dtype)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        x = x.detach()
        if self.whole:
            found: Tensor = self.kinds[0](x, dtype)
            return found
        x = x if self.intervals is None else self.intervals(x, dtype)
        for places, finish in zip(self.places, self.kinds, strict=True):
            x = places.write(finish(places.read(x), dtype).to(x.dtype), x)  # type: ignore[operator]
        return x.to(dtype)


def event_order(kinds: Sequence[Array]) -> Array:
    """Where each flat coordinate stands when kinds of blocks follow one another."""
    return np.argsort(np.concatenate([index.ravel() for index in kinds]))
