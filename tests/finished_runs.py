"""Runs as a study leaves them, written without training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from experiments.settings import as_dict
from experiments.studies.projection import ProjectionSettings
from experiments.studies.timing import TimingSettings
from experiments.studies.vae import VaeSettings


def write_run(
    folder: Path,
    study: str,
    settings: Any,
    lines: Sequence[dict[str, Any]],
    summary: dict[str, Any],
    pictures: dict[str, Tensor] | None = None,
) -> None:
    """The files that a finished run leaves."""
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"study": study, **as_dict(settings)}))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "summary.json").write_text(json.dumps(summary))
    if pictures:
        save_file(pictures, folder / "samples.safetensors")


def write_results(folder: Path) -> Path:
    """Two seeds of a projection run, one VAE run, one timing run, as a study would leave them."""
    for seed in range(2):
        lines = [{"epoch": e, "val_loss": 0.4 - 0.01 * e - 0.001 * seed, "seconds": 2.0 * e} for e in (1, 2, 3)]
        summary = {"violation": 0.0, "inside": 1.0, "inside_exactly": 1.0}
        pictures = {"image": torch.rand(10, 28, 28), "x": torch.rand(10, 28, 28)}
        where = folder / "projection" / "constrained" / f"seed-{seed}"
        write_run(where, "projection", ProjectionSettings(seed=seed, epochs=3), lines, summary, pictures)
    vae = {"test_elbo": -80.0, "inside_exactly": 1.0, "inside": 1.0, "plain_accuracy": 0.5, "plain_score": 3.0}
    vae |= {"inside_accuracy": 0.6, "inside_score": 4.0}
    lines = [{"epoch": 1, "val_loss": 80.0, "seconds": 3.0}]
    pictures = {"sample": torch.rand(64, 28, 28), "grid": torch.rand(144, 28, 28)}
    write_run(folder / "vae" / "ttp" / "seed-0", "vae", VaeSettings(method="ttp"), lines, vae, pictures)
    lines = [
        {"epoch": 0, "model": "projection", "method": name, "label": label, "seconds": seconds}
        for name, label, seconds in (
            ("unconstrained", "unconstrained", [1.0, 1.0]),
            ("constrained", "constrained", [1.1, 1.1]),
            ("ttp", "ttp, OSQP loop", [550.0]),
        )
    ]
    machine = {"conversion_seconds": 0.02, "threads": 1, "torch": "2.13", "processor": "a processor"}
    write_run(folder / "timing" / "all" / "seed-0", "timing", TimingSettings(), lines, machine)
    return folder
