"""
Weights in a set
================

``rh.Parametrization`` keeps a *parameter* in a set, not an output. Here the kernel of a
smoothing filter must be non-negative, symmetric and of sum 1, so that it can neither
ring nor shift brightness.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch.nn.utils import parametrize

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
t = torch.linspace(0, 12, 600)
clean = torch.sin(t) + 0.5 * torch.sign(torch.sin(2.3 * t))
noisy = clean + 0.4 * torch.randn(20, 600)

# %%
taps = 21
symmetric = (np.eye(taps, dtype=int) - np.eye(taps, dtype=int)[:, ::-1])[: taps // 2]
rows = np.concatenate([symmetric, np.ones((1, taps), int)])
P = rh.Polyhedron(A_eq=rows, b_eq=[0] * (taps // 2) + [1], lower=0, shape=(1, 1, taps))

filter_ = torch.nn.Conv1d(
    1, 1, taps, padding=taps // 2, padding_mode="replicate", bias=False
)
parametrize.register_parametrization(filter_, "weight", rh.Parametrization(P))
optimizer = torch.optim.Adam(filter_.parameters(), 2e-2)
for _ in range(300):
    optimizer.zero_grad()
    loss = (filter_(noisy[:, None])[:, 0] - clean).square().mean()
    loss.backward()
    optimizer.step()

# %%
kernel = filter_.weight.detach()[0, 0]
print(
    f"error {loss.item():.4f},",
    f"of the noisy signal {(noisy - clean).square().mean():.4f}",
)
print("non-negative, symmetric, sum 1:", bool(P.contains(filter_.weight)))

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
axes[0].stem(np.arange(taps) - taps // 2, kernel)
axes[0].set(title="the learned kernel", xlabel="offset")
axes[1].plot(t, noisy[0], color="0.8", label="noisy")
axes[1].plot(t, filter_(noisy[:1, None]).detach()[0, 0], label="filtered")
axes[1].plot(t, clean, "k:", label="clean")
axes[1].legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3, frameon=False)
plt.show()
