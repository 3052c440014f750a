"""Steps between the direction and the shrink: what moves a point towards the set before the shrink closes the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.maps.approach import approach, clamped, momenta, step_size
from rayhull.maps.cone import without
from rayhull.nn.base_point import View, near_one, within
from rayhull.nn.constants import Constants, Factory
from rayhull.nn.tail import Fields
from rayhull.projection.sides import Sides
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Step(Constants):
    """Base: a direction from the base point → a direction that is nearer to the set. The shrink comes after it.

    Attributes:
        follows: which sides of the sample ``forward`` takes into account.

    Shape: y (\\*, count, n), base (n,) or (\\*, count, n) → (\\*, count, n)
    """

    follows: frozenset[str] = frozenset()

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        raise NotImplementedError

    def tail_fields(self, base: Array) -> Fields | None:
        """What the compiled tail needs to know (:mod:`rayhull.nn.tail`), None where it does not serve."""
        return None


class Clamp(Step):
    """Bounds coordinate by coordinate, so that the shrink is left with the rows: one broken bound moves no other."""

    follows = frozenset({"b", "lower", "upper"})
    lower: Tensor
    upper: Tensor

    def __init__(self, P: Polyhedron, factory: Factory) -> None:
        super().__init__(factory)
        self.constant("lower", P.lower_bounds)
        self.constant("upper", P.upper_bounds)

    def bounds(self, base: Tensor, sides: Sides) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds seen from the base point."""
        low = self.lower if sides.lower is None else sides.lower
        high = self.upper if sides.upper is None else sides.upper
        return low - base, high - base

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        return clamped(y, *self.bounds(base, sides))

    def tail_fields(self, base: Array) -> Fields:
        return {"step": "clamp", "low": self.exact("lower") - base, "high": self.exact("upper") - base}


class DualSteps(Step):
    """k accelerated dual steps towards the nearest point (:mod:`maps.approach`), seen from the base point.

    With bounds, they are clamped in every step and equalities have multipliers; without, directions stay in the
    equalities' null space. ``metric`` M takes the nearest point in round coordinates, with bounds among the rows.

    Args:
        steps: k.
        metric: M (n, n) of the round coordinates, or None for the Euclidean nearest point.
    """

    follows = frozenset({"b", "lower", "upper"})
    rows: Tensor
    back: Tensor
    norms: Tensor
    as_stated: Tensor
    rhs: Tensor
    seen: Tensor
    equal: Tensor
    numbers: Tensor

    def __init__(self, P: Polyhedron, view: View, steps: int, factory: Factory, metric: Array | None = None) -> None:
        super().__init__(factory)
        self.steps = steps
        is_row = view.loose < int((P.inequalities.sizes > 0).sum())
        bounded = metric is None and not bool(is_row.all())
        self.clamp = Clamp(P, factory) if bounded else None
        numbers = view.loose[is_row] if bounded else view.loose
        if metric is not None and not is_row.all():
            self.follows = frozenset()
        self.equalities = view.equal.shape[1] if bounded else 0
        self.index("numbers", numbers)
        self.constant("equal", view.equal)
        self._take(P.rows.matrix[numbers].toarray(), P.rows.rhs[numbers], view, metric)

    def _take(self, stated: Array, rhs: Array, view: View, metric: Array | None) -> None:
        """Rows of unit length in the metric; equalities come last and are met at the base point."""
        rows = np.vstack([stated, view.equal.T]) if self.equalities else within(stated, view.equal)
        scale = near_one(rows)[:, None]  # rows of any size: their squares must not overflow or vanish
        rows = rows * scale
        unit = rows if metric is None else rows @ metric
        norms = np.linalg.norm(unit, axis=1, keepdims=True)
        self.step = step_size(unit / norms)
        self.constant("rows", rows / norms)
        self.constant("back", rows / norms if metric is None else unit / norms @ metric)
        norms = (norms / scale)[: len(rhs), 0]
        self.constant("norms", norms)
        self.constant("as_stated", stated / norms[:, None])
        self.constant("rhs", rhs / norms)
        self.constant("seen", np.concatenate([(rhs - stated @ view.base) / norms, np.zeros(self.equalities)]))

    def forward(self, y: Tensor, base: Tensor, sides: Sides) -> Tensor:
        low, high = self._bounds(base, sides)
        y = approach(
            y,
            self.rows,
            self._rhs(base, sides),
            steps=self.steps,
            step=self.step,
            lower=low,
            upper=high,
            equalities=self.equalities,
            back=self.back if low is None else None,
        )
        return without(y, self.equal) if self.equalities else y

    def tail_fields(self, base: Array) -> Fields:
        fields = {} if self.clamp is None else self.clamp.tail_fields(base)
        fields |= {"equal": self.exact("equal")} if self.equalities else {}
        rows, back = self.exact("rows"), self.exact("back")
        if not self.steps or not len(rows):
            return fields
        fields |= {"step": "gram" if self.clamp is None else "points", "steps": self.steps, "step_rows": len(rows)}
        fields |= {"step_matrix": rows, "back": back if self.clamp is None else rows, "seen": self.exact("seen")}
        fields |= {"equalities": self.equalities, "length": self.step, "momenta": np.array(momenta(self.steps))}
        return fields | ({"turn": np.eye(len(rows)) - self.step * (back @ rows.T)} if self.clamp is None else {})

    def _bounds(self, base: Tensor, sides: Sides) -> tuple[Tensor | None, Tensor | None]:
        return (None, None) if self.clamp is None else self.clamp.bounds(base, sides)

    def _rhs(self, base: Tensor, sides: Sides) -> Tensor:
        """Right-hand sides seen from the base point, those of the sample where it brings them."""
        if sides.b is None and base.ndim == 1:
            return self.seen
        rhs = self.rhs if sides.b is None else sides.b[..., self.numbers] / self.norms
        seen = rhs - base @ self.as_stated.mT
        return torch.nn.functional.pad(seen, (0, self.equalities)) if self.equalities else seen
