"""Constrained variational autoencoder: digits drawn by a decoder whose every image obeys the set (figures 1 and 5)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from experiments import methods
from experiments.authenticity import Reader, authenticity
from experiments.digits import Digits
from experiments.methods.base import Method
from experiments.report import figures, tables
from experiments.report.groups import Group
from experiments.report.pages import Figure, Section
from experiments.report.sections import hard, ranked, shaded
from experiments.results import Run
from experiments.settings import TrainingSettings, option
from experiments.studies import Job, Study, job
from experiments.studies.projection import paper_set
from experiments.training import Task, ending, train

PRIOR_SAMPLES = 10_000
GRID = 12  # the latent plane is shown as 12 x 12 images
PICTURES = 64


@dataclass(frozen=True)
class VaeSettings(TrainingSettings):
    """Constrained variational autoencoder (figures 1 and 5)."""

    epochs: int = option(200, "passes over the training set")
    batch_size: int = option(64, "samples to a step, over all processes together")
    box_delay: int = option(100, "epochs before the box is added in training (method paper)")
    hidden: int = option(256, "width of the hidden layers")
    latent: int = option(2, "dimension of the latent space")


def half_squared_error(x: Tensor, target: Tensor) -> Tensor:
    """-log N(target; x, 1) per pixel, without its constant."""
    return 0.5 * nn.functional.mse_loss(x, target)


class Vae(Task):
    """Encoder FC-ReLU-FC, decoder FC-ReLU-method; the loss is the negative ELBO per pixel.

    The likelihood is a unit normal around the decoded image, without its constant: the paper's decoder leaves [-1, 1]
    while the box is delayed, so a Bernoulli likelihood is not defined for it.
    """

    def __init__(self, method: Method, settings: VaeSettings, validation: Tensor) -> None:
        super().__init__()
        d = method.P.dim
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(d, settings.hidden), nn.ReLU())
        self.mean = nn.Linear(settings.hidden, settings.latent)
        self.log_variance = nn.Linear(settings.hidden, settings.latent)
        stem = [nn.Linear(settings.hidden, d), nn.Sigmoid()] if method.needs_stem else []
        self.trunk = nn.Sequential(nn.Linear(settings.latent, settings.hidden), nn.ReLU(), *stem)
        self.method = method
        self.validation = validation

    def decode(self, z: Tensor) -> Tensor:
        """Latent points to images. Shape: (\\*, latent) → (\\*, 28, 28)."""
        return self.method(self.trunk(z))

    def generate(self, z: Tensor) -> Tensor:
        """What the finished model gives: the decoded image as it leaves the network at test time."""
        return self.method.deliver(self.decode(z))

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of the latent points. Shape: (n, 28, 28) → 2 x (n, latent)."""
        features = self.encoder(images)
        return self.mean(features), self.log_variance(features)

    def forward(self, images: Tensor) -> Tensor:
        mean, log_variance = self.encode(images)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        fit = self.method.training_loss(self.decode(z), images, half_squared_error)
        return fit + divergence(mean, log_variance).mean() / self.method.P.dim

    def epoch_begins(self, epoch: int) -> None:
        self.method.epoch_begins(epoch)

    def evaluate(self) -> dict[str, float]:
        measures, x = self.measure(self.validation)
        return {"val_loss": -measures["elbo"], **measures, "violation": float(self.method.P.violation(x).max())}

    def measure(self, images: Tensor) -> tuple[dict[str, float], Tensor]:
        """ELBO in nats per image (one draw from the encoder, always the same), its two parts, and the images."""
        mean, log_variance = self.encode(images)
        z = mean + fixed_noise(mean) * (0.5 * log_variance).exp()
        x = self.generate(z)
        reconstruction = float(half_squared_error(x, images)) * self.method.P.dim
        kl = float(divergence(mean, log_variance).mean())
        return {"elbo": -reconstruction - kl, "reconstruction": reconstruction, "kl": kl}, x


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)) of each sample. Shape: 2 x (n, latent) → (n,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)


def fixed_noise(like: Tensor) -> Tensor:
    """The same standard normal draw at every call."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(0)).to(like)


def latent_grid(side: int = GRID) -> Tensor:
    """Points of the latent plane at equal steps of probability. Shape: (side², 2)."""
    steps = torch.special.ndtri((torch.arange(side) + 0.5) / side)
    return torch.cartesian_prod(steps, steps)


def build(settings: VaeSettings, validation: Tensor) -> Vae:
    """The task of one run, its weights drawn from the seed."""
    P = paper_set()
    torch.manual_seed(settings.seed)
    kind = methods.method_class(settings.method)
    features = P.dim if kind.needs_stem else settings.hidden
    return Vae(kind(features, P, settings, squash=True), settings, validation)


def run(settings: VaeSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Train one method, then judge 10 000 samples of the prior and the test set. False if it was stopped."""
    task = build(settings, digits.validation)
    label = f"vae/{settings.method} seed {settings.seed}"
    if not train(task, (digits.train[: settings.samples],), settings, run, fabric, label, quiet):
        return False
    if run.writes:
        task.eval()
        with torch.no_grad():
            _finish(task, settings, digits, run)
    return True


