"""
A calibration curve that rises
==============================

A classifier's scores are turned into probabilities by a curve on a grid of 20 points. A
higher score must never mean a lower probability, and a probability lies between 0 and
1: both hold by construction.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
X, y = load_breast_cancer(return_X_y=True)
X_fit, X_rest, y_fit, y_rest = train_test_split(
    X[:, :4], y, test_size=0.6, random_state=0
)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, test_size=0.5, random_state=0
)
scores = (
    LogisticRegression(C=100, max_iter=5000)
    .fit(X_fit[::8], y_fit[::8])
    .decision_function
)

# %%
# The curve is a point of the set "20 rising numbers between 0 and 1", interpolated
# between the points of the grid.
grid = torch.linspace(-40, 40, 20)
P = rh.monotone(20) & rh.box(0, 1)
curve = rh.Constrained(1, P)
optimizer = torch.optim.Adam(curve.parameters(), 3e-2)


def probability(s: torch.Tensor) -> torch.Tensor:
    heights = curve(torch.ones(1, 1))[0]
    place = ((s - grid[0]) / (grid[1] - grid[0])).clamp(0, 19 - 1e-4)
    left = place.floor().long()
    return torch.lerp(heights[left], heights[left + 1], place - left)


s_cal, t_cal = torch.tensor(scores(X_cal)).float(), torch.tensor(y_cal).float()
for _ in range(400):
    optimizer.zero_grad()
    loss = (probability(s_cal) - t_cal).square().mean()  # the Brier score
    loss.backward()
    optimizer.step()

# %%
s_test, t_test = torch.tensor(scores(X_test)).float(), torch.tensor(y_test).float()
with torch.no_grad():
    heights, after = curve(torch.ones(1, 1))[0], probability(s_test)
before = torch.sigmoid(s_test)
print(
    f"Brier score on the test set: {(before - t_test).square().mean():.4f} before, ",
    end="",
)
print(f"{(after - t_test).square().mean():.4f} after")
print("rising and between 0 and 1:", bool(P.contains(heights)))

# %%
fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
fine = torch.linspace(-40, 40, 400)
ax.plot(fine, fine.sigmoid(), "--", color="0.5", label="the classifier's own sigmoid")
ax.plot(grid, heights, "o-", ms=4, label="calibrated")
ax.scatter(s_test, t_test, s=8, alpha=0.3, color="k", label="test samples")
ax.set(xlabel="score", ylabel="probability", xlim=(-40, 40))
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
plt.show()
