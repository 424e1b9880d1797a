"""Waiting jobs: those that share a class are passed over together only where the class alone decides."""

from __future__ import annotations

from pumice import Arguments, Job, Node, Plugin, Scope, Task, Unfit, scope
from pumice.testing import Scenario


class WantsPool(Plugin):
    """Keeps a job in the pool that its annotation names."""

    name = "wants-pool"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    @scope(Scope.STATIC)
    def predicate(self, task: Task, node: Node) -> None:
        if node.labels.get("pool") != task.job.annotations.get("pool"):
            raise Unfit("another pool")


def test_a_job_is_not_refused_for_what_an_equal_looking_job_asked(scenario: Scenario) -> None:
    """Equal requests, but the first job asks for a pool that does not exist."""
    scenario.node("n1", cpu=4, labels={"pool": "b"})
    scenario.job("first", annotations={"pool": "a"})
    scenario.job("second", annotations={"pool": "b"})
    scenario.job("third", annotations={"pool": "b"})
    scenario.run(plugins=["gang", WantsPool])
    scenario.assert_pending("first", because="another pool")
    scenario.assert_bound("second", to="n1")
    scenario.assert_bound("third", to="n1")


def test_jobs_that_fit_nowhere_do_not_hold_up_others(scenario: Scenario) -> None:
    scenario.node("n1", cpu=2)
    for n in range(5):
        scenario.job(f"huge{n}", cpu=8)
    scenario.job("small", cpu=1)
    scenario.run(plugins=["gang"])
    scenario.assert_bound("small", to="n1")
    for n in range(5):
        scenario.assert_pending(f"huge{n}", because="Insufficient cpu")


def test_a_small_gang_of_a_class_fits_where_a_big_one_of_it_does_not(scenario: Scenario) -> None:
    scenario.node("n1", cpu=3)
    scenario.job("big", tasks=4, min_available=4, cpu=1)
    scenario.job("little", tasks=2, min_available=2, cpu=1)
    scenario.run(plugins=["gang"])
    scenario.assert_pending("big")
    scenario.assert_bound("little", to="n1")


def test_a_waiting_job_is_served_when_room_appears_cycles_later(scenario: Scenario) -> None:
    scenario.node("n1", cpu=1).job("first", on="n1")
    for n in range(3):
        scenario.job(f"later{n}", cpu=1)
    scenario.run(plugins=["gang"])
    scenario.run()
    scenario.finish("first-0").run()
    scenario.assert_bound("later0", to="n1")
    scenario.assert_pending("later1", because="Insufficient cpu")


def test_a_reservation_does_not_hide_jobs_that_ask_for_another_pool(scenario: Scenario) -> None:
    """easybackfill: equal requests, but the first job behind the reservation asks for a pool that does not exist."""
    scenario.node("n1", cpu=4, labels={"pool": "b"})
    scenario.job("running", cpu=3, on="n1", annotations={"pool": "b", "pumice.dev/run-time": "1h"})
    scenario.job("wide", cpu=4, annotations={"pool": "b", "pumice.dev/run-time": "1h"})
    for name, pool in (("lost", "a"), ("short", "b"), ("later", "b")):
        scenario.job(name, cpu=1, annotations={"pool": pool, "pumice.dev/run-time": "1m"})
    scenario.run(actions=["easybackfill"], plugins=["gang", WantsPool])
    scenario.assert_pending("wide")
    scenario.assert_pending("lost")
    scenario.assert_bound("short", to="n1")


def test_a_gang_that_cannot_fit_as_a_whole_says_how_much_of_it_would(scenario: Scenario) -> None:
    """Five could be placed one by one; all nodes are full then, and the sixth has no place."""
    scenario.node("n1", cpu=3).node("n2", cpu=3, memory="2Gi")
    scenario.job("big", tasks=7, min_available=7, cpu=1, memory="1Gi")
    scenario.run(plugins=["gang"])
    scenario.assert_pending("big", because="5 of 7 required tasks have a place")
    scenario.assert_pending("big", because="0/2 nodes are unavailable: 1 Insufficient cpu, 1 Insufficient memory")


class WaitsWithLess(Plugin):
    """Lets every job keep what it was given."""

    name = "waits-with-less"

    def job_pipelined(self, job: Job) -> int:
        return 1


def test_a_gang_is_tried_where_a_plugin_lets_it_wait_with_less(scenario: Scenario) -> None:
    """It holds what it can get: nobody behind it takes the room."""
    scenario.node("n1", cpu=3)
    scenario.job("big", tasks=4, min_available=4, cpu=1)
    scenario.job("little", tasks=2, min_available=2, cpu=1)
    scenario.run(plugins=[[WaitsWithLess], ["gang"]])
    scenario.assert_pending("big")
    scenario.assert_pending("little")
