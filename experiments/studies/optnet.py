"""OptNet at a size it can bear: the learned projection of 8 x 8 digits, and its cost for a few samples of full size."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import torch
from torch.nn.functional import adaptive_avg_pool2d

import rayhull as rh
from experiments.digits import Digits
from experiments.results import SUMMARY, Run, read_json
from experiments.settings import OptnetSettings
from experiments.studies import projection

SIDE, FULL_SAMPLES = 8, 2


def run(settings: OptnetSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """The learned projection with 16 tiles of 2 x 2 pixels."""
    pooled = {name: adaptive_avg_pool2d(getattr(digits, name), SIDE) for name in ("train", "validation", "test")}
    P = rh.checkerboard((SIDE, SIDE), tiles=(4, 4)) & rh.box(-1, 1)
    if not projection.run(settings, dataclasses.replace(digits, **pooled), run, fabric, quiet, P):
        return False
    if run.writes and settings.method == "optnet":
        run.finish(read_json(run.folder / SUMMARY) | {"full_size_seconds_a_sample": full_size_seconds(digits)})
    return True


def full_size_seconds(digits: Digits) -> float:
    """Seconds for one 28 x 28 image, forwards and backwards."""
    from experiments.methods.optnet import QuadraticProgram

    layer = QuadraticProgram(projection.paper_set())
    images = digits.test[:FULL_SAMPLES].clone().requires_grad_()
    with torch.enable_grad():
        began = time.perf_counter()
        layer(images).square().sum().backward()
    return (time.perf_counter() - began) / FULL_SAMPLES
