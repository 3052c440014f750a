"""The report: made from saved results alone, never training."""

from __future__ import annotations

from pathlib import Path

from experiments.errors import ResultsError


def make(out: Path, title: str = "The paper's studies, reproduced") -> Path:
    """Read every run below ``out`` and write report.html, report.md and figures/ there; returns the HTML file."""
    from experiments.report import sections
    from experiments.report.collect import collect
    from experiments.report.pages import write
    from experiments.studies import SMALL

    studies = collect(out)
    if not studies:
        raise ResultsError(f"no results below {out}: run a study first, for example make demo.")
    parts = [getattr(sections, name)(studies[name]) for name in ("projection", "vae", "timing") if name in studies]
    parts += [sections.small(name, *SMALL[name], studies[name]) for name in SMALL if name in studies]
    return write(Path(out), title, parts)
