"""
Rules for a scikit-learn regressor
==================================

The predictions of a regressor for tables keep rules. DataFrames go in and come out, by
the names of the rules' variables. skorch makes a scikit-learn estimator of the network,
so pipelines, cross-validation and grid searches work as always. Needs ``pip install
skorch pandas``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetRegressor

import rayhull as rh
from rayhull.sets.membership import by_name

torch.set_num_threads(1)  # a small network

# %%
# The estimator: features are standardised inside, targets by ``units=``, and every
# column of the loss counts alike.


class Network(torch.nn.Module):
    def __init__(self, P, hidden, inputs, targets):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(len(inputs[0]), hidden), torch.nn.ReLU()
        )
        self.head = rh.Constrained(hidden, P, units=targets)
        for name, value in (
            ("mean", inputs[0]),
            ("std", inputs[1]),
            ("unit", targets[1]),
        ):
            self.register_buffer(name, torch.as_tensor(value, dtype=torch.float32))

    def forward(self, X):
        return self.head(self.body((X - self.mean) / self.std))


class ConstrainedRegressor(NeuralNetRegressor):
    """``fit`` and ``predict`` as scikit-learn has them; ``net`` are skorch's own
    arguments.
    """

    def __init__(self, P, hidden=64, **net):
        usual = {
            "lr": 1e-2,
            "optimizer": torch.optim.Adam,
            "train_split": None,
            "verbose": 0,
        }
        super().__init__(net.pop("module", Network), **usual | net)
        self.P, self.hidden = P, hidden

    def fit(self, X, y, **params):
        inputs, targets = (
            np.asarray(X, np.float32),
            np.asarray(by_name(self.P, y), np.float32),
        )
        ends = [
            (v.mean(0), np.where(v.std(0) > 0, v.std(0), 1.0))
            for v in (inputs, targets)
        ]
        given = {
            "P": self.P,
            "hidden": self.hidden,
            "inputs": ends[0],
            "targets": ends[1],
        }
        self.set_params(**{f"module__{name}": value for name, value in given.items()})
        return super().fit(inputs, targets, **params)

    def get_loss(self, y_pred, y_true, *args, **kwargs):
        return super().get_loss(
            y_pred / self.module_.unit, y_true / self.module_.unit, *args, **kwargs
        )

    def predict(self, X):
        found = super().predict(np.asarray(X, np.float32))
        return pd.DataFrame(
            found, columns=list(self.P.coordinates), index=getattr(X, "index", None)
        )

    def score(self, X, y):
        """Minus the mean square error in units of each column."""
        return -float((((self.predict(X) - y) / y.std()) ** 2).mean(axis=None))


# %%
# A plant: heat in watts, efficiency as a share, and a rule between them. Columns may
# stand in any order.

random = np.random.default_rng(0)
X = pd.DataFrame({"sun": random.random(400), "load": 1000 + 100 * random.random(400)})
y = pd.DataFrame(
    {"efficiency": 0.2 + 0.6 * X["sun"] ** 2, "heat": 9000 * X["sun"] ** 2}
)
P = rh.parse("0 <= heat; heat <= 12500 * efficiency; 0 <= efficiency <= 0.9")

torch.manual_seed(0)
search = GridSearchCV(
    ConstrainedRegressor(P, max_epochs=60, batch_size=32), {"hidden": [8, 32]}, cv=3
).fit(X, y)
found = search.predict(X)
error = float(((found - y) / y.std()).pow(2).mean(axis=None) ** 0.5)
print(
    f"best width {search.best_params_['hidden']}, error {error:.3f} standard deviations"
)
kept = list(found.columns) == ["heat", "efficiency"] and bool(P.contains(found).all())
print(f"columns by name, every rule kept: {kept}")

# %%
# The rule is the edge of the shaded set: no prediction is beyond it.

fig, ax = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
edge = np.array([0, 0.9])
ax.fill_between(edge, 12500 * edge, alpha=0.15, label="allowed")
ax.scatter(y["efficiency"], y["heat"], s=10, color="0.6", label="data")
ax.scatter(found["efficiency"], found["heat"], s=6, label="predicted")
ax.set(xlabel="efficiency", ylabel="heat, W")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncol=3, frameon=False)
plt.show()