def _finish(task: Vae, settings: VaeSettings, digits: Digits, run: Run) -> None:
    P = task.method.P
    device = digits.test.device
    samples = task.generate(fixed_noise(torch.empty(PRIOR_SAMPLES, settings.latent, device=device)))
    measures, decoded = task.measure(digits.test)
    summary = (
        ending(run, settings)
        | {"test_" + name: value for name, value in measures.items()}
        | {
            "violation": float(P.violation(samples).max()),
            "inside": float(P.contains(samples).double().mean()),
            "inside_exactly": float(P.contains_exactly(samples).double().mean()),
            "parameters": sum(p.numel() for p in task.parameters()),
            "seconds": run.metrics()[-1]["seconds"],
        }
    )
    for name, reader in readers(digits, P, settings.seed).items():
        summary |= {f"{name}_{key}": value for key, value in authenticity(reader, samples, decoded, digits).items()}
    pictures = {"sample": samples[:PICTURES], "image": digits.test[:PICTURES], "decoded": decoded[:PICTURES]}
    if settings.latent == 2:
        pictures["grid"] = task.generate(latent_grid().to(device))
    run.save_tensors(pictures)
    run.finish(summary)


def readers(digits: Digits, P: Any, seed: int) -> dict[str, Reader]:
    """Two classifiers: one knows digits as they are, one knows digits as the nearest points of the set."""
    import rayhull as rh

    return {
        "plain": Reader.trained(digits.train, digits.train_labels, seed),
        "inside": Reader.trained(rh.project(P, digits.train), digits.train_labels, seed),
    }


WHY = (
    "The paper shows pictures and gives no number for its VAE. The ELBO here has a unit normal likelihood around the "
    "decoded image, without its constant, because the paper's decoder leaves [-1, 1] while its box is delayed."
)
MEASURES = (
    "Inside exactly: share of 10 000 samples of the prior that satisfy every row and bound in rational arithmetic; "
    "inside: the same up to 16 units in the last place of float32. Read right: share of test digits that a small "
    "classifier, trained on real digits, reads correctly after encoding and decoding. Score of samples: exp of the "
    "mean KL(p(class | sample) ‖ p(class)), 1 to 10. The reader of the set is trained on real digits moved to the "
    "nearest point of the set, so that it knows the checkerboard."
)
PICTURES_OF = (
    ("sample", 5, "vae-samples", "Samples of each model's prior. Every model has a latent space of its own: pictures "
     "at the same place do not correspond to each other."),
    ("grid", 12, "vae-plane", "Each model's own latent plane, at equal steps of probability."),
)  # fmt: skip


def section(groups: Sequence[Group]) -> Section:
    """Figures 1 and 5: samples of the prior, the latent plane, and numbers for both."""
    rows = ranked(groups)
    text = [WHY, "Settings of all rows: " + tables.settings_line(rows) + ".", MEASURES]
    made = Section("Constrained VAE (the paper's figures 1 and 5)", text, tables.vae(rows))
    pictures = {textwrap.fill(group.label, 40): group.pictures for group in pictured(rows)}
    for key, side, name, caption in PICTURES_OF:
        found = {label: images[key] for label, images in pictures.items() if key in images}
        if found:
            made.figures.append(Figure(name, caption, figures.mosaics(found, side), photographs=True))
    curves = hard(rows)
    if curves:
        drawing = figures.convergence(curves, "negative ELBO on the validation set, nats", over_time=False)
        caption = (
            f"Negative ELBO over epochs, of the hard methods{shaded(curves)}. While its box is delayed, a method is "
            "trained without the box and judged with it."
        )
        made.figures.append(Figure("vae-convergence", caption, drawing))
    return made


def pictured(groups: Sequence[Group]) -> list[Group]:
    """Of each method the group with the best ELBO among those whose pictures were kept, in their order."""
    best: dict[str, Group] = {}
    for group in sorted((one for one in groups if one.pictures), key=_elbo):
        best[group.method] = group
    return [group for group in groups if best.get(group.method) is group]


def _elbo(group: Group) -> float:
    found = group.summary("test_elbo")
    return float("-inf") if found is None else found.mean


def demo() -> Iterator[Job]:
    """Four decoders, 12 epochs each on the digits that ship with the repository."""
    for method in ("unconstrained", "ttp", "paper", "constrained"):
        small = VaeSettings(
            method=method, dataset="mnist-small", epochs=12, learning_rate=1e-3, schedule="cosine",
            box_delay=6 if method == "paper" else 0, free_loss=0.5,
        )  # fmt: skip
        yield job("vae", small, 10)


OURS: dict[str, Any] = {"epochs": 60, "learning_rate": 1e-3, "schedule": "cosine", "box_delay": 0, "free_epochs": 0}
BEST: dict[str, dict[str, Any]] = {
    "paper": OURS | {"box_delay": 30},
    "constrained": OURS | {"free_loss": 0.5},
    **dict.fromkeys(("projection", "leak", "ttp", "unconstrained"), OURS),
}


def reproduce(runs: int) -> Iterator[Job]:
    """The paper's settings, three seeds of each method; its layer also annealed by 1/2, as the paper says of all its
    networks: only so is a run still under way when the box joins.
    """
    for seed in range(min(3, runs)):
        for method, seconds in (
            ("unconstrained", 6),
            ("ttp", 6),
            ("paper", 12),
            ("constrained", 8),
            ("projection", 10),
        ):
            yield job("vae", VaeSettings(method=method, seed=seed), 200 * seconds)
        yield job("vae", VaeSettings(method="paper", seed=seed, schedule="halving"), 200 * 12, "paper-halving")


STUDY = Study(VaeSettings, run, section, best=BEST, demo=demo, reproduce=reproduce)
