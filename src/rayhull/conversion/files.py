"""Sets in files: cdd's .ine and .ext, and our .npz; no pickle anywhere.

An .npz holds the arrays of a Polyhedron (A, b, A_eq, b_eq, lower, upper, shape) or of Generators (vertices, rays,
lines). Sparse matrices are kept as ``A.data``, ``A.indices``, ``A.indptr`` and ``A.shape``; Python numbers as text:
integers and fractions in decimal, floats among them in hexadecimal, so that nothing is rounded.

In .ine a row (c, g) means c + g·x >= 0, so with our sign g = -a and c = b. In .ext a row (1, v) is a vertex and (0, r)
a ray. ``linearity`` names the rows (counted from 1) that are equalities, or lines. Other lines outside the table are
titles, or ask for an output of cdd's programs; they are ignored unless they would change the set.
"""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from secrets import token_hex
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from rayhull.conversion.generators import Generators
from rayhull.errors import EmptySetError, FileFormatError
from rayhull.exact.numbers import whole
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.rows import Array

SET = ("A", "b", "A_eq", "b_eq", "lower", "upper")
HULL = ("vertices", "rays", "lines")
SPARSE = ("data", "indices", "indptr", "shape")
EXACT = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
KINDS = {".ine": "H-representation", ".ext": "V-representation"}
LINEARITY = ("linearity", "equality")
REFUSED = {  # lines that state another set than the table does
    "strict_inequality": "sets here are closed: leave the line out to get the closure",
    "partial_enumeration": "to set these rows to equalities, write them as linearity",
    "partial_enum": "to set these rows to equalities, write them as linearity",
    "nonnegative": "write the rows x >= 0 into the table",
}
INTEGER = re.compile(r"[+-]?[0-9]+")
FRACTION = re.compile(r"[+-]?[0-9]+(/[0-9]+)?")
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
LONGEST = 2000  # characters of a number: Python reads decimal integers of up to 4300 digits
FLOAT_RANGE = Fraction(1, 10**300), Fraction(10**300)  # each number has a float beside it


def read(path: str | Path) -> Polyhedron | Generators:
    """The set in the file ``path``: .ine gives a Polyhedron, .ext Generators, .npz whichever was written.

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
    """Write the set ``item`` to ``path``: .ine and .npz take a Polyhedron, .ext and .npz take Generators.

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
        write_npz(path, content_of(item))
    else:
        _write_whole(path, format_cdd(item).encode())


def write_npz(path: Path, content: dict[str, Array]) -> None:
    """The arrays in a file; numbers of Python as text."""
    _write_whole(path, as_npz(content, np.savez_compressed))


def as_npz(content: dict[str, Array], save: Callable[..., None]) -> bytes:
    """The arrays in the bytes of a file, by NumPy's ``savez`` or ``savez_compressed``."""
    buffer = io.BytesIO()
    save(buffer, **{name: _storable(values) for name, values in content.items()})
    return buffer.getvalue()


def _write_whole(path: Path, data: bytes) -> None:
    """All of the data or nothing: whoever stops us in between, or writes too, leaves a file that is whole."""
    target = path.resolve()
    part = target.with_name(f".{target.name}.{token_hex(4)}.part")
    try:
        part.write_bytes(data)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def content_of(item: Polyhedron | Generators) -> dict[str, Array]:
    """What an .npz holds of a set."""
    if isinstance(item, Generators):
        return dict(zip(HULL, item.stated, strict=True))
    content: dict[str, Array] = {"shape": np.array(item.shape, np.int64)}
    for name in SET:
        values = getattr(item, name)
        if sp.issparse(values):
            csr = sp.csr_array(values)
            content |= {f"{name}.{part}": np.asarray(getattr(csr, part)) for part in SPARSE}
        elif values is not None:
            content[name] = np.asarray(values)
    return content


def _storable(values: Array) -> Array:
    """Python numbers as text; other arrays as they are."""
    if values.dtype != object:
        return values
    texts = [v.hex() if isinstance(v, float) else str(v) for v in values.ravel().tolist()]
    return np.array(texts, dtype=str).reshape(values.shape)


