"""Every benchmark can be started, and a peer that cannot be had is a row with its reason, not the end of a run."""

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.harness import Timing

NAMES = ("conversion", "layer", "projection", "projection_accuracy", "projection_choices", "scale", "summary")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_can_be_imported(name):
    assert callable(importlib.import_module(f"benchmarks.{name}").main)


def test_a_layer_that_cannot_be_had_has_its_reason_in_its_row():
    from benchmarks.layer import report

    timing = Timing(1e-3, 1e-3, 1e-3, 1)
    part = {"inference": {"nn.Linear": timing}, "training": {"nn.Linear": timing}}
    part["skipped"] = {"RAYEN": "ModuleNotFoundError: No module named 'cdd'"}
    text = report({"cone, 1 threads": part, "growth": {}, "set-up": {"rayhull, strict": 1.0}})
    assert any(line.startswith("| RAYEN, left out: ModuleNotFoundError") for line in text.splitlines())


def test_a_solver_that_cannot_be_had_has_its_reason_in_its_row():
    from benchmarks.projection import OURS, PAPER, everything, summary

    timed = {"seconds": SimpleNamespace(median=1e-3), "samples": 1, "error": 0.0}
    ways = {OURS: timed, PAPER: timed, "qpth": {"left out": "ModuleNotFoundError: No module named 'qpth'"}}
    assert "left out: ModuleNotFoundError" in everything({"box": ways})
    ways |= {f"{OURS}, 2 threads": timed, f"{OURS}, batch 1": timed, f"{PAPER}, batch 1": timed}
    assert summary({"box": ways})[0][0] == "box"


def test_an_engine_that_is_not_installed_says_so():
    from benchmarks.conversion import cell

    assert cell({"state": "error", "error": "ModuleNotFoundError: No module named 'cdd'"}) == "not installed"


def test_a_learning_run_goes_on_where_the_rates_or_a_package_changed() -> None:
    from benchmarks.learning import RATES, SEEDS, is_done

    runs = [{"rate": rate, "seed": seed} for rate in RATES for seed in SEEDS]
    assert is_done("polytope", {"loss": 1.0, "runs": runs})
    assert is_done("polytope", {"left out": "needs independent rows"})
    assert not is_done("polytope", {"left out": "not installed: rayen"})
    assert not is_done("polytope", None)
    assert not is_done("polytope", {"loss": 1.0, "runs": [run for run in runs if run["rate"] != RATES[0]]})
    assert not is_done("polytope", {"loss": 1.0, "runs": [run for run in runs if run["seed"] != SEEDS[-1]]})
    split = [run | {"split": k} for run in runs for k in range(6) if run["seed"] in SEEDS[:3]]
    assert is_done("discount factors", {"loss": 1.0, "runs": split})
    assert not is_done("discount factors", {"loss": 1.0, "runs": runs})  # one split of six


def test_splits_of_a_data_set_count_alike_whatever_their_optimum() -> None:
    from benchmarks.learning import _together

    def row(loss: float, optimum: float | None) -> dict[str, object]:
        numbers = dict.fromkeys(("rate", "violation", "outside", "seconds an epoch", "setup"), 0.1)
        return numbers | {"loss": loss, "spread": 9.0, "optimum": optimum, "runs": [{"rate": 0.1}]}

    gaps = _together([row(-0.5, -1.0), row(-1.8, -2.0), row(-60.0, -100.0)])  # gaps of 50, 10 and 40 %
    assert (gaps["loss"], gaps["optimum"]) == (-0.6, -1.0)
    assert gaps["spread"] == pytest.approx(0.4)
    assert [run["split"] for run in gaps["runs"]] == [0, 1, 2]
    assert _together([row(1.0, None), row(3.0, None)])["loss"] == 2.0


def test_what_misses_a_goal_of_learning_is_bold() -> None:
    from benchmarks.learning import RATES, SEEDS
    from benchmarks.learning_report import figure, verdicts

    def row(loss: float) -> dict[str, object]:
        way = "set\n  one block of 2: shrink, as asked"
        runs = [{"rate": rate, "seed": seed} for rate in RATES for seed in SEEDS]
        return {"loss": loss, "spread": 0.0, "optimum": None, "way": way, "runs": runs}

    rows = {"auto": row(1.2), "RAYEN": row(1.0), "qpth": row(3.0), "penalty": row(0.1), "free, then project": row(1.0)}
    cells = [cell.strip() for cell in verdicts({"one": rows}).splitlines()[-1].split("|")]
    assert cells[1:3] == ["one", "shrink"]
    assert cells[-3:-1] == ["**1.20**", "1.20"]  # within 25 % of projecting afterwards, not within 10 % of RAYEN
    three = row(1.0) | {"runs": [run for run in row(1.0)["runs"] if run["seed"] < 4]}
    assert [figure(row(1.0)), figure(three)] == ["1 ± 0", "1 ± 0³"]
    before = {"auto, before" if name == "auto" else name: found for name, found in rows.items()}
    heads = [cell.strip() for cell in verdicts({"one": before}).splitlines()[0].split("|")]
    assert "auto, before" in heads  # and no column of what is yet to be measured
    assert not {"auto", "auto takes", "auto / best other"} & set(heads)


def _fine(own: float, arrays: float) -> dict[str, object]:
    return {"state": "fine", "seconds": own, "arrays": arrays, "counts": [0, 1024]}


