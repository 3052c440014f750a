"""What a call brings with it: right-hand sides, bounds and rows, checked and flat."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Sides(NamedTuple):
    """(1 or n, length) each, rows (1 or n, m, D); None where the set's own numbers hold."""

    b: Tensor | None = None
    b_eq: Tensor | None = None
    lower: Tensor | None = None
    upper: Tensor | None = None
    A: Tensor | None = None
    A_eq: Tensor | None = None

    @property
    def stated(self) -> bool:
        return any(v is not None for v in self)

    @property
    def has_rows(self) -> bool:
        return self.A is not None or self.A_eq is not None


def flat_points(P: Polyhedron, x: Tensor) -> tuple[tuple[int, ...], Tensor]:
    """The batch shape, and the points (n, D), after a check of shape, dtype and values."""
    event = P.shape
    if x.ndim < len(event) or tuple(x.shape[x.ndim - len(event) :]) != event:
        raise ValueError(f"points must have shape (*, {', '.join(map(str, event))}), got {tuple(x.shape)}.")
    if not x.is_floating_point():
        raise TypeError(f"points must be floating-point numbers, got {x.dtype}: call x.float() first.")
    batch = tuple(x.shape[: x.ndim - len(event)])
    flat = x.reshape(math.prod(batch), P.dim)
    if _looks_infinite(flat):
        bad = (~flat.isfinite()).any(1).nonzero()[:, 0].tolist()
        if bad:
            raise ValueError(f"points must be finite, got NaN or infinity in sample {bad[0]} ({len(bad)} in all).")
    return batch, flat


def flat_sides(P: Polyhedron, values: dict[str, Any], batch: tuple[int, ...], like: Tensor) -> Sides:
    """Each side as (1 or n, length), after a check of its name, shape and values."""
    unknown = set(values) - set(Sides._fields)
    if unknown:
        raise TypeError(f"unknown side {sorted(unknown)[0]!r}: the sides are {', '.join(Sides._fields)}.")
    return Sides(**{name: _flat_side(P, name, v, batch, like) for name, v in values.items() if v is not None})


def _event(P: Polyhedron, name: str) -> tuple[int, ...]:
    m, k = len(P.inequalities), len(P.equalities)
    return {"b": (m,), "b_eq": (k,), "A": (m, P.dim), "A_eq": (k, P.dim)}.get(name, P.shape)


def _flat_side(P: Polyhedron, name: str, value: Any, batch: tuple[int, ...], like: Tensor) -> Tensor:
    event = _event(P, name)
    side = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value, dtype=float))
    side = side.to(like.device)
    if side.ndim < len(event):
        side = side.expand(event)
    lead = tuple(side.shape[: side.ndim - len(event)])
    if tuple(side.shape[len(lead) :]) != event or not _broadcasts(lead, batch):
        raise ValueError(
            f"{name} must have shape {event} or {(*batch, *event)} for points of batch shape {batch}, "
            f"got {tuple(side.shape)}."
        )
    bad = torch.isnan if name in ("lower", "upper") else lambda v: ~v.isfinite()  # bounds may be infinite
    if _looks_infinite(side) and bool(bad(side).any()):
        raise ValueError(f"{name} must hold numbers, got NaN or infinity.")
    flat = event if len(name.removesuffix("_eq")) == 1 else (P.dim,)  # A and A_eq stay matrices
    if all(size == 1 for size in lead):
        return side.reshape(1, *flat)
    return side.expand(*batch, *event).reshape(math.prod(batch), *flat)


def _looks_infinite(values: Tensor) -> bool:
    """One cheap pass over the values; a careful look is needed only if their sum is not finite."""
    return not math.isfinite(float(values.detach().sum()))


def _broadcasts(lead: tuple[int, ...], batch: tuple[int, ...]) -> bool:
    return len(lead) <= len(batch) and all(a in (1, b) for a, b in zip(lead[::-1], batch[::-1], strict=False))
