"""Ready-made sets, one short function each. All rows mean A x <= b; all are sparse and exact."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rayhull.exact.numbers import joined
from rayhull.sets.cones import ConvexSet
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.products import along, axis_length
from rayhull.sets.reading import Shape, as_array, as_shape
from rayhull.sets.rules import rules, variables


class ShapelessBox:
    """Bounds that take the shape of the set they are combined with: ``monotone(5) & box(-1, 1)``."""

    instead = "it a shape, rayhull.box(-1, 1, d), or combine it with a set, P & rayhull.box(-1, 1)"

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def __and__(self, other: Any) -> Any:
        if isinstance(other, Polyhedron | ConvexSet):
            return other & Polyhedron(lower=self.lower, upper=self.upper, shape=other.shape)
        if isinstance(other, ShapelessBox):
            raise TypeError(f"neither {self!r} nor {other!r} has a shape: give one of them {self.instead[3:]}.")
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
    given: dict[str, Any] = {
        name: as_array(v, name) for name, v in (("lower", lower), ("upper", upper)) if v is not None
    }
    own = max((v.shape for v in given.values()), key=len, default=())
    if shape is None and own == ():
        Polyhedron(**given, shape=1)  # says what is wrong
        return ShapelessBox(lower, upper)
    return Polyhedron(**given, shape=own if shape is None else shape)


def nonnegative(shape: Shape | None = None) -> Any:
    """x >= 0 for every coordinate of the event ``shape``; without one it takes another set's, as a box does.

    Examples:
        >>> import rayhull as rh
        >>> rh.nonnegative(3).generators().rays
        array([[0., 0., 1.],
               [0., 1., 0.],
               [1., 0., 0.]])
    """
    return box(lower=0, shape=shape)


def sum_to(total: Any, shape: Shape, axis: int = -1) -> Polyhedron:
    """The sum of x along ``axis`` of the event ``shape`` is ``total``, one number for all lines.

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
    """x >= 0 and the sum along ``axis`` of the event ``shape`` is 1: probabilities.

    Examples:
        >>> import rayhull as rh
        >>> rh.simplex(3).generators().vertices
        array([[0., 0., 1.],
               [0., 1., 0.],
               [1., 0., 0.]])
    """
    return sum_to(1, shape, axis) & nonnegative(shape)


def monotone(shape: Shape, axis: int = -1, *, increasing: bool = True, step: Any = 0) -> Polyhedron:
    """x[i+1] - x[i] >= step along ``axis`` of the event ``shape``; x[i] - x[i+1] >= step with ``increasing=False``.

    ``step`` is a number, or one for each difference.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.monotone((5, 24))                     # each of 5 rows increases along the last axis
        >>> bool(P.contains(np.arange(120.0).reshape(5, 24)))
        True
    """
    rows = _bands(shape, axis, [1, -1] if increasing else [-1, 1])
    return along(Polyhedron(rows, -as_array(step, "step")), shape, axis)


def convex(shape: Shape, axis: int = -1) -> Polyhedron:
    """x[i-1] - 2 x[i] + x[i+1] >= 0 along ``axis`` of the event ``shape``.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.convex(10).contains(np.linspace(-1, 1, 10) ** 2))
        True
    """
    return along(Polyhedron(_bands(shape, axis, [-1, 2, -1])), shape, axis)


def concave(shape: Shape, axis: int = -1) -> Polyhedron:
    """x[i-1] - 2 x[i] + x[i+1] <= 0 along ``axis`` of the event ``shape``.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.concave(10).contains(np.sqrt(np.arange(10))))
        True
    """
    return along(Polyhedron(_bands(shape, axis, [1, -2, 1])), shape, axis)


def unimodal(shape: Shape, mode: int, axis: int = -1) -> Polyhedron:
    """x increases up to index ``mode`` along ``axis`` of the event ``shape``, and decreases after it.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> bool(rh.unimodal(5, mode=2).contains(np.array([0.0, 1, 3, 2, 2])))
        True
    """
    rows = _bands(shape, axis, [1, -1])
    last = rows.shape[0]
    if not isinstance(mode, int | np.integer) or not 0 <= mode <= last:
        raise ValueError(f"mode must be an index from 0 to {last}, got {mode}.")
    up = np.where(np.arange(last) < mode, 1, -1)
    return along(Polyhedron(sp.csr_array(sp.diags_array(up, dtype=np.int64) @ rows)), shape, axis)


