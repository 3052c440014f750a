"""Rays remembered: in the process always, on disk where a cone took longer than about half a second.

A file's name is a digest of the cone; its content is checked by a digest of its own, so a damaged or truncated file is
removed and computed anew. Plain .npz, no pickle; written to a temporary name and renamed, so a file is whole or absent.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from rayhull.exact.numbers import narrow
from rayhull.sets.rows import Array

VERSION = 1
SLOW = 0.5  # seconds
MEMORY_ENTRIES = 128

_memory: OrderedDict[str, Array] = OrderedDict()


def folder() -> Path:
    """Where files go: $RAYHULL_CACHE, else $XDG_CACHE_HOME/rayhull, else ~/.cache/rayhull."""
    chosen = os.environ.get("RAYHULL_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rayhull"


def key(C: Array, engine: str) -> str:
    """A digest of the cone {y >= 0, C y >= 0} and of who converts it."""
    digest = hashlib.sha256(f"{VERSION} {engine} {C.shape} {C.dtype.kind}|".encode())
    digest.update(_bytes(C))
    return digest.hexdigest()


def load(name: str, C: Array) -> Array | None:
    """The rays of this cone if they are known."""
    if name in _memory:
        _memory.move_to_end(name)
        return _memory[name].copy()
    path = folder() / f"{name}.npz"
    try:
        rays = _read(path, C.shape[1])
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None
    except Exception:  # whatever a damaged file makes NumPy or zipfile say
        path.unlink(missing_ok=True)
        return None
    _remember(name, rays)
    return rays.copy()


def store(name: str, C: Array, rays: Array, seconds: float) -> None:
    """Remember the rays; on disk if they were slow to find. A disk that refuses is no error: the rays are there."""
    _remember(name, rays.copy())
    if seconds < SLOW:
        return
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder(), suffix=".part", delete=False) as file:
            np.savez_compressed(file, rays=_plain(rays), digest=np.array(_digest(rays)), exact=rays.dtype.kind != "f")
        os.replace(file.name, folder() / f"{name}.npz")
    except OSError:
        return


def clear() -> None:
    """Forget everything, in memory and on disk."""
    _memory.clear()
    for path in folder().glob("*.npz"):
        path.unlink(missing_ok=True)


def _remember(name: str, rays: Array) -> None:
    _memory[name] = rays
    while len(_memory) > MEMORY_ENTRIES:
        _memory.popitem(last=False)


def _read(path: Path, columns: int) -> Array:
    with np.load(path, allow_pickle=False) as file:
        rays = _unplain(file["rays"])
        if rays.shape[1] != columns or str(file["digest"]) != _digest(rays):
            raise ValueError("the content does not match its digest")
    return rays


def _plain(rays: Array) -> Any:
    """Python integers as decimal text, which needs no pickle."""
    return rays.astype(str) if rays.dtype == object else rays


def _unplain(stored: Array) -> Array:
    if stored.dtype.kind != "U":
        return stored
    return narrow(np.array([int(v) for v in stored.ravel().tolist()], dtype=object).reshape(stored.shape))


def _digest(rays: Array) -> str:
    return hashlib.sha256(repr(rays.shape).encode() + _bytes(rays)).hexdigest()


def _bytes(values: Array) -> bytes:
    if values.dtype == object:
        return ",".join(map(str, values.ravel().tolist())).encode()
    return np.ascontiguousarray(values).tobytes()
