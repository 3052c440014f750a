"""Names of rows for messages, written out only when somebody asks: a box of 10^5 coordinates has 2 · 10^5 of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

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
