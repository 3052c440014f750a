"""Names of rows and coordinates, for messages: written out only when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from rayhull.exact.numbers import Array


class Names(Sequence[str]):
    """Names of rows, written out when somebody asks: a rule for each row, and the number that goes into it."""

    def __init__(self, rules: tuple[Callable[[int], str], ...], rule: Array, number: Array) -> None:
        self._rules, self._rule, self._number = rules, rule, number

    @staticmethod
    def by(rule: Callable[[int], str], numbers: Array) -> Names:
        """``rule(number)`` for each number."""
        return Names((rule,), np.zeros(len(numbers), np.int64), numbers)

    @staticmethod
    def join(parts: Sequence[Names]) -> Names:
        starts = np.cumsum([0] + [len(p._rules) for p in parts[:-1]])
        rule = np.concatenate([p._rule + start for p, start in zip(parts, starts, strict=True)])
        return Names(sum((p._rules for p in parts), ()), rule, np.concatenate([p._number for p in parts]))

    def take(self, rows: Array) -> Names:
        return Names(self._rules, self._rule[rows], self._number[rows])

    def __len__(self) -> int:
        return len(self._number)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[str, ...]: ...
    def __getitem__(self, i: int | slice) -> str | tuple[str, ...]:
        if isinstance(i, slice):
            return tuple(self[k] for k in range(len(self))[i])
        return self._rules[self._rule[i]](int(self._number[i]))

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))


@dataclass(frozen=True)
class Label:
    """The rule "A[{}]" or "upper bound of x[{}]", filled with a place in ``shape``: '3' or '2, 5'."""

    text: str
    shape: tuple[int, ...] | None = None

    def __call__(self, flat: int) -> str:
        place = (flat,) if self.shape is None else np.unravel_index(flat, self.shape)
        return self.text.format(", ".join(str(i) for i in place))


# -- coordinates -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CoordinateNames:
    """What a set's coordinates are called, and those of their bounds that have names of their own.

    ``bounds`` maps (coordinate, "lower" or "upper") to the name of the rule that states the bound.
    """

    names: tuple[str, ...]
    bounds: Mapping[tuple[int, str], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_twice(self.names)

    def bound(self, side: str) -> Callable[[int], str]:
        """The rule that names the bounds of one side, or of coordinates with one value (side "value")."""
        return _BoundName(self, side)

    def take(self, coordinates: Array) -> CoordinateNames:
        """The names of some coordinates, in this order."""
        place = {int(old): new for new, old in enumerate(coordinates)}
        bounds = {(place[i], side): name for (i, side), name in self.bounds.items() if i in place}
        return CoordinateNames(tuple(self.names[i] for i in coordinates), bounds)


@dataclass(frozen=True)
class _BoundName:
    coordinates: CoordinateNames
    side: str

    def __call__(self, flat: int) -> str:
        stated = self.coordinates.bounds.get((flat, "lower" if self.side == "value" else self.side))
        what = "value of" if self.side == "value" else f"{self.side} bound of"
        return f"{what} {self.coordinates.names[flat]}" if stated is None else stated


def refuse_twice(names: Sequence[str]) -> None:
    """A name stands for one coordinate."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {name!r} is given {names.count(name)} times: every coordinate needs its own.")


def common_names(first: Any, second: Any, joint: Mapping[str, Array | None]) -> CoordinateNames | None:
    """The names in the intersection of two sets with bounds ``joint``: they must agree, or only one have names."""
    named = [P for P in (first, second) if P.coordinate_names is not None]
    if not named:
        return None
    if len(named) == 2 and first.coordinates != second.coordinates:
        mine, other = (", ".join(P.coordinates[:4]) for P in named)
        raise ValueError(
            f"the sets name their coordinates differently ({mine} and {other}): state the rules of both with the same "
            "variables."
        )
    bounds: dict[tuple[int, str], str] = {}
    for P in reversed(named):
        bounds |= {
            (i, side): name for (i, side), name in P.coordinate_names.bounds.items() if _stays(P, i, side, joint)
        }
    return CoordinateNames(named[0].coordinates, bounds)


def _stays(P: Any, i: int, side: str, joint: Mapping[str, Array | None]) -> bool:
    """Whether the bound that P states is the one that holds in the intersection."""
    old, new = getattr(P, side), joint[side]
    return old is not None and new is not None and bool(old.ravel()[i] == new.ravel()[i])
