"""JSON as Go's ``encoding/json`` has it: how it is written, and how what somebody else wrote is read.

Structs keep the order of their fields, maps are sorted (``sorted_map``), whole floats have no fraction, ``< > &`` and
the two Unicode line separators are escaped. Objects that come from an API server are written in the order they have. On
reading, the first value counts, bad UTF-8 is replaced, and names match without regard to case.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, UnsetType

from pumice.errors import InvalidInput, PumiceError, decoder_words, shown

T = TypeVar("T")
V = TypeVar("V")


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
    :raises WireError: not JSON, empty, of another type than the decoder's, an object that breaks a rule, or nested
        deeper than ``MAX_DEPTH``.
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
    except (msgspec.ValidationError, InvalidInput) as error:
        raise WireError(verb, f"{part}: {decoder_words(error)}") from error
    except (ValueError, RecursionError) as error:
        raise WireError(
            verb, f"{part}: must be JSON, got {shown(body[:100].decode('utf-8', 'replace'))}: {error}"
        ) from error


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


_INT64: Final = range(-(2**63), 2**63)
_NUMBERS: Final = frozenset({int, float})
_RULES: Final[dict[Any, str]] = {
    str: "text",
    int: "a whole number of 64 bits",  # 1.0 is none, as in Go
    bool: "true or false",
    float: "a number",
    dict: "an object",
    list: "a list",
}


class Fields:
    """One JSON object whose fields are found without regard to case; of two, the later counts.

    A field is read as a type: ``str``, ``int``, ``float``, ``bool``, an object (``Fields``), or a list or table of
    these. *place* says in error messages where the object stands.

    :raises WireError: by every method, for a value of another type; names verb, place, field, rule and value.
    """

    def __init__(self, verb: str, place: str, value: Any) -> None:
        if value is not None and not isinstance(value, dict):
            raise WireError(verb, f"{place}: must be an object, got {shown(value)}")
        self._verb, self._place = verb, place
        self._values: dict[str, Any] = {name.casefold(): found for name, found in value.items()} if value else {}

    def get(self, name: str, kind: type[T]) -> T:
        """The field; missing or ``null``, the zero value."""
        found: T = self._typed(kind, self._values.get(name.casefold()), f"{self._place}.{name}")
        return found

    def told(self, name: str, kind: type[T]) -> T | UnsetType | None:
        """The field; ``None``: null, ``UNSET``: missing."""
        value = self._values.get(name.casefold(), UNSET)
        return self.get(name, kind) if value is not None and value is not UNSET else value

    def identity(self, name: str) -> str:
        """A text that must be there."""
        return self.get(name, str) or self._refuse(f"{self._place}.{name}", "given", self._values.get(name.casefold()))

    def _typed(self, kind: Any, value: Any, place: str) -> Any:
        if kind is Fields:
            return Fields(self._verb, place, value)
        outer = get_origin(kind)
        if outer is Annotated:
            return self._typed(get_args(kind)[0], value, place)
        if value is None:
            return (outer or kind)()
        if kind is float and type(value) is int:
            return (
                float(value) if abs(value) <= sys.float_info.max else self._refuse(place, "a number of 64 bits", value)
            )
        if type(value) is not (outer or kind) or (kind is int and value not in _INT64):
            self._refuse(place, _RULES[outer or kind], value)
        if outer is None:
            return value
        inner = get_args(kind)[-1]
        if outer is list:
            return [self._typed(inner, one, f"{place}[{at}]") for at, one in enumerate(value)]
        if inner is float and _NUMBERS.issuperset(map(type, value.values())):
            with suppress(OverflowError):  # which one it is is found below
                return dict(zip(value, map(float, value.values()), strict=True))
        return {key: self._typed(inner, one, f"{place}[{key!r}]") for key, one in value.items()}

    def _refuse(self, place: str, rule: str, value: Any) -> NoReturn:
        raise WireError(self._verb, f"{place}: must be {rule}, got {shown(value)}")


# -- writing ---------------------------------------------------------------------------------------------------------
_EXACT: Final = 2**53
"""Below this every whole number is a float64 of its own."""

_ENCODER: Final = msgspec.json.Encoder()
_ESCAPES: Final = [(sign.encode(), f"\\u{ord(sign):04x}".encode()) for sign in "<>&\u2028\u2029"]
_ASCII_ESCAPES: Final = _ESCAPES[:3]


def encode(value: object) -> bytes:
    """*value* (structs, dicts, lists, scalars) as Go's ``json.Marshal`` writes it, given Go's order of keys.

    Floats inside must have gone through ``number``.
    """
    body = _ENCODER.encode(value)
    for plain, escaped in _ASCII_ESCAPES if body.isascii() else _ESCAPES:  # these occur inside strings only
        if plain in body:
            body = body.replace(plain, escaped)
    return body


def number(value: int | float) -> int | msgspec.Raw:
    """*value* so that ``encode`` writes it as Go writes a float64: shortest form, exponent below 1e-6 and from 1e21.

    :raises InvalidInput: not a number, infinite or too large; Go cannot write these either.
    """
    if -_EXACT <= value <= _EXACT and (whole := int(value)) == value and (whole or math.copysign(1, value) > 0):
        return whole
    try:
        value = float(value)
    except OverflowError:
        raise InvalidInput("number: must fit a float64, got one above 1.8e308") from None
    if not math.isfinite(value):
        raise InvalidInput(f"number {value}: JSON has no such number")
    return msgspec.Raw(_shortest(value).encode())


def numbers(table: Mapping[str, int | float]) -> dict[str, int | float]:
    """A table of numbers that ``encode`` writes as Go writes one: sorted, each as ``number`` gives it."""
    return cast("dict[str, int | float]", {name: number(table[name]) for name in sorted(table)})


def sorted_map(mapping: dict[str, V]) -> dict[str, V]:
    """*mapping* in Go's order of keys: bytewise."""
    return dict(sorted(mapping.items())) if len(mapping) > 1 else mapping


def _shortest(value: float) -> str:
    shortest = Decimal(repr(value))
    if value and not 1e-6 <= abs(value) < 1e21:
        mantissa, _, exponent = f"{shortest.normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent):+d}"
    return f"{shortest:f}".removesuffix(".0")
