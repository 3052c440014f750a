"""
A convex cost curve
===================

The cost of output rises, and each further unit costs more than the last: a rising
convex curve. From noisy observations a network learns the curve for every fuel price.
Whatever the price, the curve is convex, and an optimiser may rely on that.
"""

import matplotlib.pyplot as plt
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
output = torch.linspace(0, 1, 40)


def cost(price: torch.Tensor) -> torch.Tensor:
    return 0.2 + price * output**2 + 0.3 * (output - 0.6).clamp_min(0)


price = 0.5 + torch.rand(300, 1)
observed = cost(price) + 0.05 * torch.randn(300, 40)

# %%
P = rh.convex(40) & rh.monotone(40)
print(P.describe())
model = torch.nn.Sequential(
    torch.nn.Linear(1, 64), torch.nn.SiLU(), rh.Constrained(64, P)
)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 600)
for _ in range(600):
    optimizer.zero_grad()
    (model(price) - observed).square().mean().backward()
    optimizer.step()
    schedule.step()

# %%
new = torch.tensor([[0.5], [1.0], [1.5], [2.5]])
with torch.no_grad():
    learned, everywhere = model(new), model(torch.linspace(-10, 10, 500)[:, None])
error = (model(price) - cost(price)).square().mean().sqrt().item()
print(f"error {error:.4f} against noise 0.05")
print("rising and convex for every price:", bool(P.contains(everywhere).all()))

# %%
# Learned (lines) and true (dots); a price of 2.5 is outside the data.
fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for curve, p, color in zip(learned, new[:, 0], ("C0", "C1", "C2", "C3"), strict=True):
    ax.plot(output, curve, color=color, label=f"price {p:.1f}")
    ax.plot(output, cost(p[None, None])[0], ":", color=color)
ax.set(xlabel="output", ylabel="cost")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=4, frameon=False)
plt.show()
