"""What the studies raise: expected, got, next step. The command line prints these without a traceback."""

from __future__ import annotations


class ExperimentError(Exception):
    """Base of every error that a study raises on purpose."""


class DataError(ExperimentError):
    """A data file is missing, cut short, damaged, or not what its name says."""


class ResultsError(ExperimentError):
    """A results folder cannot be read or written, or belongs to other settings."""


class SettingsError(ExperimentError, ValueError):
    """A study, method or option that does not exist, or values that do not fit together."""


def choose(kind: str, name: str, choices: object) -> None:
    """Refuse ``name`` unless it is one of ``choices``; the refusal lists them."""
    known = sorted(choices)  # type: ignore[call-overload]
    if name not in known:
        raise SettingsError(f"{kind} {name!r} does not exist: choose one of {', '.join(known)}.")
