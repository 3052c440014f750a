"""Shares that sum to one: the simplex projection layer of Briq, Moeller and Gall (2018), beside softmax and ours.

A teacher gives each input its shares over 20 classes, most of them exactly 0. A softmax never gives a 0; the nearest
point of the simplex does, and so does a map that can reach the boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.methods.base import Method
from experiments.regression import WIDTH, Regression, fit, generator, trunk
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.report.sections import small
from experiments.results import Run
from experiments.settings import SmallSettings
from experiments.studies import Job, Study, job
from experiments.training import Data

CLASSES, INPUTS, TRAIN, VALIDATION = 20, 16, 8192, 1024


@dataclass(frozen=True)
class SimplexSettings(SmallSettings):
    """Shares that sum to one: the simplex projection layer of Briq et al., softmax, and ours."""


class Softmax(Method):
    """FC and softmax: inside the simplex, never on its boundary."""

    name = "softmax"

    def __init__(self, in_features: int, P: rh.Polyhedron, settings: Any, squash: bool = False) -> None:
        super().__init__(in_features, P, settings, squash)
        self.layer = nn.Sequential(nn.Linear(in_features, P.dim), nn.Softmax(-1))


def run(settings: SimplexSettings, digits: Digits | None, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """``projection`` is Briq et al.'s layer: FC, then the nearest point of the simplex."""
    P = rh.simplex(CLASSES)
    train, validation = teacher()
    torch.manual_seed(settings.seed)
    kind = Softmax if settings.method == "softmax" else methods.method_class(settings.method)
    task = Regression(kind(WIDTH, P, settings), trunk(INPUTS), validation)
    return fit(task, train, settings, run, fabric, quiet)


def teacher() -> tuple[Data, Data]:
    """Inputs and their shares, for training and validation."""
    noise = generator(0)
    first = torch.randn(INPUTS, 64, generator=noise) / INPUTS**0.5
    second = torch.randn(64, CLASSES, generator=noise) / 8
    inputs = torch.randn(TRAIN + VALIDATION, INPUTS, generator=noise)
    shares = nearest_shares(2 * (inputs @ first).tanh() @ second)
    return (inputs[:TRAIN], shares[:TRAIN]), (inputs[TRAIN:], shares[TRAIN:])


def nearest_shares(scores: Tensor) -> Tensor:
    """The nearest point of the simplex to each row of scores."""
    return rh.project(rh.simplex(scores.shape[-1]), scores)


TEXT = (
    "Shares over 20 classes, most of them exactly 0. Briq et al.'s layer is the row projection: FC, then the nearest "
    "point of the simplex. A softmax, which never gives a 0, does as well in squared error."
)


def section(groups: Sequence[Group]) -> Section:
    """One table, and the curves."""
    return small("simplex", "Shares that sum to one (Briq et al. 2018)", TEXT, groups)


def reproduce(runs: int) -> Iterator[Job]:
    """Four ways to shares, three seeds."""
    for method, seed in product(("softmax", "projection", "constrained", "penalty"), range(min(3, runs))):
        yield job("simplex", SimplexSettings(method=method, seed=seed), 10)


STUDY = Study(SimplexSettings, run, section, needs_digits=False, reproduce=reproduce)
