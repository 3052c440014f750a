"""MapInto: coefficients → a point of the set, block by block, identical blocks in one product."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.maps.strict import finite
from rayhull.nn.choice import Choice, Options, choose
from rayhull.nn.constants import Constants
from rayhull.nn.directions import Free, Simplicial
from rayhull.nn.geometry import Blocks, blocks_of
from rayhull.nn.interval import StrictInterval
from rayhull.nn.layout import ToEventOrder
from rayhull.nn.room import Room
from rayhull.nn.strict import WIDE, StrictPull, StrictReach, StrictShrink, strict_step

if TYPE_CHECKING:
    from rayhull.polyhedron import Polyhedron

VERSION = 1  # of the layout of state_dict


class BlockMap(Constants):
    """x = x0 + shrink(direction(c)) for a kind of block, all places at once.

    Shape: coefficients (\\*, count, k) → points (\\*, count · n)
    """

    base: Tensor
    sign: Tensor

    def __init__(self, blocks: Blocks, choice: Choice, strict: bool, **factory: Any) -> None:
        super().__init__()
        self.count, self.size = blocks.index.shape
        self.method, self.reason = choice.method, choice.reason
        self.direction = choice.direction
        view, P = choice.view, blocks.polyhedron
        base = np.zeros(self.size) if view is None else view.base
        self.strict = (
            strict_step(P, choice.method, None if view is None else base, factory["device"]) if strict else None
        )
        self.room = None if view is None or not len(view.wide) else Room(P, view.wide, view.room, **factory)
        self.moved, self.mirrored = bool(base.any()), bool((blocks.sign < 0).any())
        self.constant("base", base, **factory)
        self.constant("sign", blocks.sign[:, None].astype(float), **factory)

    @property
    def coefficients(self) -> int:
        return self.count * self.direction.coefficients

    @property
    def identity_inside(self) -> bool:
        """Whether coefficients are coordinates seen from the base point, kept as they are inside the set."""
        relu = not isinstance(self.direction, Simplicial) or self.direction.nonnegative is torch.relu
        return isinstance(self.direction, Free | Simplicial) and relu

    def scale_bound(self, y: Tensor, smooth: bool, dtype: torch.dtype) -> Tensor | None:
        """The largest factor that keeps x0 + factor · y inside, None if nothing shrinks. Shape: (\\*, count)"""
        if isinstance(self.strict, StrictReach):
            return self.strict(y, dtype)
        if self.room is None:
            return None
        if isinstance(self.strict, StrictShrink):
            bound = self.strict(y, dtype)
            return torch.minimum(bound, smooth_factor(self.room(y))) if smooth else bound
        return smooth_factor(self.room(y)) if smooth else factor(self.room(y))

    def place(self, y: Tensor, scale: Tensor | None, dtype: torch.dtype, shrinking: bool) -> Tensor:
        """The point ± (x0 + scale · y). Shape: y (\\*, count, n), scale (\\*, count) → (\\*, count · n)"""
        signed = self.mirrored
        if scale is not None:
            if signed and not self.moved and self.strict is None:  # one product for both
                scale, signed = scale * self.sign[:, 0], False
            y = y * scale.unsqueeze(-1)
        if self.moved:
            y = y + self.base
        if isinstance(self.strict, StrictPull):
            y = self.strict(y, dtype, shrinking)
        elif isinstance(self.strict, StrictInterval) and (shrinking or self.room is None):
            y = self.strict(y, dtype)
        y = y.to(dtype)
        return (y * self.sign.to(dtype) if signed else y).flatten(-2)


class MapInto(nn.Module):
    r"""Coefficients that something else predicts → a point of the set: the layer without a Linear of its own.

    .. math:: x = x_0 + \mathrm{shrink}(L \gamma + R f(\beta))

    Args:
        P: the set.
        method: "rays", "shrink", "vertices", "projection", or "auto", which says what it chose in ``describe()``.
        nonnegative: the function on the coefficients of rays: "abs", "relu", "softplus", "square" or your own.
            Default: relu where one u in R^n gives lines and rays, softplus where rays have coefficients of their own.
        weights: the map onto the simplex under "vertices": "softmax", "sparsemax", "entmax", "abs", "softplus".
        scaling: "block" shrinks each block alone; "global" divides all of them by the largest gauge, as the paper does.
        smooth: shrink smoothly, staying inside: gradients do not vanish on the boundary.
        strict: zero violation: the floats that come out meet every inequality and bound in rational arithmetic.
        max_generators: the budget of a conversion.

    Attributes:
        coefficients: how many numbers a sample needs.
        shrinking: a switch for the shrink step. Off, only the rows that need no shrinking hold (see ``describe()``).

    Shape: (\\*, coefficients) → (\\*, event shape)

    Examples:
        >>> import torch, rayhull as rh
        >>> P = rh.monotone(5) & rh.box(-1, 1)
        >>> into = rh.MapInto(P)
        >>> x = into(torch.randn(8, into.coefficients))
        >>> bool(P.contains(x).all())
        True
    """

    fingerprint: Tensor
    version: Tensor

    def __init__(
        self,
        P: Polyhedron,
        *,
        method: str = "auto",
        nonnegative: str | NonNegative | None = None,
        weights: str | Weights = "softmax",
        scaling: str = "block",
        smooth: bool = False,
        strict: bool = False,
        max_generators: int | None = 100_000,
        opposite_rays: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if scaling not in ("block", "global"):
            raise ValueError(f"scaling must be 'block' or 'global', got {scaling!r}.")
        dtype = torch.get_default_dtype() if dtype is None else dtype
        factory: dict[str, Any] = {"device": device, **(WIDE if strict else {"dtype": dtype})}
        options = Options(method, nonnegative, weights, max_generators, opposite_rays, factory)
        self.polyhedron = P
        self.scaling, self.smooth, self.strict, self.shrinking = scaling, smooth, strict, True
        kinds = blocks_of(P)
        self.parts = nn.ModuleList(BlockMap(b, choose(b.polyhedron, options), strict, **factory) for b in kinds)
        self._check(dtype)
        order = np.concatenate([b.index.ravel() for b in kinds])
        self.to_event_order = ToEventOrder(order, P.shape, device)
        self.coefficients = sum(p.coefficients for p in self._parts())
        self.register_buffer("version", torch.tensor(VERSION, device=device))
        digest = np.frombuffer(bytes.fromhex(P.fingerprint), np.uint8)
        self.register_buffer("fingerprint", torch.tensor(digest, device=device))

    def _parts(self) -> list[BlockMap]:
        return [part for part in self.parts if isinstance(part, BlockMap)]

    def forward(self, c: Tensor) -> Tensor:
        if c.shape[-1] != self.coefficients:
            raise ValueError(f"expected {self.coefficients} coefficients on the last axis, got shape {tuple(c.shape)}.")
        dtype = c.dtype
        if self.strict:
            self._check(dtype)
            c = finite(c)
        directions, scales, start = [], [], 0
        for part in self._parts():
            own = c[..., start : start + part.coefficients].reshape(*c.shape[:-1], part.count, -1)
            start += part.coefficients
            directions.append(part.direction(own))
            on = self.shrinking or isinstance(part.strict, StrictReach)
            scales.append(part.scale_bound(directions[-1], self.smooth, dtype) if on else None)
        if self.scaling == "global":
            scales = self._least(scales)
        each = zip(self._parts(), directions, scales, strict=True)
        points = [part.place(y, scale, dtype, self.shrinking) for part, y, scale in each]
        return self.to_event_order(points[0] if len(points) == 1 else torch.cat(points, -1))

    def _least(self, scales: list[Tensor | None]) -> list[Tensor | None]:
        """One factor for all blocks, the smallest."""
        present = [scale for scale in scales if scale is not None]
        if not present:
            return scales
        least = torch.cat(present, -1).amin(-1, keepdim=True)  # (*, 1), over all blocks
        return [least.expand(*least.shape[:-1], part.count) for part in self._parts()]

    def _check(self, dtype: torch.dtype) -> None:
        for part in self._parts():
            if part.strict is not None:
                part.strict.check(dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.strict:  # a cast to a dtype that cannot resolve the set is refused before anything changes
            self._check(fn(torch.zeros((), dtype=torch.float64)).dtype)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    @property
    def identity_inside(self) -> bool:
        """Whether coefficients are coordinates seen from the base point, kept as they are inside the set."""
        return all(part.identity_inside for part in self._parts())

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way in that is the identity there.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        if not self.identity_inside:
            raise ValueError(f"only ways in that are the identity inside have an inverse: {self.describe()}")
        blocks = self.to_event_order.inverse_of(x)
        parts, start = [], 0
        for part in self._parts():
            own = blocks[..., start : start + part.count * part.size].reshape(*blocks.shape[:-1], part.count, part.size)
            parts.append((own * part.sign - part.base).flatten(-2))
            start += part.count * part.size
        return torch.cat(parts, -1)

    def describe(self) -> str:
        """Which way in each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        for part in self._parts():
            many = f"{part.count} blocks of {part.size}" if part.count > 1 else f"one block of {part.size}"
            lines.append(f"  {many}: {part.method} ({part.reason})")
        shrinks = any(part.room is not None for part in self._parts())
        if shrinks and not self.shrinking:
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        return "\n".join(lines)

    def extra_repr(self) -> str:
        methods = ", ".join(dict.fromkeys(part.method for part in self._parts()))
        return f"{self.coefficients} coefficients → {self.polyhedron}, by {methods}"

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        theirs = state_dict.get(prefix + "fingerprint")
        if theirs is not None and not torch.equal(theirs.cpu(), self.fingerprint.cpu()):
            raise RuntimeError(
                f"this state_dict was saved for another set than {self.polyhedron}: build the layer with the set that "
                "it was trained for."
            )
        saved = state_dict.get(prefix + "version")
        if saved is not None and int(saved) > VERSION:
            raise RuntimeError(
                f"this state_dict has version {int(saved)}; this rayhull reads up to {VERSION}: upgrade."
            )
        super()._load_from_state_dict(state_dict, prefix, *args)
