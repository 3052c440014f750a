"""
A VAE on a checkerboard
=======================

The paper's picture: a variational autoencoder whose every image, decoded from any
latent point, has tiles that are dark and bright in turns, with pixels between -1 and 1.
Five thousand digits, a few epochs; the longer runs are in the reproduction.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
data = Path(rh.__file__).parents[2] / "experiments" / "data"
digits = np.load(data / "mnist-small.npz")["train_images"]
images = torch.tensor(digits, dtype=torch.float32) / 127.5 - 1
P = rh.checkerboard((28, 28), tiles=(4, 4)) & rh.box(-1, 1)

# %%
# An ordinary VAE, but for its last layer.
encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 4))
decoder = nn.Sequential(
    nn.Linear(2, 128),
    nn.ReLU(),
    nn.Linear(128, 128),
    nn.ReLU(),
    rh.Constrained(128, P, strict=True),
)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 2e-3)
for _ in range(12):
    for batch in images[torch.randperm(len(images))].split(100):
        mean, log_variance = encoder(batch).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        fit = 4 * (decoder(z) - batch).square().sum((1, 2))
        loss = (
            fit + 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        ).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# %%
with torch.no_grad():
    far = decoder(10 * torch.randn(2000, 2))
    steps = torch.special.ndtri(torch.linspace(0.1, 0.9, 5))
    plane = decoder(torch.cartesian_prod(-steps, steps))
print(
    "on the checkerboard, in exact arithmetic, also far from the data:",
    bool(P.contains_exactly(far).all()),
)

# %%
fig, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.imshow(
    plane.reshape(5, 5, 28, 28).permute(0, 2, 1, 3).reshape(140, 140),
    cmap="gray",
    vmin=-1,
    vmax=1,
)
ax.set(title="the latent plane", xticks=[], yticks=[])
plt.show()
