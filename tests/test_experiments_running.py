"""Runs: the same numbers every time, killed or not, on one process or two; and clear refusals."""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import cli, results
from experiments.errors import ResultsError
from experiments.studies.projection import ProjectionSettings

ROOT = Path(__file__).parent.parent
SMALL = ["--dataset", "mnist-small", "--samples", "512", "--threads", "1", "--quiet"]
RATE = ["--learning-rate", "1e-3", "--schedule", "plateau"]


def run(out: Path, *arguments: str, study: str = "projection") -> int:
    return cli.main(["run", study, "--out", str(out), *SMALL, *RATE, *arguments])


@contextlib.contextmanager
def started(out: Path, *arguments: str) -> Iterator[subprocess.Popen]:
    """A run in a process of its own, which never outlives the test."""
    command = [sys.executable, "-m", "experiments", "run", "projection", "--out", str(out), *SMALL, *RATE, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen, condition: Callable[[], bool]) -> None:
    """Until the condition holds or the process has ended."""
    while process.poll() is None and not condition():
        time.sleep(0.02)


def lines(out: Path, method: str = "unconstrained", study: str = "projection") -> list[dict]:
    found = results.read_lines(out / study / method / "seed-0" / results.METRICS)
    return [{key: value for key, value in line.items() if key != "seconds"} for line in found]


def weights(out: Path, method: str = "unconstrained") -> dict:
    return torch.load(out / "projection" / method / "seed-0" / results.CHECKPOINT)["task"]


def test_the_same_command_gives_the_same_numbers(tmp_path):
    for out in ("a", "b"):
        assert run(tmp_path / out, "--method", "penalty", "--epochs", "2") == 0
    assert lines(tmp_path / "a", "penalty") == lines(tmp_path / "b", "penalty")


def test_each_epoch_is_a_line_with_its_loss_violation_and_time(tmp_path):
    run(tmp_path, "--method", "unconstrained", "--epochs", "2")
    found = results.read_lines(tmp_path / "projection/unconstrained/seed-0/metrics.jsonl")
    assert [line["epoch"] for line in found] == [1, 2]
    assert {"train_loss", "val_loss", "violation", "seconds"} <= set(found[0])


@pytest.mark.slow
def test_a_run_killed_at_any_moment_ends_as_one_that_was_not(tmp_path):
    options = ["--method", "unconstrained", "--epochs", "40"]
    run(tmp_path / "whole", *options)
    for _ in range(2):  # each at whatever point the process has reached
        folder = tmp_path / "killed" / "projection" / "unconstrained" / "seed-0"
        metrics = folder / results.METRICS
        before = metrics.stat().st_size if metrics.exists() else 0
        with started(tmp_path / "killed", *options) as process:
            wait_for(process, lambda size=before, path=metrics: path.exists() and path.stat().st_size > size + 300)
            process.send_signal(signal.SIGKILL)
    assert not (folder / results.SUMMARY).exists()
    run(tmp_path / "killed", *options)
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")
    whole, killed = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_a_line_that_a_crash_cut_short_is_written_again(tmp_path):
    options = ["--method", "unconstrained", "--epochs", "3"]
    run(tmp_path / "whole", *options)
    run(tmp_path / "cut", *options)
    folder = tmp_path / "cut" / "projection" / "unconstrained" / "seed-0"
    (folder / results.SUMMARY).unlink()
    with (folder / results.METRICS).open("a") as stream:
        stream.write('{"epoch": 4, "train_lo')
    run(tmp_path / "cut", *options)
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")


@pytest.mark.slow
def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(tmp_path):
    metrics = tmp_path / "projection/unconstrained/seed-0/metrics.jsonl"
    with started(tmp_path, "--method", "unconstrained", "--epochs", "2000") as process:
        wait_for(process, metrics.exists)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_two_processes_agree_with_one(tmp_path):
    options = ["--method", "unconstrained", "--epochs", "2"]
    run(tmp_path / "one", *options)
    with started(tmp_path / "two", *options, "--devices", "2") as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    for one, two in zip(lines(tmp_path / "one"), lines(tmp_path / "two"), strict=True):
        assert one["train_loss"] == pytest.approx(two["train_loss"], rel=1e-5)
        assert one["val_loss"] == pytest.approx(two["val_loss"], rel=1e-5)


def test_mixed_precision_is_a_flag(tmp_path):
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1", "--precision", "bf16-mixed") == 0
    assert lines(tmp_path)[0]["val_loss"] < 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "magic"], "method 'magic' does not exist: choose one of alternating, constrained"),
        (["--schedule", "sometimes"], "choose one of constant, cosine, halving, halving-all, plateau"),
        (["--epochs", "0"], "epochs must be positive, got 0"),
        (["--devices", "0"], "count from 1, got 0"),
        (["--accelerator", "abacus"], "--accelerator abacus"),
        (["--data", "/nowhere", "--dataset", "mnist"], "the data folder /nowhere does not exist"),
    ],
)
def test_bad_input_is_refused_in_one_line(tmp_path, capsys, arguments, said):
    assert run(tmp_path, *arguments) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_study_is_refused_with_the_choices(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "alchemy"])
    assert "'projection', 'vae', 'timing'" in capsys.readouterr().err


def test_a_folder_from_other_settings_is_refused_and_left_as_it_is(tmp_path, capsys):
    run(tmp_path, "--method", "unconstrained", "--epochs", "1")
    before = lines(tmp_path)
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1", "--batch-size", "128") == 2
    assert "batch_size was 256, is 128" in capsys.readouterr().err
    assert lines(tmp_path) == before


