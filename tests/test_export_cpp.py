"""Layers without Python: an AOTInductor package in a C++ program, and ExecuTorch's runtime; strict judged exactly."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks import exports
from tests.exporting import KINDS, a_day, dispatch, exportable, features, inequalities, near, snippet

TORCH = Path(torch.__file__).parent
COMPILER = shutil.which("c++") or shutil.which("g++")


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here, which AOTInductor needs, too")
def test_a_package_runs_in_a_program_of_cpp_and_stays_strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, h = snippet("_inductor")["model"], 10 * torch.randn(500, 8)
    h.numpy().tofile("h")
    subprocess.run(
        [COMPILER, "-std=c++20", f"-I{TORCH}/include", f"-I{TORCH}/include/torch/csrc/api/include"]
        + [str(Path(__file__).with_name("aoti_run.cpp")), "-o", str(tmp_path / "run")]
        + [f"-L{TORCH}/lib", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{TORCH}/lib"],
        check=True,
    )
    subprocess.run([tmp_path / "run", "model.pt2", "h", "500", "8", "x"], check=True)
    x = np.fromfile("x", np.float32).reshape(500, 3)
    assert near(x, model(h))
    assert bool(inequalities(model[-1].polyhedron).contains_exactly(x).all())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # ExecuTorch's own
@pytest.mark.parametrize("kind", ["steps", "vertices", "sides"])
def test_executorch_runs_the_layer_and_stays_strict(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("executorch.runtime")
    monkeypatch.setattr(exports, "FEATURES", 4)
    layer = dispatch(strict=True) if kind == "sides" else exportable(KINDS[kind](), strict=True).eval()
    h, sides = features(), {name: side[1:41] for name, side in a_day(41).items()} if kind == "sides" else {}
    with torch.no_grad():
        run, _ = exports.by_executorch(layer, sides, tmp_path)
        x = run(h, sides)
    assert near(x, layer(h, **sides), 1e-4)
    judge, own = inequalities(layer.polyhedron), {name: side for name, side in sides.items() if name == "upper"}
    assert bool(judge.contains_exactly(x, **own).all())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_snippet_of_executorch_runs() -> None:
    pytest.importorskip("executorch.runtime")
    names = snippet("executorch")
    assert near(names["x"], names["model"](names["h"]))


def test_the_table_says_what_was_left_out_and_why() -> None:
    fine = {"difference": 1e-7, "outside": 0.0, "bytes": 52_388}
    text = exports.report({"NumPy": {"dispatch": fine}, "ExecuTorch": {"dispatch": {"left out": "no sort"}}})
    assert "1e-07, 0.0%, 52 kB" in text
    assert "left out: no sort" in text
    assert "left out: not run" in text  # JAX
    assert exports.cell(fine | {"bytes": None}) == "1e-07, 0.0%"
