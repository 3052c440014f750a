"""The report: from saved results alone, self-contained, and honest about what is not there."""

from __future__ import annotations

import dataclasses
import io
import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from experiments import cli, plan, progress
from experiments.errors import ResultsError, SettingsError
from experiments.publish import publish, read
from experiments.report import make
from experiments.report.collect import collect
from experiments.report.figures import columns, mosaic
from experiments.report.groups import Group, name_apart
from experiments.report.headlines import headlines
from experiments.report.related import related
from experiments.settings import as_dict
from experiments.studies import load
from experiments.studies.projection import ProjectionSettings, figure_3, swept
from experiments.studies.timing import TimingSettings
from experiments.studies.vae import VaeSettings


def write_run(folder, study, settings, lines, summary, pictures=None):
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"study": study, **as_dict(settings)}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "summary.json").write_text(json.dumps(summary))
    if pictures:
        save_file(pictures, folder / "samples.safetensors")


@pytest.fixture
def results(tmp_path):
    """Two seeds of a projection run, one VAE run, one timing run, as a study would leave them."""
    for seed in range(2):
        lines = [{"epoch": e, "val_loss": 0.4 - 0.01 * e - 0.001 * seed, "seconds": 2.0 * e} for e in (1, 2, 3)]
        summary = {"violation": 0.0, "inside": 1.0, "inside_exactly": 1.0}
        pictures = {"image": torch.rand(10, 28, 28), "x": torch.rand(10, 28, 28)}
        where = tmp_path / "projection" / "constrained" / f"seed-{seed}"
        write_run(where, "projection", ProjectionSettings(seed=seed, epochs=3), lines, summary, pictures)
    vae = {"test_elbo": -80.0, "inside_exactly": 1.0, "inside": 1.0, "plain_accuracy": 0.5, "plain_score": 3.0}
    vae |= {"inside_accuracy": 0.6, "inside_score": 4.0}
    lines = [{"epoch": 1, "val_loss": 80.0, "seconds": 3.0}]
    pictures = {"sample": torch.rand(64, 28, 28), "grid": torch.rand(144, 28, 28)}
    write_run(tmp_path / "vae" / "ttp" / "seed-0", "vae", VaeSettings(method="ttp"), lines, vae, pictures)
    lines = [
        {"epoch": 0, "model": "projection", "method": name, "label": label, "seconds": seconds}
        for name, label, seconds in (
            ("unconstrained", "unconstrained", [1.0, 1.0]),
            ("constrained", "constrained", [1.1, 1.1]),
            ("ttp", "ttp, OSQP loop", [550.0]),
        )
    ]
    machine = {"conversion_seconds": 0.02, "threads": 1, "torch": "2.13", "processor": "a processor"}
    write_run(tmp_path / "timing" / "all" / "seed-0", "timing", TimingSettings(), lines, machine)
    return tmp_path


def test_the_page_is_one_file_with_its_pictures_inside(results):
    page = make(results).read_text()
    assert page.count("data:image/png;base64,") == 6
    assert not re.search(r"src='(?!data:)", page)


def test_the_gap_is_the_best_epoch_averaged_over_the_seeds(results):
    make(results)
    text = (results / "report.md").read_text()
    assert "3.92 ± 0.20 %" in text  # (0.37 and 0.369) over 0.355553


def test_times_are_compared_with_the_network_and_with_the_loop_and_with_the_paper(results):
    make(results)
    row = next(
        line for line in (results / "report.md").read_text().splitlines() if "| projection | 1 | constrained" in line
    )
    assert "| 0.100 s | 1.10 | 500x |" in row
    assert "82 ± 1 s" in (results / "report.md").read_text()


def test_markdown_names_figures_that_exist(results):
    make(results)
    named = re.findall(r"\((figures/[^)]+)\)", (results / "report.md").read_text())
    assert named
    assert all((results / name).read_bytes().startswith(b"\x89PNG") for name in named)


def test_seeds_are_grouped_and_other_settings_are_told_apart(results):
    other = ProjectionSettings(epochs=3, box_delay=0)
    lines = [{"epoch": 1, "val_loss": 0.5, "seconds": 1.0}]
    write_run(results / "projection" / "other" / "seed-0", "projection", other, lines, {"violation": 0.0, "inside": 1})
    groups = collect(results)["projection"]
    assert sorted((g.label, g.runs) for g in groups) == [
        ("rayhull.Constrained, box after 25 epochs", 2),
        ("rayhull.Constrained, box from the start", 1),
    ]


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    with pytest.raises(ResultsError, match="no results below"):
        make(tmp_path)
    assert cli.main(["report", "--out", str(tmp_path)]) == 2
    assert "run a study first" in capsys.readouterr().err


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


