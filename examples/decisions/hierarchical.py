"""
Forecasts that add up
=====================

Sales of twelve products, their four groups and the total: each series has its own
forecast, and the forecasts do not add up. The nearest non-negative forecast that adds
up is taken instead. Distances are weighted by the covariance of the errors, so that
good forecasts move less (trace minimisation).
"""

import matplotlib.pyplot as plt
import numpy as np

import rayhull as rh

rng = np.random.default_rng(0)
groups = np.kron(np.eye(4, dtype=int), np.ones((1, 3), int))
S = np.concatenate(
    [np.ones((1, 12), int), groups, np.eye(12, dtype=int)]
)  # 17 series from 12 products
P = rh.reconciled(S) & rh.nonnegative(17)
print(P)

# %%
# Made data: small counts, and forecasts with errors that are correlated within a group.
base = np.exp(rng.normal(0.3, 0.8, 12))
truth = rng.poisson(base, (400, 12)) @ S.T
mix = rng.normal(size=(17, 17)) / 4 + np.diag(np.linspace(2.5, 0.8, 17))
forecast = truth + rng.normal(size=(400, 17)) @ mix.T
covariance = np.cov((forecast - truth)[:200].T)

# %%
plain = rh.project(P, forecast[200:])
weighted = rh.project(P, forecast[200:], weights=np.linalg.inv(covariance))
for name, values in (
    ("as they are", forecast[200:]),
    ("nearest", plain),
    ("by covariance", weighted),
):
    print(f"{name:14} error {np.sqrt(((values - truth[200:]) ** 2).mean()):.3f}")
print("add up and are not negative:", bool(P.contains(weighted, atol=1e-9).all()))

# %%
fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
for k, (values, name) in enumerate(
    ((forecast[200:], "as they are"), (plain, "nearest"), (weighted, "by covariance"))
):
    error = np.sqrt(((values - truth[200:]) ** 2).mean(0))
    ax.plot(range(17), error, "o-", ms=4, label=name, color=f"C{k}")
ax.set(
    xticks=[0, 2.5, 10.5], xticklabels=["total", "groups", "products"], ylabel="error"
)
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=2, frameon=False)
plt.show()
