"""Quantiles that never cross: one network predicts nine of them, and the layer keeps them in order.

The data are made here: the spread of y grows with x, so that free quantiles would cross where data are few.
"""

import torch

import rayhull as rh

torch.manual_seed(0)
levels = torch.linspace(0.1, 0.9, 9)
x = torch.rand(2000, 1) * 4 - 2
y = torch.sin(2 * x) + (0.1 + 0.3 * (x + 2)) * torch.randn_like(x)

P = rh.monotone(9)  # q[0.1] <= q[0.2] <= ... <= q[0.9]
model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), rh.Constrained(64, P, strict=True))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)


def pinball(q: torch.Tensor) -> torch.Tensor:
    """The loss whose minimiser is the quantile."""
    gap = y - q
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


for _ in range(400):
    optimizer.zero_grad()
    loss = pinball(model(x))
    loss.backward()
    optimizer.step()

far = torch.linspace(-30, 30, 1000)[:, None]  # far outside the data, too
quantiles = model(far)
below = (y <= model(x)).float().mean(0)
print(f"pinball loss {loss.item():.4f}; share of y below each quantile: {[round(v, 2) for v in below.tolist()]}")
print("in order everywhere, in exact arithmetic:", bool(P.contains_exactly(quantiles).all()))