def test_a_run_that_was_annealed_to_a_stop_keeps_its_last_loss(results):
    lines = [{"epoch": 1, "val_loss": 0.1, "seconds": 1.0}, {"epoch": 2, "val_loss": 0.2, "seconds": 2.0}]
    folder = results / "projection" / "constrained" / "seed-1"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [group] = collect(results)["projection"]
    assert group.curve()["mean"].tolist() == pytest.approx([0.245, 0.29, 0.285])
    assert group.spread("best_val_loss").mean == pytest.approx((0.37 + 0.1) / 2)


def test_figures_and_tables_of_a_page_come_from_what_is_published(results, tmp_path):
    to, page = tmp_path / "published", tmp_path / "page.md"
    page.write_text("before\n<!-- projection -->\nold\n<!-- end -->\nafter\n")
    command = [
        "publish",
        "--out",
        str(results),
        "--to",
        str(to),
        "--fill",
        str(page),
        "--draw",
        str(tmp_path / "drawn"),
    ]
    assert cli.main([*command, "--format", "svg", "pdf"]) == 0
    assert "3.92 ± 0.20 %" in page.read_text()
    assert "old" not in page.read_text()
    drawn = {path.name for path in (tmp_path / "drawn").iterdir()}
    assert {"projection-convergence.svg", "projection-convergence.pdf", "projection-images.png", "timing.svg"} <= drawn
    first = (tmp_path / "drawn" / "timing.svg").read_bytes()
    assert cli.main([*command, "--again"]) == 0
    assert (tmp_path / "drawn" / "timing.svg").read_bytes() == first


def test_the_title_says_how_long_and_how_many_runs(results):
    assert make(results).read_text().count("<h1>The paper&#x27;s studies: 3 epochs at most, n = 1 to 2</h1>") == 1


def test_a_caption_speaks_of_shading_only_where_there_is_some(results):
    groups = collect(results)
    assert "shaded" in load("projection").section(groups["projection"]).figures[0].caption
    assert "shaded" not in load("vae").section(groups["vae"]).figures[-1].caption


def test_pictures_leave_no_hole_in_a_grid():
    assert [columns(n) for n in (1, 2, 3, 4, 5, 6, 8, 9)] == [1, 2, 3, 4, 5, 3, 4, 3]


def test_a_mosaic_keeps_the_order_of_its_pictures():
    pictures = np.stack([np.full((2, 2), k) for k in range(4)])
    assert mosaic(pictures, 2)[::3, ::3].tolist() == [[0, 1], [2, 3]]


def test_the_plans_name_every_run_once():
    for jobs in (list(plan.demo()), list(plan.reproduce(2))):
        names = [job.path for job in jobs]
        assert len(names) == len(set(names))


def test_the_three_lines_say_gap_share_and_cost(results):
    optimum = ProjectionSettings(method="optimum", epochs=1)
    lines = [{"epoch": 1, "val_loss": 0.36, "seconds": 1.0}]
    write_run(results / "projection" / "optimum" / "seed-0", "projection", optimum, lines, {"violation": 0.0})
    projection, vae, timing = headlines(collect(results))
    assert "rayhull.Constrained 2.6 ± 0.2 %" in projection  # 0.3695 over 0.36
    assert "test-time projection 100.0 %" in vae
    assert "rayhull.Constrained 1.10x, an OSQP loop 550x" in timing


def test_published_results_stand_beside_under_names_of_their_own(results):
    page = make(results, beside={"vae": collect(results)["vae"]}).read_text()
    assert "Constrained VAE: published runs of full length" in page
    assert (results / "figures" / "published-vae-samples.png").exists()


def test_a_reproduction_has_the_papers_runs():
    jobs = list(plan.reproduce())
    of_study = [j.settings for j in jobs if j.study == "projection"]
    figure_3 = [s for s in of_study if s.schedule == "plateau" and s.generators == "ours"]
    for delay in (25, 0):
        paper = [s for s in figure_3 if (s.method, s.learning_rate, s.box_delay) == ("paper", 1e-4, delay)]
        assert [s.seed for s in paper] == list(range(10))
    rates = [s.learning_rate for s in figure_3 if s.method == "paper" and s.seed == 2 and s.box_delay]
    assert sorted(rates) == [1e-5, 3e-5, 1e-4, 3e-4, 1e-3]
    theirs = {(s.learning_rate, s.schedule) for s in of_study if s.generators == "cddlib"}
    assert theirs == {(1e-4, "plateau"), (1e-3, "plateau"), (1e-4, "halving")}
    for method in ("unconstrained", "ttp", "paper", "constrained"):
        assert sum(j.study == "vae" and j.settings.method == method for j in jobs) == 3
    assert [(j.settings.repeats, j.settings.network_threads) for j in jobs if j.study == "timing"] == [
        (100, 1),
        (100, 2),
    ]


