"""Nearest points as tensor operations without a branch, for graphs that run elsewhere: where every block has a formula.

Bounds, one row and bounds, equalities alone, and chains with one box around all of their coordinates have one. The
kernels of :mod:`rayhull.projection.solvers` give the same points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rayhull.maps.closed_forms import clipped_shift
from rayhull.maps.order import pooled
from rayhull.maps.steps import clamped
from rayhull.projection.plan import Block
from rayhull.projection.project import Projector
from rayhull.projection.sides import Sides, event_shape
from rayhull.projection.solvers.closed_forms import path_order

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

Formula = Callable[[Tensor, dict[str, Any]], Tensor]
OfBlock = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # y, c, lower, upper → z


def formula_of(projector: Projector, sides: Iterable[str] = ()) -> Formula | None:
    """The nearest point of all blocks in one formula, None where some block has none for these sides of the sample."""
    if projector.is_dense or projector.weights is not None:
        return None
    blocks, varied = projector.plan("cpu"), bool({"b", "lower", "upper"} & set(sides))
    for block in blocks:
        block.on(torch.device("cpu"))  # constants are no part of a graph: they are made now
    formulas = [_formula_of(block, varied) for block in blocks]
    if any(formula is None for formula in formulas):
        return None
    parts = [(block, formula) for block, formula in zip(blocks, formulas, strict=True) if formula is not None]

    def run(x: Tensor, sides: dict[str, Any]) -> Tensor:
        P = projector.polyhedron
        flat, batch = x.reshape(-1, P.dim), x.shape[: x.ndim - len(P.shape)]
        given = Sides(**{name: _flat(P, name, side, batch) for name, side in sides.items()})
        out = torch.zeros_like(flat)
        for block, formula in parts:
            out = _at_its_places(block, formula, flat, given, out)
        return out.reshape(x.shape)

    return run


def _flat(P: Polyhedron, name: str, side: Tensor, batch: tuple[int, ...]) -> Tensor:
    """A side as (1 or n, length)."""
    event = event_shape(P, name, len(P.inequalities), len(P.equalities))
    return side.expand(*batch, *event).reshape(-1, math.prod(event))


def _at_its_places(block: Block, formula: OfBlock, x: Tensor, sides: Sides, out: Tensor) -> Tensor:
    problem = block.problem(x, sides if sides.given else None)
    c, lower, upper = (v.to(x.dtype) for v in (problem.c, problem.lower, problem.upper))
    places = block.on(x.device).places
    z = formula(places.read(x).to(x.dtype), c, lower, upper)
    z = z if places.scale is None else (z.reshape(-1, *places.scale.shape) * places.scale.to(x.dtype)).reshape(z.shape)
    return out.index_copy(1, places.flat, z.reshape(x.shape[0], -1))


def _formula_of(block: Block, varied: bool) -> OfBlock | None:
    form = block.form
    if form.matrix.count == 0:
        return lambda y, c, lower, upper: clamped(y, lower, upper)
    if form.matrix.count == 1:
        row, equality = torch.from_numpy(form.matrix.dense_array[0]), form.m == 0
        return lambda y, c, lower, upper: clipped_shift(y, row.to(y), c[:, 0], lower, upper, equality=equality)
    if form.m == 0 and not form.bounded:
        rows, inverse = torch.from_numpy(form.matrix.dense_array), torch.as_tensor(form.matrix.pseudo_inverse)
        return lambda y, c, lower, upper: y - (y @ rows.mT.to(y) - c) @ inverse.mT.to(y)
    found = None if varied or form.c.any() else path_order(form)
    if found is None or not _one_box(form):
        return None
    along = torch.from_numpy(found[0].copy())
    back = along.argsort()

    def chain(y: Tensor, c: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        return clamped(pooled(y.index_select(-1, along)).index_select(-1, back), lower, upper)

    return chain


def _one_box(form: Any) -> bool:
    """Whether all coordinates have the same bounds: clipping the pooled chain is then its nearest point."""
    return bool((form.lower == form.lower[0]).all() and (form.upper == form.upper[0]).all())
