"""Threads of BLAS, and waiting for what takes long."""

import signal
import threading
import time

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # brings a BLAS of its own
import torch
from threadpoolctl import threadpool_info, threadpool_limits

import rayhull as rh
from rayhull.exact import progress
from rayhull.exact.threads import one_blas_thread


def blas_threads():
    return {own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"}


CALLS = {
    "convert": ("rayhull.conversion.convert._assemble", lambda P: rh.convert(P, cache=False)),
    "centre": ("rayhull.sets.interior._centre_of_block", lambda P: P.centre),
    "is_bounded": ("rayhull.sets.linear_programs.row_rank", lambda P: P.is_bounded),
    "base_rule": ("rayhull.sets.base_rule.in_closed_form", lambda P: P.base_rule({"b": (0.9, 1.1)})),
    "project": ("rayhull.projection.plan.StandardForm.of", lambda P: rh.project(P, np.zeros(3))),
}


@pytest.mark.parametrize(("inner", "call"), CALLS.values(), ids=CALLS)
def test_our_own_calls_take_one_thread_of_blas_and_give_the_others_back(inner, call, monkeypatch):
    seen = []
    *path, name = inner.split(".")
    holder = __import__(".".join(p for p in path if p.islower()), fromlist=["_"])
    holder = holder if path[-1].islower() else getattr(holder, path[-1])
    original = getattr(holder, name)
    monkeypatch.setattr(holder, name, lambda *a, **k: (seen.append(blas_threads()), original(*a, **k))[1])
    with threadpool_limits(2, user_api="blas"):
        before, torch_threads = blas_threads(), torch.get_num_threads()
        assert max(before) > 1
        call(rh.Polyhedron([[1, 1, 1], [-1, 0.5, 0], [0, -1, 0.25], [0, 0, -1]], [1, 1, 1, 1]))
        assert blas_threads() == before
        assert torch.get_num_threads() == torch_threads
    assert seen
    assert set().union(*seen) == {1}


def test_two_calls_that_overlap_leave_the_threads_as_they_were():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_what_takes_long_says_so_and_what_does_not_is_silent(capsys, monkeypatch):
    assert progress.patiently(lambda: 1, "a wait") == 1
    assert not capsys.readouterr().err
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    release = threading.Event()
    monkeypatch.setattr(progress, "draw", lambda *line: (release.set(), print(*line))[1])
    assert progress.patiently(lambda: release.wait(60), "a wait")
    assert "a wait: 0 s" in capsys.readouterr().out


def test_a_file_is_told_of_a_long_wait_less_and_less_often(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    progress.patiently(lambda: time.sleep(0.5), "a wait")
    assert 1 <= capsys.readouterr().err.count("a wait") <= 8  # 50 on a terminal


def test_an_error_comes_out_of_the_waiting_as_it_is():
    with pytest.raises(ZeroDivisionError):
        progress.patiently(lambda: 1 / 0, "a wait")


def test_ctrl_c_ends_the_waiting_while_compiled_code_runs():
    release = threading.Event()

    def work():
        threading.Timer(0.01, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        release.wait(60)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        progress.patiently(work, "a wait")
    release.set()
    assert time.monotonic() - began < 30
