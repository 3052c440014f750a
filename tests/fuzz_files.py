"""Files that are nearly right: read as the set they state, or refused by name, and never slowly.

``python -m tests.fuzz --only files`` changes good files at random. ``python -m tests.fuzz_files --minutes 2`` lets
atheris look for inputs that reach new lines of the readers; without atheris it says so and does nothing.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import rayhull as rh
from rayhull.conversion import files
from rayhull.conversion.files import format_cdd, parse_cdd, read, write
from tests.fuzz import counted
from tests.fuzz_strict import random_set

SUFFIXES = (".ine", ".ext", ".npz")
PATIENCE = 10.0  # seconds for a file of some lines
SETS = [
    lambda: rh.simplex(3),
    lambda: rh.Polyhedron([[3, 1], [0.5, -2]], [1, 7], lower=0),
    lambda: rh.Polyhedron([[0.1, 0.3]], [0.2], A_eq=[[1, -1]], b_eq=[0]),
    lambda: rh.Polyhedron(lower=np.array([-np.inf, 1], dtype=object)),
    lambda: rh.monotone(4),
]
WORDS = [
    "1e99999999", "1e-400", "9" * 320, "9" * 5000, "²", "٣", "1/0", "1/00", "-0", "nan", "inf", "0x10", "1_0",
    "1.5", "7/3",
    "begin", "end", "linearity 1 1", "linearity 2 1", "equality 1 9", "strict_inequality 1 1",
    "partial_enumeration 1 1",
    "H-representation", "V-representation", "integer", "rational", "real", "*", "", "-1", "1", "0", "\x00", "2 3 real",
]  # fmt: skip


def texts() -> list[tuple[str, str]]:
    """Good files: (ending, content)."""
    inequalities = [(".ine", format_cdd(make())) for make in SETS]
    return inequalities + [(".ext", format_cdd(make().generators())) for make in SETS]


def random_text(rng: np.random.Generator) -> str:
    """A good file of a set that strict layers are tried on."""
    while True:
        try:
            return format_cdd(random_set(rng))
        except rh.EmptySetError:
            continue


def archives() -> list[bytes]:
    """Good .npz files."""
    out = []
    with tempfile.TemporaryDirectory() as folder:
        for i, make in enumerate(SETS):
            path = Path(folder) / f"{i}.npz"
            for item in (make(), make().generators()):
                write(path, item)
                out.append(path.read_bytes())
    return out


def look(data: bytes, suffix: str) -> str:
    """Read the content of a file; raises if the answer is neither a set that survives writing nor a refusal."""
    start = time.monotonic()
    try:
        item = _read(data, suffix)
    except rh.RayhullError as error:
        outcome = f"refused ({type(error).__name__})"
    else:
        outcome = "read"
        again = _read(_written(item, suffix), suffix)
        assert _numbers(again) == _numbers(item), "written and read again, the set is another one"
    assert time.monotonic() - start < PATIENCE, f"took {time.monotonic() - start:.1f} s"
    return outcome


def _read(data: bytes, suffix: str) -> Any:
    if suffix != ".npz":
        return parse_cdd(data.decode("utf-8", "replace"), suffix, f"file{suffix}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.npz"
        path.write_bytes(data)
        return read(path)


def _written(item: Any, suffix: str) -> bytes:
    if suffix != ".npz":
        return format_cdd(item).encode()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "file.npz", item)
        return (Path(folder) / "file.npz").read_bytes()


def _numbers(item: Any) -> Any:
    """What the file must keep: the rows' integers or floats, or the generators'."""
    if isinstance(item, rh.Generators):
        return [a.tolist() for a in item.stated]
    parts = (item.rows, item.equality_rows)
    if item.is_exact:
        return sorted(str(_primitive(row)) for rows in parts for row in _dense(rows))
    return sorted(str(row) for rows in parts for row in np.column_stack([rows.matrix.toarray(), rows.rhs]).tolist())


def _dense(rows: Any) -> list[list[int]]:
    A, b = rows.dense_integers()
    return [[int(v) for v in row] for row in np.column_stack([A.astype(object), b.astype(object)]).tolist()]


def _primitive(row: list[int]) -> list[int]:
    common = int(np.gcd.reduce(np.array(row, dtype=object))) or 1
    return [v // abs(common) for v in row]


def changed_text(rng: np.random.Generator, text: str) -> str:
    """A good file with a few words, lines or characters changed."""
    for _ in range(int(rng.integers(1, 4))):
        kind = rng.choice(["word", "line", "character", "cut", "swap"])
        lines = text.split("\n")
        i = int(rng.integers(len(lines)))
        if kind == "word":
            words = lines[i].split(" ")
            words[int(rng.integers(len(words)))] = str(rng.choice(WORDS))
            lines[i] = " ".join(words)
        elif kind == "line":
            lines.insert(i, str(rng.choice(WORDS)))
        elif kind == "swap":
            j = int(rng.integers(len(lines)))
            lines[i], lines[j] = lines[j], lines[i]
        text = "\n".join(lines)
        if kind == "character" and text:
            at = int(rng.integers(len(text)))
            text = text[:at] + chr(int(rng.integers(32, 256))) + text[at + 1 :]
        elif kind == "cut":
            text = text[: int(rng.integers(len(text) + 1))]
    return text


def changed_archive(rng: np.random.Generator, data: bytes) -> bytes:
    """A good .npz with bytes flipped, or with an array exchanged, reshaped, left out or of another type."""
    if rng.random() < 0.3:
        array = bytearray(data)
        for _ in range(int(rng.integers(1, 5))):
            array[int(rng.integers(len(array)))] = int(rng.integers(256))
        return bytes(array)
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        content = {name: file[name] for name in file.files}
    name = str(rng.choice(sorted(content)))
    values = content.pop(name)
    kind = rng.choice(["gone", "reshaped", "text", "noise", "other"])
    if kind == "reshaped":
        content[name] = values.ravel()[: int(rng.integers(values.size + 1))]
    elif kind == "text":
        content[name] = np.full(values.shape, str(rng.choice(["1/3", "0x1p-3", "-inf", "1e99999999", "x", "1/0"])))
    elif kind == "noise":
        content[name] = rng.choice([-7, 0, 3, 10**9, np.nan, np.inf, 1e300], values.shape)
    elif kind == "other":
        content[name] = rng.integers(-3, 9, values.shape).astype(rng.choice(["i1", "u8", "f4", "?", "c16", "S3"]))
    buffer = io.BytesIO()
    np.savez(buffer, **content)
    return buffer.getvalue()


def run(seconds: float, seed: int) -> dict[str, int]:
    """Change good files until the time is up."""
    good, packed = texts(), archives()

    def changed(rng: np.random.Generator) -> str:
        suffix, text = good[int(rng.integers(len(good)))] if rng.random() < 0.5 else (".ine", random_text(rng))
        if rng.random() < 0.3:
            return f".npz: {look(changed_archive(rng, packed[int(rng.integers(len(packed)))]), '.npz')}"
        return f"{suffix}: {look(changed_text(rng, text).encode(), suffix)}"

    return dict(counted(changed, seconds, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    options = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: no coverage-guided fuzz of the files (pip install 'rayhull[fuzz]').")
        return
    for name, value in list(vars(files).items()):
        if getattr(value, "__module__", "") == files.__name__ and hasattr(value, "__code__"):
            setattr(files, name, atheris.instrument_func(value))
    with tempfile.TemporaryDirectory() as corpus:
        for i, (suffix, data) in enumerate(
            [*((s, t.encode()) for s, t in texts()), *((".npz", a) for a in archives())]
        ):
            (Path(corpus) / str(i)).write_bytes(bytes([SUFFIXES.index(suffix)]) + data)
        flags = [f"-max_total_time={int(60 * options.minutes)}", f"-timeout={int(PATIENCE)}", "-max_len=4096"]
        atheris.Setup([sys.argv[0], *flags, corpus], one)
        atheris.Fuzz()


def one(data: bytes) -> None:
    """What atheris calls: the first byte chooses the kind of file."""
    if data:
        look(data[1:], SUFFIXES[data[0] % len(SUFFIXES)])


if __name__ == "__main__":
    main()
