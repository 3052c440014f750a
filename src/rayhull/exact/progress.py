"""What takes long says so: one line on stderr, and Ctrl-C ends the waiting at once."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

PATIENCE, PERIOD = 2.0, 0.5  # seconds of silence, then between two lines on a terminal
T = TypeVar("T")


def draw(before: str, after: str, done: float | None = None) -> None:
    """One line in place of the last one; with a bar where the share ``done`` is known."""
    filled = 0 if done is None else round(20 * done)
    bar = "" if done is None else f"[{'#' * filled}{'.' * (20 - filled)}] "
    sys.stderr.write(f"\r\x1b[K{before} {bar}{after}")
    sys.stderr.flush()


def patiently(work: Callable[[], T], what: str) -> T:
    """``work()``, in a thread of its own so that Ctrl-C is heard; after two seconds a line says what takes so long.

    Compiled code hears no signal until it returns. What is stopped runs on unseen to its end; its result is dropped.

    Examples:
        >>> patiently(lambda: 1 + 1, "a sum")
        2
    """
    if threading.current_thread() is not threading.main_thread():  # no signal comes here
        return work()
    found: Future[T] = Future()
    threading.Thread(target=contextvars.copy_context().run, args=(_fill, found, work), daemon=True).start()
    began, pause = time.monotonic(), PATIENCE
    try:
        while not wait([found], pause).done:
            draw(f"{what}:", f"{time.monotonic() - began:.0f} s")
            pause = PERIOD if sys.stderr.isatty() else 2 * pause  # a file keeps every line
    finally:
        if pause != PATIENCE:
            sys.stderr.write("\n")
    return found.result()


def _fill(found: Future[T], work: Callable[[], T]) -> None:
    try:
        found.set_result(work())
    except BaseException as error:
        found.set_exception(error)