def lipschitz(shape: Shape, bound: Any, axis: int = -1) -> Polyhedron:
    """-bound <= x[i+1] - x[i] <= bound along ``axis`` of the event ``shape``; ``bound`` is a number or one for each.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> rh.lipschitz(4, 0.5).contains(np.array([[0.0, 0.5, 0, 0.25], [0, 1, 2, 3]]))
        array([ True, False])
    """
    return ramps(shape, bound, bound, axis)


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
    place = _places(range(math.prod(event))) | _places(np.ndindex(event))
    return Polyhedron(_differences(edges, place, f"not a coordinate of shape {event}"), shape=event)


def checkerboard(shape: Shape = (28, 28), tiles: tuple[int, int] = (4, 4)) -> Polyhedron:
    """Tile averages alternate in sign, dark at the top left: the paper's set.

    The sum of x over tile (r, c) is <= 0 where r + c is even, >= 0 where it is odd. ``shape`` is that of the image,
    (height, width), and ``tiles`` says how many tiles there are down and across.

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


def _bands(shape: Shape, axis: int, weights: Sequence[int]) -> sp.csr_array:
    """Rows i with ``weights`` at i, i+1, ... of one axis: (n - len(weights) + 1, n)."""
    n, k = axis_length(shape, axis, least=len(weights)), len(weights)
    return sp.csr_array(sp.diags_array(weights, offsets=range(k), shape=(n - k + 1, n), dtype=np.int64))


def _places(names: Iterable[Any]) -> dict[Any, int]:
    listed = list(names) if np.iterable(names) else [names] * 2
    place = {name: i for i, name in enumerate(listed)}
    if not 0 < len(place) == len(listed):
        raise ValueError(f"expected one name or more, each once, got {listed[:6]!r}{' ...' * (len(listed) > 6)}.")
    return place


def _differences(edges: Iterable[Any], place: Mapping[Any, int], otherwise: str | None = None) -> sp.csr_array:
    """A row x[i] - x[j] for each edge (i, j) between known places; ``otherwise``: what another place is."""
    columns: list[int] = []
    for edge in edges if np.iterable(edges) else [edges]:
        if not isinstance(edge, Sequence | np.ndarray) or len(edge) != 2:
            raise ValueError(f"an edge is a pair (i, j), got {edge!r}.")
        for name in (tuple(end) if isinstance(end, list | np.ndarray) else end for end in edge):
            if name not in place:
                known = f"none of {', '.join(map(repr, list(place)[:6]))}{', ...' * (len(place) > 6)}"
                raise ValueError(f"{name!r} is {otherwise or known}, in the edge {edge!r}.")
            columns.append(place[name])
        if columns[-1] == columns[-2]:
            raise ValueError("an edge (i, i) from a place to itself says nothing: leave it out.")
    m = len(columns) // 2
    return sp.csr_array(
        (np.tile([1, -1], m), (np.repeat(np.arange(m), 2), columns)), shape=(m, max(place.values()) + 1)
    )


def image_of_tiles(shape: Shape, tiles: tuple[int, int]) -> tuple[int, int]:
    """Height and width of an image that the tiles divide evenly."""
    event = as_shape(shape)
    if len(event) != 2:
        raise ValueError(f"an image has two axes, got shape {event}.")
    if np.shape(tiles) != (2,) or not all(isinstance(n, int | np.integer) and n > 0 for n in tiles):
        raise ValueError(f"tiles must be two positive whole numbers (down, across), got {tiles!r}.")
    if event[0] % tiles[0] or event[1] % tiles[1]:
        raise ValueError(f"{tiles} tiles do not divide an image of shape {event} evenly.")
    return event[0], event[1]


# -- sets of planning: power, transport, classes ---------------------------------------------------------------------


def ramps(shape: Shape, up: Any, down: Any = None, axis: int = -1) -> Polyhedron:
    """-down <= x[i+1] - x[i] <= up along ``axis`` of the event ``shape``: how fast a unit may go up and down.

    Args:
        up, down: a number, or one for each step; ``down`` is ``up`` where it is not given.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.ramps(4, up=1, down=3)
        >>> P.contains(np.array([[0.0, 1, 2, -1], [0, 2, 2, 2]]))
        array([ True, False])
    """
    rows, sides = _bands(shape, axis, [-1, 1]), {"up": up, "down": up if down is None else down}
    limits = (as_array(side, name) for name, side in sides.items())
    offsets = joined([side if side.ndim else side.repeat(rows.shape[0]) for side in limits])
    return along(Polyhedron(sp.csr_array(sp.vstack([rows, -rows])), offsets), shape, axis)


def storage(
    steps: int, power: Any, energy: Any, efficiency: Any = 1, *, start: Any = 0, end: Any = None, hours: Any = 1
) -> Polyhedron:
    """A battery, a reservoir: charge, discharge and level in every step, each one row of x (3, steps).

    .. math:: level_t = level_{t-1} + hours \\, (η\\, charge_t - discharge_t / η)

    with charge and discharge from 0 to ``power``, the level from 0 to ``energy``. The level is a coordinate, so that
    every row has four entries at most. Charging and discharging in the same step is allowed: what forbids it is not
    convex. With a layer the level at the start may come with each sample: ``b_eq`` is (start, 0, ..., 0).

    Args:
        steps: how many steps.
        power, energy: the largest, a number or one for each step.
        efficiency: η of charging and of discharging, one number for both or a pair.
        start: the level before the first step.
        end: the least level after the last one, if any.
        hours: the length of a step.

    Examples:
        >>> import numpy as np, rayhull as rh
        >>> P = rh.storage(3, power=2, energy=4, efficiency=0.5)
        >>> charge, discharge, level = [2, 0, 0], [0, 0, 0.5], [1, 1, 0]
        >>> P.contains(np.array([charge, discharge, level])).item(), P.coordinates[-1]
        (True, 'level[2]')
    """
    pair = np.atleast_1d(as_array(efficiency, "efficiency")).tolist() * (1 if np.ndim(efficiency) else 2)
    if len(pair) != 2 or not all(0 < v <= 1 for v in pair):
        raise ValueError(f"efficiency must be a share in (0, 1], or a pair (charging, discharging), got {efficiency}.")
    if not (np.ndim(hours) == 0 and hours > 0):
        raise ValueError(f"hours must be the length of a step, positive, got {hours!r}.")
    into, out = pair
    charge, discharge, level = variables("charge", "discharge", "level", shape=steps)
    gain = hours * (into * charge - discharge / out)
    balance = [(level[:1] - gain[:1] == start).named("start"), (level.diff() - gain[1:] == 0).named("balance")]
    limits = [x >= 0 for x in (charge, discharge, level)] + [charge <= power, discharge <= power, level <= energy]
    P = rules(balance[: min(steps, 2)], limits, [] if end is None else level[-1] >= end)
    event, names = (3, steps), P.coordinate_names
    low, high = (None if side is None else side.reshape(event) for side in (P.lower, P.upper))
    return Polyhedron.from_rows(P.inequalities, P.equalities, low, high, event, check=False, coordinate_names=names)


def flow(edges: Iterable[tuple[Any, Any]], nodes: Any, capacity: Any = None, demand: Any = 0) -> Polyhedron:
    """A flow on every edge of a network, from 0 to its capacity; what comes into a node less what leaves is its demand.

    A node that supplies has a negative demand. All demands add up to 0, so that the last one follows from the others
    and is not stated. With a layer they may come with each sample, as ``b_eq`` in the order of the nodes but the last.
    A line that carries both ways is two edges.

    Args:
        edges: pairs (from, to), one coordinate each.
        nodes: how many there are, or their names.
        capacity: the largest flow, a number or one for each edge.
        demand: of each node, in order or by name; 0 for a circulation.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.flow([("a", "b"), ("a", "c"), ("b", "c")], ["a", "b", "c"], capacity=2, demand=[-3, 0, 3])
        >>> [1, 2, 1] in P
        True
        >>> print(P.explain([1, 2, 0]))
        The point is outside: 1 of 8 rules is broken.
          broken  demand of b, by 1
          binds   upper bound of x[1]
          binds   lower bound of x[2]
          4 rules have slack, the least 1: upper bound of x[0]
    """
    place = _places(range(nodes) if isinstance(nodes, int | np.integer) else nodes)
    balance, names = sp.csr_array(-_differences(edges, place).T), [f"demand of {node}" for node in place]
    if isinstance(demand, Mapping):
        if unknown := [node for node in demand if node not in place]:
            raise ValueError(f"a demand is given for {unknown[0]!r}, which is no node: there are {[*place][:6]}.")
        demand = [demand.get(node, 0) for node in place]
    wanted = as_array(demand, "demand").ravel().tolist() * (1 if np.ndim(demand) else len(place))
    if len(wanted) != len(place):
        raise ValueError(f"there are {len(place)} nodes but {len(wanted)} demands: give one for each node.")
    _refuse_other_totals("demands of all nodes", wanted, "what leaves the network", [0])
    return Polyhedron(
        A_eq=balance[:-1], b_eq=wanted[:-1], lower=0, upper=capacity, shape=balance.shape[1], eq_names=names[:-1]
    )


def marginals(rows: Sequence[Any], columns: Sequence[Any]) -> Polyhedron:
    """x >= 0 with given sums of its rows and columns: transport plans, tables with known totals.

    With a layer the sums may come with each sample, as ``b_eq``: those of the rows, then those of the columns but the
    last one, which follows from the others and is not stated: rounding can then not make them contradict each other.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.marginals([1, 3], [2, 1, 1])
        >>> [[1, 0, 0], [1, 1, 1]] in P
        True
    """
    rows, columns = as_array(rows, "rows").ravel().tolist(), as_array(columns, "columns").ravel().tolist()
    m, n = as_shape((len(rows), len(columns)))
    sums = [sp.kron(sp.eye_array(m, dtype=np.int64), np.ones((1, n), np.int64))]
    sums += [sp.kron(np.ones((1, m), np.int64), sp.eye_array(n, dtype=np.int64))]
    _refuse_other_totals("rows", rows, "columns", columns)
    names = [f"row {i}" for i in range(m)] + [f"column {j}" for j in range(n - 1)]
    return Polyhedron(
        A_eq=sp.csr_array(sp.vstack(sums))[:-1], b_eq=[*rows, *columns[:-1]], lower=0, shape=(m, n), eq_names=names
    )  # fmt: skip


def birkhoff(n: int) -> Polyhedron:
    """n x n matrices x >= 0 with rows and columns that sum to 1: doubly stochastic; the vertices are permutations.

    Examples:
        >>> import rayhull as rh
        >>> rh.birkhoff(3).generators().vertices.shape
        (6, 9)
    """
    return marginals([1] * as_shape(n)[0], [1] * as_shape(n)[-1])


def hierarchy(parent_of: Mapping[Hashable, Any] | Sequence[Any]) -> Polyhedron:
    """Probabilities of classes in a hierarchy: 0 <= x <= 1, and none larger than that of its parent.

    Args:
        parent_of: for each class its parent, by name or in order: None for one without, a list for several.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.hierarchy({"animal": None, "cat": "animal", "dog": "animal", "puppy": ["dog"]})
        >>> P.coordinates, [0.9, 0.1, 0.8, 0.7] in P
        (('animal', 'cat', 'dog', 'puppy'), True)
        >>> list(P.rows.names)[:3]
        ['cat <= animal', 'dog <= animal', 'puppy <= dog']
    """
    named = isinstance(parent_of, Mapping)
    if not np.iterable(parent_of):
        raise TypeError(f"expected the parent of each class, by name or in order, got {parent_of!r}.")
    listed = parent_of.items() if isinstance(parent_of, Mapping) else enumerate(parent_of)
    parents = {child: given if isinstance(given, list | tuple) else [given] for child, given in listed}
    edges = [(child, parent) for child, given in parents.items() for parent in given if parent is not None]
    return Polyhedron(
        _differences(edges, _places(parents)), lower=0, upper=1,
        names=[f"{child} <= {parent}" for child, parent in edges],
        coordinates=[str(name) for name in parents] if named else None,
    )  # fmt: skip


def _refuse_other_totals(first: str, these: Sequence[Any], second: str, others: Sequence[Any]) -> None:
    """Two lists of numbers must have one total, up to rounding."""
    apart = abs(sum(these) - sum(others))
    if not apart <= 1e-9 * max(abs(v) for v in (*these, *others)):
        raise ValueError(f"{first} sum to {sum(these)}, {second} to {sum(others)}: both must be the same.")
