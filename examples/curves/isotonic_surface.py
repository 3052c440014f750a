"""
A surface that rises in both directions
=======================================

Risk grows with age and with dose, whatever else. A network learns the whole table of
risks for each patient group: 12 x 12 numbers between 0 and 1, rising along both axes.
The set has more rays than one can list, but the layer does not need them.
"""

import matplotlib.pyplot as plt
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
n = 12
age, dose = torch.meshgrid(
    torch.linspace(0, 1, n), torch.linspace(0, 1, n), indexing="ij"
)


def risk(group: torch.Tensor) -> torch.Tensor:
    a, b = group[:, :1, None], group[:, 1:2, None]
    return torch.sigmoid(6 * (a * age + b * dose) - 4)


group = torch.rand(200, 2)
counts = (
    torch.binomial(torch.full((200, n, n), 8.0), risk(group)) / 8
)  # eight patients in each cell

# %%
P = rh.ordered(None, (n, n)) & rh.box(0, 1)
model = torch.nn.Sequential(
    torch.nn.Linear(2, 64), torch.nn.ReLU(), rh.Constrained(64, P, strict=True)
)
print(model[-1].describe())
optimizer = torch.optim.Adam(model.parameters(), 5e-3)
for _ in range(400):
    optimizer.zero_grad()
    (model(group) - counts).square().mean().backward()
    optimizer.step()

# %%
new = torch.rand(500, 2)
with torch.no_grad():
    table = model(new)
print(
    f"error {(table - risk(new)).square().mean().sqrt():.3f};",
    "eight patients a cell alone: ",
    end="",
)
print(f"{(counts - risk(group)).square().mean().sqrt():.3f}")
print(
    "rising along both axes, in exact arithmetic:",
    bool(P.contains_exactly(table).all()),
)

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3.1), layout="constrained")
shown = (risk(group[:1])[0], counts[0], model(group[:1])[0].detach())
for ax, values, title in zip(axes, shown, ("true", "observed", "learned"), strict=True):
    image = ax.imshow(values, origin="lower", vmin=0, vmax=1, cmap="cividis")
    ax.set(title=title, xlabel="dose", ylabel="age")
fig.colorbar(image, ax=axes, label="risk")
plt.show()
