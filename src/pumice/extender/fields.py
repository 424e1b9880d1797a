"""JSON that somebody else wrote: how large, how deep, where the first value ends, and its fields as Go finds them."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pumice.errors import PumiceError

T = TypeVar("T")


class WireError(PumiceError):
    """A message cannot be read or written; names the verb, the field, the value and the rule."""

    def __init__(self, verb: str, detail: str) -> None:
        super().__init__(f"extender {verb}: {detail}")
        self.verb, self.detail = verb, detail


MAX_BODY: Final = 10 * 1024 * 1024
"""Bytes. No answer may be larger; questions are not limited here (a snapshot of a large cluster is larger)."""

MAX_DEPTH: Final = 100
"""Objects and arrays inside each other. Kubernetes objects stay below 20."""

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_ONE_KIND: Final = bytes.maketrans(b"[]{}", b"()()")
_SPACE: Final = " \t\r\n"
_ANYTHING: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_FIRST: Final = json.JSONDecoder()


def read(verb: str, part: str, body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The first JSON value of *body* as *decoder* gives it; what follows that value is ignored, as Go does.

    *part* (``request`` or ``answer``) stands in the message of an error.
    :raises WireError: not JSON, empty, of another type than the decoder's, or nested deeper than ``MAX_DEPTH``.
    """
    if len(body) <= MAX_BODY:  # of larger ones the decoder says it, a little later
        check_depth(verb, part, body)
    try:
        try:
            return decoder.decode(body)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, UnicodeDecodeError):
            return decoder.decode(_first_value(body))
    except msgspec.ValidationError as error:
        raise WireError(verb, f"{part}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise WireError(verb, f"{part}: must be JSON, got {_begin(body)}: {error}") from error


def read_answer(verb: str, body: bytes) -> Any:
    """The first JSON value of an answer's body, untyped.

    :raises WireError: as ``read``, or larger than ``MAX_BODY``.
    """
    if len(body) > MAX_BODY:
        raise WireError(verb, f"answer: must not be larger than {MAX_BODY} bytes, got {len(body)}")
    return read(verb, "answer", body, _ANYTHING)


def check_depth(verb: str, part: str, body: bytes) -> None:
    """Nothing, if brackets do not nest deeper than ``MAX_DEPTH``.

    :raises WireError: they do.
    """
    if _too_deep(body):
        raise WireError(verb, f"{part}: must not nest deeper than {MAX_DEPTH} levels")


def _first_value(body: bytes) -> bytes:
    """The bytes of the first value; bad UTF-8 is replaced, as Go does."""
    text = body.decode("utf-8", "replace").lstrip(_SPACE)
    _, end = _FIRST.raw_decode(text)
    return text[:end].encode("utf-8")


def _too_deep(body: bytes) -> bool:
    """Whether brackets nest deeper than allowed; costs next to nothing where there are few of them."""
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    nesting = _STRING.sub(b"", body).translate(_ONE_KIND, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        shallower = nesting.replace(b"()", b"")
        if len(shallower) == len(nesting):  # nothing pairs any more: empty, or not JSON
            return nesting.count(b"(") > MAX_DEPTH
        nesting = shallower
    return b"(" in nesting


def _begin(body: bytes) -> str:
    """The start of *body* for an error message."""
    text = body[:60].decode("utf-8", "replace")
    return repr(text) if len(body) <= 60 else f"{text!r}…"


_PLAIN: Final = frozenset({float})
_INT64: Final = range(-(2**63), 2**63)


class Fields:
    """One JSON object whose fields are found without regard to case; of two, the later counts.

    A missing field and ``null`` give the zero value, but for the methods that say otherwise. *place* says in error
    messages where the object stands.

    :raises WireError: by every method, for a value of another type; names verb, place, field, rule and value.
    """

    def __init__(self, verb: str, place: str, value: Any) -> None:
        if value is not None and not isinstance(value, dict):
            raise WireError(verb, f"{place}: must be an object, got {shown(value)}")
        self._verb, self._place = verb, place
        self._values: dict[str, Any] = {name.casefold(): found for name, found in value.items()} if value else {}

    def told(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name.casefold()) is not None

    def text(self, name: str) -> str:
        """A text."""
        value = self._values.get(name.casefold())
        if value is None:
            return ""
        if not isinstance(value, str):
            self._refuse(name, "text", value)
        return value

    def identity(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if not value:
            self._refuse(name, "given", self._values.get(name.casefold()))
        return value

    def integer(self, name: str) -> int:
        """A whole number that fits 64 bits; 1.0 is none, as in Go."""
        return self._integer(name, self._values.get(name.casefold()))

    def boolean(self, name: str) -> bool:
        """True or false."""
        value = self._values.get(name.casefold())
        if value is None:
            return False
        if not isinstance(value, bool):
            self._refuse(name, "true or false", value)
        return value

    def numbers(self, name: str) -> dict[str, float] | UnsetType | None:
        """A table of numbers; ``None``: null, ``UNSET``: missing."""
        table = self.table(name)
        if not isinstance(table, dict):
            return table
        if _PLAIN.issuperset(map(type, table.values())):
            return table  # nearly always: nothing to name
        return {key: self._number(f"{name}[{key!r}]", value) for key, value in table.items()}

    def integers(self, name: str) -> dict[str, int]:
        """A table of whole numbers."""
        return {key: self._integer(f"{name}[{key!r}]", value) for key, value in (self.table(name) or {}).items()}

    def texts(self, name: str) -> dict[str, str]:
        """A table of texts."""
        return {key: self._text(f"{name}[{key!r}]", value) for key, value in (self.table(name) or {}).items()}

    def names(self, name: str) -> list[str] | None:
        """A list of texts; ``None`` if it is missing or null."""
        items = self.items(name)
        if not isinstance(items, list):
            return None
        return [self._text(f"{name}[{index}]", value) for index, value in enumerate(items)]

    def object(self, name: str) -> Fields:
        """The object under *name*."""
        return Fields(self._verb, f"{self._place}.{name}", self._values.get(name.casefold()))

    def objects(self, name: str) -> list[Fields]:
        """The objects of the list under *name*."""
        items = self.items(name) or []
        return [Fields(self._verb, f"{self._place}.{name}[{index}]", value) for index, value in enumerate(items)]

    def objects_by_name(self, name: str) -> dict[str, Fields]:
        """The objects of the table under *name*."""
        table = self.table(name) or {}
        return {key: Fields(self._verb, f"{self._place}.{name}[{key!r}]", value) for key, value in table.items()}

    def table(self, name: str) -> dict[str, Any] | UnsetType | None:
        """The object under *name* as it is; ``None``: null, ``UNSET``: missing."""
        value = self._values.get(name.casefold(), UNSET)
        if value is not None and value is not UNSET and not isinstance(value, dict):
            self._refuse(name, "an object", value)
        return value

    def items(self, name: str) -> list[Any] | UnsetType | None:
        """The list under *name* as it is; ``None``: null, ``UNSET``: missing."""
        value = self._values.get(name.casefold(), UNSET)
        if value is not None and value is not UNSET and not isinstance(value, list):
            self._refuse(name, "a list", value)
        return value

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            self._refuse(name, "text", value)
        return value

    def _number(self, name: str, value: Any) -> float:
        if value is None:
            return 0.0
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._refuse(name, "a number", value)
        try:
            return float(value)
        except OverflowError:
            self._refuse(name, "a number of 64 bits", value)

    def _integer(self, name: str, value: Any) -> int:
        if value is None:
            return 0
        if not isinstance(value, int) or isinstance(value, bool) or value not in _INT64:
            self._refuse(name, "a whole number of 64 bits", value)
        return value

    def _refuse(self, name: str, rule: str, value: Any) -> NoReturn:
        raise WireError(self._verb, f"{self._place}.{name}: must be {rule}, got {shown(value)}")


def shown(value: Any) -> str:
    """*value* for an error message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
