"""
A flow that lives in a polygon
==============================

Points lie on a ring that a polygon cuts off. A normalising flow learns their density.
Its last step is a bijection from the plane onto the inside of the polygon, so no sample
is ever outside and every density is exact.
"""

import matplotlib.pyplot as plt
import torch
from torch import nn

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
P = rh.parse("x + y <= 1; 2*y - x <= 1; x >= -1; y >= -1; x <= 3/4")
into = rh.distributions.IntoPolyhedron(P)


def ring(n: int) -> torch.Tensor:
    """Points near a circle, those of them that lie in the polygon."""
    angle, radius = 2 * torch.pi * torch.rand(4 * n), 0.75 + 0.06 * torch.randn(4 * n)
    points = torch.stack([radius * angle.cos() - 0.15, radius * angle.sin() - 0.2], 1)
    return points[P.contains(points)][:n]


# %%
# Six affine couplings in front of the map into the polygon. The flow is trained on
# log_prob, that is from the points back to the normal distribution: the inverse of the
# last step is exact.
class Coupling(nn.Module):
    """One coordinate shifted and scaled by a function of the other."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first
        self.net = nn.Sequential(
            nn.Linear(1, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2)
        )

    def forward(self, c: torch.Tensor, sign: int) -> tuple[torch.Tensor, torch.Tensor]:
        kept, moved = (
            c[:, self.first : self.first + 1],
            c[:, 1 - self.first : 2 - self.first],
        )
        log_scale, shift = self.net(kept).chunk(2, 1)
        log_scale = 2 * torch.tanh(log_scale)
        moved = (
            moved * log_scale.exp() + shift
            if sign > 0
            else (moved - shift) * (-log_scale).exp()
        )
        pair = (kept, moved) if self.first == 0 else (moved, kept)
        return torch.cat(pair, 1), log_scale[:, 0]


couplings = nn.ModuleList(Coupling(i % 2) for i in range(6))
normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))


def log_prob(x: torch.Tensor) -> torch.Tensor:
    c = into.inv(x)
    total = -into.log_abs_det_jacobian(c, x)
    for coupling in reversed(couplings):
        c, log_scale = coupling(c, -1)
        total = total - log_scale
    return total + normal.log_prob(c)


def sample(n: int) -> torch.Tensor:
    c = normal.sample((n,))
    for coupling in couplings:
        c, _ = coupling(c, +1)
    return into(c)


optimizer = torch.optim.Adam(couplings.parameters(), 2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1500)
for _ in range(1500):
    optimizer.zero_grad()
    loss = -log_prob(ring(400)).mean()
    loss.backward()
    optimizer.step()
    schedule.step()

# %%
# The density integrates to one over the polygon (against uniform points of it), and no
# sample is outside.
with torch.no_grad():
    test, drawn = ring(4000), sample(4000)
    uniform = rh.distributions.Uniform(P)
    spread = (
        log_prob(uniform.sample((20_000,))).exp() * uniform.log_volume.exp().float()
    )
print(
    f"log-likelihood of new points: {log_prob(test).mean():.2f},",
    f"uniform {-uniform.log_volume:.2f}",
)
print(
    f"integral of the density: {spread.mean():.2f} ± {spread.std() / 20_000**0.5:.2f}"
)
print("every sample inside:", bool(P.contains(drawn).all()))

# %%
fig, axes = plt.subplots(
    1, 3, figsize=(10, 3.6), layout="constrained", sharex=True, sharey=True
)
axis = torch.linspace(-1, 1, 300)
grid = torch.cartesian_prod(axis, axis)
inside = (P.slack(grid).values > 1e-4).all(-1)  # not on the edge
density = torch.full((len(grid),), float("nan"))
with torch.no_grad():
    density[inside] = log_prob(grid[inside]).exp()
for ax, title in zip(axes, ("data", "samples of the flow", "its density"), strict=True):
    P.plot(ax=ax, vertices=False)
    ax.set_title(title)
axes[0].scatter(*test[:1500].T, s=2, color="#009E73", linewidth=0)
axes[1].scatter(*drawn[:1500].T, s=2, color="#D55E00", linewidth=0)
image = axes[2].imshow(
    density.reshape(300, 300).T, origin="lower", extent=(-1, 1, -1, 1), cmap="viridis"
)
fig.colorbar(image, ax=axes[2], shrink=0.8)
plt.show()
