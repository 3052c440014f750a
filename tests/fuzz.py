"""Look for wrong answers for as long as you like: python -m tests.fuzz --minutes 10 [--seed N] [--only conversion].

With --write the counts go to docs/fuzz.json and from there into the table of docs/fuzz.md.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PARTS = ("cones", "conversion", "files", "gradients", "projection", "strict")
PAGE, FILE = (Path(__file__).parents[1] / "docs" / name for name in ("fuzz.md", "fuzz.json"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all parts together")
    parser.add_argument("--seed", type=int, default=None, help="default: the time of day, printed")
    parser.add_argument("--only", choices=PARTS, nargs="*", default=PARTS)
    parser.add_argument("--write", action="store_true", help="put the counts on the page")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    minutes = options.minutes / len(options.only)
    for part in options.only:
        print(f"{part} (seed {seed}) ...", flush=True)
        found = importlib.import_module(f"tests.fuzz_{part}").run(60 * minutes, seed)
        counts = {str(outcome): count for outcome, count in sorted(found.items(), key=lambda item: str(item[0]))}
        for outcome, count in counts.items():
            print(f"  {outcome}: {count}")
        if options.write:
            write(part, {"minutes": minutes, "seed": seed, "counts": counts})
    print("no wrong answer")


def counted(one: Callable[[np.random.Generator], str], seconds: float, seed: int) -> Counter[str]:
    """How often each outcome came until the time was up; raises on the first wrong one, with the seed that makes it."""
    seen, end = Counter[str](), time.monotonic() + seconds
    for number in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
        try:
            seen[one(np.random.default_rng([seed, number]))] += 1
        except Exception as error:
            raise AssertionError(f"wrong on numpy.random.default_rng([{seed}, {number}])") from error
    return seen


def write(part: str, result: dict[str, Any]) -> None:
    """Put one part's counts into the file and on the page."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    results[f"{part} {result['seed']}"] = result
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


def filled(page: str, results: dict[str, Any]) -> str:
    """The page with its table made from the results."""
    rows = ["| part | command | outcomes | wrong |", "|---|---|---|---|"]
    for name, result in sorted(results.items()):
        part = name.split()[0]
        command = f"`python -m tests.fuzz --only {part} --minutes {result['minutes']:g} --seed {result['seed']}`"
        outcomes = "; ".join(f"{count} × {outcome}" for outcome, count in result["counts"].items())
        rows.append(f"| {part} | {command} | {outcomes} | 0 |")
    table = "\n".join(["<!-- fuzz -->", *rows, "<!-- end of fuzz -->"])
    return re.sub("<!-- fuzz -->.*?<!-- end of fuzz -->", lambda _: table, page, flags=re.DOTALL)


if __name__ == "__main__":
    main()
