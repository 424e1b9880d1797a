"""The ASGI application: paths, limits, the token, and errors as ``{"errorMessage": …}``."""

from __future__ import annotations

import hmac
import logging
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Receive, Scope, Send

from pumice.errors import PumiceError
from pumice.extender.server.following import Cluster, NotReady
from pumice.extender.server.metrics import ServerMetrics
from pumice.extender.server.openapi import all_paths, document
from pumice.extender.server.options import Options
from pumice.extender.server.served import Policy, Served
from pumice.extender.server.untold import NotTold
from pumice.extender.wire import kube

log = logging.getLogger("pumice.extender.server")
access = logging.getLogger("pumice.extender.access")
_JSON: Final = (b"content-type", b"application/json")


def app(policies: Sequence[Policy], options: Options | None = None, cluster: Cluster | None = None) -> Starlette:
    """An ASGI application that answers for *policies* (Plugin classes, or functions that build one).

    With a *cluster* to follow, questions may name nodes instead of telling of them, and pods are bound through it.
    Run it under any server with one worker, or mount it in another application.
    :raises InvalidInput: nothing to serve, or an option that breaks a rule.
    """
    options = options or Options()
    served = Served(policies, dialect=options.dialect, compat=options.compat, cluster=cluster)
    asked = Asked(served, options)

    async def openapi(_: Request) -> Response:
        title = f"pumice extender: {', '.join(served.names)}"
        return JSONResponse(document(asked.documented, title, token=options.token_file is not None))

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def ready(_: Request) -> Response:
        trouble = served.trouble()
        return PlainTextResponse(trouble or "ok", 503 if trouble else 200)

    async def metrics(_: Request) -> Response:
        return Response(asked.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return ExtenderApp(
        asked,
        [
            Route("/openapi.json", openapi),
            Route("/healthz", alive),
            Route("/readyz", ready),
            Route("/metrics", metrics),
            Mount("/", app=asked),
        ],
    )


class ExtenderApp(Starlette):
    """The application. Questions, which are many, go straight to their answer unless middleware was added."""

    def __init__(self, asked: Asked, routes: Sequence[BaseRoute]) -> None:
        super().__init__(routes=routes)
        self._asked = asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        if scope["type"] == "http" and scope["method"] == "POST" and not self.user_middleware:
            await self._asked(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class Refused(Exception):
    """A question that is not even read."""

    def __init__(self, status: int, text: str, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(text)
        self.status, self.headers = status, headers


class Asked:
    """Answers POSTs to the verbs' paths."""

    def __init__(self, served: Served, options: Options) -> None:
        self._served, self._options = served, options
        self.documented = all_paths(options.paths)
        self._paths = {**kube.PATHS, **self.documented}
        self._token = Token(options.token_file) if options.token_file is not None else None
        self.metrics = ServerMetrics()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        started = time.perf_counter()
        path = scope["path"].removeprefix(scope.get("root_path", "")).strip("/")
        verb = self._paths.get(path)
        headers: Sequence[tuple[bytes, bytes]] = ()
        try:
            if scope["type"] != "http" or verb is None:
                raise Refused(404, f"path {path!r}: not one of {', '.join(sorted(self._paths))}")
            if scope["method"] != "POST":
                raise Refused(405, f"method {scope['method']}: must be POST", [(b"allow", b"POST")])
            given = dict(scope["headers"])
            if self._token is not None:
                self._token.check(given.get(b"authorization", b""))
            body = await self._body(given, receive)
            status, answer = 200, await self._served.asked(verb, body)
        except Refused as refused:
            status, answer, headers = refused.status, _error(str(refused)), refused.headers
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
        if access.isEnabledFor(logging.INFO):
            access.info("%s", _line(scope, path, status, seconds, len(answer)))

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, unpacked, if it is not too large."""
        most = self._options.max_body
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length) > most:
            raise Refused(413, f"the question has {int(length)} bytes; at most {most} are read")
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the connection was closed before the whole question came")
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > most:
                raise Refused(413, f"the question has more than {most} bytes")
            more = message.get("more_body", False)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        encoding = headers.get(b"content-encoding", b"identity").lower()
        if encoding == b"gzip":
            return _unpacked(body, most)
        if encoding != b"identity":
            raise Refused(415, f"content encoding {encoding.decode('latin-1')!r}: must be gzip or none")
        return body


class Token:
    """The bearer token that questions must carry; its file is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[int, bytes] = (0, b"")

    def check(self, authorization: bytes) -> None:
        """Return if the header carries the token.

        :raises Refused: it does not, or there is none to compare with.
        """
        try:
            changed = self._path.stat().st_mtime_ns
            if changed != self._read[0]:
                self._read = (changed, self._path.read_bytes().strip())
        except OSError as error:
            raise Refused(500, f"the server's token cannot be read: {error.strerror}") from error
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not self._read[1] or not hmac.compare_digest(token.strip(), self._read[1]):
            raise Refused(401, "the bearer token is missing or wrong", [(b"www-authenticate", b"Bearer")])


def _unpacked(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(31)
    try:
        content = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise Refused(400, f"the question is not gzip: {error}") from error
    if len(content) > most:
        raise Refused(413, f"the question has more than {most} bytes when unpacked")
    return content


def _error(text: str) -> bytes:
    return msgspec.json.encode({"errorMessage": text})


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
