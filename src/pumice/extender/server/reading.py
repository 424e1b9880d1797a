"""Reads questions in any dialect; an object that comes again byte for byte is not read again."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

import msgspec

from pumice.extender.wire import both, documented, volcano
from pumice.extender.wire.dialects import DIALECTS, Dialect
from pumice.extender.wire.errors import WireError
from pumice.extender.wire.objects import Wire
from pumice.extender.wire.reading import read
from pumice.extender.wire.recognise import recognise
from pumice.extender.wire.verbs import BATCH_PREDICATE, PREDICATE, Verb

_OBJECTS: Final[dict[str, ModuleType]] = {"documented": documented, "volcano": volcano, "both": both}
_MESSAGE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST: Final[msgspec.json.Decoder[list[msgspec.Raw] | None]] = msgspec.json.Decoder(list[msgspec.Raw] | None)
_KEPT: Final = 64 * 2**20
"""Bytes of objects that are kept, in all."""
_LARGEST: Final = 256 * 1024
"""Bytes of one object that is kept."""


class Reader:
    """Turns bodies into requests. Equal parts of requests give the same object, so that nobody need compare them."""

    def __init__(self, dialect: str = "") -> None:
        """*dialect*: the only one understood; empty: all."""
        self._only = DIALECTS[dialect] if dialect else None
        self._known: dict[tuple[str, type, bytes], Wire] = {}
        self._dialects: dict[tuple[tuple[str, ...], bytes], Dialect] = {}
        self._size = 0

    def read(self, verb: Verb[Any, Any], body: bytes) -> tuple[Verb[Any, Any], Dialect, Any]:
        """The question in *body*, its verb, its dialect.

        kube-scheduler's filter may come where a predicate is expected; then the verb is that of many nodes.

        :raises WireError: as ``recognise.read_request``.
        """
        if self._only is not None and self._only.name == "kube":
            verb = _kube_verb(verb)
            return verb, self._only, self._only.decode_request(verb, body)
        message = read(verb.name, "request", body, _MESSAGE)
        dialect = self._only or self._dialect(verb, body, message)
        if dialect.name == "kube":
            verb = _kube_verb(verb)
        module = _OBJECTS.get(dialect.name)
        kinds = module.kinds(verb) if module is not None else None
        if kinds is None or not message.keys() >= kinds.keys():
            return verb, dialect, dialect.decode_request(verb, body)
        parts: dict[str, Any] = {}
        for name, (kind, many) in kinds.items():
            raw = message[name]
            if not many:
                parts[name] = self._object(module, dialect.name, kind, bytes(raw))
                continue
            try:
                items = _LIST.decode(raw) or []
            except msgspec.DecodeError as error:
                raise WireError(verb.name, f"request: {name}: {error}") from error
            parts[name] = [self._object(module, dialect.name, kind, bytes(item)) for item in items]
        return verb, dialect, verb.request(**parts)

    def _dialect(self, verb: Verb[Any, Any], body: bytes, message: dict[str, msgspec.Raw]) -> Dialect:
        """The dialect of a message; found once for each first part."""
        if not message:
            return recognise(verb, body)
        first = bytes(next(iter(message.values())))
        key = (tuple(message), first)
        known = self._dialects.get(key)
        if known is None:
            known = recognise(verb, body)
            if self._keeps(len(first)):
                self._dialects[key] = known
        return known

    def _object(self, module: Any, dialect: str, kind: type, body: bytes) -> Wire:
        key = (dialect, kind, body)
        known = self._known.get(key)
        if known is None:
            found: Wire = module.decode_object(kind, body)
            known = found
            if self._keeps(len(body)):
                self._known[key] = known
        return known

    def _keeps(self, size: int) -> bool:
        """May so many more bytes be kept? Everything is forgotten when there is no room."""
        if size > _LARGEST:
            return False
        self._size += size
        if self._size > _KEPT:
            self._known.clear()
            self._dialects.clear()
            self._size = size
        return True


def _kube_verb(verb: Verb[Any, Any]) -> Verb[Any, Any]:
    return BATCH_PREDICATE if verb is PREDICATE else verb
