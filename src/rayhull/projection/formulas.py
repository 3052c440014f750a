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
from rayhull.projection.plan import Block
from rayhull.projection.project import Projector
from rayhull.projection.sides import Sides
from rayhull.projection.solvers.closed_forms import path_order
from rayhull.sets.reading import side_shapes
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Formula = Callable[[Tensor, dict[str, Any]], Tensor]
OfBlock = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # y, c, lower, upper → z
HOST = torch.device("cpu")
MISSED, ROUNDED = 1e-3, 1e-5  # a point further from its row, against its side and the point, shows an empty set


class Kept:
    """An array as a tensor on each device, in each dtype that was asked for: nothing is copied there twice."""

    def __init__(self, values: Array) -> None:
        self.values, self._made = torch.from_numpy(np.array(values)), dict[Any, Tensor]()

    def like(self, y: Tensor) -> Tensor:
        dtype = y.dtype if self.values.is_floating_point() else None
        found = self._made.get((y.device, dtype))
        if found is None:
            found = self.values.to(y.device, dtype)
            if not torch.compiler.is_compiling():
                self._made[y.device, dtype] = found
        return found


def formula_of(projector: Projector, sides: Iterable[str] = (), device: torch.device = HOST) -> Formula | None:
    """The nearest point of all blocks in one formula, None where some block has none for these sides of the sample.

    Constants are no part of a graph: they are made now, on a device.
    """
    if projector.is_dense or projector.weights is not None:
        return None
    given = set(sides)
    varied = ("bounds" if {"lower", "upper"} & given else "") + ("b" if "b" in given else "")
    kept = projector.polyhedron.kept.setdefault("formulas of nearest points", {})
    if (varied, device) not in kept:
        with _disable_current_modes() if torch.compiler.is_exporting() else nullcontext():  # numbers, no traces of them
            for block in projector.plan("cpu"):
                block.on(device)
            kept[varied, device] = _formula(projector, varied)
    found: Formula | None = kept[varied, device]
    return found


def _formula(projector: Projector, varied: str) -> Formula | None:
    blocks, P = projector.plan("cpu"), projector.polyhedron
    formulas = [_formula_of(block, varied) for block in blocks]
    if any(formula is None for formula in formulas):
        return None
    parts = [(block, _ends(block), formula) for block, formula in zip(blocks, formulas, strict=True) if formula]

    def run(x: Tensor, sides: dict[str, Any]) -> Tensor:
        flat, batch = x.reshape(-1, P.dim), x.shape[: x.ndim - len(P.shape)]
        given = Sides(**{name: _flat(P, name, side, batch) for name, side in sides.items() if side.shape[-1]})
        out = flat
        for block, ends, formula in parts:
            out = _at_its_places(block, ends, formula, flat, given, out)
        return out.reshape(x.shape)

    return run


def _flat(P: Polyhedron, name: str, side: Tensor, batch: tuple[int, ...]) -> Tensor:
    """A side as (1 or n, length)."""
    event = side_shapes(P, {})[name]
    return side.expand(*batch, *event).reshape(-1, math.prod(event))


def _ends(block: Block) -> tuple[Kept, ...]:
    form = block.form
    sides = [Kept(v[None]) for v in (form.c, form.lower, form.upper)]
    return *sides, Kept(form.matrix.dense_array), Kept(np.ones(0) if block.scale is None else block.scale.ravel())


def _at_its_places(
    block: Block, ends: tuple[Kept, ...], formula: OfBlock, x: Tensor, sides: Sides, out: Tensor
) -> Tensor:
    places, sign_of = block.on(x.device).places, ends[4]
    y = x if places.whole else x.index_select(1, places.flat)
    sign = None if places.scale is None else sign_of.like(x)
    y = (y if sign is None else y * sign).reshape(x.shape[0] * places.count, -1)
    if sides.given:
        problem = block.problem(x, sides)
        c, lower, upper = (v.to(x.dtype) for v in (problem.c, problem.lower, problem.upper))
        z = formula(y, c, lower, upper)
        z = torch.where(_is_met(z, y, ends[3].like(x), c, lower, upper, block.form.m), z, torch.nan)
    else:
        z = formula(y, *(end.like(x) for end in ends[:3]))
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
        return lambda y, c, lower, upper: clipped_shift(y, rows.like(y)[0], c[:, 0], lower, upper, equality=equality)
    if form.m == 0 and not form.bounded and "bounds" not in varied:
        rows, inverse = Kept(form.matrix.dense_array), Kept(form.matrix.pseudo_inverse)
        return lambda y, c, lower, upper: y - (y @ rows.like(y).mT - c) @ inverse.like(y).mT
    return _chain(block, varied)


def _chain(block: Block, varied: str) -> OfBlock | None:
    """Pooling along the path; steps between neighbours, where the rows have sides, are taken off before."""
    form, found = block.form, path_order(block.form)
    boxed = form.bounded or "bounds" in varied
    if found is None or (boxed and (form.c.any() or varied or not _one_box(form))):
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


def _one_box(form: Any) -> bool:
    """Whether all coordinates have the same bounds: clipping the pooled chain is then its nearest point."""
    return bool((form.lower == form.lower[0]).all() and (form.upper == form.upper[0]).all())
