"""The scheduler's door: answers over HTTP for whoever shows a token, each as much as he may see.

What can be asked is the table of `door_document.py`. Every failure is JSON with one field, ``error``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pumice.answers.desk import MOST_ROWS, Desk
from pumice.answers.finding import NoSuchThing
from pumice.answers.sight import EVERYTHING, Sight, VisibleNames, seen
from pumice.answers.what_if.instant import WhatIfQuestion
from pumice.answers.what_if.supposition import read_what_if
from pumice.answers.when.asked import TryQuestion, WhenQuestion
from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.door_document import QUESTIONS, VERSION, QueuesAnswer, door_document
from pumice.kube.reviews import KnownUser, Reviews, Unauthorized
from pumice.kube.rights import EVERYTHING_RIGHTS, QUEUES, job_right, readable, sight_of, trial_rights
from pumice.kube.serving import serve
from pumice.model import api, native

T = TypeVar("T")
WAIT: Final = 15.0
"""Seconds for which an answer is waited for."""
AT_ONCE: Final = 4
"""Questions of one user that are open at the same time, at most."""
MOST_BYTES: Final = 8 << 20
"""The largest job that is taken in."""


class AskOwner(Protocol):
    """Puts a question to whoever owns the state; a `PumiceError` says why there is no answer."""

    def __call__(self, question: Callable[[Desk], T], /) -> Future[T]: ...


class DoorRefusal(Exception):
    """There is no answer: the status, and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Door:
    """The routes, and who may ask what at each."""

    def __init__(self, ask: AskOwner, reviews: Reviews) -> None:
        self._ask, self._reviews = ask, reviews
        self._open: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Everything that can be asked."""
        answers = {
            "why": self._why,
            "when": self._when,
            "waiting": self._waiting,
            "queues": self._queues,
            "fairness": self._fairness,
            "try": self._try,
            "what-if": self._what_if,
        }
        return [
            Route(f"/{VERSION}", self._about),
            Route(f"/{VERSION}/openapi.json", self._document),
            *(
                Route(f"/{VERSION}/{q.name}", partial(self._guarded, answers[q.name]), methods=[q.method])
                for q in QUESTIONS
            ),
        ]

    async def _about(self, _: Request) -> Response:
        return _json({"api": VERSION, "program": f"pumice {version('pumice')}"})

    async def _document(self, _: Request) -> Response:
        return _json(door_document())

    async def _guarded(self, answer: Callable[[Request, KnownUser], Awaitable[Any]], request: Request) -> Response:
        """An answer for whoever shows a good token; whatever goes wrong is told in one field."""
        try:
            user = await self._reviews.caller(request.headers.get("authorization", ""))
            if self._open[user.username] >= AT_ONCE:
                raise DoorRefusal(429, f"{user.username} has {AT_ONCE} questions open; wait for an answer")
            self._open[user.username] += 1
            try:
                async with asyncio.timeout(WAIT):
                    return _json(await answer(request, user))
            finally:
                self._open[user.username] -= 1
                if not self._open[user.username]:
                    del self._open[user.username]
        except (DoorRefusal, Unauthorized) as no:
            return _json({"error": str(no)}, no.status)
        except NoSuchThing as exc:
            return _json({"error": str(exc)}, 404)
        except InvalidInput as exc:
            return _json({"error": str(exc)}, 422)
        except TimeoutError:
            return _json({"error": f"no answer within {WAIT:g} s"}, 503)
        except PumiceError as exc:
            return _json({"error": str(exc)}, 503)

    async def _told(self, question: Callable[[Desk], T], sight: Sight, then: Callable[[T], Any] | None = None) -> Any:
        """The answer, as much of it as may be seen; what follows *then* does not need who owns the state."""

        def both(desk: Desk) -> tuple[T, VisibleNames]:
            return question(desk), desk.names()

        answer, names = await asyncio.wrap_future(self._ask(both))
        return seen(await asyncio.to_thread(then, answer) if then is not None else answer, sight, names)

    # -- questions --------------------------------------------------------------------------------------------------
    async def _why(self, request: Request, user: KnownUser) -> Any:
        if _without_when(request):
            return await self._of_job(request, user, Desk.why)
        return await self._of_job(request, user, Desk.when, WhenQuestion.why_and_when)

    async def _when(self, request: Request, user: KnownUser) -> Any:
        return await self._of_job(request, user, Desk.when, WhenQuestion.answer)

    async def _of_job(
        self,
        request: Request,
        user: KnownUser,
        question: Callable[[Desk, str, str], T],
        then: Callable[[T], Any] | None = None,
    ) -> Any:
        """An answer about one job, for who may read it."""
        namespace, job = request.query_params.get("namespace", ""), request.query_params.get("job", "")
        if not namespace or not job:
            raise DoorRefusal(422, "needs the parameters namespace and job")
        await self._reviews.require(user, job_right(namespace))
        sight = await sight_of(self._reviews, user, [namespace])
        return await self._told(lambda desk: question(desk, job, namespace), sight, then)

    async def _waiting(self, request: Request, user: KnownUser) -> Any:
        namespace, queue = request.query_params.get("namespace", ""), request.query_params.get("queue", "")
        if namespace:
            await self._reviews.require(user, job_right(namespace))
        sight = await sight_of(self._reviews, user, [namespace] if namespace else [])
        wanted: Collection[str] | None = [namespace] if namespace else None
        if wanted is None and sight.namespaces is not None:
            names = await asyncio.wrap_future(self._ask(lambda desk: desk.names()))
            wanted = await readable(self._reviews, user, names.namespaces)
            sight = replace(sight, namespaces=wanted)
        most = _number(request, "limit", 100, MOST_ROWS)
        return await self._told(lambda desk: desk.waiting(queue, wanted, most=most), sight)

    async def _queues(self, request: Request, user: KnownUser) -> Any:
        await self._reviews.require(user, QUEUES)
        names = request.query_params.getlist("queue") or None
        sight = await sight_of(self._reviews, user, [])
        return await self._told(lambda desk: QueuesAnswer(queues=desk.standings(names)), sight)

    async def _fairness(self, _: Request, user: KnownUser) -> Any:
        await self._reviews.require(user, QUEUES)
        return await self._told(Desk.fairness, await sight_of(self._reviews, user, []))

    async def _try(self, request: Request, user: KnownUser) -> Any:
        without, objects = _without_when(request), await _objects(request)
        namespaces = sorted({obj.metadata.namespace or "default" for obj in objects})
        for namespace in namespaces:
            for right in trial_rights(namespace):
                await self._reviews.require(user, right)
        sight = await sight_of(self._reviews, user, namespaces)
        if without:
            return await self._told(lambda desk: desk.attempt(objects), sight)
        return await self._told(lambda desk: desk.attempt_and_wait(objects), sight, TryQuestion.answer)

    async def _what_if(self, request: Request, user: KnownUser) -> Any:
        asked = read_what_if(await _body(request))
        for right in EVERYTHING_RIGHTS:
            await self._reviews.require(user, right)
        return await self._told(lambda desk: desk.what_if(asked), EVERYTHING, WhatIfQuestion.answer)


def _without_when(request: Request) -> bool:
    """Is it not to be said when a job starts?"""
    when = request.query_params.get("when", "")
    if when not in ("", "no"):
        raise DoorRefusal(422, f"when {when[:40]!r}: must be 'no', or not given")
    return bool(when)


def _number(request: Request, name: str, default: int, most: int) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise DoorRefusal(422, f"{name} {text[:40]!r}: must be a whole number from 1 to {most}")
    return int(text)


async def _body(request: Request) -> Any:
    """The data that a request carries."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise DoorRefusal(413, f"larger than {MOST_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise DoorRefusal(422, f"not JSON: {decoder_words(exc)}") from exc


async def _objects(request: Request) -> list[api.AnyObject]:
    """The PodGroups and pods that a request carries."""
    body = await _body(request)
    listed = body.get("objects") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not listed:
        raise DoorRefusal(422, "needs a field objects: a list of PodGroups and pods")
    found = []
    for number, data in enumerate(listed):
        kind = data.get("kind") if isinstance(data, dict) else None
        if kind not in ("PodGroup", native.POD_GROUP, "Pod"):
            raise DoorRefusal(
                422, f"objects[{number}]: must be a PodGroup or a Pod; `pumice what-if -f` makes them of a Job"
            )
        try:
            found.append(api.decode(kind, data))
        except (InvalidInput, msgspec.MsgspecError) as exc:
            raise DoorRefusal(422, f"objects[{number}]: {decoder_words(exc)}") from exc
    return found


def _json(data: Any, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in (429, 503):
        headers["Retry-After"] = "1"
    return Response(msgspec.json.encode(data), status, headers, media_type="application/json")


async def serve_door(
    opened: socket.socket,
    ask: AskOwner,
    credentials: Credentials,
    tls: ssl.SSLContext | None = None,
    beside: Callable[[Reviews], Sequence[BaseRoute]] | None = None,
) -> None:
    """Answer on a socket until cancelled; tokens and rights are asked of the API server of *credentials*.

    What is served *beside* the answers is made with the same reviews.
    """
    async with KubeClient(credentials, connections=16) as client:
        reviews = Reviews(client)
        more = beside(reviews) if beside is not None else ()
        await serve(opened, [*Door(ask, reviews).routes(), *more], tls)
