"""How the house stands, in numbers: files, function bodies, and how many files a piece of work passes through.

``python -m tests.house`` measures and fills the tables in ``docs/design.md``; ``--check`` only compares. A function's
body is counted in lines without its docstring. Work is traced with ``sys.setprofile`` after a first run that loads
everything: calls into the package, the classes whose methods they are, distinct files, and how often control passes to
a function of another file.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "rayhull"
PAGE = ROOT / "docs" / "design.md"
ROOMS = ("exact", "sets", "conversion", "maps", "projection", "nn", "distributions")  # the way of the data
FIRST, LAST = "<!-- house -->\n", "<!-- end of house -->"
FIRST_KERNEL, LAST_KERNEL = "<!-- kernels -->\n", "<!-- end of kernels -->"

# The same script over the sources of others, library code only: geotorch 43fc0d6, einops ccb89f2, lineax 2f0e083,
# equinox 9336d82, qpsolvers 69b15d2.
OTHERS = {
    "geotorch": ("22", "99 / 578", "4 / 10 / 33", "35"),
    "einops": ("16", "106 / 928", "1 / 11 / 144", "9"),
    "lineax": ("23", "114 / 2408", "2 / 15 / 260", "58"),
    "equinox.nn": ("19", "172 / 730", "8 / 29 / 61", "54"),
    "qpsolvers": ("45", "225 / 1123", "11 / 67 / 281", "39"),
}


def sources() -> list[Path]:
    """Every Python file of the package."""
    return sorted(PACKAGE.rglob("*.py"))


# Folders of the core, and the lines of the numba files that each took the place of: those that name numba or its
# decorators in the last commit before the core, 1370c74.
KERNELS = {
    "core/source/conversion": ("double description, wide integers, adjacency, rank, lift, verification, doors", "1288"),
    "core/source/projection": ("clipped shift, chain, forest, pivoting, exact method, factor, certificate", "1200"),
    "core/source/layer": ("splitting, forwards and backwards, the leak, and the strict pull", "none: torch operations"),
    "core/source/operators": ("tensors to arrays, every size and index checked", "none: numba took arrays"),
    "core/reference": ("double description, its checks and floats in NumPy", "above, where they shared a file"),
}


def kernels() -> dict[str, int]:
    """Lines of each folder of the core, comments included."""
    files = {name: [p for p in (PACKAGE / name).iterdir() if p.suffix in (".cpp", ".hpp", ".py")] for name in KERNELS}
    return {name: sum(len(p.read_text().splitlines()) for p in paths) for name, paths in files.items()}


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name and length of the body of every function and method, without its docstring."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]


def shape() -> dict[str, Any]:
    """Files, their lengths, function bodies, public names."""
    import rayhull as rh

    files = sources()
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    bodies = sorted(
        (length, f"{path.relative_to(PACKAGE)}: {name}")
        for path in files
        for name, length in functions(ast.parse(path.read_text(encoding="utf-8")))
    )
    lengths = [length for length, _ in bodies]
    return {
        "files": len(files),
        "root files": sum(path.parent == PACKAGE for path in files),
        "lines of a file": {"median": int(statistics.median(lines)), "longest": max(lines)},
        "lines of a body": {
            "median": int(statistics.median(lengths)),
            "p90": lengths[int(0.9 * len(lengths))],
            "longest": lengths[-1],
            "where": bodies[-1][1],
        },
        "public names": len([name for name in rh.__all__ if not name.startswith("__")]),
    }


def traced(work: Callable[[], object]) -> dict[str, int]:
    """Calls into the package, classes that they are methods of, files touched, changes of file."""
    called: list[str] = []
    classes: set[tuple[str, str]] = set()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            called.append(frame.f_code.co_filename)
            owner, dot, _ = frame.f_code.co_qualname.partition(".")
            classes.update([(called[-1], owner)] if dot and owner[0].isupper() else [])

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    changes = sum(a != b for a, b in itertools.pairwise(called))
    return {"calls": len(called), "classes": len(classes), "files": len(set(called)), "changes": changes}


def work() -> dict[str, dict[str, int]]:
    """Traces of a set, a layer, its forward pass, a conversion and a projection."""
    import torch

    import rayhull as rh

    def stated() -> rh.Polyhedron:
        return rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)

    h, y = torch.randn(64, 256), torch.randn(64, 28, 28)

    def each() -> dict[str, dict[str, int]]:
        P, Q, cone, layer = stated(), stated(), rh.ordered(None, (6, 6)), rh.Constrained(256, stated())
        return {
            "state the paper's set": traced(stated),
            "build its layer": traced(lambda: rh.Constrained(256, P)),
            "train it: forward and backward, 64 samples": traced(lambda: layer(h).sum().backward()),
            "evaluate it": traced(lambda: layer.eval()(h)),
            "convert an order cone": traced(lambda: rh.convert(cone, cache=False)),
            "project 64 samples": traced(lambda: rh.project(Q, y)),
        }

    each()  # loads modules and kernels
    return each()


def table(house: dict[str, Any]) -> str:
    """The numbers beside those of others, in Markdown."""
    file, body = house["lines of a file"], house["lines of a body"]
    ours = (
        str(house["files"]),
        f"{file['median']} / {file['longest']}",
        f"{body['median']} / {body['p90']} / {body['longest']}",
        str(house["public names"]),
    )
    rows = {f"**rayhull** ({house['root files']} at the root)": ours} | OTHERS
    lines = [
        "| | files | lines of a file: median / longest | of a function's body: median / p90 / longest | public names |",
        "|---|---|---|---|---|",
        *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()),
        "",
        "| work | calls into the package | of classes | files touched | changes of file |",
        "|---|---|---|---|---|",
        *(f"| {name} | {' | '.join(map(str, t.values()))} |" for name, t in house["work"].items()),
    ]
    return "\n".join(lines) + "\n"


def kernel_table(lines: dict[str, int]) -> str:
    """The lines of the core beside those before it, in Markdown."""
    rows = [f"| `{name}` | {what} | {lines[name]} | {before} |" for name, (what, before) in KERNELS.items()]
    head = ["| folder | what it holds | lines | of numba before |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, f"| in all | | {sum(lines.values())} | 2488 |"]) + "\n"


def measured() -> dict[str, Any]:
    """Everything that the page says."""
    return shape() | {"kernels": kernels(), "work": work()}


def filled(page: str, house: dict[str, Any]) -> str:
    """The page with both tables between their markers."""
    page = _between(page, FIRST, LAST, table(house))
    return _between(page, FIRST_KERNEL, LAST_KERNEL, kernel_table(house["kernels"]))


def _between(page: str, first: str, last: str, text: str) -> str:
    head, rest = page.split(first, 1)
    return head + first + text + last + rest.split(last, 1)[1]


def main() -> int:
    """Measure; write, or only compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="print what the page should say and stop")
    check, said = parser.parse_args().check, PAGE.read_text(encoding="utf-8")
    house = measured()
    print(table(house), kernel_table(house["kernels"]), sep="\n")
    if check:
        return int(filled(said, house) != said)
    PAGE.write_text(filled(said, house), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
