"""The compiled core: it loads or says why not, and every kernel gives what the reference gives."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rayhull.core import build, library

ROOT = Path(__file__).parents[1]


def test_the_core_says_what_runs():
    assert library.status().startswith("conversion: ")
    assert "operators: " in library.status()


@pytest.mark.parametrize("setting", ["0", "nowhere"])
def test_without_the_binary_the_reference_runs_and_says_so(setting, tmp_path):
    setting = setting if setting == "0" else str(tmp_path)
    code = """
import numpy as np, rayhull as rh
from rayhull.core import library
print(library.status())
print(rh.convert(rh.monotone(4), cache=False), rh.convert(rh.monotone(5), cache=False))
rh.project(rh.convex(5), np.zeros(5))"""  # one warning for all
    environment = {**os.environ, "RAYHULL_CORE": setting, "PYTHONPATH": str(ROOT / "src")}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.count("reference") == 2
    assert "30 to 600 times slower" in out.stdout
    assert "3 rays, 1 line " in out.stdout
    assert out.stderr.count("RuntimeWarning: rayhull runs without its compiled core") == (setting != "0")


def test_a_library_of_other_sources_is_not_loaded(tmp_path, monkeypatch):
    level = next(iter(build.levels()))
    build.library_path("conversion", level, tmp_path).write_bytes(b"rayhull core 0123456789abcdef\0")
    monkeypatch.setenv("RAYHULL_CORE", str(tmp_path))
    library.look_again()
    try:
        with pytest.warns(RuntimeWarning, match="older sources"):
            assert library.load("conversion") is None
        assert "older sources" in library.status()
    finally:
        library.look_again()


def test_without_a_compiler_the_build_says_so(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(build.CannotBuildError, match="no-such-compiler"):
        build.Build().run()
