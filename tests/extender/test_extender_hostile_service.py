"""Whatever a service answers, the client takes bounded time and memory, and the decision is what the policy says."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import random
import threading
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from extender_world import Opened, arguments, small

from pumice.extender.answers import Answer
from pumice.extender.asking.calls import CallFailed
from pumice.extender.asking.client import Client
from pumice.extender.asking.settings import Transport
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import VERBS, Verb
from pumice.model.reason import Unfit

Write = asyncio.StreamWriter
Way = Callable[[Write, random.Random], Coroutine[Any, Any, None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
KINDS = {"refused", "timeout", "reset", "status", "answer", "large", "tls"}
ODD: list[Any] = [None, True, -1, 1.5, 1e308, 10**400, "x", [], {}, [None], {"": None}, [[]], {"n1": {}}, "\ud800"]
FIELDS = [
    *("code", "errorMessage", "status", "nodeScore", "victims", "overused", "errors", "nodeNames", "ranks", "nodes"),
    *("gpuScore", "nodeName", "NodeNameToMetaVictims", "failedNodes", "error", "reason", "Code", "VICTIMS", "uid"),
]


def _answer(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _sends(content: bytes) -> Way:
    async def way(writer: Write, _: random.Random) -> None:
        writer.write(content)

    return way


def _repeats(first: bytes, again: bytes, pause: float = 0.0) -> Way:
    async def way(writer: Write, _: random.Random) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(pause)

    return way


async def _cut(writer: Write, rng: random.Random) -> None:
    """A good answer up to some byte, then the end of the connection, in one way or the other."""
    whole = _answer(b'{"code": 0, "nodeScore": {"n1": 5}, "victims": [], "status": 1}')
    writer.write(whole[: rng.randrange(len(whole))])
    await writer.drain()
    if rng.random() < 0.5 and writer.transport is not None:
        writer.transport.abort()


async def _typed(writer: Write, rng: random.Random) -> None:
    """An answer whose fields have any type."""
    body = {name: rng.choice(ODD) for name in rng.sample(FIELDS, rng.randint(0, 5))}
    writer.write(_answer(json.dumps(rng.choice([body, [body], rng.choice(ODD)])).encode()))


async def _mixed(writer: Write, rng: random.Random) -> None:
    """Any status, any headers, any body, any end."""
    status = rng.choice([b"200 OK", b"204 No", b"301 Go", b"304 Same", b"418 Tea", b"500 Oh", b"099 X", b"200", b"abc"])
    headers = rng.sample(
        [
            b"Content-Length: -1",
            b"Content-Length: 5",
            b"Content-Length: 99999999999999999999",
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: gzip, chunked",
            b"Content-Encoding: gzip",
            b"Content-Encoding: br",
            b"Location: http://127.0.0.1:1/",
            b"Connection: upgrade",
            b"Upgrade: websocket",
            b"Set-Cookie: a=b",
            b"Content-Type: text/html; charset=nonsense",
            b"X-\x00: y",
            b": nothing",
            b"X: " + b"y" * 70_000,
        ],
        rng.randint(0, 4),
    )
    body = rng.choice(
        [b"{}", b"null", b"\xff\xfe", b"5\r\nhello\r\n0\r\n\r\n", b"ZZ\r\n", b"[" * 5000, rng.randbytes(99)]
    )
    writer.write(b"HTTP/1.1 %b\r\n%b\r\n\r\n%b" % (status, b"\r\n".join(headers), body))


WAYS: dict[str, Way] = {
    "nothing": _repeats(b"", b"", 0.05),
    "closes at once": _sends(b""),
    "100 continue without end": _repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 500),
    "head without end": _repeats(OK, b"X-Another: 1\r\n" * 500),
    "head by drops": _repeats(OK, b"X", 0.01),
    "body by drops": _repeats(OK + b"Content-Length: 1000000\r\n\r\n", b" ", 0.01),
    "body without end": _repeats(OK + b"\r\n", b" " * 65536),
    "chunks without end": _repeats(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "empty chunks by drops": _repeats(OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\n", b" ", 0.01),
    "a bomb": _sends(_answer(gzip.compress(b" " * 2**28, 1), OK + b"Content-Encoding: gzip\r\n")),
    "deep": _sends(_answer(b'{"code":' * 100_000)),
    "deep and closed": _sends(_answer(b"[" * 50_000 + b"]" * 50_000)),
    "a redirect": _sends(_answer(b"", b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n")),
    "an error without end": _repeats(b"HTTP/1.1 500 Oh\r\n\r\n", b"x" * 65536),
    "no HTTP": _sends(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "two lengths": _sends(OK + b"Content-Length: 2\r\nContent-Length: 40\r\n\r\n{}"),
    "another answer behind it": _sends(_answer(b'{"code": 2, "errorMessage": "mine"}') + _answer(b'{"code": 0}')),
    "cut": _cut,
    "types": _typed,
    "mixed": _mixed,
}


@contextmanager
def hostile(way: Callable[[int], Way] = lambda _: _mixed) -> Iterator[str]:
    """A service that answers each question in its *way*, by the number of the question; its URL."""
    loop = asyncio.new_event_loop()
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: Write) -> None:
        nonlocal asked
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
                )
                await reader.readexactly(length)
                number, asked = asked, asked + 1
                await way(number)(writer, random.Random(number))
                await writer.drain()
                if number % 3:
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):  # gone, or the test is over
            pass
        finally:
            writer.close()

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:

        async def end() -> None:
            server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            loop.stop()

        asyncio.run_coroutine_threadsafe(end(), loop)
        thread.join(30)
        loop.close()


def asked(url: str, verb: Verb[Any], questions: int, seconds: float) -> list[Answer | CallFailed]:
    """What the client makes of so many questions."""
    transport = Transport(url, timeout=seconds, breaker_failures=0, concurrency=16)
    client = Client(transport, {verb.name: verb.name}, DIALECTS["documented"])
    try:
        return client.call_many(verb, [b'{"task":{},"node":{}}'] * questions)
    finally:
        client.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.part(3)
def test_a_call_ends_in_an_answer_or_in_a_failure_that_has_a_name(way: str, caplog: pytest.LogCaptureFixture) -> None:
    verb = VERBS["predicate"]
    with caplog.at_level(logging.DEBUG), hostile(lambda _: WAYS[way]) as url:
        found = asked(url, verb, 3, 0.15)
    assert len(found) == 3
    for one in found:
        if isinstance(one, CallFailed):
            assert one.kind in KINDS
            assert "Traceback" not in str(one)
            assert len(str(one)) < 2000
        else:
            assert isinstance(one, verb.answer)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("way", ["a bomb", "body without end", "chunks without end", "an error without end"])
def test_an_answer_without_end_takes_no_more_memory_than_the_largest_one(way: str) -> None:
    with hostile(lambda _: WAYS[way]) as url:
        tracemalloc.start()
        try:
            asked(url, VERBS["predicate"], 3, 0.5)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 100 * 2**20


@pytest.mark.parametrize("verb", [name for name in VERBS if VERBS[name].parts])
@pytest.mark.part(3)
def test_any_answer_to_any_verb_is_read_or_refused(verb: str) -> None:
    ways = (_typed, _mixed, _cut, _typed)
    with hostile(lambda number: ways[number % 4]) as url:
        found = asked(url, VERBS[verb], 40, 0.15)
    assert len(found) == 40
    assert all(
        one.kind in KINDS if isinstance(one, CallFailed) else isinstance(one, VERBS[verb].answer) for one in found
    )


@pytest.mark.slow
@pytest.mark.parametrize("verb", [name for name in VERBS if VERBS[name].parts])
def test_any_of_many_answers_to_any_verb_is_read_or_refused(verb: str) -> None:
    ways = (_typed, _mixed, _cut, _typed)
    with hostile(lambda number: ways[number % 4]) as url:
        found = asked(url, VERBS[verb], 400, 0.5)
    assert all(
        one.kind in KINDS if isinstance(one, CallFailed) else isinstance(one, VERBS[verb].answer) for one in found
    )


def test_an_answer_that_nobody_asked_for_answers_no_later_question() -> None:
    with hostile(lambda _: WAYS["another answer behind it"]) as url:
        transport = Transport(url, timeout=5.0, breaker_failures=0, concurrency=1)
        client = Client(transport, {"predicate": "predicate"}, DIALECTS["documented"])
        try:
            found = [client.call_many(VERBS["predicate"], [b"{}"])[0] for _ in range(6)]
        finally:
            client.close()
    assert not [one for one in found if not isinstance(one, CallFailed) and one.text != "mine"]


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize("way", ["100 continue without end", "a bomb", "deep", "a redirect", "no HTTP", "types"])
def test_what_cannot_be_understood_is_a_no_unless_it_is_ignored(way: str, ignorable: bool) -> None:
    answers = _sends(_answer(b'{"code": [], "status": {}}')) if way == "types" else WAYS[way]
    with hostile(lambda _: answers) as url:
        given = arguments(url, "predicate", httpTimeout="150ms", ignorable=ignorable, breakerFailures=0)
        with Opened(small(), given) as session, nullcontext() if ignorable else pytest.raises(Unfit):
            session.predicate(session.state.tasks["uid-train-worker-0"], session.nodes["n1"])
