"""Finds out in which dialect a question came.

Volcano's names begin with a capital letter, documented ones do not, an object with both kinds is ``both``;
kube-scheduler names a ``Pod``. Only names are looked at.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from pumice.extender.wire.dialects import DIALECTS, Dialect
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.reading import read
from pumice.extender.wire.verbs import Verb

Req = TypeVar("Req", bound=Wire)
Resp = TypeVar("Resp", bound=Wire)

_MESSAGE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECT: Final[msgspec.json.Decoder[dict[str, msgspec.Raw] | None]] = msgspec.json.Decoder(
    dict[str, msgspec.Raw] | None
)
_NULL: Final = msgspec.Raw(b"null")
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_KUBE: Final = frozenset({"pod", "podname"})
_PARTS: Final = ("task", "evictor", "job", "queue", "node", "tasks", "jobs", "queues", "nodes")


def recognise(verb: Verb[Any, Any], body: bytes) -> Dialect:
    """The dialect of the question in *body*; ``documented`` where nothing tells, as in an empty message.

    :raises WireError: *body* is no JSON object, or is nested too deep.
    """
    message = read(verb.name, "request", body, _MESSAGE)
    if any(name.casefold() in _KUBE for name in message):
        return DIALECTS["kube"]
    part = next((message[name] for name in _PARTS if name in message), None)
    names = list(message) if part is None else _names(verb, part)
    capital = any(name[:1].isupper() for name in names)
    small = any(not name[:1].isupper() for name in names)
    if capital:
        return DIALECTS["both"] if small else DIALECTS["volcano"]
    return DIALECTS["documented"]


def read_request(verb: Verb[Req, Resp], body: bytes) -> tuple[Dialect, Req]:
    """The question in *body* and its dialect, in which it wants to be answered.

    :raises WireError: as ``recognise`` and ``Dialect.decode_request``.
    """
    dialect = recognise(verb, body)
    return dialect, dialect.decode_request(verb, body)


def _names(verb: Verb[Any, Any], part: msgspec.Raw) -> list[str]:
    """The names in an object, or in the first object of a list; none in an empty list or null."""
    try:
        if bytes(part).startswith(b"["):
            part = next(iter(_LIST.decode(part)), _NULL)
        return list(_OBJECT.decode(part) or ())
    except msgspec.DecodeError as error:
        raise WireError(verb.name, f"request: {error}") from error
