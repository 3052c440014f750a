"""The command line: rayhull convert | info | check | cache. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rayhull import __version__
from rayhull.errors import BudgetExceededError, FileFormatError, RayhullError, UnverifiedError

# The exit codes of errors that a user can act on; any other is a bug, and shows where it came from.
CODES = ((BudgetExceededError, 3), (UnverifiedError, 4), ((RayhullError, OSError, ValueError, TypeError), 2))


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:  # the reader has seen enough; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException as error:
        if _is_interrupt(error):
            print("rayhull: stopped; nothing was written.", file=sys.stderr)
            return 130
        code = next((code for kinds, code in CODES if isinstance(error, kinds)), None)
        if code is None:
            raise
        print(f"rayhull: {error}", file=sys.stderr)
        return code


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind the error: a module that was interrupted while it was imported may say otherwise."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rayhull",
        description="Polyhedra in files: convert between inequalities and generators, look at them, check points.",
        epilog="Files: .ine (inequalities, cdd), .ext (generators, cdd), .npz (either). Exit codes: 0 fine, "
        "1 points outside the set, 2 bad input, 3 budget passed, 4 floats too close to call, 130 Ctrl-C.",
    )
    parser.add_argument("--version", action="version", version=f"rayhull {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(run: Callable[[Any], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(run.__name__.strip("_"), help=text, description=f"{text[0].upper()}{text[1:]}.")
        made.set_defaults(run=run)
        return made

    convert = command(_convert, "inequalities to generators, or generators to inequalities")
    convert.add_argument("file", type=Path, help="the set: .ine, .ext or .npz")
    target = convert.add_mutually_exclusive_group()
    target.add_argument("to", type=Path, nargs="?", help="where to write (default: standard output, as cdd text)")
    target.add_argument("-o", "--output", type=Path, help="the same")
    convert.add_argument("--max-generators", type=int, metavar="N", help="stop beyond N (default: a million)")
    convert.add_argument("--max-seconds", type=float, metavar="S", help="stop after S seconds")
    convert.add_argument("--verify", choices=["full"], help="also prove that no generator is missing")
    convert.add_argument("--quiet", action="store_true", help="no progress bar")

    info = command(_info, "a set's dimension, rows, hidden equalities, lines and blocks; without one: what runs")
    info.add_argument("file", type=Path, nargs="?", help="the set; without one: the version and which kernels run")

    check = command(_check, "whether points are in the set; exit code 1 if some are not")
    check.add_argument("file", type=Path, help="the set: .ine, .ext or .npz")
    check.add_argument("points", type=Path, help="one point a row: .npy, .csv or text, a header allowed")
    check.add_argument("--atol", type=float, help="tolerance (default: 16 ulp of each row's scale)")

    cache = command(_cache, "the conversions kept on disk: where they are, and how many")
    cache.add_argument("--clear", action="store_true", help="remove them")
    return parser


def _convert(options: Any) -> int:
    from rayhull.conversion.files import format_cdd, read, write
    from rayhull.sets.polyhedron import Polyhedron

    item = read(options.file)
    asked = {"max_generators": options.max_generators, "max_seconds": options.max_seconds, "verify": options.verify}
    given = {name: value for name, value in asked.items() if value is not None}
    turned: Any = item.generators if isinstance(item, Polyhedron) else item.to_polyhedron
    result = turned(**given, progress=sys.stderr.isatty() and not options.quiet)
    output = options.output or options.to
    if output is None:
        print(format_cdd(result), end="")
    else:
        write(output, result)
        print(f"{output}: {result!r}", file=sys.stderr)
    return 0


def _read_set(path: Path) -> Any:
    from rayhull.conversion.files import read
    from rayhull.sets.polyhedron import Polyhedron

    item = read(path)
    return item if isinstance(item, Polyhedron) else item.to_polyhedron()


def _info(options: Any) -> int:
    from rayhull.core import library

    print(_read_set(options.file).describe() if options.file else f"rayhull {__version__}\n{library.status()}")
    return 0


def _check(options: Any) -> int:
    import numpy as np

    P = _read_set(options.file)
    points = _points(options.points, P)
    inside, flat = P.contains(points, atol=options.atol), points.reshape(-1, P.dim).T
    # in distances, which are the same however a file scales its rows
    beyond, off = (A @ flat - b[:, None] for A, b, _ in (P.rows.unit, P.equality_rows.unit))
    worst = max(np.max(beyond, initial=0.0), np.max(np.abs(off), initial=0.0))
    print(f"{int(inside.sum())} of {len(inside)} points inside; largest violation {worst:.3g} (distance beyond a row)")
    for i in np.flatnonzero(~inside)[:5]:
        print(f"  outside: point {i + 1} (counted from 1)")
    return 0 if inside.all() else 1


def _points(path: Path, P: Any) -> Any:
    """The points of a file, (n, event shape); columns by their names where a header has those of the coordinates."""
    import numpy as np

    try:
        points, header = (np.load(path, allow_pickle=False), []) if path.suffix == ".npy" else _table(path)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path.name} holds no points ({error}): expected .npy, .csv or text.") from None
    if points.shape[-len(P.shape) :] != P.shape and points.shape[-1:] != (P.dim,):
        raise ValueError(
            f"{path.name} holds points of {points.shape[-1] if points.ndim else 1} numbers, but the set has "
            f"{P.dim} coordinates: give one point a row."
        )
    if sorted(header) == sorted(P.coordinates):
        points = points[:, [header.index(name) for name in P.coordinates]]
    elif header:
        print(f"rayhull: columns of {path.name} in their order: {', '.join(header[:6])}", file=sys.stderr)
    return points.reshape(-1, *P.shape)


def _table(path: Path) -> tuple[Any, list[str]]:
    """Numbers in columns, and the names in the first line if none of them is a number."""
    import numpy as np

    delimiter = "," if path.suffix == ".csv" else None
    lines = path.read_text(encoding="utf-8-sig").splitlines()  # spreadsheets mark their files
    names = [cell.strip(' "') for cell in "".join(lines[:1]).strip().split(delimiter)]
    if not names or not all(names) or names[0].startswith("#") or any(map(_is_number, names)):
        names = []
    if len(lines) == bool(names):
        raise ValueError("there is no line of numbers")
    return np.loadtxt(lines[bool(names) :], delimiter=delimiter, ndmin=2), names


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _cache(options: Any) -> int:
    from rayhull.conversion import cache
    from rayhull.sets.rows import count

    before = cache.info()
    if options.clear:
        cache.clear()
    done = "removed from" if options.clear else "in"
    print(f"{count(before.files, 'conversion')} ({before.bytes / 1e6:.1f} MB) {done} {before.folder}")
    return 0
