"""The linter's rules, one function each, and what a rule and a finding are; config/lint.py holds the table of them."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pumice.config.catalogue import Catalogue
from pumice.config.schema import Position, SchedulerConf


class Severity(enum.StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The conf asks for two things that exclude each other."""
    WARNING = "warning"
    """The scheduler will do something other than the conf seems to say."""
    INFO = "info"
    """Worth knowing, or true of Volcano only."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A finding of a rule and its place; ``advice`` names the change to make."""

    severity: Severity
    path: str
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class LintRule:
    """One known trap."""

    name: str
    check: Callable[[SchedulerConf, Catalogue], Iterable[Hit]]
    dialects: tuple[str, ...] = ("volcano",)
    """In whose confs it can be stepped into."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A trap that this conf has stepped into."""

    rule: str
    severity: Severity
    path: str
    position: Position | None
    message: str
    advice: str

    def __str__(self) -> str:
        place = f"{self.position}: " if self.position else ""
        return f"{place}{self.severity}: {self.path}: {self.message} [{self.rule}] {self.advice}"
