"""
Quantiles that do not cross
===========================

Engel's households: income and food expenditure of 235 Belgian families (1857). One
network predicts nine quantiles of the expenditure; the layer keeps them in order, also
far beyond the data, where free quantiles cross.
"""

import matplotlib.pyplot as plt
import statsmodels.api as sm
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
engel = (
    torch.tensor(sm.datasets.engel.load_pandas().data.to_numpy(), dtype=torch.float32)
    / 1000
)
x, y = engel[:, :1], engel[:, 1:]
levels = torch.linspace(0.1, 0.9, 9)


def pinball(q: torch.Tensor) -> torch.Tensor:
    """The loss whose minimiser is the quantile."""
    gap = y - q
    return torch.maximum(levels * gap, (levels - 1) * gap).mean()


def train(head: torch.nn.Module) -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), head)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(500):
        optimizer.zero_grad()
        loss = pinball(model(x))
        loss.backward()
        optimizer.step()
    print(f"{type(head).__name__}: pinball loss {loss.item():.4f}")
    return model


# %%
# The set says what must hold: q[0.1] <= q[0.2] <= ... <= q[0.9]. With ``strict=True``
# it holds exactly, not only up to rounding.
P = rh.monotone(9)
ordered = train(rh.Constrained(64, P, strict=True))
free = train(torch.nn.Linear(64, 9))

# %%
# Both fit the data. Far from the data the quantiles of one cross.
far = torch.linspace(0, 12, 2000)[:, None]
with torch.no_grad():
    q_free, q_ordered = free(far), ordered(far)
print(
    "crossing quantiles of the free network:",
    int((q_free.diff() < 0).any(1).sum()),
    "of",
    len(far),
    "incomes",
)
print(
    "in order everywhere, in exact arithmetic:",
    bool(P.contains_exactly(q_ordered).all()),
)

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for ax, q, title in zip(axes, (q_free, q_ordered), ("free", "rayhull"), strict=True):
    ax.plot(far, q, color="tab:blue", lw=1)
    ax.scatter(x, y, s=6, color="0.4")
    ax.set(title=title, xlabel="income, thousands", ylim=(0, 4))
axes[0].set_ylabel("food expenditure, thousands")
plt.show()
