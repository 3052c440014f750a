"""Sets in files: cdd's .ine and .ext, and our .npz; no pickle anywhere.

An .npz holds the arrays of a Polyhedron (A, b, A_eq, b_eq, lower, upper, shape) or of Generators (vertices, rays,
lines). Sparse matrices are kept as ``A.data``, ``A.indices``, ``A.indptr`` and ``A.shape``; Python numbers as text:
integers and fractions in decimal, floats among them in hexadecimal, so that nothing is rounded.
"""

from __future__ import annotations

import io
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from rayhull.conversion.cdd import KINDS, format_cdd, parse_cdd
from rayhull.conversion.generators import Generators
from rayhull.errors import EmptySetError, FileFormatError
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.rows import Array

SET = ("A", "b", "A_eq", "b_eq", "lower", "upper")
HULL = ("vertices", "rays", "lines")
SPARSE = ("data", "indices", "indptr", "shape")
EXACT = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")


def read(path: str | Path) -> Polyhedron | Generators:
    """The set in a file: .ine gives a Polyhedron, .ext Generators, .npz whichever was written.

    Examples:
        >>> import tempfile, rayhull as rh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rh.write(f"{folder}/simplex.ine", rh.simplex(3))
        ...     rh.read(f"{folder}/simplex.ine")
        Polyhedron(shape=(3,): 3 inequalities, 1 equality)
    """
    path = Path(path)
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix not in KINDS:
        raise FileFormatError(f"{path.name}: unknown ending {path.suffix!r}; expected .ine, .ext or .npz.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileFormatError(f"{path.name} is not a text file, so not a cdd file.") from None
    return parse_cdd(text, path.suffix, path.name)


def write(path: str | Path, item: Polyhedron | Generators) -> None:
    """Write a set: .ine and .npz take a Polyhedron, .ext and .npz take Generators.

    Examples:
        >>> import tempfile, rayhull as rh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rh.write(f"{folder}/simplex.ext", rh.simplex(3).generators())
        ...     rh.read(f"{folder}/simplex.ext")
        Generators(3 vertices, 0 rays, 0 lines in R^3, exact)
    """
    path = Path(path)
    expected = {".ine": Polyhedron, ".ext": Generators}.get(path.suffix, (Polyhedron, Generators))
    if path.suffix not in (*KINDS, ".npz") or not isinstance(item, expected):
        raise FileFormatError(
            f"{path.name} cannot hold {type(item).__name__}: inequalities go to .ine, generators to .ext, both to .npz."
        )
    if path.suffix == ".npz":
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **_npz_content(item))
        _write_whole(path, buffer.getvalue())
    else:
        _write_whole(path, format_cdd(item).encode())


def _write_whole(path: Path, data: bytes) -> None:
    """All of the data or nothing: whoever stops us in between keeps the file that was there."""
    target = path.resolve()
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(data)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _npz_content(item: Polyhedron | Generators) -> dict[str, Any]:
    if isinstance(item, Generators):
        exact = item.exact
        rays, lines = (item.rays, item.lines) if exact is None else (exact.rays, exact.lines)
        points = item.vertices if item.exact_vertices is None else item.exact_vertices
        return {name: _storable(a) for name, a in zip(HULL, (points, rays, lines), strict=True)}
    content: dict[str, Any] = {"shape": np.array(item.shape, np.int64)}
    for name in SET:
        values = getattr(item, name)
        if sp.issparse(values):
            csr = sp.csr_array(values)
            content |= {f"{name}.{part}": np.asarray(getattr(csr, part)) for part in SPARSE}
        elif values is not None:
            content[name] = _storable(np.asarray(values))
    return content


def _storable(values: Array) -> Array:
    """Python numbers as text; other arrays as they are."""
    if values.dtype != object:
        return values
    texts = [v.hex() if isinstance(v, float) else str(v) for v in values.ravel().tolist()]
    return np.array(texts, dtype=str).reshape(values.shape)


def _read_npz(path: Path) -> Polyhedron | Generators:
    with path.open("rb") as opened:
        content = _arrays(opened, path.name)
    names = {name.partition(".")[0] for name in content}
    if not names & {*SET, *HULL}:
        raise FileFormatError(f"{path.name} holds {sorted(content)}; expected some of {', '.join(SET + HULL)}.")
    try:
        return _hull(content) if names & set(HULL) else _set(content)
    except EmptySetError:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, IndexError) as error:
        raise FileFormatError(f"{path.name} does not state a set: {error}") from None


def _arrays(opened: IO[bytes], name: str) -> dict[str, Array]:
    try:
        with np.load(opened, allow_pickle=False) as file:
            return {name: _restored(file[name]) for name in file.files}
    except Exception as error:  # zipfile and NumPy have many ways to say that a file is damaged
        raise FileFormatError(f"{name} is damaged or not an .npz file ({error}).") from None


def _restored(values: Array) -> Array:
    if values.dtype.kind != "U":
        return values
    out = np.empty(values.size, dtype=object)
    out[:] = [Fraction(v) if EXACT.fullmatch(v) else float.fromhex(v) for v in values.ravel().tolist()]
    return out.reshape(values.shape)


def _hull(content: dict[str, Array]) -> Generators:
    vertices, rays, lines = (content.get(name) for name in HULL)
    return Generators(vertices, rays, lines)


def _set(content: dict[str, Array]) -> Polyhedron:
    known: dict[str, Any] = {name: content[name] for name in SET if name in content}
    known |= {name: _sparse(content, name) for name in ("A", "A_eq") if f"{name}.data" in content}
    return Polyhedron(**known, shape=_counts(content["shape"]) if "shape" in content else None)


def _sparse(content: dict[str, Array], name: str) -> sp.csr_array:
    data, indices, indptr, shape = (content[f"{name}.{part}"] for part in SPARSE)
    matrix = sp.csr_array((data, np.array(_counts(indices)), np.array(_counts(indptr))), shape=_counts(shape))
    matrix.check_format(full_check=True)  # places beyond the shape would be read from foreign memory
    return matrix


def _counts(values: Array) -> tuple[int, ...]:
    if values.dtype.kind not in "iu" or values.ndim != 1:
        raise ValueError(f"expected a list of whole numbers, got {values.dtype} of shape {values.shape}.")
    return tuple(values.tolist())
