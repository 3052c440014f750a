"""What a training step costs: the methods of the learned projection in turn, each forwards, backwards and through Adam.

The paper leaves OptNet and the scheme of Pathak et al. out because they are expensive in training. OptNet takes seconds
a sample at 28 x 28, so that it stands beside the others at 8 x 8.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.errors import SettingsError
from experiments.progress import Progress
from experiments.report import tables
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.results import Run
from experiments.settings import option
from experiments.studies import Job, Study, job, optnet, projection

HARD = ("ttp", "paper", "constrained", "projection")
FULL = ("unconstrained", *projection.SOFT, *HARD)


@dataclass(frozen=True)
class StepSettings:
    """What a training step costs."""

    batch_size: int = option(256, "images to a step")
    repeats: int = option(100, "timed steps of every method but OptNet")
    solver_repeats: int = option(5, "timed steps of OptNet, which take seconds; 0 leaves it out")
    dataset: str = option("mnist-small", "mnist, fashion-mnist, or mnist-small")
    seed: int = option(0, "of the weights and of the order of the images")
    network_threads: int = option(1, "threads of torch")

    def __post_init__(self) -> None:
        for name in ("batch_size", "repeats", "network_threads"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}.")


def run(settings: StepSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Time both sizes, a line in the metrics for each method; a stopped run goes on with the next size."""
    torch.set_num_threads(settings.network_threads)
    done = {(line["model"], line["label"]) for line in run.metrics()}
    plans = list(_plans(settings, digits))
    progress = Progress(sum(repeats for *_, repeats in plans), "steps", quiet)
    for size, images, P, names, repeats in plans:
        if all((size, name) in done for name in names):
            progress.advance(repeats)
            continue
        steps = {name: Step(name, images, P, settings) for name in names}
        for name, seconds in measure(steps, repeats, progress).items():
            run.record({"epoch": 0, "model": size, "method": name, "label": name, "seconds": seconds})
    run.finish({"threads": torch.get_num_threads(), "torch": torch.__version__})
    return True


def _plans(settings: StepSettings, digits: Digits) -> Iterator[tuple[str, Tensor, rh.Polyhedron, Sequence[str], int]]:
    """Size, images, set, methods that take turns, and how often."""
    small, P = optnet.pooled(digits).train, optnet.small_set()
    yield "28 x 28", digits.train, projection.paper_set(), FULL, settings.repeats
    yield "8 x 8", small, P, FULL, settings.repeats
    if settings.solver_repeats:
        yield "8 x 8", small, P, ("optnet",), settings.solver_repeats


class Step:
    """One optimizer step of the learned projection on the next batch, with everything in force from the start."""

    def __init__(self, name: str, images: Tensor, P: rh.Polyhedron, settings: StepSettings) -> None:
        own = projection.ProjectionSettings(method=name, seed=settings.seed, box_delay=0)
        torch.manual_seed(settings.seed)
        self.task = projection.Projecting(methods.build(name, P.dim, P, own), images[:1]).train()
        self.task.epoch_begins(1)
        self.optimizer = torch.optim.Adam(self.task.parameters(), lr=own.learning_rate, fused=True)
        self.images, self.size = images, settings.batch_size
        self.order = torch.Generator().manual_seed(settings.seed)

    def __call__(self) -> None:
        places = torch.randint(len(self.images), (self.size,), generator=self.order)
        self.task(self.images[places]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


def measure(steps: dict[str, Step], repeats: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds of each step, the methods in turn, after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(repeats):
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - began)
        progress.advance(1)
    return times


TEXT = (
    "One optimizer step on a batch of images, the median over the repeats. The set is in force from the first step; "
    "OptNet takes seconds a sample at 28 x 28 and is timed at 8 x 8 alone."
)


def section(groups: Sequence[Group]) -> Section:
    """One table."""
    text = [TEXT, *("Settings: " + tables.settings_line([group]) + "." for group in groups)]
    return Section("What a training step costs", text, tables.steps(groups))


def reproduce(runs: int) -> Iterator[Job]:
    """Every method once."""
    yield job("steps", StepSettings(), 120)


STUDY = Study(StepSettings, run, section, reproduce=reproduce)
