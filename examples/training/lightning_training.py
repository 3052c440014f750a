"""
Training with Lightning
=======================

A constrained layer trains, is saved and is restored like any other module. Here a
network learns the composition of mixtures from spectra: non-negative parts that add up
to 1, none above one half.
"""

import logging
import tempfile
import warnings
from pathlib import Path

import lightning
import matplotlib.pyplot as plt
import torch
from torch.utils.data import DataLoader, TensorDataset

import rayhull as rh

torch.set_num_threads(1)  # a small network: more threads would wait for each other

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")  # hints about workers and loggers
lightning.seed_everything(0, verbose=False)

parts = torch.distributions.Dirichlet(torch.ones(6)).sample((4000,))
parts = rh.project(rh.simplex(6) & rh.box(0, 0.5), parts)
spectra = torch.rand(6, 40).cumsum(1).sin().abs()
data = TensorDataset(parts @ spectra + 0.02 * torch.randn(4000, 40), parts)


class Composition(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.P = rh.simplex(6) & rh.box(0, 0.5)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(40, 64), torch.nn.ReLU(), rh.Constrained(64, self.P)
        )

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        return (self.net(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 3e-3)


# %%
quiet = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "accelerator": "cpu",
}
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(max_epochs=5, default_root_dir=folder, **quiet)
    trainer.fit(Composition(), DataLoader(data, 64, shuffle=True))
    trainer.save_checkpoint(Path(folder) / "last.ckpt")
    model = Composition.load_from_checkpoint(Path(folder) / "last.ckpt").eval()

# %%
with torch.no_grad():
    found = model.net(data.tensors[0])
print(f"error of a part: {(found - parts).square().mean().sqrt():.4f}")
print("non-negative, at most one half, sum 1:", bool(model.P.contains(found).all()))

# %%
fig, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
ax.plot([0, 0.5], [0, 0.5], color="0.7")
ax.scatter(parts[:300], found[:300], s=4)
ax.set(xlabel="true part", ylabel="found", title="six parts of 300 mixtures")
plt.show()
