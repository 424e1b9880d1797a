"""What a job's own objects say of why it waits, for whom no scheduler answers."""

from __future__ import annotations

from msgspec.structs import replace

from pumice.answers.jobs import ToldEvent, why_of_objects
from pumice.answers.why import WhyAnswer
from pumice.framework.explaining.explain import Stage
from pumice.model.api import Condition, Pod, PodGroup, QueueStatus
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState
from pumice.testing import job, queue
from pumice.testing.world import flat


def said(
    group: list[Condition] | None = None,
    pod: list[Condition] | None = None,
    events: list[ToldEvent] | None = None,
    on: str = "",
) -> WhyAnswer:
    state = ClusterState()
    stands = queue("default", capability={"cpu": 8})
    state.apply(Seen(replace(stands, status=QueueStatus(state="Open", allocated={"cpu": "6"}))))
    for obj in flat([job("j", tasks=2, cpu=1, on=on or ())]):
        if isinstance(obj, PodGroup):
            obj = replace(obj, status=replace(obj.status, conditions=group))
        elif isinstance(obj, Pod):
            obj = replace(obj, status=replace(obj.status, conditions=pod))
        state.apply(Seen(obj))
    return why_of_objects(state, state.jobs["default/j"], events=events or [], unseen=["the scheduler: none"])


def condition(kind: str, status: str, reason: str, message: str) -> list[Condition]:
    return [Condition(type=kind, status=status, reason=reason, message=message)]


def test_a_job_that_is_not_let_in_says_so_in_its_condition() -> None:
    why = said(group=condition("Admitted", "False", "NotLetIn", "not let into queue default: 6 of 8 cpu"))
    assert (why.explanation.stage, why.explanation.code) == (Stage.ENQUEUE, "NotLetIn")
    assert why.explanation.text.endswith("6 of 8 cpu")


def test_pods_say_what_stops_their_job() -> None:
    why = said(pod=condition("PodScheduled", "False", "Unschedulable", "fits on none of 3 nodes"))
    assert (why.explanation.stage, why.explanation.code) == (Stage.NODES, "NoNodeFits")
    assert why.explanation.text == "j-0: fits on none of 3 nodes"
    why = said(pod=condition("PodScheduled", "False", "QueueRefused", "holds 6 of 8"))
    assert (why.explanation.stage, why.explanation.code) == (Stage.QUEUE, "QueueRefused")


def test_else_the_group_or_the_newest_warning_says_it_and_else_nothing_does() -> None:
    why = said(group=condition("Unschedulable", "True", "NotEnoughResources", "2/2 tasks in gang unschedulable"))
    assert (why.explanation.stage, why.explanation.code) == (Stage.READY, "NotEnoughResources")
    events = [
        ToldEvent("j", "Old", "long ago"),
        ToldEvent("j-1", "EvictionRefused", "the budget"),
        ToldEvent("j", "X", "y", False),
    ]
    why = said(events=events)
    assert (why.explanation.code, why.explanation.text) == ("EvictionRefused", "j-1: the budget")
    assert said().explanation.text == "its objects do not say why"


def test_what_was_not_seen_is_named_and_the_queue_stands_as_its_status_says() -> None:
    why = said()
    assert why.source == "objects"
    assert why.unseen == ["the scheduler: none", "its place in the queue", "what would let it start sooner"]
    assert why.standing is not None
    assert [(s.resource, s.allocated, s.capability) for s in why.standing.shares] == [("cpu", 6, 8)]


def test_a_job_that_runs_is_served() -> None:
    assert said(on="n1").explanation.stage is Stage.SERVED
