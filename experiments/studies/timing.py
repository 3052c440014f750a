"""Inference time (table 1): all samples in batches, repeated; the networks, and the solver loop after a network.

A network's time is that of its forward passes in evaluation mode. Test-time projection is the unconstrained network and
then the nearest point of each image: through OSQP one image at a time, as in the paper, and through ours. The networks
take turns in every repeat, so that a busy moment of the machine meets all of them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import rayhull as rh
from experiments.digits import Digits
from experiments.errors import SettingsError
from experiments.inference import forward_pass, trained
from experiments.progress import Progress
from experiments.report import figures, paper, tables
from experiments.report.groups import Group
from experiments.report.pages import Figure, Section
from experiments.results import Run
from experiments.settings import option
from experiments.solvers import OneByOne
from experiments.studies import Job, Study, job
from experiments.studies.projection import paper_set

NETWORKS = ("unconstrained", "paper", "constrained")


@dataclass(frozen=True)
class TimingSettings:
    """Inference time (table 1)."""

    samples: int = option(59000, "images to a run")
    batch_size: int = option(256, "images to a forward pass")
    repeats: int = option(100, "timed runs of the networks")
    solver_repeats: int = option(100, "timed runs of the solver loop, which takes about a minute each")
    dataset: str = option("mnist", "mnist, fashion-mnist, or mnist-small")
    seed: int = option(0, "of the networks' weights")
    network_threads: int = option(1, "threads of the networks; the solver loop takes one image at a time, on one")
    compiled: bool = option(True, "also time the networks under torch.compile, which needs a C++ compiler")
    training_epochs: int = option(1, "short training of the networks before they are timed, so that outputs are images")

    def __post_init__(self) -> None:
        for name in ("samples", "batch_size", "repeats", "solver_repeats", "network_threads"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be positive, got {getattr(self, name)}.")


@dataclass
class Case:
    """Something to time."""

    method: str
    label: str
    call: nn.Module


def run(settings: TimingSettings, digits: Digits, run: Run, fabric: Any, quiet: bool = False) -> bool:
    """Time every case, one line in the metrics for each; a stopped run goes on with the next group of cases."""
    torch.set_num_threads(settings.network_threads)
    images = digits.train[: settings.samples]
    noise = torch.randn(len(images), 2, generator=torch.Generator().manual_seed(settings.seed))
    done = {(line["model"], line["label"]) for line in run.metrics()}
    progress = Progress(2 * (settings.repeats + settings.solver_repeats), "timing", quiet)
    for model, inputs in (("projection", images), ("vae", noise.to(images.device))):
        for cases, repeats in groups(model, settings, digits):
            if all((model, case.label) in done for case in cases):
                progress.advance(repeats)
                continue
            for case, seconds in zip(cases, measure(cases, inputs, settings, repeats, progress), strict=True):
                line = {"model": model, "method": case.method, "label": case.label, "seconds": seconds}
                run.record({"epoch": 0, **line})
    run.finish({"conversion_seconds": conversion_seconds(), **environment()})
    return True


def groups(model: str, settings: TimingSettings, digits: Digits) -> list[tuple[list[Case], int]]:
    """The cases of one model that take turns, and how often: first the networks, then the solver loop alone."""
    P = paper_set()
    nets = {name: forward_pass(trained(model, name, settings, digits)) for name in NETWORKS}
    ours = nn.Sequential(nets["unconstrained"], rh.Projection(P)).eval()
    loop = nn.Sequential(nets["unconstrained"], OneByOne(P, "osqp")).eval()
    fast = [Case(name, name, network) for name, network in nets.items()] + [Case("ttp", "ttp, our projection", ours)]
    if settings.compiled:
        compiled = {name: torch.compile(nets[name]) for name in ("unconstrained", "constrained")}
        fast += [Case(name, f"{name}, compiled", network) for name, network in compiled.items()]
    return [(fast, settings.repeats), ([Case("ttp", "ttp, OSQP loop", loop)], settings.solver_repeats)]


@torch.no_grad()
def measure(
    cases: list[Case], inputs: Tensor, settings: TimingSettings, repeats: int, progress: Progress
) -> list[list[float]]:
    """Seconds of each repeat over all inputs, for each case, after two batches to warm up."""
    batches = inputs.split(settings.batch_size)
    times: list[list[float]] = [[] for _ in cases]
    for case in cases:
        for batch in (batches[0], batches[-1]):  # the last one may be shorter, which torch.compile compiles again
            case.call(batch)
    for _ in range(repeats):
        for case, seconds in zip(cases, times, strict=True):
            began = time.perf_counter()
            for batch in batches:
                case.call(batch)
            seconds.append(time.perf_counter() - began)
        progress.advance(1, note=f"{cases[-1].label}: {times[-1][-1]:.3g} s")
    return times


def conversion_seconds() -> float:
    """The checkerboard to generators, without a cache."""
    P = rh.checkerboard((28, 28), tiles=(4, 4))
    began = time.perf_counter()
    P.generators()
    return time.perf_counter() - began


def environment() -> dict[str, Any]:
    """What the seconds depend on."""
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": _processor(),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


WHY = (
    "The paper ran its networks on an Nvidia Titan X and OSQP on the CPU beside it; here everything runs on one CPU, "
    "so compare the ratios, not the seconds. Much of the paper's ratio belongs to the solver loop: a projection that "
    "knows the tiles is itself far faster, and is listed beside it."
)


def section(groups: Sequence[Group]) -> Section:
    """Table 1."""
    made = Section("Inference time (the paper's table 1)", [WHY], tables.timing(groups))
    for group in groups:
        made.text.append("Settings: " + tables.settings_line([group]) + ".")
        made.text += [_machine(group.numbers["machine"])] if group.numbers["machine"] else []
    panels: dict[str, list[dict[str, Any]]] = {}
    for group in groups:
        for row in group.numbers["cases"]:
            panels.setdefault(f"{row['model']}, network threads: {group.settings['network_threads']}", []).append(row)
    caption = "Seconds for all samples on a logarithmic scale: the median, and the middle half of the repeats."
    made.figures.append(Figure("timing", caption, figures.times(panels)))
    return made


def _machine(summary: dict[str, Any]) -> str:
    return (
        f"Converting the checkerboard to generators took {summary['conversion_seconds']:.3f} s (paper: "
        f"{paper.CONVERSION}). Measured on {summary['processor']}, {summary['threads']} thread(s), torch "
        f"{summary['torch']}."
    )


def demo() -> Iterator[Job]:
    """5000 images, ten times, and the solver loop once."""
    brief = TimingSettings(5000, repeats=10, solver_repeats=1, dataset="mnist-small", compiled=False)
    yield job("timing", brief, 40)


def reproduce(runs: int) -> Iterator[Job]:
    """Table 1 with one thread and with two."""
    for threads in (1, 2):
        settings = TimingSettings(solver_repeats=10, network_threads=threads)
        yield job("timing", settings, 10 * 160 + 100 * 20 / threads, f"threads-{threads}")


STUDY = Study(TimingSettings, run, section, demo=demo, reproduce=reproduce)
