"""Reading JSON that somebody else wrote: how large, how deep, and where the first value ends."""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeVar

import msgspec

from pumice.extender.wire.errors import WireError

T = TypeVar("T")

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
    if _too_deep(body):
        raise WireError(verb, f"{part}: must not nest deeper than {MAX_DEPTH} levels")
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
        raise WireError(verb, f"{part}: must be JSON, got {_shown(body)}: {error}") from error


def read_answer(verb: str, body: bytes) -> Any:
    """The first JSON value of an answer's body, untyped.

    :raises WireError: as ``read``, or larger than ``MAX_BODY``.
    """
    if len(body) > MAX_BODY:
        raise WireError(verb, f"answer: must not be larger than {MAX_BODY} bytes, got {len(body)}")
    return read(verb, "answer", body, _ANYTHING)


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


def _shown(body: bytes) -> str:
    """The start of *body* for an error message."""
    text = body[:60].decode("utf-8", "replace")
    return repr(text) if len(body) <= 60 else f"{text!r}…"
