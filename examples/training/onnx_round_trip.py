"""
To ONNX and back
================

Train, fold for inference, export with a dynamic batch, run in ONNX Runtime. A graph
holds steps towards the nearest point, not the solver that finds it, so the layer takes
``method="steps"``. With ``strict=True`` the floats that come out of the runtime obey
the rules in exact arithmetic, as they do in PyTorch.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import onnxruntime
import torch

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other
torch.manual_seed(0)
P = rh.Polyhedron([[1.0, 1.0], [-1.3, 0.4], [0.2, -1.1]], [1.0, 0.7, 0.6])  # a triangle
model = torch.nn.Sequential(
    torch.nn.Linear(2, 32),
    torch.nn.Tanh(),
    rh.Constrained(32, P, method="steps", strict=True),
)

# %%
# Fold what is linear into one Linear, and write the file.
model[-1] = model[-1].fold()
file = Path(tempfile.mkdtemp()) / "model.onnx"
rh.nn.export.to_onnx(model, 2, file)
print(f"{file.stat().st_size / 1024:.0f} KB")

# %%
session = onnxruntime.InferenceSession(file)
x = 10 * torch.randn(2000, 2)
(there,) = session.run(None, {"features": x.numpy()})
here = model(x).detach()
print(
    "largest difference between PyTorch and ONNX Runtime:",
    f"{abs(there - here.numpy()).max():.1e}",
)
print("inside, in exact arithmetic:", bool(P.contains_exactly(there).all()))

# %%
fig, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
corners = P.generators().vertices
ax.fill(*corners.T, color="0.9")
ax.scatter(*there.T, s=4)
ax.set(title="2000 outputs of the exported layer", aspect="equal")
plt.show()
