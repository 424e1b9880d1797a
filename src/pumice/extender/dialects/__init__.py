"""How questions and answers look on the wire: four dialects, straight between model objects and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.extender.dialects.both import Both
from pumice.extender.dialects.dialect import MESSAGE, Encoded
from pumice.extender.dialects.dialect import Dialect as Dialect
from pumice.extender.dialects.documented import Documented
from pumice.extender.dialects.kube import Kube
from pumice.extender.dialects.volcano import Volcano
from pumice.extender.fields import WireError, read
from pumice.extender.protocol import Verb

DIALECTS: Final[dict[str, Dialect]] = {dialect.name: dialect for dialect in (Documented(), Volcano(), Kube(), Both())}
"""Every dialect by its name."""

_OBJECT: Final[msgspec.json.Decoder[dict[str, msgspec.Raw] | None]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw] | None
)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NULL: Final = msgspec.Raw(b"null")
_KUBE: Final = frozenset({"pod", "podname"})
_GO: Final = frozenset({"UID", "Name", "Namespace", "Job", "Jobs", "Nodes", "Queues", "NamespaceInfo", "Pod", "Node"})
_DOCUMENTED: Final = frozenset({"uid", "name", "namespace", "snapshot"})
_PARTS: Final = ("task", "evictor", "job", "queue", "node", "tasks", "jobs", "queues", "nodes")


def recognise(verb: Verb[Any], body: bytes) -> Dialect:
    """The dialect of the question in *body*; ``documented`` where nothing tells, as in an empty message.

    Volcano's objects have a ``Name`` or ``UID``, documented ones a ``name`` or ``uid``, an object with both is
    ``both``; kube-scheduler names a ``Pod``. Only names are looked at.

    :raises WireError: *body* is no JSON object, or is nested too deep.
    """
    message = read(verb.name, "request", body, MESSAGE)
    return DIALECTS[dialect_of(verb, message)]


def dialect_of(verb: Verb[Any], message: Mapping[str, Encoded]) -> str:
    """As ``recognise``, the name alone, of a message that was taken apart already."""
    if any(name.casefold() in _KUBE for name in message):
        return "kube"
    part = next((message[name] for name in _PARTS if name in message), None)
    names = set(message if part is None else _names(verb, part))
    if names & _GO:
        return "both" if names & _DOCUMENTED else "volcano"
    return "documented"


def _names(verb: Verb[Any], part: Encoded) -> list[str]:
    """The names in an object, or in the first object of a list; none in an empty list or null."""
    try:
        if bytes(part).startswith(b"["):
            part = next(iter(_LIST.decode(part)), _NULL)
        return list(_OBJECT.decode(part) or ())
    except msgspec.DecodeError as error:
        raise WireError(verb.name, f"request: {error}") from error
