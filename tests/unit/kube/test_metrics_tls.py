"""Metrics over TLS: for tokens whose owner may get the path /metrics, and for nobody else."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from test_api import _Fixed

from pumice.config.settings import SchedulerSettings, from_plain
from pumice.kube.health import Probes
from pumice.kube.serving import serve, serve_metrics, tls_of
from pumice.sockets import listening

CERTS = Path(__file__).parents[2] / "extender" / "certs"
ANSWERS = Probes(trouble=lambda: "", unready=lambda: "", metrics=lambda: b"pumice_leading 1.0\n")


class Reviewer:
    """An API server that knows the tokens of a reader and of a stranger."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.away = False

    async def token(self, request: Request) -> Response:
        if self.away:
            return Response("no", 500)
        name = (await request.json())["spec"]["token"]
        known = name in ("reader", "stranger")
        return JSONResponse({"status": {"authenticated": known, "user": {"username": name}}}, 201)

    async def access(self, request: Request) -> Response:
        spec = (await request.json())["spec"]
        self.asked.append(spec)
        return JSONResponse({"status": {"allowed": spec["user"] == "reader"}}, 201)


def told(story: Callable[[Callable[[str], Awaitable[tuple[int, str]]], Reviewer], Awaitable[None]]) -> None:
    async def main() -> None:
        reviewer, api, opened = Reviewer(), listening("127.0.0.1:0"), listening("127.0.0.1:0")
        routes = [
            Route("/apis/authentication.k8s.io/v1/tokenreviews", reviewer.token, methods=["POST"]),
            Route("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviewer.access, methods=["POST"]),
        ]
        credentials = _Fixed(f"http://127.0.0.1:{api.getsockname()[1]}")
        tls = tls_of(str(CERTS / "server.pem"), str(CERTS / "server.key"))
        tasks = [
            asyncio.create_task(serve(api, routes)),
            asyncio.create_task(serve_metrics(opened, ANSWERS, credentials, tls)),
        ]
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{opened.getsockname()[1]}/metrics"

        async def get(token: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(url, headers=headers, ssl=trust) as answer:
                return answer.status, await answer.text()

        try:
            async with aiohttp.ClientSession() as session:
                await story(get, reviewer)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_token_is_needed_and_its_owner_must_have_the_right() -> None:
    async def story(get: Callable[[str], Awaitable[tuple[int, str]]], reviewer: Reviewer) -> None:
        assert await get("reader") == (200, "pumice_leading 1.0\n")
        assert reviewer.asked[0]["nonResourceAttributes"] == {"verb": "get", "path": "/metrics"}
        assert "resourceAttributes" not in reviewer.asked[0]
        assert (await get(""))[0] == 401
        assert (await get("made-up"))[0] == 401
        assert await get("stranger") == (403, "stranger may not get the path /metrics")

    told(story)


def test_without_an_answer_of_the_api_server_nothing_is_shown() -> None:
    async def story(get: Callable[[str], Awaitable[tuple[int, str]]], reviewer: Reviewer) -> None:
        reviewer.away = True
        status, text = await get("reader")
        assert (status, "pumice_leading" in text) == (503, False)

    told(story)


def test_a_certificate_without_its_key_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"tlsPrivateKeyFile: both must be given.*metrics"):
        from_plain({"metrics": {"tlsCertFile": "tls.crt"}}, SchedulerSettings)
    assert tls_of(None, None) is None
