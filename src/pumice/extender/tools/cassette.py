"""Recorded traffic in a file: one JSON object per exchange and line."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.errors import InvalidInput
from pumice.extender.asking.exchanges import canonical


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange. Bodies that are no JSON stand under ``requestText`` and ``responseText``."""

    path: str
    request: Any = None
    request_text: str | None = msgspec.field(default=None, name="requestText")
    status: int = 200
    response: Any = None
    response_text: str | None = msgspec.field(default=None, name="responseText")
    seconds: float = 0.0

    @property
    def question(self) -> tuple[str, bytes]:
        """What makes two questions the same."""
        body = canonical(self.request) if self.request_text is None else self.request_text.encode()
        return self.path, body

    @property
    def request_body(self) -> bytes:
        """The question as it was posted."""
        return _body(self.request, self.request_text)

    @property
    def response_body(self) -> bytes:
        """The answer as it was given."""
        return _body(self.response, self.response_text)


_DECODER: Final = msgspec.json.Decoder(Recorded)


def recorded(path: str, request: bytes, status: int, response: bytes, seconds: float) -> Recorded:
    """One exchange from its bytes."""
    asked, asked_text = _parts(request)
    said, said_text = _parts(response)
    return Recorded(
        path=path,
        request=asked,
        request_text=asked_text,
        status=status,
        response=said,
        response_text=said_text,
        seconds=round(seconds, 6),
    )


def read(path: Path) -> list[Recorded]:
    """The exchanges of a cassette.

    :raises InvalidInput: it cannot be read; names the line.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InvalidInput(f"cassette {str(path)!r}: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise InvalidInput(f"cassette {str(path)!r}, line {number}: {error}") from error
    return found


def write_line(exchange: Recorded) -> bytes:
    """One exchange as a line of a cassette."""
    return msgspec.json.encode(exchange) + b"\n"


class Player:
    """Answers questions from a cassette.

    The same question gets the answers that it got, in order, the last one again and again. *loose*: a question that was
    never asked gets the next answer that its path gave.
    """

    def __init__(self, exchanges: Iterable[Recorded], *, loose: bool = False) -> None:
        self._exact: dict[tuple[str, bytes], deque[Recorded]] = {}
        self._by_path: dict[str, deque[Recorded]] = {}
        self._loose = loose
        for exchange in exchanges:
            self._exact.setdefault(exchange.question, deque()).append(exchange)
            self._by_path.setdefault(exchange.path, deque()).append(exchange)

    def answer(self, path: str, body: bytes) -> Recorded | None:
        """What was answered, or None."""
        question = recorded(path, body, 200, b"{}", 0.0).question
        known = self._exact.get(question)
        if known is None and self._loose:
            known = self._by_path.get(path)
        if not known:
            return None
        return known.popleft() if len(known) > 1 else known[0]


def _parts(body: bytes) -> tuple[Any, str | None]:
    try:
        return msgspec.json.decode(body), None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, body.decode("utf-8", "replace")


def _body(value: Any, text: str | None) -> bytes:
    return text.encode() if text is not None else msgspec.json.encode(value)
