"""Inference for sets of one block with samples as columns: what runs over a sample's coordinates then vectorises.

A maximum over 50 coordinates of 256 samples takes 2 µs over the first axis and 20 µs over the last (one thread,
float32), which for small sets decides the cost of the layer.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rayhull.maps.shrink import factor
from rayhull.maps.strict import finite, gamma, roundoff, strict_factor
from rayhull.nn.block import BlockMap
from rayhull.nn.directions import Free, Simplicial
from rayhull.nn.map_into import MapInto
from rayhull.nn.room import Room
from rayhull.nn.strict import StrictShrink


def fits(into: MapInto) -> bool:
    """Whether the functions below cover this map: one block, dense rows, closed-form direction, plain shrink."""
    parts = into.blocks()
    if len(parts) != 1 or into.smooth or into.nearest is not None:
        return False
    part = parts[0]
    hull = part.direction.onto_hull if isinstance(part.direction, Simplicial) else part.direction
    closed_form = isinstance(hull, Free) and not hull.has_equalities and part.identity_inside
    dense = part.room is None or part.room.product is None or not part.room.product.has_short
    strict = part.strict is None or isinstance(part.strict, StrictShrink)
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


def _gauge(room: Room, y: Tensor, size: Tensor | None) -> Tensor:
    parts = []
    if room.product is not None:
        parts.append((room.product.dense @ y).amax(0))
    if room.bounded and room.symmetric:
        parts.append((y.abs().amax(0) if size is None else size) * room.inverse)
    elif room.bounded:
        parts.append(torch.maximum(y * room.upper.unsqueeze(-1), -y * room.lower.unsqueeze(-1)).amax(0))
    return parts[0] if len(parts) == 1 else torch.maximum(*parts)
