"""A server that goes away and comes back is told in two lines, however many kinds are followed."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_api import CUT, serving, until, write_kubeconfig

from pumice.kube.kinds import RESOURCES
from pumice.kube.reflector import Outage, Reflector
from pumice.kube.watching import Inbox


@pytest.mark.parametrize("trouble", [CUT, (503, {"message": "starting"}), (429, {"message": "busy"})])
@pytest.mark.part(9)
def test_an_outage_is_one_line_and_its_end_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trouble: object
) -> None:
    monkeypatch.setattr("pumice.kube.reflector.BLIP", 0.0)

    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            for resource in RESOURCES.values():
                api.answers["GET", resource.collection] = [trouble]
            inbox, outage = Inbox(RESOURCES), Outage()
            jobs = [Reflector(client, r, inbox, outage=outage).run() for r in RESOURCES.values()]
            tasks = [asyncio.create_task(job) for job in jobs]
            try:
                await until(lambda: len(api.requests) > 2 * len(RESOURCES))
                api.answers.clear()
                for resource in RESOURCES.values():
                    api.list(resource.collection, "10")
                await until(inbox.synced.is_set)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    with caplog.at_level(logging.INFO, "pumice.kube"):
        asyncio.run(story())
    began, ended = [r.getMessage() for r in caplog.records]
    assert began.startswith("the API server does not answer: GET /")
    assert ended.startswith("the API server answers again, after ")


def test_what_one_kind_is_refused_is_told_for_that_kind_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with serving(tmp_path) as (api, client):
            pods = RESOURCES["Pod"]
            api.answers["GET", pods.collection] = [(403, {"message": f"no, said {n} times"}) for n in range(30)]
            task = asyncio.create_task(Reflector(client, pods, Inbox(["Pod"])).run())
            await until(lambda: len(api.requests) >= 3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    (line,) = [r.getMessage() for r in caplog.records]
    assert line == "Pod: GET /api/v1/pods: 403 no, said 0 times; trying again"


@pytest.mark.parametrize("command", ["run", "controllers"])
@pytest.mark.part(9)
@pytest.mark.slow
def test_lines_of_what_runs_for_long_carry_their_time(tmp_path: Path, command: str) -> None:
    kubeconfig = write_kubeconfig(tmp_path, "http://127.0.0.1:1", "t")
    args = [str(Path(sys.executable).parent / "pumice"), command, f"--kubeconfig={kubeconfig}", "--leader-elect=false"]
    with subprocess.Popen(args, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
        finally:
            process.kill()
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING pumice\.kube: the API server does not answer", line
    )
