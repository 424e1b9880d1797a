"""Health, readiness, metrics and saved cycles over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from pumice.errors import InvalidInput, PumiceError
from pumice.kube.access import Reviews, Right, Unauthorized
from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.health import Probes
from pumice.serving import bounded

Endpoint = Callable[[Request], Awaitable[Response]]
WAIT = 30.0
"""Seconds for which a cycle is waited for."""
GRACE = 2
"""Seconds in which answers that were begun may end; a stream of events would never."""


def health_routes(answers: Probes) -> list[Route]:
    """``/healthz``, ``/livez`` and ``/readyz``."""

    def verdict(why: str) -> Response:
        return PlainTextResponse(why or "ok", 503 if why else 200)

    async def live(_: Request) -> Response:
        return verdict(answers.trouble())

    async def ready(_: Request) -> Response:
        return verdict(answers.trouble() or answers.unready())

    return [Route("/healthz", live), Route("/livez", live), Route("/readyz", ready)]


def metrics_routes(answers: Probes) -> list[Route]:
    """``/metrics``, and ``/debug/cycle`` where it is offered."""
    ask = answers.next_cycle

    async def metrics(_: Request) -> Response:
        return Response(await run_in_threadpool(answers.metrics), media_type="text/plain; version=0.0.4")

    routes = [Route("/metrics", metrics)]
    if ask is not None:

        async def cycle(_: Request) -> Response:
            try:
                async with asyncio.timeout(WAIT):
                    content = await asyncio.wrap_future(ask())
            except TimeoutError:
                return PlainTextResponse(f"no cycle ended within {WAIT:g} s", 503)
            except PumiceError as exc:
                return PlainTextResponse(str(exc), 503)
            except Exception as exc:
                return PlainTextResponse(f"the cycle cannot be saved: {type(exc).__name__}: {exc}", 500)
            headers = {"Content-Disposition": 'attachment; filename="cycle.json.gz"'}
            return Response(content, media_type="application/gzip", headers=headers)

        routes.append(Route("/debug/cycle", cycle))
    return routes


METRICS = Right("get", path="/metrics")
"""The right that a caller of metrics over TLS needs."""


async def serve_metrics(
    opened: socket.socket, answers: Probes, credentials: Credentials, tls: ssl.SSLContext | None = None
) -> None:
    """Serve metrics until cancelled; with *tls*, only for tokens whose owner has the right `METRICS`."""
    if tls is None:
        await serve(opened, metrics_routes(answers))
        return
    async with KubeClient(credentials, connections=4) as client:
        reviews = Reviews(client)
        routes = [Route(route.path, _guarded(reviews, route.endpoint)) for route in metrics_routes(answers)]
        await serve(opened, routes, tls)


def _guarded(reviews: Reviews, endpoint: Endpoint) -> Endpoint:
    """The endpoint, for callers with the right `METRICS`."""

    async def guarded(request: Request) -> Response:
        try:
            await reviews.require(await reviews.caller(request.headers.get("authorization", "")), METRICS)
        except Unauthorized as no:
            headers = {"WWW-Authenticate": "Bearer"} if no.status == 401 else None
            return PlainTextResponse(str(no), no.status, headers)
        except PumiceError as exc:
            return PlainTextResponse(str(exc), 503)
        return await endpoint(request)

    return guarded


async def _gone(_: Request, exc: Exception) -> Response:
    """Answer a caller whose connection was closed before its body came; it hears nothing."""
    return Response(status_code=400)


class _Server(uvicorn.Server):
    """Says nothing of the streams that it ends when it ends itself."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


async def serve(opened: socket.socket, routes: Sequence[BaseRoute], tls: ssl.SSLContext | None = None) -> None:
    """Answer on a socket until cancelled, within the limits of `pumice.serving`; encrypted with *tls*."""
    config = uvicorn.Config(
        Starlette(routes=list(routes), exception_handlers={ClientDisconnect: _gone}),
        # a proxy on this machine may say that it was https: the cookie of the pages depends on it
        **bounded(proxy_headers=True, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE),
    )
    config.load()
    config.ssl = tls
    server = _Server(config)
    try:
        await server.serve(sockets=[opened])
    finally:
        opened.close()


def tls_of(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """Return what a server shows of itself; None for plain HTTP.

    :raises InvalidInput: the files cannot be read, or do not fit.
    """
    if not certificate or not key:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or exc
        raise InvalidInput(f"certificate {certificate!r} with key {key!r}: {why}") from exc
    return context
