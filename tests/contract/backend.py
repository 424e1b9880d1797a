"""What every backend must do, as tests. A backend's test module derives a class and gives the `backend` fixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pumice.model.api import Pod, PodGroup
from pumice.model.codes import ReasonCode
from pumice.model.events import BindFailed, ClusterEvent, Gone, Seen
from pumice.model.intents import Bind, Evict, Nominate, Note, StatusUpdate
from pumice.ports import EventSource, IntentSink


class Backend(EventSource, IntentSink, Protocol):
    """A backend under test with the few handles that a test needs."""

    def have(self, *, nodes: int, pods: int) -> list[Pod]:
        """A cluster of *nodes* nodes ``node-0`` … and one PodGroup ``job`` with *pods* waiting pods, all told."""
        ...

    def settle(self) -> None:
        """Wait until everything that was submitted has been carried out."""
        ...


class BackendContract:
    """The contract of `EventSource` and `IntentSink`."""

    def test_events_are_told_once_and_draining_never_waits(self, backend: Backend) -> None:
        backend.have(nodes=1, pods=1)
        backend.settle()
        list(backend.drain())
        assert list(backend.drain()) == []

    def test_a_bound_pod_is_seen_on_its_node(self, backend: Backend) -> None:
        pod = backend.have(nodes=2, pods=1)[0]
        backend.submit([Bind(pod.key, pod.metadata.uid, "node-1", "default/job")])
        assert _last(backend, pod.key).spec.node_name == "node-1"

    def test_the_annotations_of_a_bind_are_on_the_pod(self, backend: Backend) -> None:
        pod = backend.have(nodes=1, pods=1)[0]
        backend.submit([Bind(pod.key, pod.metadata.uid, "node-0", "default/job", {"pumice.dev/gpus": "1,3"})])
        assert (_last(backend, pod.key).metadata.annotations or {})["pumice.dev/gpus"] == "1,3"

    def test_a_second_bind_of_a_pod_fails(self, backend: Backend) -> None:
        pod = backend.have(nodes=2, pods=1)[0]
        backend.submit([Bind(pod.key, pod.metadata.uid, "node-0", "default/job")])
        backend.settle()
        backend.submit([Bind(pod.key, pod.metadata.uid, "node-1", "default/job")])
        failed = _events(backend, lambda e: isinstance(e, BindFailed))
        assert [(e.pod, e.uid) for e in failed if isinstance(e, BindFailed)] == [(pod.key, pod.metadata.uid)]

    def test_a_bind_of_a_pod_that_is_not_there_fails(self, backend: Backend) -> None:
        backend.have(nodes=1, pods=1)
        backend.submit([Bind("default/ghost", "no-such-uid", "node-0", "default/job")])
        failed = _events(backend, lambda e: isinstance(e, BindFailed))
        assert [e.pod for e in failed if isinstance(e, BindFailed)] == ["default/ghost"]

    def test_every_bind_of_a_batch_has_an_outcome(self, backend: Backend) -> None:
        pods = backend.have(nodes=3, pods=9)
        backend.submit([Bind(p.key, p.metadata.uid, f"node-{n % 3}", "default/job") for n, p in enumerate(pods)])
        placed = {e.object.key for e in _events(backend, _is_placed) if isinstance(e, Seen)}
        assert placed == {p.key for p in pods}

    def test_an_evicted_pod_terminates_and_is_gone(self, backend: Backend) -> None:
        pod = backend.have(nodes=1, pods=1)[0]
        backend.submit([Bind(pod.key, pod.metadata.uid, "node-0", "default/job")])
        backend.settle()
        backend.submit([Evict(pod.key, pod.metadata.uid, "node-0", "preempt", "default/job")])
        events = _events(backend, lambda e: _about(e, pod.key))
        gone = events.index(Gone("Pod", pod.key))
        terminating = [e for e in events[:gone] if isinstance(e, Seen) and e.object.metadata.deletion_timestamp]
        assert terminating

    def test_a_nomination_is_seen_on_the_pod(self, backend: Backend) -> None:
        pod = backend.have(nodes=1, pods=1)[0]
        backend.submit([Nominate(pod.key, pod.metadata.uid, "node-0")])
        assert _last(backend, pod.key).status.nominated_node_name == "node-0"

    def test_a_status_update_is_seen_on_the_pod_group_and_keeps_other_conditions(self, backend: Backend) -> None:
        backend.have(nodes=1, pods=1)
        for kind in ("Scheduled", "Unschedulable"):
            said = {"type": kind, "status": "True", "reason": "Because", "message": ""}
            backend.submit([StatusUpdate("PodGroup", "default/job", {"phase": "Inqueue", "conditions": [said]})])
            backend.settle()
        groups = [e.object for e in backend.drain() if isinstance(e, Seen) and isinstance(e.object, PodGroup)]
        assert groups[-1].status.phase == "Inqueue"
        assert [c.type for c in groups[-1].status.conditions or ()] == ["Scheduled", "Unschedulable"]

    def test_a_note_changes_no_object(self, backend: Backend) -> None:
        backend.have(nodes=1, pods=1)
        backend.settle()
        list(backend.drain())
        backend.submit([Note("PodGroup", "default/job", "Warning", ReasonCode.UNSCHEDULABLE, "no room")])
        backend.settle()
        assert [e for e in backend.drain() if isinstance(e, Seen) and isinstance(e.object, (Pod, PodGroup))] == []


def _events(backend: Backend, wanted: Callable[[ClusterEvent], bool]) -> list[ClusterEvent]:
    backend.settle()
    return [e for e in backend.drain() if wanted(e)]


def _is_placed(event: ClusterEvent) -> bool:
    return isinstance(event, Seen) and isinstance(event.object, Pod) and bool(event.object.spec.node_name)


def _about(event: ClusterEvent, key: str) -> bool:
    return event == Gone("Pod", key) or (isinstance(event, Seen) and event.object.key == key)


def _last(backend: Backend, key: str) -> Pod:
    events = _events(backend, lambda e: isinstance(e, Seen) and isinstance(e.object, Pod) and e.object.key == key)
    last = events[-1]
    assert isinstance(last, Seen)
    assert isinstance(last.object, Pod)
    return last.object
