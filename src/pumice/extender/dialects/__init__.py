"""How questions and answers look on the wire: four dialects, straight between model objects and JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pumice.extender.dialects.both import Both
from pumice.extender.dialects.dialect import MESSAGE
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
_PARTS: Final = ("task", "evictor", "job", "queue", "node", "tasks", "jobs", "queues", "nodes")


def recognise(verb: Verb[Any], body: bytes) -> Dialect:
    """The dialect of the question in *body*; ``documented`` where nothing tells, as in an empty message.

    Volcano's names begin with a capital letter, documented ones do not, an object with both kinds is ``both``;
    kube-scheduler names a ``Pod``. Only names are looked at.

    :raises WireError: *body* is no JSON object, or is nested too deep.
    """
    return DIALECTS[dialect_of(verb, read(verb.name, "request", body, MESSAGE))]


def dialect_of(verb: Verb[Any], message: dict[str, msgspec.Raw]) -> str:
    """As ``recognise``, the name alone, of a message that was taken apart already."""
    if any(name.casefold() in _KUBE for name in message):
        return "kube"
    part = next((message[name] for name in _PARTS if name in message), None)
    names = list(message) if part is None else _names(verb, part)
    if any(name[:1].isupper() for name in names):
        return "both" if any(not name[:1].isupper() for name in names) else "volcano"
    return "documented"


def _names(verb: Verb[Any], part: msgspec.Raw) -> list[str]:
    """The names in an object, or in the first object of a list; none in an empty list or null."""
    try:
        if bytes(part).startswith(b"["):
            part = next(iter(_LIST.decode(part)), _NULL)
        return list(_OBJECT.decode(part) or ())
    except msgspec.DecodeError as error:
        raise WireError(verb.name, f"request: {error}") from error
