"""The nearest point in tensor operations alone, for other devices and exported graphs: steps and a shrink, near it.

A solver branches on its numbers, so that a device is kept waiting and a graph cannot hold it. Here every block without
a formula (:mod:`rayhull.projection.formulas`) takes a fixed number of steps with a factor, of the kind and the number
that a trial finds nearest, and the shrink that keeps them inside: with the same base point and units, so that weights
mean the same. Points of the set stay where they are in both; outside they differ by what the trial says is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rayhull.nn.blocks import Part, Parts, all_certified, event_order
from rayhull.nn.constants import Factory
from rayhull.nn.recognise import Trial
from rayhull.nn.ways import Nearest, Steps, Way
from rayhull.projection.plan import band_of
from rayhull.projection.sides import NONE, Sides
from rayhull.sets.frame import inside, is_large
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

STEPS = (5, 10, 20, 40, 72)  # that are tried: three or four launches each, and a budget of 400 for all of a layer
MORE, COARSE = 96, 0.02  # steps where those leave more than this: long curves between bounds
BAND = 120  # rows along a band up to which sums of neighbours are taken: their factors are dense


def form_of(P: Polyhedron, base: Array, units: Array, factory: Factory) -> Way:
    """Steps of one block, or what every kind of block takes."""
    kinds = P.mirrored_groups
    if len(kinds) == len(kinds[0].index) == 1 and kinds[0].sign[0] > 0:
        return near_steps(P, base, units, factory)
    return Blockwise(P, base, units, factory)


def near_steps(P: Polyhedron, base: Array, units: Array, factory: Factory) -> Steps:
    """As many steps as a trial asks for; none, which is the shrink, where there are too many rows for a factor."""
    frame = inside(P, base)
    if is_large(P):
        way = Steps(P, frame, units, 0, factory)
        way.left = 1.0
        return way
    band = band_of(P)
    band = None if band is None or len(band) > BAND or not np.isin(band, frame.loose).all() else band
    trial = Trial.of(P, frame, units, band, kernel=False)
    count, number, left = trial.best(STEPS)
    if min(left) > COARSE:
        count, number, left = trial.best((MORE,))
    way = trial.taken(count, number, factory)
    way.left = min(left)
    return way


class Blockwise(Way):
    """Nearest points of all kinds of blocks, each in its own place. Shape: (\\*, d) → (\\*, d)"""

    order: Tensor

    def __init__(self, P: Polyhedron, base: Array, units: Array, factory: Factory) -> None:
        super().__init__(factory)
        parts = []
        for kind in P.mirrored_groups:
            first, sign = kind.index[0], kind.sign[0]
            way = Nearest(kind.polyhedron, base[first] * sign, units[first], factory)
            way.prepare()
            parts.append(Part(P, kind, way, "", factory))
        self.parts = Parts(parts)
        self.index("order", event_order([part.places.flat for part in parts]))

    @property
    def elsewhere(self) -> str:
        return "; ".join(dict.fromkeys(part.way.elsewhere for part in self.parts if part.way.elsewhere))

    def forward(self, u: Tensor, sides: Sides = NONE) -> Tensor:
        each = [part.points(u.index_select(-1, part.places.index_), sides) for part in self.parts]
        return torch.cat(each, -1).index_select(-1, self.order)

    def fits_graphs(self, sides: Iterable[str]) -> bool:
        return all(part.way.fits_graphs(sides) for part in self.parts)

    def certified(self, sides: Sides) -> Tensor | None:
        return all_certified(self.parts, sides)


Nearest.form_of = staticmethod(form_of)  # type: ignore[method-assign]
