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
from experiments.settings import (
    ClassifiersSettings,
    OptnetSettings,
    ProjectionSettings,
    ShapesSettings,
    SimplexSettings,
    TimingSettings,
    VaeSettings,
    VerticesSettings,
)

SOFT = ("alternating", "lagrangian", "penalty")
OURS: dict[str, Any] = {"learning_rate": 3e-3, "schedule": "cosine", "box_delay": 0}


@dataclass(frozen=True)
class Job:
    """One run of a plan: ``seconds`` is a guess for two idle cores."""

    study: str
    name: str
    settings: Any
    seconds: float


def demo() -> Iterator[Job]:
    """Three short studies on the digits that ship with the repository."""
    small: dict[str, Any] = {"dataset": "mnist-small", **OURS}
    for method in ("optimum", "ttp", "paper", "constrained", "projection", "penalty"):
        epochs = 1 if method == "optimum" else 12
        yield _job("projection", ProjectionSettings(method=method, epochs=epochs, **small), 8)
    for method in ("unconstrained", "ttp", "paper", "constrained"):
        settings = VaeSettings(method=method, epochs=12, free_epochs=9, **{**small, "learning_rate": 1e-3})
        yield _job("vae", settings, 15)
    brief = TimingSettings(5000, repeats=10, solver_repeats=1, dataset="mnist-small", compiled=False)
    yield Job("timing", "all/seed-0", brief, 30)


def reproduce(runs: int = 3) -> Iterator[Job]:
    """The whole paper in its own settings, ``runs`` seeds of the learned projection (the paper: 10), ours beside it."""
    yield _job("projection", ProjectionSettings(method="optimum", epochs=1), 20)
    for seed in range(runs):
        for method, seconds in (("paper", 6), ("ttp", 3)):
            yield _job("projection", ProjectionSettings(method=method, seed=seed), 500 * seconds)
        for delay, name in ((25, "paper-1e-3"), (0, "paper-1e-3-no-delay")):  # the upper end of the paper's range
            quick = ProjectionSettings(method="paper", seed=seed, epochs=120, learning_rate=1e-3, box_delay=delay)
            yield Job("projection", f"{name}/seed-{seed}", quick, 120 * 6)
        without = ProjectionSettings(method="paper", seed=seed, box_delay=0)
        yield Job("projection", f"paper-no-delay/seed-{seed}", without, 500 * 6)
        for method in ("constrained", "projection", *SOFT):
            yield _job("projection", ProjectionSettings(method=method, seed=seed, epochs=60, **OURS), 60 * 5)
        identity = ProjectionSettings(method="constrained", seed=seed, epochs=5, **{**OURS, "learning_rate": 1e-4})
        identity = dataclasses.replace(identity, start="identity")
        yield Job("projection", f"constrained-identity/seed-{seed}", identity, 5 * 5)
    for method in ("unconstrained", "ttp", "paper", "constrained", "projection"):
        yield _job("vae", VaeSettings(method=method), 200 * 8)
    for threads in (1, 2):
        settings = TimingSettings(solver_repeats=10, network_threads=threads)
        yield Job("timing", f"threads-{threads}/seed-0", settings, 10 * 160 + 100 * 20 / threads)
    yield from small_studies()


def small_studies() -> Iterator[Job]:
    """What the paper only mentions: general sets, the simplex, shapes, classifiers, OptNet."""
    for method in (
        "vertices-softmax",
        "vertices-sparsemax",
        "vertices-entmax",
        "vertices-softplus",
        "shrink",
        "projection",
    ):
        for dimension in (4, 8):
            settings = VerticesSettings(method=method, dimension=dimension)
            yield Job("vertices", f"{method}-{dimension}/seed-0", settings, 30)
    for method in ("softmax", "projection", "constrained", "penalty"):
        yield _job("simplex", SimplexSettings(method=method), 20)
    for method in ("unconstrained", "ttp", "penalty", "constrained", "projection"):
        for shape in ("monotone", "convex"):
            yield Job("shapes", f"{method}-{shape}/seed-0", ShapesSettings(method=method, shape=shape), 30)
        yield _job("classifiers", ClassifiersSettings(method=method), 60)
    for method in ("optnet", "projection", "constrained"):
        yield _job("optnet", OptnetSettings(method=method, epochs=3, samples=1024), 120 if method == "optnet" else 5)


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
