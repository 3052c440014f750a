"""How well a layer learns: the same network and the same tuning for every way into the set.

    python -m benchmarks.learning [--quick] [--problems NAME ...] [--methods NAME ...] [--again]

A network of two hidden layers of 64, Adam, batch 64, the rate falling to 0 along a cosine. Rates 3e-3, 1e-2, 3e-2 and
six seeds train at once (stacked weights: the same arithmetic, less overhead). For each way the rate with the best
median validation loss is taken; what is reported is the test loss of its six seeds. Small data sets are split six
times, with three seeds: then each split has its own rate, and what is reported is the median over splits of these.
Sets of hundreds of coordinates take three seeds too.
Every finished pair of problem and way is written to benchmarks/results/learning.json, so that a run that was stopped
goes on where it was; more seeds, too, are added to those that are there.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from benchmarks.harness import RESULTS, machine
from benchmarks.learning_data import REAL, SPLITS
from benchmarks.learning_fresh import FRESH
from benchmarks.learning_large import LARGE
from benchmarks.learning_made import BY_HAND, MADE
from benchmarks.learning_problem import Problem
from benchmarks.learning_training import BATCH, RATES, SEEDS, SEEDS_OF_A_SPLIT, measure
from benchmarks.learning_ways import METHODS, WIDTH

PROBLEMS = (*MADE, *REAL, *FRESH, *LARGE)
PAGE = RESULTS / "learning.json"


def measure_splits(name: str, method: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """One row of the table: the median over the splits of a data set; gaps are shares of each split's optimum.

    Seeds that the row has had before, at today's rates, are not trained again.
    """
    rows, known = [], [] if name in SPLITS else known_runs(before)
    seeds = [seed for seed in seeds_of(name) if seed not in {run["seed"] for run in known}]
    for split in range(SPLITS.get(name, 1)):
        problem = make(name, split)
        rows.append(measure(problem, method, problem.steps, seeds, known))
        if "left out" in rows[0]:
            return rows[0]
    return rows[0] if len(rows) == 1 else _together(rows)


def _together(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    sizes = [abs(row["optimum"] or 1.0) for row in rows]
    losses = [row["loss"] / size for row, size in zip(rows, sizes, strict=True)]
    optimum = rows[0]["optimum"] and math.copysign(1.0, rows[0]["optimum"])
    summary = {"loss": statistics.median(losses), "spread": max(losses) - min(losses), "optimum": optimum}
    summary |= {"splits": losses, "runs": [run | {"split": k} for k, row in enumerate(rows) for run in row["runs"]]}
    summary |= {name: max(row[name] for row in rows) for name in ("violation", "outside")}
    middle = ("rate", "seconds an epoch", "setup")
    return rows[0] | summary | {name: statistics.median(row[name] for row in rows) for name in middle}


def seeds_of(name: str) -> tuple[int, ...]:
    return SEEDS_OF_A_SPLIT if name in SPLITS or name in LARGE else SEEDS


def known_runs(row: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The runs of a row that serve today: all of them, if they were at today's rates."""
    runs = (row or {}).get("runs", [])
    return runs if {run["rate"] for run in runs} == set(RATES) else []


def is_done(name: str, row: dict[str, Any] | None) -> bool:
    """Whether a pair need not be measured again: it was, as it would be today, or has no answer for the set."""
    if row is None or row.get("left out", "").startswith("not installed"):
        return False
    if "left out" in row:
        return True
    measured = {(run["rate"], run["seed"], run.get("split", 0)) for run in row["runs"]}
    return measured >= set(itertools.product(RATES, seeds_of(name), range(SPLITS.get(name, 1))))


@functools.lru_cache(maxsize=8)
def make(name: str, split: int = 0) -> Problem:
    problem = REAL[name](split) if name in REAL else (MADE | FRESH | LARGE)[name]()
    return replace(problem, name=name, by_hand=BY_HAND.get(name, problem.by_hand))


def load() -> dict[str, Any]:
    return json.loads(PAGE.read_text()) if PAGE.exists() else {"results": {}}


def store(found: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    settings = {"rates": RATES, "seeds": SEEDS, "batch": BATCH, "width": WIDTH}
    PAGE.write_text(json.dumps({**found, "machine": machine(), "settings": settings}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three problems, four ways, one seed: about two minutes")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=PROBLEMS, metavar="NAME")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS, metavar="NAME")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.quick:
        quick()
        return
    for name in chosen.problems:
        for method in chosen.methods:
            before = None if chosen.again else load()["results"].get(name, {}).get(method)
            if is_done(name, before):
                continue
            row = measure_splits(name, method, before)
            found = load()
            found["results"].setdefault(name, {})[method] = row
            store(found)
            report(name, method, row)
    subprocess.run([sys.executable, "-m", "benchmarks.learning_report"], check=True)


def quick() -> None:
    """A short look that writes nothing."""
    for name in ("quantiles", "polytope", "discount factors"):
        problem = make(name)
        for method in ("auto", "shrink", "free, then project", "HardNet-Aff"):
            report(name, method, measure(problem, method, 200, SEEDS[:1]))


def report(name: str, method: str, row: dict[str, Any]) -> None:
    if "left out" in row:
        print(f"{name:22} {method:20} left out: {row['left out'][:90]}", flush=True)
        return
    gap = row["optimum"]
    loss = f"{row['loss']:.3g}" if gap is None else f"{100 * (row['loss'] - gap) / abs(gap):.2f} %"
    spread = row["spread"] if gap is None else 100 * row["spread"] / abs(gap)
    inside = f"violation {row['violation']:.0e}  outside {row['outside']:.0%}"
    cost = f"{row['seconds an epoch']:.3f} s/epoch  setup {row['setup']:.2f} s"
    print(f"{name:22} {method:20} loss {loss:>9} ± {spread:.2g}  {inside}  {cost}  rate {row['rate']:g}", flush=True)


if __name__ == "__main__":
    main()
