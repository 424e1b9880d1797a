"""``pumice run`` with a broken plugin, as a process: it waits, says why, and begins when the file is mended."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import aiohttp
import pytest
from scripted_api import ScriptedApi, serving, write_kubeconfig
from test_service import binds, cluster, pod

GOOD = """from pumice import Plugin


class Keeper(Plugin):
    name = "keeper"

    def predicate(self, task, node): ...
"""
CONF = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: keeper\n'


async def unready(address: str) -> str:
    """What /readyz says; nothing when it is ready."""
    async with aiohttp.ClientSession() as http:
        try:
            async with http.get(f"http://{address}/readyz") as answer:
                return "" if answer.status == 200 else await answer.text()
        except aiohttp.ClientConnectorError:
            return "does not listen yet"


async def start(folder: Path, api: ScriptedApi, address: str) -> asyncio.subprocess.Process:
    words = ["run", "--kubeconfig", write_kubeconfig(folder, api.url, "first"), "--no-leader-elect"]
    words += ["--scheduler-conf", str(folder / "conf"), "--plugins-dir", str(folder / "plugins")]
    words += ["--schedule-period", "100ms", "--enable-healthz", "--healthz-address", address]
    program = str(Path(sys.executable).with_name("pumice"))
    return await asyncio.create_subprocess_exec(
        program, *words, stderr=asyncio.subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}
    )


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (GOOD.replace("task, node", "task"), "keeper.py:7: plugin 'keeper': predicate must take (task, node), but req"),
        ("def (", "keeper.py:1: invalid syntax"),
    ],
)
@pytest.mark.part(9)
def test_a_cold_start_with_a_broken_plugin_waits_and_goes_on_when_it_is_mended(
    tmp_path: Path, broken: str, said: str
) -> None:
    (tmp_path / "conf").write_text(CONF)
    (tmp_path / "plugins").mkdir()
    keeper = tmp_path / "plugins" / "keeper.py"
    keeper.write_text(broken)
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"

    async def story() -> bytes:
        async with serving(tmp_path) as (api, _):
            cluster(api, pod("a"), pod("b"))
            process = await start(tmp_path, api, address)
            try:
                async with asyncio.timeout(60):
                    while said not in await unready(address):
                        assert process.returncode is None
                        await asyncio.sleep(0.05)
                    assert binds(api) == {}
                    keeper.write_text(GOOD)
                    while len(binds(api)) < 2:
                        assert process.returncode is None
                        await asyncio.sleep(0.05)
                    assert await unready(address) == ""
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                _, err = await process.communicate()
            assert process.returncode == 0
            return err

    err = asyncio.run(story()).decode()
    assert err.count(said) == 1
    assert "Traceback" not in err
