"""Any Plugin class as an HTTP extender: the ASGI application, its paths, its callers, and errors in its answers."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from starlette.types import Receive, Scope, Send

from pumice.errors import InvalidInput, PumiceError, most_unpacked
from pumice.extender import answers as a
from pumice.extender.answering.policies import Policy, PolicyServer
from pumice.extender.answering.told_state import AnsweredCluster, NotReady, NotTold
from pumice.extender.answers import Answer
from pumice.extender.dialects import DIALECTS
from pumice.extender.dialects.messages import SHAPES, SnapshotMessage
from pumice.extender.protocol import KUBE_PATHS, PREEMPT, SESSION_HEADER, VERBS, MessagePart, PartKind, TokenFile, Verb
from pumice.framework.metrics import Histogram
from pumice.model.api import KINDS, Taint, make_known

MEBI: Final = 2**20
_PACKED_LARGE: Final = 64 * 1024
"""Bytes of a packed body from which it is unpacked beside the event loop."""
_LATER: Final = (b"retry-after", b"1")


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of an operator.

    :raises InvalidInput: an unknown verb or dialect, or a limit that is none.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which it is asked, where that is not its own name."""
    dialect: str = ""
    """The only dialect that is understood; empty: every question is answered in the dialect it came in."""
    max_body: int = 256 * MEBI
    """Bytes of a request; a snapshot of a large cluster is large."""
    max_in_flight: int = 512 * MEBI
    """Bytes of all requests that are being received or answered at one time."""
    max_connections: int = 1024
    """Exchanges at one time; who comes beyond is told to come again."""
    body_timeout: float = 30.0
    """Seconds in which a request must have come whole."""
    token_file: Path | None = None
    """Questions must carry the bearer token that stands in this file."""
    compat: str | None = None
    """``volcano``: the served policies run with Volcano's own behaviour."""

    def __post_init__(self) -> None:
        if self.dialect and self.dialect not in DIALECTS:
            raise InvalidInput(f"dialect: must be one of {', '.join(DIALECTS)}, got {self.dialect!r}")
        for verb in self.paths:
            if verb not in VERBS:
                raise InvalidInput(f"verb {verb!r}: not one of {', '.join(VERBS)}")
        for name in ("max_body", "max_in_flight", "max_connections", "body_timeout"):
            if getattr(self, name) <= 0:
                raise InvalidInput(f"{name}: must be above 0, got {getattr(self, name)}")


class RequestRefused(Exception):
    """A question that is not even read."""

    def __init__(self, status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Intake:
    """Receives bodies within limits: of one body, of all together, of exchanges at a time, and of seconds."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._exchanges = 0
        self._in_flight = 0

    def begin(self) -> None:
        """One more exchange.

        :raises RequestRefused: there are too many at this time.
        """
        if self._exchanges >= self._options.max_connections:
            raise RequestRefused(503, f"{self._exchanges} questions are being answered; come again", [_LATER])
        self._exchanges += 1

    def end(self, size: int) -> None:
        """The exchange is over, and so many bytes of its body are let go."""
        self._exchanges -= 1
        self._in_flight -= size

    async def body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, unpacked; its bytes count until the exchange is over.

        :raises RequestRefused: it is too large, comes too slowly, breaks off, or is packed in another way.
        """
        most, length = self._options.max_body, headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise RequestRefused(413, f"the question has {int(length)} bytes; at most {most} are read")
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):  # nearly always
            content: bytes = message.get("body", b"")
            self._take(0, content)
        else:
            content = await self._parts(message, receive)
        encoding = headers.get(b"content-encoding", b"identity").lower()
        return content if encoding == b"identity" else await self._unpacked(encoding, content)

    async def _parts(self, message: Mapping[str, Any], receive: Receive) -> bytes:
        """A body that comes in parts."""
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._options.body_timeout):
                while message["type"] != "http.disconnect":
                    part = message.get("body", b"")
                    size = self._take(size, part)
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    message = await receive()
            raise RequestRefused(400, "the connection was closed before the whole question came")
        except TimeoutError:
            seconds = self._options.body_timeout
            self._in_flight -= size
            raise RequestRefused(
                408, f"the question did not come within {seconds} s", [(b"connection", b"close")]
            ) from None
        except BaseException:
            self._in_flight -= size
            raise

    async def _unpacked(self, encoding: bytes, packed: bytes) -> bytes:
        most, content = most_unpacked(len(packed), self._options.max_body), b""
        try:
            if encoding != b"gzip":
                raise RequestRefused(415, f"content encoding {encoding.decode('latin-1')!r}: must be gzip or none")
            if len(packed) > _PACKED_LARGE:
                content = await asyncio.to_thread(_unpacked, packed, most)
            else:
                content = _unpacked(packed, most)
        finally:
            self._in_flight -= len(packed)
        self._take(0, content)
        return content

    def _take(self, size: int, part: bytes) -> int:
        """Count one more part of a body that has *size* bytes so far; its size then.

        :raises RequestRefused: it is too much, alone or together with those of others.
        """
        if size + len(part) > self._options.max_body:
            raise RequestRefused(413, f"the question has more than {self._options.max_body} bytes")
        most = self._options.max_in_flight
        if self._in_flight + len(part) > most:
            raise RequestRefused(503, f"more than {most} bytes of questions at one time; come again", [_LATER])
        self._in_flight += len(part)
        return size + len(part)


