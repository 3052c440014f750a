"""
DC dispatch with line limits
============================

The 30-bus test network of the IEEE, as PYPOWER ships it: six generators meet the demand
of thirty buses, within their ranges and without overloading one of 41 lines. Demand
changes from sample to sample; a network learns the cheapest dispatch, and every answer
balances the grid.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from pypower.api import case30
from pypower.ext2int import ext2int
from pypower.makePTDF import makePTDF

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
case = ext2int(case30())
bus, gen, branch = case["bus"], case["gen"], case["branch"]
sensitivity = makePTDF(
    case["baseMVA"], bus, branch
)  # (41, 30): flow on a line for power fed in at a bus
at_bus = sensitivity[:, gen[:, 0].astype(int)]  # (41, 6)
quadratic, linear = (
    torch.tensor(case["gencost"][:, 4]),
    torch.tensor(case["gencost"][:, 5]),
)
limits, sensitivity = torch.tensor(branch[:, 5]), torch.tensor(sensitivity)


# %%
# The set: the sum of the generators is the demand, and flows stay within the limits of
# the lines, both ways. It is stated for the usual demand. ``sides`` gives the
# right-hand sides for another one.
def sides(demand: torch.Tensor) -> dict[str, torch.Tensor]:
    """The right-hand sides for a demand (n, 30)."""
    flow = demand @ sensitivity.T
    return {
        "b": torch.cat([limits + flow, limits - flow], -1),
        "b_eq": demand.sum(-1, keepdim=True),
    }


usual = torch.tensor(bus[:, 2])
stated = {name: side.numpy() for name, side in sides(usual).items()}
P = rh.Polyhedron(
    np.concatenate([at_bus, -at_bus]),
    stated["b"],
    np.ones((1, 6)),
    stated["b_eq"],
    lower=gen[:, 9],
    upper=gen[:, 8],
)


def cost(power: torch.Tensor) -> torch.Tensor:
    return (quadratic * power**2 + linear * power).sum(1)


demand = usual * (0.7 + 0.5 * torch.rand(3000, 30))
train, test = demand[:2500], demand[2500:]
best = cost(
    rh.project(
        P, (-linear / (2 * quadratic)).expand(500, -1), weights=quadratic, **sides(test)
    )
)

# %%
head = rh.Constrained(64, P)
body = torch.nn.Sequential(
    torch.nn.Linear(30, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU()
)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], 3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 40)
for _ in range(40):
    for batch in train[torch.randperm(2500)].split(100):
        optimizer.zero_grad()
        cost(head(body(batch / 10), **sides(batch))).mean().backward()
        optimizer.step()
    schedule.step()

# %%
with torch.no_grad():
    power = head(body(test / 10), **sides(test))
gap = ((cost(power) - best) / best).mean().item()
print(f"mean cost {cost(power).mean():.2f}, {100 * gap:.3f} % above the optimum")
print(
    "demand met, lines and generators within their limits:",
    bool(P.contains(power, **sides(test)).all()),
)

# %%
order = test.sum(1).argsort()
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
axes[1].stackplot(
    test.sum(1)[order], power[order].T, labels=[f"bus {int(b) + 1}" for b in gen[:, 0]]
)
axes[1].set(xlabel="demand, MW", ylabel="power, MW")
axes[1].legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3, fontsize=7)
load = ((power @ torch.tensor(at_bus).T - test @ sensitivity.T) / limits).abs().amax(0)
axes[0].bar(range(41), load)
axes[0].axhline(1, color="k", lw=1)
axes[0].set(xlabel="line", ylabel="largest share of its limit, 500 samples")
plt.show()
