"""DC dispatch on networks that PYPOWER ships: generators meet the demand of every bus without overloading a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

import rayhull as rh

if TYPE_CHECKING:
    from benchmarks.field_problems import FieldProblem


def dispatch_problem(name: str) -> FieldProblem:
    """Demand at every bus between 0.7 and 1.2 of the stated one; the cheapest dispatch is a weighted nearest point."""
    import pypower.api
    from pypower.ext2int import ext2int
    from pypower.makePTDF import makePTDF

    from benchmarks.field_problems import FieldProblem, Recipe

    case = ext2int(getattr(pypower.api, name)())
    bus, gen, branch, cost = (case[part] for part in ("bus", "gen", "branch", "gencost"))
    share = makePTDF(case["baseMVA"], bus, branch)  # (lines, buses): flow on a line for power fed in at a bus
    at_bus = share[:, gen[:, 0].astype(int)]
    flow_of, limits = torch.as_tensor(share), torch.as_tensor(branch[:, 5])
    quadratic, linear = torch.as_tensor(cost[:, 4]), torch.as_tensor(cost[:, 5])
    flow, ends = share @ bus[:, 2], branch[:, 5]
    P = rh.Polyhedron(
        np.concatenate([at_bus, -at_bus]),
        np.concatenate([ends + flow, ends - flow]),
        np.ones((1, len(gen))),
        [bus[:, 2].sum()],
        lower=gen[:, 9],
        upper=gen[:, 8],
    )
    demand = torch.as_tensor(bus[:, 2] * np.random.RandomState(17).uniform(0.7, 1.2, (3500, len(bus))))

    def sides(x: Tensor) -> dict[str, Tensor]:
        flow = x @ flow_of.T
        return {"b": torch.cat([limits + flow, limits - flow], 1), "b_eq": x.sum(1, keepdim=True)}

    def dollars(power: Tensor) -> Tensor:
        return (quadratic * power**2 + linear * power).sum(1)

    def optimum(x: Tensor) -> Tensor:
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
