"""Blocks: a way at all places where its kind of block stands, and the strict finish of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.leak import block_of_each
from rayhull.nn.conic import ConicPull
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.strict import Finish, Intervals, finish_of
from rayhull.nn.ways import Way
from rayhull.projection.sides import CONIC, NONE, Sides
from rayhull.sets.cones import with_cones
from rayhull.sets.products import BlockGroup
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Places(Constants):
    """Where the blocks of one kind stand among flat coordinates; a mirror image carries -x.

    Shape: (\\*, d) ↔ (\\*, count, n), or (\\*, n) where one block is ``alone``, no mirror image
    """

    def __init__(self, blocks: BlockGroup, factory: Factory) -> None:
        super().__init__(factory)
        self.count, self.size = blocks.index.shape
        self.columns = blocks.index.ravel()
        self.mirrored = bool((blocks.sign < 0).any())
        self.alone = self.count == 1 and not self.mirrored
        self.in_order = self.alone and bool((self.columns == np.arange(self.size)).all())
        self.index("index_", self.columns)
        self.constant("sign", blocks.sign[:, None].astype(float))
        self.compiled = torch.from_numpy(blocks.index.astype(np.int32)), torch.from_numpy(blocks.sign.astype(float))

    def read(self, x: Tensor) -> Tensor:
        """The blocks; a sample that is one, as it is."""
        if self.in_order and x.shape[-1] == self.size:
            return x
        return self._turned(self._by_block(x.index_select(-1, self.index_)))

    def write(self, own: Tensor, x: Tensor) -> Tensor:
        """x with blocks in their places."""
        if self.in_order and x.shape[-1] == self.size:
            return own
        return x.index_copy(-1, self.index_, self._flat(own))

    def _by_block(self, x: Tensor) -> Tensor:
        return x if self.alone else x.reshape(*x.shape[:-1], self.count, x.shape[-1] // self.count)

    def _flat(self, x: Tensor) -> Tensor:
        return x if self.alone else self._turned(x).flatten(-2)

    def _turned(self, x: Tensor) -> Tensor:
        return x * self.sign if self.mirrored else x


def every_coordinate(columns: Array, P: Any = None) -> BlockGroup:
    """Coordinates as one block, that of the whole set P."""
    none = np.zeros((1, 0), np.int64)
    return BlockGroup(P, columns[None], none, none, np.ones(1, np.int64))


class Part(Places):
    """One way, at all places of its kind of block, or for the whole set at once.

    Shape: coefficients (\\*, count · k) → points (\\*, count · n), in the order of the kind's places
    """

    def __init__(self, P: Polyhedron, blocks: BlockGroup, way: Way, why: str, factory: Factory) -> None:
        super().__init__(blocks, factory)
        own = blocks.polyhedron
        self.way, self.why, self.has_cones = way, why, with_cones(own) is not None
        self.coefficients = self.count * way.coefficients
        self.whole = own is P
        self.index("block", block_of_each(own).numpy())
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
        low, high, base, centre = (None if v is None else self._by_block(v[..., self.index_]) for v in each)
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
        """Points of the blocks from unconstrained points of the set. Shape: (\\*, d) → (\\*, count · n)"""
        return self._flat(self.way(self.read(u), self.own(sides)))

    def certified(self, sides: Sides) -> Tensor | None:
        """Which samples have base points that certify all of these blocks; None where no block asks. Shape: (\\*)"""
        each = self.way.certified(self.own(sides))
        return each if each is None or self.whole or self.alone else each.all(-1)

    def unconstrained(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed, in the set's coordinates. Shape: as ``forward``"""
        return self._flat(self.way.start(self._by_block(c)))

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Of points of the set, inverse to ``unconstrained``. Shape: (\\*, d) → (\\*, count · k)"""
        c = self.way.coefficients_of(self.read(x))
        return c if self.alone else c.flatten(-2)

    def describe(self) -> str:
        many = f"{self.count} blocks of {self.size}" if self.count > 1 else f"one block of {self.size}"
        return f"{many}: {self.why}"


class Parts(Constants, nn.ModuleList):
    """The parts of a map, in the order of their coefficients. Shape: (\\*, coefficients) → (\\*, d), flat

    Attributes:
        keeps_inside: whether all coefficients are coordinates, and points of the set stay where they are.
        single: whether the points of one part are all there is.
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[Part]: ...

    def __init__(self, parts: Sequence[Part], factory: Factory) -> None:
        super().__init__(factory)
        self.extend(parts)
        self.coefficients = sum(part.coefficients for part in parts)
        self.keeps_inside = all(part.way.keeps_inside for part in parts)
        order = np.argsort(np.concatenate([part.columns for part in parts]))
        self.in_order = bool((order == np.arange(len(order))).all())
        self.single = self.in_order and len(parts) == 1
        self.index("order", order)

    def split(self, c: Tensor) -> Iterator[tuple[Part, Tensor]]:
        """Each part with its own coefficients."""
        parts: Any = self._modules.values()
        own = (c,) if len(parts) == 1 else torch.split(c, [part.coefficients for part in parts], -1)
        return zip(parts, own, strict=True)

    def flat(self, points: Sequence[Tensor]) -> Tensor:
        """The points of each part as coordinates of the set."""
        x = points[0] if len(points) == 1 else torch.cat(list(points), -1)
        return x if self.in_order else x.index_select(-1, self.order)

    def forward(self, c: Tensor, sides: Sides = NONE, leak: float = 0.0) -> Tensor:
        """Points inside up to rounding."""
        return self.flat([part.forward(own, sides, leak) for part, own in self.split(c)])

    def points(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        """The same from unconstrained points."""
        return self.flat([part.points(u, sides) for part in self])

    def unconstrained(self, c: Tensor) -> Tensor:
        """What coefficients stand for before the set is imposed, where they are coordinates."""
        return self.flat([part.unconstrained(own) for part, own in self.split(c)])

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Undoes ``unconstrained``."""
        return torch.cat([part.coefficients_of(x) for part in self], -1)

    def certified(self, sides: Sides) -> Tensor | None:
        """Which samples their base points certify, in every block; None where no block asks. Shape: (\\*)"""
        each = [found for found in (part.certified(sides) for part in self) if found is not None]
        return reduce(torch.logical_and, each) if each else None

    def takes(self, sides: Iterable[str]) -> bool:
        """Whether the blocks' own ways take these sides, with a base point that meets the equalities."""
        names = set(sides)
        own = (names if part.has_cones else names - set(CONIC) for part in self)  # of cones only some blocks know
        return all(known <= part.way.follows for known, part in zip(own, self, strict=True))

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        """Whether tensor operations are all that the ways take, for these sides of the sample."""
        return all(part.way.fits_graphs(sides) for part in self)

    @property
    def elsewhere(self) -> str:
        """What runs in graphs and on other devices, in words."""
        return "; ".join(dict.fromkeys(part.way.elsewhere for part in self if part.way.elsewhere))

    def gathered(self, name: str) -> Array:
        """The base point or the units of the ways for each flat coordinate; 0 and 1 where a way has none."""
        values = np.full(len(self._index["order"]), 0.0 if name == "base" else 1.0)
        for part in self:
            if name in part.way.exact:
                own = part.way.exact[name] * (part.exact["sign"] if name == "base" else 1.0)
                values[part.columns] = np.broadcast_to(own, (part.count, part.size)).ravel()
        return values


class Finishes(nn.Module):
    """The strict finish of every kind of block. Shape: (\\*, d) → (\\*, d)"""

    def __init__(self, kinds: Sequence[BlockGroup], factory: Factory) -> None:
        super().__init__()
        single = [kind for kind in kinds if kind.blocks.shape[1] == 1 and len(kind.polyhedron.rows)]
        each: list[Finish] = []
        if single:
            each.append(Intervals(single, factory))
            each[0].places = Places(every_coordinate(np.concatenate([kind.index.ravel() for kind in single])), factory)
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
    S = with_cones(P)
    return finish_of(P, factory) if S is None else ConicPull(S, factory)
