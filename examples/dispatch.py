"""Power dispatch: five generators share a demand that changes from sample to sample, within their limits.

A network learns the cheapest dispatch from the demand alone; the nearest-point layer makes every answer feasible:
the outputs add up to the demand, and no generator leaves its range.
"""

import torch

import rayhull as rh

torch.manual_seed(0)
lower, upper = torch.tensor([10.0, 0, 0, 5, 0]), torch.tensor([80.0, 50, 60, 40, 100])
cost = torch.tensor([0.02, 0.03, 0.025, 0.05, 0.04])  # cost_i * p_i^2
demand = 60 + 200 * torch.rand(512, 1)

P = rh.sum_to(100, 5) & rh.box(lower, upper)  # 100 stands for the demand, which each sample brings along
project = rh.Projection(P)
model = torch.nn.Sequential(torch.nn.Linear(1, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)

for _ in range(200):
    optimizer.zero_grad()
    raw = demand / 5 + 50 * model(demand / 100 - 1.6)
    power = project(raw.double(), b_eq=demand.double())
    loss = (cost * power**2).sum(1).mean()
    loss.backward()
    optimizer.step()

balance = (power.sum(1, keepdim=True) - demand).abs().max().item()
inside = bool(((power >= lower - 1e-9) & (power <= upper + 1e-9)).all())
print(f"mean cost {loss.item():.2f}; largest imbalance {balance:.1e}; within limits: {inside}")
