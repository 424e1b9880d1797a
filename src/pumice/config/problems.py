"""The problems of a conf, with their places."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pumice.config.schema import Position
from pumice.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, or has no effect, at one place of a conf."""

    code: str
    """Stable and short, for programs: ``unknown-plugin``, ``wrong-type``, …"""
    message: str
    path: str
    """Such as ``tiers[1].plugins[0].arguments.weight``; empty: the whole conf."""
    position: Position | None
    source: str
    value: str = ""
    """The name or value that was written."""
    nearest: str | None = None
    """The valid name that was perhaps meant."""

    def __str__(self) -> str:
        place = f"{self.source}:{self.position}" if self.position else self.source
        where = f"{place}: {self.path}" if self.path else place
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        return f"{where}: {self.message}{hint}"


class InvalidConf(ConfigError):
    """A conf cannot be used; ``problems`` lists everything that is wrong with it, in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in self.problems]
        if len(lines) > 1:
            lines = [f"{len(lines)} problems in the scheduler conf:", *(f"  {line}" for line in lines)]
        super().__init__("\n".join(lines))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The one of *known* that *name* most likely stands for, case aside; None if nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None
