"""The report: from saved results alone, self-contained, and honest about what is not there."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

from experiments import cli
from experiments.errors import ResultsError
from experiments.report import FEW, IN_BRIEF, few, make
from experiments.report.collect import collect
from experiments.report.figures import columns, mosaic
from experiments.report.groups import Group, name_apart
from experiments.report.headlines import headlines
from experiments.report.related import related
from experiments.settings import as_dict
from experiments.studies import load
from experiments.studies.projection import ProjectionSettings, figure_3, swept
from tests.finished_runs import write_results, write_run


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


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
    lines = (results / "report.md").read_text().splitlines()
    row = next(line for line in lines if line.startswith("| projection | 1 | rayhull.Constrained |"))
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


def test_a_run_that_was_annealed_to_a_stop_keeps_its_last_loss(results):
    lines = [{"epoch": 1, "val_loss": 0.1, "seconds": 1.0}, {"epoch": 2, "val_loss": 0.2, "seconds": 2.0}]
    folder = results / "projection" / "constrained" / "seed-1"
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [group] = collect(results)["projection"]
    assert group.curve()["mean"].tolist() == pytest.approx([0.245, 0.29, 0.285])
    assert group.spread("best_val_loss").mean == pytest.approx((0.37 + 0.1) / 2)


def test_the_title_says_how_long_and_how_many_runs(results):
    assert (
        make(results)
        .read_text()
        .count("<h1>The paper&#x27;s studies: 1 to 2 runs of each method, at most 3 epochs</h1>")
        == 1
    )


def test_a_caption_speaks_of_shading_only_where_there_is_some(results):
    groups = collect(results)
    assert "shaded" in load("projection").section(groups["projection"]).figures[0].caption
    assert "shaded" not in load("vae").section(groups["vae"]).figures[-1].caption


def test_pictures_leave_no_hole_in_a_grid():
    assert [columns(n) for n in (1, 2, 3, 4, 5, 6, 8, 9)] == [1, 2, 3, 4, 5, 3, 4, 3]


def test_a_mosaic_keeps_the_order_of_its_pictures():
    pictures = np.stack([np.full((2, 2), k) for k in range(4)])
    assert mosaic(pictures, 2)[::3, ::3].tolist() == [[0, 1], [2, 3]]


def test_the_three_lines_say_gap_share_and_cost(results):
    optimum = ProjectionSettings(method="optimum", epochs=1)
    lines = [{"epoch": 1, "val_loss": 0.36, "seconds": 1.0}]
    write_run(results / "projection" / "optimum" / "seed-0", "projection", optimum, lines, {"violation": 0.0})
    projection, vae, timing = headlines(collect(results))
    assert "rayhull.Constrained 2.6 ± 0.2 %" in projection  # 0.3695 over 0.36
    assert "test-time projection 100.0 %" in vae
    assert "rayhull.Constrained takes 1.10 times as long, an OSQP loop 550 times" in timing


def test_published_results_stand_beside_under_names_of_their_own(results):
    page = make(results, beside={"vae": collect(results)["vae"]}).read_text()
    assert "Constrained VAE: published runs of full length" in page
    assert (results / "figures" / "published-vae-samples.png").exists()


def test_a_report_beside_published_results_says_what_was_found_first_and_folds_the_rest(results):
    studies = collect(results)
    page = make(results, beside={"vae": studies["vae"]}).read_text()
    front = re.sub("<details>.*?</details>", "", page, flags=re.DOTALL)
    front = html.unescape(front).replace("\N{NO-BREAK SPACE}", " ")
    assert front.index(headlines(studies)[0]) < front.index("<img")
    assert front.count("<img") == front.count("<table>") == len(studies)
    assert all(table.count("<tr>") <= 1 + FEW for table in front.split("<table>")[1:])
    assert "Settings of all rows" not in front
    assert "published" not in front


def test_few_rows_of_several_models_are_the_same_methods_of_each():
    methods = ["unconstrained", *IN_BRIEF, "test-time projection, our projection"]
    table = [{"model": model, "method": method} for model in ("projection", "vae") for method in methods]
    assert [row["method"] for row in few(table)] == [*IN_BRIEF, *IN_BRIEF]
    assert few(table[:5]) == table[:5]


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
        trained_group("projection", 0.5, {}, method="paper", learning_rate=1e-3, epochs=120),  # cut short
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
