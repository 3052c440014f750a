"""Numbers and affine expressions in words, as a person would write them and as :func:`rayhull.parse` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

SHOWN = 6  # terms of a longer sum are left out in the middle


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
