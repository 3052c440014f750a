"""The sections of the report: each figure and table of the paper has its twin here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from experiments.report import figures, paper, tables
from experiments.report.collect import Group
from experiments.report.pages import Figure, Section

ORDER = (
    "unconstrained",
    "optimum",
    "ttp",
    "paper",
    "constrained",
    "projection",
    "alternating",
    "lagrangian",
    "penalty",
)
HARD = ("ttp", "paper", "constrained", "projection")
OPTIMUM = 0.355553  # of the 1000 validation digits; the method ``optimum`` measures it again


def projection(groups: Sequence[Group]) -> Section:
    """Figures 3 and 4: convergence of the validation loss, and test images."""
    ranked = _ranked(groups)
    optimum = next((float(g.curve("val_loss").min()) for g in ranked if g.method == "optimum"), OPTIMUM)
    section = Section("Learned projection (the paper's figures 3 and 4)", [paper.WHY["projection"]])
    section.text.append("Settings of all rows: " + tables.settings_line(ranked) + ".")
    section.table = tables.projection(ranked, optimum)
    hard = [g for g in ranked if g.method in HARD and g.curve("val_loss").size]
    if hard:
        png = figures.convergence(hard, "val_loss", "validation loss, mean squared error per pixel", optimum)
        caption = (
            "Validation loss over epochs and over time; shaded: one standard deviation over the runs. Hard methods "
            "only: outside the set a loss below the optimum means nothing."
        )
        section.figures.append(Figure("projection-convergence", caption, png))
    pictures = {group.label: group.pictures() for group in ranked}
    columns = {_narrow(label): found["x"] for label, found in pictures.items() if "x" in found}
    if columns:
        image = next(found["image"] for found in pictures.values() if "image" in found)
        png = figures.side_by_side({"image": image, **columns}, rows=min(5, len(image)))
        caption = "Test images: the image, then what each method makes of it (black is -1, white is 1)."
        section.figures.append(Figure("projection-images", caption, png))
    return section


def vae(groups: Sequence[Group]) -> Section:
    """Figures 1 and 5: samples of the prior, the latent plane, and numbers for both."""
    ranked = _ranked(groups)
    section = Section("Constrained VAE (the paper's figures 1 and 5)", [paper.WHY["vae"]])
    section.text.append("Settings of all rows: " + tables.settings_line(ranked) + ".")
    section.text.append(
        "Inside exactly: share of 10 000 samples of the prior that satisfy every row and bound in rational arithmetic; "
        "inside: the same up to 16 units in the last place of float32. Read right: share of test digits that a small "
        "classifier, trained on real digits, reads correctly after encoding and decoding. Score of samples: exp of the "
        "mean KL(p(class | sample) ‖ p(class)), 1 to 10. The reader of the set is trained on real digits moved to the "
        "nearest point of the set, so that it knows the checkerboard."
    )
    section.table = tables.vae(ranked)
    pictures = {_narrow(group.label): group.pictures() for group in ranked}
    for key, side, name, caption in (
        ("sample", 5, "vae-samples", "Samples of the prior, drawn at the same latent points for each method."),
        ("grid", 12, "vae-plane", "The latent plane at equal steps of probability."),
    ):
        found = {label: images[key] for label, images in pictures.items() if key in images}
        if found:
            section.figures.append(Figure(name, caption, figures.mosaics(found, side)))
    hard = [g for g in ranked if g.method in HARD and g.curve("val_loss").size]
    if hard:
        png = figures.convergence(hard, "val_loss", "negative ELBO on the validation set, nats")
        caption = (
            "Negative ELBO over epochs and over time, of the hard methods; shaded: one standard deviation over the "
            "runs. While its box is delayed, a method is trained without the box and judged with it."
        )
        section.figures.append(Figure("vae-convergence", caption, png))
    return section


def timing(groups: Sequence[Group]) -> Section:
    """Table 1."""
    section = Section("Inference time (the paper's table 1)", [paper.WHY["timing"]])
    section.table = tables.timing(groups)
    for group in groups:
        section.text.append("Settings: " + tables.settings_line([group]) + ".")
        for summary in group.summaries:
            section.text.append(
                f"Converting the checkerboard to generators took {summary['conversion_seconds']:.3f} s (paper: "
                f"{paper.CONVERSION}). Measured on {summary['processor']}, {summary['threads']} thread(s), torch "
                f"{summary['torch']}."
            )
    panels: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        for row in (line for run in group.metrics for line in run):
            panels.setdefault(f"{row['model']}, network threads: {group.settings['network_threads']}", []).append(row)
    caption = "Median seconds for all samples, logarithmic; the whisker is the middle half of the repeats."
    section.figures.append(Figure("timing", caption, figures.times(panels)))
    return section


def small(study: str, title: str, text: str, groups: Sequence[Group]) -> Section:
    """A small study: one table and its curves."""
    ranked = _ranked(groups)
    section = Section(
        title, [text, "Settings of all rows: " + tables.settings_line(ranked) + "."], tables.small(ranked)
    )
    for cost in (g.values("full_size_seconds_a_sample") for g in ranked):
        if len(cost):
            section.text.append(f"One 28 x 28 image, forwards and backwards, takes qpth {cost.mean():.3g} s.")
    curves = [g for g in ranked if g.curve("val_loss").size]
    if curves:
        png = figures.convergence(curves, "val_loss", "validation loss")
        section.figures.append(Figure(study, "Validation loss over epochs and over time.", png))
    return section


def _ranked(groups: Sequence[Group]) -> list[Group]:
    rank = {name: place for place, name in enumerate(ORDER)}
    return sorted(groups, key=lambda g: (rank.get(g.method, len(ORDER)), g.label))


def _narrow(label: str) -> str:
    """A label that fits over a picture: a line for each part, or two."""
    return "\n".join(textwrap.fill(part.strip(), 13) for part in label.split(","))
