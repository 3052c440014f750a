"""What every test may rely on: Ctrl-C, and the core compiled from the sources as they are (RAYHULL_CORE=0: none)."""

import os
import signal

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
