"""A one-line progress bar for conversions, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rayhull.conversion.limits import Report, Step

PAIRS_PER_SECOND = 5e7  # compiled, from the benchmarks: enough for an estimate of the next row


@contextmanager
def progress_bar(progress: None | bool | Callable[[Step], None]) -> Iterator[Report | None]:
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
    done = step.row / max(1, step.rows)
    filled = round(20 * done)
    ahead = f", next row ~{step.pairs / PAIRS_PER_SECOND:.1f} s" if step.pairs > PAIRS_PER_SECOND else ""
    sys.stderr.write(
        f"\r\x1b[Kblock {step.block}/{step.blocks} [{'#' * filled}{'.' * (20 - filled)}] "
        f"row {step.row}/{step.rows}, {step.rays} rays, {step.seconds:.1f} s{ahead}"
    )
    sys.stderr.flush()
