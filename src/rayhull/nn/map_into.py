"""MapInto: coefficients → a point of the set, block by block, identical blocks in one product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rayhull.maps.convex_weights import Weights
from rayhull.maps.nonnegative import NonNegative
from rayhull.maps.strict import finite
from rayhull.nn.block import BlockMap
from rayhull.nn.choice import Options, choose
from rayhull.nn.event_order import ToEventOrder
from rayhull.nn.geometry import blocks_of
from rayhull.nn.strict import WIDE, StrictReach

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

VERSION = 1  # of the layout of state_dict


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
        self.parts = nn.ModuleList(BlockMap(P, b, choose(b.polyhedron, options), strict, **factory) for b in kinds)
        self.nearest: nn.Module | None = None
        if method == "projection":
            from rayhull.nn.projection import Projection

            self.nearest = Projection(P)
        self._check(dtype)
        order = np.concatenate([b.index.ravel() for b in kinds])
        self.to_event_order = ToEventOrder(order, P.shape, device)
        self.coefficients = sum(p.coefficients for p in self.blocks())
        self.register_buffer("version", torch.tensor(VERSION, device=device))
        digest = np.frombuffer(bytes.fromhex(P.fingerprint), np.uint8)
        self.register_buffer("fingerprint", torch.tensor(digest, device=device))

    def blocks(self) -> list[BlockMap]:
        """The kinds of blocks, in the order of their coefficients."""
        return [part for part in self.parts if isinstance(part, BlockMap)]

    def forward(
        self, c: Tensor, b: Tensor | None = None, lower: Tensor | None = None, upper: Tensor | None = None
    ) -> Tensor:
        """A point of the set; b (\\*, m), lower and upper (\\*, event shape) replace those stated, sample by sample."""
        if c.shape[-1] != self.coefficients:
            raise ValueError(f"expected {self.coefficients} coefficients on the last axis, got shape {tuple(c.shape)}.")
        dtype, given = c.dtype, self._given(b, lower, upper)
        if self.nearest is not None:
            c = self._project(c, given)
            given = {}
        if self.strict:
            self._check(dtype)
            c = finite(c)
        blocks, directions, scales, start = self.blocks(), [], [], 0
        for part in blocks:
            own = c[..., start : start + part.coefficients].reshape(
                *c.shape[:-1], part.count, part.direction.coefficients
            )
            start += part.coefficients
            directions.append(part.direction(own))
            on = self.shrinking or isinstance(part.strict, StrictReach)
            scales.append(part.scale_bound(directions[-1], self.smooth, dtype, given) if on else None)
        if self.scaling == "global":
            scales = self._least(scales)
        each = zip(blocks, directions, scales, strict=True)
        points = [part.place(y, scale, dtype, self.shrinking) for part, y, scale in each]
        return self.to_event_order(points[0] if len(points) == 1 else torch.cat(points, -1))

    def _project(self, c: Tensor, given: dict[str, Tensor]) -> Tensor:
        """The nearest points of the set, in block order, mirrored blocks as their plain ones."""
        assert self.nearest is not None
        event = self.polyhedron.shape
        sides = {name: v if name == "b" else v.reshape(*v.shape[:-1], *event) for name, v in given.items()}
        x = self.to_event_order.inverse_of(self.nearest(self.to_event_order(c), **sides))
        return x * torch.cat([part.sign.expand(part.count, part.size).flatten() for part in self.blocks()]).to(x.dtype)

    def _given(self, b: Tensor | None, lower: Tensor | None, upper: Tensor | None) -> dict[str, Tensor]:
        """What depends on the sample, bounds flat; a refusal where the way in cannot follow it."""
        if b is None and lower is None and upper is None:
            return {}
        given = {name: value for name, value in (("b", b), ("lower", lower), ("upper", upper)) if value is not None}
        for name, value in given.items():
            shape = (len(self.polyhedron.inequalities),) if name == "b" else self.polyhedron.shape
            if tuple(value.shape[value.ndim - len(shape) :]) != shape:
                raise ValueError(f"{name} must have shape (*, {', '.join(map(str, shape))}), got {tuple(value.shape)}.")
            if self.strict:
                raise ValueError("strict=True bounds its errors for the right-hand sides of the set: use strict=False.")
            if self.nearest is None and any(part.of_sample.met_otherwise[name] for part in self.blocks()):
                raise ValueError(f"{name} is met by {self.extra_repr()}, which fixes it: use method='shrink'.")
        return {name: v if name == "b" else v.flatten(v.ndim - len(self.polyhedron.shape)) for name, v in given.items()}

    def _least(self, scales: list[Tensor | None]) -> list[Tensor | None]:
        """One factor for all blocks, the smallest."""
        present = [scale for scale in scales if scale is not None]
        if not present:
            return scales
        least = torch.cat(present, -1).amin(-1, keepdim=True)  # (*, 1), over all blocks
        return [least.expand(*least.shape[:-1], part.count) for part in self.blocks()]

    def _check(self, dtype: torch.dtype) -> None:
        for part in self.blocks():
            if part.strict is not None:
                part.strict.check(dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if self.strict:  # a cast to a dtype that cannot resolve the set is refused before anything changes
            self._check(fn(torch.zeros((), dtype=torch.float64)).dtype)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    @property
    def identity_inside(self) -> bool:
        """Whether coefficients are coordinates seen from the base point, kept as they are inside the set."""
        return all(part.identity_inside for part in self.blocks())

    def coefficients_of(self, x: Tensor) -> Tensor:
        """Coefficients that give x, for an x in the set and a way in that is the identity there.

        Shape: (\\*, event shape) → (\\*, coefficients)
        """
        flat = self.to_event_order.inverse_of(x)
        return torch.cat([(v * part.sign - part.base).flatten(-2) for part, v in self._split(flat)], -1).to(x.dtype)

    def point_of(self, c: Tensor) -> Tensor:
        """The point whose coefficients are c, with nothing imposed: inside the set it is what comes out.

        Undoes ``coefficients_of``. Shape: (\\*, coefficients) → (\\*, event shape)

        Examples:
            >>> import torch, rayhull as rh
            >>> into = rh.MapInto(rh.monotone(2))
            >>> c = torch.tensor([3.0, 1.0])
            >>> into.point_of(c), into(c)
            (tensor([3., 1.]), tensor([2., 2.]))
        """
        parts = [((v + part.base) * part.sign).flatten(-2) for part, v in self._split(c)]
        return self.to_event_order(torch.cat(parts, -1).to(c.dtype))

    def _split(self, values: Tensor) -> Iterator[tuple[BlockMap, Tensor]]:
        """Each kind of block with its own values, (\\*, count, size)."""
        if not self.identity_inside:
            raise ValueError(f"only ways in that are the identity inside have an inverse: {self.describe()}")
        start = 0
        for part in self.blocks():
            stop = start + part.count * part.size
            yield part, values[..., start:stop].reshape(*values.shape[:-1], part.count, part.size)
            start = stop

    def describe(self) -> str:
        """Which way in each kind of block takes and why, and what holds."""
        lines = [f"{self.polyhedron}: {self.coefficients} coefficients"]
        for part in self.blocks():
            many = f"{part.count} blocks of {part.size}" if part.count > 1 else f"one block of {part.size}"
            lines.append(f"  {many}: {part.method} ({part.reason})")
        shrinks = any(part.room is not None for part in self.blocks())
        if shrinks and not self.shrinking:
            lines.append("  shrinking is off: only the rows met by rays and the equalities hold")
        return "\n".join(lines)

    def extra_repr(self) -> str:
        methods = ", ".join(dict.fromkeys(part.method for part in self.blocks()))
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
