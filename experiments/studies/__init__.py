"""The studies, one module each: its settings, its data, its runs and its section of the report stand in that module.

A new study is a module that ends in ``STUDY = Study(...)``, and its name in ``NAMES``.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("projection", "vae", "timing", "vertices", "simplex", "shapes", "classifiers", "optnet", "steps", "fashion")
"""The three of the paper, then what it only mentions: the order of the report and of a reproduction."""

TIMED = ("timing", "steps")
"""Those that time cases in turn, and have no epochs."""


@dataclass(frozen=True)
class Job:
    """One run of a plan: ``name`` is its folder, ``seconds`` a guess for an idle machine."""

    study: str
    name: str
    settings: Any
    seconds: float

    @property
    def path(self) -> str:
        """STUDY/NAME: where the run's results are, below the folder of all results."""
        return f"{self.study}/{self.name}"


def job(study: str, settings: Any, seconds: float, name: str = "") -> Job:
    """A run in the folder METHOD/seed-SEED, or NAME/seed-SEED."""
    return Job(study, f"{name or getattr(settings, 'method', 'all')}/seed-{settings.seed}", settings, seconds)


def _none(*_: Any) -> Iterable[Job]:
    return ()


@dataclass(frozen=True)
class Study:
    """What the command line, the plans and the report need to know of a study.

    Args:
        settings: its frozen dataclass; the defaults are the paper's where the paper has any.
        run: ``run(settings, digits, run, fabric, quiet)``; False if it was stopped.
        section: from the groups of saved runs to the section of the report.
        needs_digits: False for a study that makes its own data.
        best: for each method the settings it does best with, where they are not the defaults.
        demo: the runs of ``make demo``.
        reproduce: from the number of seeds to the runs of ``make reproduce``.
    """

    settings: type
    run: Callable[..., bool]
    section: Callable[[Any], Any]
    needs_digits: bool = True
    best: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    demo: Callable[[], Iterable[Job]] = _none
    reproduce: Callable[[int], Iterable[Job]] = _none


def load(name: str) -> Study:
    """The study ``name``; its module is imported now, and torch with it."""
    study: Study = importlib.import_module(f"experiments.studies.{name}").STUDY
    return study


def headline(name: str) -> str:
    """The first line of the study's module, read without importing it."""
    text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
