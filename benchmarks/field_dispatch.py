"""DC dispatch on networks of PYPOWER or PGLib: generators meet the demand of every bus without overloading a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

import rayhull as rh

if TYPE_CHECKING:
    from benchmarks.field_problems import FieldProblem


Array = np.ndarray[Any, Any]
LARGE = 400  # rows of lines: beyond, those that no dispatch can reach are left out


def matpower_case(text: str) -> dict[str, Any]:
    """The tables of a MATPOWER file, as PYPOWER has them."""
    found: dict[str, Any] = {"version": "2"}
    for name, body in re.findall(r"mpc\.(bus|gen|branch|gencost)\s*=\s*\[(.*?)\]", text, re.S):
        lines = [re.sub(r"%.*", "", line).replace(";", " ").split() for line in body.splitlines()]
        found[name] = np.array([[float(v) for v in line] for line in lines if line])
    return found | {"baseMVA": float(re.findall(r"mpc\.baseMVA\s*=\s*([\d.]+)", text)[0])}


def dispatch_problem(
    name: str, case: dict[str, Any] | None = None, spread: tuple[float, float] = (0.7, 1.2)
) -> FieldProblem:
    """Demand at every bus between two shares of the stated one; the cheapest dispatch is a weighted nearest point.

    Where costs are linear it is a linear program.
    """
    import pypower.api
    from pypower.ext2int import ext2int
    from pypower.makePTDF import makePTDF

    from benchmarks.field_problems import FieldProblem, Recipe

    case = ext2int(getattr(pypower.api, name)() if case is None else case)
    bus, gen, branch, cost = (case[part] for part in ("bus", "gen", "branch", "gencost"))
    share = makePTDF(case["baseMVA"], bus, branch)  # (lines, buses): flow on a line for power fed in at a bus
    lines, ends = np.concatenate([share, -share]), np.tile(branch[:, 5], 2)
    if len(lines) > LARGE:
        reach = np.array([_largest_flow(row, bus[:, 2], gen, spread) for row in lines])
        lines, ends = lines[reach > ends], ends[reach > ends]
    flow_of, limits = torch.as_tensor(lines), torch.as_tensor(ends)
    quadratic, linear = torch.as_tensor(cost[:, 4]), torch.as_tensor(cost[:, 5])
    P = rh.Polyhedron(
        lines[:, gen[:, 0].astype(int)],
        ends + lines @ bus[:, 2],
        np.ones((1, len(gen))),
        [bus[:, 2].sum()],
        lower=gen[:, 9],
        upper=gen[:, 8],
    )
    demand = torch.as_tensor(bus[:, 2] * np.random.RandomState(17).uniform(*spread, (3500, len(bus))))

    def sides(x: Tensor) -> dict[str, Tensor]:
        return {"b": limits + x @ flow_of.T, "b_eq": x.sum(1, keepdim=True)}

    def dollars(power: Tensor) -> Tensor:
        return (quadratic * power**2 + linear * power).sum(1)

    def optimum(x: Tensor) -> Tensor:
        if not bool(quadratic.any()):
            return torch.tensor([_cheapest(P, linear, b, b_eq) for b, b_eq in zip(*sides(x).values(), strict=True)])
        free = (-linear / (2 * quadratic)).expand(len(x), -1)
        return dollars(rh.project(P, free, weights=quadratic, **sides(x)))

    return FieldProblem(
        name,
        P,
        {"train": demand[:2500], "valid": demand[2500:3000], "test": demand[3000:]},
        sides=sides,
        loss=lambda policy, x: dollars(policy(x)),
        features=lambda x: x / demand.std(0).clamp_min(1e-9).max(),
        width=len(bus),
        optimum=optimum,
        recipe=Recipe(epochs=40, batch=100),
    )


def _largest_flow(row: Array, demand: Array, gen: Array, spread: tuple[float, float]) -> float:
    """The most that any dispatch within the bounds sends over a line, for any demand that is drawn."""
    cost = np.concatenate([-row[gen[:, 0].astype(int)], row])
    drawn = np.sort(np.outer(demand, spread), 1)
    balance = np.concatenate([np.ones(len(gen)), -np.ones(len(demand))])[None]
    bounds = np.concatenate([gen[:, [9, 8]], drawn])
    return -float(linprog(cost, A_eq=balance, b_eq=[0.0], bounds=bounds, method="highs").fun)


def _cheapest(P: rh.Polyhedron, cost: Tensor, b: Tensor, b_eq: Tensor) -> float:
    bounds = np.stack([P.lower_bounds, P.upper_bounds], 1)
    return float(linprog(cost, P.A, b, P.A_eq, b_eq, bounds, method="highs").fun)
