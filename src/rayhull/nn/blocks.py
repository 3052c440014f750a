"""Blocks: a way at all places where its kind of block stands, and the strict finish of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.leak import block_of_each
from rayhull.nn.conic import ConicPull
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.strict import Finish, Intervals, finish_of, refuse_hidden_equalities
from rayhull.nn.ways import Way
from rayhull.projection.sides import CONIC, NONE, Sides
from rayhull.sets.cones import with_cones
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
        self.in_order = self.count == 1 and not self.mirrored and bool((self.flat == np.arange(self.size)).all())
        self.index("index_", self.flat)
        self.constant("sign", blocks.sign[:, None].astype(float))
        self.compiled = torch.from_numpy(blocks.index.astype(np.int32)), torch.from_numpy(blocks.sign.astype(float))

    def is_whole(self, x: Tensor) -> bool:
        """Whether samples are one block, in the order of the coordinates."""
        return self.in_order and x.shape[-1] == self.size

    def read(self, x: Tensor) -> Tensor:
        """The blocks; a sample that is one, as it is."""
        if self.is_whole(x):
            return x
        own = x.index_select(-1, self.index_).reshape(*x.shape[:-1], self.count, self.size)
        return own * self.sign if self.mirrored else own

    def write(self, own: Tensor, x: Tensor) -> Tensor:
        if self.is_whole(x):
            return own
        own = own * self.sign if self.mirrored else own
        return x.index_copy(-1, self.index_, own.flatten(-2))


class Part(Constants):
    """One way, at all places of its kind of block, or for the whole set at once.

    Shape: coefficients (\\*, count · k) → points (\\*, count · n), in the order of the kind's places
    """

    block: Tensor
    mirror: Tensor
    rows: Tensor
    equality_rows: Tensor
    stated_lower: Tensor
    stated_upper: Tensor

    def __init__(self, P: Polyhedron, blocks: BlockGroup, way: Way, why: str, factory: Factory) -> None:
        super().__init__(factory)
        own = blocks.polyhedron
        self.way, self.why, self.places = way, why, Places(blocks, factory)
        self.count, self.size = blocks.index.shape
        self.mirrored, self.has_cones = self.places.mirrored, with_cones(own) is not None
        self.alone = self.count == 1 and not self.mirrored  # without an axis of blocks
        self.coefficients = self.count * way.coefficients
        self.whole = own is P
        self.index("block", block_of_each(P).numpy() if self.whole else np.zeros(0, np.int64))
        if not self.whole:
            stated, stated_eq = len(own.layout.inequalities), len(own.layout.equalities)
            self.index("mirror", (blocks.sign < 0)[:, None])
            self.constant("stated_lower", P.lower_bounds[blocks.index])
            self.constant("stated_upper", P.upper_bounds[blocks.index])
            rows = P.layout.inequalities[blocks.rows[:, :stated]]
            equality_rows = P.layout.equalities[blocks.equality_rows[:, :stated_eq]]
            self.index("rows", rows[0] if self.alone else rows)
            self.index("equality_rows", equality_rows[0] if self.alone else equality_rows)

    def forward(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        way: Any = self._modules["way"]
        u = way.start(c if self.alone else self._by_block(c))
        own = sides if sides is NONE else self.own(sides)
        x: Tensor = way.leaking(u, own, leak, self.block) if leak and way.keeps_inside else way.forward(u, own)
        return x if self.alone else self._flat(x)

    def own(self, sides: Sides) -> Sides:
        """The part of the sides that concerns this kind of block, in its coordinates."""
        if self.whole or sides is NONE:
            return sides
        b = None if sides.b is None else sides.b[..., self.rows]
        b_eq = None if sides.b_eq is None else sides.b_eq[..., self.equality_rows]
        each = (sides.lower, sides.upper, sides.base, sides.centre if self.has_cones else None)
        low, high, base, centre = (None if v is None else self._by_block(v[..., self.places.index_]) for v in each)
        h = sides.h if self.has_cones else None  # all cones are in one block
        h = h if h is None or self.alone else h.unsqueeze(-2)
        if base is not None and self.mirrored:
            base = torch.where(self.mirror, -base, base)
        return Sides(b, b_eq, *self._swapped(low, high), base=base, h=h, centre=centre)

    def _swapped(self, low: Tensor | None, high: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """low <= x <= high is -high <= -x <= -low where the block is a mirror image."""
        if not self.mirrored or (low is None and high is None):
            return low, high
        low = self.stated_lower if low is None else low
        high = self.stated_upper if high is None else high
        return torch.where(self.mirror, -high, low), torch.where(self.mirror, -low, high)

    def points(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        """Points of the blocks from unconstrained points in the set's coordinates. Shape: as ``forward``"""
        return self._flat(self.way(self._turned(self._by_block(u)), self.own(sides)))

    def certified(self, sides: Sides) -> Tensor | None:
        """Which samples have base points that certify all of these blocks; None where no block asks. Shape: (\\*)"""
        each = self.way.certified(self.own(sides))
        return each if each is None or self.whole or self.alone else each.all(-1)

    def concerns(self, names: set[str]) -> set[str]:
        """Those of the sides that may say something of this kind of block."""
        return names if self.has_cones else names - set(CONIC)

    def unconstrained(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed, in the set's coordinates. Shape: as ``forward``"""
        return self._flat(self.way.start(self._by_block(c)))

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``unconstrained``."""
        c = self.way.coefficients_of(self._turned(self._by_block(x)))
        return c if self.alone else c.flatten(-2)

    def _by_block(self, c: Tensor) -> Tensor:
        return c if self.alone else c.reshape(*c.shape[:-1], self.count, c.shape[-1] // self.count)

    def _flat(self, x: Tensor) -> Tensor:
        return x if self.alone else self._turned(x).flatten(-2)

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
        parts: Any = self._modules.values()
        own = (c,) if len(parts) == 1 else torch.split(c, [part.coefficients for part in parts], -1)
        return zip(parts, own, strict=True)


def all_certified(parts: Parts, sides: Sides) -> Tensor | None:
    """Which samples their base points certify, in every block; None where no block asks. Shape: (\\*)"""
    each = [found for found in (part.certified(sides) for part in parts) if found is not None]
    return reduce(torch.logical_and, each) if each else None


class Finishes(nn.Module):
    """The strict finish of every kind of block. Shape: (\\*, d) → (\\*, d)"""

    def __init__(self, kinds: Sequence[BlockGroup], factory: Factory) -> None:
        super().__init__()
        single = [kind for kind in kinds if kind.polyhedron.dim == 1 and len(kind.polyhedron.rows)]
        each: list[Finish] = [Intervals(single, factory)] if single else []
        for kind in kinds:
            if not any(kind is one for one in single):
                each.append(_finish(kind.polyhedron, factory))
                each[-1].places = Places(kind, factory)
        self.each = nn.ModuleList(each)
        self.checked: set[torch.dtype] = set()

    def check(self, dtype: torch.dtype) -> None:
        """Refuse a dtype that cannot hold the promise."""
        if dtype not in self.checked:
            for finish in self.each:
                finish.check(dtype)  # type: ignore[operator]
            self.checked.add(dtype)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        x = x.detach()
        for finish in self.each:
            x = finish.at_places(x, dtype)  # type: ignore[operator]
        return x if x.dtype == dtype else x.to(dtype)


def _finish(P: Polyhedron, factory: Factory) -> Finish:
    """The finish of a kind of block, with cones or without."""
    if (S := with_cones(P)) is None:
        return finish_of(P, factory)
    refuse_hidden_equalities(P)
    return ConicPull(S, factory)


def event_order(kinds: Sequence[Array]) -> Array:
    """Where each flat coordinate stands when kinds of blocks follow one another."""
    return np.argsort(np.concatenate([index.ravel() for index in kinds]))
