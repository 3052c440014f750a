"""Lists of runs: the demo, the whole paper, a sweep. Each run is taken up or skipped by what its folder holds."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.errors import SettingsError
from experiments.progress import clock
from experiments.studies import NAMES, Job, job, load


def demo() -> Iterator[Job]:
    """Short runs on the digits that ship with the repository."""
    for name in NAMES:
        yield from load(name).demo()


def reproduce(runs: int = 10) -> Iterator[Job]:
    """The whole paper: ``runs`` seeds of the learned projection, at most three of all else, and ours beside it."""
    for name in NAMES:
        yield from load(name).reproduce(runs)


def sweep(study: str, methods: Sequence[Any], rates: Sequence[float], seeds: Sequence[int]) -> Iterator[Job]:
    """Every method, each with settings of its own, at every learning rate with every seed."""
    for own in methods:
        for rate in rates:
            for seed in seeds:
                settings = dataclasses.replace(own, learning_rate=rate, seed=seed)
                yield job(study, settings, settings.epochs * 5, f"{own.method}-rate-{rate:g}")


def only(jobs: Sequence[Job], beginnings: Sequence[str]) -> list[Job]:
    """The jobs whose STUDY/NAME begins with one of ``beginnings``, in the order of these."""
    found: dict[str, Job] = {}
    for start in beginnings:
        these = {one.path: one for one in jobs if one.path.startswith(start)}
        if not these:
            names = dict.fromkeys(one.path.rsplit("/", 1)[0] for one in jobs)
            raise SettingsError(f"--only {start}: no run's name begins so. Expected one of {', '.join(names)}.")
        found |= these
    return list(found.values())


def run_all(jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    """Run what is not complete yet, in order; False as soon as one was stopped."""
    from experiments.results import SUMMARY
    from experiments.running import run_study

    left = [one for one in jobs if not (Path(options.out) / one.path / SUMMARY).exists()]
    guess, began = sum(one.seconds for one in left), time.monotonic()
    say = _silent if options.quiet else print
    where = f"on an idle machine{', with one thread' * (options.threads == 1)}"
    say(f"{len(left)} of {len(jobs)} runs to do, {promised(left)} {where}; stop and go on at any time.")
    done = 0.0
    for number, one in enumerate(left, start=1):
        options.name = one.name
        if not run_study(one.study, one.settings, options):
            return False
        done += one.seconds
        if number < len(left):
            rest = remaining(time.monotonic() - began, done, guess)
            say(f"{number} of {len(left)} runs done; about {clock(rest)} left")
    return True


def promised(jobs: Sequence[Job]) -> str:
    """How long the runs take, as README and Makefile say it of the demo; a test compares."""
    minutes = max(1, round(sum(one.seconds for one in jobs) / 60))
    return f"about {minutes} minute{'s' * (minutes > 1)}" if minutes < 120 else f"about {round(minutes / 60)} hours"


def remaining(spent: float, done: float, guess: float) -> float:
    """Seconds left: what was guessed for the rest, times how much longer than guessed this machine has taken so far."""
    return (guess - done) * spent / done


def _silent(_: str) -> None:
    pass
