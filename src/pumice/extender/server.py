"""Any Plugin class as an HTTP extender: the ASGI application, its paths, its callers, and errors in its answers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from pumice.errors import PumiceError
from pumice.extender.answering.followed import AnsweredCluster, NotReady
from pumice.extender.answering.intake import Intake, RequestRefused, Token
from pumice.extender.answering.intake import Options as Options
from pumice.extender.answering.openapi import all_paths, document
from pumice.extender.answering.policies import Policy, PolicyServer
from pumice.extender.answering.untold import NotTold
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import KUBE_PATHS, Verb
from pumice.framework.metrics import Histogram
from pumice.model.api import KINDS, make_known

log = logging.getLogger("pumice.extender.server")
access = logging.getLogger("pumice.extender.access")
_JSON: Final = (b"content-type", b"application/json")
_SESSION: Final = b"x-pumice-session"
_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, in seconds."""
_MOST_TOLD: Final = 1000
"""Texts of refusals that are remembered, so that each is logged once."""


def app(
    policies: Sequence[Policy], options: Options | None = None, cluster: AnsweredCluster | None = None
) -> Starlette:
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
        for dialect in DIALECTS.values():
            dialect.make_known()
        make_known(*KINDS.values())
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
        verb, prefix = self._paths.get(path), ""
        if verb is None:
            prefix, _, last = path.rpartition("/")
            verb = self._paths.get(last)
        status, headers = 200, [_JSON]
        try:
            answer = await self._answer(scope, receive, verb, path, prefix)
        except Exception as error:
            status, text, more = _refusal(error, path)
            answer = msgspec.json.encode({"errorMessage": text})
            headers += more
            self._tell(verb.name if verb is not None else "other", status, text)
        headers.append((b"content-length", b"%d" % len(answer)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
        seconds = time.perf_counter() - started
        self.metrics.answered(verb.name if verb is not None else "other", status, seconds)
        if access.isEnabledFor(logging.INFO):
            access.info("%s", _line(scope, path, status, seconds, len(answer)))

    async def _answer(self, scope: Scope, receive: Receive, verb: Verb[Any] | None, path: str, prefix: str) -> bytes:
        if scope["type"] != "http" or verb is None:
            raise RequestRefused(404, f"path {path!r}: not one of {', '.join(sorted(self._paths))}")
        if scope["method"] != "POST":
            raise RequestRefused(405, f"method {scope['method']}: must be POST", [(b"allow", b"POST")])
        given = dict(scope["headers"])
        if self._token is not None:
            self._token.check(given.get(b"authorization", b""))
        self._intake.begin()
        body = b""
        try:
            body = await self._intake.body(given, receive)
            caller = _caller(scope, given, prefix)
            if self._server.at_once(verb, body):
                return self._server.answer(verb, body, caller)
            return await self._server.asked(verb, body, caller)
        finally:
            self._intake.end(len(body))

    def _tell(self, verb: str, status: int, text: str) -> None:
        """Log why a question was not answered, once for each verb and text: its caller may drop the body."""
        if (verb, text) not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add((verb, text))
            log.warning("%s was answered with %d: %s", verb, status, text[:500])


def _refusal(error: Exception, path: str) -> tuple[int, str, Sequence[tuple[bytes, bytes]]]:
    """Status, text and headers of an answer that is none."""
    match error:
        case RequestRefused():
            return error.status, str(error), error.headers
        case NotReady():
            return 503, str(error), ()
        case NotTold():
            return 409, str(error), ()
        case PumiceError():
            return 400, str(error), ()
        case _:
            log.error("the answer to %s failed", path, exc_info=error)
            return 500, f"{type(error).__name__}: {error}", ()


def _caller(scope: Scope, given: dict[bytes, bytes], prefix: str) -> str:
    session = given.get(_SESSION, b"")
    if session or prefix:
        return f"{prefix}/{session.decode('latin-1')[:200]}"
    client = scope.get("client")
    return str(client[0]) if client else ""


class ServerMetrics:
    """Questions answered, by verb and status, and how long they took; made into Prometheus' form for a scrape only."""

    def __init__(self) -> None:
        self._answered: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def answered(self, verb: str, status: int, seconds: float) -> None:
        """Count one answer."""
        self._answered[verb, status] += 1
        known = self._seconds.get(verb)
        if known is None:
            known = self._seconds[verb] = Histogram.empty(_BUCKETS)
        known.add(seconds)

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client asks for."""
        answered = CounterMetricFamily(
            "pumice_extender_server_requests", "Questions answered.", labels=["verb", "status"]
        )
        for (verb, status), times in self._answered.items():
            answered.add_metric([verb, str(status)], times)
        yield answered
        seconds = HistogramMetricFamily("pumice_extender_server_seconds", "Time to answer.", labels=["verb"])
        for verb, known in self._seconds.items():
            seconds.add_metric([verb], known.buckets(), known.sum)
        yield seconds

    def text(self) -> bytes:
        """Everything, for a scrape."""
        found: bytes = generate_latest(self._registry)
        return found


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
