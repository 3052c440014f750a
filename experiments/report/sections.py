"""What the sections of the report share: the order of the methods, which are hard, labels that fit over a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from experiments.report import figures, tables
from experiments.report.groups import Group
from experiments.report.pages import Figure, Section

ORDER = (
    "unconstrained",
    "optimum",
    "ttp",
    "paper",
    "constrained",
    "projection",
    "leak",
    "alternating",
    "lagrangian",
    "penalty",
)
HARD = ("ttp", "paper", "constrained", "projection", "leak", "optnet", "softmax")


def small(study: str, title: str, text: str, groups: Sequence[Group]) -> Section:
    """A small study: one table and its curves."""
    rows = ranked(groups)
    settings = "Settings of all rows: " + tables.settings_line(rows) + "."
    section = Section(title, [text, settings], tables.small(rows))
    curves = [g for g in rows if g.curve()]
    if curves:
        drawing = figures.convergence(curves, "validation loss")
        section.figures.append(Figure(study, f"Validation loss over epochs and over time{shaded(curves)}.", drawing))
    return section


def ranked(groups: Sequence[Group]) -> list[Group]:
    """The groups in the order of their methods."""
    rank = {name: place for place, name in enumerate(ORDER)}
    return sorted(groups, key=lambda g: (rank.get(g.method, len(ORDER)), g.label))


def best_of_each(groups: Sequence[Group]) -> list[Group]:
    """Of each method the group with the least validation loss, in the order of the groups."""
    loss = {id(g): spread.mean if (spread := g.spread("best_val_loss")) else float("inf") for g in groups}
    best: dict[str, Group] = {}
    for group in groups:
        if group.method not in best or loss[id(group)] < loss[id(best[group.method])]:
            best[group.method] = group
    return list(best.values())


def is_hard(method: str) -> bool:
    """Whether every point it delivers is inside."""
    return method in HARD


def hard(groups: Sequence[Group]) -> list[Group]:
    """Those whose points are always inside, and that have a curve to show."""
    return [g for g in groups if is_hard(g.method) and g.curve()]


def shaded(groups: Sequence[Group]) -> str:
    """What the shading means, where there is any."""
    known = any(group.runs > 1 and "std" in group.curve() for group in groups)
    return "; shaded: one standard deviation over the runs" if known else ""


def narrow(label: str) -> str:
    """A label that fits over a picture: a line for each part, or two."""
    return "\n".join(textwrap.fill(part.strip(), 17, break_long_words=False) for part in label.split(","))
