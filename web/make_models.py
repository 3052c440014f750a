"""Train the two decoders of the page and write them as ONNX files: python web/make_models.py [--epochs 60].

Small variational autoencoders on the five thousand shipped digits: one free, one whose every image lies on the
checkerboard, strictly.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

import rayhull as rh
from experiments.digits import load
from experiments.studies.projection import paper_set
from rayhull.nn.export import to_onnx

HERE = Path(__file__).parent
HIDDEN = 128


class Autoencoder(nn.Module):
    """Encoder 784-128-2, decoder 2-128-head; trained on the negative evidence with a unit normal around each pixel."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 4))
        self.decoder = nn.Sequential(nn.Linear(2, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), head)

    def loss(self, images: Tensor) -> Tensor:
        mean, log_variance = self.encoder(images).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        fit = 4 * (self.decoder(z).reshape(images.shape) - images).square().sum((1, 2))
        return (fit + 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)).mean()


def trained(head: nn.Module, images: Tensor, epochs: int) -> nn.Module:
    """The decoder after training."""
    model = Autoencoder(head)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            loss = model.loss(images[batch])
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"\r{type(head).__name__}: epoch {epoch + 1} of {epochs}, loss {loss.item():.1f}", end="", flush=True)
    print()
    return model.decoder.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    epochs = parser.parse_args().epochs
    images = load("mnist-small").train
    (HERE / "models").mkdir(exist_ok=True)
    for name, head in (
        ("free", nn.Sequential(nn.Linear(HIDDEN, 784), nn.Tanh())),
        ("constrained", rh.Constrained(HIDDEN, paper_set(), strict=True)),
    ):
        torch.manual_seed(0)
        decoder = trained(head, images, epochs)
        print(to_onnx(decoder, 2, HERE / "models" / f"{name}.onnx"))


if __name__ == "__main__":
    main()
