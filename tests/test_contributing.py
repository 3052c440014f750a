"""The recipes of CONTRIBUTING, followed: three steps each, and nothing else to change."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import rayhull as rh
from experiments import cli, studies
from experiments.report.pages import Section
from experiments.settings import option
from rayhull.nn import recognise
from rayhull.nn.ways import Seen
from rayhull.projection import plan
from rayhull.projection.problem import Problem, Solution, Solver, certified
from rayhull.projection.sides import NONE
from rayhull.sets.frame import inside, units_at
from tests import house

ROOT = Path(__file__).parent.parent


class Bisected(Solver):
    """One row and no bounds: z = y - t a, in closed form."""

    name = "one row"
    wrong = 0.0

    @classmethod
    def fits(cls, form):
        return form.matrix.count == 1 and form.m == 1 and not form.bounded

    def solve(self, problem: Problem, guess=None) -> Solution:
        a = problem.matrix.dense(problem.y)
        t = (problem.y @ a.mT - problem.c).clamp_min(0) + self.wrong
        return certified(problem, problem.y - t @ a, t)


@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_a_solver_is_a_class_with_two_methods_and_a_wrong_one_is_caught(monkeypatch, wrong):
    monkeypatch.setattr(Bisected, "wrong", wrong)
    monkeypatch.setitem(plan.SOLVERS, "auto", (Bisected, *plan.SOLVERS["auto"]))
    P = rh.Polyhedron([[3, 4]])
    z, info = rh.project(P, np.array([[3.0, 4.0], [-1.0, 0.0]]), return_info=True)
    assert info.solvers == ("one row",)
    assert info.fallback.tolist() == [wrong > 0, wrong > 0]  # the certificate sends what is wrong to another solver
    assert np.allclose(z, [[0, 0], [-1, 0]], atol=1e-9)


class Ball(Seen):
    """x0 + (u - x0) / max(1, |u - x0|): into the unit ball around x0, which lies in the block."""

    def forward(self, u, sides=NONE):
        away = u - self.base
        return self.base + away / away.norm(dim=-1, keepdim=True).clamp_min(1)


def ball(P, options):
    frame = inside(P, options.base, options.scale)
    way = Ball(frame.base, units_at(P, frame, options.scale), options.factory)
    return recognise.Choice(way, "a ball around the base point, as asked")


def test_a_way_is_a_module_and_a_line_where_ways_are_chosen(monkeypatch):
    monkeypatch.setitem(recognise.METHODS, "ball", ball)
    P = rh.box(-3, 5, 4) & rh.Polyhedron([[1, 1, 1, 1]], 9)
    layer, h = rh.Constrained(3, P, method="ball", base=np.zeros(4)), 100 * torch.randn(64, 3)
    assert "a ball around the base point" in layer.describe()
    assert P.contains(layer(h)).all()
    assert torch.allclose(layer(h).norm(dim=-1), torch.ones(64))
    inside_it = 0.1 * torch.randn(8, 4)  # coefficients, strict, sides of the sample and folding come with the interface
    assert torch.allclose(layer.map(layer.map.coefficients_of(inside_it)), inside_it, atol=1e-6)
    assert torch.allclose(layer.fold()(h), layer(h), atol=1e-5)
    layer.strict = True
    assert P.contains_exactly(layer(h)).all()
    upper = torch.full((64, 4), 0.25)
    assert (rh.box(-3, 0.25, 4)).contains(layer(h, upper=upper)).all()


def test_every_ready_made_set_stands_in_the_zoo():
    zoo = (ROOT / "tests" / "zoo.py").read_text(encoding="utf-8")
    made = f"{rh._HOME['sets.ready_made']} {rh._HOME['sets.applied']}".split()
    assert [name for name in made if f"rh.{name}(" not in zoo] == []


@dataclasses.dataclass(frozen=True)
class CoinSettings:
    """A study of a coin."""

    throws: int = option(10, "how often")
    seed: int = option(0, "of the coin")


def toss(settings, digits, run, fabric, quiet=False):
    heads = np.random.default_rng(settings.seed).random(settings.throws) < 0.5
    run.record({"epoch": 0, "heads": int(heads.sum())})
    run.finish({"share": float(heads.mean())})
    return True


def test_a_study_is_a_module_and_its_name(monkeypatch, tmp_path):
    module = ModuleType("experiments.studies.coin")
    section = lambda groups: Section("Coin", [f"{len(groups)} of them"])  # noqa: E731
    module.STUDY = studies.Study(CoinSettings, toss, section, needs_digits=False)
    monkeypatch.setitem(sys.modules, "experiments.studies.coin", module)
    monkeypatch.setattr(studies, "NAMES", (*studies.NAMES, "coin"))
    monkeypatch.setattr(cli, "NAMES", studies.NAMES)
    monkeypatch.setattr(cli, "headline", lambda name: name)
    assert cli.main(["run", "coin", "--throws", "7", "--out", str(tmp_path), "--quiet"]) == 0
    assert cli.main(["report", "--out", str(tmp_path)]) == 0
    assert "## Coin" in (tmp_path / "report.md").read_text()


PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_module_that_a_page_names_exists(page):
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]*(?:\.(?:py|json|md|hpp|cpp))?)(?:::\w+)?`", text):
        places = [ROOT / name, ROOT / "src" / "rayhull" / name, ROOT / "src" / name]
        assert any(place.exists() for place in places), name
    for name in re.findall(r"python -m ((?:tests|benchmarks|experiments|examples)[\w.]*)", text):
        path = ROOT / name.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_the_map_of_the_rooms_names_every_file_once():
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z_/]+)/` \| (.+) \|$", page.split("## The rooms")[1], re.MULTILINE)
    assert [folder for folder, _ in rows if "/" not in folder] == [*house.ROOMS, "core"]
    for folder, text in rows:
        named = re.findall(r"`([a-z_]+)`", text)
        files = {path.stem for path in (ROOT / "src" / "rayhull" / folder).glob("*.py")} - {"__init__"}
        assert sorted(named) == sorted(files), folder


def test_every_table_that_the_recipes_name_exists():
    ours = {"projection/plan.py": "SOLVERS", "sets/membership.py": "ULPS", "nn/recognise.py": "METHODS"}
    for file, table in (ours | {"nn/strict.py": "finish_of"}).items():
        assert re.search(rf"\b{table}\b", (ROOT / "src/rayhull" / file).read_text(encoding="utf-8")), table
    for file, table in (("benchmarks/__main__.py", "ALL"), ("tests/test_pins_projection.py", "CLOSED")):
        assert re.search(rf"^{table}\b", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), table


def test_the_glossary_has_each_word_once():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Glossary")[1]
    words = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")][2:]
    assert len(words) == len(set(words)) > 15
