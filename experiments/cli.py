"""The command line: run, sweep, report, demo, reproduce. torch is imported only by what needs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments import plan
from experiments import settings as st
from experiments.errors import ExperimentError, SettingsError
from experiments.studies import NAMES, headline, load


def parser(arguments: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Every command; of the studies, the options of the one that ``arguments`` name (torch is imported with it)."""
    top = argparse.ArgumentParser(prog="python -m experiments", description="The paper's studies, reproduced.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_studies(commands.add_parser("run", help="one run of one study, each method at its best settings"), arguments)
    sweep = commands.add_parser("sweep", help="many runs: methods, learning rates, seeds")
    for study in _add_studies(sweep, arguments):
        study.add_argument("--methods", nargs="+", default=["paper", "constrained"])
        study.add_argument("--learning-rates", nargs="+", type=float, default=[1e-5, 1e-4, 1e-3])
        study.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    demo = commands.add_parser("demo", help="three short studies on the shipped digits, then the report")
    reproduce = commands.add_parser("reproduce", help="the whole paper: hours on a CPU, resumable at any point")
    reproduce.add_argument(
        "--runs", type=int, default=10, help="seeds of the learned projection (default: 10, as there)"
    )
    reproduce.add_argument(
        "--only", nargs="+", metavar="STUDY/NAME", help="runs whose name begins so, in this order (vae projection/ttp)"
    )
    _add_running(demo, "results/demo", threads=1)  # its networks are small: a second thread made it three times slower
    _add_running(reproduce, "results/paper")
    for name, text in (
        ("report", "HTML and Markdown from saved results; never trains"),
        ("publish", "numbers, curves and pictures worth quoting, as small files; the docs' page from them"),
        ("tensorboard", "event files for TensorBoard from saved results"),
    ):
        reader = commands.add_parser(name, help=text)
        reader.add_argument("--out", type=Path, default=Path("results"), help="folder of results (default: results)")
        if name == "publish":
            _add_publishing(reader)
    return top


def _add_publishing(command: argparse.ArgumentParser) -> None:
    command.add_argument("--to", type=Path, default=Path("results/published"), help="where the files go")
    command.add_argument(
        "--fill", type=Path, nargs="+", default=[], help="Markdown files, whose tables are written anew"
    )
    command.add_argument("--draw", type=Path, help="a folder for the figures")
    command.add_argument("--format", nargs="+", default=["svg"], choices=("svg", "pdf", "png"), help="of the curves")
    command.add_argument("--again", action="store_true", help="add nothing: fill and draw from what is published")
    command.add_argument("--retire", nargs="+", metavar=("STUDY", "LABEL"), help="take rows out that others replace")


def _add_studies(command: argparse.ArgumentParser, arguments: Sequence[str]) -> list[argparse.ArgumentParser]:
    studies = command.add_subparsers(dest="study", required=True, metavar="STUDY")
    made = []
    for name in NAMES:
        study = studies.add_parser(name, help=headline(name))
        made.append(study)
        _add_running(study, "results")
        if name in arguments:
            st.add_options(study, load(name).settings)
            study.add_argument("--paper-settings", action="store_true", help="the paper's, not the method's own best")
    return made


def _add_running(command: argparse.ArgumentParser, out: str, threads: int | None = None) -> None:
    """How to run, apart from what is run: these change no result and are not saved with it."""
    command.add_argument("--out", type=Path, default=Path(out), help=f"folder of all results (default: {out})")
    command.add_argument("--name", help="folder of this run below --out/STUDY (default: METHOD/seed-SEED)")
    command.add_argument("--data", type=Path, help="folder of the four idx files (default: $RAYHULL_DATA, the cache)")
    command.add_argument("--accelerator", default="cpu", help="cpu, cuda, mps or auto (default: cpu)")
    command.add_argument("--devices", type=int, default=1, help="processes, each with its part of a batch (default: 1)")
    command.add_argument("--nodes", type=int, default=1, help="machines (default: 1)")
    command.add_argument(
        "--threads", type=int, default=threads, help=f"threads of torch (default: {threads or 'its own choice'})"
    )
    command.add_argument("--quiet", action="store_true", help="no progress")


def main(arguments: list[str] | None = None) -> int:
    """Run a command; a deliberate error is printed without a traceback and gives exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser(given).parse_args(given)
    try:
        if not _COMMANDS[options.command](options):
            raise KeyboardInterrupt
    except ExperimentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command goes on from the last finished epoch.", file=sys.stderr)
        return 130
    return 0


def _run(options: argparse.Namespace) -> bool:
    from experiments.running import run_study

    return run_study(options.study, settings_of(options), options)


def settings_of(options: argparse.Namespace, method: str | None = None) -> Any:
    """What a command line asks for: the method's best settings or the paper's, and the options that were given."""
    study = load(options.study)
    options.method = method or getattr(options, "method", None)
    return st.from_options(study.settings, options, None if options.paper_settings else study.best)


def _sweep(options: argparse.Namespace) -> bool:
    if not issubclass(load(options.study).settings, st.TrainingSettings):
        raise SettingsError(f"a sweep needs a study that trains, and {options.study} does not.")
    methods = [settings_of(options, method) for method in options.methods]
    jobs = list(plan.sweep(options.study, methods, options.learning_rates, options.seeds))
    return plan.run_all(jobs, options) and _report(options)


def _demo(options: argparse.Namespace) -> bool:
    """The short studies, the published ones beside them in the report, and the three lines that matter."""
    from experiments.publish import PUBLISHED, read
    from experiments.report import collected, make
    from experiments.report.headlines import headlines

    if not plan.run_all(list(plan.demo()), options):
        return False
    page = make(options.out, beside=read(PUBLISHED))
    print("\n".join(["", *headlines(collected(options.out)), f"report: {page}"]))
    return True


def _reproduce(options: argparse.Namespace) -> bool:
    jobs = list(plan.reproduce(options.runs))
    return plan.run_all(plan.only(jobs, options.only) if options.only else jobs, options) and _report(options)


def _report(options: argparse.Namespace) -> bool:
    from experiments.report import make

    print(f"report: {make(options.out)}")
    return True


def _publish(options: argparse.Namespace) -> bool:
    from experiments.publish import draw, fill, publish, retire

    written = [] if options.again else publish(options.out, options.to)
    if options.retire:
        written += retire(options.to, options.retire[0], options.retire[1:])
    for page in options.fill:
        fill(page, options.to)
        written.append(page)
    if options.draw:
        written += draw(options.to, options.draw, options.format)
    print("\n".join(f"published: {path}" for path in written))
    return True


def _tensorboard(options: argparse.Namespace) -> bool:
    from experiments.tensorboard import export

    print(f"tensorboard --logdir {export(options.out)}")
    return True


_COMMANDS: dict[str, Callable[[argparse.Namespace], bool]] = {
    "run": _run,
    "sweep": _sweep,
    "demo": _demo,
    "reproduce": _reproduce,
    "report": _report,
    "publish": _publish,
    "tensorboard": _tensorboard,
}
