"""Sets in files: cdd's .ine (inequalities) and .ext (generators), and .npz; no pickle anywhere.

In .ine a row (c, g) means c + g·x >= 0, so with our sign g = -a and c = b. In .ext a row (1, v) is a vertex and (0, r)
a ray. ``linearity`` names the rows (counted from 1) that are equalities, or lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from rayhull.conversion.generators import Generators
from rayhull.errors import FileFormatError
from rayhull.sets.polyhedron import Polyhedron
from rayhull.sets.rows import Array, Rows

KINDS = {".ine": "H-representation", ".ext": "V-representation"}


def read(path: str | Path) -> Polyhedron | Generators:
    """The set in a file: .ine gives a Polyhedron, .ext Generators, .npz whichever was written.

    Examples:
        >>> import tempfile, rayhull as rh
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rh.write(f"{folder}/simplex.ine", rh.simplex(3))
        ...     rh.read(f"{folder}/simplex.ine")
        Polyhedron(shape=(3,): 3 inequalities, 1 equalities)
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
        with path.open("wb") as file:
            np.savez_compressed(file, **_npz_content(item))
    else:
        path.write_text(format_cdd(item), encoding="utf-8")


# -- cdd ---------------------------------------------------------------------------------------------------------


def parse_cdd(text: str, suffix: str, name: str) -> Polyhedron | Generators:
    """A set from cdd text; ``suffix`` says which kind the file's name promises."""
    lines = [
        line.split("*")[0].strip() if line.lstrip().startswith("*") else line.strip() for line in text.splitlines()
    ]
    declared = next((k for k in KINDS.values() if any(line.lower() == k.lower() for line in lines)), None)
    promised = KINDS[suffix]
    if declared is not None and declared != promised:
        raise FileFormatError(f"{name} says {declared}, but its name promises {promised} ({suffix}).")
    try:
        begin = next(i for i, line in enumerate(lines) if line.lower() == "begin")
    except StopIteration:
        raise FileFormatError(f"{name} has no line 'begin': it is empty, cut short, or not a cdd file.") from None
    m, d, kind = _size(lines[begin + 1 : begin + 2], name)
    words = _words(lines[begin + 2 :], m * d, name)
    table = np.array([_number(w, kind, name) for w in words], dtype=object).reshape(m, d)
    linear = _linearity(lines[:begin], m, name)
    return _polyhedron(table, linear) if suffix == ".ine" else _generators(table, linear, name)


def _size(line: list[str], name: str) -> tuple[int, int, str]:
    parts = line[0].split() if line else []
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()) or int(parts[1]) < 2:
        raise FileFormatError(f"{name}: after 'begin' expected 'rows columns integer|rational|real', got {line}.")
    if parts[2] not in ("integer", "rational", "real"):
        raise FileFormatError(f"{name}: number type must be integer, rational or real, got {parts[2]!r}.")
    return int(parts[0]), int(parts[1]), parts[2]


def _words(lines: list[str], count: int, name: str) -> list[str]:
    words: list[str] = []
    for line in lines:
        if line.lower() == "end":
            break
        words += line.split()
    else:
        raise FileFormatError(f"{name} stops after {len(words)} of {count} numbers, with no 'end': it is cut short.")
    if len(words) != count:
        raise FileFormatError(f"{name} promises {count} numbers but has {len(words)}.")
    return words


def _number(word: str, kind: str, name: str) -> Any:
    try:
        return float(word) if kind == "real" else Fraction(word) if kind == "rational" else int(word)
    except (ValueError, ZeroDivisionError):
        raise FileFormatError(f"{name}: {word!r} is not a number of type {kind}.") from None


def _linearity(lines: Iterable[str], m: int, name: str) -> Array:
    for line in lines:
        if line.lower().startswith(("linearity", "equality")):
            numbers = [int(w) for w in line.split()[1:] if w.isdigit()]
            if not numbers or len(numbers) != numbers[0] + 1 or not all(1 <= n <= m for n in numbers[1:]):
                raise FileFormatError(f"{name}: linearity must give a count and that many row numbers up to {m}.")
            return np.isin(np.arange(1, m + 1), numbers[1:])
    return np.zeros(m, bool)


