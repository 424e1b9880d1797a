"""Filter an answer by the caller's permissions. This is the only place that does so.

Callers who may read jobs in a namespace see its names. Callers who may list nodes see names of nodes. Callers who may
read queues see the sums of queues, which add up all namespaces. A job's own place, and the limits that it was refused
by, are its owner's to know: they stand in its conditions too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

OTHERS: Final = "(another namespace)"
A_NODE: Final = "(a node)"
_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_WORDS: Final = re.compile(rf"(?<![-a-zA-Z0-9./])(?:({_NAME})/)?({_NAME})(?![-a-zA-Z0-9/])")


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """The objects of the cluster."""

    namespaces: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sight:
    """The user's view."""

    namespaces: frozenset[str] | None = field(default_factory=frozenset)
    """Those in which he may read jobs; None: all."""
    nodes: bool = False
    queues: bool = False


EVERYTHING: Final = Sight(None, True, True)
_STANDINGS: Final[dict[str, list[Any] | None]] = {"standing": None, "standings": [], "queues": []}
"""Fields that add up what all namespaces hold, and what stands there for who may not see it."""


def seen(answer: Any, sight: Sight, names: VisibleNames) -> Any:
    """An answer as plain data, without what is not to be seen; that something was left out is told in ``unseen``."""
    data = msgspec.to_builtins(answer)
    if sight == EVERYTHING:
        return data
    left_out: list[str] = []
    if isinstance(data, dict) and not sight.queues:
        for name, nothing in _STANDINGS.items():
            if data.get(name):
                data[name] = nothing
                left_out = ["how the queue stands: needs the right to get queues"]
    hidden = _Hidden(sight, names)
    data = hidden.of(data)
    if isinstance(data, dict) and "unseen" in data:
        data["unseen"] = [*data["unseen"], *left_out, *hidden.told()]
    return data


class _Hidden:
    """Replaces names, and remembers of which kinds."""

    def __init__(self, sight: Sight, names: VisibleNames) -> None:
        self._sight, self._names = sight, names
        allowed = sight.namespaces
        self._foreign = names.namespaces - allowed if allowed is not None else frozenset()
        self._met: set[str] = set()

    def told(self) -> list[str]:
        """The removed parts, in words."""
        rights = {OTHERS: "names of other namespaces' jobs", A_NODE: "names of nodes: needs the right to list nodes"}
        return [text for what, text in rights.items() if what in self._met]

    def of(self, data: Any) -> Any:
        match data:
            case str():
                return self._text(data)
            case dict():
                return self._mapping(data)
            case list():
                return [self.of(value) for value in data]
            case _:
                return data

    def _mapping(self, data: dict[str, Any]) -> dict[str, Any]:
        """Keys with a namespace are names too; those that become equal are counted together."""
        out: dict[str, Any] = {}
        for key, value in data.items():
            name, shown = self._text(key) if "/" in key else key, self.of(value)
            if name in out and isinstance(shown, (int, float)) and isinstance(out[name], (int, float)):
                shown += out[name]
            out[name] = shown
        return out

    def _text(self, text: str) -> str:
        return _WORDS.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        namespace, name = match.groups()
        if namespace in self._foreign:
            self._met.add(OTHERS)
            return OTHERS
        if not namespace and not self._sight.nodes and name in self._names.nodes:
            self._met.add(A_NODE)
            return A_NODE
        return match.group()
