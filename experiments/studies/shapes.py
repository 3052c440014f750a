"""Monotone and convex outputs: a network cleans noisy curves, and every curve it gives has the stated shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.errors import choose
from experiments.regression import WIDTH, Regression, fit, generator, trunk
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.report.sections import small
from experiments.results import Run
from experiments.settings import SmallSettings, option
from experiments.studies import Job, Study, job

COMPARED = ("unconstrained", "ttp", "penalty", "constrained", "projection", "leak")
POINTS, TRAIN, VALIDATION, NOISE = 50, 4096, 1024, 0.1


@dataclass(frozen=True)
class ShapesSettings(SmallSettings):
    """Monotone and convex outputs."""

    shape: str = option("monotone", "monotone or convex")

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("shape", self.shape, ("monotone", "convex"))


def curves(shape: str, n: int) -> Tensor:
    """Random curves of the shape: sums of a few increasing steps, or of convex bends. Shape: (n, points)."""
    noise = generator(0)
    grid = torch.linspace(0, 1, POINTS)
    places = torch.rand(n, 4, 1, generator=noise)
    weights = torch.rand(n, 4, 1, generator=noise)
    if shape == "monotone":
        parts = torch.sigmoid((grid - places) * 20)
    else:
        parts = (grid - places).relu() + (places - grid).relu()
    summed = (weights * parts).sum(1)
    return summed / summed.abs().amax(1, keepdim=True) * 2 - 1


def run(settings: ShapesSettings, digits: Digits | None, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Noisy curve in, clean curve out."""
    P = {"monotone": rh.monotone, "convex": rh.convex}[settings.shape](POINTS)
    clean = curves(settings.shape, TRAIN + VALIDATION)
    noisy = clean + NOISE * torch.randn(clean.shape, generator=generator(1))
    torch.manual_seed(settings.seed)
    method = methods.build(settings.method, WIDTH, P, settings)
    task = Regression(method, trunk(POINTS), (noisy[TRAIN:], clean[TRAIN:]))
    return fit(task, (noisy[:TRAIN], clean[:TRAIN]), settings, run, fabric, quiet)


TEXT = (
    "A network cleans noisy curves of 50 points; the hard methods give curves of the stated shape for every input. "
    "Our layer takes the nearest point. It ties neighbours together, and what is tied gets one gradient: a leak of a "
    "tenth of the gradient past it lets each point learn from its own error."
)


def section(groups: Sequence[Group]) -> Section:
    """One table, and the curves."""
    return small("shapes", "Monotone and convex outputs", TEXT, groups)


def reproduce(runs: int) -> Iterator[Job]:
    """Six methods on two shapes, three seeds."""
    for method, shape, seed in product(COMPARED, ("monotone", "convex"), range(min(3, runs))):
        yield job("shapes", ShapesSettings(method=method, shape=shape, seed=seed), 10, f"{method}-{shape}")


STUDY = Study(ShapesSettings, run, section, needs_digits=False, reproduce=reproduce)
