"""A running extender against a cassette: does it still answer as it did?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from pumice.extender.asking.exchanges import canonical
from pumice.extender.asking.loop import LOOP
from pumice.extender.tools.cassette import Recorded, recorded


@dataclass(frozen=True, slots=True)
class Difference:
    """A question that is answered otherwise than it was; *number* is its place in the cassette, from 1."""

    number: int
    path: str
    then: str
    now: str


def differences(exchanges: Sequence[Recorded], url: str) -> list[Difference]:
    """Ask every question of a cassette again, in order; what is answered otherwise."""
    return LOOP.run(_ask_all(exchanges, url.rstrip("/")))


async def _ask_all(exchanges: Sequence[Recorded], url: str) -> list[Difference]:
    found = []
    async with aiohttp.ClientSession() as session:
        for number, exchange in enumerate(exchanges, 1):
            now = await _ask(session, f"{url}/{exchange.path}", exchange)
            then = _shown(exchange)
            if now != then:
                found.append(Difference(number, exchange.path, then, now))
    return found


async def _ask(session: aiohttp.ClientSession, url: str, exchange: Recorded) -> str:
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(url, data=exchange.request_body, headers=headers, allow_redirects=False) as response:
            content = await response.read()
            return _shown(recorded(exchange.path, b"{}", response.status, content, 0.0))
    except aiohttp.ClientError as error:
        return f"no answer: {error}"


def _shown(exchange: Recorded) -> str:
    if exchange.response_text is not None:
        return f"{exchange.status} {exchange.response_text}"
    return f"{exchange.status} {canonical(exchange.response).decode()}"
