"""The ASGI application: paths, callers, and errors as ``{"errorMessage": …}``."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from pumice.errors import PumiceError
from pumice.extender.answering.followed import Cluster, NotReady
from pumice.extender.answering.intake import Intake, Refused, Token
from pumice.extender.answering.openapi import all_paths, document
from pumice.extender.answering.options import Options
from pumice.extender.answering.policies import Policy, PolicyServer
from pumice.extender.answering.untold import NotTold
from pumice.extender.protocol import KUBE_PATHS, Verb

log = logging.getLogger("pumice.extender.server")
access = logging.getLogger("pumice.extender.access")
_JSON: Final = (b"content-type", b"application/json")
_SESSION: Final = b"x-pumice-session"
_MOST_TOLD: Final = 1000
"""Texts of refusals that are remembered, so that each is logged once."""


def app(policies: Sequence[Policy], options: Options | None = None, cluster: Cluster | None = None) -> Starlette:
    """An ASGI application that answers for *policies* (Plugin classes, or functions that build one).

    With a *cluster* to follow, questions may name nodes instead of telling of them, and pods are bound through it.
    Run it under any server with one worker, or mount it in another application.
    :raises InvalidInput: nothing to serve, or an option that breaks a rule.
    """
    options = options or Options()
    server = PolicyServer(policies, dialect=options.dialect, compat=options.compat, cluster=cluster)
    endpoint = Endpoint(server, options)

    async def openapi(_: Request) -> Response:
        title = f"pumice extender: {', '.join(server.names)}"
        return JSONResponse(document(endpoint.documented, title, token=options.token_file is not None))

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def ready(_: Request) -> Response:
        trouble = server.trouble()
        return PlainTextResponse(trouble or "ok", 503 if trouble else 200)

    async def metrics(_: Request) -> Response:
        return Response(endpoint.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return ExtenderApp(
        endpoint,
        [
            Route("/openapi.json", openapi),
            Route("/healthz", alive),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Mount("/", app=endpoint),
        ],
    )


class ExtenderApp(Starlette):
    """The application. Questions, which are many, go straight to their answer unless middleware was added."""

    def __init__(self, endpoint: Endpoint, routes: Sequence[BaseRoute]) -> None:
        super().__init__(routes=routes)
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        if scope["type"] == "http" and scope["method"] == "POST" and not self.user_middleware:
            await self._endpoint(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Endpoint:
    """Answers POSTs to the verbs' paths.

    A caller is known by the session header that it sends, else by what stands before the verb in the path, else by
    its address: so two schedulers that share an address are told apart by ``urlPrefix``.
    """

    def __init__(self, server: PolicyServer, options: Options) -> None:
        self._server = server
        self.documented = all_paths(options.paths)
        self._paths = {**KUBE_PATHS, **self.documented}
        self._token = Token(options.token_file) if options.token_file is not None else None
        self._intake = Intake(options)
        self._told: set[tuple[str, str]] = set()
        self.metrics = ServerMetrics()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        started = time.perf_counter()
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        verb, prefix = self._verb(path)
        status, headers = 200, list[tuple[bytes, bytes]]()
        try:
            answer = await self._answer(scope, receive, verb, path, prefix)
        except Refused as refused:
            status, answer, headers = refused.status, _error(str(refused)), [*refused.headers]
        except NotReady as waiting:
            status, answer = 503, _error(str(waiting))
        except NotTold as untold:
            status, answer = 409, _error(str(untold))
        except PumiceError as error:
            status, answer = 400, _error(str(error))
        except Exception as error:
            log.exception("the answer to %s failed", path)
            status, answer = 500, _error(f"{type(error).__name__}: {error}")
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [_JSON, (b"content-length", b"%d" % len(answer)), *headers],
            }
        )
        await send({"type": "http.response.body", "body": answer})
        seconds = time.perf_counter() - started
        self.metrics.answered(verb.name if verb is not None else "other", status, seconds)
        if status != 200:
            self._tell(verb.name if verb is not None else "other", status, answer)
        if access.isEnabledFor(logging.INFO):
            access.info("%s", _line(scope, path, status, seconds, len(answer)))

    def _verb(self, path: str) -> tuple[Verb[Any] | None, str]:
        """The verb that is asked under a path, and what stands before it."""
        verb = self._paths.get(path)
        if verb is not None:
            return verb, ""
        prefix, _, last = path.rpartition("/")
        return self._paths.get(last), prefix

    async def _answer(self, scope: Scope, receive: Receive, verb: Verb[Any] | None, path: str, prefix: str) -> bytes:
        if scope["type"] != "http" or verb is None:
            raise Refused(404, f"path {path!r}: not one of {', '.join(sorted(self._paths))}")
        if scope["method"] != "POST":
            raise Refused(405, f"method {scope['method']}: must be POST", [(b"allow", b"POST")])
        given = dict(scope["headers"])
        if self._token is not None:
            self._token.check(given.get(b"authorization", b""))
        with self._intake:
            body = await self._intake.body(given, receive)
            try:
                return await self._server.asked(verb, body.content, _caller(scope, given, prefix))
            finally:
                body.release()

    def _tell(self, verb: str, status: int, answer: bytes) -> None:
        """Log why a question was not answered, once for each verb and text: its caller may drop the body."""
        text = answer.decode("utf-8", "replace")
        if (verb, text) not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add((verb, text))
            log.warning("%s was answered with %d: %s", verb, status, _said(answer))


def _caller(scope: Scope, given: dict[bytes, bytes], prefix: str) -> str:
    session = given.get(_SESSION, b"")
    if session or prefix:
        return f"{prefix}/{session.decode('latin-1')[:200]}"
    client = scope.get("client")
    return str(client[0]) if client else ""


class ServerMetrics:
    """Questions answered, by verb and status, and how long they took; in Prometheus' text form."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answered = Counter(
            "pumice_extender_server_requests", "Questions answered.", ["verb", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "pumice_extender_server_seconds", "Time to answer a question.", ["verb"], registry=self._registry
        )
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """Count one answer."""
        children = self._children.get((verb, status))
        if children is None:
            children = (self._answered.labels(verb, str(status)), self._seconds.labels(verb))
            self._children[verb, status] = children
        children[0].inc()
        children[1].observe(seconds)

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found


def _error(text: str) -> bytes:
    return msgspec.json.encode({"errorMessage": text})


def _said(answer: bytes) -> str:
    said: str = msgspec.json.decode(answer)["errorMessage"]
    return said[:500]


def _line(scope: Scope, path: str, status: int, seconds: float, size: int) -> str:
    client = scope.get("client")
    return msgspec.json.encode(
        {
            "client": client[0] if client else "",
            "verb": path,
            "status": status,
            "milliseconds": round(seconds * 1000, 3),
            "bytes": size,
        }
    ).decode()
