"""A conversion's clock: reports some ten times a second, budgets at every look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rayhull.conversion.limits import Limits

PERIOD = 0.1  # seconds between two reports


class Watch:
    """Calls ``report(row, rows, rays, pairs)`` now and then, and raises when ``limits`` are passed."""

    def __init__(self, limits: Limits, report: Callable[[int, int, int, int], None] | None, rows: int) -> None:
        self.limits = limits
        self.report = report
        self.rows = rows
        self.next = 0.0
        self.started = time.monotonic()

    def seconds(self) -> float:
        """Time since the conversion of this cone began."""
        return time.monotonic() - self.started

    def say(self, row: int, rays: int, pairs: int, *, last: bool = False) -> None:
        """Report, unless the last report is too recent; the ``last`` one always comes."""
        now = time.monotonic()
        if self.report is not None and (last or now >= self.next):
            self.next = now + PERIOD
            self.report(row, self.rows, rays, pairs)

    def check(self, row: int, rays: int, pairs: int, nbytes: int) -> None:
        """Raise :class:`~rayhull.errors.BudgetExceededError` if going on would pass a limit."""
        self.limits.check(rays=rays, row=row, rows=self.rows, pairs=pairs, nbytes=nbytes)


@contextmanager
def interrupts() -> Iterator[None]:
    """Ctrl-C as KeyboardInterrupt, also where it falls into the moment a compiled function hands its result over.

    There CPython complains with SystemErrors ("returned a result with an exception set"), the first of which was caused
    by the interrupt.
    """
    try:
        yield
    except SystemError as error:
        first: BaseException = error
        while first.__cause__ or first.__context__:
            first = first.__cause__ or first.__context__ or first
        if isinstance(first, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
