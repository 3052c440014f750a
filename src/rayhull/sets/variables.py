"""Variables to write rules in: each owns a range of column numbers."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from rayhull.sets.coordinates import refuse_twice
from rayhull.sets.expressions import Expression, Variable
from rayhull.sets.reading import Shape, as_shape


class _Columns:
    """Column numbers that are handed out once."""

    def __init__(self) -> None:
        self.free, self.lock = 0, threading.Lock()

    def take(self, count: int) -> int:
        """The first of ``count`` numbers in a row that nobody has."""
        with self.lock:
            start, self.free = self.free, self.free + count
        return start


_columns = _Columns()


def variables(*names: str, shape: Shape | None = None) -> Any:
    """Variables to write rules in: one for each name, scalars or arrays of the given shape.

    They add, subtract, scale, index, slice, broadcast, and have ``sum``, ``mean``, ``diff`` and ``A @ x``, as NumPy
    arrays do; comparisons with ``<=``, ``>=`` and ``==`` make rules for :func:`rayhull.rules`.

    Examples:
        >>> import rayhull as rh
        >>> coal, gas, wind = rh.variables("coal", "gas", "wind")
        >>> coal + 2 * gas <= 100 - wind
        coal + 2*gas <= -wind + 100
        >>> x = rh.variables("x", shape=(2, 3))
        >>> x.sum(axis=0) == [1, 2, 3]
        x[0, 0] + x[1, 0] == 1
        x[0, 1] + x[1, 1] == 2
        x[0, 2] + x[1, 2] == 3
    """
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(f'variables needs one name or more, such as variables("coal", "gas"), got {names!r}.')
    refuse_twice(names)
    event = () if shape is None else as_shape(shape)
    made = tuple(_variable(name, event) for name in names)
    return made[0] if len(made) == 1 else made


def _variable(name: str, shape: tuple[int, ...]) -> Expression:
    size = math.prod(shape)
    start = _columns.take(size)
    columns = np.arange(start, start + size)
    zero, one = np.zeros(size, np.int64), np.ones(size, np.int64)
    return Expression(shape, np.arange(size + 1), columns, one, zero, (Variable(name, shape, start),))
