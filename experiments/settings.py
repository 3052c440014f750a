"""Settings: one frozen dataclass for each study, saved beside its results. The defaults are the paper's."""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from experiments.errors import SettingsError, choose

SCHEDULES = ("plateau", "cosine", "constant")


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class TrainingSettings:
    """What every trained study has in common."""

    method: str = _option("constrained", "the way the network's output gets into the set")
    seed: int = _option(0, "everything random follows from it")
    epochs: int = _option(1, "passes over the training set")
    batch_size: int = _option(256, "samples to a step, over all processes together")
    learning_rate: float = _option(1e-4, "of Adam")
    schedule: str = _option(
        "plateau", "plateau: times 0.1 after 5 epochs without progress; cosine: down to 0; constant"
    )
    dataset: str = _option("mnist", "mnist, fashion-mnist, or mnist-small (ships with the repository)")
    samples: int | None = _option(None, "train on the first so many samples only")
    box_delay: int = _option(0, "epochs before the box is added in training (method paper)")
    free_epochs: int = _option(0, "epochs in training before the set is imposed at all (method constrained)")
    precision: str = _option("32-true", "of the arithmetic: 32-true, bf16-mixed or 16-mixed")
    penalty_weight: float = _option(
        10.0, "weight of the violation in the loss (penalty), rate of the multipliers (lagrangian)"
    )
    start: str = _option("random", "first weights of the last layer: random, or identity (u = the features)")

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
        if self.samples is not None and self.samples < self.batch_size:
            raise SettingsError(f"samples ({self.samples}) must fill at least one batch ({self.batch_size}).")


@dataclass(frozen=True)
class ProjectionSettings(TrainingSettings):
    """Learned projection: one FC layer learns to move an image into the set (figures 3 and 4)."""

    epochs: int = _option(500, "passes over the training set")
    box_delay: int = _option(25, "epochs before the box is added in training (method paper)")


@dataclass(frozen=True)
class VaeSettings(TrainingSettings):
    """Constrained variational autoencoder (figures 1 and 5)."""

    epochs: int = _option(200, "passes over the training set")
    batch_size: int = _option(64, "samples to a step, over all processes together")
    box_delay: int = _option(100, "epochs before the box is added in training (method paper)")
    free_epochs: int = _option(160, "epochs in training before the set is imposed at all (method constrained)")
    hidden: int = _option(256, "width of the hidden layers")
    latent: int = _option(2, "dimension of the latent space")


@dataclass(frozen=True)
class SmallSettings(TrainingSettings):
    """What the small studies have in common: short, with a cosine schedule."""

    epochs: int = _option(30, "passes over the training set")
    batch_size: int = _option(128, "samples to a step, over all processes together")
    learning_rate: float = _option(3e-3, "of Adam")
    schedule: str = _option("cosine", "plateau (times 0.1 after 5 epochs without progress), cosine, constant")


@dataclass(frozen=True)
class SimplexSettings(SmallSettings):
    """Shares that sum to one: the simplex projection layer of Briq et al., softmax, and ours."""


@dataclass(frozen=True)
class VerticesSettings(SmallSettings):
    """General A x <= b: convex weights of vertices against shrinking and projecting."""

    dimension: int = _option(8, "of the polytope, a cut cube with about 2^d vertices")


@dataclass(frozen=True)
class ShapesSettings(SmallSettings):
    """Monotone and convex outputs."""

    shape: str = _option("monotone", "monotone or convex")

    def __post_init__(self) -> None:
        super().__post_init__()
        choose("shape", self.shape, ("monotone", "convex"))


@dataclass(frozen=True)
class ClassifiersSettings(SmallSettings):
    """A set of binary classifiers as constraints."""

    dataset: str = _option("mnist-small", "mnist, fashion-mnist, or mnist-small (ships with the repository)")


@dataclass(frozen=True)
class OptnetSettings(SmallSettings):
    """OptNet's quadratic-program layer at a size it can bear: 8 x 8 digits."""

    method: str = _option("optnet", "the way the network's output gets into the set")
    dataset: str = _option("mnist-small", "mnist, fashion-mnist, or mnist-small (ships with the repository)")


@dataclass(frozen=True)
class TimingSettings:
    """Inference time (table 1)."""

    samples: int = _option(59000, "images to a run")
    batch_size: int = _option(256, "images to a forward pass")
    repeats: int = _option(100, "timed runs of the networks")
    solver_repeats: int = _option(100, "timed runs of the solver loop, which takes about a minute each")
    dataset: str = _option("mnist", "mnist, fashion-mnist, or mnist-small")
    seed: int = _option(0, "of the networks' weights")
    network_threads: int = _option(1, "threads of the networks; the solver loop takes one image at a time, on one")
    compiled: bool = _option(True, "also time the networks under torch.compile, which needs a C++ compiler")
    training_epochs: int = _option(
        1, "short training of the networks before they are timed, so that outputs are images"
    )

    def __post_init__(self) -> None:
        for name in ("samples", "batch_size", "repeats", "solver_repeats", "network_threads"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}.")


def as_dict(settings: Any) -> dict[str, Any]:
    """The settings as plain values, in the order of their definition."""
    return dataclasses.asdict(settings)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What differs between two saved settings, one phrase each."""
    names = [*new, *(name for name in old if name not in new)]
    return [f"{n} was {old.get(n)!r}, is {new.get(n)!r}" for n in names if old.get(n) != new.get(n)]


def add_options(parser: argparse.ArgumentParser, kind: type) -> None:
    """One option for each field of the dataclass ``kind``, with its default in the help."""
    types_of = typing.get_type_hints(kind)
    for spec in dataclasses.fields(kind):
        name, text = f"--{spec.name.replace('_', '-')}", f"{spec.metadata['help']} (default: {spec.default})"
        if types_of[spec.name] is bool:
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=spec.default, help=text)
        else:
            kind_of = _plain(types_of[spec.name])
            parser.add_argument(name, type=kind_of, default=spec.default, metavar=spec.name.upper(), help=text)


def from_options(kind: type, options: argparse.Namespace) -> Any:
    """The dataclass ``kind`` filled from parsed options."""
    return kind(**{spec.name: getattr(options, spec.name) for spec in dataclasses.fields(kind)})


def _plain(annotation: Any) -> Any:
    """The type that reads an option: int for ``int | None``."""
    if isinstance(annotation, types.UnionType):
        return next(kind for kind in typing.get_args(annotation) if kind is not type(None))
    return annotation
