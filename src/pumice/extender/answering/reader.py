"""Reads questions in any dialect; an object that comes again byte for byte is not read again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from pumice.extender.dialects import DIALECTS, Dialect, dialect_of
from pumice.extender.dialects.dialect import MESSAGE, Encoded
from pumice.extender.gojson import WireError, check_depth, read
from pumice.extender.protocol import BATCH_PREDICATE, ON_SESSION_CLOSE, ON_SESSION_OPEN, PREDICATE, PartKind, Verb

_KEPT: Final = 64 * 2**20
"""Bytes of objects that are kept, in all."""
_LARGEST: Final = 256 * 1024
"""Bytes of one object that is kept."""
_EMPTY: Final = frozenset((b"", b"null"))


class Question(NamedTuple):
    """A question that was read: its verb, its dialect, what it tells by the name of each part, and as it came."""

    verb: Verb[Any]
    dialect: Dialect
    parts: dict[str, Any]
    message: Mapping[str, Encoded]

    def echo(self) -> list[msgspec.Raw] | None:
        """The last part as it came, where the caller wants it back."""
        return self.dialect.echo(self.verb, self.message)


class QuestionReader:
    """Turns bodies into questions. Equal parts of questions give the same object, so that nobody need compare them."""

    def __init__(self, dialect: str = "") -> None:
        """*dialect*: the only one understood; empty: all."""
        self._only = DIALECTS[dialect] if dialect else None
        self._known: dict[tuple[str, PartKind, bytes], Any] = {}
        self._last: tuple[bytes, list[str], str] = (b"", [], "")
        """First part, names and dialect of the last question: a task is asked about with many nodes in a row."""
        self._size = 0

    def read(self, verb: Verb[Any], body: bytes) -> Question:
        """The question in *body*.

        kube-scheduler's filter may come where a predicate is expected; then the verb is that of many nodes.

        :raises WireError: not JSON, nested too deep, a part missing or of the wrong type, or a verb not carried.
        """
        if verb is ON_SESSION_CLOSE and body.strip() in _EMPTY:
            body = b"{}"
        message: dict[str, Encoded]
        try:
            message = MESSAGE.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = read(verb.name, "request", body, MESSAGE)  # says what is wrong, or finds the first value
        found = self._dialect(verb, message)
        dialect = self._only or DIALECTS[found or "documented"]
        if found and found not in dialect.understands:
            raise WireError(verb.name, f"request: in the {found} dialect, and only {dialect.name} is understood here")
        if dialect.name == "kube" and verb is PREDICATE:
            verb = BATCH_PREDICATE
        if verb is ON_SESSION_OPEN:
            return Question(verb, dialect, {"snapshot": dialect.read_snapshot(body)}, {})
        return Question(verb, dialect, dialect.read(verb, message, self.known), message)

    def known(self, dialect: Dialect, kind: PartKind, raw: Encoded) -> Any:
        """What a part tells; the same object for the same bytes.

        :raises WireError: nested too deep.
        :raises msgspec.DecodeError: not JSON, or a field of the wrong type.
        :raises InvalidInput: a value that breaks a rule.
        """
        body = bytes(raw)
        key = (dialect.name, kind, body)
        known = self._known.get(key)
        if known is None:
            check_depth(kind.value, "request", body)
            known = dialect.read_object(kind, body)
            if self._keeps(len(body)):
                self._known[key] = known
        return known

    def _dialect(self, verb: Verb[Any], message: dict[str, Encoded]) -> str:
        """The name of a message's dialect; found once for questions about the same first part in a row."""
        if not message:
            return ""
        names = list(message)
        first = bytes(message[names[0]])
        if len(first) > _LARGEST:
            return dialect_of(verb, message)
        if first == self._last[0]:
            first = self._last[0]  # whose hash is known
        message[names[0]] = first
        if names != self._last[1] or first is not self._last[0]:
            self._last = (first, names, dialect_of(verb, message))
        return self._last[2]

    def _keeps(self, size: int) -> bool:
        """May so many more bytes be kept? Everything is forgotten when there is no room."""
        if size > _LARGEST:
            return False
        self._size += size
        if self._size > _KEPT:
            self._known.clear()
            self._size = size
        return True
