"""Rays remembered: in the process always, on disk where a cone took longer than about half a second.

A file's name is a digest of the cone, and its content carries a digest of cone and rays, so a damaged file or one that
was made for another cone is removed and its rays are computed anew. Rays from disk pass the same verification as new
ones. Plain .npz, no pickle, and whole or absent.

Files are kept until they are removed: ``rayhull cache`` shows them and ``rayhull cache --clear`` removes them, as
:func:`info` and :func:`clear` do from Python.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rayhull.conversion.double_description import verified_rays
from rayhull.conversion.files import restored, write_npz
from rayhull.exact.numbers import narrow
from rayhull.sets.rows import Array

VERSION = 3
SLOW = 0.5  # seconds
MEMORY_ENTRIES = 128
OURS = re.compile(r"[0-9a-f]{64}\.npz|\.[0-9a-f]{64}\.npz\..*\.part")

_memory: OrderedDict[str, Array] = OrderedDict()


class Info(NamedTuple):
    """What is kept: the folder, its files and their bytes, and the cones in this process's memory."""

    folder: Path
    files: int
    bytes: int
    in_memory: int


def folder() -> Path:
    """Where files go: $RAYHULL_CACHE, else $XDG_CACHE_HOME/rayhull, else ~/.cache/rayhull."""
    chosen = os.environ.get("RAYHULL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "rayhull"


def info() -> Info:
    """How much is kept, and where.

    >>> from rayhull.conversion import cache
    >>> cache.clear()
    >>> cache.info().in_memory
    0
    """
    sizes = [path.stat().st_size for path in _files()]
    return Info(folder(), len(sizes), sum(sizes), len(_memory))


def forget() -> None:
    """Forget what is in memory; files stay."""
    _memory.clear()


def clear() -> None:
    """Forget everything, in memory and on disk; other files in the folder stay."""
    forget()
    for path in _files():
        path.unlink(missing_ok=True)


def _files() -> list[Path]:
    with suppress(OSError):
        return [path for path in folder().iterdir() if OURS.fullmatch(path.name) and path.is_file()]
    return []


def remembered(C: Array, find: Callable[[Array], Array]) -> Array:
    """The rays of {y >= 0, C y >= 0}: from memory, from disk, or found."""
    name = digest_of(str(VERSION), C)
    rays = _memory.pop(name, None)
    if rays is None:
        rays = _load(name, C)
    if rays is None:
        start = time.monotonic()
        rays = find(C)
        if time.monotonic() - start >= SLOW:
            _store(name, rays)
    _memory[name] = rays  # at the end: those that were not asked for longest go first
    while len(_memory) > MEMORY_ENTRIES:
        _memory.popitem(last=False)
    return rays.copy()


def _load(name: str, C: Array) -> Array | None:
    """The rays on disk, verified; None where there are none, and a file that is not right is removed."""
    path = folder() / f"{name}.npz"
    try:
        if not path.is_file():  # a folder cannot be read, and a pipe would never end
            return None
        return _read(path, name, C)
    except PermissionError:
        return None
    except Exception:  # whatever a damaged file makes NumPy, zipfile or the verification say
        with suppress(OSError):
            path.unlink()
        return None


def _read(path: Path, name: str, C: Array) -> Array:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        rays = narrow(restored(file["rays"]))
        if rays.ndim != 2 or rays.shape[1] != C.shape[1] or str(file["digest"]) != digest_of(name, rays):
            raise ValueError("the content does not match its digest")
    return verified_rays(C, rays)


def _store(name: str, rays: Array) -> None:
    """Keep the rays on disk. A disk that refuses is no error: the rays are there."""
    rays = narrow(rays)
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        write_npz(folder() / f"{name}.npz", {"rays": rays, "digest": np.array(digest_of(name, rays))})


def digest_of(name: str, rays: Array) -> str:
    """A digest of rays and of the name of their cone; of a cone and our version it is that name."""
    content = ",".join(map(str, rays.ravel().tolist())).encode() if rays.dtype == object else rays.tobytes()
    return hashlib.sha256(f"{name} {rays.shape} {rays.dtype.kind}|".encode() + content).hexdigest()
