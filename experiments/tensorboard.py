"""TensorBoard from saved results: event files beside the runs, made after the fact, so that no training needs it."""

from __future__ import annotations

from pathlib import Path

from experiments.errors import ResultsError
from experiments.results import METRICS, find_runs, read_lines


def export(out: Path) -> Path:
    """Write every number of every run below ``out`` to ``out``/tensorboard; returns that folder."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ResultsError("TensorBoard is not installed: pip install 'rayhull[tensorboard]'.") from error
    target = Path(out) / "tensorboard"
    for folder in find_runs(out):
        if not (folder / METRICS).exists():
            continue
        with SummaryWriter(str(target / folder.relative_to(out))) as writer:
            for line in read_lines(folder / METRICS):
                for key, value in line.items():
                    if key != "epoch" and isinstance(value, int | float):
                        writer.add_scalar(key, value, line["epoch"])
    return target
