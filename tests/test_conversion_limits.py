"""What a conversion may cost: budgets, progress, memory."""

import subprocess
import sys

import numpy as np
import pytest

import rayhull as rh
from tests.zoo import feasible_cone


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (dict(max_generators=1000), r"Stopped at \d+ generators after \d+ of \d+ inequalities .*method=\"nearest\""),
        (dict(max_pairs=1000), "pairs of rays to look at"),
        (dict(max_seconds=0.2), r"after 0\.\d s"),
        (dict(max_bytes=3_000_000), "going on needs about"),
    ],
)
def test_a_conversion_that_explodes_stops_at_its_budget(limit, message):
    with pytest.raises(rh.BudgetExceededError, match=message):
        rh.convert(rh.ordered(None, (16, 16)), cache=False, **limit)


@pytest.mark.parametrize("limit", [dict(max_generators=-1), dict(max_seconds=float("nan")), dict(max_pairs="10")])
def test_a_budget_that_is_no_number_is_refused(limit):
    with pytest.raises(ValueError, match=f"{next(iter(limit))} must be a number, 0 or more, or None for no limit"):
        rh.convert(rh.simplex(3), **limit)
    assert len(rh.convert(rh.monotone(4), max_generators=float("inf"), max_pairs=np.int64(9), cache=False).rays) == 3


def test_a_product_of_many_vertices_is_refused_before_it_is_built():
    with pytest.raises(rh.BudgetExceededError, match=r"product of 784 blocks with about 10\^236 vertices"):
        rh.convert(rh.box(-1, 1, (28, 28)))


def test_a_block_too_large_to_be_dense_is_refused():
    with pytest.raises(rh.BudgetExceededError, match="MiB"):
        rh.convert(rh.monotone(20_000))


def test_progress_is_reported_and_drawn(capsys):
    steps = []
    rh.convert(feasible_cone(30, 8, 0), cache=False, progress=steps.append)
    assert steps[-1].row == steps[-1].rows > 0
    assert steps[-1].rays > 0
    rh.convert(feasible_cone(30, 8, 0), cache=False, progress=True)
    assert "rays" in capsys.readouterr().err


def test_a_conversion_without_verification_is_refused():
    with pytest.raises(ValueError, match="always verified"):
        rh.convert(rh.simplex(3), verify=False)


def test_memory_stays_below_100_mb_at_784_dimensions():
    code = (
        "import resource, rayhull as rh\n"
        "P = [rh.monotone(784), rh.checkerboard(), rh.windows((28, 28), 8, 5)]\n"
        "rh.convert(rh.monotone(20), cache=False)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for p in P: rh.convert(p, cache=False)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    used = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert used < 100 * 1024  # kB
