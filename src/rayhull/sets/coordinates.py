"""What the coordinates of a set are called, and their bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rayhull.exact.numbers import Array


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
