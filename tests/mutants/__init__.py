"""Deliberate faults, and the tests that must see them: a file a room, and one for strict. ``make mutants`` plants all.

A mutant changes one piece of text in one file of ``src/rayhull``. It is killed when a test that it names fails. Where
"hard" lives (margins, certificates, tolerances, the order of blocks) a fault that no test sees is a promise that
nothing holds.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("exact", "sets", "conversion", "maps", "projection", "nn", "distributions", "core")
FILES = (*ROOMS, "strict")


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Args:
        file: below ``src/rayhull``.
        old: text that occurs exactly once in the file.
        new: what stands there instead.
        tests: pytest arguments below ``tests/``: a file, or ``file::function``; one of them must fail.
        fault: what is wrong now, in words.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    fault: str

    @property
    def name(self) -> str:
        return f"{self.file}: {self.fault}"


def table() -> list[Mutant]:
    """Every mutant, room by room."""
    return [mutant for file in FILES for mutant in importlib.import_module(f"tests.mutants.{file}").MUTANTS]
