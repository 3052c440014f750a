"""The report: made from saved results alone, never training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ResultsError

if TYPE_CHECKING:
    from experiments.report.groups import Group
    from experiments.report.pages import Section
    from experiments.report.tables import Table

FEW = 6  # rows of a study's table in a brief report
IN_BRIEF = ("the paper's layer", "rayhull.Constrained", "test-time projection, OSQP loop")  # of each model


def make(out: Path, beside: Mapping[str, Sequence[Group]] | None = None) -> Path:
    """Read every run below ``out`` and write report.html, report.md and figures/ there; returns the HTML file.

    ``beside``: results of the same studies, such as the published ones; then the report is brief, with these, the
    settings and further pictures folded.
    """
    from experiments.report.pages import write

    studies = collected(out)
    shown = list(sections_of(studies).values()) if beside is None else list(_brief(studies, beside))
    return write(Path(out), title(studies), shown)


def _brief(studies: Mapping[str, Sequence[Group]], beside: Mapping[str, Sequence[Group]]) -> Iterator[Section]:
    """What was found, then of each study a sentence, a few rows and a picture."""
    from experiments.report.headlines import headlines
    from experiments.report.pages import Section

    yield Section("What was found", headlines(studies))
    for study, whole in sections_of(studies).items():
        sentence = f"{whole.text[0].partition('. ')[0].rstrip('.')}."
        yield Section(whole.title, [sentence], few(whole.table), whole.figures[:1])
        rest = whole.table if len(whole.table) > FEW else []
        yield Section("Settings, measures, further pictures", whole.text, rest, whole.figures[1:], folded=True)
        if study in beside:
            yield _published(sections_of({study: beside[study]})[study])


def few(table: Table) -> Table:
    """The first rows of a long table; of one with several models, the same methods of each."""
    of_each = [row for row in table if row.get("model") and row["method"] in IN_BRIEF]
    return table if len(table) <= FEW else (of_each or table)[:FEW]


def _published(section: Section) -> Section:
    """A section of published results: under its own title and file names, without what the first one said."""
    for figure in section.figures:
        figure.name = f"published-{figure.name}"
    section.title = f"{section.title.partition(' (')[0]}: published runs of full length"
    section.text = ["Not run now: these are the repository's results/published, each row with its length in epochs."]
    section.folded = True
    return section


def sections_of(studies: Mapping[str, Sequence[Group]]) -> dict[str, Section]:
    """The sections of the report, by study."""
    from experiments.studies import NAMES, load

    return {name: load(name).section(studies[name]) for name in NAMES if name in studies}


def title(studies: Mapping[str, Sequence[Group]]) -> str:
    """What it is: how large, how long, how many runs of each row."""
    from experiments.studies import TIMED

    groups = [group for name in studies if name not in TIMED for group in studies[name]]
    small = any(group.settings.get("dataset") == "mnist-small" for group in groups)
    name = "The paper's studies in small" if small else "The paper's studies"
    if not groups:
        return name
    runs = sorted({group.runs for group in groups})
    several = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else str(runs[0])
    epochs = max(group.epochs for group in groups)
    times = "one run" if several == "1" else f"{several} runs"
    return f"{name}: {times} of each method, {'at most ' if len(groups) > 1 else ''}{epochs} epochs"


def collected(out: Path, unfinished: bool = True) -> dict[str, list[Group]]:
    """Every run below ``out``, by study; refused where there is none."""
    from experiments.report.collect import collect

    studies = collect(out, unfinished)
    if not studies:
        raise ResultsError(f"no results below {out}: run a study first, for example make demo.")
    return studies
