"""One run from its settings: data, engine, folder, study. The engine (one device or many) is Lightning Fabric's."""

from __future__ import annotations

import argparse
import contextlib
import logging
import warnings
from pathlib import Path
from typing import Any

import torch

from experiments import digits
from experiments.errors import SettingsError
from experiments.results import Run
from experiments.studies import load


def run_study(study: str, settings: Any, options: argparse.Namespace) -> bool:
    """Run ``study`` into its folder, going on where an earlier run stopped; False if it was stopped again."""
    fabric = engine(settings, options)
    first = fabric.is_global_zero
    folder = folder_of(study, settings, options)
    with contextlib.closing(Run(folder, study, settings, writes=first)) as run:
        fabric.barrier()
        if run.complete:
            if first and not options.quiet:
                print(f"{folder} is complete")
            return True
        chosen = load(study)
        data = None
        if chosen.needs_digits:
            data = digits.load(settings.dataset, options.data, quiet=options.quiet).to(fabric.device)
        return chosen.run(settings, data, run, fabric, quiet=options.quiet or not first)


def folder_of(study: str, settings: Any, options: argparse.Namespace) -> Path:
    """--out/STUDY/NAME; by default the name is METHOD/seed-SEED."""
    name = options.name or f"{getattr(settings, 'method', 'all')}/seed-{settings.seed}"
    return Path(options.out) / study / name


def engine(settings: Any, options: argparse.Namespace) -> Any:
    """Lightning Fabric, launched: one process, or ``--devices`` x ``--nodes`` of them with DDP."""
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning_fabric")
    from lightning_fabric import Fabric

    if options.devices < 1 or options.nodes < 1:
        raise SettingsError(f"--devices and --nodes count from 1, got {options.devices} and {options.nodes}.")
    if options.threads:
        torch.set_num_threads(options.threads)
    several = options.devices * options.nodes > 1
    try:
        fabric = Fabric(
            accelerator=options.accelerator,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if several else "auto",
            precision=getattr(settings, "precision", "32-true"),
        )
    except (RuntimeError, ValueError) as error:
        raise SettingsError(f"--accelerator {options.accelerator} --devices {options.devices}: {error}") from error
    if several:
        fabric.launch()
    return fabric
