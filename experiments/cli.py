"""The command line: run, sweep, report, demo, reproduce. torch is imported only by what needs it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from experiments import settings as st
from experiments.errors import ExperimentError

STUDIES: dict[str, type] = {
    "projection": st.ProjectionSettings,
    "vae": st.VaeSettings,
    "timing": st.TimingSettings,
}


def parser() -> argparse.ArgumentParser:
    """Every command and option; the defaults are the paper's."""
    top = argparse.ArgumentParser(prog="python -m experiments", description="The paper's studies, reproduced.")
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="one run of one study; the defaults are the paper's")
    studies = run.add_subparsers(dest="study", required=True)
    for name, kind in STUDIES.items():
        study = studies.add_parser(name, help=(kind.__doc__ or "").strip())
        st.add_options(study, kind)
        _add_running(study)
    return top


def _add_running(command: argparse.ArgumentParser) -> None:
    """How to run, apart from what is run: these change no result and are not saved with it."""
    command.add_argument("--out", type=Path, default=Path("results"), help="folder of all results (default: results)")
    command.add_argument("--name", help="folder of this run below --out/STUDY (default: METHOD/seed-SEED)")
    command.add_argument(
        "--data", type=Path, help="folder of the four idx files (default: $RAYHULL_DATA, then the cache)"
    )
    command.add_argument("--accelerator", default="cpu", help="cpu, cuda, mps or auto (default: cpu)")
    command.add_argument("--devices", type=int, default=1, help="processes, each with its part of a batch (default: 1)")
    command.add_argument("--nodes", type=int, default=1, help="machines (default: 1)")
    command.add_argument("--threads", type=int, help="threads of torch (default: torch's own choice)")
    command.add_argument("--quiet", action="store_true", help="no progress")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a deliberate error is printed without a traceback and gives exit code 2."""
    options = parser().parse_args(arguments)
    try:
        return _COMMANDS[options.command](options)
    except ExperimentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the last finished epoch.", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    from experiments.running import run_study

    settings = st.from_options(STUDIES[options.study], options)
    finished = run_study(options.study, settings, options)
    return 0 if finished else _stopped()


def _stopped() -> int:
    raise KeyboardInterrupt


_COMMANDS: dict[str, Any] = {"run": _run}
