"""The tables of the report, as rows of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.report import paper
from experiments.report.groups import Group, Spread
from experiments.report.style import full_name, timed_name
from experiments.studies import NAMES

Table = list[dict[str, str]]


def spread(found: Spread | None, form: str = ".4f") -> str:
    """Mean ± standard deviation; the mean alone for one value."""
    if found is None or math.isnan(found.mean):
        return "–"
    return f"{found.mean:{form}} ± {found.std:{form}}" if found.runs > 1 else f"{found.mean:{form}}"


def percent(share: Spread | None, form: str = ".1f") -> str:
    """Shares in percent, with their standard deviation where the runs differ."""
    if share is None:
        return "–"
    scaled = Spread(100 * share.mean, 100 * share.std, 100 * share.max, share.runs if share.std > 0 else 1)
    return f"{spread(scaled, form)} %"


def largest(found: Spread | None) -> str:
    """The largest of the runs."""
    return "–" if found is None else f"{found.max:.1e}"


def gap(group: Group, optimum: float) -> Spread | None:
    """By how many percent the best validation loss is above the optimum."""
    best = group.spread("best_val_loss")
    if best is None or (group.study == "projection" and group.settings["dataset"] == "fashion-mnist"):
        return None  # the optimum is that of the digits
    return above(best, optimum)


def above(loss: Spread, optimum: float) -> Spread:
    """By how many percent a loss is above the optimum."""
    mean, std, most, runs = loss
    return Spread(100 * (mean / optimum - 1), 100 * std / optimum, 100 * (most / optimum - 1), runs)


def trained(group: Group) -> str:
    """Epochs done (of those asked for, where it was stopped), learning rate, schedule, and what was delayed."""
    if group.method == "optimum":
        return "–"
    done, asked = group.epochs, group.settings["epochs"]
    epochs = f"{done} epochs" if done == asked else f"{done} of {asked} epochs"
    if any(reason.startswith("annealed") for reason in group.numbers.get("ended", [])):
        epochs += " (annealed to a stop)"
    parts = [epochs, f"{group.settings['learning_rate']:g}", group.settings["schedule"]]
    if group.method == "paper" and group.settings["box_delay"]:
        parts.append(f"box after {group.settings['box_delay']}")
    if group.method == "constrained" and group.settings["free_epochs"]:
        parts.append(f"free for {group.settings['free_epochs']}")
    return ", ".join(parts)


def projection(groups: Sequence[Group], optimum: float) -> Table:
    """One row a method: gap to the optimum, violation. What training costs is timed by itself, in the study steps."""
    return [
        {
            "method": group.label,
            "runs": str(group.runs),
            "trained": trained(group),
            "validation loss, best": spread(group.spread("best_val_loss"), ".5f"),
            "gap to the optimum": _with_unit(spread(gap(group, optimum), ".2f"), "%"),
            "paper": _paper_gap(group),
            "largest violation": largest(group.summary("violation")),
            "inside": percent(group.summary("inside")),
        }
        for group in groups
    ]


def _with_unit(text: str, unit: str) -> str:
    return text if text == "–" else f"{text} {unit}"


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
            "ELBO (test)": spread(group.summary("test_elbo"), ".2f"),
            "inside exactly": percent(group.summary("inside_exactly"), ".2f"),
            "inside": percent(group.summary("inside"), ".2f"),
            "read right": percent(group.summary("plain_accuracy")),
            "score of samples": spread(group.summary("plain_score"), ".2f"),
            "read right, reader of the set": percent(group.summary("inside_accuracy")),
            "score, reader of the set": spread(group.summary("inside_score"), ".2f"),
        }
        for group in groups
    ]


def timing(groups: Sequence[Group]) -> Table:
    """One row a model and method: seconds, ratios of medians to the unconstrained network and to the loop."""
    return [_timed(group, case) for group in groups for case in group.numbers["cases"]]


def _timed(group: Group, case: dict[str, Any]) -> dict[str, str]:
    ratio, gain, mine = (
        case[name] for name in ("times_the_unconstrained_network", "faster_than_the_osqp_loop", "median_seconds")
    )
    return {
        "model": case["model"],
        "threads": str(group.settings["network_threads"]),
        "method": timed_name(case),
        "seconds": spread(Spread.read(case["seconds"], case["repeats"]), ".3f"),
        "repeats": str(case["repeats"]),
        "added to the unconstrained network": f"{mine - mine / ratio:.3f} s" if ratio else "–",
        "times the unconstrained network": f"{ratio:.2f}" if ratio else "–",
        "faster than the OSQP loop by": f"{gain:.0f}x" if gain else "–",
        "paper": paper.TIMES.get((case["model"], case["label"]), "–"),
    }


def steps(groups: Sequence[Group]) -> Table:
    """One row a size and method: milliseconds of a training step, and the ratio of medians to the free network."""
    return [
        {
            "images": case["model"],
            "method": full_name(case["method"]),
            "milliseconds a step": f"{1e3 * case['median_seconds']:.2f}",
            "middle half": " to ".join(f"{1e3 * end:.2f}" for end in case["middle_half"]),
            "repeats": str(case["repeats"]),
            "times the unconstrained network": times(case["times_the_unconstrained_network"]),
        }
        for group in groups
        for case in group.numbers["cases"]
    ]


def times(ratio: float | None) -> str:
    """A ratio: 1.15, 35, 1200."""
    return "–" if ratio is None else f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2f}"


def small(groups: Sequence[Group]) -> Table:
    """One row a way: loss at the end, violation, cost."""
    return [
        {
            "way": group.label,
            "runs": str(group.runs),
            "validation loss, last": spread(group.spread("last_val_loss"), ".5f"),
            "gap to the optimum": _small_gap(group),
            "largest violation": largest(group.summary("violation")),
            "seconds an epoch": spread(group.spread("seconds_an_epoch"), ".2f"),
        }
        for group in groups
        if group.epochs
    ]


def _small_gap(group: Group) -> str:
    """Against the loss of the targets' own nearest points; – where the targets are inside and that is 0."""
    optimum, last = group.summary("optimum"), group.spread("last_val_loss")
    if optimum is None or last is None or optimum.mean < 1e-9:
        return "–"
    return f"{100 * (last.mean / optimum.mean - 1):.2f} %"


def computed(studies: Mapping[str, Sequence[Group]]) -> Table:
    """One row a study: what was computed for it, and for how many hours."""
    return [
        {
            "study": study,
            "settings": str(len(groups)),
            "runs": str(sum(group.runs for group in groups)),
            "longest, epochs": str(max(group.epochs for group in groups) or "–"),
            "hours": f"{sum(map(_seconds, groups)) / 3600:.2f}",
        }
        for study, groups in ((name, studies[name]) for name in NAMES if name in studies)
    ]


def _seconds(group: Group) -> float:
    """Of all runs together."""
    cost = group.spread("seconds_an_epoch")
    if cost is not None:
        return cost.mean * group.epochs * group.runs
    return sum(case["seconds"]["mean"] * case["repeats"] for case in group.numbers.get("cases", []))


def settings_line(groups: Sequence[Group]) -> str:
    """The settings that all groups share, in one line."""
    common = {
        key: value for key, value in groups[0].settings.items() if all(g.settings.get(key) == value for g in groups)
    }
    return ", ".join(f"{key} {value}" for key, value in common.items() if value is not None)
