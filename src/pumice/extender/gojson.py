"""JSON as Go's ``encoding/json`` writes it.

Structs keep the order of their fields, maps are sorted (``sorted_map``), whole floats have no fraction, ``< > &`` and
the two Unicode line separators are escaped. Objects that come from an API server are written in the order they have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeVar, cast

import msgspec

from pumice.errors import InvalidInput

V = TypeVar("V")

_EXACT: Final = 2**53
"""Below this every whole number is a float64 of its own."""

_ENCODER: Final = msgspec.json.Encoder()
_ESCAPES: Final = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def encode(value: object) -> bytes:
    """*value* (structs, dicts, lists, scalars) as Go's ``json.Marshal`` writes it, given Go's order of keys.

    Floats inside must have gone through ``number``.
    """
    body = _ENCODER.encode(value)
    for plain, escaped in _ESCAPES:  # these occur inside strings only
        if plain in body:
            body = body.replace(plain, escaped)
    return body


def number(value: int | float) -> int | msgspec.Raw:
    """*value* so that ``encode`` writes it as Go writes a float64: shortest form, exponent below 1e-6 and from 1e21.

    :raises InvalidInput: not a number, infinite or too large; Go cannot write these either.
    """
    if isinstance(value, int) and -_EXACT <= value <= _EXACT:
        return value
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
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    size = abs(value)
    mantissa, _, exponent = repr(size).partition("e")
    digits, point = mantissa.replace(".", ""), len(mantissa.partition(".")[0])
    point += int(exponent or 0)
    point -= len(digits) - len(digits.lstrip("0"))
    digits = digits.strip("0") or "0"
    if size != 0 and (size < 1e-6 or size >= 1e21):
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if point < 1 else '+'}{abs(point - 1)}"
    if size == 0:
        return f"{sign}0"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    if point >= len(digits):
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    return f"{sign}{digits[:point]}.{digits[point:]}"
