"""Settings: what the studies' frozen dataclasses share, and how the command line fills them. Saved beside results.

The defaults are the paper's, but for the generators of its layer. A method may do better with others: a study names
them in ``best``, and they are taken unless ``--paper-settings`` is given; an option that is given always counts.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.errors import SettingsError, choose

SCHEDULES = ("plateau", "halving", "halving-all", "cosine", "constant")


def option(default: Any, text: str, paper: Any = None) -> Any:
    """A field of a settings class with the text of its help, and the paper's value where the default is another."""
    return field(default=default, metadata={"help": text, "paper": default if paper is None else paper})


@dataclass(frozen=True)
class TrainingSettings:
    """What every trained study has in common."""

    method: str = option("constrained", "the way the network's output gets into the set")
    seed: int = option(0, "everything random follows from it")
    epochs: int = option(1, "passes over the training set")
    batch_size: int = option(256, "samples to a step, over all processes together")
    learning_rate: float = option(1e-4, "of Adam")
    schedule: str = option(
        "plateau", "plateau (times 0.1 after 5 idle epochs), halving (times 0.5), halving-all, cosine, constant"
    )
    dataset: str = option("mnist", "mnist, fashion-mnist, or mnist-small (ships with the repository)")
    samples: int | None = option(None, "train on the first so many samples only")
    box_delay: int = option(0, "epochs before the box is added in training (method paper)")
    free_epochs: int = option(0, "epochs in training before the set is imposed at all (method constrained)")
    leak: float | None = option(0.0, "share of the gradient past the map (method constrained); none: the layer's own")
    free_loss: float = option(0.0, "share of the training loss that judges the free point (method constrained)")
    precision: str = option("32-true", "of the arithmetic: 32-true, bf16-mixed or 16-mixed")
    penalty_weight: float = option(
        10.0, "weight of the violation in the loss (penalty), rate of the multipliers (lagrangian)"
    )
    start: str = option("random", "first weights of the last layer: random, or identity (u = the features)")

    def __post_init__(self) -> None:
        choose("schedule", self.schedule, SCHEDULES)
        choose("start", self.start, ("random", "identity"))
        choose("precision", self.precision, ("32-true", "bf16-mixed", "16-mixed"))
        for name in ("epochs", "batch_size", "learning_rate"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}.")
        for name in ("box_delay", "free_epochs"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} counts epochs and must be at least 0, got {getattr(self, name)}.")
        if not 0 <= self.free_loss <= 1:
            raise SettingsError(f"free_loss is a share of the loss, from 0 to 1, got {self.free_loss}.")
        if self.samples is not None and self.samples < self.batch_size:
            raise SettingsError(f"samples ({self.samples}) must fill at least one batch ({self.batch_size}).")


@dataclass(frozen=True)
class SmallSettings(TrainingSettings):
    """What the small studies have in common: short, with a cosine schedule."""

    epochs: int = option(30, "passes over the training set")
    batch_size: int = option(128, "samples to a step, over all processes together")
    learning_rate: float = option(3e-3, "of Adam")
    schedule: str = option("cosine", "plateau (times 0.1 after 5 idle epochs), halving, halving-all, cosine, constant")
    leak: float | None = option(None, "share of the gradient past the map (method constrained); none: the layer's own")


def as_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain values, in the order of their definition."""
    return dataclasses.asdict(settings)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two saved settings, one phrase each."""
    names = [*new, *(name for name in old if name not in new)]
    return [f"{n} was {old.get(n)!r}, is {new.get(n)!r}" for n in names if old.get(n) != new.get(n)]


def add_options(parser: argparse.ArgumentParser, kind: type) -> None:
    """One option for each field of the dataclass ``kind``; what is not given is None, and decided later."""
    types_of = typing.get_type_hints(kind)
    for spec in dataclasses.fields(kind):
        name, text = f"--{spec.name.replace('_', '-')}", f"{spec.metadata['help']} (paper: {spec.metadata['paper']})"
        if types_of[spec.name] is bool:
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=None, help=text)
        else:
            kind_of = _plain(types_of[spec.name])
            parser.add_argument(name, type=kind_of, default=None, metavar=spec.name.upper(), help=text)


def from_options(kind: type, options: argparse.Namespace, best: Mapping[str, Mapping[str, Any]] | None = None) -> Any:
    """The dataclass ``kind``: its defaults, then the method's ``best`` settings, then the options that were given."""
    names = [spec.name for spec in dataclasses.fields(kind)]
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    method = given.get("method", getattr(kind, "method", ""))
    return kind(**{**(best or {}).get(method, {}), **given})


def _plain(annotation: Any) -> Any:
    """The type that reads an option: int for ``int | None``."""
    if isinstance(annotation, types.UnionType):
        return next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    return annotation
