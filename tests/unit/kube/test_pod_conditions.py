"""Conditions of pods that fit nowhere: once, again when the reason changes, and not too often."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pumice.engine.diagnosis import FitError
from pumice.framework.session.outcome import Refusal, Stage
from pumice.kube.statuses import AGAIN, AGAIN_REFUSED, MANY, PodConditions
from pumice.model.api import Condition, Metadata, Pod, PodGroup, PodGroupSpec, PodSpec, PodStatus, QueueObject
from pumice.model.events import Seen
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState


def cluster(*conditions: Condition, pods: int = 2) -> ClusterState:
    state = ClusterState()
    state.apply(Seen(QueueObject(metadata=Metadata(name="default"))))
    state.apply(Seen(PodGroup(metadata=Metadata(name="g", namespace="ns"), spec=PodGroupSpec(min_member=1))))
    for i in range(pods):
        add_pod(state, i, *conditions)
    return state


def add_pod(state: ClusterState, number: int, *conditions: Condition) -> None:
    meta = Metadata(
        name=f"p{number}", namespace="ns", uid=f"u{number}", annotations={"scheduling.k8s.io/group-name": "g"}
    )
    state.apply(Seen(Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase="Pending", conditions=(*conditions,)))))


def cycle(text: str = "") -> CycleReport:
    errors = {"ns/g": {"u0": FitError(text=text)}} if text else {}
    return CycleReport(0.0, "", [], {}, errors, {}, {}, {}, {})


def test_every_pending_pod_of_the_job_is_told() -> None:
    found = PodConditions().updates(cycle("no room"), cluster())
    assert [(u.kind, u.key, u.status["conditions"][0]["message"]) for u in found] == [
        ("Pod", "ns/p0", "no room"),
        ("Pod", "ns/p1", "no room"),
    ]
    assert found[0].status["conditions"][0]["reason"] == "Unschedulable"


def test_pods_of_a_job_that_was_refused_with_others_of_its_class_are_told() -> None:
    report = cycle()
    report.refusals = {"ns/g": Refusal(Stage.NODES, error=FitError(text="no room"))}
    assert [u.status["conditions"][0]["message"] for u in PodConditions().updates(report, cluster())] == ["no room"] * 2


@pytest.mark.parametrize("stage", sorted(set(Stage) - {Stage.ABSENT, Stage.UNSEEN, Stage.SERVED, Stage.NODES}))
def test_pods_that_are_refused_before_any_node_say_so_without_calling_an_autoscaler(stage: Stage) -> None:
    report = cycle()
    report.refusals = {"ns/g": Refusal(stage, "above its share", "capacity")}
    found = [u.status["conditions"][0] for u in PodConditions().updates(report, cluster())]
    assert [(c["reason"], c["message"]) for c in found] == [(stage.code, "above its share (capacity)")] * 2
    assert stage.code != "Unschedulable"


def test_pods_for_which_room_is_being_made_are_not_told_that_they_wait() -> None:
    report = cycle()
    report.refusals = {"ns/g": Refusal(Stage.READY, "2 of 2 wait for room")}
    report.pipelined = {"ns/g": {"ns/p0": "n1"}}
    assert PodConditions().updates(report, cluster()) == []


def test_refused_jobs_have_their_turn_and_numbers_that_change_are_not_written_with_every_cycle() -> None:
    state, conditions = cluster(), PodConditions()
    for number in range(MANY + 5):
        group = PodGroup(metadata=Metadata(name=f"g{number}", namespace="ns"), spec=PodGroupSpec(min_member=1))
        state.apply(Seen(group))
        meta = Metadata(
            name=f"q{number}",
            namespace="ns",
            uid=f"q{number}",
            annotations={"scheduling.k8s.io/group-name": f"g{number}"},
        )
        state.apply(Seen(Pod(metadata=meta, spec=PodSpec(), status=PodStatus(phase="Pending"))))
    report = cycle()
    counts = []
    for number in range(4):
        report.refusals = {f"ns/g{n}": Refusal(Stage.QUEUE, f"it holds {number} of 9") for n in range(MANY + 5)}
        state.now += AGAIN_REFUSED / 10
        counts.append(len(conditions.updates(report, state)))
    assert counts == [MANY, 5, 0, 0]
    state.now += AGAIN_REFUSED
    assert len(conditions.updates(report, state)) == MANY


def test_a_pod_that_says_so_already_is_left_alone() -> None:
    there = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
    assert PodConditions().updates(cycle("no room"), cluster(there)) == []


def test_another_reason_keeps_the_time_since_which_the_pod_waits() -> None:
    since = datetime(2024, 5, 1, tzinfo=UTC)
    there = Condition(type="PodScheduled", status="False", reason="Other", message="x", last_transition_time=since)
    found = PodConditions().updates(cycle("no room"), cluster(there))
    assert found[0].status["conditions"][0]["lastTransitionTime"] == "2024-05-01T00:00:00Z"


def test_a_reason_that_changes_is_told_after_a_while_and_a_new_pod_at_once() -> None:
    conditions, state = PodConditions(), cluster()
    state.now = 100.0
    assert len(conditions.updates(cycle("no room"), state)) == 2
    state.now += AGAIN / 2
    assert conditions.updates(cycle("another reason"), state) == []
    add_pod(state, 2)
    assert len(conditions.updates(cycle("another reason"), state)) == 3
    state.now += AGAIN
    assert len(conditions.updates(cycle("a third reason"), state)) == 3


def test_a_cycle_in_which_everything_fits_says_nothing() -> None:
    assert PodConditions().updates(cycle(), cluster()) == []
