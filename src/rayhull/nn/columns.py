"""Inference for sets of one block with samples as columns: what runs over a sample's coordinates then vectorises.

A maximum over 50 coordinates of 256 samples takes 2 µs over the first axis and 20 µs over the last (one thread,
float32), which for small sets decides the cost of the layer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rayhull.maps.shrink import factor
from rayhull.maps.strict import EPS, finite, gamma, roundoff, strict_factor
from rayhull.nn.block import BlockMap
from rayhull.nn.directions import Free, Simplicial
from rayhull.nn.map_into import MapInto
from rayhull.nn.room import Room
from rayhull.nn.strict import StrictPull, StrictShrink


def fits(into: MapInto) -> bool:
    """Whether the functions below cover this map: one block, dense rows, closed-form direction, plain shrink."""
    parts = into.blocks()
    if len(parts) != 1 or into.smooth or into.nearest is not None:
        return False
    part = parts[0]
    hull = part.direction.onto_hull if isinstance(part.direction, Simplicial) else part.direction
    closed_form = isinstance(hull, Free) and not hull.has_equalities and part.identity_inside
    dense = part.room is None or part.room.product is None or not part.room.product.has_short
    strict = part.strict is None or isinstance(part.strict, StrictShrink) or _is_plain_cone(part.strict)
    return part.count == 1 and closed_form and dense and strict and not part.mirrored


def points(into: MapInto, c: Tensor) -> Tensor:
    """Coefficients (k, batch) → points (batch, n)."""
    part, dtype = into.blocks()[0], c.dtype
    if into.strict:
        c = finite(c)
    y = c
    if isinstance(part.direction, Simplicial):
        y = torch.addmm(c, part.direction.rays.mT, torch.relu(part.direction.rows @ c))
    if part.room is not None and into.shrinking:
        y = y * _scale(part, y, dtype)
    if part.moved:
        y = y + part.base.unsqueeze(-1)
    if isinstance(part.strict, StrictPull):
        y = _pulled(part.strict, y, dtype)
    return y.to(dtype).mT.contiguous()


def _scale(part: BlockMap, y: Tensor, dtype: torch.dtype) -> Tensor:
    """The factor of the shrink. Shape: (n, batch) → (batch)"""
    if isinstance(part.strict, StrictShrink):
        step = part.strict
        size = y.abs().amax(0)
        margin = (gamma(step.entries) + roundoff(dtype)) * step.steepest
        return strict_factor(_gauge(step.gauge, y, size), size, margin, step.loss(dtype), torch.finfo(dtype).max / 4)
    assert part.room is not None
    return factor(_gauge(part.room, y, None))


def _is_plain_cone(step: nn.Module | None) -> bool:
    """Whether the strict step is that of a cone with dense rows: the anchor s r with s = max|x|, nothing else."""
    if not isinstance(step, StrictPull) or step.tight is None or step.wide is not None:
        return False
    return step.tight.product is not None and not step.tight.product.has_short and not step.tight.bounded


def _pulled(step: StrictPull, x: Tensor, dtype: torch.dtype) -> Tensor:
    """:class:`StrictPull` for a cone: x' = t x + (1 - t) s r, the identity where t = 1. Shape: (n, batch)"""
    assert step.tight is not None
    limit, tiny = torch.finfo(dtype).max / 4, torch.finfo(dtype).tiny
    size = x.abs().amax(0)
    scale = size.clamp(tiny, limit)
    farthest = size + scale
    margin = (gamma(step.entries) + 3 * roundoff(dtype)) * step.tight_steepest
    over = (_gauge(step.tight, x, None) + margin * farthest) / scale
    excess = torch.maximum((over + 8 * EPS) / (1 - step.loss(dtype)), farthest / limit - 1.0).clamp_min(0.0)
    share = (size >= tiny) / (1.0 + excess)
    towards = torch.where(size >= tiny, scale * (1.0 - share), torch.zeros_like(scale))
    return torch.addcmul(x * share, step.along.unsqueeze(-1), towards)


def _gauge(room: Room, y: Tensor, size: Tensor | None) -> Tensor:
    parts = []
    if room.product is not None:
        parts.append((room.product.dense @ y).amax(0))
    if room.bounded and room.symmetric:
        parts.append((y.abs().amax(0) if size is None else size) * room.inverse)
    elif room.bounded:
        parts.append(torch.maximum(y * room.upper.unsqueeze(-1), -y * room.lower.unsqueeze(-1)).amax(0))
    return parts[0] if len(parts) == 1 else torch.maximum(*parts)
