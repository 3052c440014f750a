"""A set of binary classifiers as constraints: images to which every one of them says no.

Five linear classifiers, "is it a 0", …, "is it a 4", are fitted to the digits; the set is {x : w_i·x <= 0} and the
box. Its rows overlap in every pixel, so there are no blocks. The network learns to move an image into the set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments.digits import Digits
from experiments.report.groups import Group
from experiments.report.pages import Section
from experiments.report.sections import small
from experiments.results import Run
from experiments.settings import SmallSettings, option
from experiments.studies import Job, Study, job, projection

CLASSES = 5
RIDGE = 10.0


@dataclass(frozen=True)
class ClassifiersSettings(SmallSettings):
    """A set of binary classifiers as constraints."""

    dataset: str = option("mnist-small", "mnist, fashion-mnist, or mnist-small (ships with the repository)")


def fitted(images: Tensor, labels: Tensor) -> Tensor:
    """One ridge regression to ±1 for each class, through the origin, at unit length. Shape: (classes, pixels)."""
    flat = images.flatten(1).double()
    targets = 2.0 * (labels[:, None] == torch.arange(CLASSES, device=labels.device)).double() - 1
    gram = flat.mT @ flat + RIDGE * torch.eye(flat.shape[1], dtype=flat.dtype, device=flat.device)
    weights = torch.linalg.solve(gram, flat.mT @ targets).mT
    return weights / weights.norm(dim=1, keepdim=True)


def run(settings: ClassifiersSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """The learned projection, with classifiers in place of tiles."""
    weights = fitted(digits.train, digits.train_labels).cpu().numpy()
    P = rh.Polyhedron(weights, shape=tuple(digits.train.shape[1:])) & rh.box(-1, 1)
    return projection.run(settings, digits, run, fabric, quiet, P)


TEXT = (
    "Images to which each of five linear classifiers (is it a 0, ..., a 4) says no: the learned projection onto that "
    "set and the box. No two pixels are independent here, so shrinking has one scale for the whole image and loses ten "
    "times as much as the nearest point."
)


def section(groups: Sequence[Group]) -> Section:
    """One table, and the curves."""
    return small("classifiers", "Binary classifiers as constraints", TEXT, groups)


def reproduce(runs: int) -> Iterator[Job]:
    """Five methods, three seeds."""
    for method, seed in product(("unconstrained", "ttp", "penalty", "constrained", "projection"), range(min(3, runs))):
        yield job("classifiers", ClassifiersSettings(method=method, seed=seed), 60)


STUDY = Study(ClassifiersSettings, run, section, reproduce=reproduce)
