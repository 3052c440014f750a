"""
A discount curve without arbitrage
==================================

Discount factors fall with maturity (rates are not negative) and never below 0. A
network predicts tomorrow's curve from today's short and long rate; every curve it draws
is one that could be traded.
"""

import matplotlib.pyplot as plt
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
years = torch.arange(1, 31.0)  # maturities


def curves(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Made here: Nelson-Siegel curves with noise; features are the noisy short and long
    rate.
    """
    level, slope, hump = (
        0.04 * torch.rand(n, 1),
        0.05 * torch.rand(n, 1) - 0.03,
        0.04 * torch.rand(n, 1) - 0.02,
    )
    decay = (1 - torch.exp(-years / 2)) / (years / 2)
    rate = (level + slope * decay + hump * (decay - torch.exp(-years / 2))).clamp_min(0)
    discount = torch.exp(-(rate * years).cummax(1).values)
    return torch.cat([rate[:, :1], rate[:, -1:]], 1) * 50 - 1, discount


features, target = curves(400)
noisy = target + 0.02 * torch.randn_like(target)

# %%
# 1 >= d(1) >= d(2) >= ... >= d(30) >= 0.
P = rh.monotone(30, increasing=False) & rh.box(0, 1)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 64), torch.nn.SiLU(), rh.Constrained(64, P, strict=True)
)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for _ in range(400):
    optimizer.zero_grad()
    (model(features) - noisy).square().mean().backward()
    optimizer.step()

# %%
new, truth = curves(1000)
with torch.no_grad():
    drawn, extreme = model(new), model(20 * torch.randn(1000, 2))
print(
    f"error on new curves: {(drawn - truth).square().mean().sqrt():.4f},",
    "noise in training: 0.02",
)
print(
    "no arbitrage, in exact arithmetic:",
    bool(P.contains_exactly(torch.cat([drawn, extreme])).all()),
)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
axes[0].plot(years, noisy[:3].T, ".", color="0.5", ms=4)
axes[0].plot(years, model(features[:3]).detach().T)
axes[0].set(
    title="three curves and the noisy data", xlabel="years", ylabel="discount factor"
)
axes[1].plot(years, extreme[:40].T, color="tab:blue", alpha=0.3, lw=0.8)
axes[1].set(title="inputs far from the data: still curves", xlabel="years")
plt.show()
