"""Each action alone, on a cluster of a few objects and with plugins of one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumice import Action, Session, Task, Unfit, reject
from pumice.actions.allocate import Allocate
from pumice.actions.backfill import Backfill
from pumice.actions.easy import EasyBackfill, reserve
from pumice.actions.enqueue import Enqueue
from pumice.actions.gangpreempt import GangPreempt
from pumice.actions.gangreclaim import GangReclaim
from pumice.actions.preempt import Preempt
from pumice.actions.reclaim import Reclaim
from pumice.actions.shuffle import Shuffle
from pumice.framework.registry import default_registry
from pumice.framework.session.nominations import Nomination, hold_rooms
from pumice.model.intents import Bind, Evict
from pumice.model.keys import RUN_TIME_ANNOTATION
from pumice.model.status import JobPhase, TaskStatus
from pumice.testing import cluster, job, node, queue, session, task_of
from pumice.testing.world import Given

S = TaskStatus
WAITS = "Inqueue"
TESTED = {Allocate, Backfill, EasyBackfill, Enqueue, GangPreempt, GangReclaim, Preempt, Reclaim, Shuffle}


def ran(action: type[Action], *objects: Given, plugins: Callable[[Session], object] | None = None) -> Session:
    """A session in which the action has been executed once."""
    ssn = session(*objects)
    if plugins is not None:
        plugins(ssn)
    action().execute(ssn)
    return ssn


def binds(ssn: Session) -> dict[str, str]:
    return {i.pod.removeprefix("default/"): i.node for i in ssn.outcome.intents if isinstance(i, Bind)}


def evicted(ssn: Session) -> list[str]:
    return [i.pod.removeprefix("default/") for i in ssn.outcome.intents if isinstance(i, Evict)]


def why(ssn: Session, name: str) -> tuple[str, str]:
    refusal = ssn.outcome.refusals.get(f"default/{name}")
    return (refusal.stage.value, refusal.text) if refusal is not None else ("", "")


def gang(ssn: Session) -> None:
    """A job is ready with as many tasks as it needs, and starves until then."""
    ssn.add_job_ready_fn("p", lambda job: job.ready_count >= job.min_available)
    ssn.add_job_pipelined_fn("p", lambda job: job.waiting_count + job.ready_count >= job.min_available)
    ssn.add_job_starving_fn("p", lambda job: job.waiting_count + job.ready_count < job.min_available)


def test_every_action_that_is_built_in_is_tested_here() -> None:
    ours = {action for name, action in default_registry().actions.items() if not name.startswith("kai")}
    assert ours == TESTED


# -- enqueue ----------------------------------------------------------------------------------------------------------
def test_enqueue_lets_in_whom_nobody_objects_to_and_says_why_the_others_wait() -> None:
    def plugins(ssn: Session) -> None:
        ssn.add_job_enqueueable_fn("p", lambda job: reject("too wide") if len(job.tasks) > 1 else None)

    objects = (cluster("1x4cpu"), job("wide", tasks=2, phase="Pending"), job("small", phase="Pending"))
    ssn = ran(Enqueue, *objects, plugins=plugins)
    assert {name: ssn.jobs[f"default/{name}"].phase for name in ("small", "wide")} == {
        "small": JobPhase.INQUEUE,
        "wide": JobPhase.PENDING,
    }
    assert why(ssn, "wide") == ("enqueue", "too wide")
    assert why(ssn, "small") == ("", "")


def test_enqueue_tells_the_plugins_whom_it_let_in_in_order() -> None:
    let_in: list[str] = []

    def plugins(ssn: Session) -> None:
        ssn.add_job_order_fn("p", lambda a, b: (a.name < b.name) - (a.name > b.name))
        ssn.add_job_enqueued_fn("p", lambda job: let_in.append(job.name))

    ran(Enqueue, *(job(name, phase="Pending") for name in "abc"), job("d", phase=WAITS), plugins=plugins)
    assert let_in == ["c", "b", "a"]


# -- allocate ---------------------------------------------------------------------------------------------------------
def test_allocate_places_a_gang_whole_or_not_at_all() -> None:
    objects = (cluster("1x4cpu"), job("big", tasks=5, phase=WAITS), job("fits", tasks=4, phase=WAITS))
    ssn = ran(Allocate, *objects, plugins=gang)
    assert sorted(binds(ssn)) == ["fits-0", "fits-1", "fits-2", "fits-3"]
    assert {t.status for t in ssn.jobs["default/big"].tasks.values()} == {S.PENDING}


def test_allocate_leaves_alone_who_is_not_valid_and_who_asks_for_nothing() -> None:
    def plugins(ssn: Session) -> None:
        ssn.add_job_valid_fn("p", lambda job: reject("not him") if job.name == "invalid" else None)

    objects = (job("invalid", phase=WAITS), job("nothing", cpu=0, phase=WAITS))
    ssn = ran(Allocate, cluster("1x4cpu"), *objects, plugins=plugins)
    assert binds(ssn) == {}
    assert why(ssn, "invalid")[1] == "not him"


def test_allocate_serves_queues_and_jobs_in_order_and_surplus_tasks_one_by_one() -> None:
    def plugins(ssn: Session) -> None:
        gang(ssn)
        ssn.add_job_order_key_fn("p", lambda job: (job.ready_count, job.name))

    elastic: dict[str, Any] = {"tasks": 3, "min_available": 1, "phase": WAITS}
    ssn = ran(Allocate, cluster("1x4cpu"), job("a", **elastic), job("b", **elastic), plugins=plugins)
    assert sorted(binds(ssn)) == ["a-0", "a-1", "b-0", "b-1"]


def test_allocate_in_a_fifo_queue_serves_nobody_behind_one_that_must_wait() -> None:
    def plugins(ssn: Session) -> None:
        gang(ssn)
        ssn.add_job_order_fn("p", lambda a, b: (a.name > b.name) - (a.name < b.name))

    for strategy, bound in (("fifo", {}), ("traverse", {"later-0": "node-0"})):
        lines = queue("line", dequeue_strategy=strategy)
        first = job("big", cpu=8, queue="line", phase=WAITS)
        ssn = ran(Allocate, cluster("1x4cpu"), lines, first, job("later", queue="line", phase=WAITS), plugins=plugins)
        assert binds(ssn) == bound
        assert ("strict FIFO" in why(ssn, "later")[1]) is (strategy == "fifo")


def test_allocate_promises_room_that_is_being_released_and_binds_nothing_there() -> None:
    ssn = session(node("n", cpu=4), job("leaving", cpu=4, on="n"), job("next", cpu=2, phase=WAITS))
    gang(ssn)
    ssn.statement().evict(task_of(ssn, "leaving-0"), "test")
    Allocate().execute(ssn)
    assert task_of(ssn, "next-0").status is S.PIPELINED
    assert binds(ssn) == {}
    assert why(ssn, "next")[0] == "ready"


# -- backfill ---------------------------------------------------------------------------------------------------------
def test_backfill_places_tasks_that_ask_for_nothing_and_no_others() -> None:
    ssn = ran(Backfill, node("n", cpu=1), job("nothing", tasks=3, cpu=0, phase=WAITS), job("asks", phase=WAITS))
    assert binds(ssn) == {f"nothing-{n}": "n" for n in range(3)}


def test_backfill_keeps_back_what_its_job_cannot_start_with() -> None:
    room = node("n", cpu=1, pods=2)

    def full(ssn: Session) -> None:
        gang(ssn)

        def slots(task: Task, at: Any) -> None:
            if len(at.tasks) >= 2:
                raise Unfit("no slot")

        ssn.add_predicate_fn("p", slots)

    ssn = ran(Backfill, room, job("three", tasks=3, cpu=0, phase=WAITS), plugins=full)
    assert binds(ssn) == {}
    assert why(ssn, "three")[0] == "ready"


# -- easybackfill -----------------------------------------------------------------------------------------------------
def lasting(name: str, seconds: int, **options: Any) -> Given:
    return job(name, annotations={RUN_TIME_ANNOTATION: f"{seconds}s"}, phase=options.pop("phase", WAITS), **options)


def in_order(ssn: Session) -> None:
    gang(ssn)
    ssn.add_job_order_fn("p", lambda a, b: (a.name > b.name) - (a.name < b.name))


def test_easybackfill_lets_a_job_past_only_where_it_does_not_delay_the_first_that_waits() -> None:
    """Room for *a* comes after 100 s: *b* is over by then, *c* is not, *d* fits beside it."""
    ssn = ran(
        EasyBackfill,
        node("n", cpu=8),
        lasting("running", 100, cpu=4, on="n", phase="Running"),
        lasting("a", 50, cpu=7),
        lasting("b", 90, cpu=1),
        lasting("c", 500, cpu=2),
        lasting("d", 500, cpu=1),
        plugins=in_order,
    )
    assert sorted(binds(ssn)) == ["b-0", "d-0"]
    assert why(ssn, "c")[1] == "would delay default/a, which has a reservation"


def test_easybackfill_reserves_the_earliest_time_and_nothing_where_no_time_is_known() -> None:
    ssn = session(
        node("n", cpu=8),
        lasting("soon", 100, cpu=3, on="n", phase="Running"),
        lasting("late", 300, cpu=3, on="n", phase="Running"),
        job("ever", cpu=1, on="n"),
        *(lasting(f"asks{cpu}", 10, cpu=cpu) for cpu in (4, 7, 8)),
    )
    held = {cpu: reserve(ssn, ssn.jobs[f"default/asks{cpu}"]) for cpu in (4, 7, 8)}
    assert held[8] is None
    assert [r.at for r in held.values() if r is not None] == [100.0, 300.0]


def test_easybackfill_gives_a_job_the_room_that_was_freed_for_it_beside_any_reservation() -> None:
    """Six CPUs are reserved for *a* after 100 s: the two that are held for *c* were never among them."""

    def plugins(ssn: Session) -> None:
        in_order(ssn)
        ssn.runtime.nominations["default/c-0"] = Nomination("n", 120.0, frozenset())
        hold_rooms(ssn)

    running = lasting("running", 100, cpu=4, on="n", phase="Running")
    waiting = lasting("a", 50, cpu=6), lasting("b", 500, cpu=2), lasting("c", 500, cpu=2)
    ssn = ran(EasyBackfill, node("n", cpu=8), running, *waiting, plugins=plugins)
    assert sorted(binds(ssn)) == ["c-0"]
    assert why(ssn, "b")[1] == "would delay default/a, which has a reservation"


def test_easybackfill_reserves_no_room_for_a_job_that_lacks_none() -> None:
    """Its queue may not take *a*: that is no reason to keep idle room from *b* for ever."""

    def plugins(ssn: Session) -> None:
        in_order(ssn)
        ssn.add_allocatable_fn("p", lambda queue, task: reject("too much") if task.job.name == "a" else None)

    ssn = ran(EasyBackfill, node("n", cpu=8), lasting("a", 50, cpu=6), lasting("b", 500, cpu=8), plugins=plugins)
    assert sorted(binds(ssn)) == ["b-0"]


# -- preempt ----------------------------------------------------------------------------------------------------------
def lower_first(ssn: Session) -> None:
    """Lower priority gives way, and goes after."""
    gang(ssn)
    ssn.add_job_order_fn("p", lambda a, b: b.priority - a.priority)
    ssn.add_preemptable_fn("p", lambda task, victims: [v for v in victims if v.priority < task.priority])
    ssn.add_reclaimable_fn("p", lambda task, victims: victims)
    ssn.add_unified_evictable_fn("p", lambda context, victims: victims)


def test_preempt_evicts_for_a_starving_job_of_its_queue_and_promises_it_the_room() -> None:
    low = job("low", tasks=4, min_available=1, priority=1, on="n")
    ssn = ran(Preempt, node("n", cpu=4), low, job("high", tasks=2, priority=9, phase=WAITS), plugins=lower_first)
    assert len(evicted(ssn)) == 2
    assert {task_of(ssn, f"high-{n}").status for n in range(2)} == {S.PIPELINED}


def test_preempt_evicts_nobody_where_the_gang_would_not_start_and_nobody_of_another_queue() -> None:
    low = job("low", tasks=4, min_available=1, priority=1, on="n")
    for other in (
        job("high", tasks=5, priority=9, phase=WAITS),
        job("high", tasks=2, priority=9, queue="other", phase=WAITS),
        job("high", tasks=2, priority=1, phase=WAITS),
    ):
        ssn = ran(Preempt, node("n", cpu=4), queue("other"), low, other, plugins=lower_first)
        assert evicted(ssn) == []
        assert task_of(ssn, "high-0").status is S.PENDING
        assert task_of(ssn, "low-0").status is S.RUNNING


# -- reclaim ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("action", [Reclaim, GangReclaim])
def test_reclaim_takes_from_queues_that_may_be_reclaimed_from_for_one_that_is_not_overused(
    action: type[Action],
) -> None:
    def world(**options: Any) -> list[Given]:
        theirs = queue("theirs", reclaimable=options.get("reclaimable"))
        low = job("low", tasks=4, min_available=1, queue="theirs", on="n")
        ours = queue("ours", reclaimable=False)  # else the two could take turns where no plugin says what they deserve
        return [node("n", cpu=4), ours, theirs, low, job("new", tasks=2, queue="ours", phase=WAITS)]

    def overused(ssn: Session) -> None:
        lower_first(ssn)
        ssn.add_overused_fn("p", lambda queue: queue.name == "ours")

    assert len(evicted(ran(action, *world(), plugins=lower_first))) == 2
    assert evicted(ran(action, *world(reclaimable=False), plugins=lower_first)) == []
    assert evicted(ran(action, *world(), plugins=overused)) == []


def test_reclaim_evicts_nobody_for_its_own_queue() -> None:
    low = job("low", tasks=4, min_available=1, on="n")
    ssn = ran(Reclaim, node("n", cpu=4), low, job("new", tasks=2, phase=WAITS), plugins=lower_first)
    assert evicted(ssn) == []


# -- gangpreempt ------------------------------------------------------------------------------------------------------
def test_gangpreempt_takes_what_gangs_can_spare_before_whole_gangs() -> None:
    """One gang of three that needs three, one of three that needs one: two places cost the second one two tasks."""
    ssn = ran(
        GangPreempt,
        node("n", cpu=6),
        job("whole", tasks=3, priority=1, on="n"),
        job("elastic", tasks=3, min_available=1, priority=1, on="n"),
        job("high", tasks=2, priority=9, phase=WAITS),
        plugins=lower_first,
    )
    assert sorted({name.rpartition("-")[0] for name in evicted(ssn)}) == ["elastic"]
    assert len(evicted(ssn)) == 2


def test_gangpreempt_takes_a_whole_gang_rather_than_leave_half_of_it() -> None:
    ssn = ran(
        GangPreempt,
        node("n", cpu=3),
        job("whole", tasks=3, priority=1, on="n"),
        job("high", tasks=1, priority=9, phase=WAITS),
        plugins=lower_first,
    )
    assert sorted(evicted(ssn)) == ["whole-0", "whole-1", "whole-2"]


# -- shuffle ----------------------------------------------------------------------------------------------------------
def test_shuffle_evicts_the_running_tasks_that_a_plugin_names_and_asks_about_no_others() -> None:
    asked: list[str] = []

    def plugins(ssn: Session) -> None:
        def wanted(tasks: list[Task]) -> list[Task]:
            asked.extend(t.name for t in tasks)
            return [t for t in tasks if t.name == "a-1"]

        ssn.add_victim_tasks_fn("p", wanted)

    ssn = ran(Shuffle, node("n", cpu=4), job("a", tasks=2, on="n"), job("b", phase=WAITS), plugins=plugins)
    assert evicted(ssn) == ["a-1"]
    assert sorted(asked) == ["a-0", "a-1"]


def test_shuffle_does_nothing_where_nobody_names_victims() -> None:
    ssn = ran(Shuffle, node("n", cpu=4), job("a", tasks=2, on="n"))
    assert ssn.outcome.intents == []