def _polyhedron(table: Array, linear: Array) -> Polyhedron:
    A, b = -table[:, 1:], table[:, 0]
    return Polyhedron(
        A[~linear], b[~linear], A[linear], b[linear],
        names=[f"row {i + 1}" for i in np.flatnonzero(~linear)],
        eq_names=[f"row {i + 1}" for i in np.flatnonzero(linear)],
    )  # fmt: skip


def _generators(table: Array, linear: Array, name: str) -> Generators:
    heads = table[:, 0]
    if not all(h in (0, 1) for h in heads) or any(h == 1 for h in heads[linear]):
        raise FileFormatError(
            f"{name}: each row of generators starts with 1 (vertex) or 0 (ray; line if in linearity)."
        )
    point = np.array([h == 1 for h in heads], dtype=bool)
    if not point.any() and len(heads):
        point_rows = np.zeros((1, table.shape[1] - 1), dtype=object)  # a cone written without its apex
    else:
        point_rows = table[point, 1:]
    return Generators(point_rows, table[~point & ~linear, 1:], table[linear, 1:])


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
        A, b = _dense(rows, P.is_exact)
        table += [[c, *(-v for v in row)] for row, c in zip(A, b, strict=True)]
        linear += [equal] * len(b)
    if not table:  # cdd has no way to say "no rows"
        table, linear = [[1] + [0] * P.dim], [False]
    return "H-representation", table, linear, P.is_exact


def _dense(rows: Rows, exact: bool) -> tuple[list[list[Any]], list[Any]]:
    if not exact:
        return rows.matrix.toarray().tolist(), rows.rhs.tolist()
    data, rhs = rows.exact
    dense = np.zeros((len(rows), rows.dim), dtype=object)
    dense[rows.row_of_entry, rows.matrix.indices] = data
    return dense.tolist(), rhs.tolist()


def _generator_table(G: Generators) -> tuple[str, list[list[Any]], list[bool], bool]:
    exact = G.exact
    points = G.vertices.tolist() if G.exact_vertices is None else G.exact_vertices.tolist()
    rays, lines = (G.rays, G.lines) if exact is None else (exact.rays, exact.lines)
    table = [[0, *row] for row in lines.tolist()] + [[1, *row] for row in points] + [[0, *row] for row in rays.tolist()]
    return "V-representation", table, [i < len(lines) for i in range(len(table))], exact is not None


# -- npz ---------------------------------------------------------------------------------------------------------

_SET = ("A", "b", "A_eq", "b_eq", "lower", "upper")
_HULL = ("vertices", "rays", "lines")


def _npz_content(item: Polyhedron | Generators) -> dict[str, Any]:
    if isinstance(item, Generators):
        exact = item.exact
        rays, lines = (item.rays, item.lines) if exact is None else (exact.rays, exact.lines)
        points = item.vertices if item.exact_vertices is None else item.exact_vertices
        parts = {"vertices": points, "rays": rays, "lines": lines}
    else:
        parts = {name: getattr(item, name) for name in _SET if getattr(item, name) is not None}
    content: dict[str, Any] = {name: _storable(values) for name, values in parts.items()}
    if isinstance(item, Polyhedron):
        content["shape"] = np.array(item.shape)
    return content


def _storable(values: Any) -> Array:
    dense = np.asarray(values.toarray()) if hasattr(values, "toarray") else np.asarray(values)
    return dense.astype(str) if dense.dtype == object else dense


def _read_npz(path: Path) -> Polyhedron | Generators:
    try:
        with np.load(path, allow_pickle=False) as file:
            content: dict[str, Any] = {name: _restored(file[name]) for name in file.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # zipfile and NumPy have many ways to say that a file is damaged
        raise FileFormatError(f"{path.name} is damaged or not an .npz file ({error}).") from None
    if set(content) & set(_HULL):
        return Generators(**{name: content.get(name) for name in _HULL})
    if not set(content) & set(_SET):
        raise FileFormatError(f"{path.name} holds {sorted(content)}; expected some of {', '.join(_SET + _HULL)}.")
    shape = content.pop("shape", None)
    known = {name: content[name] for name in _SET if name in content}
    return Polyhedron(**known, shape=None if shape is None else tuple(int(n) for n in shape))


def _restored(values: Array) -> Array:
    if values.dtype.kind != "U":
        return values
    return np.array([Fraction(v) for v in values.ravel().tolist()], dtype=object).reshape(values.shape)
