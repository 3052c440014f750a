"""The order in which a set keeps its rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rayhull.exact.numbers import Array


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Which row stands where: the one place that knows.

    ``P.rows`` are the rows ``inequalities`` of A (those that are not all zeros), then the upper bounds of the
    coordinates ``upper``, then the lower bounds of the coordinates ``lower``. ``P.equality_rows`` are the rows
    ``equalities`` of A_eq, then the values of the coordinates ``fixed``, whose bounds leave one value.
    """

    dim: int
    inequalities: Array
    upper: Array
    lower: Array
    equalities: Array
    fixed: Array

    @property
    def inequality_rows(self) -> slice:
        """Where the rows of A stand among ``P.rows``."""
        return slice(0, len(self.inequalities))

    @property
    def upper_rows(self) -> slice:
        """Where the upper bounds stand among ``P.rows``."""
        return slice(len(self.inequalities), len(self.inequalities) + len(self.upper))

    @property
    def lower_rows(self) -> slice:
        """Where the lower bounds stand among ``P.rows``."""
        return slice(self.upper_rows.stop, self.upper_rows.stop + len(self.lower))

    def is_stated(self, rows: Array) -> Array:
        """Which of the numbered ``P.rows`` are rows of A, not bounds."""
        return rows < len(self.inequalities)

    def upper_row_of(self, coordinates: Array) -> Array:
        """The number among ``P.rows`` of each coordinate's upper bound, -1 where it has none."""
        return _place(self.upper, self.dim, self.upper_rows.start)[coordinates]

    def lower_row_of(self, coordinates: Array) -> Array:
        """The number among ``P.rows`` of each coordinate's lower bound, -1 where it has none."""
        return _place(self.lower, self.dim, self.lower_rows.start)[coordinates]

    def fixed_row_of(self, coordinates: Array) -> Array:
        """The number among ``P.equality_rows`` of each coordinate's value, -1 where it is free."""
        return _place(self.fixed, self.dim, len(self.equalities))[coordinates]


def _place(members: Array, size: int, start: int) -> Array:
    places = np.full(size, -1)
    places[members] = np.arange(len(members)) + start
    return places