def check_token(file: TokenFile, authorization: bytes) -> None:
    """Return if the header carries the token.

    :raises RequestRefused: it does not, or there is none to compare with.
    """
    try:
        right = file.read()
    except OSError as error:
        raise RequestRefused(500, f"the server's token cannot be read: {error.strerror}") from error
    scheme, _, token = authorization.partition(b" ")
    if scheme.lower() != b"bearer" or not right or not hmac.compare_digest(token.strip(), right):
        raise RequestRefused(401, "the bearer token is missing or wrong", [(b"www-authenticate", b"Bearer")])


def _unpacked(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        content = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise RequestRefused(400, f"the question is not gzip: {error}") from error
    if len(content) > most:
        raise RequestRefused(413, f"the question has more than {most} bytes when unpacked")
    return content


Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> Schema:
    return {"$ref": _REF.format(name=name)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_STRING: Final[Schema] = {"type": "string"}
_SCORES: Final = _map({"type": "number"})


def _schemas() -> dict[str, Schema]:
    """The objects of questions, from the very types by which they are read, but for the fields that Volcano has.

    A task is named Task, not TaskMessage.
    """
    shapes = {kind.value: shape for kind, shape in SHAPES.items()} | {PartKind.SNAPSHOT.value: SnapshotMessage}
    _, found = msgspec.json.schema_components([*shapes.values(), Taint], ref_template=_REF)
    text = msgspec.json.encode({shape.__name__: found[shape.__name__] for shape in (*shapes.values(), Taint)})
    schemas: dict[str, Schema] = msgspec.json.decode(text.replace(b'Message"', b'"'))
    for name, schema in schemas.items():
        schema["title"] = name
        schema["properties"] = {key: one for key, one in schema["properties"].items() if not key[0].isupper()}
        if "name" in schema["properties"]:
            schema["required"] = ["name"]  # a job with a UID alone is understood, but nobody need know
    schemas["Error"] = _object(("errorMessage",), errorMessage=_STRING)
    return schemas


_FIELDS: Final[Mapping[Any, Schema]] = {
    str: _STRING,
    a.Why: _STRING,
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    a.Numbers: _SCORES,
    a.MaybeNumbers: _SCORES,
}
"""A field of an answer, by its type; texts that are left out where they are empty, and scores, need not be there."""
_ANSWERS: Final[Mapping[type[Answer], Schema]] = {
    a.NodeRefusals: _object(("errors", "code"), errors=_map(_STRING), code=_map(_FIELDS[int])),
    a.Victims: _object(("status",), status=_FIELDS[int], victims=_list(_object((), uid=_STRING))),
}
"""Answers that are more than their fields."""


def _answer(answer: type[Answer]) -> Schema:
    if answer in _ANSWERS:
        return _ANSWERS[answer]
    fields = a.fields_of(answer)
    required = tuple(one.encode_name for one in fields if one.type not in (a.Why, a.MaybeNumbers))
    return _object(required, **{one.encode_name: _FIELDS[one.type] for one in fields})


_ERRORS: Final = {
    "400": "The question cannot be read, or an object in it breaks a rule.",
    "401": "The bearer token is missing or wrong.",
    "408": "The question did not come whole in time.",
    "409": "The policy read something that neither the call nor a snapshot holds.",
    "413": "The question is too large.",
    "500": "The policy failed.",
    "503": "Too much at one time; come again.",
}


def document(paths: Mapping[str, Verb[Any]], title: str, *, token: bool) -> dict[str, Any]:
    """The document for a server that answers *paths*. kube-scheduler's own verb (preempt) is left out."""
    described = {
        f"/{path}": {"post": _operation(path, verb)} for path, verb in sorted(paths.items()) if verb is not PREEMPT
    }
    components: dict[str, Any] = {"schemas": _schemas()}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": "A Volcano extender, in the documented dialect."},
        "paths": described,
        "components": components,
    }
    if token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"bearer": []}]
    return found


def _operation(path: str, verb: Verb[Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": _ref("Error")}}
    answer = {"description": (verb.answer.__doc__ or "").splitlines()[0], "content": _json(_answer(verb.answer))}
    return {
        "operationId": path,
        "summary": verb.question,
        "requestBody": {"required": bool(verb.parts), "content": _json(_question(verb))},
        "responses": {
            "200": answer,
            **{status: {"description": text, "content": error} for status, text in _ERRORS.items()},
        },
    }


def _question(verb: Verb[Any]) -> Schema:
    """The schema of a question; lists and tables may be missing or null, as in Go."""
    required = tuple(part.name for part in verb.parts if not part.many and part.kind not in _OPTIONAL)
    schema = _object(required, **{part.name: _part(part) for part in verb.parts})
    return schema if verb.parts else _or_null(schema)


_OPTIONAL: Final = (PartKind.SCORES, PartKind.SNAPSHOT)


def _part(part: MessagePart) -> Schema:
    schema = _SCORES if part.kind is PartKind.SCORES else _ref(part.kind.value)
    if part.many:
        return _or_null(_list(schema))
    return _or_null(schema) if part.kind in _OPTIONAL else schema


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def all_paths(renamed: Mapping[str, str]) -> dict[str, Verb[Any]]:
    """Path -> verb: each under its own name, or under the one that it was given instead."""
    return {renamed.get(name, name).strip("/"): verb for name, verb in VERBS.items()}


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
