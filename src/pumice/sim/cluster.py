"""The embedded cluster: nodes and pods on virtual time, behind the two ports of every backend.

It does what an API server and kubelets do: pods that are bound start, evicted ones terminate, nodes come and go. Jobs,
and the ends of pods, are the task of the job controller (`controller`). It keeps a ledger of its own, so that a
scheduler that promises the same room twice is found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import force_setattr, replace

from pumice.errors import PumiceError
from pumice.model import native
from pumice.model.api import (
    AnyObject,
    Condition,
    Metadata,
    NodeObject,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    ResourceQuota,
)
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.intents import Bind, Evict, Intent, Nominate, StatusUpdate
from pumice.model.resources import dim_name
from pumice.sim.draws import uniform_of
from pumice.sim.engine import EventLog, Rank, Timeline
from pumice.sim.fit import capacity
from pumice.sim.jobs import GPU_MILLI, PodKind
from pumice.sim.quotas import DisruptionController, QuotaController
from pumice.sim.results.records import PodOutcome

if TYPE_CHECKING:
    from pumice.sim.controller import SimJob

_copied: Callable[[PodSpec], PodSpec] = PodSpec.__copy__  # type: ignore[attr-defined]
_PENDING = PodStatus(phase="Pending")
_SUCCEEDED = PodStatus(phase="Succeeded")
_FAILED = PodStatus(phase="Failed")


class OverCommitted(PumiceError):
    """The scheduler put more on a node than the node has."""


@dataclass(frozen=True, slots=True)
class Delays:
    """How long things take, in seconds of virtual time, and how often a bind fails."""

    bind: float = 0.0
    start: float = 0.0
    """From bound to running."""
    eviction: float = 1.0
    """From the eviction to the end of the pod."""
    bind_failures: float = 0.0
    """Probability that a bind fails."""


class SimPod:
    """One life of a pod, from its creation to its end. A pod that comes back is a new one."""

    __slots__ = ("fate", "job", "key", "kind", "name", "node", "object", "started", "terminating", "uid")

    def __init__(self, job: SimJob, kind: PodKind, name: str, obj: Pod) -> None:
        self.job, self.kind, self.name, self.object = job, kind, name, obj
        self.key = obj.key
        self.uid = obj.metadata.uid
        self.node = ""
        """The node it holds room on."""
        self.started: float | None = None
        self.terminating = False
        self.fate: PodOutcome | None = None
        """The annotations for its end, from any cause."""


class SimNode:
    """A node and what is free on it."""

    __slots__ = ("free", "object", "pods", "since", "whole")

    def __init__(self, obj: NodeObject, since: float) -> None:
        self.object, self.since = obj, since
        self.whole = capacity(obj)
        self.free = dict(self.whole)
        self.pods: dict[str, SimPod] = {}


class PodOwner(Protocol):
    """The observer of pods."""

    def pod_started(self, pod: SimPod) -> None: ...

    def pod_lost(self, pod: SimPod, event: str, outcome: PodOutcome) -> None:
        """The pod was evicted, or its node failed; it is gone."""
        ...


class Watcher(Protocol):
    """The recorder of events."""

    def evicted(self, pod: SimPod, intent: Evict) -> None: ...

    def node_joined(self, node: SimNode) -> None: ...

    def node_left(self, node: SimNode) -> None: ...


class SimCluster:
    """A cluster without a cluster: `EventSource` and `IntentSink` on virtual time, deterministic by seed."""

    def __init__(
        self,
        timeline: Timeline,
        *,
        delays: Delays | None = None,
        seed: int = 0,
        log: EventLog | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.timeline = timeline
        self.delays = delays or Delays()
        self.log = log or EventLog()
        self.nodes: dict[str, SimNode] = {}
        self.pods: dict[str, SimPod] = {}
        self.groups: dict[str, PodGroup] = {}
        self.wake = False
        """Something happened that calls for a cycle."""
        self.decisions = 0
        """Binds, evictions and admissions that were carried out."""
        self.owner: PodOwner | None = None
        self._watcher = watcher
        self._quotas: QuotaController | None = None
        self._budgets: DisruptionController | None = None
        """The followers of pods; empty without quotas and budgets."""
        self._events: list[ClusterEvent] = []
        self._made = 0
        self._running_since = -1.0
        self._running = PodStatus(phase="Running")
        """The status of every pod that starts at this instant."""
        self._seed = seed
        self._binds: Counter[str] = Counter()
        """How often each pod was to be bound, where binds fail."""

    # -- the two ports ----------------------------------------------------------------------------------------------
    def drain(self) -> Iterable[ClusterEvent]:
        """Everything that happened since the last call, in order."""
        if self._quotas is not None:
            self._events.extend(Seen(quota) for quota in self._quotas.changes())
        if self._budgets is not None:
            self._events.extend(Seen(budget) for budget in self._budgets.changes())
        events, self._events = self._events, []
        return events

    def submit(self, intents: Sequence[Intent]) -> None:
        """Carry out a batch of intents; outcomes come back as events."""
        for intent in intents:
            if intent.__class__ is StatusUpdate:
                if intent.kind == "PodGroup":
                    self._group_status(intent.key, intent.status)
            elif intent.__class__ is Bind:
                self._bind(intent)
            elif intent.__class__ is Evict:
                self._evict(intent)
            elif intent.__class__ is Nominate:
                self._nominate(intent)

    # -- objects ----------------------------------------------------------------------------------------------------
    def put(self, obj: AnyObject) -> None:
        """Create or change an object that is neither a node nor a pod of a job."""
        if isinstance(obj, PodGroup):
            self.groups[obj.key] = obj
        elif isinstance(obj, ResourceQuota):
            self._quotas = self._quotas or QuotaController()
            self._quotas.put(obj)
        elif isinstance(obj, PodDisruptionBudget):
            self._budgets = self._budgets or DisruptionController()
            self._budgets.put(obj, self.pods.values())
        self._seen(obj)

    def remove(self, kind: str, key: str) -> None:
        """Delete an object that is neither a node nor a pod of a job."""
        if kind in ("PodGroup", native.POD_GROUP):
            self.groups.pop(key, None)
        elif kind == "PodDisruptionBudget" and self._budgets is not None:
            self._budgets.remove(key)
        self._events.append(Gone(kind, key))
        self.wake = True

    def _seen(self, obj: AnyObject) -> None:
        self._events.append(Seen(obj))
        self.wake = True

    # -- nodes ------------------------------------------------------------------------------------------------------
    def join(self, obj: NodeObject) -> None:
        """A node joins, or returns, with nothing on it."""
        name = obj.metadata.name
        node = self.nodes[name] = SimNode(obj, self.timeline.now)
        self.log.write(self.timeline.now, f"node {name} joins")
        if self._watcher is not None:
            self._watcher.node_joined(node)
        self._seen(obj)

    def fail(self, name: str) -> None:
        """A node is gone from one moment to the next, and its pods with it."""
        node = self.nodes.pop(name, None)
        if node is None:
            return
        self.log.write(self.timeline.now, f"node {name} fails")
        if self._watcher is not None:
            self._watcher.node_left(node)
        self._events.append(Gone("Node", name))
        self.wake = True
        lost = list(node.pods.values())
        for pod in lost:
            pod.fate = "failed"
        for pod in lost:
            self._lose(pod, "PodEvicted", "failed")

    def drain_node(self, name: str) -> None:
        """A node takes no new pods, and those on it are evicted."""
        node = self.nodes.get(name)
        if node is None:
            return
        self.cordon(name, True)
        self.log.write(self.timeline.now, f"node {name} drains")
        for pod in list(node.pods.values()):
            self._lose(pod, "PodEvicted", "restarted")

    def take_pods(self, job: str, count: int) -> None:
        """Evict that many pods of a job that hold room, the last ones first; none if the job does not exist."""
        held = [pod for pod in self.pods.values() if pod.job.key == job and pod.node]
        for pod in held[-count:]:
            self.log.write(self.timeline.now, f"take {pod.key}")
            self._lose(pod, "PodEvicted", "restarted")

    def cordon(self, name: str, unschedulable: bool) -> None:
        """Let a node take no new pods, or let it take them again."""
        node = self.nodes.get(name)
        if node is not None:
            obj = node.object
            node.object = replace(obj, spec=replace(obj.spec, unschedulable=unschedulable))
            self._seen(node.object)

    # -- pods -------------------------------------------------------------------------------------------------------
    def create_pod(self, job: SimJob, kind: PodKind, name: str, made: datetime) -> SimPod:
        """A new pod that waits for a place; *made*: the present time, which many share."""
        self._made += 1
        obj = Pod(
            metadata=Metadata(
                name=name,
                namespace=job.spec.namespace,
                uid=f"{name}#{self._made}",
                creation_timestamp=made,
                labels=kind.labels,
                annotations=kind.annotations,
            ),
            spec=kind.spec,
            status=_PENDING,
        )
        pod = SimPod(job, kind, name, obj)
        self.pods[pod.key] = pod
        if self._quotas is not None:
            key = job.key
            self._quotas.made(pod.uid, key, job.spec.namespace, kind.spec)
            if key not in self.groups or self.groups[key].status.phase not in ("", "Pending"):
                self._quotas.let_in(key)
        if self._budgets is not None:
            self._budgets.made(pod)
        self._events.append(Seen(obj))
        self.wake = True
        return pod

    def place(self, pod: SimPod, name: str) -> None:
        """Let a pod run on a node without anybody having asked, as in a cluster that was saved.

        :raises OverCommitted: there is no such node, or not enough room on it.
        """
        node = self.nodes.get(name)
        if node is None:
            raise OverCommitted(f"pod {pod.key}: is said to be on node {name!r}, which is not there")
        self._hold(node, pod)
        pod.node = name
        self._start(pod, name)

    def remove_pod(self, pod: SimPod) -> None:
        """A pod is deleted and gone at once."""
        if self.pods.get(pod.key) is pod:
            del self.pods[pod.key]
            self._release(pod)
            self._is_over(pod)
            self._events.append(Gone("Pod", pod.key))
            self.wake = True

    def end_pod(self, pod: SimPod, *, failed: bool = False) -> None:
        """A pod ends by itself; it holds nothing any more, but stays to be seen."""
        self._release(pod)
        self._is_over(pod)
        pod.object = replace(pod.object, status=_FAILED if failed else _SUCCEEDED)
        self._seen(pod.object)

    def _is_over(self, pod: SimPod) -> None:
        if self._quotas is not None:
            self._quotas.forget(pod.uid, pod.job.key)
        if self._budgets is not None:
            self._budgets.over(pod)

    def _release(self, pod: SimPod) -> None:
        node = self.nodes.get(pod.node) if pod.node else None
        if node is not None and node.pods.pop(pod.uid, None) is not None:
            for d, v in pod.kind.demand.held:
                node.free[d] += v

    def _lose(self, pod: SimPod, event: str, outcome: PodOutcome) -> None:
        if self.pods.get(pod.key) is pod:
            self.remove_pod(pod)
            if self.owner is not None:
                self.owner.pod_lost(pod, event, outcome)

    # -- carrying out -----------------------------------------------------------------------------------------------
    def _bind(self, intent: Bind) -> None:
        pod = self.pods.get(intent.pod)
        if pod is None or pod.uid != intent.uid:
            self._bind_failed(intent, "there is no such pod")
            return
        delays = self.delays
        if pod.node:
            self._bind_failed(intent, f"pod is already on node {pod.node}")
            return
        if delays.bind_failures and self._bind_is_refused(pod):
            self.log.write(self.timeline.now, f"bind {intent.pod} {intent.node} fails")
            self._bind_failed(intent, "the bind was made to fail")
            return
        node = self.nodes.get(intent.node)
        if node is None:
            self._bind_failed(intent, f"node {intent.node} does not exist")
            return
        self._hold(node, pod)
        self.decisions += 1
        if intent.annotations:
            meta = pod.object.metadata
            notes = {**(meta.annotations or {}), **intent.annotations}
            pod.object = replace(pod.object, metadata=replace(meta, annotations=notes))
        pod.node = intent.node
        self.log.write(self.timeline.now, f"bind {pod.key} {intent.node}")
        if delays.bind:
            self.timeline.at(self.timeline.now + delays.bind, Rank.PODS, self._bound, pod)
        elif delays.start:
            self._bound(pod)
        else:
            self._start(pod, intent.node)

    def _bind_is_refused(self, pod: SimPod) -> bool:
        """Drawn for this attempt of this pod: what other pods do changes nothing about it."""
        self._binds[pod.key] += 1
        return uniform_of(self._seed, "bind", pod.key, self._binds[pod.key]) < self.delays.bind_failures

    def _hold(self, node: SimNode, pod: SimPod) -> None:
        free = node.free
        for d, v in pod.kind.demand.held:
            left = free[d] - v if d in free else -v
            if left < 0 and v > 0:
                what = "GPU thousandths" if d == GPU_MILLI else dim_name(d)
                raise OverCommitted(
                    f"node {node.object.metadata.name}: pod {pod.key} asks for {v} of {what}, "
                    f"only {free.get(d, 0)} is free"
                )
            free[d] = left
        node.pods[pod.uid] = pod
        if self._quotas is not None:
            self._quotas.placed(pod.uid, pod.job.key)

    def _bind_failed(self, intent: Bind, why: str) -> None:
        wait = self.delays.bind or 1.0
        self.timeline.at(self.timeline.now + wait, Rank.PODS, self._tell, BindFailed(intent.pod, intent.uid, why))

    def _tell(self, event: ClusterEvent) -> None:
        self._events.append(event)
        self.wake = True

    def _bound(self, pod: SimPod) -> None:
        if self.pods.get(pod.key) is not pod:
            return
        if not self.delays.start:
            self._started(pod, pod.node)
            return
        pod.object = replace(pod.object, spec=replace(pod.object.spec, node_name=pod.node))
        self._events.append(Seen(pod.object))
        self.timeline.at(self.timeline.now + self.delays.start, Rank.PODS, self._started, pod, pod.node)

    def _started(self, pod: SimPod, node: str) -> None:
        if self.pods.get(pod.key) is pod and not pod.terminating:
            self._start(pod, node)

    def _start(self, pod: SimPod, node: str) -> None:
        old = pod.object
        spec = old.spec
        if not spec.node_name:
            spec = _copied(spec)
            force_setattr(spec, "node_name", node)
        now = self.timeline.now
        if now != self._running_since:
            self._running_since = now
            started = self.timeline.stamp
            bound = datetime.fromtimestamp(now - self.delays.start, UTC) if self.delays.start else started
            scheduled = Condition(type="PodScheduled", status="True", last_transition_time=bound)
            self._running = PodStatus(phase="Running", start_time=started, conditions=(scheduled,))
        pod.object = Pod(metadata=old.metadata, spec=spec, status=self._running)
        self._events.append(Seen(pod.object))
        pod.started = now
        if self._budgets is not None:
            self._budgets.changed(pod)
        if self.owner is not None:
            self.owner.pod_started(pod)

    def _evict(self, intent: Evict) -> None:
        pod = self.pods.get(intent.pod)
        if pod is None or pod.uid != intent.uid or pod.terminating:
            return
        if not pod.node:
            self._tell(EvictFailed(intent.pod, intent.uid, "the pod is on no node"))
            return
        now = self.timeline.now
        self.log.write(now, f"evict {pod.key} {pod.node} {intent.action} for {intent.beneficiary or '-'}")
        if self._watcher is not None:
            self._watcher.evicted(pod, intent)
        pod.terminating = True
        if self._budgets is not None:
            self._budgets.changed(pod)
        self.decisions += 1
        if not self.delays.eviction:
            self._lose(pod, "PodEvicted", "evicted")
            return
        gone = replace(pod.object.metadata, deletion_timestamp=self.timeline.stamp)
        pod.object = replace(pod.object, metadata=gone)
        self._events.append(Seen(pod.object))
        self.timeline.at(now + self.delays.eviction, Rank.PODS, self._lose, pod, "PodEvicted", "evicted")

    def _nominate(self, intent: Nominate) -> None:
        pod = self.pods.get(intent.pod)
        if pod is not None and pod.uid == intent.uid and not pod.node:
            pod.object = replace(pod.object, status=replace(pod.object.status, nominated_node_name=intent.node))
            self._events.append(Seen(pod.object))

    def _group_status(self, key: str, update: dict[str, Any]) -> None:
        group = self.groups.get(key)
        if group is None:
            return
        old = group.status
        conditions, phase = old.conditions, update.get("phase", old.phase)
        if "conditions" in update:
            fresh = [
                Condition(c["type"], c.get("status", ""), c.get("reason", ""), c.get("message", ""))
                for c in update["conditions"]
            ]
            if conditions:
                types = {c.type for c in fresh}
                fresh = [*(c for c in conditions if c.type not in types), *fresh]
            conditions = tuple(fresh)
        if phase == "Inqueue" != old.phase:
            self.decisions += 1
            if self._quotas is not None:
                self._quotas.let_in(key)
        status = PodGroupStatus(
            phase,
            conditions,
            update.get("running", old.running),
            update.get("succeeded", old.succeeded),
            update.get("failed", old.failed),
        )
        self.groups[key] = group = replace(group, status=status)
        self._events.append(Seen(group))
