"""Every example runs and says what it should."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "quantiles.py": "in order everywhere, in exact arithmetic: True",
    "dispatch.py": "within limits: True",
    "polyhedra.py": "the same set: True",
}


def test_every_example_is_listed_here():
    assert {p.name for p in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs(name):
    single = {**os.environ, "OMP_NUM_THREADS": "1"}  # tiny networks: threads would only wait for each other
    out = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, check=False, env=single
    )
    assert out.returncode == 0, out.stderr
    assert SAYS[name] in out.stdout
