"""What a conversion may cost: limits judged before each row is paid for, a clock, and a progress bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real

from rayhull.errors import BudgetExceededError
from rayhull.exact.progress import draw
from rayhull.sets.polyhedron import MAX_GENERATORS

ALTERNATIVES = 'Raise the limit, or use method="nearest" or method="steps", which need no generators.'
PERIOD = 0.1  # seconds between two reports
PAIRS_PER_SECOND = 5e7  # compiled, from the benchmarks: enough for an estimate of the next row


@dataclass(frozen=True)
class Step:
    """Where a conversion stands: what a progress bar shows and a callback receives."""

    block: int  # 1-based, among the blocks that need double description
    blocks: int
    row: int  # inequalities of the block taken so far
    rows: int
    rays: int  # generators after them
    pairs: int  # pairs of rays the next inequality will look at (0 at the end)
    seconds: float


Report = Callable[[Step], None]
Tell = Callable[[int, int, int, int], None]  # row, rows, rays, pairs: a step of one cone


@dataclass(frozen=True)
class Limits:
    """Upper bounds on a conversion. ``None`` means no bound."""

    max_generators: int | None = MAX_GENERATORS
    max_pairs: int | None = None
    max_seconds: float | None = None
    max_bytes: int | None = 2 * 1024**3
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        for name, most in vars(self).items():
            if most is not None and not (isinstance(most, Real) and float(most) >= 0):
                raise ValueError(f"{name} must be a number, 0 or more, or None for no limit, got {most!r}.")

    def seconds(self) -> float:
        """Time since the conversion began."""
        return time.monotonic() - self.started

    def check(self, *, rays: int, row: int, rows: int, pairs: int = 0, nbytes: int = 0) -> None:
        """Raise :class:`~rayhull.errors.BudgetExceededError` if going on would pass a bound."""
        where = f"after {row} of {rows} inequalities"
        seconds = self.seconds()
        for name, cost, what in (
            ("max_generators", rays, f"at {rays} generators {where}"),
            ("max_pairs", pairs, f"{where} with {rays} rays: the next inequality has {pairs} pairs of rays to look at"),
            ("max_bytes", nbytes, f"{where} with {rays} rays: going on needs about {nbytes / 2**20:.0f} MiB"),
            ("max_seconds", seconds, f"{where} with {rays} rays after {seconds:.1f} s"),
        ):
            most = getattr(self, name)
            if most is not None and cost > most:
                raise BudgetExceededError(f"Stopped {what} ({name}={most}). {ALTERNATIVES}")


class Watch:
    """The clock of one cone: calls ``report(row, rows, rays, pairs)`` now and then, raises when limits are passed."""

    def __init__(self, limits: Limits, report: Tell | None, rows: int) -> None:
        self.limits = limits
        self.report = report
        self.rows = rows
        self.next = 0.0

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
def progress_bar(progress: None | bool | Report) -> Iterator[Report | None]:
    """What ``convert(progress=…)`` means: None or False is silent, True draws a bar, a function is called."""
    if progress is None or progress is False:
        yield None
    elif progress is True:
        try:
            yield _draw
        finally:
            sys.stderr.write("\n")
    else:
        yield progress


def _draw(step: Step) -> None:
    ahead = f", next row ~{step.pairs / PAIRS_PER_SECOND:.1f} s" if step.pairs > PAIRS_PER_SECOND else ""
    where = f"row {step.row}/{step.rows}, {step.rays} rays, {step.seconds:.1f} s{ahead}"
    draw(f"block {step.block}/{step.blocks}", where, step.row / max(1, step.rows))
