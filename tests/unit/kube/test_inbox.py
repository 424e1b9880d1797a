"""The inbox: a barrier at the start, and who ends a wait."""

from __future__ import annotations

from pumice.kube.watching import Inbox
from pumice.model.api import Metadata, NodeObject, Pod, PodGroup, PodGroupSpec, PodGroupStatus, PodSpec, PodStatus
from pumice.model.events import BindFailed, Gone, Seen

NODE = Seen(NodeObject(metadata=Metadata(name="n")))
POD = Seen(Pod(metadata=Metadata(name="p", namespace="ns"), status=PodStatus(phase="Pending")))
BOUND = Seen(Pod(metadata=Metadata(name="p", namespace="ns"), spec=PodSpec(node_name="n")))


def test_nothing_comes_out_before_every_kind_was_listed() -> None:
    inbox = Inbox(["Node", "Pod"])
    inbox.first("Pod", [POD])
    assert (inbox.drain(), inbox.missing, inbox.synced.is_set()) == ([], ["Node"], False)
    inbox.first("Node", [NODE])
    assert inbox.synced.is_set()
    assert inbox.drain() == [NODE, POD]


def test_what_happens_during_the_first_lists_comes_after_them() -> None:
    inbox = Inbox(["Node", "Pod"])
    inbox.first("Pod", [POD])
    inbox.put([BOUND])
    inbox.first("Node", [NODE])
    assert inbox.drain() == [NODE, POD, BOUND]


def test_an_empty_cluster_is_complete_too() -> None:
    inbox = Inbox(["Node"])
    inbox.first("Node", [])
    assert inbox.synced.is_set()
    assert inbox.drain() == []


def test_a_wait_ends_for_what_can_change_a_decision() -> None:
    inbox = Inbox([])
    inbox.synced.set()
    for event, wakes in ((POD, True), (BOUND, False), (Gone("Pod", "ns/p"), True), (NODE, True)):
        inbox.drain()
        inbox.put([event])
        assert inbox.wait(0) is wakes, event


def test_a_failed_bind_is_tried_again_with_the_next_period_not_at_once() -> None:
    inbox = Inbox([])
    inbox.synced.set()
    failed = BindFailed("ns/p", "u", "no")
    inbox.put([failed])
    assert inbox.wait(0) is False
    assert inbox.drain() == [failed]


def test_a_status_that_comes_back_does_not_end_a_wait_but_a_changed_wish_does() -> None:
    def seen(phase: str = "", members: int = 1, **meta: dict[str, str]) -> Seen:
        about = Metadata(name="g", namespace="ns", **meta)  # type: ignore[arg-type]
        return Seen(PodGroup(about, PodGroupSpec(min_member=members), PodGroupStatus(phase=phase)))

    inbox = Inbox(["PodGroup"])
    inbox.first("PodGroup", [seen()])
    for event, wakes in (
        (seen("Inqueue"), False),
        (seen("Running"), False),
        (seen("Running", 2), True),
        (seen("Running", 2, annotations={"a": "b"}), True),
        (seen("Running", 2, annotations={"a": "b"}), False),
        (Gone("PodGroup", "ns/g"), True),
        (seen("Running", 2), True),
    ):
        inbox.drain()
        inbox.put([event])
        assert inbox.wait(0) is wakes, event
        assert inbox.drain() == [event]
