"""What a person asks of a set: which rules bind or are broken at a point, is it part of another, what it looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rayhull.sets.description import Slack, explain, slack
from rayhull.sets.linear_programs import is_subset

if TYPE_CHECKING:
    from rayhull.sets.polyhedron import Polyhedron


class Questions:
    """The part of :class:`rayhull.Polyhedron` that speaks of rules by their names."""

    def slack(self: Polyhedron, x: Any) -> Slack:  # type: ignore[misc]
        """The slack b - a·x of every rule by name, worst first: negative where broken, -|a·x - b| for an equality.

        Shape: x (\\*, event shape) → values (\\*, m), NumPy or torch as x is. Differentiable for a tensor.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
            >>> P.slack([70, 30])
            coal <= 2*gas              -10  broken
            coal + gas == 100            0  holds
            gas <= 60                   30
            gas >= 0                    30
            >>> float(P.slack([70, 30])["coal <= 2*gas"])
            -10.0
        """
        return slack(self, x)

    def explain(self: Polyhedron, x: Any) -> str:  # type: ignore[misc]
        """One point in words: which rules are broken and by how much, which bind.

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas == 100; coal <= 2*gas; gas >= 0; gas <= 60")
            >>> print(P.explain([40, 60]))
            The point is inside: all 4 rules hold.
              binds   gas <= 60
              2 rules have slack, the least 60: gas >= 0
        """
        return explain(self, x)

    def __contains__(self: Polyhedron, x: Any) -> bool:  # type: ignore[misc]
        """Whether a point, or every one of many, is inside, up to the tolerance of ``contains``."""
        return bool(np.all(np.asarray(self.contains(x))))

    def __eq__(self, other: object) -> bool:
        """Whether both state the same: the same rows in the same order, and the same names of coordinates.

        Two statements of one set may differ: :meth:`same_set` compares the sets.
        """
        if not isinstance(other, Questions):
            return NotImplemented
        return _same_statement(self, other)

    def __hash__(self: Polyhedron) -> int:  # type: ignore[misc]
        return hash(self.fingerprint)

    def is_subset(self: Polyhedron, other: Polyhedron) -> bool:  # type: ignore[misc]
        """Whether every point of this set lies in the other, by a linear program for each of its rows.

        Examples:
            >>> import rayhull as rh
            >>> rh.simplex(3).is_subset(rh.box(0, 1, 3)), rh.box(0, 1, 3).is_subset(rh.simplex(3))
            (True, False)
        """
        return is_subset(self, other)

    def same_set(self: Polyhedron, other: Polyhedron) -> bool:  # type: ignore[misc]
        """Whether both are the same set, however stated.

        Examples:
            >>> import rayhull as rh
            >>> P, Q = rh.parse("x >= 0; y >= 0; x + y <= 1"), rh.parse("x >= 0; y >= 0; 2*x + 2*y <= 2; x <= 5")
            >>> P == Q, P.same_set(Q)
            (False, True)
        """
        return is_subset(self, other) and is_subset(other, self)

    def plot(  # type: ignore[misc]
        self: Polyhedron,
        coordinates: Sequence[Any] | None = None,
        *,
        at: Any = None,
        ax: Any = None,
        points: Any = None,
        vertices: bool = True,
        window: tuple[Any, Any] | None = None,
        color: str = "#0072B2",
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

        Examples:
            >>> import rayhull as rh
            >>> P = rh.parse("coal + gas + wind == 100; coal <= 2*gas; coal >= 0; gas >= 0; 0 <= wind <= 40")
            >>> ax = P.plot(("coal", "wind"), points=P.sample(50, seed=0))  # doctest: +SKIP
        """
        from rayhull.sets.plotting import plot_polyhedron

        return plot_polyhedron(
            self, coordinates, at=at, ax=ax, points=points, vertices=vertices, window=window, color=color
        )


def _same_statement(P: Any, Q: Any) -> bool:
    if P is Q:
        return True
    unnamed = P.coordinate_names is None and Q.coordinate_names is None
    return P.fingerprint == Q.fingerprint and (unnamed or P.coordinates == Q.coordinates)
