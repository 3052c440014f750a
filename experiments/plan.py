"""Lists of runs: the demo, the whole paper, a sweep. Each run is taken up or skipped by what its folder holds."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.errors import SettingsError
from experiments.progress import clock
from experiments.settings import ProjectionSettings, TimingSettings, VaeSettings

HARD = ("paper", "constrained", "projection", "ttp")
SOFT = ("alternating", "lagrangian", "penalty")


@dataclass(frozen=True)
class Job:
    """One run of a plan: ``seconds`` is a guess for two idle cores."""

    study: str
    name: str
    settings: Any
    seconds: float


def demo() -> Iterator[Job]:
    """Three short studies on the digits that ship with the repository."""
    small: dict[str, Any] = {"dataset": "mnist-small", "learning_rate": 3e-3, "schedule": "cosine", "box_delay": 0}
    for method in ("optimum", "ttp", "paper", "constrained", "projection", "penalty"):
        epochs = 1 if method == "optimum" else 12
        yield _job("projection", ProjectionSettings(method=method, epochs=epochs, **small), 8)
    for method in ("unconstrained", "ttp", "paper", "constrained"):
        settings = VaeSettings(method=method, epochs=12, **{**small, "learning_rate": 1e-3})
        yield _job("vae", settings, 15)
    yield Job("timing", "all/seed-0", TimingSettings(5000, repeats=10, solver_repeats=1, dataset="mnist-small"), 30)


def reproduce(runs: int = 10) -> Iterator[Job]:
    """The whole paper: its settings, ``runs`` seeds of the learned projection, and ours beside it."""
    ours: dict[str, Any] = {"learning_rate": 3e-3, "schedule": "cosine", "box_delay": 0}
    yield _job("projection", ProjectionSettings(method="optimum", epochs=1), 20)
    for seed in range(runs):
        for method in (*HARD, *SOFT):
            yield _job("projection", ProjectionSettings(method=method, seed=seed), 500 * 5)
        without = ProjectionSettings(method="paper", seed=seed, box_delay=0)
        yield Job("projection", f"paper-no-delay/seed-{seed}", without, 500 * 6)
        for method in ("constrained", "projection"):
            best = ProjectionSettings(method=method, seed=seed, epochs=100, **ours)
            yield Job("projection", f"{method}-best/seed-{seed}", best, 100 * 5)
        start = ProjectionSettings(method="constrained", seed=seed, epochs=20, start="identity", **ours)
        yield Job("projection", f"constrained-identity/seed-{seed}", start, 20 * 5)
    for method in ("unconstrained", *HARD):
        yield _job("vae", VaeSettings(method=method), 200 * 12)
    yield Job("timing", "all/seed-0", TimingSettings(), 100 * 160)


def sweep(
    study: type, fixed: Any, methods: Sequence[str], rates: Sequence[float], seeds: Sequence[int]
) -> Iterator[Job]:
    """Every method at every learning rate with every seed; the rest of the settings as given."""
    name = {ProjectionSettings: "projection", VaeSettings: "vae"}.get(study)
    if name is None:
        raise SettingsError("a sweep needs a study that trains: projection or vae.")
    for method in methods:
        for rate in rates:
            for seed in seeds:
                settings = dataclasses.replace(fixed, method=method, learning_rate=rate, seed=seed)
                yield Job(name, f"{method}-rate-{rate:g}/seed-{seed}", settings, settings.epochs * 5)


def _job(study: str, settings: Any, seconds: float) -> Job:
    return Job(study, f"{settings.method}/seed-{settings.seed}", settings, seconds)


def run_all(jobs: Sequence[Job], options: argparse.Namespace) -> bool:
    """Run what is not complete yet, in order; False as soon as one was stopped."""
    from experiments.results import SUMMARY
    from experiments.running import run_study

    left = [job for job in jobs if not (Path(options.out) / job.study / job.name / SUMMARY).exists()]
    if not options.quiet:
        total = clock(sum(job.seconds for job in left))
        print(f"{len(left)} of {len(jobs)} runs to do, about {total} on two idle cores; stop and go on at any time.")
    for job in left:
        options.name = job.name
        if not run_study(job.study, job.settings, options):
            return False
    return True
