"""Monotone and convex outputs: a network cleans noisy curves, and every curve it gives has the stated shape."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import rayhull as rh
from experiments import methods
from experiments.digits import Digits
from experiments.results import Run
from experiments.settings import ShapesSettings
from experiments.studies.regression import WIDTH, Regression, fit, generator, trunk

POINTS, TRAIN, VALIDATION, NOISE = 50, 4096, 1024, 0.1


def curves(shape: str, n: int) -> Tensor:
    """Random curves of the shape: sums of a few increasing steps, or of convex bends. Shape: (n, points)."""
    noise = generator(0)
    grid = torch.linspace(0, 1, POINTS)
    places = torch.rand(n, 4, 1, generator=noise)
    weights = torch.rand(n, 4, 1, generator=noise)
    if shape == "monotone":
        parts = torch.sigmoid((grid - places) * 20)
    else:
        parts = (grid - places).relu() + (places - grid).relu()
    summed = (weights * parts).sum(1)
    return summed / summed.abs().amax(1, keepdim=True) * 2 - 1


def run(settings: ShapesSettings, digits: Digits | None, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Noisy curve in, clean curve out."""
    P = {"monotone": rh.monotone, "convex": rh.convex}[settings.shape](POINTS)
    clean = curves(settings.shape, TRAIN + VALIDATION)
    noisy = clean + NOISE * torch.randn(clean.shape, generator=generator(1))
    torch.manual_seed(settings.seed)
    method = methods.build(settings.method, WIDTH, P, settings)
    task = Regression(method, trunk(POINTS), (noisy[TRAIN:], clean[TRAIN:]))
    return fit(task, (noisy[:TRAIN], clean[:TRAIN]), settings, run, fabric, quiet)
