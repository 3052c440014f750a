"""How far a run is: a line each tenth, with the time left and a note, the same on a terminal and in a log file."""

from __future__ import annotations

import sys
import time


class Progress:
    """Counts to ``total`` and writes a line to standard error each time that another tenth is done.

    Args:
        total: what to count to; 0 if unknown, and then nothing is written.
        label: the text in front.
        quiet: write nothing.
        done: what an earlier run has done.
    """

    def __init__(self, total: int, label: str, quiet: bool = False, done: int = 0) -> None:
        self.total, self.label, self.quiet, self.done, self.first = total, label, quiet, done, done
        self.note, self.began = "", time.monotonic()

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Count ``steps`` more; ``note`` (loss, violation) joins the lines from now on."""
        before, self.done = self.done, self.done + steps
        self.note = self.note if note is None else note
        if not self.quiet and self.total and 10 * self.done // self.total > 10 * before // self.total:
            print(self.line(), file=sys.stderr, flush=True)

    def line(self) -> str:
        """The text now: label, share, time, note."""
        spent, steps = time.monotonic() - self.began, self.done - self.first
        left = spent / steps * max(0, self.total - self.done)
        says = f"{clock(left)} left" if self.done < self.total else clock(spent)
        return f"{self.label} {100 * self.done // self.total} %, {says} {self.note}".rstrip()


def clock(seconds: float) -> str:
    """Seconds as a person reads them: 12s, 3m05s, 2h10m."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
