"""Errors of a trace file, with the line to mend."""

from __future__ import annotations

from pathlib import Path

from pumice.errors import PumiceError


class TraceError(PumiceError):
    """A trace file breaks a rule; says which file, line, column and value, and the rule.

    ``jobs.csv:17: duration_s: must be a number of seconds of at least 0, got 'abc'``
    """

    def __init__(
        self, file: Path, rule: str, *, line: int | None = None, column: str | None = None, value: str | None = None
    ) -> None:
        place = str(file) if line is None else f"{file}:{line}"
        about = "" if column is None else f" {column}:"
        got = "" if value is None else f", got {_short(value)!r}"
        super().__init__(f"{place}:{about} {rule}{got}")
        self.file, self.rule, self.line, self.column, self.value = file, rule, line, column, value


def _short(value: str, length: int = 60) -> str:
    return value if len(value) <= length else value[: length - 1] + "…"
