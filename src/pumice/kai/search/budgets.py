"""What the search for victims may cost: KAI's durations, spent by scenarios and not by the clock.

Every scenario that is played counts as `COST` seconds, so that a cycle can be replayed and a busy machine decides as an
idle one does. A duration of 0 is without end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

COST: Final = 0.005
"""Seconds that a scenario counts as; about what playing one takes in a cluster of a thousand nodes."""
GENERATORS: Final = {"sg-nodelocalgreedy": "NodeLocalGreedy", "sg-multinodegang": "MultiNodeGang"}
"""Plugin -> the name under which its scenarios have a budget."""


class SearchBudget:
    """The budget of one run of an action: of all of it, of the job at hand, and of the generator at hand."""

    def __init__(self, action: str, given: Mapping[str, object]) -> None:
        """*given*: durations in seconds, as the settings have them."""
        self._action = _scenarios(_named(given, "maxActionSearchDuration", action, 300.0))
        self._most, self._least = (
            _plain(given, "maxJobSearchDuration", 240.0),
            _plain(given, "minJobSearchDuration", 0.0),
        )
        self._given = given
        self._job = self._generator = math.inf
        self._of_job, self._of_generator = _scenarios(self._most), dict[str, float]()

    def begin_job(self) -> bool:
        """A job's search begins; False where nothing is left for it."""
        self._job = max(min(self._action, self._of_job), self._least / COST)
        return self._job > 0

    def begin_generator(self, plugin: str) -> None:
        """A generator is asked on behalf of the job."""
        own = self._of_generator.get(plugin)
        if own is None:
            name = GENERATORS.get(plugin.rpartition("/")[2], plugin)
            given = _named(
                self._given, "maxGeneratorSearchDuration", name, 30.0 if name == "NodeLocalGreedy" else 120.0
            )
            own = self._of_generator[plugin] = _scenarios(given)
        self._generator = min(self._job, own)

    def spend(self) -> None:
        """A scenario was played."""
        self._action -= 1
        self._job -= 1
        self._generator -= 1

    @property
    def over(self) -> bool:
        """Is the job's search at its end?"""
        return self._job <= 0

    @property
    def left(self) -> bool:
        """Is something left for the job, and for the generator?"""
        return self._job > 0 and self._generator > 0


def _scenarios(seconds: float) -> float:
    return math.ceil(seconds / COST) if seconds else math.inf


def _plain(given: Mapping[str, object], key: str, default: float) -> float:
    value = given.get(key, default)
    return float(value) if isinstance(value, (int, float)) else default


def _named(given: Mapping[str, object], key: str, name: str, default: float) -> float:
    table = given.get(key)
    if not isinstance(table, Mapping):
        return default
    value = table.get(name, default if name in GENERATORS.values() else table.get("default", default))
    return float(value)
