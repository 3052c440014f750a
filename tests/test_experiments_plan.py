"""The plan of a reproduction: which runs it has, which part is taken, how much is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import plan, progress
from experiments.cli import parser
from experiments.errors import SettingsError
from experiments.studies import Job

ROOT = Path(__file__).parent.parent


def test_the_plans_name_every_run_once():
    for jobs in (list(plan.demo()), list(plan.reproduce(2))):
        names = [job.path for job in jobs]
        assert len(names) == len(set(names))


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
    assert theirs == {(1e-4, "plateau"), (1e-3, "plateau"), (1e-4, "halving-all")}
    vaes = [(j.settings.method, j.settings.schedule) for j in jobs if j.study == "vae"]
    for method in ("unconstrained", "ttp", "paper", "constrained"):
        assert vaes.count((method, "plateau")) == 3
    assert vaes.count(("paper", "halving")) == 3
    assert [(j.settings.repeats, j.settings.network_threads) for j in jobs if j.study == "timing"] == [
        (100, 1),
        (100, 2),
    ]


def test_only_takes_the_runs_that_are_named_in_their_order():
    jobs = plan.only(list(plan.reproduce(2)), ["vae/ttp", "projection/paper/seed-1"])
    assert [one.path for one in jobs] == ["vae/ttp/seed-0", "vae/ttp/seed-1", "projection/paper/seed-1"]


def test_only_refuses_a_name_that_no_run_has():
    with pytest.raises(SettingsError, match=r"--only vae/tpp: no run's name begins so\. Expected one of .*vae/ttp"):
        plan.only(list(plan.reproduce(2)), ["vae", "vae/tpp"])


def test_readme_makefile_and_program_promise_the_same_minutes():
    says = plan.promised(list(plan.demo()))
    for page in ("README.md", "Makefile"):
        (line,) = [
            line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if "demo/report.html" in line
        ]
        assert f"{says}{':' if page == 'README.md' else ')'}" in line
    others = [plan.promised([Job("vae", "", None, seconds)]) for seconds in (5, 130, 9000)]
    assert others == ["about 1 minute", "about 2 minutes", "about 2 hours"]


def test_the_demo_takes_one_thread_and_a_reproduction_torchs_own():
    asked = {name: parser([name]).parse_args([name]).threads for name in ("demo", "reproduce")}
    assert asked == {"demo": 1, "reproduce": None}


def test_the_time_left_follows_the_machine():
    assert plan.remaining(spent=60, done=30, guess=100) == 140  # twice as slow as guessed


def test_progress_is_a_line_each_tenth_with_the_share_and_the_note(capsys):
    work = progress.Progress(100, "work", done=50)
    for _ in range(50):
        work.advance(1, note="loss 0.5")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"work {n} %" for n in (60, 70, 80, 90, 100)]
    assert all(line.endswith("loss 0.5") for line in lines)
    for silent in (progress.Progress(10, "work", quiet=True), progress.Progress(0, "of unknown size")):
        silent.advance(10)
    assert not capsys.readouterr().err


def test_time_is_written_as_a_person_reads_it():
    assert [progress.clock(s) for s in (5, 65, 7300)] == ["5s", "1m05s", "2h01m"]
