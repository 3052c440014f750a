"""The report: made from saved results alone, never training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.errors import ResultsError

if TYPE_CHECKING:
    from experiments.report.collect import Group
    from experiments.report.pages import Section


def make(out: Path) -> Path:
    """Read every run below ``out`` and write report.html, report.md and figures/ there; returns the HTML file."""
    from experiments.report.pages import write

    studies = _collected(out)
    return write(Path(out), title(studies), list(_sections(studies).values()))


def sections_of(out: Path) -> dict[str, Section]:
    """The sections of the report, by study."""
    return _sections(_collected(out))


def title(studies: Mapping[str, Sequence[Group]]) -> str:
    """What it is: how large, how long, how many runs of each row."""
    groups = [group for name in studies if name != "timing" for group in studies[name]]
    small = any(group.settings.get("dataset") == "mnist-small" for group in groups)
    name = "The paper's studies in small" if small else "The paper's studies"
    if not groups:
        return name
    epochs = max(group.curve("val_loss").shape[1] for group in groups)
    runs = sorted({group.runs for group in groups})
    several = f"{runs[0]} to {runs[-1]}" if len(runs) > 1 else str(runs[0])
    return f"{name}: {epochs} epochs{' at most' if len(groups) > 1 else ''}, n = {several}"


def _collected(out: Path) -> dict[str, list[Group]]:
    from experiments.report.collect import collect

    studies = collect(out)
    if not studies:
        raise ResultsError(f"no results below {out}: run a study first, for example make demo.")
    return studies


def _sections(studies: Mapping[str, Sequence[Group]]) -> dict[str, Section]:
    from experiments.studies import NAMES, load

    return {name: load(name).section(studies[name]) for name in NAMES if name in studies}
