"""What every benchmark shares: interleaved timing, the machine's name-plate, results as JSON, a text table.

Ratios within one run are what counts. Each round times every case once, in an order that changes from round to round,
so that a slow moment of a shared machine hits all of them alike.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Timing:
    """Seconds for one call: the median over rounds, and the quartiles as the spread."""

    median: float
    low: float
    high: float
    rounds: int


def interleave(
    cases: Mapping[str, Callable[[], object]],
    *,
    rounds: int = 15,
    least_seconds: float = 0.02,
    most_seconds: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time the cases against each other.

    A case that takes less than ``least_seconds`` is repeated within a round and averaged. A case stops taking part once
    it has used ``most_seconds`` (after at least one round), so one slow peer does not hold up the rest. On a machine
    that others keep busy, ``clock=time.process_time`` counts only the processor time of this process.
    """
    repeats, samples = {}, {name: list[float]() for name in cases}
    for name, run in cases.items():
        run()  # warm: compilation, caches
        start = clock()
        run()
        once = clock() - start
        repeats[name] = max(1, round(least_seconds / max(once, 1e-9)))
    order = list(cases)
    for _ in range(rounds):
        random.shuffle(order)
        for name in order:
            if samples[name] and sum(samples[name]) * repeats[name] > most_seconds:
                continue
            start = clock()
            for _ in range(repeats[name]):
                cases[name]()
            samples[name].append((clock() - start) / repeats[name])
    return {name: _summary(values) for name, values in samples.items()}


def _summary(values: Sequence[float]) -> Timing:
    if len(values) == 1:
        return Timing(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(median, low, high, len(values))


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    import numpy
    import scipy
    import torch

    return {
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": __import__("os").cpu_count(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def save(name: str, payload: Mapping[str, Any]) -> Path:
    """Write benchmarks/results/NAME.json: the machine and what was measured (dataclasses become objects)."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps({"machine": machine(), **payload}, indent=1, default=asdict)
    path.write_text(text + "\n")
    return path


def folded(title: str, text: str) -> str:
    """A table behind a click; nothing where there is none."""
    return text and f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def table(rows: Sequence[Sequence[object]], header: Sequence[str]) -> str:
    """A Markdown table with aligned columns."""
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def options(description: str | None) -> argparse.Namespace:
    """--rounds and --only, of the benchmarks that time a list of problems."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of problems")
    return parser.parse_args()
