"""Seeds of the same settings that were run apart, on other days or machines, as the group that they make together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.report.groups import Group, Spread

_OVER_RUNS = ("best_val_loss", "last_val_loss", "seconds_an_epoch")


def together(old: Group, new: Group) -> dict[str, Any] | None:
    """The numbers of both groups as one, means and deviations exactly; None where a seed is in both of them."""
    if "runs" not in old.numbers or "runs" not in new.numbers or set(old.seeds) & set(new.seeds):
        return None
    return {
        "runs": old.runs + new.runs,
        "finished_runs": old.finished + new.finished,
        "seeds": sorted([*old.seeds, *new.seeds]),
        "epochs_done": max(old.epochs, new.epochs),
        "ended": sorted({*old.numbers.get("ended", ()), *new.numbers.get("ended", ())}),
        **_spreads({key: (old.spread(key), new.spread(key)) for key in _OVER_RUNS}),
        "summary": _spreads({key: (old.summary(key), new.summary(key)) for key in new.numbers["summary"]}),
        "val_loss": _curves(old, new),
    }


def _spreads(pairs: Mapping[str, tuple[Spread | None, Spread | None]]) -> dict[str, dict[str, float]]:
    """Each number that both groups have, over the runs of both."""
    return {key: pooled(one, other).saved() for key, (one, other) in pairs.items() if one and other}


def pooled(one: Spread, other: Spread) -> Spread:
    """Mean, sample standard deviation and largest of the values behind both."""
    runs = one.runs + other.runs
    mean = (one.runs * one.mean + other.runs * other.mean) / runs
    within = (one.runs - 1) * one.std**2 + (other.runs - 1) * other.std**2
    between = one.runs * other.runs / runs * (one.mean - other.mean) ** 2
    return Spread(mean, float(np.sqrt((within + between) / (runs - 1))), max(one.max, other.max), runs)


def _curves(old: Group, new: Group) -> dict[str, list[float]]:
    """Both curves at the epochs of the longer one; a run that has ended keeps its last value.

    Between the epochs that were kept, a curve is taken as straight: these numbers are for figures.
    """
    curves = {"old": old.curve(), "new": new.curve()}
    if any("std" not in curve for curve in curves.values()):
        return dict(new.numbers["val_loss"] if "std" in curves["new"] else old.numbers["val_loss"])
    epochs = max((curve["epochs"] for curve in curves.values()), key=lambda found: found[-1])
    columns: dict[str, list[float]] = {"mean": [], "std": []}
    for epoch in epochs:
        one, other = (_at(curve, epoch, group.runs) for curve, group in zip(curves.values(), (old, new), strict=True))
        both = pooled(one, other).saved()
        columns["mean"].append(both["mean"])
        columns["std"].append(both["std"])
    seconds = (
        group.runs * np.interp(epochs, curve["epochs"], curve["seconds"])
        for curve, group in zip(curves.values(), (old, new), strict=True)
    )
    mean = sum(seconds) / (old.runs + new.runs)
    return {"epochs": epochs.astype(int).tolist(), **columns, "seconds": np.round(mean, 1).tolist()}


def _at(curve: Mapping[str, np.ndarray], epoch: float, runs: int) -> Spread:
    mean, std = (float(np.interp(epoch, curve["epochs"], curve[name])) for name in ("mean", "std"))
    return Spread(mean, std, mean, runs)
