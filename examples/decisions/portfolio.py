"""
A portfolio with caps
=====================

Weights add up to 1, none is short, no asset takes more than a tenth, no sector more
than a third. A network reads signals and proposes portfolios, and every one of them
obeys the mandate.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
assets, sectors = 30, 5
sector = np.arange(assets) % sectors
membership = (sector == np.arange(sectors)[:, None]).astype(int)  # (5, 30)

P = (
    rh.simplex(assets)
    & rh.box(0, 0.1)
    & rh.Polyhedron(
        3 * membership,
        np.ones(sectors, int),
        shape=(assets,),
        names=[f"sector {s}" for s in range(sectors)],
    )
)
print(P.describe())

# %%
# Made data: returns whose mean follows three signals. The loss is risk-averse utility.
loading = torch.randn(3, assets) / 3
signal = torch.randn(4000, 3)
returns = signal @ loading + 0.5 * torch.randn(4000, assets)


def utility(weights: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    profit = (weights * r).sum(1)
    return profit.mean() - 0.5 * profit.var()


model = torch.nn.Sequential(
    torch.nn.Linear(3, 64), torch.nn.ReLU(), rh.Constrained(64, P)
)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(600):
    pick = torch.randint(0, 3000, (256,))
    optimizer.zero_grad()
    (-utility(model(signal[pick]), returns[pick])).backward()
    optimizer.step()

# %%
with torch.no_grad():
    weights = model(signal[3000:])
print(f"utility on new days: {utility(weights, returns[3000:]):.3f}, ", end="")
print(
    f"equal weights {utility(torch.full_like(weights, 1 / assets), returns[3000:]):.3f}"
)
print("within the mandate:", bool(P.contains(weights).all()))

# %%
fig, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
order = np.argsort(sector, kind="stable")
image = ax.imshow(
    weights[:60, order].T, aspect="auto", cmap="viridis", vmin=0, vmax=0.1
)
ax.set(xlabel="day", ylabel="asset, by sector")
fig.colorbar(image, label="weight (cap 0.1)")
plt.show()
