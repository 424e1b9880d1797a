"""Lists that a start asks for before anything else is loaded; where they cannot be had, nobody is worse off."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from scripted_api import ScriptedApi, serving, until, write_kubeconfig
from test_kube_tls import CA, OURS
from test_kube_tls import server as tls_server

from pumice.kube import ahead as module
from pumice.kube.ahead import ListsAhead
from pumice.kube.credentials import Access, Credentials
from pumice.kube.listing import ObjectList

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


async def asked(credentials: Credentials) -> dict[str, ObjectList | None]:
    """What is there in the end; the collector works again by then."""
    ahead = ListsAhead(credentials)
    ahead.start()
    ahead.read()
    try:
        return {kind: await asyncio.wait_for(asyncio.wrap_future(answer), 20) for kind, answer in ahead.lists.items()}
    finally:
        assert gc.isenabled()
        gc.unfreeze()


def with_api(folder: Path, story: Callable[[ScriptedApi, Credentials], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with serving(folder) as (api, _):
            await story(api, Credentials(write_kubeconfig(folder, api.url, "first")))

    asyncio.run(run())


def names(found: ObjectList | None) -> list[str] | None:
    return None if found is None else [obj.metadata.name for obj in found.objects]


def test_pods_and_nodes_are_asked_for_and_read(tmp_path: Path) -> None:
    async def story(api: ScriptedApi, credentials: Credentials) -> None:
        api.tokens = {"Bearer first"}
        api.list(PODS, "10", *({"metadata": {"name": f"p{n}", "namespace": "team"}} for n in range(3)))
        api.list(NODES, "11", {"metadata": {"name": "n1"}})
        found = await asked(credentials)
        assert (names(found["Pod"]), names(found["Node"])) == (["p0", "p1", "p2"], ["n1"])
        assert [listed.version for listed in found.values() if listed is not None] == ["10", "11"]

    with_api(tmp_path, story)


def test_nothing_is_read_before_the_program_is_loaded(tmp_path: Path) -> None:
    async def story(api: ScriptedApi, credentials: Credentials) -> None:
        api.list(PODS, "10")
        api.list(NODES, "11", {"metadata": {"name": "n1"}})
        ahead = ListsAhead(credentials)
        ahead.start()
        await until(lambda: len(api.requests) == 2)
        await asyncio.sleep(0.1)
        assert not any(answer.done() for answer in ahead.lists.values())
        ahead.read()
        assert names(await asyncio.wrap_future(ahead.lists["Node"])) == ["n1"]
        await asyncio.wrap_future(ahead.lists["Pod"])

    with_api(tmp_path, story)
    gc.unfreeze()


def test_what_a_server_does_not_give_is_left_to_who_asks_later(tmp_path: Path) -> None:
    async def story(api: ScriptedApi, credentials: Credentials) -> None:
        api.answers["GET", PODS] = [(403, {"message": "no"})]
        api.answers["GET", NODES] = ["cut"]
        assert await asked(credentials) == {"Pod": None, "Node": None}

    with_api(tmp_path, story)


def test_without_credentials_nothing_is_asked_for(tmp_path: Path) -> None:
    assert asyncio.run(asked(Credentials(str(tmp_path / "none")))) == {"Pod": None, "Node": None}


def test_no_program_is_run_for_it_and_no_proxy_is_gone_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(api: ScriptedApi, credentials: Credentials) -> None:
        api.list(PODS, "10")
        api.list(NODES, "11")
        assert credentials.kubeconfig is not None
        path = Path(credentials.kubeconfig)
        config = yaml.safe_load(path.read_text())
        monkeypatch.setattr(module, "proxy_of", lambda access: "http://proxy")
        assert await asked(credentials) == {"Pod": None, "Node": None}
        monkeypatch.undo()
        ran = tmp_path / "ran"
        program = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(ran)]}
        config["users"][0]["user"] = {"exec": program}
        path.write_text(yaml.safe_dump(config))
        assert await asked(credentials) == {"Pod": None, "Node": None}
        assert not ran.exists()
        assert api.requests == []

    with_api(tmp_path, story)


@pytest.mark.parametrize("cut", [False, True])
def test_an_answer_that_is_packed_is_unpacked_and_one_that_ends_too_soon_is_none(tmp_path: Path, cut: bool) -> None:
    import zlib

    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    text = json.dumps({"metadata": {"resourceVersion": "10"}, "items": [{"metadata": {"name": "a"}}]}).encode()
    data = packer.compress(text) + packer.flush()

    async def answer(request: web.Request) -> web.Response:
        assert "gzip" in request.headers["Accept-Encoding"]
        return web.Response(body=data[:-4] if cut else data, headers={"Content-Encoding": "gzip"})

    async def story() -> None:
        app = web.Application()
        app.router.add_get("/below/api/v1/nodes", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            found = await asked(Credentials(write_kubeconfig(tmp_path, f"{site.name}/below", "first")))
        finally:
            await runner.cleanup()
        assert names(found["Node"]) == (None if cut else ["a"])

    asyncio.run(story())


@pytest.mark.parametrize("verified", [True, False])
def test_a_server_shows_its_certificate_and_sees_ours(tmp_path: Path, verified: bool) -> None:
    async def story() -> bytes:
        async with tls_server() as url:
            cluster = {"server": url, **(CA if verified else {})}
            config = {
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": OURS}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
            (tmp_path / "config").write_text(yaml.safe_dump(config))
            access: Access = await Credentials(str(tmp_path / "config")).load()
            return await asyncio.to_thread(lambda: b"".join(module._body(access, "/x")))

    if verified:
        assert b"subject" in asyncio.run(story())
    else:
        with pytest.raises(OSError, match="certificate verify failed"):
            asyncio.run(story())
