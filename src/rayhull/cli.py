"""The command line: rayhull convert | info | check | cache. Heavy modules are imported when a command needs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rayhull import __version__


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
        code = _code_of(error)
        if code is None:
            raise
        print(f"rayhull: {error}", file=sys.stderr)
        return code


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind the error: a module that was interrupted while it was imported may say otherwise."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _code_of(error: BaseException) -> int | None:
    """The exit code of an error that a user can act on; None for a bug."""
    from rayhull.errors import BudgetExceededError, RayhullError, UnverifiedError

    if isinstance(error, BudgetExceededError):
        return 3
    if isinstance(error, UnverifiedError):
        return 4
    return 2 if isinstance(error, RayhullError | OSError | ValueError | TypeError) else None


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
    convert.add_argument("to", type=Path, nargs="?", help="where to write, as with -o")
    convert.add_argument("-o", "--output", type=Path, help="where to write (default: standard output, as cdd text)")
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
    limits: dict[str, Any] = {"max_seconds": options.max_seconds, "progress": sys.stderr.isatty() and not options.quiet}
    if options.max_generators is not None:
        limits["max_generators"] = options.max_generators
    if isinstance(item, Polyhedron):
        result: Any = item.generators(**limits, verify=options.verify or True)
    else:
        result = item.to_polyhedron(**limits)
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
    points = _points(options.points, P.coordinates)
    if points.shape[-len(P.shape) :] != P.shape and points.shape[-1:] != (P.dim,):
        raise ValueError(
            f"{options.points.name} holds points of {points.shape[-1] if points.ndim else 1} numbers, but the set has "
            f"{P.dim} coordinates: give one point a row."
        )
    inside = P.contains(points.reshape(-1, *P.shape), atol=options.atol)
    worst = _largest_violation(P, points.reshape(-1, P.dim))
    print(f"{int(inside.sum())} of {len(inside)} points inside; largest violation {worst:.3g} (distance beyond a row)")
    for i in np.flatnonzero(~inside)[:5]:
        print(f"  outside: point {i + 1} (counted from 1)")
    return 0 if inside.all() else 1


def _largest_violation(P: Any, points: Any) -> float:
    """The largest distance of a point beyond a row: the same however a file scales its rows."""
    import numpy as np

    beyond, off = ((A @ points.T).T - b for A, b, _ in (P.rows.unit, P.equality_rows.unit))
    return float(max(np.max(beyond, initial=0.0), np.max(np.abs(off), initial=0.0)))


def _points(path: Path, coordinates: tuple[str, ...]) -> Any:
    """The points of a file; its columns in the order of the coordinates where a header has their names."""
    import numpy as np

    from rayhull.errors import FileFormatError

    delimiter = "," if path.suffix == ".csv" else None
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        header = _header(path, delimiter)
        points = np.loadtxt(path, delimiter=delimiter, ndmin=2, skiprows=1 if header else 0)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise FileFormatError(f"{path.name} holds no points ({error}): expected .npy, .csv or text.") from None
    if sorted(header) == sorted(coordinates):
        return points[:, [header.index(name) for name in coordinates]]
    if header:
        print(f"rayhull: columns of {path.name} in their order: {', '.join(header[:6])}", file=sys.stderr)
    return points


def _header(path: Path, delimiter: str | None) -> list[str]:
    """The names in the first line, if none of them is a number; else nothing."""
    with path.open() as file:
        cells = [cell.strip(' "') for cell in file.readline().strip().split(delimiter)]
    for cell in cells:
        try:
            float(cell)
        except ValueError:
            continue
        return []
    return cells if all(cells) and not cells[0].startswith("#") else []


def _cache(options: Any) -> int:
    from rayhull.conversion import cache
    from rayhull.sets.rows import count

    before = cache.info()
    if options.clear:
        cache.clear()
    done = "removed from" if options.clear else "in"
    print(f"{count(before.files, 'conversion')} ({before.bytes / 1e6:.1f} MB) {done} {before.folder}")
    return 0
