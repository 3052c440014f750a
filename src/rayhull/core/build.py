"""Compile the core: ``python -m rayhull.core.build``. The wheel's build hook calls the same function.

Two libraries, each once for every instruction set of the processor family; the loader takes the best that runs:

- ``conversion``: plain C functions on arrays. Needs a compiler alone, so files are converted without importing torch.
- ``operators``: what a forward pass meets, through LibTorch's stable ABI. One binary serves torch 2.10 and later; it is
  left out where torch's headers are missing.

A library carries the digest of the sources it was made from: one that is out of date is never loaded.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
FOLDER = HERE / "lib"  # no package: Python must not take a library for a module
SUFFIX = {"Darwin": ".dylib", "Windows": ".dll"}.get(platform.system(), ".so")

# What each library is made of. Exact arithmetic is compiled as written; the projection's sums may be reordered, which
# lets them use vector registers; the layer's products and sums may be fused, which takes a rounding away and so keeps
# every strict margin. Infinities stay: a bound may be one.
PARTS = {"conversion": ["conversion"], "operators": ["projection", "layer", "operators"]}
COMMON = ["-std=c++20", "-O3", "-fvisibility=hidden", "-fno-math-errno", "-Wall", "-Wextra", "-Wno-psabi"]
REORDERED = ["-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-freciprocal-math", "-ffp-contract=fast"]
FUSED, AS_WRITTEN = ["-ffp-contract=fast"], ["-ffp-contract=off"]
FLAGS = {"conversion": AS_WRITTEN, "projection": REORDERED, "layer": FUSED, "operators": AS_WRITTEN}
STABLE_ABI = "-DTORCH_TARGET_VERSION=0x020a000000000000"  # torch 2.10
# What a shared library takes: clang refuses -fPIC for Windows, and finds the division of 128 bits in its own runtime.
SHARED, RUNTIME = ([], ["--rtlib=compiler-rt"]) if platform.system() == "Windows" else (["-fPIC"], [])
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-D_GLIBCXX_ASSERTIONS")
COVERAGE = ("-O0", "-g", "--coverage", "-fprofile-update=atomic")


class CannotBuildError(Exception):
    """There is no compiler, or it failed."""


def levels() -> dict[str, list[str]]:
    """Instruction sets to build for, the portable one first, with the compiler's flags."""
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return {level: [f"-march={level}"] for level in ("x86-64-v2", "x86-64-v3")}
    return {machine: []}


def digest(name: str) -> str:
    """What a library's sources say, in 16 hexadecimal digits."""
    sha = hashlib.sha256()
    for folder in (SOURCE, *(SOURCE / part for part in PARTS[name])):
        for path in sorted(folder.glob("*.[ch]pp")):
            sha.update(path.name.encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


def library_path(name: str, level: str, folder: Path = FOLDER) -> Path:
    """Where a library lies."""
    return folder / f"{name}-{level}{SUFFIX}"


def torch_home() -> Path | None:
    """The folder of torch with its headers, without importing it; also from inside pip's isolated environments."""
    spec = importlib.util.find_spec("torch")
    places = [Path(spec.origin).parent] if spec and spec.origin else []
    places += [Path(sysconfig.get_path(kind)) / "torch" for kind in ("purelib", "platlib")]
    return next((p for p in places if (p / "include/torch/csrc/stable/library.h").exists()), None)


def compiler() -> str:
    """The C++ compiler: ``CXX``, or the first that is found."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    found = next((path for path in map(shutil.which, names) if path), None)
    if found is None:
        raise CannotBuildError(f"no C++ compiler ({', '.join(names)}): install one, or set CXX.")
    return found


@dataclass(frozen=True)
class Build:
    """One way to compile, into one folder."""

    folder: Path = FOLDER
    extra: tuple[str, ...] = ()
    compiler: str = field(default_factory=compiler)
    torch: Path | None = field(default_factory=torch_home)

    def stamp(self, name: str) -> str:
        """What a library says of itself: its sources, and how it was compiled if not as usual."""
        flags = hashlib.sha256(" ".join(self.extra).encode()).hexdigest()[:4]
        return f"{digest(name)}-{flags}" if self.extra else digest(name)

    def run(self) -> list[Path]:
        """Compile what is out of date; returns the libraries that are there now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [name for name in PARTS if name != "operators" or self.torch is not None]
        chosen = list(levels())[:1] if self.extra else list(levels())  # the portable one is enough for tests
        wanted = [(name, level) for name in names for level in chosen]
        old = [(name, level) for name, level in wanted if not self._is_current(name, level)]
        with self._scratch() as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [
                (name, level, [pool.submit(self._compile, name, unit, level, Path(scratch)) for unit in _units(name)])
                for name, level in old
            ]
            for name, level, made in jobs:
                self._link(library_path(name, level, self.folder), [job.result() for job in made], name)
        return [library_path(name, level, self.folder) for name, level in wanted]

    def _scratch(self) -> AbstractContextManager[str]:
        """Where objects go; gcov writes what was run beside them, so for it they stay."""
        return nullcontext(str(self.folder)) if self.extra == COVERAGE else tempfile.TemporaryDirectory()

    def _is_current(self, name: str, level: str) -> bool:
        path = library_path(name, level, self.folder)
        return path.exists() and f"rayhull core {self.stamp(name)}\0".encode() in path.read_bytes()

    def _compile(self, name: str, unit: Path, level: str, scratch: Path) -> Path:
        part = unit.parent.name
        made = scratch / f"{part}-{unit.stem}-{level}.o"
        command = [*COMMON, *SHARED, *levels()[level], *FLAGS[part]]
        command += [f'-DRAYHULL_STAMP="{self.stamp(name)}"', f"-I{SOURCE}"]
        if part == "operators":
            command += [STABLE_ABI, "-isystem", f"{self.torch}/include"]
        self._call([*command, *self.extra, "-c", str(unit), "-o", str(made)])
        return made

    def _link(self, target: Path, objects: list[Path], name: str) -> None:
        libraries = [f"-L{self.torch}/lib", "-ltorch_cpu", "-lc10"] if name == "operators" else ["-pthread"]
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        self._call(["-shared", *RUNTIME, *self.extra, *map(str, objects), *libraries, "-o", str(fresh)])
        fresh.replace(target)  # a process that has the old one open keeps it

    def _call(self, arguments: list[str]) -> None:
        done = subprocess.run([self.compiler, *arguments], capture_output=True, text=True, check=False)
        print(done.stderr, end="", file=sys.stderr)  # warnings too
        if done.returncode:
            raise CannotBuildError(f"{self.compiler} failed on {Path(arguments[-3]).name}; its messages are above.")


def _units(name: str) -> list[Path]:
    return [path for part in PARTS[name] for path in sorted((SOURCE / part).glob("*.cpp"))]


def main() -> int:
    """Build, and say what there is."""
    parser = argparse.ArgumentParser(description="Compile the core of rayhull in place, where it is out of date.")
    parser.add_argument("--sanitize", type=Path, metavar="FOLDER", help="with AddressSanitizer and UBSan, into FOLDER")
    parser.add_argument("--coverage", type=Path, metavar="FOLDER", help="counting executed lines (gcov), into FOLDER")
    options = parser.parse_args()
    folder = options.sanitize or options.coverage or FOLDER
    extra = SANITIZE if options.sanitize else COVERAGE if options.coverage else ()
    try:
        made = Build(folder.resolve(), extra).run()
    except CannotBuildError as error:
        print(f"rayhull: {error}", file=sys.stderr)
        return 1
    print("\n".join(f"{path.name}: {path.stat().st_size // 1024} KB" for path in made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
