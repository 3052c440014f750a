"""A progress bar in forty lines: a moving line on a terminal, a line each tenth elsewhere.

tqdm would do, but it is one more dependency, and it floods a log file with carriage returns.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

WIDTH = 24
REFRESH = 0.1  # seconds between two drawings


class Bar:
    """Counts to ``total`` and shows share done, time left and a note (loss, violation).

    Args:
        total: what to count to; 0 if unknown.
        label: the text in front.
        unit: "bytes" shows megabytes, anything else is written as it is.
        quiet: show nothing.
    """

    def __init__(
        self, total: int, label: str, unit: str = "", quiet: bool = False, stream: TextIO | None = None, done: int = 0
    ) -> None:
        self.total, self.label, self.unit, self.quiet = total, label, unit, quiet
        self.stream = stream or sys.stderr
        self.moving = self.stream.isatty()
        self.done = self.first = done
        self.note = ""
        self.began = time.monotonic()
        self.drawn = 0.0
        self.tenth = int(10 * done / total) if total else 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.moving and not self.quiet:
            self._draw()
            self.stream.write("\n")

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Count ``steps`` more and show the new ``note``."""
        self.done += steps
        self.note = self.note if note is None else note
        if self.quiet:
            return
        now = time.monotonic()
        if self.moving and (now - self.drawn > REFRESH):
            self.drawn = now
            self._draw()
        elif not self.moving and self.total and int(10 * self.done / self.total) > self.tenth:
            self.tenth = int(10 * self.done / self.total)
            self.stream.write(self.line() + "\n")
            self.stream.flush()

    def line(self) -> str:
        """The text now: label, share, time left, note."""
        share = min(1.0, self.done / self.total) if self.total else 0.0
        filled = round(WIDTH * share)
        count = f"{self.done / 1e6:.1f} MB" if self.unit == "bytes" else f"{self.done}/{self.total}{self.unit}"
        return f"{self.label} [{'#' * filled}{'.' * (WIDTH - filled)}] {count} {self._left(share)} {self.note}".rstrip()

    def _left(self, share: float) -> str:
        elapsed = time.monotonic() - self.began
        steps = self.done - self.first
        if share >= 1 or not steps:
            return clock(elapsed)
        return f"{clock(elapsed / steps * (self.total - self.done))} left"

    def _draw(self) -> None:
        self.stream.write("\r\033[K" + self.line())
        self.stream.flush()


def clock(seconds: float) -> str:
    """Seconds as a person reads them: 12s, 3m05s, 2h10m."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
