"""Read saved runs and group those that differ by their seed alone. Nothing here trains."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.report.style import full_name
from experiments.results import METRICS, SAMPLES, SETTINGS, SUMMARY, find_runs, read_json, read_lines

_NAMED = (
    "shape",
    "dimension",
    "box_delay",
    "free_epochs",
    "start",
    "learning_rate",
    "schedule",
    "epochs",
    "penalty_weight",
    "samples",
)
_PHRASE = {
    "box_delay": lambda v: "box from the start" if v == 0 else f"box after {v} epochs",
    "free_epochs": lambda v: "set from the start" if v == 0 else f"free for {v} epochs",
    "start": lambda v: f"{v} start",
    "learning_rate": lambda v: f"rate {v:g}",
    "epochs": lambda v: f"{v} epochs",
    "shape": str,
    "dimension": lambda v: f"d = {v}",
}


@dataclass
class Group:
    """Runs of one study with the same settings but for the seed."""

    study: str
    settings: dict[str, Any]
    label: str = ""
    folders: list[Path] = field(default_factory=list)
    metrics: list[list[dict[str, Any]]] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)

    @property
    def method(self) -> str:
        return str(self.settings.get("method", self.study))

    @property
    def runs(self) -> int:
        return len(self.metrics)

    def curve(self, key: str) -> np.ndarray:
        """A measure over the epochs that every run has. Shape: (runs, epochs)."""
        lines = [[line[key] for line in run if key in line] for run in self.metrics]
        shortest = min(map(len, lines), default=0)
        return np.array([line[:shortest] for line in lines], float).reshape(len(lines), shortest)

    def values(self, key: str) -> np.ndarray:
        """A number of the summary, one for each finished run."""
        return np.array([summary[key] for summary in self.summaries if key in summary], float)

    def pictures(self) -> dict[str, np.ndarray]:
        """The saved images of the first finished run, {} if there are none."""
        from safetensors.numpy import load_file

        for folder in self.folders:
            if (folder / SAMPLES).exists():
                return dict(load_file(folder / SAMPLES))
        return {}


def collect(out: Path) -> dict[str, list[Group]]:
    """Every run below ``out``, by study."""
    groups: dict[str, Group] = {}
    for folder in find_runs(out):
        settings = read_json(folder / SETTINGS)
        study = settings.pop("study")
        settings.pop("seed", None)
        group = groups.setdefault(repr((study, sorted(settings.items(), key=str))), Group(study, settings))
        metrics = read_lines(folder / METRICS) if (folder / METRICS).exists() else []
        summary = read_json(folder / SUMMARY) if (folder / SUMMARY).exists() else None
        if metrics or summary:
            group.folders.append(folder)
            group.metrics.append(metrics)
            group.summaries += [summary] if summary else []
    studies: dict[str, list[Group]] = {}
    for group in groups.values():
        if group.folders:
            studies.setdefault(group.study, []).append(group)
    for members in studies.values():
        members.sort(key=lambda g: (g.method, str(g.settings)))
        _name(members)
    return studies


def _name(groups: list[Group]) -> None:
    """Label each group by its method, and by what sets it apart from other groups of the same method."""
    for group in groups:
        twins = [other for other in groups if other.method == group.method]
        apart = [key for key in _NAMED if len({repr(t.settings.get(key)) for t in twins}) > 1]
        phrases = [_PHRASE.get(key, lambda v, key=key: f"{key} {v}")(group.settings[key]) for key in apart]
        group.label = ", ".join([full_name(group.method), *phrases])


def mean_and_deviation(values: np.ndarray) -> tuple[float, float]:
    """Mean and sample standard deviation; 0 deviation for one value, NaN for none."""
    if not len(values):
        return float("nan"), float("nan")
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
