r"""A point strictly inside in the scale of the data: where maps into the set start from.

A bounded set has a centre. An unbounded one has none, and its Chebyshev centre goes wherever there is most slack (8137
for convex curves of 50 points, where data have size 1). There the base point is

.. math:: \arg\min_x\; -\sum_i \log(b_i - a_i·x) + \frac{m}{2 d R^2} |x - p|^2

with R the scale of the data and p the point of the set nearest to 0. On a cone (p = 0) its root mean square is R.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rayhull.sets.centre import loose_rows, newton
from rayhull.sets.equalities import affine_hull, onto_equalities
from rayhull.sets.rows import Array

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron

NEARER = (1.0, 0.1, 0.01)  # shares of the scale by which the nearest point to 0 is approached from inside


def base_point(P: Polyhedron, scale: float = 1.0) -> Array:
    """A well-centred interior point (d,), of the given scale where the set is unbounded.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> from rayhull.sets.base_point import base_point
        >>> x = base_point(rh.convex(50))
        >>> bool(np.sqrt((x**2).mean()).round(6) == 1), bool(rh.convex(50).contains(x))
        (True, True)
    """
    if not scale > 0:
        raise ValueError(f"scale must be positive, the size of the data, got {scale}.")
    if not len(P.rows):
        return P.centre.point
    point = np.zeros(P.dim)
    for group in P.block_groups:
        part = group.polyhedron
        point[group.index] = part.centre.point if part.is_bounded or not len(part.rows) else _unbounded(part, scale)
    return point


def _unbounded(P: Polyhedron, scale: float) -> Array:
    middle = P.centre
    A, b = loose_rows(P, middle.implicit)
    E, e = affine_hull(P, middle.implicit)
    weight = len(b) / P.dim
    x, nearest = middle.point, np.zeros(P.dim)
    if not len(b):
        return x
    if (b < 0).any() or e.any():  # 0 is outside: go to where the set is nearest to it, and stay off its boundary
        for share in NEARER:
            x = newton(A, b, E, e, x, weight / (share * scale) ** 2)
        nearest = x
    x = newton(A, b, E, e, x, weight / scale**2, nearest)
    return np.asarray(onto_equalities(E, e, x[None, :])[0])


def scale_from(targets: Array) -> float:
    """The scale of the data: the root mean square of the targets' coordinates.

    Shape: (n, event shape), NumPy or torch

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> from rayhull.sets.base_point import scale_from
        >>> scale_from(np.array([[3.0, -3.0], [3.0, 3.0]]))
        3.0
    """
    values = np.asarray(targets, np.float64)
    if not values.size or not np.isfinite(values).all():
        raise ValueError("scale_from needs finite targets, at least one.")
    return float(np.sqrt((values**2).mean())) or 1.0
