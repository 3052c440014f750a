"""Find and load the compiled libraries; None where there is none that runs here.

``RAYHULL_CORE=0`` in the environment turns the compiled core off; a folder there is where the libraries are taken from.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path

from rayhull.core import build

TURNED_OFF = "reference (RAYHULL_CORE=0)"


def status() -> str:
    """What runs, for each library."""
    found = {name: _find(name) for name in build.PARTS}
    text = "; ".join(f"{name}: {what}" for name, (_, what) in found.items())
    return text + ("; 30 to 600 times slower than compiled" if ": reference" in text else "")


def load(name: str) -> ctypes.CDLL | None:
    """The compiled library ``conversion`` or ``operators``, if it is there, runs here and fits these sources."""
    found, what = _find(name)
    if found is None and what != TURNED_OFF:
        _warn_once()
    return found


@cache
def _warn_once() -> None:
    """The first call that goes without a library says so; who set ``RAYHULL_CORE=0`` knows."""
    warnings.warn(
        f"rayhull runs without its compiled core ({status()}). It needs a C++ compiler: "
        "python -m rayhull.core.build; RAYHULL_CORE=0 in the environment takes the reference without this warning.",
        RuntimeWarning,
        stacklevel=3,
    )


def look_again() -> None:
    """Forget which libraries were found: after a build, or another ``RAYHULL_CORE``."""
    _find.cache_clear()
    _warn_once.cache_clear()


@cache
def _find(name: str) -> tuple[ctypes.CDLL | None, str]:
    """A library, and what to say of it."""
    setting = os.environ.get("RAYHULL_CORE", "")
    if setting == "0":
        return None, TURNED_OFF
    folder = Path(setting) if setting else build.FOLDER
    path = next((p for p in reversed(_paths(name, folder)) if p.exists()), None)
    if path is None:
        return None, "reference (not compiled; python -m rayhull.core.build does)"
    if f"rayhull core {build.digest(name)}".encode() not in path.read_bytes():
        return None, "reference (compiled from older sources; python -m rayhull.core.build renews it)"
    try:
        if name == "operators":
            import torch  # noqa: F401  # the library looks its symbols up when it is opened
        return ctypes.CDLL(str(path)), f"compiled ({path.name})"
    except OSError as error:
        return None, f"reference ({path.name} cannot be loaded: {error})"
    except ModuleNotFoundError:
        return None, "none (they need torch, which is not installed: pip install torch)"


def _paths(name: str, folder: Path) -> list[Path]:
    """Where the library may be, for the instruction sets that this processor has, best last."""
    levels = list(build.levels())
    best = levels.index(_level(folder, levels[0])) if len(levels) > 1 else 0
    return [build.library_path(name, level, folder) for level in levels[: best + 1]]


@cache
def _level(folder: Path, portable: str) -> str:
    """The best instruction set of this processor, asked of the library that runs on all."""
    try:
        ask = ctypes.CDLL(str(build.library_path("conversion", portable, folder))).rayhull_level
    except (OSError, AttributeError):
        return portable
    ask.restype = ctypes.c_char_p
    return str(ask().decode())
