"""What README and docs quote: the published numbers carry their settings, and the page shows the same numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from experiments.publish import fill
from experiments.settings import as_dict
from experiments.studies.projection import ProjectionSettings
from experiments.studies.vae import VaeSettings

ROOT = Path(__file__).parent.parent
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text() for name in ("reproduction", "reproduction_runs")}
PUBLISHED = sorted((ROOT / "results" / "published").glob("*.json"))


def groups(study: str) -> list[dict]:
    return json.loads((ROOT / "results" / "published" / f"{study}.json").read_text())["groups"]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_files_are_small_and_name_their_study(path):
    assert path.stat().st_size < 200_000
    assert json.loads(path.read_text())["study"] == path.stem


@pytest.mark.parametrize(("study", "kind"), [("projection", ProjectionSettings), ("vae", VaeSettings)])
def test_every_published_number_carries_all_of_its_settings(study, kind):
    for group in groups(study):
        assert set(group["settings"]) == set(as_dict(kind())) - {"seed"}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_tables_of_what_is_published(page, tmp_path):
    copy = tmp_path / "page.md"
    copy.write_text(PAGES[page], encoding="utf-8")
    fill(copy, ROOT / "results" / "published")
    assert copy.read_text(encoding="utf-8") == PAGES[page], (
        f"python -m experiments publish --again --fill docs/{page}.md"
    )


def test_every_study_that_is_published_has_its_table():
    tables = re.findall(r"<!-- (\w+) -->\n\|", PAGES["reproduction_runs"])
    assert sorted(tables) == sorted([*(path.stem for path in PUBLISHED), "computed", "related"])


def test_a_table_shows_the_published_numbers():
    table = PAGES["reproduction_runs"].split("<!-- projection -->")[1].split("<!-- end -->")[0]
    for group in groups("projection"):
        row = next(line for line in table.splitlines() if line.startswith(f"| {group['label']} |"))
        assert f"{group['gap_percent']['mean']:.2f}" in row


def test_the_page_shows_the_papers_figures_and_they_exist():
    shown = re.findall(r"!\[[^\]]+\]\((_static/reproduction/[^)]+)\)", PAGES["reproduction"])
    drawn = {"projection-convergence.svg", "projection-images.png", "vae-samples.png", "timing.svg"}
    assert drawn <= {Path(name).name for name in shown}
    assert all((ROOT / "docs" / name).stat().st_size < 200_000 for name in shown)


def test_constrained_is_below_one_percent_and_never_outside():
    ours = [group for group in groups("projection") if group["settings"]["method"] == "constrained"]
    assert ours
    for group in ours:
        assert group["gap_percent"]["mean"] < 1
        assert group["summary"]["violation"]["mean"] == 0
        assert group["summary"]["inside_exactly"]["mean"] == 1
