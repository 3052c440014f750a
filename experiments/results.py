"""A run's folder: settings.json, metrics.jsonl (one line an epoch), checkpoint.pt, samples.safetensors, summary.json.

Every file is replaced whole or not at all, and lines are appended before the checkpoint that covers them, so that a run
killed at any moment is taken up where its last checkpoint stands.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import torch

from experiments.errors import ResultsError
from experiments.settings import as_dict, differences

SETTINGS, METRICS, CHECKPOINT = "settings.json", "metrics.jsonl", "checkpoint.pt"
SAMPLES, SUMMARY = "samples.safetensors", "summary.json"


@contextlib.contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn an OSError below ``folder`` into an error that says what to do; what was saved before stays."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "the disk is full: free some space",
            errno.EDQUOT: "the disk quota is used up: free some space",
            errno.EACCES: "no permission to write there: choose another --out",
            errno.EROFS: "the file system is read-only: choose another --out",
        }.get(error.errno or 0, "check the folder, or choose another --out")
        raise ResultsError(
            f"cannot write results in {folder} ({error.strerror or error}); {advice}. "
            f"Everything up to the last finished epoch is kept: the same command goes on from there."
        ) from error


def replace(path: Path, write: Callable[[Path], object]) -> None:
    """Make ``path`` anew through ``write(temporary)``: after a crash the old file or the new one is there, whole."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        write(temporary)
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """``content`` as readable JSON, atomically."""
    text = json.dumps(content, indent=1, sort_keys=False) + "\n"
    replace(path, lambda temporary: temporary.write_text(text))


class Run:
    """One run's folder, made or taken up again.

    Args:
        folder: where the files are; made if it does not exist.
        study: the name of the study.
        settings: the frozen dataclass of the study; a folder with other settings is refused.
        writes: False in the processes that must not write (all but the first of several).
    """

    def __init__(self, folder: Path, study: str, settings: Any, writes: bool = True) -> None:
        self.folder, self.study, self.writes = Path(folder), study, writes
        self.settings = settings
        self.held: IO[str] | None = None
        stated = {"study": study, **as_dict(settings)}
        if writes:
            self._claim(stated)

    def _claim(self, stated: dict[str, Any]) -> None:
        with explained(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / SETTINGS
            if path.exists():
                self._refuse_other(path, stated)
            elif any(self.folder.iterdir()):
                raise ResultsError(
                    f"{self.folder} holds files but no {SETTINGS}, so it is not a run: choose another --out."
                )
            else:
                write_json(path, stated)
            self._lock(path)

    def _lock(self, path: Path) -> None:
        """Hold the folder until this process ends, however it ends; two writers would spoil each other's files."""
        try:
            import fcntl
        except ImportError:  # Windows has no such lock
            return
        self.held = path.open("r+")
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ResultsError(f"another process is running in {self.folder}: wait for it, or choose --name.") from None

    def close(self) -> None:
        """Let go of the folder."""
        if self.held is not None:
            self.held.close()

    def _refuse_other(self, path: Path, stated: dict[str, Any]) -> None:
        changed = differences(read_json(path), json.loads(json.dumps(stated)))
        if changed:
            raise ResultsError(
                f"{self.folder} holds a run with other settings ({'; '.join(changed)}): "
                f"choose another --out or --name, or remove the folder."
            )

    def restore(self) -> dict[str, Any] | None:
        """The last checkpoint, or None; lines of epochs after it are taken out of the metrics."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            self._keep_until(0)
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ResultsError(f"{path} is damaged ({error}): remove {self.folder} and run again.") from error
        self._keep_until(state["epoch"])
        return state

    def _keep_until(self, epoch: int) -> None:
        path = self.folder / METRICS
        if self.writes and path.exists():
            kept = [line for line in read_lines(path) if line["epoch"] <= epoch]
            with explained(self.folder):
                replace(path, lambda new: new.write_text("".join(json.dumps(line) + "\n" for line in kept)))

    def record(self, line: dict[str, Any]) -> None:
        """Append one line to the metrics, on the disk before this returns."""
        if self.writes:
            with explained(self.folder), (self.folder / METRICS).open("a") as stream:
                stream.write(json.dumps(line) + "\n")
                stream.flush()
                os.fsync(stream.fileno())

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        if self.writes:
            with explained(self.folder):
                replace(self.folder / CHECKPOINT, lambda temporary: _torch_save(state, temporary))

    def save_tensors(self, tensors: dict[str, torch.Tensor], name: str = SAMPLES) -> None:
        """Pictures and weights, as safetensors."""
        from safetensors.torch import save

        plain = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        if self.writes:
            with explained(self.folder):
                replace(self.folder / name, lambda temporary: temporary.write_bytes(save(plain)))

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary: its presence says that the run is complete."""
        if self.writes:
            with explained(self.folder):
                write_json(self.folder / SUMMARY, summary)

    @property
    def complete(self) -> bool:
        return (self.folder / SUMMARY).exists()

    def metrics(self) -> list[dict[str, Any]]:
        """The lines recorded so far."""
        path = self.folder / METRICS
        return read_lines(path) if path.exists() else []


def _torch_save(state: dict[str, Any], path: Path) -> None:
    try:
        torch.save(state, path)
    except RuntimeError as error:  # torch hides a full disk behind its own error
        raise OSError(errno.ENOSPC, "No space left on device") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file of ours."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({error}): remove the run's folder and run again.") from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines; a last line that a crash cut short is left out."""
    lines = path.read_text().splitlines()
    parsed = []
    for number, line in enumerate(lines, start=1):
        try:
            parsed.append(json.loads(line))
        except ValueError as error:
            if number < len(lines):
                raise ResultsError(
                    f"line {number} of {path} is damaged: remove the run's folder and run again."
                ) from error
    return parsed


def find_runs(out: Path) -> list[Path]:
    """Every run's folder below ``out``, sorted."""
    return sorted(path.parent for path in Path(out).rglob(SETTINGS))
