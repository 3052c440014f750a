"""
A rule for a network that exists
================================

A regression network was trained without the rule. ``rh.constrain`` replaces its last
Linear: outputs that are feasible already do not change, and a short fine-tuning does
the rest.
"""

import matplotlib.pyplot as plt
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
t = torch.linspace(0, 1, 15)


def curves(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.rand(n, 3)
    return a, (a[:, :1] * t + a[:, 1:2] * (3 * t - 2).clamp_min(0)).clamp(max=1.2)


x, y = curves(400)
noisy = y + 0.1 * torch.randn_like(y)
model = torch.nn.Sequential()
model.add_module("body", torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU()))
model.add_module("head", torch.nn.Linear(64, 15))


def train(steps: int, rate: float) -> None:
    optimizer = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - noisy).square().mean().backward()
        optimizer.step()


train(500, 1e-2)
new, truth = curves(500)
before = model(new).detach()

# %%
P = rh.monotone(15) & rh.box(0, 1.2)
rh.constrain(model, "head", P, method="nearest")
print(
    "kept where it was inside:",
    torch.allclose(
        model(new)[P.contains(before)], before[P.contains(before)], atol=1e-4
    ),
)
train(400, 3e-3)

# %%
with torch.no_grad():
    after = model(new)
print(
    f"error {(before - truth).square().mean().sqrt():.4f} before,",
    f"{(after - truth).square().mean().sqrt():.4f} after",
)
print(
    f"rising: {P.contains(before).float().mean():.0%} before; all of them after:",
    bool(P.contains(after).all()),
)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.3), sharey=True, layout="constrained")
for ax, values, title in zip(axes, (before, after), ("before", "after"), strict=True):
    ax.plot(t, values[:6].T)
    ax.set(title=title, xlabel="t")
plt.show()
