"""Answers over HTTP, for callers with a token of the cluster: each as much as the caller may see.

The questions are the table of `answers/questions.py`. Every failure is JSON with one field, ``error``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pumice.answers.jobs import NoSuchThing
from pumice.answers.questions import API_VERSION, QUESTIONS, Asked, AskOwner, Question, answered, openapi_document
from pumice.answers.service import MOST_ROWS
from pumice.answers.visibility import EVERYTHING, Visibility
from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.kube.access import (
    EVERYTHING_RIGHTS,
    QUEUES,
    KnownUser,
    Reviews,
    Right,
    Unauthorized,
    job_right,
    readable,
    sight_of,
    trial_rights,
)
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.serving import serve

WAIT: Final = 15.0
"""Seconds for which an answer is waited for."""
AT_ONCE: Final = 4
"""Questions of one user that are open at the same time, at most."""
MOST_BYTES: Final = 8 << 20
"""The largest job that is taken in."""


class AnswerRefused(Exception):
    """There is no answer: the status, and why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class AnswersApi:
    """The routes, and which rights each needs."""

    def __init__(self, ask: AskOwner, reviews: Reviews) -> None:
        self._ask, self._reviews = ask, reviews
        self._open: Counter[str] = Counter()

    def routes(self) -> list[Route]:
        """Everything that can be asked."""
        return [
            Route(f"/{API_VERSION}", self._about),
            Route(f"/{API_VERSION}/openapi.json", self._document),
            *(Route(f"/{API_VERSION}/{q.name}", partial(self._guarded, q), methods=[q.method]) for q in QUESTIONS),
        ]

    async def _about(self, _: Request) -> Response:
        return _json({"api": API_VERSION, "program": f"pumice {version('pumice')}"})

    async def _document(self, _: Request) -> Response:
        return _json(openapi_document())

    async def _guarded(self, question: Question[Any], request: Request) -> Response:
        """Answer a caller with a good token; tell what goes wrong in one field."""
        try:
            user = await self._reviews.caller(request.headers.get("authorization", ""))
            if self._open[user.username] >= AT_ONCE:
                raise AnswerRefused(429, f"{user.username} has {AT_ONCE} questions open; wait for an answer")
            self._open[user.username] += 1
            try:
                async with asyncio.timeout(WAIT):
                    return _json(await self._answer(question, request, user))
            finally:
                self._open[user.username] -= 1
                if not self._open[user.username]:
                    del self._open[user.username]
        except (AnswerRefused, Unauthorized) as no:
            return _json({"error": str(no)}, no.status)
        except NoSuchThing as exc:
            return _json({"error": str(exc)}, 404)
        except InvalidInput as exc:
            return _json({"error": str(exc)}, 422)
        except TimeoutError:
            return _json({"error": f"no answer within {WAIT:g} s"}, 503)
        except PumiceError as exc:
            return _json({"error": str(exc)}, 503)

    async def _answer(self, question: Question[Any], request: Request, user: KnownUser) -> Any:
        parameters = _parameters(question, request)
        body = question.read_body(await _body(request)) if question.body is not None else None
        asked, sight = await self._allowed(question, Asked(parameters, body), user)
        return await answered(self._ask, question, asked, sight, user.username)

    async def _allowed(self, question: Question[Any], asked: Asked, user: KnownUser) -> tuple[Asked, Visibility]:
        """Return the question as it may be put, and what the caller may see of the answer.

        :raises Unauthorized: a right is missing.
        """
        namespaces: list[str] = []
        needed: tuple[Right, ...]
        match question.access:
            case "everything":
                needed = EVERYTHING_RIGHTS
            case "queues":
                needed = (QUEUES,)
            case "submit":
                namespaces = sorted({obj.metadata.namespace or "default" for obj in asked.body})
                needed = tuple(right for namespace in namespaces for right in trial_rights(namespace))
            case _:
                namespaces = [asked.parameters.namespace] if asked.parameters.namespace else []
                needed = tuple(map(job_right, namespaces))
        for right in needed:
            await self._reviews.require(user, right)
        if question.access == "everything":
            return asked, EVERYTHING
        sight = await sight_of(self._reviews, user, namespaces)
        if question.access == "namespaces" and not namespaces and sight.namespaces is not None:
            names = await asyncio.wrap_future(self._ask(lambda answers: answers.names()))
            allowed = await readable(self._reviews, user, names.namespaces)
            return asked._replace(namespaces=allowed), replace(sight, namespaces=allowed)
        return asked, sight


def _parameters(question: Question[Any], request: Request) -> Any:
    """Return the parameters of a request.

    :raises AnswerRefused: one breaks a rule.
    """
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(question.parameters):
        values = request.query_params.getlist(field.name)
        if values:
            given[field.name] = values if isinstance(field.default_factory, type) else values[-1]
        if field.required and not given.get(field.name):
            required = [f.name for f in msgspec.structs.fields(question.parameters) if f.required]
            raise AnswerRefused(422, f"needs the parameters {' and '.join(required)}")
    if given.get("when", "") not in ("", "no"):
        raise AnswerRefused(422, f"when {given['when'][:40]!r}: must be 'no', or not given")
    limit = given.get("limit", "1")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= MOST_ROWS):
        raise AnswerRefused(422, f"limit {limit[:40]!r}: must be a whole number from 1 to {MOST_ROWS}")
    return msgspec.convert(given, question.parameters, strict=False)


async def _body(request: Request) -> Any:
    """The data that a request carries."""
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise AnswerRefused(413, f"larger than {MOST_BYTES >> 20} MiB")
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise AnswerRefused(422, f"not JSON: {decoder_words(exc)}") from exc


def _json(data: Any, status: int = 200) -> Response:
    headers = {"Cache-Control": "no-store"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif status in (429, 503):
        headers["Retry-After"] = "1"
    return Response(msgspec.json.encode(data), status, headers, media_type="application/json")


async def serve_answers(
    opened: socket.socket,
    ask: AskOwner,
    credentials: Credentials,
    tls: ssl.SSLContext | None = None,
    beside: Callable[[Reviews], Sequence[BaseRoute]] | None = None,
) -> None:
    """Answer on a socket until cancelled; tokens and rights are asked of the API server of *credentials*.

    Pages served *beside* the answers use the same reviews.
    """
    async with KubeClient(credentials, connections=16) as client:
        reviews = Reviews(client)
        more = beside(reviews) if beside is not None else ()
        await serve(opened, [*AnswersApi(ask, reviews).routes(), *more], tls)
