"""The smallest cluster that answers: it holds objects, carries intents out at once, and tells what changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from pumice.errors import InvalidInput, shown
from pumice.framework.session.session import Session
from pumice.model.api import AnyObject, Condition, Metadata, Pod, PodGroup, PodStatus, QueueObject
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind, Evict, Intent, StatusUpdate
from pumice.model.native import NativePodGroup
from pumice.model.task import Task
from pumice.state.cluster import ClusterState
from pumice.testing.builders import queue

O = TypeVar("O", bound=AnyObject)  # noqa: E741 - an object
Given = AnyObject | Iterable[AnyObject]


def flat(given: Iterable[Given]) -> list[AnyObject]:
    """Objects and lists of objects as one list.

    :raises InvalidInput: something is neither.
    """
    out: list[AnyObject] = []
    for one in given:
        many: Any = one
        for obj in many if isinstance(many, Iterable) else [many]:
            if not isinstance(obj, AnyObject):
                rule = "node(), job(), pod() and queue() of pumice.testing make them"
                raise InvalidInput(f"{shown(one)}: no object of a cluster; {rule}")
            out.append(obj)
    return out


def with_default_queue(objects: Sequence[AnyObject]) -> list[AnyObject]:
    """The objects, with a queue ``default`` in front unless they bring one."""
    own = any(isinstance(o, QueueObject) and o.metadata.name == "default" for o in objects)
    return list(objects) if own else [queue("default"), *objects]


class World:
    """Objects by kind and key. Every change gives the events that an API server would send."""

    def __init__(self, *, recreate: bool = False, grace: int = 0) -> None:
        """*recreate*: an evicted pod comes back as a new pending one, as a controller would make it. *grace*: so many
        cycles see an evicted pod terminating before it is gone.
        """
        self.recreate, self.grace = recreate, grace
        self._objects: dict[tuple[str, str], AnyObject] = {}
        self._terminating: dict[str, int] = {}
        self._made = 0

    @property
    def objects(self) -> list[AnyObject]:
        """Everything there is, in the order in which it came."""
        return list(self._objects.values())

    def get(self, cls: type[O], key: str) -> O:
        """The object of a kind under a key.

        :raises InvalidInput: there is none; names those that exist.
        """
        found = self._objects.get((cls.kind_name, key))
        if not isinstance(found, cls):
            known = ", ".join(sorted(k for kind, k in self._objects if kind == cls.kind_name)) or "none"
            raise InvalidInput(f"{cls.kind_name} {key!r}: not in this scenario; there are {known}")
        return found

    def put(self, obj: AnyObject) -> list[ClusterEvent]:
        """Add or replace an object; one without a creation time gets the next second."""
        if obj.metadata.creation_timestamp is None:
            known = self._objects.get((obj.kind_name, obj.key))
            self._made += 1
            stamp = known.metadata.creation_timestamp if known else datetime.fromtimestamp(self._made, UTC)
            obj = _changed(obj, metadata=_changed(obj.metadata, creation_timestamp=stamp))
        self._objects[obj.kind_name, obj.key] = obj
        return [Seen(obj)]

    def remove(self, cls: type[AnyObject], key: str) -> list[ClusterEvent]:
        """Take an object away."""
        self.get(cls, key)
        del self._objects[cls.kind_name, key]
        return [Gone(cls.kind_name, key)]

    def pod_changed(self, key: str, *, phase: str) -> list[ClusterEvent]:
        """A pod got another phase."""
        pod = self.get(Pod, key)
        return self.put(_changed(pod, status=_changed(pod.status, phase=phase)))

    def pod_deleted(self, key: str, cycles: int = 1) -> list[ClusterEvent]:
        """A pod is terminating; so many cycles will see it so before it leaves."""
        pod = self.get(Pod, key)
        self._terminating[key] = cycles
        stamp = datetime.fromtimestamp(self._made, UTC)
        return self.put(_changed(pod, metadata=_changed(pod.metadata, deletion_timestamp=stamp)))

    def settle(self) -> list[ClusterEvent]:
        """A cycle is about to begin: terminating pods whose time is over leave."""
        events: list[ClusterEvent] = []
        over = [key for key, left in self._terminating.items() if left < 1]
        self._terminating = {key: left - 1 for key, left in self._terminating.items() if left >= 1}
        for key in over:
            if ("Pod", key) not in self._objects:
                continue
            pod = self.get(Pod, key)
            events += self.remove(Pod, key)
            if self.recreate:
                events += self.put(self._again(pod))
        return events

    def _again(self, pod: Pod) -> Pod:
        self._made += 1
        meta: Metadata = _changed(
            pod.metadata, uid=f"{pod.key}#{self._made}", deletion_timestamp=None, creation_timestamp=None
        )
        status = PodStatus(phase="Pending")
        again: Pod = _changed(pod, metadata=meta, spec=_changed(pod.spec, node_name=""), status=status)
        return again

    def carry_out(self, intents: Iterable[Intent], now: float = 0.0) -> list[ClusterEvent]:
        """Do what a cycle decided *now*: bound pods run at once, evicted ones terminate, PodGroups show their state."""
        events: list[ClusterEvent] = []
        scheduled = Condition("PodScheduled", "True", last_transition_time=datetime.fromtimestamp(now, UTC))
        for intent in intents:
            match intent:
                case Bind(pod=key, node=node, annotations=notes):
                    if notes:
                        self._note(key, notes)
                    pod = self.get(Pod, key)
                    status = _changed(pod.status, phase="Running", conditions=(scheduled,))
                    events += self.put(_changed(pod, spec=_changed(pod.spec, node_name=node), status=status))
                case Evict(pod=key):
                    events += self.pod_deleted(key, cycles=self.grace)
                case StatusUpdate(kind=PodGroup.kind_name, key=key, status=status, annotations=marks):
                    events += self._status(PodGroup, key, status, marks)
                case StatusUpdate(kind=NativePodGroup.kind_name, key=key, status=status):
                    events += self._status(NativePodGroup, key, status)
                case _:
                    pass
        return events

    def _note(self, key: str, notes: dict[str, str]) -> None:
        pod = self.get(Pod, key)
        self.put(
            _changed(pod, metadata=_changed(pod.metadata, annotations={**(pod.metadata.annotations or {}), **notes}))
        )

    def _status(
        self, kind: type[PodGroup], key: str, status: dict[str, Any], marks: dict[str, str | None] | None = None
    ) -> list[ClusterEvent]:
        group = self.get(kind, key)
        if marks:
            notes = {k: v for k, v in {**(group.metadata.annotations or {}), **marks}.items() if v is not None}
            group = _changed(group, metadata=_changed(group.metadata, annotations=notes))
        plain = {k: v for k, v in status.items() if k in ("phase", "running", "failed", "succeeded")}
        fresh = [
            Condition(**{k: c[k] for k in ("type", "status", "reason", "message")})
            for c in status.get("conditions", ())
        ]
        kept = [c for c in group.status.conditions or () if c.type not in {f.type for f in fresh}]
        return self.put(_changed(group, status=_changed(group.status, conditions=kept + fresh, **plain)))


def _changed(struct: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(struct, **fields)


def session(*objects: Given, now: float = 0.0) -> Session:
    """A session on a cluster of these objects, without tiers: every plugin opened on it counts as enabled.

    ::

        ssn = session(cluster("2x8gpu"), job("train", gpu=1))
        ssn.open_plugin(MyPlugin(Arguments({"weight": "5"})))
        ssn.predicate(task_of(ssn, "train-0"), ssn.nodes["node-0"])

    :raises InvalidInput: an object that cannot be used; names it and the rule.
    """
    state = ClusterState()
    state.now = now
    for obj in with_default_queue(flat(objects)):
        state.apply(Seen(obj))
    if state.problems:
        raise InvalidInput("; ".join(f"{kind} {key}: {text}" for (kind, key), text in state.problems.items()))
    return Session(state)


def task_of(ssn: Session, pod: str) -> Task:
    """The task of a pod, by ``namespace/name`` or the bare name in ``default``.

    :raises InvalidInput: there is none; names those that exist.
    """
    key = pod if "/" in pod else f"default/{pod}"
    found = ssn.state.task_by_key.get(key)
    if found is None:
        known = ", ".join(sorted(ssn.state.task_by_key)) or "none"
        raise InvalidInput(f"pod {key!r}: not in this session; there are {known}")
    return found
