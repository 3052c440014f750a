"""The command line as a script would use it."""

import os
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import rayhull as rh
from rayhull.cli import main
from rayhull.conversion.files import read, write
from rayhull.core import library
from tests.zoo import feasible_cone


@pytest.fixture
def triangle(tmp_path):
    path = tmp_path / "triangle.ine"
    write(path, rh.Polyhedron([[1, 1]], [1], lower=0))
    return path


def test_convert_prints_generators(triangle, capsys):
    assert main(["convert", str(triangle)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("V-representation\nbegin\n3 3 integer\n 1 0 0\n")


def test_convert_there_and_back(triangle, tmp_path):
    ext, ine = tmp_path / "t.ext", tmp_path / "t2.npz"
    assert main(["convert", str(triangle), "-o", str(ext), "--verify", "full"]) == 0
    assert main(["convert", str(ext), "-o", str(ine)]) == 0
    assert len(read(ine).inequalities) == 3


def test_the_way_back_is_proved_complete_too_and_has_one_output(triangle, tmp_path, monkeypatch, capsys):
    ext = tmp_path / "t.ext"
    assert main(["convert", str(triangle), str(ext)]) == 0
    asked = []
    monkeypatch.setattr(rh.Generators, "to_polyhedron", lambda self, **options: asked.append(options) or rh.simplex(2))
    assert main(["convert", str(ext), "--verify", "full"]) == 0
    assert asked[0]["verify"] == "full"
    with pytest.raises(SystemExit, match="2"):
        main(["convert", str(triangle), str(ext), "-o", str(tmp_path / "u.ext")])
    assert "-o/--output: not allowed with argument to" in capsys.readouterr().err


def test_info_describes_the_set(triangle, capsys):
    assert main(["info", str(triangle)]) == 0
    assert "3 inequalities" in capsys.readouterr().out


@pytest.mark.parametrize(("points", "code"), [([[0.2, 0.2]], 0), ([[0.2, 0.2], [2, 2]], 1)])
@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt"])
def test_check_tells_by_its_exit_code(triangle, tmp_path, points, code, suffix, capsys):
    path = tmp_path / f"points{suffix}"
    if suffix == ".npy":
        np.save(path, np.array(points))
    else:
        np.savetxt(path, points, delimiter="," if suffix == ".csv" else " ")
    assert main(["check", str(triangle), str(path)]) == code
    assert f"of {len(points)} points inside" in capsys.readouterr().out


def test_convert_takes_the_second_file_as_its_output(triangle, tmp_path):
    assert main(["convert", str(triangle), str(tmp_path / "t.ext")]) == 0
    assert len(read(tmp_path / "t.ext").vertices) == 3


def test_points_may_have_a_header(tmp_path, capsys):
    write(tmp_path / "wide.ine", rh.Polyhedron(lower=0, upper=[1, 9]))
    set_file, points = str(tmp_path / "wide.ine"), tmp_path / "points.csv"
    points.write_text('"x[1]","x[0]"\n9,1\n8,0.5\n')  # the set's own names: in their order
    assert main(["check", set_file, str(points)]) == 0
    points.write_text("a,b\n1,9\n")
    assert main(["check", set_file, str(points)]) == 0
    assert "columns of points.csv in their order: a, b" in capsys.readouterr().err
    points.write_text("1,\n1,9\n")  # a gap is no header
    assert main(["check", set_file, str(points)]) == 2
    points.write_text("1,9\n", encoding="utf-8-sig")  # a spreadsheet's mark is no part of the first number
    assert main(["check", set_file, str(points)]) == 0
    for nothing in ("", "a,b\n"):
        points.write_text(nothing)
        assert main(["check", set_file, str(points)]) == 2
        assert (
            capsys.readouterr()
            .err.splitlines()[-1]
            .endswith("points.csv holds no points (there is no line of numbers): expected .npy, .csv or text.")
        )
    points.write_text("1,2,3\n")
    assert main(["check", set_file, str(points)]) == 2
    assert "points.csv holds points of 3 numbers, but the set has 2 coordinates" in capsys.readouterr().err


def test_check_measures_in_distances_so_that_both_files_of_a_set_say_the_same(tmp_path, capsys):
    write(tmp_path / "t.ine", rh.Polyhedron([[2, 1], [-1, 0], [0, -3]], [1, 0, 0]))
    assert main(["convert", str(tmp_path / "t.ine"), str(tmp_path / "t.ext")]) == 0
    np.save(tmp_path / "p.npy", [[0.1, 0.1], [0.5, 0.6]])
    said = []
    for name in ("t.ine", "t.ext"):
        assert main(["check", str(tmp_path / name), str(tmp_path / "p.npy")]) == 1
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert "1 of 2 points inside; largest violation 0.268 (distance beyond a row)" in said[0]
    assert "outside: point 2 (counted from 1)" in said[0]


def test_errors_have_codes_and_one_line(tmp_path, triangle, capsys):
    grid = tmp_path / "grid.ine"
    write(grid, rh.ordered(None, (6, 6)))
    noisy = tmp_path / "thin.ine"
    rows = np.eye(52) + 0.1  # too many entries to convert as fractions
    write(noisy, rh.Polyhedron(np.vstack([rows, rows[0] + 1e-13 * np.arange(52)])))
    assert main(["convert", str(tmp_path / "none.ine")]) == 2
    assert main(["convert", str(grid), "--max-generators", "100"]) == 3
    assert main(["convert", str(noisy)]) == 4
    assert main(["check", str(triangle), str(triangle)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert all(line.startswith("rayhull: ") for line in lines)


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RAYHULL_CACHE", str(tmp_path))
    monkeypatch.setattr("rayhull.conversion.cache.SLOW", 0.0)
    rh.conversion.cache.clear()
    rh.convert(feasible_cone(10, 4, 0))
    assert main(["cache"]) == 0
    assert "1 conversion (" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert f"removed from {tmp_path}" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_info_says_in_one_line_that_torch_is_missing():
    code = "import sys; sys.modules['torch'] = None; from rayhull.cli import main; main(['info'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == f"rayhull {rh.__version__}"
    assert len(done.stdout.splitlines()) == 2
    if "operators: compiled" in library.status():
        assert "operators: none (they need torch, which is not installed: pip install torch)" in done.stdout


@pytest.mark.parametrize("module", ["numpy", "scipy.sparse", "rayhull.conversion.files"])
def test_ctrl_c_while_modules_are_imported_is_ctrl_c(triangle, module):
    """Also where the module that was interrupted turns it into an error of its own."""
    code = (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            try: raise KeyboardInterrupt\n"
        "            finally:\n"
        "                if 'numpy' in name: raise ImportError('interrupted')\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from rayhull.cli import main\n"
        f"sys.exit(main(['info', {str(triangle)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "rayhull: stopped; nothing was written.\n")


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    path = tmp_path / "grid.ine"
    write(path, rh.ordered(None, (6, 6)))
    code = f"from rayhull.cli import main; import sys; sys.exit(main(['convert', {str(path)!r}]))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_help_answers_without_importing_torch_or_scipy():
    code = (
        "import sys; from rayhull.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'scipy', 'numpy'} & set(sys.modules)))"
    )
    start = time.perf_counter()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
    assert time.perf_counter() - start < 10


@pytest.mark.skipif(sys.platform == "win32", reason="signals and terminals")
def test_ctrl_c_stops_a_long_conversion_at_once(tmp_path):
    path = tmp_path / "grid.ine"
    write(path, rh.ordered(None, (16, 16)))
    command = [sys.executable, "-m", "rayhull", "convert", str(path), "--max-generators", "100000000"]
    terminal, theirs = os.openpty()  # on a terminal there is a progress bar: its first line says that work has begun
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    try:
        said = _read_until(terminal, b"rays")
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(timeout=30) == 130
        assert time.monotonic() - began < 10
        assert b"stopped; nothing was written" in said + _read_until(terminal, b"nothing was written")
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _read_until(terminal, words, seconds=60):
    """What was written there, up to the words; fails when they do not come."""
    said, end = b"", time.monotonic() + seconds
    while words not in said:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, said
        said += os.read(terminal, 4096)
    return said
