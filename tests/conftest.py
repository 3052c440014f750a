"""What every test may rely on: Ctrl-C, and the core compiled from the sources as they are (RAYHULL_CORE=0: none)."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

# A shell starts background jobs with SIGINT ignored, and Python then raises no KeyboardInterrupt: a test that sends the
# signal would wait forever, and so would the programs that it starts.
if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or os.environ.get("RAYHULL_CORE"):
        return
    from rayhull.core import build

    try:
        build.Build().run()
    except build.CannotBuildError as error:
        print(f"tests run without the compiled core: {error}")


@pytest.fixture(autouse=True)
def nothing_compiled_stays() -> Iterator[None]:
    """torch.compile keeps eight programs of one function in a process: a test must not be the ninth by its place."""
    yield
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


@pytest.fixture
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the compiled core runs in this test: parametrize it with both to compare the core with the reference."""
    from rayhull.core import library

    if not request.param:
        monkeypatch.setattr(library, "load", lambda name: None)
    elif library.load("conversion") is None or library.load("operators") is None:
        pytest.skip("the core is not compiled")
    return bool(request.param)


@pytest.fixture
def never_in_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What floats cannot decide is refused, as in a block that is too large for fractions."""
    from rayhull.conversion import block

    monkeypatch.setattr(block, "MOST_EXACT_ENTRIES", 0)


@pytest.fixture(params=["compiled", "tensor operations"])
def either_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer's kernels as they run by default, and the tensor operations that define them."""
    if request.param == "tensor operations":
        for module in ("maps.steps", "nn.strict"):
            monkeypatch.setattr(f"rayhull.{module}.is_plain", lambda *_: False)
