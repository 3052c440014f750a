"""The report: made from saved results alone, never training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ResultsError

if TYPE_CHECKING:
    from experiments.report.pages import Section


def make(out: Path, title: str = "The paper's studies, reproduced") -> Path:
    """Read every run below ``out`` and write report.html, report.md and figures/ there; returns the HTML file."""
    from experiments.report.pages import write

    return write(Path(out), title, list(sections_of(out).values()))


def sections_of(out: Path) -> dict[str, Section]:
    """The sections of the report, by study."""
    from experiments.report import sections
    from experiments.report.collect import collect
    from experiments.studies import SMALL

    studies = collect(out)
    if not studies:
        raise ResultsError(f"no results below {out}: run a study first, for example make demo.")
    papers = {name: getattr(sections, name) for name in ("projection", "vae", "timing")}
    made = {name: section(studies[name]) for name, section in papers.items() if name in studies}
    return made | {name: sections.small(name, *SMALL[name], studies[name]) for name in SMALL if name in studies}
