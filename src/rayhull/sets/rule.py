"""One rule, two arrays of expressions compared entry by entry, and how it is written in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rayhull.sets.expressions import Expression

SHOWN = 6  # terms of a longer sum are left out in the middle


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


# -- words, as a person would write them and as parse() reads them ---------------------------------------------------


def number_text(value: Any) -> str:
    """A number without noise: 2 for 2.0, 1/3 for a fraction.

    Examples:
        >>> from fractions import Fraction
        >>> number_text(2.0), number_text(Fraction(1, 3)), number_text(0.25)
        ('2', '1/3', '0.25')
    """
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, int):
        return str(value)
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def affine_text(terms: Sequence[tuple[str, Any]], constant: Any) -> str:
    """A sum of terms (name, coefficient) and a constant.

    Examples:
        >>> affine_text([("coal", 1), ("gas", -2)], 3)
        'coal - 2*gas + 3'
        >>> affine_text([("x[0]", -1), ("x[1]", 1)], 0)
        'x[1] - x[0]'
    """
    terms = sorted(terms, key=lambda term: term[1] < 0)[:1] + list(terms)  # x - y rather than -y + x
    terms = [t for i, t in enumerate(terms) if i == 0 or t is not terms[0]]
    parts = [_signed(value, name) for name, value in terms]
    if len(parts) > SHOWN:
        parts = [*parts[:2], ("+", "..."), parts[-1]]
    if constant != 0 or not parts:
        parts.append(_signed(constant, ""))
    first = ("-" if parts[0][0] == "-" else "") + parts[0][1]
    return first + "".join(f" {sign} {text}" for sign, text in parts[1:])


def _signed(value: Any, name: str) -> tuple[str, str]:
    size = abs(value)
    if not name:
        text = number_text(size)
    else:
        text = name if size == 1 else f"{number_text(size)}*{name}"
    return "-" if value < 0 else "+", text