def settings_of(study: str, *arguments: str) -> Any:
    given = ["run", study, "--method", "constrained", *arguments]
    return cli.settings_of(cli.parser(given).parse_args(given))


def test_a_method_runs_at_its_own_best_settings_unless_the_papers_are_asked_for(tmp_path):
    saved = functools.partial(settings_of, "projection")
    assert (saved().learning_rate, saved().schedule) == (3e-3, "cosine")
    paper = saved("--paper-settings")
    assert (paper.learning_rate, paper.schedule, paper.epochs) == (1e-4, "plateau", 500)
    assert saved("--learning-rate", "0.5").learning_rate == 0.5  # an option that is given always counts
    assert saved("--paper-settings", "--epochs", "3").epochs == 3


def test_a_decoder_of_ours_has_the_set_from_the_start_and_the_papers_settings_on_demand():
    ours, paper = settings_of("vae"), settings_of("vae", "--paper-settings")
    assert (ours.epochs, ours.schedule, ours.free_epochs) == (60, "cosine", 0)
    assert (paper.epochs, paper.schedule, paper.learning_rate) == (200, "plateau", 1e-4)


def test_a_run_ends_where_annealing_has_stopped_it(tmp_path):
    stuck = ["--method", "optimum", "--schedule", "plateau", "--epochs", "60", "--learning-rate", "1e-6"]
    assert run(tmp_path, *stuck) == 0  # nothing to learn: no progress from the first epoch on
    summary = results.read_json(tmp_path / "projection/optimum/seed-0/summary.json")
    assert summary["ended"] == "annealed below 1e-7"
    assert summary["epochs_done"] == len(lines(tmp_path, "optimum")) == 13  # 1 + 2 x (5 + 1) without progress


def test_two_processes_do_not_write_into_one_folder(tmp_path):
    first = results.Run(tmp_path / "run", "projection", ProjectionSettings())
    with pytest.raises(ResultsError, match="another process is running"):
        results.Run(tmp_path / "run", "projection", ProjectionSettings())
    first.close()
    results.Run(tmp_path / "run", "projection", ProjectionSettings()).close()


def test_a_sweep_runs_every_method_at_every_rate_and_reports(tmp_path):
    command = ["sweep", "projection", "--out", str(tmp_path), "--epochs", "1", *SMALL, "--methods", "unconstrained"]
    assert cli.main([*command, "--learning-rates", "1e-3", "1e-4", "--seeds", "0"]) == 0
    assert len(results.find_runs(tmp_path)) == 2
    assert (tmp_path / "report.html").exists()


def test_a_folder_with_somebody_elses_files_is_refused(tmp_path, capsys):
    folder = tmp_path / "projection" / "unconstrained" / "seed-0"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1") == 2
    assert "holds files but no settings.json" in capsys.readouterr().err
    assert os.listdir(folder) == ["thesis.tex"]


def _refusing(number: int):
    def refuse(*_args, **_options):
        raise OSError(number, os.strerror(number))

    return refuse


def test_no_permission_to_write_is_said_with_what_to_do(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", _refusing(errno.EACCES))  # root may write anywhere, so a chmod proves nothing
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1") == 2
    assert "no permission to write there: choose another --out" in capsys.readouterr().err


def test_a_full_disk_loses_nothing_that_was_saved(tmp_path, capsys, monkeypatch):
    options = ["--method", "unconstrained", "--epochs", "4"]
    run(tmp_path / "whole", *options)
    saved, save = [], torch.save

    def fill(state, path):
        if len(saved) == 2:
            Path(path).write_bytes(b"half a checkpoint")
            raise RuntimeError("unexpected pos 64 vs 0")  # what torch says when the disk is full
        saved.append(path)
        save(state, path)

    monkeypatch.setattr(torch, "save", fill)
    assert run(tmp_path / "full", *options) == 2
    assert "the disk is full: free some space" in capsys.readouterr().err
    folder = tmp_path / "full" / "projection" / "unconstrained" / "seed-0"
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    monkeypatch.undo()
    assert run(tmp_path / "full", *options) == 0
    assert lines(tmp_path / "full") == lines(tmp_path / "whole")


@pytest.mark.parametrize("fault", ["checkpoint.pt is damaged", "of another network"])
def test_a_checkpoint_that_cannot_be_used_is_named(tmp_path, capsys, fault):
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1") == 0
    folder = tmp_path / "projection" / "unconstrained" / "seed-0"
    (folder / results.SUMMARY).unlink()
    state = torch.load(folder / results.CHECKPOINT, weights_only=True)
    state["task"].popitem()
    torch.save(state, folder / results.CHECKPOINT)
    if "damaged" in fault:
        (folder / results.CHECKPOINT).write_bytes(b"not a checkpoint")
    assert run(tmp_path, "--method", "unconstrained", "--epochs", "1") == 2
    assert fault in capsys.readouterr().err


def test_a_damaged_line_in_the_middle_is_not_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"epoch": 1}\n{"epo\n{"epoch": 3}\n')
    with pytest.raises(ResultsError, match="line 2"):
        results.read_lines(path)


def test_settings_are_saved_beside_the_results(tmp_path):
    run(tmp_path, "--method", "unconstrained", "--epochs", "1")
    saved = json.loads((tmp_path / "projection/unconstrained/seed-0/settings.json").read_text())
    assert saved["study"] == "projection"
    assert saved["learning_rate"] == 1e-3
