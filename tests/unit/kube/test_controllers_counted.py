"""What controllers look at is counted by controller, and what waits is seen while it waits."""

from __future__ import annotations

import asyncio

import virtual_time
from prometheus_client.parser import text_string_to_metric_families
from scripted_api import until

from pumice.clock import ManualClock
from pumice.config.settings import CONTROLLERS as NAMES
from pumice.errors import PumiceError
from pumice.kube.controllers.running import ControllerMetrics
from pumice.kube.controllers.work import WorkQueue


def scraped(metrics: ControllerMetrics) -> dict[tuple[str, ...], float]:
    """Every series of ours: its name and the values of its labels."""
    return {
        (sample.name.removeprefix("pumice_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name.startswith("pumice_controller")
    }


def test_every_controller_has_its_series_from_the_start() -> None:
    expected: dict[tuple[str, ...], float] = {("controllers_leading",): 0.0}
    for name in NAMES:
        expected |= {("controller_queue_depth", name): 0.0, ("controller_last_success_timestamp_seconds", name): 0.0}
        expected |= {("controller_reconciles_total", name, result): 0.0 for result in ("done", "failed")}
    assert scraped(ControllerMetrics(NAMES, ManualClock(7.0))) == expected


def test_looks_are_counted_by_result_and_only_what_is_due_waits() -> None:
    async def run() -> None:
        clock, gate, failing = ManualClock(100.0), asyncio.Event(), {"bad"}

        async def look(key: str) -> None:
            await gate.wait()
            if key in failing:
                failing.remove(key)
                raise PumiceError("not now")

        metrics, queue = ControllerMetrics(NAMES, clock), WorkQueue("job", look, at_once=2)
        metrics.follow(queue)
        for key in ("bad", "a", "b", "c"):
            queue.add(key, 0)
        queue.add("later", 3600)
        assert scraped(metrics)["controller_queue_depth", "job"] == 4
        task = asyncio.create_task(queue.run())
        await until(lambda: scraped(metrics)["controller_queue_depth", "job"] == 2)
        gate.set()
        await until(lambda: scraped(metrics)["controller_reconciles_total", "job", "done"] == 4)
        found = scraped(metrics)
        assert found["controller_reconciles_total", "job", "failed"] == 1
        assert found["controller_queue_depth", "job"] == 0
        assert found["controller_last_success_timestamp_seconds", "job"] == 100.0
        assert {value for key, value in found.items() if key[1:2] in (("queue",), ("podgroup",))} == {0.0}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(run())


def test_a_failure_is_no_success() -> None:
    async def run() -> None:
        async def look(_: str) -> None:
            raise PumiceError("never")

        metrics, queue = ControllerMetrics(["queue"], ManualClock(5.0)), WorkQueue("queue", look)
        metrics.follow(queue)
        queue.add("a", 0)
        task = asyncio.create_task(queue.run())
        await until(lambda: scraped(metrics)["controller_reconciles_total", "queue", "failed"] >= 3)
        assert scraped(metrics)["controller_last_success_timestamp_seconds", "queue"] == 0
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(run())
