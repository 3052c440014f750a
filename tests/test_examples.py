"""Every script of the gallery runs and proves its claim. Two run by default, the others are slow."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "dispatch.py": "demand met, lines and generators within their limits: True",
    "downscaling.py": "means kept, nothing negative: True",
    "hierarchical.py": "add up and are not negative: True",
    "pretrained_head.py": "all of them after: True",
    "vae_checkerboard.py": "also far from the data: True",
    "jax_checkerboard.py": "every image on the checkerboard: True",
    "calibration.py": "rising and between 0 and 1: True",
    "convex_cost.py": "rising and convex for every price: True",
    "flow_in_a_polygon.py": "every sample inside: True",
    "isotonic_surface.py": "rising along both axes, in exact arithmetic: True",
    "lightning_training.py": "non-negative, at most one half, sum 1: True",
    "onnx_round_trip.py": "inside, in exact arithmetic: True",
    "policy_in_a_polytope.py": "every action on the set is safe: True",
    "polyhedra.py": "the same set: True",
    "portfolio.py": "within the mandate: True",
    "quantiles.py": "in order everywhere, in exact arithmetic: True",
    "sklearn_regressor.py": "columns by name, every rule kept: True",
    "torchrl_actions.py": "projections are nearest points: True",
    "weights_in_a_set.py": "non-negative, symmetric, sum 1: True",
    "yield_curve.py": "no arbitrage, in exact arithmetic: True",
}
FAST = {"quantiles.py", "polyhedra.py"}


def test_every_example_is_listed_here():
    assert {p.name for p in EXAMPLES.glob("*/*.py")} == set(SAYS)


def test_every_example_takes_one_thread_because_its_network_is_small():
    for path in EXAMPLES.glob("*/*.py"):
        text = path.read_text(encoding="utf-8")
        assert ("import torch\n" in text) == ("\ntorch.set_num_threads(1)  # a small network" in text), path.name


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in SAYS])
def test_an_example_runs_and_proves_its_claim(name):
    if name.startswith("jax"):
        pytest.importorskip("equinox")
    env = {**os.environ, "MPLBACKEND": "agg"}
    (path,) = EXAMPLES.glob(f"*/{name}")
    out = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, env=env)
    assert out.returncode == 0, out.stderr
    assert SAYS[name] in out.stdout
