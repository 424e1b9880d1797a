"""Controllers that lose their lease end, whatever hangs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_api import ScriptedApi, serving, until, write_kubeconfig

from pumice.kube.controllers import running as service
from pumice.kube.controllers.running import Controllers, ControllerSettings
from pumice.kube.controllers.store import FOLLOWED
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.credentials import Credentials
from pumice.kube.lease import Election

SOURCES = Path(service.__file__).parents[1]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/sys/leases"


def test_a_queue_that_is_cancelled_while_a_key_is_named_ends() -> None:
    """`asyncio.wait_for` of Python 3.11 swallows a cancellation that comes in the turn in which its wait is over."""

    async def story() -> None:
        for turns in range(5):
            queue = WorkQueue("test", lambda _: asyncio.sleep(0))
            queue.add("z", 90.0)
            task = asyncio.create_task(queue.run())
            await asyncio.sleep(0.01)
            queue.add("a", 60.0)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=1.0)
            assert task.cancelled()

    asyncio.run(story())


def test_nothing_waits_in_the_way_that_swallows_cancellations() -> None:
    found = [str(path) for path in SOURCES.rglob("*.py") if "asyncio.wait_for(" in path.read_text(encoding="utf-8")]
    assert found == []


def lists(api: ScriptedApi) -> None:
    """Everything is listed, and there is one queue to look at."""
    for resource in FOLLOWED:
        items = [{"metadata": {"name": "q", "uid": "u", "resourceVersion": "1"}}] if resource.plural == "queues" else []
        api.list(resource.collection, "10", *items)


def lease_that_will_be_lost(api: ScriptedApi) -> None:
    api.answers["POST", LEASES] = [(201, {"metadata": {"resourceVersion": "1"}, "spec": {}})]
    stolen = {"metadata": {"resourceVersion": "2"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 9}}
    api.answers["PUT", f"{LEASES}/controllers"] = [(200, {"metadata": {"resourceVersion": "1"}})] * 3 + [(409, {})]
    api.answers["GET", f"{LEASES}/controllers"] = [(404, {}), (200, stolen)]


@pytest.mark.parametrize("hangs", [False, True])
def test_a_lost_lease_ends_the_controllers_in_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(service, "PATIENCE", 0.3)

    async def stubborn(_self: WorkQueue) -> None:
        while True:  # what swallows a cancellation once, on whatever way
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if released.is_set():
                    raise

    if hangs:
        monkeypatch.setattr(WorkQueue, "run", stubborn)
    released = asyncio.Event()

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            lists(api)
            lease_that_will_be_lost(api)
            made = Controllers(
                Credentials(kubeconfig=write_kubeconfig(tmp_path, api.url, "first")),
                ControllerSettings(election=Election("controllers", "sys", "us", 1.0, 0.6, 0.1)),
            )
            task = asyncio.create_task(made.run())
            await until(lambda: b"\npumice_controllers_leading 1.0\n" in made.metrics.text(), 10)
            await until(lambda: "lease" in made.trouble(), 10)
            done, _ = await asyncio.wait([task], timeout=5)
            released.set()
            assert [t.result() for t in done] == [1]
            assert made.ending is not None
            assert b"\npumice_controllers_leading 0.0\n" in made.metrics.text()

    asyncio.run(story())


STUBBORN = """
import asyncio, threading
from pumice.cli import controllers
from pumice.kube.controllers.running import Controllers

async def run(self):
    self._loop = asyncio.get_running_loop()
    print("runs", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

Controllers.run = run
controllers.LAST = 0.5
controllers.controllers(cluster_kubeconfig="{kubeconfig}", leaderElection_leaderElect=False)
"""


def test_the_command_ends_when_it_is_told_to_whatever_hangs(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path, "http://127.0.0.1:1", "t")
    code = STUBBORN.format(kubeconfig=kubeconfig)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"runs\n"
            process.terminate()
            began = time.monotonic()
            assert process.wait(20) == 1
            assert time.monotonic() - began < 10
        finally:
            process.kill()
