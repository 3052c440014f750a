"""Files that are whole, damaged or nonsense: a set comes back as it was written, or a clear error, and never a hang."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import rayhull as rh
from tests.fuzz_strict import random_set

WORDS = (
    "begin", "end", "linearity", "linearity 1 1", "linearity 2 1 9", "H-representation", "V-representation", "integer",
    "rational", "real", "1/0", "1e99999999", "-0", "nan", "inf", "²", "0x10", "1_000", "9" * 400, "1/" + "7" * 300, "*",
    "strict_inequality", "partial_enumeration 1 1", "-1", "3.5", "1e-400", "",
)  # fmt: skip
SECONDS = 10.0  # a file that takes longer hangs


def written(P: rh.Polyhedron, rng: np.random.Generator, folder: Path) -> Path:
    """The set, or its generators, in a file of one of our kinds."""
    item: Any = P
    if rng.random() < 0.4:
        item = P.generators(max_generators=500)
    kinds = (".npz", ".ine" if item is P else ".ext")
    path = folder / f"set{kinds[int(rng.integers(2))]}"
    rh.write(path, item)
    return path


def damaged(data: bytes, rng: np.random.Generator, text: bool) -> bytes:
    """Cut, changed, doubled, or with a word of another file in the middle."""
    kind, at = rng.integers(5), int(rng.integers(len(data) + 1))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes(rng.integers(0, 256, int(rng.integers(1, 6)), dtype=np.uint8)) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[at // 2 :]
    word = str(rng.choice(WORDS)).encode()
    if not text or kind == 3:
        return data[:at] + word + data[at:]
    words = data.split()
    words[int(rng.integers(len(words)))] = word
    lines, shape = [], [len(line.split()) for line in data.splitlines()]
    for count in shape:
        lines.append(b" ".join(words[:count]))
        words = words[count:]
    return b"\n".join(lines)


def same(first: Any, second: Any) -> bool:
    """Whether two sets, or two hulls, hold the same numbers."""
    if isinstance(first, rh.Polyhedron):
        return bool(first.fingerprint == second.fingerprint)
    return all(np.array_equal(getattr(first, kind), getattr(second, kind)) for kind in ("vertices", "rays", "lines"))


def judge(rng: np.random.Generator, folder: Path) -> Counter[str]:
    """One file, whole and then damaged a few times."""
    seen = Counter[str]()
    try:
        path = written(random_set(rng), rng, folder)
    except rh.RayhullError:
        return seen
    item = rh.read(path)
    if path.suffix == ".npz":
        again = folder / f"again{path.suffix}"
        rh.write(again, item)
        if not same(rh.read(again), item):
            raise AssertionError(f"{item!r} does not survive being written and read.")
    seen[f"whole {path.suffix}"] += 1
    data = path.read_bytes()
    for _ in range(10):
        path.write_bytes(damaged(data, rng, path.suffix != ".npz"))
        began = time.monotonic()
        try:
            rh.read(path)
            seen["damaged, still a set"] += 1
        except rh.RayhullError as error:
            seen[type(error).__name__] += 1
        if time.monotonic() - began > SECONDS:
            raise AssertionError(f"reading took {time.monotonic() - began:.0f} s: {path.read_bytes()[:2000]!r}")
    return seen


def run(seconds: float, seed: int) -> dict[str, Any]:
    """Write, damage and read files until the time is over; any error but our own is raised."""
    rng, start, found = np.random.default_rng(seed), time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() - start < seconds:
            try:
                found += judge(rng, Path(folder))
            except rh.EmptySetError:
                continue
    return dict(found)
