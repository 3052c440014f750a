"""The table of deliberate faults moves with the code: ``make mutants`` runs it."""

import ast
from collections import Counter

import pytest

from tests.mutants import ROOMS, ROOT, table

MUTANTS = table()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_text_that_a_mutant_changes_occurs_once(mutant):
    text = (ROOT / "src" / "rayhull" / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    assert mutant.new != mutant.old
    if mutant.file.endswith(".py"):
        ast.parse(text.replace(mutant.old, mutant.new))


def test_every_mutant_names_tests_that_exist():
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            file, _, function = test.partition("::")
            tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
            names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            assert not function or function.partition("[")[0] in names, f"{mutant.name}: no {test}"


def test_no_mutant_is_listed_twice_and_every_room_has_some():
    assert max(Counter(m.name for m in MUTANTS).values()) == 1
    rooms = Counter(m.file.partition("/")[0] for m in MUTANTS)
    assert all(rooms[room] >= 5 for room in ROOMS), rooms
