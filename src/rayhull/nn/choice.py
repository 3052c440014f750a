"""The ways into a block by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.nn.auto import auto
from rayhull.nn.base_point import unconstrained
from rayhull.nn.directions import Free
from rayhull.nn.rays import rays, vertices
from rayhull.nn.way import Choice, Options, Way
from rayhull.nn.ways import approach, order, projection, shift, shrink

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

METHODS: dict[str, Way] = {
    "auto": auto,
    "rays": rays,
    "vertices": vertices,
    "order": order,
    "shift": shift,
    "shrink": shrink,
    "approach": approach,
    "projection": projection,
}


def choose(P: Polyhedron, options: Options) -> Choice:
    """The way into one block."""
    if options.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {options.method!r}.")
    if not len(P.rows) and not len(P.equality_rows):
        return Choice("free", "no row holds here", Free(np.zeros((P.dim, 0)), options.factory), unconstrained(P))
    return METHODS[options.method](P, options)
