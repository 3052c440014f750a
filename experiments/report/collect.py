"""Read saved runs and group those that differ by their seed alone. Nothing here trains."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.report.groups import Group, Spread, name_apart
from experiments.results import METRICS, SAMPLES, SETTINGS, SUMMARY, find_runs, read_json, read_lines
from experiments.studies import TIMED

POINTS = 60  # of a curve, at most


@dataclass
class _Runs:
    """What the folders of one group hold."""

    study: str
    settings: dict[str, Any]
    folders: list[Path] = field(default_factory=list)
    metrics: list[list[dict[str, Any]]] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)  # of the finished runs

    def read(self, folder: Path, seed: int, unfinished: bool) -> None:
        """Add one run, if it got anywhere."""
        metrics = read_lines(folder / METRICS) if (folder / METRICS).exists() else []
        summary = read_json(folder / SUMMARY) if (folder / SUMMARY).exists() else None
        if summary or (metrics and unfinished):
            self.folders.append(folder)
            self.metrics.append(metrics)
            self.summaries += [summary] if summary else []
            self.seeds += [seed] if summary else []

    def group(self) -> Group | None:
        """Their numbers and pictures; None where no run got anywhere."""
        if not self.folders:
            return None
        numbers = timed(self) if self.study in TIMED else trained(self)
        return Group(self.study, self.settings, numbers, self.pictures())

    def without(self, seeds: Collection[int]) -> _Runs:
        """The finished runs of other seeds."""
        kept = _Runs(self.study, self.settings)
        for folder, seed in zip(self.folders, self.seeds, strict=True):
            if seed not in seeds:
                kept.read(folder, seed, unfinished=False)
        return kept

    def lines(self, key: str) -> list[list[float]]:
        """A measure of each run, epoch by epoch."""
        return [[line[key] for line in run if key in line] for run in self.metrics]

    def curve(self, key: str) -> np.ndarray:
        """The same with one length: a run that has ended keeps its last value, as annealing ends what changes no more;
        where one has not ended yet, all are cut to the shortest. Shape: (runs, epochs).
        """
        lines = self.lines(key)
        ended = len(self.summaries) == len(lines)
        epochs = (max if ended else min)(map(len, lines), default=0)
        return np.array([(line + line[-1:] * epochs)[:epochs] for line in lines], float).reshape(len(lines), epochs)

    def pictures(self) -> dict[str, np.ndarray]:
        """The saved images of the first finished run, {} if there are none."""
        from safetensors.numpy import load_file

        for folder in self.folders:
            if (folder / SAMPLES).exists():
                return dict(load_file(folder / SAMPLES))
        return {}


def collect(
    out: Path, unfinished: bool = True, known: Callable[[Group], Collection[int]] | None = None
) -> dict[str, list[Group]]:
    """Every run below ``out``, by study; with or without those that have not come to their end.

    ``known`` says which seeds of a group of finished runs to leave out.
    """
    found: dict[str, _Runs] = {}
    for folder in find_runs(out):
        settings = read_json(folder / SETTINGS)
        study = settings.pop("study")
        seed = settings.pop("seed", 0)
        key = repr((study, sorted(settings.items(), key=str)))
        found.setdefault(key, _Runs(study, settings)).read(folder, seed, unfinished)
    studies: dict[str, list[Group]] = {}
    for runs in found.values():
        group = runs.group()
        left = known(group) if known and group else ()
        group = runs.without(left).group() if left else group
        if group:
            studies.setdefault(runs.study, []).append(group)
    return {study: name_apart(groups) for study, groups in studies.items()}


def trained(runs: _Runs) -> dict[str, Any]:
    """Losses, cost, summary and curve of a method, over its runs."""
    losses, seconds = runs.curve("val_loss"), runs.curve("seconds")
    own, spent = runs.lines("val_loss"), runs.lines("seconds")
    numbers: dict[str, Any] = {
        "runs": len(runs.metrics),
        "finished_runs": len(runs.summaries),
        "seeds": sorted(runs.seeds),
        "epochs_done": losses.shape[1],
        "ended": sorted({str(summary["ended"]) for summary in runs.summaries if "ended" in summary}),
    }
    if losses.shape[1]:
        numbers |= {
            "best_val_loss": Spread.of(map(min, own)).saved(),
            "last_val_loss": Spread.of(line[-1] for line in own).saved(),
            "seconds_an_epoch": Spread.of(line[-1] / len(line) for line in spent).saved(),
        }
    return numbers | {"summary": _summary(runs.summaries), "val_loss": thinned(losses, seconds)}


def _summary(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    first = summaries[0] if summaries else {}
    keys = [key for key, value in first.items() if isinstance(value, int | float)]
    return {key: Spread.of(s[key] for s in summaries if key in s).saved() for key in keys}


def thinned(losses: np.ndarray, seconds: np.ndarray) -> dict[str, list[float]]:
    """Mean and deviation over the runs at no more than 60 epochs, the first, the best and the last among them."""
    if not losses.shape[1]:
        return {}
    even = np.linspace(1, losses.shape[1], POINTS - 1).round().astype(int)
    epochs = np.unique(np.append(even, 1 + losses.mean(0).argmin()))
    columns = [Spread.of(losses[:, epoch - 1]).saved() for epoch in epochs]
    return {
        "epochs": epochs.tolist(),
        "mean": [column["mean"] for column in columns],
        "std": [column["std"] for column in columns],
        "seconds": [round(float(seconds[:, epoch - 1].mean()), 1) for epoch in epochs],
    }


def timed(runs: _Runs) -> dict[str, Any]:
    """Seconds of each case, and ratios of medians: to the unconstrained network, and of the OSQP loop to it."""
    lines = [line for run in runs.metrics for line in run]
    middle = {(line["model"], line["label"]): float(np.median(line["seconds"])) for line in lines}
    return {"cases": [_case(line, middle) for line in lines], "machine": (runs.summaries or [{}])[0]}


def _case(line: dict[str, Any], middle: dict[tuple[str, str], float]) -> dict[str, Any]:
    model, mine = line["model"], middle[line["model"], line["label"]]
    free, loop = middle.get((model, "unconstrained")), middle.get((model, "ttp, OSQP loop"))
    return {
        "model": model,
        "method": line["method"],
        "label": line["label"],
        "seconds": Spread.of(line["seconds"]).saved(),
        "median_seconds": mine,
        "middle_half": np.quantile(line["seconds"], [0.25, 0.75]).tolist(),
        "repeats": len(line["seconds"]),
        "times_the_unconstrained_network": mine / free if free else None,
        "faster_than_the_osqp_loop": loop / mine if loop else None,
    }
