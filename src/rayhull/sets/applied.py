"""Sets that applications ask for: shares with caps, quantiles, statistics of images, hierarchies, paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import Array
from rayhull.sets.expressions import Rule
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape, as_array, as_shape, refuse_unless_finite
from rayhull.sets.ready_made import image_of_tiles, monotone, ordered
from rayhull.sets.rules import rules, variables


def capped_simplex(d: int, cap: Any, groups: Mapping[str, tuple[Sequence[int], Any]] | None = None) -> Polyhedron:
    """Weights that sum to 1, none above ``cap``, no group above its own: portfolios, mixtures, allocations.

    Args:
        d: how many weights.
        cap: the largest weight, a number or one for each.
        groups: members and cap of each group, by name.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.capped_simplex(4, 0.5, groups={"energy": ([0, 1], 0.6)})
        >>> print(P.explain([0.5, 0.3, 0.1, 0.1]))
        The point is outside: 1 of 10 rules is broken.
          broken  energy, by 0.2
          binds   x[0] <= 0.5
          7 rules have slack, the least 0.1: x[2] >= 0
    """
    x = variables("x", shape=d)
    limits = []
    if not isinstance(groups or {}, Mapping):
        raise TypeError(f"groups must be a dict of names, such as {{'energy': ([0, 1], 0.5)}}, got {groups!r}.")
    for name, group in (groups or {}).items():
        try:
            members, limit = group
            limits.append((x[list(members)].sum() <= limit).named(name))
        except (TypeError, ValueError, IndexError):
            raise ValueError(
                f"groups[{name!r}] must be the numbers of its weights, 0 to {d - 1}, and their cap, such as "
                f"([0, 1], 0.5), got {group!r}."
            ) from None
    return rules(x.sum() == 1, x >= 0, x <= cap, limits)


def quantiles(levels: Sequence[float]) -> Polyhedron:
    """Quantiles that do not cross: one coordinate for each of the increasing ``levels`` between 0 and 1, in order.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.quantiles([0.1, 0.5, 0.9])
        >>> P.coordinates, [1.0, 2.0, 1.5] in P
        (('q0.1', 'q0.5', 'q0.9'), False)
        >>> list(P.rows.names)
        ['q0.1 <= q0.5', 'q0.5 <= q0.9']
    """
    listed = as_array(levels, "levels").astype(float).ravel()
    if len(listed) < 2 or not (np.diff([0, *listed, 1]) > 0).all():
        raise ValueError(f"levels must be two or more numbers between 0 and 1 that increase, got {listed.tolist()}.")
    names = [f"q{level:g}" for level in listed]
    order = [f"{a} <= {b}" for a, b in pairwise(names)]
    return Polyhedron(monotone(len(names)).A, names=order, coordinates=names)


def conserves(shape: Shape, tiles: tuple[int, int], means: Any = 0) -> Polyhedron:
    """The mean over each tile of an image is given: downscaling that conserves mass, energy or rain.

    With a layer the means may come with each sample, as ``b_eq`` in the order of the tiles.

    Args:
        shape: (height, width), or with more axes in front.
        tiles: how many tiles there are down and across.
        means: a number for all tiles, or an array with the axes in front, then those of the tiles.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.conserves((4, 4), tiles=(2, 2), means=[[1, 2], [3, 4]])
        >>> np.kron([[1.0, 2], [3, 4]], np.ones((2, 2))) in P
        True
    """
    event = as_shape(shape)
    (height, width), (down, across) = image_of_tiles(event[-2:], tiles), tiles
    x = variables("x", shape=event)
    tiled = x.reshape(*event[:-2], down, height // down, across, width // across)
    return rules((tiled.mean(axis=(-3, -1)) == means).named("mean of tile"))


def windows(
    shape: Shape, size: int | Sequence[int], stride: int | Sequence[int] | None = None, *, signs: Any = None
) -> Polyhedron:
    """Signs or order of local averages over windows that slide over the event shape.

    Args:
        shape: the event shape.
        size, stride: of a window and from one to the next, a number or one for each axis; the stride is the size if
            it is not given.
        signs: one for each window, or one for all: +1 keeps the window's sum >= 0, -1 <= 0, 0 leaves it free. Without
            signs the sums increase from each window to the next along every axis.

    Examples:
        >>> import rayhull as rh
        >>> rh.windows((28, 28), 8, 5)                   # 5 x 5 windows, each brighter than the one before it
        Polyhedron(shape=(28, 28): 40 inequalities)
    """
    event = as_shape(shape)
    sizes = _per_axis(size, event, "size")
    strides = sizes if stride is None else _per_axis(stride, event, "stride")
    for n, length in zip(event, sizes, strict=True):
        if length > n:
            raise ValueError(f"a window of size {length} does not fit into an axis of length {n}.")
    pixels = np.arange(math.prod(event)).reshape(event)
    within = np.lib.stride_tricks.sliding_window_view(pixels, sizes)[tuple(slice(None, None, s) for s in strides)]
    counts = within.shape[: len(event)]
    row = np.repeat(np.arange(math.prod(counts)), math.prod(sizes))
    entries = np.ones(within.size, np.int64), (row, within.ravel())
    sums = sp.csr_array(entries, shape=(math.prod(counts), pixels.size))
    if signs is None:
        return Polyhedron(sp.csr_array(ordered(None, counts).A @ sums), shape=event)
    stated = as_array(signs, "signs")
    if stated.shape not in ((), counts) or not np.isin(stated, (-1, 0, 1)).all():
        got = f"shape {stated.shape}" if stated.ndim else stated
        raise ValueError(f"signs must be -1, 0 or +1 for each of {counts} windows, or one number, got {got}.")
    chosen = np.broadcast_to(stated, counts).ravel().astype(np.int64)
    keep = np.flatnonzero(chosen)
    return Polyhedron(sp.csr_array(sp.diags_array(-chosen[keep], dtype=np.int64) @ sums[keep]), shape=event)


def _per_axis(value: int | Sequence[int], event: tuple[int, ...], name: str) -> tuple[int, ...]:
    sizes = tuple(value) if isinstance(value, Sequence) else (value,) * len(event)
    if len(sizes) != len(event) or not all(isinstance(s, int | np.integer) and s > 0 for s in sizes):
        raise ValueError(f"{name} must be a positive whole number or one for each of {len(event)} axes, got {value!r}.")
    return sizes


def reconciled(S: Any, coordinates: Sequence[str] | None = None) -> Polyhedron:
    """Series of a hierarchy that add up: x = S y for some bottom series y.

    Args:
        S: summing matrix (n, k): row i says which of the k bottom series make up series i; each of them is a row too.
        coordinates: names of the n series.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.reconciled([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]],
        ...                   ["country", "north", "a", "b", "c"])
        >>> list(P.equalities.names)
        ['country == a + b + c', 'north == a + b']
        >>> [6, 3, 1, 2, 3] in P
        True
    """
    matrix = as_array(S, "S")
    if matrix.ndim != 2:
        raise ValueError(f"S must be a matrix (series, bottom series), got shape {matrix.shape}.")
    bottom = _bottom_rows(matrix)
    names = tuple(f"x[{i}]" for i in range(len(matrix))) if coordinates is None else tuple(coordinates)
    if len(names) != len(matrix) or len(bottom) == len(matrix):
        raise ValueError(
            f"S has {len(matrix)} series, {len(bottom)} of them at the bottom: name each, and state one sum or more."
        )
    series = [variables(name) for name in names]
    total = [sum(w * series[bottom[j]] for j, w in enumerate(row) if w) for row in matrix.tolist()]
    upper = [i for i in range(len(matrix)) if i not in bottom]
    return rules([series[i] == total[i] for i in upper], variables=series)


def _bottom_rows(matrix: Array) -> list[int]:
    """For each bottom series the number of its own row in S."""
    found = []
    for unit in np.eye(matrix.shape[1]):
        rows = np.flatnonzero((matrix.astype(float) == unit).all(1))
        if not len(rows):
            raise ValueError("every bottom series must be a row of S with a single 1: one of them is missing.")
        found.append(int(rows[0]))
    return found


def corridor(points: Any, width: Any, length: Any = None) -> Polyhedron:
    """Paths in the plane that stay near a given one: waypoint i lies in a rectangle around point i, along the path.

    .. math:: |n_i·(x_i - p_i)| <= width_i, \\qquad |t_i·(x_i - p_i)| <= length_i

    with t the direction of the path at the point and n the one across.

    Args:
        points: the given path (n, 2).
        width: how far a waypoint may leave the path to either side, a number or one for each.
        length: how far it may move along; default half the distance to the nearer neighbour, so that order is kept.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> path = np.array([[0.0, 0], [1, 0], [2, 0]])
        >>> P = rh.corridor(path, width=0.25)
        >>> P.contains(np.stack([path + [0, 0.2], path + [0, 0.3]]))
        array([ True, False])
    """
    path = as_array(points, "points").astype(float)
    refuse_unless_finite("points", path)
    if path.ndim != 2 or path.shape[1] != 2 or len(path) < 2:
        raise ValueError(f"points must be a path (n, 2) of two or more points, got shape {path.shape}.")
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    if not steps.all():
        raise ValueError("two neighbouring points of the path are the same: it has no direction there.")
    along = np.gradient(path, axis=0)
    lengths = np.linalg.norm(along, axis=1, keepdims=True)
    if not lengths.all():
        raise ValueError(f"the path turns back at point {int(lengths.argmin())}, without a direction: split it there.")
    along /= lengths
    across = along[:, ::-1] * [-1, 1]
    near = np.minimum(np.append(steps, math.inf), np.insert(steps, 0, math.inf)) / 2 if length is None else length
    x = variables("x", shape=path.shape)

    def within(normal: Array, most: Any, names: Sequence[str]) -> list[Rule]:
        side = (x * normal).sum(-1) - (path * normal).sum(-1)
        return [(side <= most).named(names[0]), (side >= -np.asarray(most)).named(names[1])]

    return rules(within(across, width, ("left", "right")), within(along, near, ("ahead", "back")))
