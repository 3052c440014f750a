"""Lists of runs: the demo, the whole paper, a sweep. Each run is taken up or skipped by what its folder holds."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.progress import clock
from experiments.studies import NAMES, Job, job, load


def demo() -> Iterator[Job]:
    """Short runs on the digits that ship with the repository."""
    for name in NAMES:
        yield from load(name).demo()


def reproduce(runs: int = 3) -> Iterator[Job]:
    """The whole paper: ``runs`` seeds of the learned projection (the paper: 10), and ours beside it."""
    for name in NAMES:
        yield from load(name).reproduce(runs)


def sweep(study: str, methods: Sequence[Any], rates: Sequence[float], seeds: Sequence[int]) -> Iterator[Job]:
    """Every method, each with settings of its own, at every learning rate with every seed."""
    for own in methods:
        for rate in rates:
            for seed in seeds:
                settings = dataclasses.replace(own, learning_rate=rate, seed=seed)
                yield job(study, settings, settings.epochs * 5, f"{own.method}-rate-{rate:g}")


def run_all(jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    """Run what is not complete yet, in order; False as soon as one was stopped."""
    from experiments.results import SUMMARY
    from experiments.running import run_study

    left = [one for one in jobs if not (Path(options.out) / one.study / one.name / SUMMARY).exists()]
    if not options.quiet:
        total = clock(sum(one.seconds for one in left))
        print(f"{len(left)} of {len(jobs)} runs to do, about {total} on two idle cores; stop and go on at any time.")
    for one in left:
        options.name = one.name
        if not run_study(one.study, one.settings, options):
            return False
    return True
