"""MapInto: coefficients → a point of the set, block by block, identical blocks in one product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.shrink import factor, smooth_factor
from rayhull.nn.choice import Choice, Options, choose
from rayhull.nn.constants import Constants
from rayhull.nn.directions import Free, Simplicial
from rayhull.nn.geometry import Blocks, blocks_of
from rayhull.nn.layout import ToEventOrder
from rayhull.nn.room import Room

if TYPE_CHECKING:
    from rayhull.polyhedron import Polyhedron

VERSION = 1  # of the layout of state_dict


class BlockMap(Constants):
    """x = x0 + shrink(direction(c)) for a kind of block, all places at once.

    Shape: coefficients (\\*, count, k) → directions and gauges (\\*, count, n), (\\*, count)
    """

    base: Tensor
    sign: Tensor

    def __init__(self, blocks: Blocks, choice: Choice, **factory: Any) -> None:
        super().__init__()
        self.count, self.size = blocks.index.shape
        self.method, self.reason = choice.method, choice.reason
        self.direction = choice.direction
        view = choice.view
        self.room = None if view is None or not len(view.wide) else Room(blocks.polyhedron, view, **factory)
        base = np.zeros(self.size) if view is None else view.base
        self.moved, self.mirrored = bool(base.any()), bool((blocks.sign < 0).any())
        self.constant("base", base, **factory)
        self.constant("sign", blocks.sign[:, None].astype(float), **factory)

    @property
    def coefficients(self) -> int:
        return self.count * self.direction.coefficients

    @property
    def identity_inside(self) -> bool:
        relu = not isinstance(self.direction, Simplicial) or self.direction.nonnegative is torch.relu
        return isinstance(self.direction, Free | Simplicial) and relu

    def place(self, y: Tensor, scale: Tensor | None) -> Tensor:
        """The point: ± (x0 + scale · y). Shape: y (\\*, count, n), scale (\\*, count) → (\\*, count · n)"""
        if scale is not None and self.mirrored and not self.moved:
            y, scale = y, scale * self.sign[:, 0]
        if scale is not None:
            y = y * scale.unsqueeze(-1)
        if self.moved:
            y = y + self.base
        if self.mirrored and (scale is None or self.moved):
            y = y * self.sign
        return y.flatten(-2)


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
        max_generators: int | None = 100_000,
        opposite_rays: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if scaling not in ("block", "global"):
            raise ValueError(f"scaling must be 'block' or 'global', got {scaling!r}.")
        factory = {"device": device, "dtype": dtype}
        options = Options(method, nonnegative, weights, max_generators, opposite_rays, factory)
        self.polyhedron = P
        self.scaling, self.smooth, self.shrinking = scaling, smooth, True
        kinds = blocks_of(P)
        self.parts = nn.ModuleList(BlockMap(b, choose(b.polyhedron, options), **factory) for b in kinds)
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
        directions, gauges = [], []
        start = 0
        for part in self._parts():
            own = c[..., start : start + part.coefficients].unflatten(-1, (part.count, -1))
            start += part.coefficients
            y = part.direction(own)
            directions.append(y)
            gauges.append(part.room(y) if part.room is not None and self.shrinking else None)
        scales = self._scales(gauges)
        points = [p.place(y, s) for p, y, s in zip(self._parts(), directions, scales, strict=True)]
        return self.to_event_order(points[0] if len(points) == 1 else torch.cat(points, -1))

    def _scales(self, gauges: list[Tensor | None]) -> list[Tensor | None]:
        scale = smooth_factor if self.smooth else factor
        if self.scaling == "block":
            return [None if g is None else scale(g) for g in gauges]
        present = [g for g in gauges if g is not None]
        if not present:
            return gauges
        largest = torch.cat(present, -1).amax(-1, keepdim=True)  # (*, 1), over all blocks
        return [scale(largest).expand(*largest.shape[:-1], part.count) for part in self._parts()]

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
            own = blocks[..., start : start + part.count * part.size].unflatten(-1, (part.count, part.size))
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
