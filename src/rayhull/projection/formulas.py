"""Nearest points as tensor operations without a branch, for graphs and other devices: where every block has a formula.

Bounds, one row and bounds, equalities alone, chains without bounds or with one box around all of their coordinates have
one. The kernels of :mod:`rayhull.projection.solvers` give the same points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from rayhull.maps.closed_forms import clipped_shift
from rayhull.maps.order import pooled
from rayhull.maps.steps import clamped
from rayhull.projection.plan import HOST, Block, Plan
from rayhull.projection.project import Projector
from rayhull.projection.sides import Sides
from rayhull.projection.solvers.closed_forms import in_one_box, path_order
from rayhull.projection.standard_form import Kept
from rayhull.sets.reading import side_shapes

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Formula = Callable[[Tensor, dict[str, Any]], Tensor]
OfBlock = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # y, c, lower, upper → z
FEWEST = 1e-12  # the least share of a unit row in its free coordinates that still moves them
MISSED, ROUNDED = 1e-3, 1e-5  # a point further from its row, against its side and the point, shows an empty set


def formula_of(projector: Projector, sides: Iterable[str] = (), device: torch.device = HOST) -> Formula | None:
    """The nearest point of all blocks in one formula, None where some block has none for these sides of the sample.

    Constants are no part of a graph: they are made now, on a device.
    """
    if projector.is_dense or projector.weights is not None:
        return None
    given = set(sides)
    if projector.has_zeros and given & {"b", "b_eq"}:
        return None  # rows of zeros are part of no block
    varied = ("bounds" if {"lower", "upper"} & given else "") + ("b" if "b" in given else "")
    kept = projector.polyhedron.kept.setdefault("formulas of nearest points", {})
    if (varied, device) not in kept:
        with _disable_current_modes() if torch.compiler.is_exporting() else nullcontext():  # numbers, no traces of them
            kept[varied, device] = _formula(projector.polyhedron, projector.plan(device), varied)
    found: Formula | None = kept[varied, device]
    return found


def _formula(P: Polyhedron, blocks: Plan, varied: str) -> Formula | None:
    formulas = [_formula_of(block, varied) for block in blocks]
    if any(formula is None for formula in formulas):
        return None
    parts = [InPlace(block, formula) for block, formula in zip(blocks, formulas, strict=True) if formula]

    def run(x: Tensor, sides: dict[str, Any]) -> Tensor:
        flat, batch = x.reshape(-1, P.dim), x.shape[: x.ndim - len(P.shape)]
        given = Sides(**{name: _flat(P, name, side, batch) for name, side in sides.items() if side.shape[-1]})
        out = flat
        for part in parts:
            out = part(flat, given, out)
        return out.reshape(x.shape)

    return run


def _flat(P: Polyhedron, name: str, side: Tensor, batch: tuple[int, ...]) -> Tensor:
    """A side as (1 or n, length)."""
    event = side_shapes(P, {})[name]
    return side.expand(*batch, *event).reshape(-1, math.prod(event))


class InPlace:
    """The formula of one kind of block, from its places in the points and back to them."""

    def __init__(self, block: Block, formula: OfBlock) -> None:
        self.block, self.formula, self.places = block, formula, block.places
        self.sides = [Kept(v) for v in (block.c, block.lower, block.upper)]
        self.rows = Kept(block.form.matrix.dense_array)
        self.sign = None if self.places.scale is None else Kept(self.places.scale.reshape(-1))

    def __call__(self, x: Tensor, sides: Sides, out: Tensor) -> Tensor:
        places = self.places
        y = x if places.whole else x.index_select(1, places.flat)
        sign = None if self.sign is None else self.sign.like(x)
        y = (y if sign is None else y * sign).reshape(x.shape[0] * places.count, -1)
        if sides.given:
            problem = self.block.problem(x, sides)
            c, lower, upper = (v.to(x.dtype) for v in problem.sides)
            z = self.formula(y, c, lower, upper)
            z = torch.where(_is_met(z, y, self.rows.like(x), c, lower, upper, problem.m), z, torch.nan)
        else:
            z = self.formula(y, *(side.like(x) for side in self.sides))
        z = z.reshape(x.shape[0], -1)
        z = z if sign is None else z * sign
        return z if places.whole else out.index_copy(1, places.flat, z)


def _is_met(z: Tensor, y: Tensor, rows: Tensor, c: Tensor, lower: Tensor, upper: Tensor, m: int) -> Tensor:
    """Whether each point meets its rows and bounds: else the sample's set is empty. Shape: (N, 1)"""
    size = ROUNDED * y.abs().amax(1, keepdim=True)
    over = [lower - upper + torch.zeros_like(z)]
    if len(rows):
        value = z @ rows.mT - c
        over += [value[:, :m], value[:, m:].abs()]
        size = size + MISSED * (1 + c.abs().amax(1, keepdim=True))
    return torch.cat(over, 1).amax(1, keepdim=True) <= size


def _formula_of(block: Block, varied: str) -> OfBlock | None:
    form = block.form
    if form.matrix.count == 0:
        return lambda y, c, lower, upper: clamped(y, lower, upper)
    if form.matrix.count == 1:
        rows, equality = Kept(form.matrix.dense_array), form.m == 0

        def shifted(y: Tensor, c: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
            row = rows.like(y)[0]
            z = clipped_shift(y, row, c[:, 0], lower, upper, equality=equality)
            return clamped(z - _beside(z.detach(), row, c, lower, upper, equality), lower, upper)

        return shifted
    if form.m == 0 and not form.bounded and "bounds" not in varied:
        rows, inverse = Kept(form.matrix.dense_array), Kept(form.matrix.pseudo_inverse)
        return lambda y, c, lower, upper: y - (y @ rows.like(y).mT - c) @ inverse.like(y).mT
    return _chain(block, varied)


def _beside(z: Tensor, row: Tensor, c: Tensor, lower: Tensor, upper: Tensor, equality: bool) -> Tensor:
    """What the rounding of a point far away leaves beside the row, in the coordinates between their bounds."""
    free = ((z > lower) & (z < upper)) * row
    over = z @ row[:, None] - c
    weight = (free @ row[:, None]).clamp_min(FEWEST)
    return free * ((over if equality else over.relu()) / weight)


def _chain(block: Block, varied: str) -> OfBlock | None:
    """Pooling along the path; steps between neighbours, where the rows have sides, are taken off before."""
    form, found = block.form, path_order(block.form)
    boxed = form.bounded or "bounds" in varied
    if found is None or (boxed and (varied or not in_one_box(block.c, block.lower, block.upper))):
        return None
    path, between = found
    along, back, order = Kept(path), Kept(np.argsort(path)), Kept(between)
    stepped = not boxed and bool(form.c.any() or varied)

    def run(y: Tensor, c: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        y = y.index_select(-1, along.like(y))
        if not stepped:
            z = pooled(y).index_select(-1, back.like(y))
            return clamped(z, lower, upper) if boxed else z
        each = c.index_select(-1, order.like(y)) * -math.sqrt(2)  # x_i - x_j <= c √2, of unit rows
        offset = torch.nn.functional.pad(each.cumsum(-1), (1, 0))
        return (pooled(y - offset) + offset).index_select(-1, back.like(y))

    return run
