"""
Downscaling that keeps the means
================================

A coarse field gives the mean of each tile of 4 x 4 cells; a network draws the fine
field. Water must not appear or vanish: the fine cells of a tile have exactly the coarse
mean, and none is negative.
"""

import matplotlib.pyplot as plt
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
size, tile = 16, 4


def fields(n: int) -> torch.Tensor:
    """Made here: smooth random fields of rain, with dry places."""
    waves = torch.randn(n, 8, 1, 1) * torch.sin(
        torch.randn(n, 8, 1, 1) * torch.linspace(0, 4, size)[:, None]
        + torch.randn(n, 8, 1, 1) * torch.linspace(0, 4, size)
        + 6 * torch.rand(n, 8, 1, 1)
    )
    return waves.sum(1).clamp_min(0)


def coarse(fine: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.avg_pool2d(fine[:, None], tile)[:, 0].flatten(1)


# %%
# The tile means come with the sample: they are the right-hand sides of the equalities.
P = rh.conserves((size, size), (tile, tile), 1) & rh.box(0, 1e3)
head = rh.Constrained(128, P, method="nearest")
body = torch.nn.Sequential(
    torch.nn.Linear(16, 128),
    torch.nn.ReLU(),
    torch.nn.Linear(128, 128),
    torch.nn.ReLU(),
)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], 2e-3)
rain = fields(1500)
for _ in range(15):
    for batch in rain[torch.randperm(1500)].split(50):
        optimizer.zero_grad()
        (
            head(body(coarse(batch)), b_eq=coarse(batch)) - batch
        ).square().mean().backward()
        optimizer.step()

# %%
new = fields(200)
with torch.no_grad():
    drawn = head(body(coarse(new)), b_eq=coarse(new))
flat = torch.nn.functional.interpolate(
    coarse(new).reshape(-1, 1, 4, 4), scale_factor=tile
)[:, 0]
print(
    f"error {(drawn - new).square().mean().sqrt():.3f},",
    f"of constant tiles {(flat - new).square().mean().sqrt():.3f}",
)
print("means kept, nothing negative:", bool(P.contains(drawn, b_eq=coarse(new)).all()))

# %%
fig, axes = plt.subplots(1, 3, figsize=(8, 2.9), layout="constrained")
for ax, image, title in zip(
    axes, (flat[0], new[0], drawn[0]), ("given", "true", "drawn"), strict=True
):
    shown = ax.imshow(image, vmin=0, vmax=float(new[0].max()), cmap="Blues")
    ax.set(title=title, xticks=[], yticks=[])
fig.colorbar(shown, ax=axes, label="rain")
plt.show()
