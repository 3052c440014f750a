"""The order of the rooms, held by the syntax trees: nothing imports to the right of itself, lazy imports included."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rayhull.core import operators
from tests import fuzz, house

USES_CORE = ("conversion", "maps", "projection", "nn", "core")
TOP = ("__init__", "__main__", "testing", "cli")  # see everything
ASK_LATER = {  # P.generators(), ...
    ("sets/polyhedron.py", "Polyhedron"),
    ("conversion/generators.py", "Generators"),
    ("sets/cones.py", "ConvexSet"),
    ("sets/statement.py", "Statement"),
}


def room(module: str) -> str:
    """'sets' for rayhull.sets.rows, 'errors' for rayhull.errors, '__init__' for rayhull itself."""
    return (module.split(".") + ["__init__"])[1]


def module_of(path: Path) -> str:
    parts = path.relative_to(house.PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in house.sources()}


def imports(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, at its top or inside a function; not what types alone need."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _at_run_time(tree, str(path.relative_to(house.PACKAGE))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written with their full name"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _at_run_time(node: ast.AST, file: str) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.ClassDef) and (file, child.name) in ASK_LATER:
            continue
        yield child
        yield from _at_run_time(child, file)


EDGES = {(a, b) for a, path in MODULES.items() for b in imports(path) if b.split(".")[0] == "rayhull" and a != b}
"""(importer, imported), modules of ours only."""


def allowed(importer: str, imported: str) -> bool:
    a, b = room(importer), room(imported)
    if a in TOP or a == b or b == "errors":
        return True
    if b == "core":
        return a in USES_CORE
    if a == "core":
        return b == "exact"
    if b not in house.ROOMS or a not in house.ROOMS:
        return False
    return house.ROOMS.index(b) <= house.ROOMS.index(a)


def test_nothing_imports_to_the_right_of_itself():
    assert sorted((a, b) for a, b in EDGES if not allowed(a, b)) == []


def test_no_module_imports_itself_by_a_detour():
    after = {module: {b for a, b in EDGES if a == module} for module in MODULES}
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    for module in MODULES:  # a package's __init__ is imported with every module in it: leave those edges out
        after[module] -= {package for package in packages if module.startswith(package)}
    while True:
        leaves = {module for module, next_ones in after.items() if not next_ones}
        if not leaves:
            break
        after = {module: next_ones - leaves for module, next_ones in after.items() if module not in leaves}
    assert after == {}, f"a cycle among {sorted(after)}"


def test_the_direction_is_told_from_its_opposite():
    assert allowed("rayhull.nn.export", "rayhull.sets.rows")
    assert not allowed("rayhull.sets.rows", "rayhull.nn.export")
    assert not allowed("rayhull.sets.rows", "rayhull.core.module")
    assert allowed("rayhull.conversion.cache", "rayhull.errors")
    assert allowed("rayhull.core.conversion", "rayhull.exact.numbers")
    assert not allowed("rayhull.core.conversion", "rayhull.sets.rows")


@pytest.mark.parametrize("path", house.sources(), ids=module_of)
def test_the_sets_and_exact_numbers_never_import_torch_when_loaded(path):
    if room(module_of(path)) in ("exact", "sets", "conversion", "errors", "cli", "__init__"):
        top = ast.parse(path.read_text(encoding="utf-8")).body
        named = {alias.name for node in top if isinstance(node, ast.Import) for alias in node.names}
        named |= {str(node.module) for node in top if isinstance(node, ast.ImportFrom)}
        assert not {name for name in named if name.split(".")[0] == "torch"}


FAMILIES = {  # base class -> files of its members, and the one that may choose among them
    "Solver": ("projection/solvers", "projection/plan.py"),
    "Finish": ("nn/strict.py", "nn/blocks.py"),
}


def members(folder: str) -> set[str]:
    """Names of the classes defined in a file or in the files of a folder."""
    path = house.PACKAGE / folder
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    return {node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("family", FAMILIES)
def test_members_of_a_family_are_told_apart_by_their_methods_alone(family):
    folder, factory = FAMILIES[family]
    names = members(folder)
    assert len(names) >= 3
    for path in house.sources():
        if path != house.PACKAGE / factory:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                    asked = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                    assert not asked & names, f"{path}:{node.lineno} asks for {asked & names}"


def test_a_set_is_described_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import rayhull as rh\n"
        "P = rh.checkerboard((4, 4), tiles=(2, 2)) & rh.box(-1, 1)\n"
        "print('bounded' in P.describe() and P.sample(3, seed=0).shape == (3, 4, 4))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.strip() == "True", out.stderr


def test_functions_and_the_root_stay_small():
    measured = house.shape()
    body = measured["lines of a body"]
    assert measured["root files"] == 5
    assert body["median"] <= 6
    assert body["p90"] <= 16
    assert body["longest"] <= 40, body["where"]


@pytest.mark.skipif(not operators.available(), reason="the page is about the compiled core")
def test_the_tables_of_the_design_page_are_those_of_the_tree():
    command = [sys.executable, "-m", "tests.house", "--check"]  # a process of its own: nothing is loaded before
    done = subprocess.run(command, cwd=house.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run python -m tests.house, and read the difference:\n{done.stdout}{done.stderr}"


def test_a_reader_of_a_training_step_meets_few_classes_and_files():
    step = house.work()["train it: forward and backward, 64 samples"]
    assert step["classes"] <= 15
    assert step["files"] <= 15


def test_the_table_of_the_fuzz_page_is_that_of_its_file():
    page = fuzz.PAGE.read_text(encoding="utf-8")
    assert fuzz.filled(page, json.loads(fuzz.FILE.read_text())) == page


def test_a_body_is_counted_without_its_docstring():
    tree = ast.parse('def f():\n    """One\n    two."""\n    x = 1\n    return x\n\ndef g():\n    """Only this."""\n')
    assert dict(house.functions(tree)) == {"f": 2, "g": 0}
