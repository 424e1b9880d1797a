"""Any Plugin class as an HTTP extender: the ASGI application, its paths, its callers, and errors in its answers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from starlette.types import Receive, Scope, Send

from pumice.errors import PumiceError
from pumice.extender.answering.followed import AnsweredCluster, NotReady
from pumice.extender.answering.intake import Intake, Options, RequestRefused, check_token
from pumice.extender.answering.openapi import all_paths, document
from pumice.extender.answering.policies import Policy, PolicyServer
from pumice.extender.answering.untold import NotTold
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import KUBE_PATHS, SESSION_HEADER, TokenFile, Verb
from pumice.framework.metrics import Histogram
from pumice.model.api import KINDS, make_known

log = logging.getLogger("pumice.extender.server")
access = logging.getLogger("pumice.extender.access")
Page = tuple[int, bytes, bytes]
"""Status, media type and content."""
_JSON: Final = b"application/json"
_TEXT: Final = b"text/plain; charset=utf-8"
_NO_HEADERS: Final[Sequence[tuple[bytes, bytes]]] = ()
_SESSION: Final = SESSION_HEADER.lower().encode()
_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram, in seconds."""
_MOST_TOLD: Final = 1000
"""Texts of refusals that are remembered, so that each is logged once."""


def app(policies: Sequence[Policy], options: Options | None = None, cluster: AnsweredCluster | None = None) -> Endpoint:
    """An ASGI application that answers for *policies* (Plugin classes, or functions that build one).

    With a *cluster* to follow, questions may name nodes instead of telling of them, and pods are bound through it.
    Run it under any server with one worker, or mount it in another application.
    :raises InvalidInput: nothing to serve, or an option that breaks a rule.
    """
    options = options or Options()
    return Endpoint(PolicyServer(policies, dialect=options.dialect, compat=options.compat, cluster=cluster), options)


class Endpoint:
    """Answers POSTs to the verbs' paths, and GETs of what there is to know of the server.

    A caller is known by the session header that it sends, else by what stands before the verb in the path, else by
    its address: so two schedulers that share an address are told apart by ``urlPrefix``.
    """

    def __init__(self, server: PolicyServer, options: Options) -> None:
        for dialect in DIALECTS.values():
            dialect.make_known()
        make_known(*KINDS.values())
        self._server = server
        self._documented = all_paths(options.paths)
        self._paths = {**KUBE_PATHS, **self._documented}
        self._token = TokenFile(options.token_file) if options.token_file is not None else None
        self._intake = Intake(options)
        self._told: set[tuple[str, str]] = set()
        self._metrics = ServerMetrics()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange.

        :raises RuntimeError: of another kind than HTTP; there is nothing to begin or to end.
        """
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']}: only http is spoken here")
        started = time.perf_counter()
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        if scope["method"] in ("GET", "HEAD") and path in _PAGES:
            await _send(send, *_PAGES[path](self), head=scope["method"] == "HEAD")
            return
        verb, prefix = self._paths.get(path), ""
        if verb is None:
            prefix, _, last = path.rpartition("/")
            verb = self._paths.get(last)
        status, more, name = 200, _NO_HEADERS, verb.name if verb is not None else "other"
        try:
            answer = await self._answer(scope, receive, verb, path, prefix)
        except Exception as error:
            status, text, more = _refusal(error, path)
            answer = msgspec.json.encode({"errorMessage": text})
            self._tell(name, status, text)
        await _send(send, status, _JSON, answer, more)
        seconds = time.perf_counter() - started
        self._metrics.answered(name, status, seconds)
        if access.isEnabledFor(logging.INFO):
            access.info("%s", _line(scope, path, status, seconds, len(answer)))

    async def _answer(self, scope: Scope, receive: Receive, verb: Verb[Any] | None, path: str, prefix: str) -> bytes:
        if verb is None:
            raise RequestRefused(404, f"path {path!r}: not one of {', '.join(sorted(self._paths))}")
        if scope["method"] != "POST":
            raise RequestRefused(405, f"method {scope['method']}: must be POST", [(b"allow", b"POST")])
        given = dict(scope["headers"])
        if self._token is not None:
            check_token(self._token, given.get(b"authorization", b""))
        self._intake.begin()
        body = b""
        try:
            body = await self._intake.body(given, receive)
            caller = _caller(scope, given, prefix)
            return await self._server.asked(verb, body, caller)
        finally:
            self._intake.end(len(body))

    # -- what there is to know of the server ------------------------------------------------------------------------
    def _openapi(self) -> Page:
        title = f"pumice extender: {', '.join(self._server.names)}"
        return 200, _JSON, msgspec.json.encode(document(self._documented, title, token=self._token is not None))

    def _alive(self) -> Page:
        return 200, _TEXT, b"ok"

    def _ready(self) -> Page:
        trouble = self._server.trouble()
        return 503 if trouble else 200, _TEXT, (trouble or "ok").encode()

    def _measured(self) -> Page:
        return 200, b"text/plain; version=0.0.4; charset=utf-8", self._metrics.text()

    def _tell(self, verb: str, status: int, text: str) -> None:
        """Log why a question was not answered, once for each verb and text: its caller may drop the body."""
        if (verb, text) not in self._told and len(self._told) < _MOST_TOLD:
            self._told.add((verb, text))
            log.warning("%s was answered with %d: %s", verb, status, text[:500])


_PAGES: Final[dict[str, Callable[[Endpoint], Page]]] = {
    "openapi.json": Endpoint._openapi,
    "healthz": Endpoint._alive,
    "readyz": Endpoint._ready,
    "metrics": Endpoint._measured,
}


async def _send(
    send: Send,
    status: int,
    media: bytes,
    content: bytes,
    more: Sequence[tuple[bytes, bytes]] = _NO_HEADERS,
    *,
    head: bool = False,
) -> None:
    headers = [(b"content-type", media), *more, (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else content})


def _refusal(error: Exception, path: str) -> tuple[int, str, Sequence[tuple[bytes, bytes]]]:
    """Status, text and headers of an answer that is none."""
    if isinstance(error, RequestRefused):
        return error.status, str(error), error.headers
    if isinstance(error, PumiceError):
        return 503 if isinstance(error, NotReady) else 409 if isinstance(error, NotTold) else 400, str(error), ()
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
        self._answered[verb, status] += 1
        known = self._seconds.get(verb)
        if known is None:
            known = self._seconds[verb] = Histogram.empty(_BUCKETS)
        known.add(seconds)

    def collect(self) -> Iterator[Metric]:
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
