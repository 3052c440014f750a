"""One rule: two arrays of expressions, compared entry by entry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rayhull.sets.expressions import Expression


@dataclass(frozen=True, eq=False)
class Rule:
    """left <= right, left >= right or left == right, entry by entry; made by comparing expressions."""

    left: Expression
    right: Expression
    sign: str
    name: str | None = None

    def named(self, name: str) -> Rule:
        """The same rule under a name of its own, for messages, ``slack`` and ``explain``.

        Examples:
            >>> import rayhull as rh
            >>> wind = rh.variables("wind")
            >>> (wind <= 40).named("capacity of the park")
            capacity of the park: wind <= 40
        """
        return replace(self, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.left.shape

    def label(self, entry: int) -> str:
        """What one entry is called: the given name with its place, or its own text."""
        if self.name is None:
            return self.text(entry)
        if not self.shape:
            return self.name
        return f"{self.name}[{', '.join(str(i) for i in np.unravel_index(entry, self.shape))}]"

    def text(self, entry: int) -> str:
        return f"{self.left.text(entry)} {self.sign} {self.right.text(entry)}"

    def __bool__(self) -> bool:
        raise TypeError(
            f"the rule {self.text(0)} has no truth value. Python reads 0 <= x <= 1 as (0 <= x) and (x <= 1), which "
            "keeps one rule and loses the other: write two rules, 0 <= x, x <= 1."
        )

    def __repr__(self) -> str:
        entries = [self.text(i) for i in range(min(self.left.size, 5))]
        more = [f"... ({self.left.size} rules)"] if self.left.size > len(entries) else []
        return (f"{self.name}: " if self.name else "") + "\n".join(entries + more)
