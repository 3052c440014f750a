"""README as one program: its blocks in order, then the calls of its table with its own head, each proven inside."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import rayhull as rh

TEXT = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
N = 16


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    """The names that README's Python blocks leave behind, run from top to bottom in one namespace."""
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL):
        if ">>>" not in block:
            exec(compile(block, "README.md", "exec"), names)
            continue
        example = doctest.DocTestParser().get_doctest(block, {}, "README.md", "README.md", 0)
        example.globs = names
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(example, clear_globs=False)
        assert runner.failures == 0
    return names


@pytest.fixture
def features() -> torch.Tensor:
    return 10 * torch.randn(N, 64, generator=torch.Generator().manual_seed(0))


def called() -> set[str]:
    """What the table "What it is for" calls."""
    part = TEXT.split("## What it is for")[1].split("##")[0]
    rows = [line.split("|")[2] for line in part.splitlines() if line.startswith("|")][2:]
    return {call.split("(")[0] for row in rows for call in re.findall(r"`([^`]+)`", row)}


def test_the_blocks_are_one_program_whose_points_are_inside(program: dict[str, Any]) -> None:
    assert program["P"].contains(program["x"]).all()
    assert program["x"].shape == (256, 3)


def test_every_call_of_the_table_is_tried_below() -> None:
    tried = {"rh.Constrained", "head", "rh.project", "rh.Projection", "rh.distributions.OnPolyhedron", "rh.convert"}
    assert called() == tried | {"rayhull convert set.ine"}


def test_the_head_meets_the_demand_of_the_sample(program: dict[str, Any], features: torch.Tensor) -> None:
    P, head = program["P"], program["head"]
    demand = torch.linspace(60, 140, N)[:, None].requires_grad_()
    x = head(features, b_eq=demand)
    assert P.contains(x, b_eq=demand.detach()).all()
    x[:, 0].sum().backward()
    assert demand.grad is not None
    assert demand.grad.isfinite().all()
    stated = torch.as_tensor(P.equalities.rhs).float()
    assert torch.allclose(head(features, b_eq=stated), head(features), rtol=1e-5, atol=1e-4)


def test_the_head_meets_rows_of_the_sample(program: dict[str, Any], features: torch.Tensor) -> None:
    P, head = program["P"], program["head"]
    G = torch.tensor([[1.0, -2.0, 0.0]]) + 0.2 * torch.rand(N, 1, 3, generator=torch.Generator().manual_seed(1))
    limits = torch.linspace(10, 50, N)[:, None]
    x = head(features, A=G, b=limits)
    assert P.contains(x, A=G, b=limits).all()


def test_a_strict_head_keeps_its_rows_exactly(program: dict[str, Any], features: torch.Tensor) -> None:
    P = program["P"]
    x = rh.Constrained(64, P, strict=True)(features)
    assert P.contains(x).all()
    assert rh.Polyhedron(P.A, P.b, lower=P.lower, upper=P.upper).contains_exactly(x).all()


def test_nearest_points_are_inside_and_carry_gradients(program: dict[str, Any]) -> None:
    P, x = program["P"], (100 * torch.randn(N, 3, dtype=torch.float64)).requires_grad_()
    nearest = rh.project(P, x)
    assert torch.allclose(nearest, rh.Projection(P)(x))
    assert P.contains(nearest).all()
    nearest.square().sum().backward()
    assert x.grad is not None
    assert x.grad.any()


def test_a_density_on_the_set_draws_points_of_it(program: dict[str, Any]) -> None:
    P = program["P"]
    q = rh.distributions.OnPolyhedron(torch.distributions.Normal(torch.zeros(2), 1.0), P)  # an equality takes one away
    x = q.rsample((N,))
    assert P.contains(x).all()
    assert q.log_prob(x).isfinite().all()
    assert P.contains(q.mode)


def test_generators_of_the_set_are_points_of_it(program: dict[str, Any]) -> None:
    P = program["P"]
    G = rh.convert(P)
    assert len(G.vertices) >= 3
    assert P.contains(G.vertices).all()
    assert float(P.violation(G.vertices).max()) < 1e-12 * 100


def test_the_command_converts_a_file_of_the_set(
    program: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rayhull.cli import main

    monkeypatch.chdir(tmp_path)
    rh.write("set.ine", program["P"])
    assert not main(["convert", "set.ine"])
