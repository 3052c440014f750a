"""What a conversion may cost and who may do it: budgets, progress, memory, engines."""

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


def test_unknown_options_list_the_choices():
    with pytest.raises(ValueError, match="choose one of auto, ppl, pplite, normaliz, cdd"):
        rh.convert(rh.simplex(3), engine="magic")
    with pytest.raises(ValueError, match="always verified"):
        rh.convert(rh.simplex(3), verify=False)


def test_a_missing_engine_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PyNormaliz", None)
    with pytest.raises(rh.MissingExtraError, match=r"pip install 'rayhull\[engines\]'"):
        rh.convert(feasible_cone(8, 4, 0), engine="normaliz", cache=False)


@pytest.mark.parametrize("engine", ["ppl", "pplite", "normaliz", "cdd"])
def test_optional_engines_agree_with_ours(engine):
    pytest.importorskip({"normaliz": "PyNormaliz", "cdd": "cdd.gmp"}.get(engine, engine))
    for P in (feasible_cone(12, 5, 1), rh.ordered(None, (3, 3)), rh.Polyhedron([[3, 1]], 2, lower=0)):
        ours, theirs = rh.convert(P, cache=False), rh.convert(P, engine=engine, cache=False)
        np.testing.assert_array_equal(ours.rays, theirs.rays)
        np.testing.assert_array_equal(ours.vertices, theirs.vertices)
    with pytest.raises(ValueError, match="exact rows only"):
        rh.convert(feasible_cone(8, 4, 0, integers=False), engine=engine, cache=False)


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
