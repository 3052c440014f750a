"""What README and docs quote: the published numbers carry their settings, and the page shows the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.settings import as_dict
from experiments.studies.projection import ProjectionSettings
from experiments.studies.vae import VaeSettings

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reproduction.md").read_text()
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


def test_the_page_shows_the_published_gaps():
    table = PAGE.split("<!-- projection -->")[1].split("<!-- end -->")[0]
    for group in groups("projection"):
        row = next(line for line in table.splitlines() if line.startswith(f"| {group['label']} |"))
        assert f"{group['gap_percent']['mean']:.2f}" in row


def test_the_page_shows_the_published_elbos():
    table = PAGE.split("<!-- vae -->")[1].split("<!-- end -->")[0]
    finished = [group for group in groups("vae") if group["finished_runs"]]
    assert {"ttp", "constrained", "unconstrained"} <= {group["settings"]["method"] for group in finished}
    for group in finished:
        row = next(line for line in table.splitlines() if line.startswith(f"| {group['label']} |"))
        assert f"{group['summary']['test_elbo']['mean']:.2f}" in row


def test_the_page_shows_the_published_times():
    for group in groups("timing"):
        for case in group["cases"]:
            start = f"| {case['model']} | {group['settings']['network_threads']} | {case['label']} |"
            row = next(line for line in PAGE.splitlines() if line.startswith(start))
            assert f"{case['times_the_unconstrained_network']:.2f}" in row


def test_constrained_is_below_one_percent_and_never_outside():
    ours = [group for group in groups("projection") if group["settings"]["method"] == "constrained"]
    assert ours
    for group in ours:
        assert group["gap_percent"]["mean"] < 1
        assert group["summary"]["violation"]["mean"] == 0
        assert group["summary"]["inside_exactly"]["mean"] == 1
