"""Ready-made sets, one short function each. All rows mean A x <= b; all are sparse and exact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.products import along, axis_length
from rayhull.sets.reading import Shape, as_shape


class ShapelessBox:
    """Bounds that take the shape of the set they are combined with: ``monotone(5) & box(-1, 1)``."""

    instead = "it a shape, rayhull.box(-1, 1, d), or combine it with a set, P & rayhull.box(-1, 1)"

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Polyhedron):
            return other & Polyhedron(lower=self.lower, upper=self.upper, shape=other.shape)
        return NotImplemented

    __rand__ = __and__

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self!r} has no shape yet, so it has no {name}: give {self.instead}.")

    def __repr__(self) -> str:
        return f"box({self.lower}, {self.upper})"


def box(lower: Any = None, upper: Any = None, shape: Shape | None = None) -> Any:
    """lower <= x <= upper. Without a shape and with numbers as bounds, it takes the shape of what it is joined with.

    Examples:
        >>> import rayhull as rh
        >>> rh.monotone(3) & rh.box(-1, 1)
        Polyhedron(shape=(3,): 2 inequalities, x >= -1, x <= 1)
    """
    if shape is None and np.ndim(lower) == 0 and np.ndim(upper) == 0:
        if lower is not None and upper is not None and lower > upper:
            Polyhedron(lower=lower, upper=upper, shape=1)  # says what is wrong
        return ShapelessBox(lower, upper)
    if shape is None:
        shape = np.shape(lower) or np.shape(upper)
    return Polyhedron(lower=lower, upper=upper, shape=shape)


def nonnegative(shape: Shape | None = None) -> Any:
    """x >= 0.

    Examples:
        >>> import rayhull as rh
        >>> rh.nonnegative(3).generators().rays
        array([[0., 0., 1.],
               [0., 1., 0.],
               [1., 0., 0.]])
    """
    return box(lower=0, shape=shape)


def sum_to(total: Any, shape: Shape, axis: int = -1) -> Polyhedron:
    """sum of x along ``axis`` = total.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.sum_to(1, (2, 3))
        >>> bool(P.contains(np.full((2, 3), 1 / 3)))
        True
    """
    n = axis_length(shape, axis)
    if np.ndim(total):
        raise ValueError(f"total must be one number for all lines along the axis, got {total!r}.")
    return along(Polyhedron(A_eq=sp.csr_array(np.ones((1, n), np.int64)), b_eq=total), shape, axis)


def simplex(shape: Shape, axis: int = -1) -> Polyhedron:
    """x >= 0 and the sum along ``axis`` is 1: probabilities.

    Examples:
        >>> import rayhull as rh
        >>> rh.simplex(3).generators().vertices
        array([[0., 0., 1.],
               [0., 1., 0.],
               [1., 0., 0.]])
    """
    return sum_to(1, shape, axis) & nonnegative(shape)


def monotone(shape: Shape, axis: int = -1, *, increasing: bool = True, step: Any = 0) -> Polyhedron:
    """x[i+1] - x[i] >= step along ``axis`` (decreasing: x[i] - x[i+1] >= step).

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.monotone((5, 24))                     # each of 5 rows increases along the last axis
        >>> bool(P.contains(np.arange(120.0).reshape(5, 24)))
        True
    """
    n = axis_length(shape, axis, least=2)
    rows = _bands(n, [1, -1]) * (1 if increasing else -1)
    return along(Polyhedron(rows, _offset(step, n - 1)), shape, axis)


def convex(shape: Shape, axis: int = -1) -> Polyhedron:
    """x[i-1] - 2 x[i] + x[i+1] >= 0 along ``axis``.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.convex(10).contains(np.linspace(-1, 1, 10) ** 2))
        True
    """
    n = axis_length(shape, axis, least=3)
    return along(Polyhedron(_bands(n, [-1, 2, -1])), shape, axis)


def concave(shape: Shape, axis: int = -1) -> Polyhedron:
    """x[i-1] - 2 x[i] + x[i+1] <= 0 along ``axis``.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.concave(10).contains(np.sqrt(np.arange(10))))
        True
    """
    n = axis_length(shape, axis, least=3)
    return along(Polyhedron(_bands(n, [1, -2, 1])), shape, axis)


def unimodal(shape: Shape, mode: int, axis: int = -1) -> Polyhedron:
    """x increases up to index ``mode`` along ``axis`` and decreases after it.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.unimodal(5, mode=2).contains(np.array([0.0, 1, 3, 2, 2])))
        True
    """
    n = axis_length(shape, axis, least=2)
    if not isinstance(mode, int | np.integer) or not 0 <= mode < n:
        raise ValueError(f"mode must be an index from 0 to {n - 1}, got {mode}.")
    up = np.where(np.arange(n - 1) < mode, 1, -1)
    return along(Polyhedron(sp.csr_array(sp.diags_array(up, dtype=np.int64) @ _bands(n, [1, -1]))), shape, axis)


def lipschitz(shape: Shape, bound: Any, axis: int = -1) -> Polyhedron:
    """-bound <= x[i+1] - x[i] <= bound along ``axis``: bounded differences.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> rh.lipschitz(4, 0.5).contains(np.array([[0.0, 0.5, 0, 0.25], [0, 1, 2, 3]]))
        array([ True, False])
    """
    n = axis_length(shape, axis, least=2)
    rows = _bands(n, [-1, 1])
    return along(Polyhedron(sp.csr_array(sp.vstack([rows, -rows])), bound), shape, axis)


def ordered(edges: Iterable[tuple[Any, Any]] | None, shape: Shape) -> Polyhedron:
    """x[i] <= x[j] for each edge (i, j): any partial order.

    Edges name coordinates of ``shape``: numbers, or index tuples for a shape of two axes or more. ``edges=None`` is the
    grid order: x increases along every axis.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.ordered([(0, 1), (0, 2)], 3)          # x0 <= x1 and x0 <= x2
        >>> P.contains(np.array([[0.0, 2, 1], [1, 0, 2]]))
        array([ True, False])
        >>> rh.ordered(None, (3, 3)).generators().rays.shape
        (18, 9)
    """
    event = as_shape(shape)
    if edges is None:
        grid = [monotone(event, axis) for axis in range(len(event)) if event[axis] > 1]
        matrix = sp.csr_array(sp.vstack([g.A for g in grid])) if grid else sp.csr_array((0, math.prod(event)))
        return Polyhedron(matrix, shape=event)
    pairs = [_pair(edge, event) for edge in edges]
    return Polyhedron(_differences(pairs, math.prod(event)), shape=event)


def checkerboard(shape: Shape = (28, 28), tiles: tuple[int, int] = (4, 4)) -> Polyhedron:
    """Tile averages alternate in sign, dark at the top left: the paper's set.

    sum of x over tile (r, c) is <= 0 where r + c is even, >= 0 where it is odd.

    Examples:
        >>> import rayhull as rh
        >>> G = rh.checkerboard((28, 28), tiles=(4, 4)).generators()
        >>> G.rays.shape, G.lines.shape
        ((16, 784), (768, 784))
    """
    height, width = image_of_tiles(shape, tiles)
    down, across = (np.arange(n) // (n // count) for n, count in zip((height, width), tiles, strict=True))
    tile = (down[:, None] * tiles[1] + across).ravel()
    sign = np.where((down[:, None] + across) % 2 == 0, 1, -1).ravel()
    rows = sp.csr_array((sign, (tile, np.arange(tile.size))), shape=(math.prod(tiles), tile.size))
    names = [f"tile ({r}, {c})" for r in range(tiles[0]) for c in range(tiles[1])]
    return Polyhedron(rows, shape=(height, width), names=names)


def halfspaces(classifiers: Any, shape: Shape | None = None, names: Sequence[str] | None = None) -> Polyhedron:
    """a_i·x <= 0 for each row a_i: every one of a set of binary classifiers says no.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.halfspaces([[1, -1, 0], [0, 1, -1]])
        >>> bool(P.contains(np.array([1.0, 2, 3])))
        True
    """
    return Polyhedron(classifiers, shape=shape, names=names)


def _bands(n: int, weights: Sequence[int]) -> sp.csr_array:
    """Rows i with ``weights`` at i, i+1, ...: (n - len(weights) + 1, n)."""
    m = n - len(weights) + 1
    row = np.repeat(np.arange(m), len(weights))
    column = row + np.tile(np.arange(len(weights)), m)
    return sp.csr_array((np.tile(np.array(weights, np.int64), m), (row, column)), shape=(m, n))


def _offset(step: Any, m: int) -> Any:
    """-step for each row, exact where step is."""
    return [-step] * m if np.ndim(step) == 0 else -np.asarray(step)


def _differences(pairs: Sequence[tuple[int, int]], dim: int) -> sp.csr_array:
    m = len(pairs)
    if any(i == j for i, j in pairs):
        raise ValueError("an edge (i, i) orders nothing: leave it out.")
    column = np.array(pairs, np.int64).reshape(-1)
    return sp.csr_array((np.tile([1, -1], m), (np.repeat(np.arange(m), 2), column)), shape=(m, dim))


def _pair(edge: Any, event: tuple[int, ...]) -> tuple[int, int]:
    if not isinstance(edge, Sequence | np.ndarray) or len(edge) != 2:
        raise ValueError(f"an edge is a pair (i, j), got {edge!r}.")
    return _flat(edge[0], event), _flat(edge[1], event)


def _flat(index: Any, event: tuple[int, ...]) -> int:
    place = tuple(index) if np.ndim(index) else (index,)
    if not all(isinstance(i, int | np.integer) for i in place):
        raise ValueError(f"{index!r} is not a coordinate of shape {event}.")
    if len(place) == 1 and len(event) > 1:
        place = tuple(int(i) for i in np.unravel_index(place[0], event))
    if len(place) != len(event) or not all(0 <= i < n for i, n in zip(place, event, strict=True)):
        raise ValueError(f"{index!r} is not a coordinate of shape {event}.")
    return int(np.ravel_multi_index(place, event))


def image_of_tiles(shape: Shape, tiles: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image that the tiles divide evenly."""
    event = as_shape(shape)
    if len(event) != 2:
        raise ValueError(f"an image has two axes, got shape {event}.")
    if len(tiles) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in tiles):
        raise ValueError(f"tiles must be two positive whole numbers (down, across), got {tiles!r}.")
    if event[0] % tiles[0] or event[1] % tiles[1]:
        raise ValueError(f"{tiles} tiles do not divide an image of shape {event} evenly.")
    return event[0], event[1]
