"""JSON from an API server into types, however deep somebody nested what nobody here reads."""

from __future__ import annotations

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
DEEPEST: Final = 100
"""Levels of nesting that are read where an object has more than the decoder can take; a server takes thousands."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class ObjectDecoder(Generic[T]):
    """Decodes a type. What is nested too deep for a decoder is taken for null, and the rest is read."""

    __slots__ = ("_decode",)

    def __init__(self, kind: Any) -> None:
        self._decode: Any = msgspec.json.Decoder(kind).decode

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """What the data say.

        :raises msgspec.MsgspecError: they are no JSON, or not of the type.
        """
        try:
            found: T = self._decode(data)
        except RecursionError:
            found = self._decode(shallow(bytes(data)))
        return found


def shallow(data: bytes) -> bytes:
    """JSON without what is nested deeper than `DEEPEST` levels: null stands there."""
    kept, level, out = 0, 0, []
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in b"[{":
            level += 1
            if level == DEEPEST + 1:
                out.append(data[kept : token.start()])
        elif mark in b"]}":
            if level == DEEPEST + 1:
                out.append(b"null")
                kept = token.end()
            level -= 1
    return b"".join((*out, data[kept:]))