def test_figure_3_shows_the_papers_own_settings_and_the_best_of_each_method():
    def group(loss: float, **settings: object) -> Group:
        saved = as_dict(ProjectionSettings(**settings))
        return Group("projection", saved, {"best_val_loss": {"mean": loss, "std": 0.0}})

    delayed, started = group(0.40, method="paper"), group(0.41, method="paper", box_delay=0)
    better, worse = group(0.38, method="paper", learning_rate=1e-3), group(0.39, method="paper", learning_rate=3e-4)
    ours = [group(0.36, method="constrained"), group(0.35, method="constrained", epochs=60)]
    assert figure_3([delayed, started, better, worse, *ours]) == [delayed, started, better, ours[1]]


def trained_group(study: str, loss: float, summary: dict[str, float], runs: int = 1, **settings: object) -> Group:
    saved = as_dict(ProjectionSettings(**settings))
    spread = {"mean": loss, "std": 0.0, "max": loss}
    of_summary = {key: {"mean": value, "std": 0.0, "max": value} for key, value in summary.items()}
    return Group(study, saved, {"runs": runs, "finished_runs": runs, "best_val_loss": spread, "summary": of_summary})


def test_the_sweep_shows_the_papers_settings_at_every_rate():
    rates = [trained_group("projection", 0.36 + rate, {}, method="paper", learning_rate=rate) for rate in (1e-4, 1e-3)]
    others = [
        trained_group("projection", 0.5, {}, method="paper", box_delay=0),
        trained_group("projection", 0.5, {}, method="paper", schedule="halving"),
        trained_group("projection", 0.5, {}, method="constrained"),
        trained_group("projection", 0.5, {}, method="paper", generators="cddlib"),  # one rate is no sweep
    ]
    found = swept([*rates, *others], optimum=0.36)
    assert list(found) == ["our generators"]
    assert [rate for rate, *_ in found["our generators"]] == [1e-4, 1e-3]
    assert [gap for _, gap, _ in found["our generators"]] == pytest.approx([100 * 1e-4 / 0.36, 100 * 1e-3 / 0.36])


def test_related_work_says_where_each_method_ends_and_what_its_training_costs():
    case = {"model": "28 x 28", "method": "penalty", "times_the_unconstrained_network": 1.25}
    soft = {"violation": 3.0, "best_projected_loss": 0.37}
    studies = {
        "projection": [
            trained_group("projection", 0.2, soft, runs=3, method="penalty"),
            trained_group("projection", 0.9, soft, method="penalty", penalty_weight=1.0),
            trained_group("projection", 0.36, {"violation": 0.0}, method="constrained"),
            trained_group("projection", 0.37, {"violation": 0.0}, method="constrained", epochs=10),  # not its best
        ],
        "optnet": [trained_group("optnet", 0.6, {"violation": 0.0, "optimum": 0.5}, method="optnet")],
        "steps": [Group("steps", {}, {"cases": [case]})],
    }
    name_apart(studies["projection"])
    light, penalty, ours, optnet = related(studies, optimum=0.36)
    assert (light["method"], penalty["method"]) == ("penalty, weight 1", "penalty, weight 10")
    assert (penalty["hard"], penalty["runs"], penalty["training step, times the free network"]) == ("no", "3", "1.25")
    assert penalty["gap, outputs projected"] == "2.78 ± 0.00 %"
    assert penalty["largest violation"] == "3.0e+00"
    assert (ours["hard"], ours["gap to the optimum"], ours["gap, outputs projected"]) == ("yes", "0.00 %", "–")
    assert (optnet["study"], optnet["gap to the optimum"]) == ("the same at 8 x 8", "20.00 %")


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


def test_only_takes_the_runs_that_are_named_in_their_order():
    jobs = plan.only(list(plan.reproduce(2)), ["vae/ttp", "projection/paper/seed-1"])
    assert [one.path for one in jobs] == ["vae/ttp/seed-0", "vae/ttp/seed-1", "projection/paper/seed-1"]


def test_only_refuses_a_name_that_no_run_has():
    with pytest.raises(SettingsError, match=r"--only vae/tpp: no run's name begins so\. Expected one of .*vae/ttp"):
        plan.only(list(plan.reproduce(2)), ["vae", "vae/tpp"])


def test_the_time_left_follows_the_machine():
    assert plan.remaining(spent=60, done=30, guess=100) == 140  # twice as slow as guessed


def test_a_bar_shows_share_and_note_and_writes_a_line_each_tenth():
    stream = io.StringIO()
    with progress.Bar(100, "work", stream=stream) as bar:
        for _ in range(100):
            bar.advance(1, note="loss 0.5")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert "100/100" in lines[-1]
    assert lines[-1].endswith("loss 0.5")


def test_time_is_written_as_a_person_reads_it():
    assert [progress.clock(s) for s in (5, 65, 7300)] == ["5s", "1m05s", "2h01m"]
