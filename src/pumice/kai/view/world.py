"""The cluster in the mind of one session of KAI: everything that its policies read and its statements change."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from pumice.framework.session.outcome import Stage
from pumice.kai.view.device_claims import ClaimedDevices, gpu_devices
from pumice.kai.view.intake import KeptView, WrittenTimes, take_in
from pumice.kai.view.jobs import JobView, chunk, is_eligible, piece_to_evict
from pumice.kai.view.nodes import UNSYNCED, NodeLedger, is_ready
from pumice.kai.view.points import NodeRank, WorldOrders, translated
from pumice.kai.view.queues import NOTHING, UNLIMITED, Amounts, QueueView, minus, queue_tree, side_by_side, total
from pumice.kai.view.settings import KaiSettings, settings_of
from pumice.kai.view.tasks import ACTIVE, USED, TaskRequest, TaskStage, TaskView, group_notes
from pumice.kai.view.wording import POD_ERRORS, JobError
from pumice.kai.view.zones import ZonedNode, ZonePlacement, zoned_request
from pumice.model.gpu import WHOLE
from pumice.model.job import Job
from pumice.model.keys import GPU_WORKER, NUMA_PREDICTED
from pumice.model.node import Node
from pumice.model.reason import Verdict
from pumice.model.resources import CPU, MEMORY
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

_OURS: Final = "pumice.kai."
_KEPT: Final = "kai/view"


@dataclass(slots=True)
class Calls:
    """The commits: pods by operation."""

    bind: list[str]
    evict: list[str]
    pipeline: list[str]


class KaiWorld:
    """Nodes, queues, jobs and tasks as of the session's opening, and as its statements change them."""

    def __init__(self, ssn: Session) -> None:
        ssn.search.by_rows = False
        ssn.translate = lambda c: c if is_ours(c.fn) else translated(c, lambda: world_of(ssn))
        self.ssn = ssn
        state: ClusterState = ssn.state
        self.state = state
        self.now = ssn.state.now
        """The time of the session. Its effects until another time calls `Session.wake_at`."""
        self.settings: KaiSettings = settings_of(ssn.action_arguments("kai"), ssn.environment)
        pool = self.settings.in_pool
        seen = [n for n in state.table.by_name.values() if self.settings.sees(n.labels)]
        self.claims: ClaimedDevices | None = None
        """The devices that pods claim of drivers, if any."""
        self.serves_claims = False
        """Whether a plugin looks at the claims of pods."""
        if state.kind("ResourceClaim"):
            self.claims = ClaimedDevices(
                state, ssn.runtime.kept, ssn.memory_of("kai/claims").setdefault("promised", {})
            )
        offered = gpu_devices(state, ssn.runtime.kept) if state.kind("ResourceSlice") else None
        self.nodes = NodeLedger(state.table, seen, claimable=offered)
        self.nodes.minted = self.settings.minted
        self.calls = Calls([], [], [])
        self.orders = WorldOrders(ssn)
        self.version = 0
        """Grows with every change of a task."""
        self.imagines = False
        """Whether the current try is only simulated. Then nobody is told why it fails."""
        self.job_errors: dict[str, list[JobError]] = {}
        """Job -> why it was not served, as KAI words it."""
        self.steady: dict[Callable[..., object], Callable[[TaskView], bool]] = {}
        """Filter -> does it answer for a task by its class and the node's object alone? Score -> does a node that is
        best for a task stay so for its likes while these are placed there? A plugin that is not named answers anew for
        each."""
        self.ranks: dict[Callable[..., object], NodeRank] = {}
        """Score -> the order of nodes that follows from it."""
        self.zones: dict[int, ZonedNode] = {}
        """Row -> the NUMA zones of the node, where a plugin looks at them."""
        self.others: list[TaskView] = []
        """Pods of other schedulers, KAI's own helpers aside."""
        known = self.nodes.synced & (self.nodes.memory > UNSYNCED)
        memories = self.nodes.memory[known].tolist()
        given = self.settings.gpu_memory
        self.least_memory: int | None = given[0] if given is not None else min(memories, default=None)
        self.most_memory: int | None = given[1] if given is not None else max(memories, default=None)
        self.ready_rows = np.zeros(len(self.nodes.there), dtype=np.bool_)
        """Per row: whether the node is up."""
        for node in self.nodes.nodes:
            self.ready_rows[node.row] = is_ready(node)
        unset = 0.0 if ssn.compat.kai_unset_limits else UNLIMITED
        listed = [q for q in state.queues.values() if pool(q.object.metadata.labels or {})]
        order = queue_tree if self.settings.full_hierarchy else side_by_side
        self.queues = order(QueueView(q, unset) for q in listed)
        self.times = WrittenTimes(ssn)
        self._only_ours: dict[str, bool] = {}
        self.flat_gangs = ssn.compat.kai_flat_gangs
        """Whether a gang runs only if every sub-group does. One that needs fewer has its plan neither done nor
        undone."""
        self.tasks: dict[str, TaskView] = {}
        self.jobs: dict[str, JobView] = {}
        self.queueless: list[Job] = []
        self.kept: KeptView
        self.kept_key = (
            *(state, self.settings, state.table.changed.position, state.queue_version),
            *(state.versions.get("PriorityClass", 0), ssn.compat),
        )
        store = ssn.runtime.kept
        kept: KeptView | None = store.pop(_KEPT, None)
        lasts = kept is not None and kept.key == self.kept_key and self.claims is None and offered is None
        store[_KEPT] = take_in(self, kept if lasts else None)

    # -- points -----------------------------------------------------------------------------------------------------
    def only_kai(self, point: Any) -> bool:
        """Report whether only KAI's own plugins answer at a point. The inputs of these plugins are known.

        For actions: by then everybody has registered.
        """
        known = self._only_ours.get(point.name)
        if known is None:
            asked = self.ssn.callbacks(point)
            known = all(is_ours(c.fn) for c in asked)
            self._only_ours[point.name] = known
        return known

    # -- amounts ----------------------------------------------------------------------------------------------------
    def counted(self, request: TaskRequest, node: Node) -> Amounts:
        """The amounts that a task counts in its queue on a node."""
        quota, shared = request.quota, request.shared
        if shared is None or not shared.memory:
            return quota
        return (quota[0], quota[1], quota[2] + shared.devices * self.nodes.portion(node.row, shared))

    def asked(self, request: TaskRequest) -> Amounts:
        """The amounts that a pending task counts in its queue: GPU memory as a part of the smallest GPU."""
        return _with_memory(request, self.least_memory)

    def asked_at_least(self, request: TaskRequest) -> Amounts:
        """The amounts that a pending task counts in its queue at least: GPU memory as a part of the largest GPU."""
        return _with_memory(request, self.most_memory)

    def total(self) -> Amounts:
        """The offers of the ready nodes, less the pods of other schedulers there.

        If tasks with GPUs go to certain workers only, GPUs of other nodes do not count.
        """
        ledger = self.nodes
        cpu = memory = gpu = 0.0
        cpus, memories, gpus = (ledger.allocatable[d].tolist() for d in (CPU, MEMORY, ledger.gpu))
        for node in ledger.nodes:
            row = node.row
            if not self.ready_rows[row]:
                continue
            cpu += cpus[row]
            memory += memories[row]
            if self.settings.restrict_nodes and GPU_WORKER not in node.labels:
                continue
            gpu += gpus[row] / WHOLE
            gpu += sum(slices * int(ledger.allocatable[d, row]) / 1000 for d, slices in ledger.mig)
        offered: Amounts = (cpu, memory, gpu)
        for task in self.others:
            if task.stage in USED and task.node is not None and self.ready_rows[task.node.row]:
                offered = minus(offered, task.request.quota)
        return offered

    # -- pieces of jobs ---------------------------------------------------------------------------------------------
    def chunk(self, job: JobView, *, real: bool) -> list[TaskView]:
        """The tasks of a job that one attempt places."""
        only = job.only
        if only is not None:
            return [only] if is_eligible(only, real) else []
        stamp, known = (self.ssn.runtime.cycle, job.whole.changes), job.memo.get(real)
        if known is None or known[0] != stamp:
            found = chunk(job.root, real, self.orders.members, self.orders.tasks)
            known = job.memo[real] = (stamp, found)
        return list(known[1])

    def next_request(self, job: JobView) -> Amounts:
        """The request of a job's next piece, in the units of quotas."""
        only = job.only
        if only is not None:
            if only.stage is not TaskStage.PENDING and not is_eligible(only, False):
                return NOTHING
            request = only.request
            return request.quota if request.shared is None else self.asked(request)
        stamp, known = (self.ssn.runtime.cycle, job.whole.changes), job.memo.get("request")
        if known is None or known[0] != stamp:
            asked = total(self.asked(t.request) for t in self.chunk(job, real=False))
            known = job.memo["request"] = (stamp, asked)
        return cast(Amounts, known[1])

    def to_evict(self, job: JobView) -> tuple[list[TaskView], bool]:
        """The tasks of a job that go next, and whether others stay."""
        only = job.only
        if only is not None:
            return [only] if only.stage in ACTIVE else [], False
        tasks = piece_to_evict(job.root, self.orders.members, self.orders.tasks)
        return tasks, len(tasks) < job.active_count

    def held_against(self, job: JobView) -> list[tuple[TaskView, Node]]:
        """Room that a job must leave alone: it was evicted for who waits for it there."""
        found: list[tuple[TaskView, Node]] = []
        for uid, (_, node) in self.state.rooms.items():
            task, nomination = self.tasks.get(uid), self.ssn.runtime.nominations.get(uid)
            if task is None or nomination is None or job.job.uid not in nomination.evicted:
                continue
            if task.stage is TaskStage.PENDING and task.job.whole is not job.whole:
                found.append((task, node))
        return found

    # -- changes ----------------------------------------------------------------------------------------------------
    def changed(self, task: TaskView) -> None:
        """A task is not what it was."""
        self.version += 1
        self.look_again(task.job)
        task.job.changes += 1

    def look_again(self, job: JobView) -> None:
        """The session's data of a job is not kept for the next one."""
        if self.state.followed is not None:
            self.state.followed[job.job.uid] = job.job

    def count(self, task: TaskView, sign: int) -> None:
        """Count (+1) or no longer count (-1) what a task has in its queues."""
        job, (cpu, memory, gpu) = task.job, task.accepted
        if sign < 0:
            cpu, memory, gpu = -cpu, -memory, -gpu
        fixed = not job.preemptible
        for queue in job.queue.chain():
            held = queue.allocated
            queue.allocated = (held[0] + cpu, held[1] + memory, held[2] + gpu)
            if fixed:
                held = queue.non_preemptible
                queue.non_preemptible = (held[0] + cpu, held[1] + memory, held[2] + gpu)

    def zones_for(self, task: TaskView, node: Node) -> ZonePlacement | None:
        """The NUMA zones that a task would get on a node; None without a plugin that asks, or if unknown."""
        zoned, asked = self.zones.get(node.row), zoned_request(task.task.klass)
        return zoned.place(asked) if zoned is not None and zoned.aligns(asked) else None

    def count_zones(self, task: TaskView, node: Node, sign: int) -> None:
        """Take (+1) what a task has of the NUMA zones of a node, or give it back (-1)."""
        if task.zones is not None and node.row in self.zones:
            self.zones[node.row].book(task.zones, sign)

    def notes_of(self, task: TaskView) -> dict[str, str]:
        """The data of a bind about a task in KAI's words: the GPUs that it shares, its NUMA zones."""
        notes = group_notes(task.groups) if task.groups else {}
        if task.zones and task.node is not None and task.node.row in self.zones:
            notes[NUMA_PREDICTED] = json.dumps(self.zones[task.node.row].written(task.zones))
        return notes

    def refuse(self, job: JobView, stage: Stage, said: Verdict | JobError | str, plugin: str = "") -> None:
        """Remember why a job was not served, and tell it; what was said first is told."""
        if self.imagines:
            return
        if not isinstance(said, JobError):
            error = (
                JobError(POD_ERRORS, said) if isinstance(said, str) else JobError(said.reason or POD_ERRORS, said.text)
            )
        else:
            error, said = said, said.text
        known = self.job_errors.setdefault(job.job.uid, [])
        if not known:
            self.ssn.outcome.refuse(job.job, stage, said, plugin)
        known.append(error)

    def task_of(self, task: Task | TaskView) -> TaskView:
        """The view of a task; a view is its own."""
        return task if isinstance(task, TaskView) else self.tasks[task.uid]

    def job_of(self, job: Job | JobView) -> JobView | None:
        """The view of a job; a view is its own. None for one that KAI's policies do not see."""
        return job if isinstance(job, JobView) else self.jobs.get(job.uid)


def is_ours(fn: Callable[..., object]) -> bool:
    """Report whether it is a function of one of KAI's own plugins."""
    return (getattr(fn, "__module__", "") or "").startswith(_OURS)


def world_of(ssn: Session) -> KaiWorld:
    """The cluster as the KAI plugins and actions of a session see it."""
    return ssn.view(KaiWorld)


def _with_memory(request: TaskRequest, size: int | None) -> Amounts:
    quota, shared = request.quota, request.shared
    if shared is None or not shared.memory or not size:
        return quota
    return (quota[0], quota[1], quota[2] + shared.devices * shared.memory / size)
