"""The door between conversion and the compiled core: NumPy arrays through ctypes, the GIL released meanwhile.

Every function here gives the same answer without the binary, from :mod:`rayhull.core.reference`.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rayhull.core import library
from rayhull.core.reference import adjacency, double_description, verification
from rayhull.core.reference.adjacency import Ints, Words
from rayhull.core.reference.double_description import Cone
from rayhull.core.reference.verification import Examined
from rayhull.exact import elimination, numbers

STOPPED, PAUSED, NO_MEMORY = 1, 3, -1
TOO_LONG = 3  # sums that 127 bits may not hold, or answers that 62 do not
FAST_SUMS = 2**53  # sums below it are products of floats
DIRECTLY, BY_EDGES, BY_TREES = 1, 2, 3
PERIOD = 0.05  # seconds between two looks at a run
LOOKED_AT = 200_000_000  # entries of rows that rays are examined against at a time: a tenth of a second, for Ctrl-C
SHORT = 3_000_000  # pairs and entries of rays looked at without a thread: some milliseconds
_buffer: Callable[[Any], Any] = (ctypes.c_char * 0).from_buffer
NO_LIMIT = np.iinfo(np.int64).max


class _Arrays(ctypes.Structure):
    """struct Arrays of doors.cpp."""

    _fields_ = [(name, ctypes.c_int64) for name in ("n", "k", "rays", "columns", "words", "bits")] + [
        (name, ctypes.c_void_p) for name in ("S", "Z", "E", "left", "taken")
    ]


class _Budget(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("max_rays", "max_pairs", "max_bytes")]


class _Progress(ctypes.Structure):
    """What the core tells of itself while it runs, and how it is stopped."""

    _fields_ = [(name, ctypes.c_int64) for name in ("row", "rays", "pairs", "nbytes", "stop")]

    def report(self, watch: Any) -> None:
        watch.say(self.row, self.rays, self.pairs)
        watch.check(self.row, self.rays, self.pairs, self.nbytes)


def take_rows(cone: Cone, order: Ints, watch: Any) -> Cone:
    """Take rows until none is open, or the next one needs longer integers than 62 bits or raises in floats.

    Without the binary, or with Python integers, one row is taken: call again until no row is open. The open row that
    comes first in ``order`` is taken next; ``watch`` is told where the conversion stands, and may raise.
    """
    core = library.load("conversion")
    if core is not None and cone.S.dtype != object:
        cone = _take_rows(core, cone, order, watch)
    if not len(cone.left) or not len(cone.S):
        return cone
    return double_description.take_next_row(cone, order, watch, adjacent_pairs)


def _take_rows(core: ctypes.CDLL, cone: Cone, order: Ints, watch: Any) -> Cone:
    budget = (watch.limits.max_generators, watch.limits.max_pairs, watch.limits.max_bytes)
    limits = _Budget(*(NO_LIMIT if limit is None else int(min(limit, NO_LIMIT)) for limit in budget))
    progress = _Progress(cone.row, len(cone.S))

    def run(most_work: int) -> int:
        return _call(
            core, "take_rows", handle, order, ctypes.byref(limits), ctypes.byref(progress), threads(), most_work
        )

    progress.report(watch)
    handle = _opened(core, cone)
    try:
        outcome = run(SHORT)
        if outcome == PAUSED:
            outcome = _watched(lambda: run(NO_LIMIT), progress, watch)
        if _enough(outcome) == STOPPED:
            progress.report(watch)
            raise RuntimeError("the core stopped although no limit is passed: a fault in rayhull, please report it.")
        return _read(core, handle, cone)
    finally:
        core.rayhull_close_cone(handle)


def _enough(status: int | None) -> int:
    """The status, unless there was no memory."""
    if status is None or status == NO_MEMORY:
        raise MemoryError("The rays do not fit in memory: lower max_bytes to be told before, with what to do instead.")
    return status


def _watched(run: Callable[[], int], progress: _Progress, watch: Any) -> int:
    """The outcome of ``run``, in a thread of its own: this one stays free for the clock, the bar and Ctrl-C.

    It returns or raises only after the thread has ended, whatever happens: the thread works on memory of the caller. A
    ``threading.Thread`` would not do: after Ctrl-C in its ``join`` it counts as ended while it still runs.
    """
    outcome: list[int] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(run())
        finally:
            done.set()

    try:
        _thread.start_new_thread(work, ())
        while not done.wait(PERIOD):
            progress.report(watch)
    except BaseException:
        progress.stop = 1
        while not done.is_set():  # also through further Ctrl-C: it takes milliseconds
            with contextlib.suppress(KeyboardInterrupt):
                done.wait()
        raise
    return outcome[0]


def _opened(core: ctypes.CDLL, cone: Cone) -> ctypes.c_void_p:
    """The cone for the core, which copies it."""
    left = np.concatenate([np.zeros(cone.k, np.int64), cone.left])
    kept = [np.ascontiguousarray(a) for a in (cone.S, cone.Z, cone.E, left, cone.taken, cone.C)]
    sizes = (*cone.C.shape, *cone.S.shape, cone.Z.shape[1], cone.bits)
    arrays = _Arrays(*sizes, *map(_pointer, kept[:5]))
    core.rayhull_open_cone.restype = ctypes.c_void_p
    handle = core.rayhull_open_cone(ctypes.byref(arrays), _pointer(kept[5]) if cone.S.dtype == np.float64 else None)
    return ctypes.c_void_p(_enough(handle))


def _read(core: ctypes.CDLL, handle: ctypes.c_void_p, cone: Cone) -> Cone:
    arrays = _Arrays()
    core.rayhull_read_cone(handle, ctypes.byref(arrays))
    r, columns = arrays.rays, arrays.columns
    S, Z = np.empty((r, columns), cone.S.dtype), np.empty((r, cone.Z.shape[1]), np.uint64)
    E, left, taken = np.empty(r), np.empty(columns, np.int64), np.empty(len(cone.C), np.int64)
    arrays.S, arrays.Z, arrays.E, arrays.left, arrays.taken = map(_pointer, (S, Z, E, left, taken))
    core.rayhull_read_cone(handle, ctypes.byref(arrays))
    return Cone(cone.C, S, Z, E, left[cone.k :], taken, int(arrays.bits))


def threads() -> int:
    """As many as torch would take, where it is loaded; else one for each processor, or what OMP_NUM_THREADS says."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) else os.cpu_count() or 1


