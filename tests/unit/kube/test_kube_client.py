"""The client's connections: which way they are made."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scripted_api import serving

from pumice.kube.client import way_of
from pumice.kube.credentials import Access


def access(host: str = "https://api.example:6443", proxy: str = "", server_name: str = "") -> Access:
    return Access(host, server_name=server_name, proxy=proxy)


def test_the_kubeconfigs_proxy_stands_above_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://theirs:3128")
    assert way_of(access(proxy="http://mine:3128")) == {"proxy": "http://mine:3128"}
    assert way_of(access()) == {"proxy": "http://theirs:3128"}


def test_a_host_that_the_environment_excepts_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://theirs:3128")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,.example")
    assert way_of(access()) == {}
    assert way_of(access(server_name="kubernetes")) == {"server_hostname": "kubernetes"}


def test_requests_need_no_other_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            api.answers["GET", "/x"] = [(200, {})]
            loop = asyncio.get_running_loop()
            await client.request("GET", "/x")
            monkeypatch.setattr(loop, "run_in_executor", None)
            await client.request("GET", "/x")

    asyncio.run(story())
