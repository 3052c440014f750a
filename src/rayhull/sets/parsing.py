"""Rules as text → a set: a tokenizer and a recursive descent, no eval. Decimals are exact: 0.1 is 1/10.

rules   :=  rule (";" or a new line, rule)*           # starts a comment
rule    :=  [name ":"] sum (sign sum)+                sign: <=, >=, == or =; chains such as 0 <= x <= 1 are two rules
sum     :=  term (("+" | "-") term)*
term    :=  factor (("*" | "/") factor)*
factor  :=  ("+" | "-") factor | number | variable | "(" sum ")" | ("sum" | "mean" | "diff") "(" sum ")"
variable:=  name ["[" index ("," index)* "]"]         one token; index: a number, or a slice such as 1:, :-1, :
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, NoReturn

from rayhull.exact.numbers import whole
from rayhull.sets.expressions import NO_MODULUS, Expression, Rule, expression
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.reading import Shape
from rayhull.sets.rules import rules, variables

NO_NAMES = ("inf", "infinity", "nan")  # what people write for numbers
MOST = 10_000_000  # coordinates that an index asks for
LONGEST = 300  # digits of a number: a text from elsewhere must not ask for gigabytes
DEEPEST = 100  # parentheses inside parentheses
FUNCTIONS = ("sum", "mean", "diff")
TOKENS = re.compile(
    r"(?P<blank>[ \t\r]+|\#[^\n]*)|(?P<number>(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*([ \t]*\[[^]\n]*\])?)|(?P<sign><=|>=|==|=|≤|≥)|(?P<mark>[-+−*/():])|(?P<end>[;\n])"
)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
INDEX = re.compile(r"\s*-?\d+\s*|\s*(-?\d+)?\s*:\s*(-?\d+)?\s*")
BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}  # a product before a sum
SIGNS = {"<=": operator.le, "≤": operator.le, ">=": operator.ge, "≥": operator.ge, "==": operator.eq, "=": operator.eq}


@dataclass(frozen=True)
class Token:
    kind: str  # number, name, sign, mark, end
    text: str
    place: int


def parse(text: str, shapes: Mapping[str, Shape] | None = None) -> Polyhedron:
    """The set that rules in a text state, for files and configurations.

    Rules are separated by ``;`` or by new lines; ``name: rule`` gives one a name; ``0 <= x <= 1`` may be chained; ``#``
    starts a comment. Numbers are exact. Coordinates come in the order in which they are first mentioned.

    Args:
        text: the rules, with + - * / and parentheses, and with ``sum``, ``mean`` and ``diff`` of arrays of variables.
        shapes: shapes of arrays of variables, as in ``{"x": (5, 24)}``; these come first, in this order. An indexed
            name without a shape is as large as its largest index.

    Examples:
        >>> import rayhull as rh
        >>> P = rh.parse("balance: coal + gas + wind == 100; coal <= 2*gas; 0 <= wind <= 40; coal >= 0; gas >= 0")
        >>> P.coordinates
        ('coal', 'gas', 'wind')
        >>> [40, 20, 40] in P
        True
        >>> rh.parse("sum(x) == 1; x >= 0", shapes={"x": 3}) == rh.simplex(3)
        True
        >>> rh.parse("coal <= 2 gas")
        Traceback (most recent call last):
        ...
        ValueError: line 1: expected an operator, got 'gas': write 2*gas.
            coal <= 2 gas
                      ^
    """
    if not isinstance(text, str):
        raise TypeError(f"parse reads a text, got {type(text).__name__}.")
    return _Parser(text, shapes or {}).polyhedron()


class _Parser:
    """One pass over the tokens; each grammar rule is a method that returns an expression."""

    def __init__(self, text: str, shapes: Mapping[str, Shape]) -> None:
        self.text, self.at = text, 0
        self.tokens = self._tokenize()
        self.variables: dict[str, Expression] = {name: variables(name, shape=shape) for name, shape in shapes.items()}
        self.largest = self._largest_indices()

    def polyhedron(self) -> Polyhedron:
        found: list[Rule] = []
        while (token := self._peek()).kind != "stop":
            if token.kind == "end":
                self._next()
                continue
            found += self._rule()
            if (token := self._peek()).kind not in ("end", "stop"):
                self._refuse(token, f"expected an operator, got {token.text!r}{self._hint(token)}.")
        if not found:
            raise ValueError("the text holds no rule, such as coal + gas <= 100.")
        return rules(found, variables=tuple(self.variables.values()))

    # -- grammar -----------------------------------------------------------------------------------------------

    def _rule(self) -> list[Rule]:
        name = None
        if self._peek().kind == "name" and self._peek(1).text == ":":
            name = self._next().text
            self._next()
        start = self._peek()
        sides, signs = [self._sum()], []
        while self._peek().kind == "sign":
            signs.append(self._next())
            sides.append(self._sum())
        if not signs:
            before = self.text[start.place : self._peek().place].strip()
            got = f"{self._found()}{self._hint(self._peek())}"
            self._refuse(self._peek(), f"expected <=, >= or == after {before!r}, got {got}.")
        compared = zip(sides, signs, sides[1:], strict=False)
        found = [self._safely(sign, partial(SIGNS[sign.text], left, right)) for left, sign, right in compared]
        return found if name is None else [rule.named(name) for rule in found]

    def _hint(self, token: Token) -> str:
        """What may have been meant where an operator is missing before a name."""
        before = self.tokens[self.at - 1]
        if token.text in ("and", "or"):
            return ": rules stand side by side, with ; between them, and all of them hold"
        return f": write {before.text}*{token.text}" if (before.kind, token.kind) == ("number", "name") else ""

    def _sum(self, least: int = 1) -> Expression:
        """Operators that bind at least so tightly, from left to right."""
        value = self._factor()
        while BINDS.get(self._peek().text, 0) >= least:
            token = self._next()
            other = self._sum(BINDS[token.text] + 1)
            value = self._safely(token, partial(OPERATORS[token.text], value, other))
        return value

    def _factor(self) -> Expression:
        negative = False
        while (token := self._next()).text in ("+", "-"):
            negative ^= token.text == "-"
        value = self._unsigned(token)
        return -value if negative else value

    def _unsigned(self, token: Token) -> Expression:
        if token.kind == "number":
            return self._number(token)
        if token.text == "(":
            return self._closed(self._sum(), token)
        if token.kind == "name":
            return self._call(token) if self._peek().text == "(" else self._variable(token)
        return self._refuse(token, f"expected a number, a variable or '(', got {self._found(token)}.")

    def _number(self, token: Token) -> Expression:
        exponent = token.text.lower().partition("e")[2]
        if len(token.text) > LONGEST or abs(int(exponent or 0)) > LONGEST:
            self._refuse(token, f"this number has more than {LONGEST} digits.")
        return expression(whole(Fraction(token.text)))

    def _call(self, token: Token) -> Expression:
        if token.text not in FUNCTIONS:
            hint = f" {NO_MODULUS}" if token.text == "abs" else ""
            self._refuse(token, f"{token.text} is no function: there are {', '.join(FUNCTIONS)}.{hint}")
        opening = self._next()
        inside = self._closed(self._sum(), opening)
        return self._safely(token, lambda: getattr(inside, token.text)())

    def _variable(self, token: Token) -> Expression:
        name, key = self._name_and_key(token)
        if name not in self.variables:
            if name.lower() in NO_NAMES:
                self._refuse(token, f"{name} is no number and no name for a variable: leave out what has no end.")
            self.variables[name] = variables(name, shape=self.largest.get(name))
        value = self.variables[name]
        return self._safely(token, lambda: value[key]) if key else value

    def _name_and_key(self, token: Token) -> tuple[str, tuple[int | slice, ...]]:
        """The parts of ``x[0, 1:]``."""
        name, _, inside = token.text.partition("[")
        if not inside:
            return name, ()
        keys = [[int(end) if end.strip() else None for end in part.split(":")] for part in self._parts(token, inside)]
        return name.strip(), tuple(slice(*key) if len(key) > 1 else key[0] for key in keys)  # type: ignore[misc]

    def _parts(self, token: Token, inside: str) -> list[str]:
        parts = inside.rstrip("]").split(",")
        wrong = [part for part in parts if not INDEX.fullmatch(part)]
        if wrong:
            self._refuse(token, f"expected an index such as 2, -1 or 1:3, got {wrong[0].strip()!r}.")
        return parts

    def _closed(self, value: Expression, opening: Token) -> Expression:
        if self._peek().text != ")":
            self._refuse(opening, f"this '(' is never closed: expected ')', got {self._found()}.")
        self._next()
        return value

    # -- tokens ------------------------------------------------------------------------------------------------

    def _tokenize(self) -> list[Token]:
        tokens, place, depth = [], 0, 0
        while place < len(self.text):
            match = TOKENS.match(self.text, place)
            if match is None:
                self._refuse(Token("", self.text[place], place), self._strange(self.text[place]))
            if match.lastgroup and match.lastgroup != "blank":
                tokens.append(Token(match.lastgroup, match.group().replace("−", "-"), place))
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth > DEEPEST:
                self._refuse(tokens[-1], f"parentheses are nested more than {DEEPEST} deep.")
            place = match.end()
        return [*tokens, Token("stop", "", len(self.text))]

    @staticmethod
    def _strange(character: str) -> str:
        if character in "[]":
            return "an index stands in brackets after a name, as in x[0, 1:], in one line."
        if character == ",":
            return "a number has a point, as in 1.5, and ; stands between rules: a comma has no meaning here."
        if character == "|":
            return NO_MODULUS
        if character in "<>":
            return f"a set contains its boundary: write {character}= instead of {character}."
        if character in "!^":
            return f"{character!r} makes no linear rule: write sums of numbers times variables, with <=, >= or ==."
        return f"{character!r} has no meaning in a rule."

    def _peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def _next(self) -> Token:
        token = self._peek()
        self.at += 1
        return token

    def _largest_indices(self) -> dict[str, tuple[int, ...]]:
        """The least shape that holds every index a name is used with."""
        shapes: dict[str, list[int]] = {}
        for name, key in (self._name_and_key(token) for token in self.tokens if token.kind == "name"):
            sizes = [i + 1 for i in key if isinstance(i, int) and i >= 0]
            old = shapes.setdefault(name, sizes) if sizes and len(sizes) == len(key) else []
            if len(old) == len(sizes) > 0:  # another number of indices is refused where it stands
                shapes[name] = [max(a, b) for a, b in zip(old, sizes, strict=True)]
                if (size := math.prod(shapes[name])) > MOST:
                    raise ValueError(f"{name} has {size} coordinates by its largest index: give shapes=.")
        return {name: tuple(sizes) for name, sizes in shapes.items()}

    # -- refusals ----------------------------------------------------------------------------------------------

    def _safely(self, token: Token, step: Any) -> Any:
        """What the step returns; what it refuses is refused at the place of the token."""
        try:
            return step()
        except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
            self._refuse(token, str(error))

    def _found(self, token: Token | None = None) -> str:
        token = self._peek() if token is None else token
        return "the end of the rule" if token.kind in ("stop", "end") else repr(token.text)

    def _refuse(self, token: Token, message: str) -> NoReturn:
        """Raise with the line and a caret under the place."""
        begin = self.text.rfind("\n", 0, token.place) + 1
        line = self.text[begin:].split("\n", 1)[0]
        number = self.text.count("\n", 0, token.place) + 1
        raise ValueError(f"line {number}: {message}\n    {line}\n    {' ' * (token.place - begin)}^") from None
