"""Rays remembered: in the process always, on disk where a cone took longer than about half a second.

A file's name is a digest of the cone, and its content carries a digest of cone and rays, so a damaged file or one that
was made for another cone is removed and its rays are computed anew. Rays from disk pass the same verification as new
ones. Plain .npz, no pickle; written to a temporary name and renamed, so a file is whole or absent.

Files are kept until they are removed: ``rayhull cache`` shows them and ``rayhull cache --clear`` removes them, as
:func:`info` and :func:`clear` do from Python.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rayhull.conversion.double_description import verified_rays
from rayhull.exact.numbers import narrow
from rayhull.sets.rows import Array

VERSION = 3
SLOW = 0.5  # seconds
MEMORY_ENTRIES = 128
OURS = re.compile(r"[0-9a-f]{64}\.npz|rayhull-.*\.part")

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


def remembered(C: Array, find: Callable[[], tuple[Array, float]]) -> Array:
    """The rays of {y >= 0, C y >= 0}: from memory, from disk, or found, which tells the seconds it took."""
    name = _key(C)
    if name in _memory:
        _memory.move_to_end(name)
        return _memory[name].copy()
    rays = _load(name, C)
    if rays is None:
        rays, seconds = find()
        if seconds >= SLOW:
            _store(name, rays)
    _memory[name] = rays.copy()
    while len(_memory) > MEMORY_ENTRIES:
        _memory.popitem(last=False)
    return rays


def _key(C: Array) -> str:
    """A digest of the cone."""
    digest = hashlib.sha256(f"{VERSION} {C.shape} {C.dtype.kind}|".encode())
    digest.update(_bytes(C))
    return digest.hexdigest()


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
        rays = _unplain(file["rays"])
        if rays.ndim != 2 or rays.shape[1] != C.shape[1] or str(file["digest"]) != digest_of(name, rays):
            raise ValueError("the content does not match its digest")
    return verified_rays(C, rays)


def _store(name: str, rays: Array) -> None:
    """Keep the rays on disk. A disk that refuses is no error: the rays are there."""
    part, rays = None, narrow(rays)
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), prefix="rayhull-", suffix=".part", delete=False) as file:
            part = Path(file.name)
            np.savez_compressed(file, rays=_plain(rays), digest=np.array(digest_of(name, rays)))
        os.replace(part, folder() / f"{name}.npz")
    except OSError:
        return
    finally:  # also after Ctrl-C
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _plain(rays: Array) -> Any:
    """Python integers as decimal text, which needs no pickle."""
    return rays.astype(str) if rays.dtype == object else rays


def _unplain(stored: Array) -> Array:
    if stored.dtype.kind != "U":
        return stored
    return narrow(np.array([int(v) for v in stored.ravel().tolist()], dtype=object).reshape(stored.shape))


def digest_of(name: str, rays: Array) -> str:
    """What a file carries beside its rays: a digest of them and of the cone's name."""
    return hashlib.sha256(f"{name} {rays.shape} {rays.dtype.kind}|".encode() + _bytes(rays)).hexdigest()


def _bytes(values: Array) -> bytes:
    if values.dtype == object:
        return ",".join(map(str, values.ravel().tolist())).encode()
    return np.ascontiguousarray(values).tobytes()
