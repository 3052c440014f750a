"""The tables of the report, as rows of text made from the saved results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.report import paper
from experiments.report.collect import Group, mean_and_deviation

Table = list[dict[str, str]]


def spread(values: np.ndarray, form: str = ".4f") -> str:
    """Mean ± standard deviation; the mean alone for one value."""
    if not len(values):
        return "–"
    mean, deviation = mean_and_deviation(values)
    return f"{mean:{form}} ± {deviation:{form}}" if len(values) > 1 else f"{mean:{form}}"


def percent(share: np.ndarray, form: str = ".1f") -> str:
    """Shares in percent, with their standard deviation where the runs differ."""
    if not len(share):
        return "–"
    return (spread(100 * share, form) if np.ptp(share) > 0 else f"{100 * share[0]:{form}}") + " %"


def best(group: Group) -> np.ndarray:
    """The smallest validation loss of each run. Shape: (runs,)."""
    curve = group.curve("val_loss")
    return curve.min(1) if curve.size else np.zeros(0)


def trained(group: Group) -> str:
    """Epochs done (of those asked for, where it was stopped), learning rate, schedule, and what was delayed."""
    if group.method == "optimum":
        return "–"
    done, asked = group.curve("val_loss").shape[1], group.settings["epochs"]
    ended = {str(summary.get("ended", "")) for summary in group.summaries}
    epochs = f"{done} epochs" if done == asked else f"{done} of {asked} epochs"
    if any(reason.startswith("annealed") for reason in ended):
        epochs += " (annealed to a stop)"
    parts = [epochs, f"{group.settings['learning_rate']:g}", group.settings["schedule"]]
    if group.method == "paper" and group.settings["box_delay"]:
        parts.append(f"box after {group.settings['box_delay']}")
    if group.method == "constrained" and group.settings["free_epochs"]:
        parts.append(f"free for {group.settings['free_epochs']}")
    return ", ".join(parts)


def _small_gap(group: Group) -> str:
    """Against the loss of the targets' own nearest points; – where the targets are inside and that is 0."""
    optimum = group.values("optimum")
    if not len(optimum) or optimum.min() < 1e-9:
        return "–"
    return f"{100 * (np.mean(group.curve('val_loss')[:, -1]) / optimum.mean() - 1):.2f} %"


def projection(groups: Sequence[Group], optimum: float) -> Table:
    """One row a method: gap to the optimum, violation, cost."""
    rows = []
    for group in groups:
        losses = best(group)
        gap = 100 * (losses / optimum - 1)
        hard = "violation" in (group.summaries or [{}])[0]
        rows.append(
            {
                "method": group.label,
                "runs": str(group.runs),
                "trained": trained(group),
                "validation loss, best": spread(losses, ".5f"),
                "gap to the optimum": spread(gap, ".2f") + " %"
                if group.settings["dataset"] != "fashion-mnist"
                else "–",
                "paper": _paper_gap(group),
                "largest violation": f"{group.values('violation').max():.1e}" if hard else "–",
                "inside": percent(group.values("inside")),
                "seconds an epoch": spread(
                    group.curve("seconds")[:, -1] / max(1, group.curve("seconds").shape[1]), ".1f"
                ),
            }
        )
    return rows


def _paper_gap(group: Group) -> str:
    if group.method == "paper":
        return paper.PROJECTION_GAP["paper, with box delay"] if group.settings["box_delay"] else "worse"
    return paper.PROJECTION_GAP.get(group.method, "–")


def vae(groups: Sequence[Group]) -> Table:
    """One row a method: ELBO, share inside, and what the readers make of the images."""
    return [
        {
            "method": group.label,
            "runs": str(group.runs),
            "trained": trained(group),
            "ELBO (test)": spread(group.values("test_elbo"), ".2f"),
            "inside exactly": percent(group.values("inside_exactly"), ".2f"),
            "inside": percent(group.values("inside"), ".2f"),
            "read right": percent(group.values("plain_accuracy")),
            "score of samples": spread(group.values("plain_score"), ".2f"),
            "read right, reader of the set": percent(group.values("inside_accuracy")),
            "score, reader of the set": spread(group.values("inside_score"), ".2f"),
        }
        for group in groups
    ]


def timing(groups: Sequence[Group]) -> Table:
    """One row a model and method: seconds, ratios of medians to the unconstrained network and to the loop."""
    return [row for group in groups for row in _timing(group)]


def _timing(group: Group) -> Table:
    results = [line for run in group.metrics for line in run]
    middle = {(row["model"], row["label"]): float(np.median(row["seconds"])) for row in results}
    table = []
    for row in results:
        model, label = row["model"], row["label"]
        mine = middle[model, label]
        free, loop = middle.get((model, "unconstrained")), middle.get((model, "ttp, OSQP loop"))
        table.append(
            {
                "model": model,
                "threads": str(group.settings["network_threads"]),
                "method": label,
                "seconds": spread(np.array(row["seconds"]), ".3f"),
                "repeats": str(len(row["seconds"])),
                "added to the unconstrained network": f"{mine - free:.3f} s" if free else "–",
                "times the unconstrained network": f"{mine / free:.2f}" if free else "–",
                "faster than the OSQP loop by": f"{loop / mine:.0f}x" if loop else "–",
                "paper": paper.TIMES.get((model, label), "–"),
            }
        )
    return table


def small(groups: Sequence[Group]) -> Table:
    """One row a way: loss at the end, violation, cost."""
    return [
        {
            "way": group.label,
            "runs": str(group.runs),
            "validation loss, last": spread(group.curve("val_loss")[:, -1], ".5f"),
            "gap to the optimum": _small_gap(group),
            "largest violation": f"{group.curve('violation')[:, -1].max():.1e}",
            "seconds an epoch": spread(group.curve("seconds")[:, -1] / max(1, group.curve("seconds").shape[1]), ".2f"),
        }
        for group in groups
        if group.curve("val_loss").size
    ]


def settings_line(groups: Sequence[Group]) -> str:
    """The settings that all groups share, in one line."""
    common = {
        key: value for key, value in groups[0].settings.items() if all(g.settings.get(key) == value for g in groups)
    }
    return ", ".join(f"{key} {value}" for key, value in common.items() if value is not None)
