"""Pictures of sets in two or three coordinates, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

import html
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.errors import RayhullError, optional
from rayhull.exact.numbers import Array
from rayhull.sets.description import Outline, outline, projection, section
from rayhull.sets.membership import flatten
from rayhull.sets.reading import as_numpy
from rayhull.sets.rows import Rows, number_text

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron
    from rayhull.sets.statement import Statement

# Okabe and Ito's colours, which people with any colour vision can tell apart; markers differ as well
BLUE, GREEN, VERMILION = "#0072B2", "#009E73", "#D55E00"
RULES = 8  # of each kind, listed in a notebook
TURNS = 721  # directions in which the boundary of a set with cones is drawn


def plot_polyhedron(
    P: Polyhedron,
    coordinates: Sequence[Any] | None = None,
    *,
    at: Any = None,
    ax: Any = None,
    points: Any = None,
    vertices: bool = True,
    window: tuple[Any, Any] | None = None,
    color: str = BLUE,
) -> Any:
    """Draw the set in two or three coordinates with matplotlib (the extra ``plot``); returns the axes.

    Unbounded sets are clipped to a window; edges that go on beyond it end in arrows.

    Args:
        coordinates: two or three names or flat numbers; a set in R^2 or R^3 needs none.
        at: a point (event shape): the section through it is drawn. By default the projection of the whole set.
        ax: axes to draw on; for three coordinates made with ``projection="3d"``.
        points: points (n, event shape) to draw too: dots inside, crosses outside.
        vertices: whether to mark the vertices.
        window: lower and upper corner, or two numbers, to which an unbounded set is clipped.
        color: of the set, as matplotlib names it.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.parse("coal + gas + wind == 100; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 40")
        >>> ax = P.plot(("coal", "wind"), points=P.sample(50, seed=0))  # doctest: +SKIP
    """
    pick = picked(P, coordinates)
    around, k = _flat(P, points)[:, pick], len(pick)
    frame = None if window is None else _window(window, k)
    if at is not None or P.dim == k:
        middle = np.zeros(P.dim) if at is None else _flat(P, at)[0]
        found = outline(section(P, pick, middle).generators(), frame, around)
    else:
        found = projection(P, pick, frame, around)
    ax = axes(ax, k)
    draw(ax, found, vertices=vertices, color=color)
    return _labelled(ax, P, pick, points)


def plot_section(
    S: Any, coordinates: Sequence[Any] | None = None, *, at: Any = None, ax: Any = None, points: Any = None,
    color: str = BLUE,
) -> Any:  # fmt: skip
    """Draw the section in two coordinates through ``at``, by default the interior point (the extra ``plot``).

    It is drawn as far as the set reaches from there in each direction; ``ax``, ``points`` and ``color`` as in
    :meth:`rayhull.Polyhedron.plot`.
    """
    pick = picked(S, coordinates)
    if len(pick) != 2:
        raise ValueError("a set with cones is drawn in two coordinates: name them, as in plot((0, 1)).")
    middle = S.centre.point if at is None else _flat(S, at)[0]
    turns = np.linspace(0, 2 * np.pi, TURNS)
    way = np.zeros((TURNS, S.dim))
    way[:, pick] = np.stack([np.cos(turns), np.sin(turns)], 1)
    ends = (middle + way * S.reach(middle, way)[0][:, None])[:, pick]
    ax = axes(ax, 2)
    ax.fill(*ends.T, facecolor=color, alpha=0.15, edgecolor=color, linewidth=1.5)
    return _labelled(ax, S, pick, points)


def _window(window: Any, k: int) -> Array:
    """Lower and upper corner (2, k)."""
    try:
        low, high = (np.broadcast_to(np.asarray(side, float), k) for side in window)
    except (TypeError, ValueError):
        low = high = np.zeros(k)
    if not (low < high).all():
        raise ValueError(f"window must be two corners (lower, upper) of {k} numbers or one each, got {window!r}.")
    return np.stack([low, high])


def _flat(P: Statement, points: Any) -> Array:
    """Points (n, d), none for None."""
    return np.zeros((0, P.dim)) if points is None else as_numpy(flatten(P, points)[0]).astype(float)


def picked(P: Polyhedron, coordinates: Sequence[Any] | None) -> Array:
    """Flat numbers of the two or three coordinates to show: given by name, by number, or all of a small set."""
    if coordinates is None and P.dim in (2, 3):
        return np.arange(P.dim)
    if P.dim < 2:
        raise ValueError("a picture shows two or three coordinates, and the set has one: print(P.describe()) says it.")
    if coordinates is None or len(coordinates) not in (2, 3):
        shown = ", ".join(map(repr, P.coordinates[:2]))
        raise ValueError(
            f"a picture shows two or three coordinates, the set has {P.dim}: name them, as in plot(({shown}))."
        )
    found = [_place(P, c) for c in coordinates]
    if len(set(found)) < len(found):
        raise ValueError(f"a picture shows different coordinates, got {tuple(coordinates)!r}.")
    return np.array(found)


def _place(P: Polyhedron, coordinate: Any) -> int:
    if isinstance(coordinate, str):
        if coordinate not in P.coordinates:
            raise ValueError(f"the set has no coordinate {coordinate!r}: it has {', '.join(P.coordinates[:8])}.")
        return P.coordinates.index(coordinate)
    flat = np.arange(P.dim) if np.ndim(coordinate) == 0 else np.arange(P.dim).reshape(P.shape)
    key = tuple(np.atleast_1d(coordinate).tolist())
    places = zip(key, flat.shape, strict=False)
    if len(key) != flat.ndim or not all(isinstance(i, int) and 0 <= i < n for i, n in places):
        raise ValueError(f"coordinate {coordinate!r} is out of range for a set of shape {P.shape}.")
    return int(flat[key])


def axes(ax: Any, k: int) -> Any:
    """The given axes, or new ones with k dimensions."""
    plt = optional("matplotlib.pyplot", "matplotlib", "plot", "A picture of a set")
    if ax is None:
        figure = plt.figure(figsize=(5, 4.5), layout="constrained")
        ax = figure.add_subplot(projection="3d" if k == 3 else None)
    if k == 3 and ax.name != "3d":
        raise ValueError('three coordinates need axes made with projection="3d".')
    return ax


def draw(ax: Any, found: Outline, *, vertices: bool, color: str = BLUE) -> None:
    """The faces, the edges (with arrows where they go on beyond the window) and the vertices of an outline."""
    three = found.corners.shape[1] == 3
    _fill(ax, found, color, three)
    for a, b in found.edges():
        _edge(ax, found, a, b, color, three)
    own = found.corners[found.true_corners()]
    if vertices and len(own):
        size = {"s": 24} if len(own) < 60 else {"s": 6}
        ax.scatter(*own.T, color=color, zorder=3, **size)
    if found.window is not None:
        for side, low, high in zip("xyz", *found.window, strict=False):
            getattr(ax, f"set_{side}lim")(low, high)


def _fill(ax: Any, found: Outline, color: str, three: bool) -> None:
    rings = [found.corners[face] for face in found.true_faces()]
    if three and rings:
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection

        ax.add_collection3d(Poly3DCollection(rings, facecolor=color, alpha=0.12, edgecolor="none"))
        ax.auto_scale_xyz(*found.corners.T)
    elif rings:
        ax.fill(*rings[0].T, facecolor=color, alpha=0.15, edgecolor="none")


def _edge(ax: Any, found: Outline, a: int, b: int, color: str, three: bool) -> None:
    ends = found.corners[[a, b]]
    ax.plot(*ends.T, color=color, linewidth=1.5, solid_capstyle="round")
    for i, (start, stop) in ((a, ends[::-1]), (b, ends)):
        if not found.cut[i].any():
            continue
        if three:
            step = (stop - start) * 0.25
            ax.quiver(*(stop - step), *step, color=color, arrow_length_ratio=0.5, linewidth=1.5)
        else:
            style = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
            ax.annotate("", xy=stop, xytext=stop - (stop - start) * 0.2, arrowprops=style)


def draw_points(ax: Any, points: Array, inside: Array) -> None:
    """Points of the set as dots, others as crosses; a legend where both occur."""
    size = 14 if len(points) < 300 else 4
    ax.scatter(*points[inside].T, s=size, color=GREEN, linewidth=0, zorder=4, label="inside")
    if not inside.all():
        ax.scatter(*points[~inside].T, s=2 * size, color=VERMILION, marker="x", zorder=4, label="outside")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2, frameon=False)


def _labelled(ax: Any, P: Any, pick: Array, points: Any) -> Any:
    """The axes with the points and the names of the coordinates."""
    if points is not None:
        draw_points(ax, _flat(P, points)[:, pick], as_numpy(P.contains(points)).ravel())
    for side, i in zip("xyz", pick, strict=False):
        getattr(ax, f"set_{side}label")(P.coordinates[i])
    if len(pick) == 2:
        low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T
        sizes = high - low
        ax.set_aspect("equal" if sizes.max() < 5 * sizes.min() else "auto")
        ax.spines[["top", "right"]].set_visible(False)
    return ax


def as_html(words: str, S: Statement, plot: Callable[..., Any]) -> str:
    """``_repr_html_`` of a set or a layer: words, then a drawing of a set in the plane, or a table of its rules."""
    body = (_svg(plot) if S.dim == 2 else "") or "<table>" + "".join(_table_rows(S)) + "</table>"
    return f"<pre>{html.escape(words)}</pre>{body}"


def _svg(plot: Callable[..., Any]) -> str:
    """The drawing; nothing without matplotlib, or where there is nothing to draw."""
    try:
        from matplotlib.figure import Figure

        figure, text = Figure(figsize=(3.4, 3.0), layout="constrained"), io.StringIO()
        plot(ax=figure.subplots())
    except (ImportError, RayhullError):
        return ""
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _table_rows(S: Statement) -> Iterator[str]:
    bounded = np.flatnonzero(np.isfinite(S.lower_bounds) | np.isfinite(S.upper_bounds))
    cones = getattr(S, "cones", ())
    kinds: tuple[tuple[int, Callable[[int], tuple[str, str]]], ...] = (
        (len(S.inequalities), lambda i: _row_text(S, S.inequalities, "<=", i)),
        (len(S.equalities), lambda i: _row_text(S, S.equalities, "==", i)),
        (len(cones), lambda i: ("", cones[i].name)),
        (len(bounded), lambda i: ("", _bounds_text(S, bounded[i]))),
    )
    for count, text in kinds:
        for i in range(min(count, RULES)):
            name, rule = map(html.escape, text(i))
            yield f"<tr><td>{name}</td><td><code>{rule}</code></td></tr>"
        if count > RULES:
            yield f"<tr><td></td><td>and {count - RULES} more</td></tr>"


def _row_text(S: Statement, rows: Rows, sign: str, i: int) -> tuple[str, str]:
    """The name of a row, if it has one, and the row in words."""
    rule = rows.text(S.coordinates, sign, i)
    return rows.names[i].removeprefix(rule), rule


def _bounds_text(S: Statement, i: int) -> str:
    """The bounds of a coordinate: ``0 <= wind <= 40``."""
    low, high = (None if side is None else side.ravel()[i : i + 1].tolist()[0] for side in (S.lower, S.upper))
    below = "" if low is None or low == -math.inf else f"{number_text(low)} <= "
    above = "" if high is None or high == math.inf else f" <= {number_text(high)}"
    return f"{below}{S.coordinates[i]}{above}"