def adjacent_pairs(sets: Words, above: Ints, below: Ints, need: int, way: int = 0) -> Iterator[Ints]:
    """What :func:`rayhull.core.reference.adjacency.adjacent_pairs` gives, at once; ``way`` is for tests."""
    core = library.load("conversion")
    if core is None:
        yield from adjacency.adjacent_pairs(sets, above, below, need)
        return
    room = max(len(above) + len(below), 1000)
    given = sets, *sets.shape, need, above, len(above), below, len(below), way, threads()
    while True:
        out = np.empty((room, 2), np.int64)
        found = _enough(_call(core, "adjacent_pairs", *given, out, room))
        if found <= room:
            yield out[:found]
            return
        room = found


def examine(C: NDArray[Any], Y: NDArray[Any], prime: int) -> Examined:
    """What :func:`rayhull.core.reference.verification.examine` gives, and which rays elimination proves extreme."""
    core = library.load("conversion")
    if core is None or C.dtype == object or Y.dtype == object:
        return verification.examine(C, Y)
    (n, k), r = C.shape, len(Y)
    zeros, extreme = np.zeros((r, (n + k + 63) // 64), np.uint64), np.zeros(r, bool)
    step = max(1, LOOKED_AT // (n * k + 1))
    for first in range(0, r, step):
        some = Y[first : first + step]
        sizes = n, k, some, len(some), prime, threads()
        fault = _enough(_call(core, "examine", C, *sizes, zeros[first:], extreme[first:]))
        if fault == TOO_LONG:
            return verification.examine(C, Y)
        if fault:
            return Examined(fault, zeros, extreme)
    return Examined(verification.NO_FAULT, zeros, extreme)


def primitive_product(weights: NDArray[Any], edges: NDArray[Any]) -> NDArray[Any]:
    """primitive(weights @ edges), exactly; compiled where the sums pass 53 bits and fit 127."""
    core = library.load("conversion")
    size = numbers.largest(weights) * numbers.largest(edges) * len(edges)
    if core is None or weights.dtype == object or edges.dtype == object or size < FAST_SUMS:
        return numbers.primitive(numbers.product(weights, edges))
    out = np.empty((len(weights), edges.shape[1]), np.int64)
    status = _enough(_call(core, "primitive_product", weights, edges, *weights.shape, edges.shape[1], out))
    return numbers.primitive(numbers.product(weights, edges)) if status == TOO_LONG else out


def independent_rows(matrix: NDArray[Any]) -> tuple[Ints, Ints]:
    """What :func:`rayhull.exact.elimination.independent_rows` gives."""
    return elimination.independent_rows(matrix, _eliminate_modulo)


def _eliminate_modulo(A: NDArray[Any], prime: int) -> tuple[Ints, Ints]:
    core = library.load("conversion")
    A = (A % prime).astype(np.int64) if A.dtype == object else A
    if core is None:
        return elimination.eliminate_modulo(A, prime)
    rows, columns = np.empty((2, min(A.shape)), np.int64)
    found = _enough(_call(core, "independent_rows", A, *A.shape, prime, rows, columns))
    return rows[:found], columns[:found]


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    """Where an array begins, which is then known to be contiguous; its ``ctypes`` takes four times as long to say."""
    return ctypes.c_void_p(ctypes.addressof(_buffer(array)) if array.flags.writeable else array.ctypes.data)


def _call(core: ctypes.CDLL, name: str, *arguments: Any) -> int:
    """The status that a function of the core returns: arrays go without gaps, numbers as 64 bits."""
    function = getattr(core, f"rayhull_{name}")
    function.restype = ctypes.c_int64
    kept = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
    passed = [
        _pointer(a) if isinstance(a, np.ndarray) else ctypes.c_int64(a) if isinstance(a, int) else a for a in kept
    ]
    return int(function(*passed))
