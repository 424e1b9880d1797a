"""Health, readiness, metrics and saved cycles, as an HTTP client sees them."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import replace

import aiohttp
import pytest

from pumice.errors import InvalidInput
from pumice.kube.health import Probes
from pumice.kube.metrics import CycleMetrics
from pumice.kube.serving import health_routes, metrics_routes, serve
from pumice.scheduler.question_queue import NoAnswer
from pumice.scheduler.report import CycleReport
from pumice.serving import BoundedProtocol
from pumice.sockets import listening

FINE = Probes(trouble=lambda: "", unready=lambda: "", metrics=lambda: b"pumice_leading 1.0\n")


def asked(answers: Probes, path: str) -> tuple[int, bytes]:
    async def story() -> tuple[int, bytes]:
        opened = listening("127.0.0.1:0")
        port = opened.getsockname()[1]
        task = asyncio.create_task(serve(opened, [*health_routes(answers), *metrics_routes(answers)]))
        try:
            async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
                return answer.status, await answer.read()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(story())


def test_a_scheduler_that_works_is_live_and_ready() -> None:
    assert asked(FINE, "/livez") == (200, b"ok")
    assert asked(FINE, "/readyz") == (200, b"ok")


def test_one_that_waits_for_lists_is_live_but_not_ready_and_says_why() -> None:
    waiting = replace(FINE, unready=lambda: "waiting for Pod")
    assert asked(waiting, "/healthz") == (200, b"ok")
    assert asked(waiting, "/readyz") == (503, b"waiting for Pod")


def test_one_in_trouble_is_neither() -> None:
    stuck = replace(FINE, trouble=lambda: "a plugin does not return")
    assert asked(stuck, "/livez") == (503, b"a plugin does not return")
    assert asked(stuck, "/readyz") == (503, b"a plugin does not return")


def test_metrics_are_text() -> None:
    assert asked(FINE, "/metrics") == (200, b"pumice_leading 1.0\n")


def test_a_saved_cycle_is_offered_only_when_asked_for() -> None:
    def soon() -> Future[bytes]:
        future: Future[bytes] = Future()
        threading.Timer(0.05, future.set_result, [b"a cycle"]).start()
        return future

    assert asked(FINE, "/debug/cycle")[0] == 404
    assert asked(replace(FINE, next_cycle=soon), "/debug/cycle") == (200, b"a cycle")


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with listening("127.0.0.1:0") as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=address):
            listening(address)


def report(**given: object) -> CycleReport:
    return CycleReport(0.0, "", [], {}, {}, {}, {}, {}, {("cycle", "total"): 0.003, ("open", "gang"): 0.001}, **given)  # type: ignore[arg-type]


def test_cycles_are_measured_under_volcanos_names() -> None:
    metrics = CycleMetrics()
    metrics.cycle(report(gauges={("queue_share", (("queue_name", "q"),)): 0.5}))
    text = metrics.text().decode()
    assert 'volcano_e2e_scheduling_latency_milliseconds_bucket{le="5.0"} 1.0' in text
    assert 'volcano_e2e_scheduling_latency_milliseconds_bucket{le="2.0"} 0.0' in text
    assert 'volcano_plugin_scheduling_latency_milliseconds_count{OnSession="OnSessionOpen",plugin="gang"} 1.0' in text
    assert 'volcano_queue_share{queue_name="q"} 0.5' in text


def test_counters_of_plugins_add_up_and_gauges_do_not() -> None:
    metrics = CycleMetrics()
    for value in (1.0, 2.0):
        metrics.cycle(report(gauges={("mine", ()): value}, counters={("pumice_seen_total", (("a", "b"),)): value}))
    text = metrics.text().decode()
    assert 'pumice_seen_total{a="b"} 3.0' in text
    assert "\nmine 2.0" in text


def test_a_cycle_that_does_not_end_in_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.kube.serving.WAIT", 0.05)
    asked_for: list[Future[bytes]] = []

    def never() -> Future[bytes]:
        asked_for.append(Future())
        return asked_for[-1]

    assert asked(replace(FINE, next_cycle=never), "/debug/cycle") == (503, b"no cycle ended within 0.05 s")
    assert asked_for[0].cancelled()


def test_a_replica_that_runs_no_cycles_says_why_at_once() -> None:
    def refused() -> Future[bytes]:
        raise NoAnswer("this replica does not lead, b does")

    def failed() -> Future[bytes]:
        future: Future[bytes] = Future()
        future.set_exception(OverflowError("too big"))
        return future

    assert asked(replace(FINE, next_cycle=refused), "/debug/cycle") == (503, b"this replica does not lead, b does")
    assert asked(replace(FINE, next_cycle=failed), "/debug/cycle") == (
        500,
        b"the cycle cannot be saved: OverflowError: too big",
    )


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_whose_headers_do_not_come_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedProtocol, "header_seconds", 0.1)

    async def story() -> bytes:
        opened = listening("127.0.0.1:0")
        task = asyncio.create_task(serve(opened, health_routes(FINE)))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", opened.getsockname()[1])
            writer.write(sent)
            async with asyncio.timeout(3):
                said = await reader.read()
            writer.close()
            return said
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    assert asyncio.run(story()) == b""
