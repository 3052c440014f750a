"""Which closing a block has: ordinary, or the strict one that its rows and its way in ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.errors import RayhullError
from rayhull.nn.base_point import View
from rayhull.nn.closing import Closing
from rayhull.nn.constants import Factory
from rayhull.nn.strict import StrictInterval, StrictReach, StrictShrink
from rayhull.nn.strict_pull import StrictPull

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


def strict_closing(P: Polyhedron, view: View | None, factory: Factory) -> Closing:
    """The strict closing of a block; a set whose interior is empty for another reason than equalities is refused."""
    if not len(P.rows):
        return StrictReach(P, view, factory)
    if P.dim == 1:
        return StrictInterval(P, view, factory)
    hidden = np.flatnonzero(P.centre.implicit)
    if len(hidden):
        names = ", ".join(P.rows.names[i] for i in hidden[:4])
        raise RayhullError(
            f"strict=True: {len(hidden)} inequalities hold with equality on the whole set ({names}), which floats "
            "cannot do exactly. State them as equalities (A_eq), which hold up to a stated number of ulps."
        )
    if view is not None and len(view.loose) == len(P.rows):
        return StrictShrink(P, view, factory)
    return StrictPull(P, view, factory)
