"""Records what happens to every job of a scheduler, cycle by cycle, and hands it on line by line."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from typing import Any, Protocol

import msgspec

from pumice.framework.run_times import declared_run_time
from pumice.history import lines
from pumice.history.lines import Admitted, Begins, Conf, Evicting, JobRuns, Line, Over, Pods, PodsLeft, PodsPlaced
from pumice.model import keys, native
from pumice.model.api import Affinity, PodGroup
from pumice.model.events import BindFailed, ClusterEvent, EvictFailed, Gone, Seen
from pumice.model.gpu import WHOLE
from pumice.model.intents import Bind, Evict, Intent, StatusUpdate
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.resources import CPU, MEMORY, PODS, dim
from pumice.model.status import ALLOCATED_STATUSES, JobPhase, TaskStatus
from pumice.model.task import GPU_RESOURCES, Task, TaskClass
from pumice.ports import Observer
from pumice.state.cluster import ClusterState

_MEMO = "history"


def pods_of(klass: TaskClass) -> Pods:
    """The requests of one pod of a class."""
    known: Pods | None = klass.memo.get(_MEMO)
    if known is None:
        gpu, requests = klass.gpu, klass.requests
        known = klass.memo[_MEMO] = Pods(
            count=1,
            cpu=int(requests.get(CPU)),
            memory=int(requests.get(MEMORY)),
            gpus=gpu.devices if gpu is not None else 0,
            share=(gpu.milli or WHOLE) if gpu is not None else WHOLE,  # of those that ask for memory: all of it
            models=models_of(klass) or (),
        )
    return known


def models_of(klass: TaskClass) -> tuple[str, ...] | None:
    """The models of GPUs that will do for a class; None if it selects nodes in another way."""
    spec = klass.spec
    chosen = dict(spec.node_selector or {})
    model = chosen.pop(keys.GPU_MODEL, None)
    if chosen or (spec.affinity is not None and model is not None):
        return None
    if model is not None:
        return (model,)
    return () if spec.affinity is None else _of_affinity(spec.affinity)


def _of_affinity(affinity: Affinity) -> tuple[str, ...] | None:
    nodes = affinity.node_affinity
    if affinity.pod_affinity or affinity.pod_anti_affinity or nodes is None or nodes.preferred or not nodes.required:
        return None
    match nodes.required.node_selector_terms:
        case (term,) if not term.match_fields and len(term.match_expressions or ()) == 1:
            (wanted,) = term.match_expressions or ()
            if wanted.key == keys.GPU_MODEL and wanted.operator == "In":
                return tuple(wanted.values or ())
    return None


def picky(job: Job) -> bool:
    """Whether a job asks for more than a trace can say: other nodes than by model, volumes, claims, a topology."""
    if job.has_topology or job.policies:
        return True
    return any(_picky(klass) for klass in {task.klass.id: task.klass for task in job.tasks.values()}.values())


def _picky(klass: TaskClass) -> bool:
    spec = klass.spec
    claims = any(volume.persistent_volume_claim for volume in spec.volumes or ())
    return bool(models_of(klass) is None or spec.topology_spread_constraints or spec.resource_claims or claims)


log = logging.getLogger("pumice.history")

_HOLDS = ALLOCATED_STATUSES | {TaskStatus.RELEASING}
_ENDED = {TaskStatus.SUCCEEDED: "succeeded", TaskStatus.FAILED: "failed"}
_OUTCOMES = {"succeeded": "completed", "failed": "failed"}
_OF_QUEUE = ("weight", "capability", "deserved", "guarantee", "priority", "parent", "reclaimable", "dequeueStrategy")


class HistoryWriter(Protocol):
    """Takes the lines of a history: into files, for forecasts, or for pages."""

    @property
    def wants_another(self) -> bool: ...
    def another(self) -> None: ...
    def write(self, lines: Iterable[Line]) -> None: ...
    def close_file(self) -> None: ...
    def close(self) -> None: ...


class _Stay:
    """One life of a pod."""

    __slots__ = ("ended", "evicting", "job", "name", "node", "pods", "running", "uid")

    def __init__(self, job: _Known, task: Task) -> None:
        self.job, self.name, self.uid = job, task.name, task.uid
        self.pods = pods_of(task.klass)
        self.node = ""
        """The nodes on which it holds room."""
        self.running = self.evicting = self.ended = False


class _Known:
    """A job that was told of."""

    __slots__ = ("admitted", "counts", "how", "key", "last", "over", "peak", "placed", "running", "stays")

    def __init__(self, key: str) -> None:
        self.key = key
        self.last: lines.JobLine | None = None
        self.counts: Counter[Pods] = Counter()
        self.peak: dict[Pods, int] = {}
        """The most pods of each kind that there were at a time."""
        self.stays: dict[str, _Stay] = {}
        """Pods that are there, by name."""
        self.placed = self.running = 0
        self.how = ""
        """How the last of its pods left."""
        self.over = self.admitted = False


class HistoryRecorder(Observer):
    """Follows a state through its events and its cycles. It only reads.

    A history must not harm the scheduler: unless *strict*, whatever fails here is logged, and the history begins anew.
    """

    def __init__(self, state: ClusterState, writers: Sequence[HistoryWriter], *, strict: bool = False) -> None:
        self._state, self._writers, self._strict = state, writers, strict
        self._begun = False
        self._jobs: dict[str, _Known] = {}
        self._stays: dict[str, _Stay] = {}
        """Pods that are there, by ``namespace/name``."""
        self._lines: list[Line] = []
        self._changed: dict[str, None] = {}
        """Jobs to look at when the events of a cycle are in."""
        self._nodes: dict[str, lines.NodeLine] = {}
        self._queues: dict[str, lines.QueueLine] = {}
        self._new_nodes: dict[str, None] = {}
        self._conf = ""
        self.endings: dict[str, str] = {}
        """How jobs end that are removed when they do, where somebody knows: in the simulator."""
        self.failures = 0

    # -- being told -------------------------------------------------------------------------------------------------
    def saw(self, event: ClusterEvent) -> None:
        """The state took an event in."""
        if self._begun:
            self._guarded(self._saw, event)

    def deciding(self, conf_digest: str, conf: Callable[[], dict[str, Any]]) -> None:
        """Everything that happened is in; a cycle follows, under this configuration."""
        self._guarded(self._deciding, conf_digest, conf)

    def decided(self, intents: Sequence[Intent]) -> None:
        """A cycle decided this."""
        if self._begun:
            self._guarded(self._decided, intents)

    def rest(self) -> None:
        """This replica does not decide for now: another one does, and writes its own history."""
        if self._begun:
            self._begun = False
            for writer in self._writers:
                writer.close_file()

    def _guarded(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            if self._strict:
                raise
            self.failures += 1
            if self.failures == 1:
                log.exception("the history cannot go on, and begins anew; scheduling goes on")
            self.rest()

    # -- beginning --------------------------------------------------------------------------------------------------
    def _begin(self, goes_on: bool) -> None:
        """Tell everything that is there, and know it."""
        state = self._state
        self._begun = True
        self._jobs, self._stays, self._changed = {}, {}, {}
        self._nodes, self._queues, self._new_nodes, self._conf = {}, {}, {}, ""
        self._lines = [Begins(state.now, program=f"pumice {version('pumice')}", goes_on=goes_on)]
        for name in state.nodes:
            self._node_changed(name)
        for name in state.queues:
            self._queue_changed(name)
        for key, job in state.jobs.items():
            self._found(key, job)
        self._changed = {}
        for writer in self._writers:
            writer.another()
        self._write()

    def _found(self, key: str, job: Job) -> None:
        """Tell of a job that is there, unless it is over."""
        told, known, now = self._lines, self._of(key), self._state.now
        self._lines = []
        for task in job.tasks.values():
            self._pod_seen(task)
        self._lines = told
        known.over = bool(known.stays) and all(stay.ended for stay in known.stays.values())
        if known.over:
            return
        known.last = self._job_line(job, known)
        told.append(known.last)
        known.admitted = not job.is_pending
        if known.admitted:
            told.append(Admitted(now, key))
        placed = {stay.name: stay.node for stay in known.stays.values() if stay.node}
        if placed:
            told.append(PodsPlaced(now, key, placed, found=True))
        if known.running >= max(job.min_available, 1):
            told.append(JobRuns(now, key))

    # -- events -----------------------------------------------------------------------------------------------------
    def _saw(self, event: ClusterEvent) -> None:
        match event:
            case Seen(object=obj):
                match obj.kind_name:
                    case "Pod":
                        task = self._state.task_by_key.get(obj.key)
                        if task is not None and task.job_key:
                            self._pod_seen(task)
                    case "PodGroup" | native.POD_GROUP:
                        self._group_seen(obj)
                    case "Node":
                        self._new_nodes[obj.key] = None
                    case "Queue":
                        self._queue_changed(obj.key)
            case Gone(kind="Pod", key=key):
                self._pod_gone(key)
            case Gone(kind="PodGroup" | native.POD_GROUP, key=key):
                self._changed[key] = None
            case Gone(kind="Node", key=key):
                self._node_gone(key)
            case Gone(kind="Queue", key=key):
                if self._queues.pop(key, None) is not None:
                    self._lines.append(lines.QueueGone(self._state.now, key))
            case BindFailed(pod=key, uid=uid):
                stay = self._stays.get(key)
                if stay is not None and stay.uid == uid:
                    self._leave(stay, "unbound")
            case EvictFailed(pod=key):
                stay = self._stays.get(key)
                if stay is not None:
                    stay.evicting = False

    def _of(self, key: str) -> _Known:
        known = self._jobs.get(key)
        if known is None:
            known = self._jobs[key] = _Known(key)
        return known

    def _group_seen(self, obj: Any) -> None:
        group: PodGroup = obj
        key = group.key
        known = self._jobs.get(key)
        created = group.metadata.creation_timestamp
        told = known.last.created if known is not None and known.last is not None else math.inf
        if known is not None and not known.stays and created is not None and created.timestamp() > told:
            self._end(known)  # another one of the same name
        self._changed[key] = None

    def _pod_seen(self, task: Task) -> None:
        key = task.key
        stay = self._stays.get(key)
        if stay is not None and stay.uid != task.uid:
            self._pod_gone(key)
            stay = None
        if stay is None:
            known = self._of(task.job_key)
            stay = self._stays[key] = known.stays[task.name] = _Stay(known, task)
            known.counts[stay.pods] += 1
            if known.counts[stay.pods] > known.peak.get(stay.pods, 0):
                known.peak[stay.pods] = known.counts[stay.pods]
                self._changed[task.job_key] = None
        how = _ENDED.get(task.status)
        if how is not None:
            if not stay.ended:
                self._leave(stay, how)
                stay.ended = True
                stay.job.how = how
                self._changed[task.job_key] = None
            return
        if task.status in _HOLDS and task.node is not None and not stay.node:
            self._place(stay, task.node.name)
            self._lines.append(PodsPlaced(self._state.now, task.job_key, {task.name: task.node.name}))
        if task.status is TaskStatus.RUNNING and not stay.running:
            stay.running = True
            stay.job.running += 1
            job = self._state.jobs.get(task.job_key)
            if job is not None and stay.job.running == max(job.min_available, 1):
                self._lines.append(JobRuns(self._state.now, task.job_key))

    def _pod_gone(self, key: str) -> None:
        stay = self._stays.pop(key, None)
        if stay is None:
            return
        known = stay.job
        known.stays.pop(stay.name, None)
        known.counts[stay.pods] -= 1
        self._changed[known.key] = None
        if not stay.ended:
            how = "evicted" if stay.evicting else "deleted" if stay.node in self._state.nodes else "node"
            known.how = ""
            self._leave(stay, how)

    def _place(self, stay: _Stay, node: str) -> None:
        stay.node = node
        stay.job.placed += 1

    def _leave(self, stay: _Stay, how: str) -> None:
        """A pod gives its place back, if it has one; those of one job and instant stand in one line."""
        if stay.running:
            stay.running = False
            stay.job.running -= 1
        if not stay.node:
            return
        stay.node = ""
        stay.job.placed -= 1
        now, key, last = self._state.now, stay.job.key, self._lines[-1] if self._lines else None
        if isinstance(last, PodsLeft) and (last.at, last.job, last.how) == (now, key, how):
            self._lines[-1] = PodsLeft(now, key, (*last.pods, stay.name), how)
        else:
            self._lines.append(PodsLeft(now, key, (stay.name,), how))

    def _node_gone(self, name: str) -> None:
        self._new_nodes.pop(name, None)
        if self._nodes.pop(name, None) is not None:
            self._lines.append(lines.NodeGone(self._state.now, name))

    def _node_changed(self, name: str) -> None:
        node = self._state.nodes.get(name)
        if node is None:
            return
        line = _node_line(node, self._state.now)
        known = self._nodes.get(name)
        if known is None or msgspec.structs.replace(known, at=line.at) != line:
            self._nodes[name] = line
            self._lines.append(line)

    def _queue_changed(self, name: str) -> None:
        queue = self._state.queues.get(name)
        if queue is None:
            return
        data = msgspec.to_builtins(queue.object.spec)
        line = lines.QueueLine(self._state.now, name, {key: data[key] for key in _OF_QUEUE if key in data})
        known = self._queues.get(name)
        if known is None or known.spec != line.spec:
            self._queues[name] = line
            self._lines.append(line)

    # -- cycles -----------------------------------------------------------------------------------------------------
    def _deciding(self, digest: str, conf: Callable[[], dict[str, Any]]) -> None:
        if self._begun:
            for name in self._new_nodes:
                self._node_changed(name)
            self._new_nodes = {}
            self._settle()
            self._write()
        if not self._begun or any(writer.wants_another for writer in self._writers):
            self._begin(self._begun)
        if digest != self._conf:
            self._conf = digest
            self._lines.append(Conf(self._state.now, digest, conf()))
            self._write()

    def _settle(self) -> None:
        """Tell of jobs that came, grew, or are over."""
        for key in self._changed:
            known, job = self._of(key), self._state.jobs.get(key)
            there = job is not None and (job.group is not None or bool(known.stays))
            if there and job is not None:
                line = self._job_line(job, known)
                if known.last is None or msgspec.structs.replace(known.last, at=line.at) != line:
                    known.last, known.over = line, False
                    self._lines.append(line)
            done = bool(known.stays) and all(stay.ended for stay in known.stays.values())
            completed = job is not None and job.phase == JobPhase.COMPLETED
            if done and (known.how == "succeeded" or completed) and not known.over:
                known.over = True
                self._lines.append(Over(self._state.now, key, "completed"))
            if not there and not known.stays:
                self._end(known)
        self._changed = {}

    def _end(self, known: _Known) -> None:
        if not known.over and known.last is not None:
            how = self.endings.pop(known.key, "") or _OUTCOMES.get(known.how, "deleted")
            self._lines.append(Over(self._state.now, known.key, how))
        self._jobs.pop(known.key, None)

    def _job_line(self, job: Job, known: _Known) -> lines.JobLine:
        declared = declared_run_time(job)
        created = job.creation if job.group is not None else min((t.creation for t in job.tasks.values()), default=0.0)
        return lines.JobLine(
            self._state.now,
            job.uid,
            created,
            queue=job.queue,
            minimum=job.min_available,
            priority=job.priority,
            declared=declared if math.isfinite(declared) else 0.0,
            pods=tuple(msgspec.structs.replace(pods, count=count) for pods, count in known.peak.items()),
            picky=picky(job),
        )

    def _decided(self, intents: Sequence[Intent]) -> None:
        now = self._state.now
        placed: dict[str, dict[str, str]] = {}
        for intent in intents:
            match intent:
                case Bind(pod=pod, uid=uid, node=node):
                    stay = self._stays.get(pod)
                    if stay is not None and stay.uid == uid and not stay.node:
                        self._place(stay, node)
                        self._admit(stay.job)  # groups of Kubernetes' own have no phase that would say so
                        placed.setdefault(stay.job.key, {})[stay.name] = node
                case Evict(pod=pod, node=node, action=action, beneficiary=beneficiary):
                    stay = self._stays.get(pod)
                    if stay is not None:
                        stay.evicting = True
                        self._lines.append(Evicting(now, stay.job.key, stay.name, node, action, beneficiary))
                case StatusUpdate(kind="PodGroup", key=key, status={"phase": JobPhase.INQUEUE}):
                    self._admit(self._of(key))
        self._lines += [PodsPlaced(now, job, pods) for job, pods in placed.items()]
        self._write()

    def _admit(self, known: _Known) -> None:
        if not known.admitted:
            known.admitted = True
            self._lines.append(Admitted(self._state.now, known.key))

    def _write(self) -> None:
        if self._lines:
            told, self._lines = self._lines, []
            for writer in self._writers:
                writer.write(told)


def _node_line(node: Node, now: float) -> lines.NodeLine:
    """The amounts that a node offers, less what pods of others hold there."""
    offered = node.allocatable
    others = [task.requests for task in node.tasks.values() if not task.job_key]

    def left(dimension: int) -> int:
        return max(int(offered.get(dimension)) - sum(int(held.get(dimension)) for held in others), 0)

    return lines.NodeLine(
        now,
        node.name,
        cpu=left(CPU),
        memory=left(MEMORY),
        pods=left(PODS),
        gpus=sum(left(dim(name)) for name in GPU_RESOURCES) // 1000,
        model=node.labels.get(keys.GPU_MODEL, ""),
        closed=bool(node.object.spec.unschedulable),
    )