def _read_npz(path: Path) -> Polyhedron | Generators:
    with path.open("rb") as opened:
        content = arrays(opened, path.name)
    names = {name.partition(".")[0] for name in content}
    if not names & {*SET, *HULL}:
        raise FileFormatError(f"{path.name} holds {sorted(content)}; expected some of {', '.join(SET + HULL)}.")
    with _stating_a_set(path.name):
        return Generators(*map(content.get, HULL)) if names & set(HULL) else stated_set(content)


def arrays(opened: IO[bytes], name: str) -> dict[str, Array]:
    """The arrays of an .npz."""
    try:
        with np.load(opened, allow_pickle=False) as file:
            return {name: restored(file[name]) for name in file.files}
    except Exception as error:  # zipfile and NumPy have many ways to say that a file is damaged
        raise FileFormatError(f"{name} is damaged or not an .npz file ({error}).") from None


def restored(values: Array) -> Array:
    """What was stored: text as integers, fractions or floats."""
    if values.dtype.kind != "U":
        return values
    out = np.empty(values.size, dtype=object)
    out[:] = [whole(Fraction(v)) if EXACT.fullmatch(v) else float.fromhex(v) for v in values.ravel().tolist()]
    return out.reshape(values.shape)


def stated_set(content: dict[str, Array]) -> Polyhedron:
    """The set that :func:`content_of` describes."""
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


# -- cdd's text format -------------------------------------------------------------------------------------------------


def parse_cdd(text: str, suffix: str, name: str) -> Polyhedron | Generators:
    """A set from cdd text; ``suffix`` says which kind the file's name promises."""
    lines = ["" if line.lstrip().startswith("*") else line.strip() for line in text.splitlines()]
    declared = next((k for k in KINDS.values() if any(line.lower() == k.lower() for line in lines)), None)
    if declared is not None and declared != KINDS[suffix]:
        raise FileFormatError(f"{name} says {declared}, but its name promises {KINDS[suffix]} ({suffix}).")
    begin = _find("begin", lines, 0)
    if begin is None:
        raise FileFormatError(f"{name} has no line 'begin': it is empty, cut short, or not a cdd file.")
    m, d, kind = _size(lines[begin + 1 : begin + 2], name)
    end = _find("end", lines, begin + 2)
    words = [word for line in lines[begin + 2 : end] for word in line.split()]
    if end is None:
        raise FileFormatError(f"{name} stops after {len(words)} of {m * d} numbers, with no 'end': it is cut short.")
    if len(words) != m * d:
        raise FileFormatError(f"{name} promises {m * d} numbers but has {len(words)}.")
    table: Array = np.empty(m * d, dtype=object)
    table[:] = [_number(word, kind, name) for word in words]
    linear = _linearity(lines[:begin] + lines[end + 1 :], m, name)
    table = table.reshape(m, d)
    with _stating_a_set(name):
        return _polyhedron(table, linear) if suffix == ".ine" else _generators(table, linear, name)


@contextmanager
def _stating_a_set(name: str) -> Iterator[None]:
    """What is wrong with the numbers of a file, said with its name."""
    try:
        yield
    except (EmptySetError, FileFormatError):
        raise
    except (ValueError, TypeError, KeyError, OverflowError, IndexError) as error:
        raise FileFormatError(f"{name} does not state a set: {error}") from None


def _find(word: str, lines: list[str], start: int) -> int | None:
    return next((i for i in range(start, len(lines)) if lines[i].lower() == word), None)


def _is_count(word: str) -> bool:
    return len(word) < 10 and word.isascii() and word.isdigit()


def _size(line: list[str], name: str) -> tuple[int, int, str]:
    parts = line[0].split() if line else []
    if len(parts) != 3 or not (_is_count(parts[0]) and _is_count(parts[1])) or int(parts[1]) < 2:
        raise FileFormatError(f"{name}: after 'begin' expected 'rows columns integer|rational|real', got {line}.")
    if parts[2] not in ("integer", "rational", "real"):
        raise FileFormatError(f"{name}: number type must be integer, rational or real, got {parts[2]!r}.")
    return int(parts[0]), int(parts[1]), parts[2]


