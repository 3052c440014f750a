"""Run every benchmark, one after the other: python -m benchmarks [NAME ...]."""

from __future__ import annotations

import argparse
import subprocess
import sys

ALL = ("conversion", "layer", "projection", "projection_backward", "scale", "learning")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=ALL, choices=ALL, metavar="NAME", help=", ".join(ALL))
    for name in parser.parse_args().names:
        print(f"\n== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)  # a process each: threads, caches
    subprocess.run([sys.executable, "-m", "benchmarks.summary"], check=True)


if __name__ == "__main__":
    main()
