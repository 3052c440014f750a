"""Runs that differ by their seed alone, as the few numbers that are quoted: what is published, and what every table and
figure is made from, whether the runs were read from their folders or from what was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from experiments.report.style import full_name

_NAMED = (
    "shape",
    "dimension",
    "box_delay",
    "generators",
    "free_epochs",
    "free_loss",
    "leak",
    "start",
    "learning_rate",
    "schedule",
    "epochs",
    "penalty_weight",
    "samples",
)
_PHRASE = {
    "box_delay": lambda v: "box from the start" if v == 0 else f"box after {v} epochs",
    "generators": lambda v: "cddlib's generators" if v == "cddlib" else "",
    "free_epochs": lambda v: "set from the start" if v == 0 else f"free for {v} epochs",
    "free_loss": lambda v: f"{v:.0%} of the loss on the free point" if v else "",
    "leak": lambda v: "" if v is None else f"leak {v:g}" if v else "the derivative alone",
    "start": lambda v: f"{v} start",
    "learning_rate": lambda v: f"rate {v:g}",
    "schedule": str,
    "epochs": lambda v: f"{v} epochs",
    "shape": str,
    "dimension": lambda v: f"d = {v}",
    "penalty_weight": lambda v: f"weight {v:g}",
}
_ONLY = {  # no other methods have them
    "box_delay": ("paper",),
    "generators": ("paper",),
    "free_epochs": ("constrained",),
    "free_loss": ("constrained",),
    "leak": ("constrained",),
    "penalty_weight": ("penalty", "lagrangian"),
}


class Spread(NamedTuple):
    """A number over several runs."""

    mean: float
    std: float
    max: float
    runs: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Mean, sample standard deviation (0 for one value, NaN for none) and largest."""
        known = np.array(list(values), float)
        if not known.size:
            return cls(float("nan"), float("nan"), float("nan"), 0)
        deviation = float(known.std(ddof=1)) if known.size > 1 else 0.0
        return cls(float(known.mean()), deviation, float(known.max()), known.size)

    @classmethod
    def read(cls, saved: dict[str, float], runs: int) -> Spread:
        """As it was published; what has no largest value is a mean of equal ones."""
        return cls(saved["mean"], saved["std"], saved.get("max", saved["mean"]), runs)

    def saved(self) -> dict[str, float]:
        """For a JSON file: nine digits, more than a page shows, so that both round alike."""
        return {name: float(f"{getattr(self, name):.9g}") for name in ("mean", "std", "max")}


@dataclass
class Group:
    """Runs of one study with the same settings but for the seed.

    Args:
        study: its name.
        settings: all but the seed.
        numbers: in the form of the published files.
        pictures: images of the first finished run, by name. Shape of each: (n, h, w).
        label: the method and what sets it apart from others of the same method.
    """

    study: str
    settings: dict[str, Any]
    numbers: dict[str, Any]
    pictures: dict[str, np.ndarray] = field(default_factory=dict)
    label: str = ""

    @property
    def method(self) -> str:
        return str(self.settings.get("method", self.study))

    @property
    def note(self) -> str:
        """What sets it apart besides the settings, such as an older version of the code."""
        return str(self.numbers.get("note", ""))

    @property
    def runs(self) -> int:
        return int(self.numbers.get("runs", 1))

    @property
    def finished(self) -> int:
        return int(self.numbers.get("finished_runs", 1))

    @property
    def seeds(self) -> Sequence[int]:
        """Of its finished runs; where none are named they are the first ones, as a plan runs them."""
        return list(self.numbers.get("seeds", range(self.finished)))

    @property
    def epochs(self) -> int:
        """How many epochs every run has done."""
        return int(self.numbers.get("epochs_done", 0))

    def spread(self, key: str) -> Spread | None:
        """A number of the training, such as best_val_loss, over the runs."""
        return Spread.read(self.numbers[key], self.runs) if key in self.numbers else None

    def summary(self, key: str) -> Spread | None:
        """A number of the summary, such as inside_exactly, over the finished runs."""
        found = self.numbers.get("summary", {}).get(key)
        return Spread.read(found, self.finished) if found else None

    def curve(self) -> dict[str, np.ndarray]:
        """The validation loss: epochs, mean, std, seconds. Shape of each: (points,)."""
        saved = {name: np.array(values, float) for name, values in self.numbers.get("val_loss", {}).items()}
        if saved and "seconds" not in saved:
            saved["seconds"] = saved["epochs"] * self.numbers["seconds_an_epoch"]["mean"]
        return saved


def name_apart(groups: Sequence[Group]) -> list[Group]:
    """The groups of one study in order, each labelled by its method and by what sets it apart from its like."""
    ordered = sorted(groups, key=lambda g: (g.method, str(g.settings)))
    for group in ordered:
        twins = [other for other in ordered if other.method == group.method]
        apart = [key for key in _NAMED if len({repr(t.settings.get(key)) for t in twins}) > 1]
        told = [key for key in apart if group.method in _ONLY.get(key, (group.method,))] or apart
        parts = [full_name(group.method), *(_phrase(key, group.settings[key]) for key in told), group.note]
        group.label = ", ".join(part for part in parts if part)
    return ordered


def _phrase(key: str, value: Any) -> str:
    return _PHRASE[key](value) if key in _PHRASE else f"{key} {value}"
