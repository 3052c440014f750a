"""How well a small classifier reads generated digits: authenticity in numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from experiments.digits import Digits

EPOCHS, BATCH, RATE, WIDTH = 3, 128, 1e-3, 256


class Reader(nn.Module):
    """FC(784, 256)-ReLU-FC(256, 10), trained on labelled digits with a little noise. Shape: (n, 28, 28) → (n, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(784, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images)

    @classmethod
    @torch.enable_grad()
    def trained(cls, images: Tensor, labels: Tensor, seed: int) -> Reader:
        """A reader of ``images``, the same for the same seed."""
        generator = torch.Generator().manual_seed(seed)
        torch.manual_seed(seed)
        reader = cls().to(images.device)
        optimizer = torch.optim.Adam(reader.parameters(), lr=RATE)
        for _ in range(EPOCHS):
            for places in torch.randperm(len(images), generator=generator).split(BATCH):
                noisy = images[places] + 0.1 * torch.randn_like(images[places])
                loss = nn.functional.cross_entropy(reader(noisy), labels[places])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return reader.eval()


@torch.no_grad()
def authenticity(reader: Reader, samples: Tensor, decoded: Tensor, digits: Digits) -> dict[str, float]:
    """What the reader makes of samples of the prior, and of the test digits after encoding and decoding.

    - ``accuracy``: share of decoded test digits read as the digit that was encoded;
    - ``confidence``: mean probability of the class that the reader chooses for a sample of the prior;
    - ``score``: exp of the mean KL(p(class | sample) ‖ p(class)), from 1 (unreadable, or all alike) to 10 (ten clear
      digits, equally often).
    """
    probabilities = reader(samples).softmax(-1)
    marginal = probabilities.mean(0)
    gain = (probabilities * (probabilities.clamp_min(1e-12).log() - marginal.clamp_min(1e-12).log())).sum(-1)
    return {
        "accuracy": float((reader(decoded).argmax(-1) == digits.test_labels).double().mean()),
        "confidence": float(probabilities.amax(-1).mean()),
        "score": float(gain.mean().exp()),
    }
