"""OptNet at a size it can bear: the learned projection of 8 x 8 digits, and its cost for a few samples of full size."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch.nn.functional import adaptive_avg_pool2d

import rayhull as rh
from experiments.digits import Digits
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.report.sections import small
from experiments.results import SUMMARY, Run, read_json
from experiments.settings import SmallSettings, option
from experiments.studies import Job, Study, job, projection

SIDE, FULL_SAMPLES = 8, 2


@dataclass(frozen=True)
class OptnetSettings(SmallSettings):
    """OptNet's quadratic-program layer at a size it can bear: 8 x 8 digits."""

    method: str = option("optnet", "the way the network's output gets into the set")
    dataset: str = option("mnist-small", "mnist, fashion-mnist, or mnist-small (ships with the repository)")


def run(settings: OptnetSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """The learned projection with 16 tiles of 2 x 2 pixels."""
    small, P = pooled(digits), small_set()
    if not projection.run(settings, small, run, fabric, quiet, P):
        return False
    if run.writes:
        lower_bound = float(torch.nn.functional.mse_loss(rh.project(P, small.validation), small.validation))
        beside = {"optimum": lower_bound}
        if settings.method == "optnet":
            beside["full_size_seconds_a_sample"] = full_size_seconds(digits)
        run.finish(read_json(run.folder / SUMMARY) | beside)
    return True


def pooled(digits: Digits) -> Digits:
    """The digits at 8 x 8 pixels."""
    names = ("train", "validation", "test")
    return dataclasses.replace(digits, **{name: adaptive_avg_pool2d(getattr(digits, name), SIDE) for name in names})


def small_set() -> rh.Polyhedron:
    """16 tiles of 2 x 2 pixels, dark and bright in turn on average, and pixels in [-1, 1]."""
    return rh.checkerboard((SIDE, SIDE), tiles=(4, 4)) & rh.box(-1, 1)


def full_size_seconds(digits: Digits) -> float:
    """Seconds for one 28 x 28 image, forwards and backwards."""
    from experiments.methods.optnet import QuadraticProgram

    layer = QuadraticProgram(projection.paper_set())
    images = digits.test[:FULL_SAMPLES].clone().requires_grad_()
    with torch.enable_grad():
        began = time.perf_counter()
        layer(images).square().sum().backward()
    return (time.perf_counter() - began) / FULL_SAMPLES


TEXT = (
    "Training through a generic quadratic program, beside the projection that knows the tiles and the map into the set."
)


def section(groups: Sequence[Group]) -> Section:
    """One table, the curves, and what one image of full size costs."""
    made = small("optnet", "OptNet's layer on 8 x 8 digits", TEXT, groups)
    for cost in (group.summary("full_size_seconds_a_sample") for group in groups):
        if cost is not None:
            made.text.append(f"One 28 x 28 image, forwards and backwards, takes qpth {cost.mean:.3g} s.")
    return made


FEW: dict[str, Any] = {"samples": 1024, "batch_size": 16, "epochs": 10, "learning_rate": 1e-2}
"""What OptNet can bear, about 15 ms a sample: the best of 18 by the validation loss of ``projection``, its twin."""


def reproduce(runs: int) -> Iterator[Job]:
    """OptNet and two of ours on 1024 digits, three seeds."""
    for method, seed in product(("optnet", "projection", "constrained"), range(min(3, runs))):
        settings = OptnetSettings(method=method, seed=seed, **FEW)
        yield job("optnet", settings, 400 if method == "optnet" else 5)


STUDY = Study(OptnetSettings, run, section, reproduce=reproduce)
