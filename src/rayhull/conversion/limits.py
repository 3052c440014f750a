"""How much a conversion may cost, judged before each row is paid for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rayhull.errors import BudgetExceededError

ALTERNATIVES = 'Raise the limit, or use method="shrink" or method="projection", which need no generators.'


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


@dataclass(frozen=True)
class Limits:
    """Upper bounds on a conversion. ``None`` means no bound."""

    max_generators: int | None = 1_000_000
    max_pairs: int | None = None
    max_seconds: float | None = None
    max_bytes: int | None = 2 * 1024**3
    started: float = field(default_factory=time.monotonic)

    def check(self, *, rays: int, row: int, rows: int, pairs: int = 0, nbytes: int = 0) -> None:
        """Raise :class:`BudgetExceededError` if going on would pass a bound."""
        where = f"after {row} of {rows} inequalities"
        if self.max_generators is not None and rays > self.max_generators:
            raise BudgetExceededError(
                f"Stopped at {rays} generators {where} (max_generators={self.max_generators}). {ALTERNATIVES}"
            )
        if self.max_pairs is not None and pairs > self.max_pairs:
            raise BudgetExceededError(
                f"Stopped {where} with {rays} rays: the next inequality has {pairs} pairs of rays to look at "
                f"(max_pairs={self.max_pairs}). {ALTERNATIVES}"
            )
        if self.max_bytes is not None and nbytes > self.max_bytes:
            raise BudgetExceededError(
                f"Stopped {where} with {rays} rays: going on needs about {nbytes / 2**20:.0f} MiB "
                f"(max_bytes={self.max_bytes}, {self.max_bytes / 2**20:.0f} MiB). {ALTERNATIVES}"
            )
        if self.max_seconds is not None and time.monotonic() - self.started > self.max_seconds:
            raise BudgetExceededError(
                f"Stopped {where} with {rays} rays after {time.monotonic() - self.started:.1f} s "
                f"(max_seconds={self.max_seconds:g}). {ALTERNATIVES}"
            )
