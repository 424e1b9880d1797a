"""Filter an answer by the caller's permissions. This is the only place that does so.

Callers who may read jobs in a namespace see its names. Callers who may list nodes see names of nodes. Callers who may
read queues see the sums of queues, which add up all namespaces. A job's own place, and the limits that it was refused
by, are its owner's to know: they stand in its conditions too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import structs

from pumice.model.intents import Note, StatusUpdate

OTHERS: Final = "(another namespace)"
A_NODE: Final = "(a node)"
_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_NAMES: Final = re.compile(rf"(?<![-a-zA-Z0-9.]){_NAME}(?:/{_NAME})*(?![-a-zA-Z0-9])")
"""Names within a text, with everything above them: ``namespace/name``, ``kind/namespace/name``."""
FIELDS: Final = {
    **dict.fromkeys(("node", "example"), "node"),
    "nodes": "nodes",
    **dict.fromkeys(("placed", "promised"), "places"),
    "protected": "of objects",
    **dict.fromkeys(("phase", "stage", "code", "plugin", "resource", "bound", "state", "source"), "plain"),
    **dict.fromkeys(("action", "reason", "type", "status"), "plain"),
}
"""Field of an answer -> what it names: a node, nodes with a count, pods with their nodes, objects with a count, or
nothing (plain words of ours). Other fields hold keys of objects, and texts."""


@dataclass(frozen=True, slots=True)
class VisibleNames:
    """The objects of the cluster."""

    namespaces: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Visibility:
    """The user's view."""

    namespaces: frozenset[str] | None = field(default_factory=frozenset)
    """Those in which he may read jobs; None: all."""
    nodes: bool = False
    queues: bool = False


EVERYTHING: Final = Visibility(None, True, True)
_STANDINGS: Final[dict[str, list[Any] | None]] = {"standing": None, "standings": [], "queues": []}
"""Fields that add up what all namespaces hold, and what stands there for who may not see it."""


def seen(answer: Any, sight: Visibility, names: VisibleNames) -> Any:
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

    def __init__(self, sight: Visibility, names: VisibleNames) -> None:
        self._sight, self._names = sight, names
        allowed = sight.namespaces
        self._foreign = names.namespaces - allowed if allowed is not None else frozenset()
        self._met: set[str] = set()

    def told(self) -> list[str]:
        """The removed parts, in words."""
        rights = {OTHERS: "names of other namespaces' jobs", A_NODE: "names of nodes: needs the right to list nodes"}
        return [text for what, text in rights.items() if what in self._met]

    def of(self, data: Any, field: str = "") -> Any:
        """The data of a field: what the field names by its type, and names within the texts of the others."""
        match data, FIELDS.get(field, ""):
            case _, "plain":
                return data
            case str(), "node":
                return self._node(data)
            case str(), _:
                return self._text(data)
            case dict(), "nodes":
                return self._counted((self._node(name), value) for name, value in data.items())
            case dict(), "places":
                return {self._text(pod): self._node(node) for pod, node in data.items()}
            case dict(), "of objects":
                return self._counted((self._text(name), value) for name, value in data.items())
            case dict(), _:
                return self._counted((self._text(k) if "/" in k else k, self.of(v, k)) for k, v in data.items())
            case list(), _:
                return [self.of(value, field) for value in data]
            case _:
                return data

    def _counted(self, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        """A mapping in which names that became equal are counted together."""
        out: dict[str, Any] = {}
        for name, value in pairs:
            out[name] = out[name] + value if name in out and isinstance(value, (int, float)) else value
        return out

    def _node(self, name: str) -> str:
        if not name or self._sight.nodes:
            return name
        self._met.add(A_NODE)
        return A_NODE

    def _text(self, text: str) -> str:
        return _NAMES.sub(self._name, text)

    def _name(self, match: re.Match[str]) -> str:
        *above, name = match[0].split("/")
        if not self._foreign.isdisjoint(above):
            self._met.add(OTHERS)
            return OTHERS
        if not above and name in self._names.nodes:
            return self._node(name)
        return match[0]


def for_owner(intent: StatusUpdate | Note, namespaces: frozenset[str]) -> StatusUpdate | Note:
    """What is written on an object, as all who may read the object may see it: names of other namespaces are hidden."""
    own, slash, _ = intent.key.partition("/")
    hidden = _Hidden(Visibility(frozenset((own,)) if slash else None, True, True), VisibleNames(namespaces))
    if isinstance(intent, Note):
        return structs.replace(intent, message=hidden.of(intent.message))
    return structs.replace(intent, status=hidden.of(intent.status), annotations=hidden.of(intent.annotations))
