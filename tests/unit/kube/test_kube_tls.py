"""Connections to a server that shows a certificate of its own authority and asks for one of ours."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pumice.kube.client import KubeClient
from pumice.kube.credentials import Credentials
from pumice.kube.errors import Unreachable

CERTS = Path(__file__).parents[2] / "extender" / "certs"


def data(name: str) -> str:
    return base64.b64encode((CERTS / name).read_bytes()).decode()


CA = {"certificate-authority-data": data("ca.pem")}
OURS = {"client-certificate-data": data("client.pem"), "client-key-data": data("client.key")}


@asynccontextmanager
async def server() -> AsyncIterator[str]:
    """The address of a server that lets in who has a certificate of its authority."""

    async def hello(request: web.Request) -> web.Response:
        assert request.transport is not None
        return web.json_response({"subject": str(request.transport.get_extra_info("peercert")["subject"])})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=CERTS / "ca.pem")
    context.load_cert_chain(CERTS / "server.pem", CERTS / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    app = web.Application()
    app.router.add_get("/x", hello)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    try:
        yield f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    finally:
        await runner.cleanup()


def asked(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> bytes:
    """What the server answers to who has these credentials."""

    async def story() -> bytes:
        async with server() as url:
            path = folder / "config"
            content = {
                "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            path.write_text(yaml.safe_dump(content))
            async with KubeClient(Credentials(str(path))) as client:
                return await client.request("GET", "/x", timeout=10)

    return asyncio.run(story())


def test_who_has_both_certificates_is_let_in(tmp_path: Path) -> None:
    assert b"commonName" in asked(tmp_path, CA, OURS)


def test_who_does_not_check_the_server_is_let_in_too(tmp_path: Path) -> None:
    assert b"commonName" in asked(tmp_path, {"insecure-skip-tls-verify": True}, OURS)


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, OURS),
        ({"certificate-authority-data": data("other-ca.pem")}, OURS),
        ({**CA, "tls-server-name": "somebody.else"}, OURS),
        (CA, {}),
    ],
    ids=["no authority", "another authority", "another name", "no certificate of ours"],
)
def test_others_are_not(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> None:
    with pytest.raises(Unreachable):
        asked(tmp_path, cluster, user)
