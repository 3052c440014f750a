"""The strict step of a block: constants derived from its rows once, for every dtype; docs/strict.md has the proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.errors import RayhullError
from rayhull.maps.strict import EPS, gamma, pull, roundoff, strict_factor
from rayhull.nn.constants import Constants
from rayhull.nn.geometry import homogeneous
from rayhull.nn.room import Room
from rayhull.sets.centre import centre
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
MOST_LOSS = 0.5  # a set that loses more than half of its room to rounding is refused
WIDE: dict[str, Any] = {"dtype": torch.float64, "stays_wide": True}


class Strict(Constants):
    """Base: what the steps below share. ``check(dtype)`` refuses a dtype that cannot resolve the set."""

    largest = 0.0  # max|anchor|, where it does not follow the point

    def loss(self, dtype: torch.dtype) -> float:
        """The share of the room around the anchor that rounding takes."""
        raise NotImplementedError

    def check(self, dtype: torch.dtype) -> None:
        if dtype not in DTYPES:
            raise TypeError(f"strict=True knows {', '.join(map(_short, DTYPES))}, got {_short(dtype)}.")
        loss = self.loss(dtype)
        if self.largest > _limit(dtype):
            loss = 1.0
        if not loss < MOST_LOSS:
            raise RayhullError(
                f"strict=True: {_short(dtype)} is too coarse for this set: rounding takes {loss:.0%} of the room "
                f"around its interior point (less than {MOST_LOSS:.0%} is needed). Use a wider dtype, scale the set, "
                "or state narrow directions as equalities."
            )


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _limit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max / 4


class StrictShrink(Strict):
    """The factor t of x = q + t z for directions z seen from the centre q: shrink and strictness in one product.

    Shape: z (\\*, n) → t (\\*)
    """

    def __init__(self, P: Polyhedron, numbers: Array, base: Array, device: Any = None) -> None:
        super().__init__()
        room = room_below(P, numbers, base)
        refuse_thin(P, numbers, room)
        self.gauge = Room(P, numbers, room, device=device, **WIDE)
        matrix = abs(P.rows.matrix[numbers])
        self.steepest = float((matrix.sum(1) / room).max())  # max ‖a‖₁ / σ
        self.at_base = float((matrix @ np.abs(base) / room).max())  # max |a|·|q| / σ
        self.entries = int(np.diff(matrix.indptr).max())
        self.largest = float(np.abs(base).max())

    def loss(self, dtype: torch.dtype) -> float:
        u = roundoff(dtype)
        return u * (self.at_base + torch.finfo(dtype).tiny * self.steepest) + 16 * EPS

    def forward(self, z: Tensor, dtype: torch.dtype) -> Tensor:
        margin = (gamma(self.entries) + roundoff(dtype)) * self.steepest
        limit = _limit(dtype)
        return strict_factor(self.gauge(z), z.abs().amax(-1), margin, self.loss(dtype), limit)


class StrictReach(Strict):
    """No inequality, only equalities or nothing at all: the factor that keeps x = q + t z from overflowing."""

    def __init__(self, base: Array) -> None:
        super().__init__()
        self.largest = float(np.abs(base).max())

    def loss(self, dtype: torch.dtype) -> float:
        return 0.0

    def forward(self, z: Tensor, dtype: torch.dtype) -> Tensor:
        limit = _limit(dtype)
        return limit / z.abs().amax(-1).clamp_min(limit)


class StrictPull(Strict):
    """Points that are inside up to rounding → points that are inside, pulled towards an anchor q + s r.

    The anchor follows the point where the set allows it, so that the pull is relative to the point at every scale:

    - the set contains 0 and rows hold with equality there: q = 0, r the centre, s = max|x| (at most 1 centre away);
    - its rays have an interior direction: q the centre, r that direction, s = max|x|;
    - elsewhere: q the centre, s = 0.

    Shape: x (\\*, n) → (\\*, n)
    """

    origin: Tensor
    along: Tensor

    def __init__(self, P: Polyhedron, numbers: Array, device: Any = None) -> None:
        super().__init__()
        point, direction = centre(P).point, None
        size = float(np.abs(point).max())
        tight = numbers[P.rows.rhs[numbers] == 0]
        self.conic = bool((P.rows.rhs >= 0).all()) and not P.equality_rows.rhs.any() and len(tight) > 0
        wide = numbers[P.rows.rhs[numbers] != 0] if self.conic else numbers
        if not self.conic:
            direction = interior_ray(P)
        self.follows = self.conic or direction is not None
        self.largest = 0.0 if self.conic else size
        self.reach = size if self.conic and len(wide) else np.inf  # the largest s
        along = point / size if self.conic else np.zeros(P.dim) if direction is None else direction
        self.constant("origin", np.zeros(P.dim) if self.conic else point, device=device, **WIDE)
        self.constant("along", along, device=device, **WIDE)
        self.entries = int(np.diff(P.rows.matrix.indptr)[numbers].max())
        self.tight: Room | None = None
        self.wide: Room | None = None
        self.tight_steepest = self.wide_steepest = self.offset = self.share = 0.0
        if self.conic:
            self._take_tight(P, tight, room_below(P, tight, along), device)
        if len(wide):
            self._take_wide(P, wide, self._least_room(P, wide, point, direction), device)
            self.share = self._rounding_share(P, wide, point, direction)

    def _least_room(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> Array:
        """What is left at the anchor for every s: the room is linear in s."""
        room = room_below(P, numbers, point)
        if self.conic:
            return np.minimum(room, room_below(P, numbers, np.zeros(P.dim)))  # least at one of the ends
        if direction is not None:  # σ + s ρ >= (1 + s) min(σ, ρ)
            gain = room_below(P, numbers, point + direction) - P.rows.rhs[numbers] + P.rows.matrix[numbers] @ point
            return np.minimum(room, gain * (1 - 2.0**-20))
        return room

    def _rounding_share(self, P: Polyhedron, numbers: Array, point: Array, direction: Array | None) -> float:
        """max |a|·|anchor| / room over the rows and over s: what a unit of relative rounding takes of the room."""
        matrix = abs(P.rows.matrix[numbers])
        if self.conic:
            return self.wide_steepest * self.reach
        share = matrix @ np.abs(point) / room_below(P, numbers, point)
        if direction is not None:  # (p + s r) / (σ + s ρ) is at most the larger of p / σ and r / ρ
            share = np.maximum(share, matrix @ np.abs(direction) / -(P.rows.matrix[numbers] @ direction))
        return float(share.max())

    def _take_tight(self, P: Polyhedron, numbers: Array, room: Array, device: Any) -> None:
        refuse_thin(P, numbers, room)
        self.tight = Room(P, numbers, room, device=device, **WIDE)
        self.tight_steepest = float((abs(P.rows.matrix[numbers]).sum(1) / room).max())

    def _take_wide(self, P: Polyhedron, numbers: Array, room: Array, device: Any) -> None:
        refuse_thin(P, numbers, room)
        self.wide = Room(P, numbers, room, offset=True, device=device, **WIDE)
        self.wide_steepest = float((abs(P.rows.matrix[numbers]).sum(1) / room).max())
        self.offset = float((np.abs(P.rows.rhs[numbers]) / room).max())

    def loss(self, dtype: torch.dtype) -> float:
        u, tiny = roundoff(dtype), torch.finfo(dtype).tiny
        return 2 * u * max(self.tight_steepest, self.share + self.wide_steepest * tiny)

    def forward(self, x: Tensor, dtype: torch.dtype, shrinking: bool = True) -> Tensor:
        limit, tiny = _limit(dtype), torch.finfo(dtype).tiny
        margin = gamma(self.entries) + 3 * roundoff(dtype)
        size = x.abs().amax(-1)
        scale = size.clamp(tiny, min(self.reach, limit)) if self.follows else torch.zeros_like(size)
        farthest = size + scale + (self.largest + tiny)  # bounds x, the anchor and their difference
        excess = torch.full_like(size, -1.0)
        if self.wide is not None and shrinking:
            excess = self.wide(x) + margin * self.wide_steepest * farthest + 8 * EPS * self.offset
            excess = excess if self.conic else excess / (1.0 + scale)
        if self.tight is not None:
            over = (self.tight(x) + margin * self.tight_steepest * (size + scale)) / scale
            excess = torch.maximum(excess, over)
        anchor = torch.addcmul(self.origin, scale.unsqueeze(-1), self.along) if self.follows else self.origin
        inside = pull(x, anchor, (excess + 8 * EPS) / (1 - self.loss(dtype)), limit)
        if not self.conic:
            return inside
        return torch.where((size < tiny).unsqueeze(-1), torch.zeros_like(x), inside)  # 0 is in the set


def interior_ray(P: Polyhedron) -> Array | None:
    """A direction r, max|r| = 1, along which every row gains room; None for a set that has none."""
    if P.is_bounded:
        return None
    rays = homogeneous(P, np.arange(len(P.rows)), np.zeros(0, np.int64))
    middle = centre(rays)
    if middle.implicit.any():
        return None
    return np.asarray(middle.point / np.abs(middle.point).max())


def room_below(P: Polyhedron, numbers: Array, point: Array) -> Array:
    """Lower bounds of b - a·point for the given rows: float64, with its own rounding error taken off."""
    matrix, rhs = P.rows.matrix[numbers], P.rows.rhs[numbers]
    size = abs(matrix) @ np.abs(point) + np.abs(rhs)
    return np.asarray(rhs - matrix @ point - (np.diff(matrix.indptr) + 8) * 2 * EPS * size)


def refuse_thin(P: Polyhedron, numbers: Array, room: Array) -> None:
    """Raise where a row has no room at the interior point that float64 can prove."""
    if (room <= 0).any():
        worst = P.rows.names[numbers[int(room.argmin())]]
        raise RayhullError(
            f"strict=True needs an interior point with provable room in every row, and {worst} has none: the set is "
            "too thin for float64. State the narrow directions as equalities."
        )


def strict_step(P: Polyhedron, method: str, base: Array | None, device: Any = None) -> Strict:
    """The strict step of a block; a set whose interior is empty for another reason than equalities is refused."""
    if not len(P.rows):
        return StrictReach(np.zeros(P.dim) if base is None else base)
    if P.dim == 1:
        from rayhull.nn.interval import StrictInterval

        return StrictInterval(P)
    hidden = np.flatnonzero(centre(P).implicit)
    if len(hidden):
        names = ", ".join(P.rows.names[i] for i in hidden[:4])
        raise RayhullError(
            f"strict=True: {len(hidden)} inequalities hold with equality on the whole set ({names}), which floats "
            "cannot do exactly. State them as equalities (A_eq), which hold up to a stated number of ulps."
        )
    numbers = np.arange(len(P.rows))
    if method == "shrink" and base is not None:
        return StrictShrink(P, numbers, base, device)
    return StrictPull(P, numbers, device)