def _number(word: str, kind: str, name: str) -> Any:
    """An integer, a fraction or a float, as the file's number type says."""
    if len(word) > LONGEST:
        raise FileFormatError(f"{name}: a number of {len(word)} characters is too long (at most {LONGEST}).")
    forms = {"integer": (INTEGER,), "rational": (FRACTION, DECIMAL), "real": (DECIMAL,)}[kind]
    if not any(form.fullmatch(word) for form in forms) or re.search("/0+$", word):
        raise FileFormatError(f"{name}: {_short(word)} is not a number of type {kind}.")
    value: Any = float(word) if kind == "real" else Fraction(word) if kind == "rational" else int(word)
    low, high = FLOAT_RANGE
    if not math.isfinite(value) if kind == "real" else value and not low < abs(value) < high:
        raise FileFormatError(f"{name}: {_short(word)} is beyond the range of floats: scale its row.")
    return value


def _short(word: str) -> str:
    return repr(word if len(word) < 40 else f"{word[:20]}...{word[-5:]}")


def _linearity(lines: list[str], m: int, name: str) -> Array:
    """Which rows are equalities or lines, by all such lines before and after the table."""
    linear = np.zeros(m, bool)
    for line in lines:
        keyword, *words = line.lower().split() or [""]
        if keyword in REFUSED:
            raise FileFormatError(f"{name}: {keyword} is not supported; {REFUSED[keyword]}.")
        if keyword in LINEARITY:
            numbers = [int(w) for w in words if _is_count(w)]
            if len(numbers) != len(words) or not numbers or len(numbers) != numbers[0] + 1:
                raise FileFormatError(f"{name}: {keyword} must give a count and that many row numbers, got {line!r}.")
            if not all(1 <= n <= m for n in numbers[1:]):
                raise FileFormatError(f"{name}: {keyword} names a row beyond 1 to {m}: {line!r}.")
            linear[np.array(numbers[1:], int) - 1] = True
    return linear


def _polyhedron(table: Array, linear: Array) -> Polyhedron:
    A, b = -table[:, 1:], table[:, 0]
    return Polyhedron(
        A[~linear], b[~linear], A[linear], b[linear],
        names=[f"row {i + 1}" for i in np.flatnonzero(~linear)],
        eq_names=[f"row {i + 1}" for i in np.flatnonzero(linear)],
    )  # fmt: skip


def _generators(table: Array, linear: Array, name: str) -> Generators:
    point = np.asarray(table[:, 0] == 1, bool)
    if not (np.asarray(table[:, 0] == 0, bool) | (point & ~linear)).all():
        raise FileFormatError(
            f"{name}: each row of generators starts with 1 (vertex) or 0 (ray; line if in linearity)."
        )
    vertices = None if len(table) and not point.any() else table[point, 1:]  # a cone may come without its apex
    return Generators(vertices, table[~point & ~linear, 1:], table[linear, 1:])


def format_cdd(item: Polyhedron | Generators) -> str:
    """The set in cdd's text format, exact where it is exact."""
    if isinstance(item, Polyhedron):
        title, table, linear, exact = _inequality_table(item)
    else:
        title, table, linear, exact = _generator_table(item)
    flat = [v for row in table for v in row]
    kind = "real" if not exact else "integer" if all(Fraction(v).denominator == 1 for v in flat) else "rational"
    lines = [title]
    if any(linear):
        lines.append(" ".join(map(str, ["linearity", sum(linear), *(i + 1 for i, on in enumerate(linear) if on)])))
    lines += ["begin", f"{len(table)} {len(table[0]) if table else 0} {kind}"]
    lines += [" " + " ".join(_text(v, kind) for v in row) for row in table]
    return "\n".join([*lines, "end", ""])


def _text(value: Any, kind: str) -> str:
    return repr(float(value)) if kind == "real" else str(value)


def _inequality_table(P: Polyhedron) -> tuple[str, list[list[Any]], list[bool], bool]:
    table, linear = [], []
    for rows, equal in ((P.equality_rows, True), (P.rows, False)):
        A, b = rows.dense_integers() if P.is_exact else (rows.matrix.toarray(), rows.rhs)
        table += [[c, *(-v for v in row)] for row, c in zip(A.tolist(), b.tolist(), strict=True)]
        linear += [equal] * len(b)
    if not table:  # cdd has no way to say "no rows"
        table, linear = [[1] + [0] * P.dim], [False]
    return "H-representation", table, linear, P.is_exact


def _generator_table(G: Generators) -> tuple[str, list[list[Any]], list[bool], bool]:
    points, rays, lines = G.stated
    table = [[head, *row] for head, rows in ((0, lines), (1, points), (0, rays)) for row in rows.tolist()]
    return "V-representation", table, [i < len(lines) for i in range(len(table))], G.exact is not None