@pytest.mark.parametrize(
    ("engine", "package"),
    [("rayhull", "rayhull"), ("cdd float", "cdd"), ("ppl", "ppl"), ("pplite", "pplite"), ("normaliz", "PyNormaliz")],
)
def test_an_engine_states_converts_and_reads_and_only_the_second_is_its_own_time(engine: str, package: str) -> None:
    from benchmarks.conversion_cases import cube, random_cone, run

    pytest.importorskip(package)
    ticks = iter(range(100))
    own, arrays, (vertices, lines) = run(engine, *cube(3), lambda: float(next(ticks)))
    assert (own, arrays, len(vertices), len(lines)) == (1.0, 3.0, 8, 0)
    *_, (rays, _) = run(engine, random_cone(8, 4, integers=False), None, lambda: 0.0)
    *_, (ours, _) = run("rayhull", random_cone(8, 4, integers=False), None, lambda: 0.0)
    assert len(rays) == len(ours)


def test_a_user_has_threads_as_they_come_and_a_second_table_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.conversion import ALONE, environment

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert "OMP_NUM_THREADS" not in environment("ppl")
    assert [environment("ppl" + ALONE)[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")] == ["1", "1"]


def test_a_conversions_table_and_its_claim_follow_the_engines_own_time(monkeypatch, tmp_path: Path) -> None:
    from benchmarks import conversion, summary

    row = {"rayhull": _fine(0.1, 0.1), "ppl": _fine(0.3, 0.4), "pplite": _fine(0.2, 0.9), "normaliz": {"state": ">1 s"}}
    row["cdd float"] = {"state": "wrong", "counts": [0, 3], "seconds": 0.01, "arrays": 0.01}
    assert [conversion.cell(row[engine]) for engine in ("rayhull", "pplite", "cdd float")] == [
        "0.1",
        "0.2 · 0.9",
        "wrong: 0+3",
    ]
    assert [conversion.gain(row, kind) for kind in ("seconds", "arrays")] == ["2x", "4x"]
    monkeypatch.setattr(summary, "RESULTS", tmp_path)

    def shown(row: dict[str, dict[str, object]]) -> list[str]:
        (tmp_path / "conversion.json").write_text(json.dumps({"cases": {"cube 10": row}}))
        return [cell.strip() for cell in summary.conversion().splitlines()[-1].strip("|").split("|")]

    assert shown(row) == ["cube 10", "0.1 s", "0.2 s (pplite)", "2.00x", "0.4 s (ppl)", "4.00x"]
    for entry in row.values():  # a file of before
        entry.pop("arrays", None)
    assert shown(row) == ["cube 10", "0.1 s", "0.2 s (pplite)", "2.00x"]


def test_a_conversion_benchmark_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import conversion

    asked: list[tuple[str, str]] = []

    def measured(engine: str, case: str, limit: float) -> dict[str, object]:
        asked.append((case, engine))
        return {"state": ">1 s"} if engine.startswith("ppl,") or engine == "ppl" else _fine(1e-3, 2e-3)

    monkeypatch.setattr(conversion, "measure", measured)
    runs: conversion.Runs = {}
    assert next(conversion.compare(["cube 10", "cube 14"], 2, 1.0, runs)) == "cube 10"  # and stopped there
    assert list(conversion.compare(["cube 10", "cube 14"], 2, 1.0, runs)) == ["cube 14", "cube 10", "cube 14"]
    engines = ("rayhull", "ppl", "pplite", "pplite, one thread")
    assert [asked.count(("cube 10", engine)) for engine in engines] == [2, 1, 2, 2]
    assert conversion.summaries(runs)["cube 10"]["pplite"]["runs"] == 2
    assert conversion.summaries(runs)["cube 14"]["rayhull"]["state"] == "wrong"  # it has 2^14 vertices


def test_runs_of_other_kernels_are_not_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import conversion

    monkeypatch.setattr(conversion, "KEPT", tmp_path / "runs.json")
    assert conversion.load_runs() == {}
    conversion.KEPT.write_text('{"core": "0123456789abcdef", "runs": {"cube 10": {}}}')
    assert conversion.load_runs() == {}


def test_a_large_set_that_was_not_measured_in_time_has_its_reason_in_its_row() -> None:
    from benchmarks.scale import OURS, SETS, SMALLEST, as_table, ours

    found = ours(SETS[SMALLEST[1]](), 2) | {"state": "fine", "stated": 0.1, "memory": 200.0, "d": 72}
    assert found["violation"] < 1e-5
    text = as_table({"storage 24": {OURS: found, "OSQP": {"state": ">300 s"}}, "flow": {OURS: {"state": ">300 s"}}})
    assert [line.count(">300 s") for line in text.splitlines()[2:]] == [1, 1]


def test_the_sizes_of_a_kind_make_one_line_of_the_plot() -> None:
    from benchmarks.plots import _by_kind, scale

    runs = {
        f"flow {d}": {"rayhull": {"d": d, "build": 1.0, "forward": 0.1}, "OSQP": {"d": d, "forward": 1.0}}
        for d in (90, 10)
    }
    assert _by_kind(runs, "rayhull", "build") == [("flow", [(10, 1.0), (90, 1.0)])]
    assert len(scale(runs).axes) == 2
