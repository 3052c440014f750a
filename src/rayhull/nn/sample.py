"""Right-hand sides that depend on the sample: how much each row's room changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rayhull.nn.constants import Constants, fresh
from rayhull.nn.geometry import Blocks, View

if TYPE_CHECKING:
    from rayhull.nn.room import Room
    from rayhull.sets.polyhedron import Polyhedron


class SampleRows(Constants):
    """b, lower and upper of a sample → h / h(sample) for the rows of one kind of block.

    A row whose room at the base point is not positive for some sample is refused; in a compiled graph, where nothing
    can be refused, that sample comes out as NaN.
    """

    coordinates: Tensor
    mirrored: Tensor
    rows: Tensor
    room: Tensor
    offset: Tensor

    def __init__(self, P: Polyhedron, blocks: Blocks, view: View | None, room: Room | None, **factory: Any) -> None:
        super().__init__()
        block = blocks.polyhedron
        stated = int((np.diff(block.inequalities.matrix.indptr) > 0).sum())
        cone = np.arange(len(block.rows)) if view is None else view.cone
        signs = block.rows.matrix.sum(1)
        self.met_otherwise = {  # what this block meets by rays or vertices, not by shrinking
            "b": bool((cone < stated).any()),
            "upper": bool(((cone >= stated) & (signs[cone] > 0)).any()),
            "lower": bool(((cone >= stated) & (signs[cone] < 0)).any()),
        }
        if (blocks.sign < 0).any():
            swap = self.met_otherwise
            swap["upper"] = swap["lower"] = swap["upper"] or swap["lower"]
        numbers = np.zeros(0, np.int64) if room is None else room.rows
        kept = np.flatnonzero(np.diff(P.inequalities.matrix.indptr) > 0)  # P.rows leaves out rows of zeros
        of_row = kept[blocks.rows[:, numbers]] if len(numbers) else np.zeros((len(blocks.index), 0), np.int64)
        device = factory["device"]
        self._keep("coordinates", blocks.index, device)
        self._keep("mirrored", (blocks.sign < 0)[:, None], device)
        self._keep("rows", of_row, device)
        apart: dict[str, Any] = {**factory, "persistent": False}
        self.constant("room", np.zeros(0) if room is None else room.room, **apart)
        self.constant("offset", P.inequalities.rhs[of_row], **apart)
        for name, bounds in (("lower", P.lower_bounds), ("upper", P.upper_bounds)):
            self.constant(f"stated_{name}", bounds[blocks.index], **apart)

    def _keep(self, name: str, values: Any, device: Any) -> None:
        self.register_buffer(name, fresh(values, device), persistent=False)

    def forward(self, base: Tensor, given: dict[str, Tensor]) -> dict[str, Tensor]:
        """The changes for the room's "rows", "upper" and "lower" (of the block, so that a mirrored one swaps them)."""
        change = {}
        if "b" in given and self.rows.shape[-1]:
            now = self.room + given["b"][..., self.rows] - self.offset
            change["rows"] = positive(self.room / now, now)
        sides = {name: self._side(name, base, given) for name in ("lower", "upper")}
        lower = torch.where(self.mirrored, sides["upper"], sides["lower"])
        upper = torch.where(self.mirrored, sides["lower"], sides["upper"])
        if "lower" in given or "upper" in given:
            change |= {"lower": lower, "upper": upper}
        return change

    def _side(self, name: str, base: Tensor, given: dict[str, Tensor]) -> Tensor:
        """h / h(sample) for the lower or upper bound of each coordinate, 1 where none is stated or given."""
        stated = getattr(self, f"stated_{name}").to(base.dtype)
        if name not in given:
            return torch.ones_like(stated)
        here = torch.where(self.mirrored, -base, base)  # the base point in the set's own coordinates
        sign = 1 if name == "upper" else -1
        before = sign * (stated - here)
        now = sign * (given[name][..., self.coordinates] - here)
        exists = stated.isfinite()
        ratio = positive(before / now, torch.where(exists, now, torch.ones_like(now)))
        return torch.where(exists, ratio, torch.ones_like(ratio))


def positive(ratio: Tensor, room: Tensor) -> Tensor:
    """The ratio where there is room; an error, or NaN in a compiled graph, where there is none."""
    outside = ~(room > 0)
    if not torch.compiler.is_compiling() and bool(outside.any()):
        raise ValueError(
            f"{int(outside.sum())} right-hand sides leave no room at the base point of the set as it was stated: state "
            "the set with its tightest right-hand sides, so that its centre is inside for every sample."
        )
    return torch.where(outside, torch.full_like(ratio, torch.nan), ratio)
