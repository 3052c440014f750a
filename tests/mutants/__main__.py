"""Plant each mutant alone in a copy of the tree and run the tests it names; the working tree is never touched.

Answers are kept in ``.mutants.json`` with a digest of the sources, so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.mutants import ROOT, Mutant, table

MEMORY = ROOT / ".mutants.json"
SECONDS = 600  # a mutant that runs for longer hangs: killed by the clock
COPIED = ("src", "tests", "benchmarks", "experiments", "examples", "docs", "results")
FAILED = 1  # pytest's exit code for tests that ran and failed; 2 to 5 mean that nothing was judged


def main() -> int:
    """The mutants that survive, and a count; exit code 1 if there are any."""
    options = _options()
    chosen = [m for m in table() if all(word in m.name for word in options.only)]
    if options.list:
        print("\n".join(m.name for m in chosen))
        return 0
    known = {} if options.again else _remembered()
    began = time.monotonic()
    with _copies(options.jobs) as copies:
        unsound = _check_unmutated(chosen, copies, known)
        if unsound:
            print(f"These tests fail without any mutant, so they judge nothing:\n{unsound}")
            return 2
        verdicts = _run(chosen, copies, options.jobs, known)
    survivors = [m for m in chosen if not verdicts[m.name].startswith("killed")]
    for mutant in survivors:
        print(f"SURVIVES {mutant.name}\n    {mutant.old!r} -> {mutant.new!r}\n    {verdicts[mutant.name]}")
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed in {time.monotonic() - began:.0f} s.")
    return int(bool(survivors))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=main.__doc__)
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="mutants whose file or fault has each word"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--again", action="store_true", help="forget the answers of an earlier run of the same sources")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    return parser.parse_args()


@contextlib.contextmanager
def _copies(jobs: int) -> Iterator[queue.Queue[Path]]:
    """One copy of the tree for each job."""
    with tempfile.TemporaryDirectory(prefix="rayhull-mutants-") as folder:
        copies: queue.Queue[Path] = queue.Queue()
        for job in range(jobs):
            copies.put(_copy(Path(folder) / str(job)))
        yield copies


def _copy(to: Path) -> Path:
    """The tree with its compiled files (a mutated file is newer than them), without environments and caches."""
    to.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, to / name, ignore=shutil.ignore_patterns(".pytest_cache", ".mypy_cache"))
    for path in ROOT.iterdir():
        if path.is_file() and path != MEMORY:
            shutil.copy2(path, to)
    return to


def _check_unmutated(chosen: list[Mutant], copies: queue.Queue[Path], known: dict[str, str]) -> str:
    """What the named tests say of the sources as they are: "" if all pass."""
    if known.get("unmutated") == _named(chosen):
        return ""
    copy = copies.get()
    try:
        code, said = _pytest(copy, sorted({test for m in chosen for test in m.tests}), 60 * SECONDS)
    finally:
        copies.put(copy)
    if code == 0:
        known["unmutated"] = _named(chosen)
        _remember(known)
    return "" if code == 0 else said


def _named(chosen: list[Mutant]) -> str:
    return " ".join(sorted({test for m in chosen for test in m.tests}))


def _run(chosen: list[Mutant], copies: queue.Queue[Path], jobs: int, known: dict[str, str]) -> dict[str, str]:
    """The verdict on each mutant, by name; one line is printed for each as it falls."""
    left = [m for m in chosen if _key(m) not in known]
    print(f"{len(chosen)} mutants, {len(left)} to run.", flush=True)
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(_judge, m, copies): m for m in left}
        for count, future in enumerate(as_completed(futures), start=1):
            mutant = futures[future]
            known[_key(mutant)] = future.result()
            _remember(known)
            print(f"[{count}/{len(left)}] {known[_key(mutant)].splitlines()[0]}: {mutant.name}", flush=True)
    return {m.name: known[_key(m)] for m in chosen}


def _judge(mutant: Mutant, copies: queue.Queue[Path]) -> str:
    """Plant, test, take out again; the compiled libraries come back with their sources."""
    copy = copies.get()
    path = copy / "src" / "rayhull" / mutant.file
    libraries, kept = copy / "src" / "rayhull" / "core" / "lib", copy / "lib"
    if path.suffix in (".cpp", ".hpp") and libraries.exists():
        shutil.copytree(libraries, kept)
    whole = path.read_text(encoding="utf-8")
    before = path.stat()
    try:
        path.write_text(whole.replace(mutant.old, mutant.new), encoding="utf-8")
        code, said = _pytest(copy, list(mutant.tests), SECONDS)
    except subprocess.TimeoutExpired:
        return "killed by the clock"
    finally:
        path.write_text(whole, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        if kept.exists():
            shutil.rmtree(libraries)
            kept.rename(libraries)
        copies.put(copy)
    if code == FAILED:
        return f"killed by {said.rpartition('FAILED tests/')[2].split()[0]}"
    return "survives" if code == 0 else f"not judged (pytest's exit code {code})\n{said}"


def _pytest(copy: Path, tests: list[str], seconds: float) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not slow"]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *(f"tests/{test}" for test in tests)],
        cwd=copy, env=environment, capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout[-3000:] + done.stderr[-1000:]


def _key(mutant: Mutant) -> str:
    return f"{mutant.file} | {mutant.old} | {mutant.new} | {' '.join(mutant.tests)}"


def _digest() -> str:
    """Of everything a verdict depends on."""
    digest = hashlib.sha256()
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".cpp", ".hpp", ".json") and "mutants" not in path.parts:
                digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = _digest()


def _remembered() -> dict[str, str]:
    """The answers of an earlier run of the same sources."""
    if MEMORY.exists():
        memory = json.loads(MEMORY.read_text())
        if memory["sources"] == SOURCES:
            return dict(memory["answers"])
    return {}


def _remember(answers: dict[str, str]) -> None:
    new = MEMORY.with_suffix(".new")
    new.write_text(json.dumps({"sources": SOURCES, "answers": answers}, indent=1))
    new.replace(MEMORY)


if __name__ == "__main__":
    sys.exit(main())
