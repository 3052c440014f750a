"""Publishing: numbers with their settings, seeds of several days counted once, rows taken out, pages filled."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from experiments import cli
from experiments.publish import publish, read
from experiments.studies.projection import ProjectionSettings
from experiments.studies.timing import TimingSettings
from tests.finished_runs import write_results, write_run


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def test_published_numbers_carry_their_settings(results, tmp_path):
    assert cli.main(["publish", "--out", str(results), "--to", str(tmp_path / "published")]) == 0
    group = json.loads((tmp_path / "published" / "projection.json").read_text())["groups"][0]
    assert group["runs"] == 2
    assert group["settings"]["learning_rate"] == 1e-4
    assert group["gap_percent"]["mean"] == pytest.approx(3.92, abs=0.01)


def test_publishing_joins_what_was_published_before(results, tmp_path):
    to = tmp_path / "published"
    assert cli.main(["publish", "--out", str(results), "--to", str(to)]) == 0
    again, other = tmp_path / "again", ProjectionSettings(method="paper", epochs=3)
    lines = [{"epoch": 1, "val_loss": 0.5, "seconds": 1.0}]
    pictures = {"image": torch.zeros(10, 28, 28), "x": torch.full((10, 28, 28), -1.0)}
    summary = {"violation": 0.0, "inside": 1.0}
    same = ProjectionSettings(seed=7, epochs=3)
    write_run(again / "projection" / "constrained" / "seed-7", "projection", same, lines, summary, pictures)
    write_run(again / "projection" / "paper" / "seed-0", "projection", other, lines, summary)
    assert cli.main(["publish", "--out", str(again), "--to", str(to)]) == 0
    ours, paper = read(to)["projection"]
    best = ours.spread("best_val_loss")
    assert (ours.seeds, best.runs, best.mean) == ([0, 1, 7], 3, pytest.approx((2 * 0.3695 + 0.5) / 3))
    assert np.abs(ours.pictures["x"] + 1).max() < 1e-9  # the new pictures
    assert (paper.runs, paper.label) == (1, "the paper's layer")
    assert set(read(to)) == {"projection", "vae", "timing"}


def test_seeds_that_were_run_apart_make_the_group_they_would_have_made_together(tmp_path):
    settings, rng = ProjectionSettings(epochs=4), np.random.default_rng(0)
    for seed in range(5):
        lines = [{"epoch": e + 1, "val_loss": float(rng.random()), "seconds": 2.0 * e + seed} for e in range(4)]
        own, summary = dataclasses.replace(settings, seed=seed), {"violation": float(rng.random()), "inside": 1.0}
        for folder in ("all", "first" if seed < 2 else "last"):
            write_run(tmp_path / folder / "projection" / f"seed-{seed}", "projection", own, lines, summary)
    publish(tmp_path / "all", tmp_path / "at-once")
    for part in ("first", "last", "all", "last"):  # what is published twice counts once
        publish(tmp_path / part, tmp_path / "apart")
        [apart] = json.loads((tmp_path / "apart" / "projection.json").read_text())["groups"]
        assert apart["seeds"] == ([0, 1] if part == "first" else [0, 1, 2, 3, 4])
        if part == "last":
            [at_once] = json.loads((tmp_path / "at-once" / "projection.json").read_text())["groups"]
            assert_close(apart, at_once)


def assert_close(one, other):
    """The same numbers up to nine digits, wherever they stand."""
    if isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            assert_close(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_close(mine, theirs)
    else:
        assert one == (pytest.approx(other, rel=1e-6, abs=1e-9) if isinstance(one, float) else other)


def test_a_seed_that_was_published_is_not_counted_again_beside_new_ones(tmp_path):
    lines = [{"epoch": 1, "val_loss": 0.5, "seconds": 1.0}]
    for folder, seeds in (("old", (0, 1)), ("new", (1, 2))):
        for seed in seeds:
            own, lines[0]["val_loss"] = ProjectionSettings(epochs=1, seed=seed), 0.1 * seed
            write_run(tmp_path / folder / "projection" / f"seed-{seed}", "projection", own, lines, {"inside": 1.0})
        publish(tmp_path / folder, tmp_path / "published")
    [group] = read(tmp_path / "published")["projection"]
    assert (group.seeds, group.runs) == ([0, 1, 2], 3)
    assert group.spread("best_val_loss")[:3] == pytest.approx((0.1, 0.1, 0.2))


def test_pictures_of_another_size_are_not_put_on_the_sheet(tmp_path):
    lines, pictures = [{"epoch": 1, "val_loss": 0.4, "seconds": 2.0}], {"x": torch.rand(10, 8, 8)}
    where = tmp_path / "runs" / "projection" / "constrained" / "seed-0"
    write_run(where, "projection", ProjectionSettings(epochs=1), lines, {"violation": 0.0}, pictures)
    (written,) = publish(tmp_path / "runs", tmp_path / "published")
    (group,) = json.loads(written.read_text())["groups"]
    assert "pictures" not in group


def test_only_finished_runs_are_published(results, tmp_path):
    (results / "projection" / "constrained" / "seed-1" / "summary.json").unlink()
    assert cli.main(["publish", "--out", str(results), "--to", str(tmp_path / "published")]) == 0
    assert [group.runs for group in read(tmp_path / "published")["projection"]] == [1]


def test_new_times_replace_those_with_fewer_repeats(results, tmp_path):
    to, lines = tmp_path / "published", [{"epoch": 0, "model": "projection", "method": "paper", "label": "paper"}]
    publish(results, to)
    for threads, seconds in ((1, [3.0] * 4), (2, [5.0] * 4)):
        settings = TimingSettings(repeats=4, solver_repeats=2, network_threads=threads)
        lines[0]["seconds"] = seconds
        write_run(tmp_path / "new" / "timing" / f"{threads}", "timing", settings, lines, {"threads": threads})
    publish(tmp_path / "new", to)
    found = {group.settings["network_threads"]: group.numbers["cases"] for group in read(to)["timing"]}
    assert {threads: [case["median_seconds"] for case in cases] for threads, cases in found.items()} == {1: [3], 2: [5]}


def test_rows_that_others_replace_can_be_taken_out(results, tmp_path, capsys):
    to = tmp_path / "published"
    other = ProjectionSettings(epochs=3, box_delay=0)
    lines = [{"epoch": 1, "val_loss": 0.5, "seconds": 1.0}]
    write_run(results / "projection" / "other" / "seed-0", "projection", other, lines, {"violation": 0.0, "inside": 1})
    publish = ["publish", "--out", str(results), "--to", str(to)]
    assert cli.main([*publish, "--retire", "projection", "rayhull.Constrained, box from the start"]) == 0
    [left] = read(to)["projection"]
    assert (left.label, left.runs) == ("rayhull.Constrained", 2)
    assert left.pictures["x"].shape == (5, 28, 28)
    assert cli.main([*publish, "--again", "--retire", "projection", "nonsense"]) == 2
    assert "has no published row ['nonsense']" in capsys.readouterr().err
    assert len(read(to)["projection"]) == 1


def test_figures_and_tables_of_a_page_come_from_what_is_published(results, tmp_path):
    to, page = tmp_path / "published", tmp_path / "page.md"
    page.write_text("before\n<!-- projection -->\nold\n<!-- end -->\nafter\n")
    command = ["publish", "--out", str(results), "--to", str(to), "--fill", str(page)]
    command += ["--draw", str(tmp_path / "drawn")]
    assert cli.main([*command, "--format", "svg", "pdf"]) == 0
    assert "3.92 ± 0.20 %" in page.read_text()
    assert "old" not in page.read_text()
    drawn = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert {"projection-convergence.svg", "projection-convergence.pdf", "projection-images.png", "timing.svg"} <= drawn
    first = (tmp_path / "drawn" / "timing.svg").read_bytes()
    assert cli.main([*command, "--again"]) == 0
    assert (tmp_path / "drawn" / "timing.svg").read_bytes() == first
