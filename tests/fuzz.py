"""Look for wrong answers for as long as you like: python -m tests.fuzz --minutes 10 [--seed N] [--only conversion]."""

from __future__ import annotations

import argparse
import importlib
import time

PARTS = ("conversion", "files", "projection", "strict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="default: the time of day, printed")
    parser.add_argument("--only", choices=PARTS, nargs="*", default=PARTS)
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    for part in options.only:
        print(f"{part} (seed {seed}) ...", flush=True)
        found = importlib.import_module(f"tests.fuzz_{part}").run(60 * options.minutes / len(options.only), seed)
        for outcome, count in sorted(found.items(), key=lambda item: str(item[0])):
            print(f"  {outcome}: {count}")
    print("no wrong answer")


if __name__ == "__main__":
    main()
