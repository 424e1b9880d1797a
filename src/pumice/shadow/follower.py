"""A candidate conf that follows a cluster: it decides on every instant, and nothing of it happens."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pumice.answers.jobs import why_of_objects
from pumice.clock import SystemClock
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.explaining.explain import explain
from pumice.framework.registry import Registry
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session
from pumice.model.api import Metadata, Pod, PodStatus, QueueObject, QueueSpec, QueueStatus
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Bind, Evict
from pumice.model.job import Job
from pumice.model.status import TaskStatus
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.ports import Observer
from pumice.scheduler.assembly import Assembly, assemble
from pumice.scheduler.dry import dry_cycle
from pumice.scheduler.report import CycleReport
from pumice.shadow.report import AT_ONCE, DAY, Decision, Difference, Done, Ledger, Plan, Report, Wish
from pumice.sim.run import Simulation
from pumice.sim.scenario import SimScenario
from pumice.state.cluster import ClusterState
from pumice.workloads.grouping import job_group, least_members, pod_queue

if TYPE_CHECKING:
    from pumice.kube.watching import Watching

EXPLAINED: Final = 20
"""Jobs of one instant for which it is said why the candidate lets them wait."""
UNGROUPED: Final = "default-scheduler"
"""The pods of this scheduler have no PodGroups: they get one here."""


def evicted_by_a_scheduler(pod: Pod) -> bool:
    """Whether a pod that terminates says that a scheduler evicted it, rather than whoever owns it."""
    return any(
        (c.type == "DisruptionTarget" and c.status == "True") or c.reason == "Evict"
        for c in pod.status.conditions or ()
    )


class Shadow:
    """Follows events and keeps the account. One thread owns it; it has nobody to send anything to."""

    def __init__(
        self,
        assembly: Assembly,
        *,
        beside: str,
        now: float,
        state: ClusterState | None = None,
        seed: int = 0,
        evicted: Callable[[Pod], bool] = evicted_by_a_scheduler,
    ) -> None:
        self._assembly, self._evicted = assembly, evicted
        self.state = state if state is not None else ClusterState()
        self._runtime = Runtime(seed=seed)
        self._ledger = Ledger(assembly.conf.digest, beside, now)

    def begin(self, events: Iterable[ClusterEvent], now: float) -> None:
        """Take the cluster in as it is: what was decided before is not compared."""
        self.state.now = now
        for event in events:
            self._apply(event)
        if self.state.default_queue not in self.state.queues:
            meta = Metadata(name=self.state.default_queue, uid=self.state.default_queue)
            open_queue = QueueObject(metadata=meta, spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
            self.state.apply(Seen(open_queue))
        self._ledger.take(self._decide())

    def step(self, events: Iterable[ClusterEvent], now: float) -> list[Difference]:
        """Take in what happened, ask the candidate, compare; returns the differences that this brought.

        The decisions of the running scheduler since the last call are held back until the candidate has decided on the
        same cluster without them.
        """
        state, held = self.state, _Held()
        state.now = now
        for event in events:
            if not held.takes(event, self._decided(event)):
                self._apply(event)
            elif isinstance(event, Seen) and event.object.key not in state.task_by_key:
                assert isinstance(event.object, Pod)
                self._apply(Seen(_before(event.object)))
        said: dict[str, str] = {}
        before = Decision(now)
        evicted = [(pod.metadata.uid, pod.key, self._key_of(pod)) for pod in held.evicted.values()]
        placed = [pod.metadata.uid for pod in held.bound.values()]
        if self._ledger.is_news(placed, (uid for uid, _, _ in evicted)):
            waiting = {job.uid: job for job in map(self._job_of, held.bound) if job is not None}
            before = self._decide(list(waiting.values()), said)
        found = self._ledger.judge(before, self._done(held.bound, said), evicted)
        for event in held.events:
            self._apply(event)
        return found + self._ledger.take(self._decide())

    def report(self) -> Report:
        """The account up to the last step."""
        state, says = self.state, {}
        report = self._ledger.report(state.now)
        for waiting in report.waiting[:EXPLAINED]:
            if waiting.job in state.jobs:
                says[waiting.job] = self._objects_say(state.jobs[waiting.job])
        return self._ledger.report(state.now, says)

    # -- inside -----------------------------------------------------------------------------------------------------
    def _decided(self, event: ClusterEvent) -> str:
        """The action of the running scheduler that an event shows: a bind, an eviction, or nothing."""
        if not isinstance(event, Seen) or not isinstance(event.object, Pod):
            return ""
        pod, ours = event.object, self.state.scheduler_names
        if ours is not None and pod.spec.scheduler_name not in ours:
            return ""
        task = self.state.task_by_key.get(pod.key)
        if task is not None and task.uid != pod.metadata.uid:
            return ""
        if pod.metadata.deletion_timestamp is not None:
            terminates = task is not None and task.pod.metadata.deletion_timestamp is not None
            return "evicted" if task is not None and not terminates and task.node_name and self._evicted(pod) else ""
        if pod.spec.node_name and pod.status.phase not in ("Succeeded", "Failed"):
            return "bound" if task is None or not task.pod.spec.node_name else ""
        return ""

    def _apply(self, event: ClusterEvent) -> None:
        if isinstance(event, Gone) and event.kind == "Pod":
            task = self.state.task_by_key.get(event.key)
            if task is not None:
                self._ledger.forget([task.uid])
        elif isinstance(event, Seen) and isinstance(event.object, Pod):
            pod = self._grouped(event.object)
            if pod.spec.node_name:
                self._ledger.forget([pod.metadata.uid])
            event = Seen(pod)
        self.state.apply(event)

    def _grouped(self, pod: Pod) -> Pod:
        """The pod in a group of its own, where nobody else makes one."""
        notes = pod.metadata.annotations or {}
        if pod.spec.scheduler_name != UNGROUPED or group_named(notes, pod.spec):
            return pod
        names = self.state.scheduler_names
        if names is None or UNGROUPED not in names:
            return pod
        owner = next((o for o in pod.metadata.owner_references or () if o.controller), None)
        name = f"podgroup-{owner.uid if owner is not None else pod.metadata.uid}"
        if f"{pod.metadata.namespace}/{name}" not in self.state.jobs:
            least = 1
            with suppress(InvalidInput):
                least = least_members(notes)
            meta = Metadata(name=name, namespace=pod.metadata.namespace, uid=name)
            queue = pod_queue(notes) or self.state.default_queue
            group = job_group(
                replace(meta, creation_timestamp=pod.metadata.creation_timestamp),
                minimum=least,
                role_minimums=None,
                resources=None,
                queue=queue,
                priority_class=pod.spec.priority_class_name,
            )
            self.state.apply(Seen(group))
        return replace(pod, metadata=replace(pod.metadata, annotations={**notes, GROUP_ANNOTATION: name}))

    def _decide(self, waiting: Sequence[Job] = (), said: dict[str, str] | None = None) -> Decision:
        """The decision of the candidate now; *said* is told why it would let *waiting* jobs wait."""

        told = said if said is not None else {}
        if not any(any(queue.pending.as_written().values()) for queue in self.state.queues.values()):
            return Decision(self.state.now)  # nobody waits

        def inspect(ssn: Session) -> None:
            refused = [job for job in waiting if job.with_status(TaskStatus.PENDING)]
            for job in refused[:EXPLAINED]:
                why = explain(ssn, job)
                told[job.uid] = f"{why.text} ({why.plugin})" if why.plugin else why.text

        begun = time.process_time()
        report = dry_cycle(self.state, self._assembly, self._runtime, inspect=inspect if waiting else None)
        self.state.changed_jobs.clear()  # kept for a real cycle, which writes their statuses; here none follows
        self._ledger.cpu_seconds += time.process_time() - begun
        return Decision(self.state.now, self._wishes(report), self._plans(report))

    def _wishes(self, report: CycleReport) -> dict[str, Wish]:
        """Pods that would be placed: at once, or as soon as those are gone that would be evicted for them."""
        state = self.state
        found = {}
        for intent in report.intents:
            if isinstance(intent, Bind):
                job = state.jobs.get(intent.job)
                queue = job.queue if job is not None else ""
                found[intent.uid] = Wish(intent.pod, intent.uid, intent.job, queue, intent.node)
        for beneficiary in {i.beneficiary for i in report.intents if isinstance(i, Evict) and i.beneficiary}:
            for pod, node in report.pipelined.get(beneficiary, {}).items():
                task = state.task_by_key.get(pod)
                if task is not None:
                    queue = state.jobs[beneficiary].queue if beneficiary in state.jobs else ""
                    found[task.uid] = Wish(pod, task.uid, beneficiary, queue, node)
        return found

    def _plans(self, report: CycleReport) -> list[Plan]:
        victims: dict[tuple[str, str], list[Evict]] = {}
        for intent in report.intents:
            if isinstance(intent, Evict):
                victims.setdefault((intent.beneficiary, intent.action), []).append(intent)
        return [
            Plan(beneficiary, action, tuple(i.uid for i in found), tuple(i.pod for i in found))
            for (beneficiary, action), found in victims.items()
        ]

    def _job_of(self, key: str) -> Job | None:
        task = self.state.task_by_key.get(key)
        return self.state.jobs.get(task.job_key) if task is not None else None

    def _key_of(self, pod: Pod) -> str:
        job = self._job_of(pod.key)
        return job.uid if job is not None else ""

    def _done(self, bound: dict[str, Pod], said: dict[str, str]) -> list[Done]:
        nodes: dict[str, dict[str, str]] = {}
        jobs: dict[str, Job] = {}
        for key, pod in bound.items():
            job = self._job_of(key)
            if job is not None:
                jobs[job.uid] = job
                nodes.setdefault(job.uid, {})[pod.metadata.uid] = pod.spec.node_name
        now = self.state.now
        return [
            Done(
                uid,
                jobs[uid].queue,
                placed,
                self._objects_say(jobs[uid]) if self._ledger.ahead(placed, now) > AT_ONCE else "",
                said.get(uid, ""),
            )
            for uid, placed in nodes.items()
        ]

    def _objects_say(self, job: Job) -> str:
        why = why_of_objects(self.state, job).explanation
        return f"{why.code}: {why.text}" if why.text else str(why.code)


class _Held:
    """Events that are the running scheduler's doing, and everything about the same pods after them."""

    def __init__(self) -> None:
        self.events: list[ClusterEvent] = []
        self.bound: dict[str, Pod] = {}
        self.evicted: dict[str, Pod] = {}

    def takes(self, event: ClusterEvent, decided: str) -> bool:
        """Whether the event is held back."""
        key = _pod_key(event)
        if not key or (not decided and key not in self.bound and key not in self.evicted):
            return False
        if decided and isinstance(event, Seen) and isinstance(event.object, Pod):
            known = self.bound if decided == "bound" else self.evicted
            known.setdefault(key, event.object)
        self.events.append(event)
        return True


def _pod_key(event: ClusterEvent) -> str:
    match event:
        case Seen(object=Pod() as pod):
            return pod.key
        case Gone(kind="Pod", key=key):
            return key
    return ""


def _before(pod: Pod) -> Pod:
    """A pod that came bound already, as it was before."""
    return replace(pod, spec=replace(pod.spec, node_name=""), status=PodStatus(phase="Pending"))


def follow(
    watching: Watching,
    candidate: Assembly,
    state: ClusterState,
    *,
    beside: str,
    stop: threading.Event,
    period: float = 1.0,
    ends: float | None = None,
    ready: Callable[[ClusterState], None],
    tell: Callable[[Sequence[Difference]], None],
    daily: Callable[[Report], None],
) -> Report:
    """Follow a cluster until stopped, or for *ends* seconds; returns the report.

    *ready* is told when everything was taken in, *tell* of differences as they are
    found; *daily* gets the report after every day.
    :raises PumiceError: the cluster cannot be read.
    """
    clock = SystemClock()
    watching.start()
    try:
        while not watching.inbox.synced.is_set() and not stop.is_set():
            if not watching.alive:
                raise PumiceError(f"the cluster cannot be read: {watching.failure}")
            stop.wait(0.1)
        begun = clock.now()
        shadow = Shadow(candidate, beside=beside, now=begun, state=state)
        gc.disable()  # what is made here stays
        shadow.begin(watching.drain(), begun)
        gc.freeze()
        gc.enable()
        ready(state)
        until = time.monotonic() + ends if ends is not None else None
        due, days = time.monotonic() + period, 1
        while not stop.is_set() and (until is None or time.monotonic() < until):
            stop.wait(max(due - time.monotonic(), 0.0))
            due = max(due + period, time.monotonic())
            if not watching.alive:
                raise PumiceError(f"the cluster cannot be read any more: {watching.failure}")
            tell(shadow.step(watching.drain(), clock.now()))
            if clock.now() >= begun + days * DAY:
                days += 1
                daily(shadow.report())
        return shadow.report()
    finally:
        watching.stop()


Tell = Callable[[Sequence[Difference], float], None]


class _Following(Observer):
    """Hands the shadow what the simulated scheduler is handed, before that decides."""

    def __init__(self, shadow: Shadow, simulation: Simulation, tell: Tell | None) -> None:
        self._shadow, self._simulation, self._tell = shadow, simulation, tell
        self._begun = False

    def handed(self, events: Sequence[ClusterEvent]) -> None:
        now = self._simulation.timeline.now
        if not self._begun:
            self._begun = True
            self._shadow.begin(events, now)
            return
        found = self._shadow.step(events, now)
        if self._tell is not None and found:
            self._tell(found, now)


def beside_simulation(
    scenario: SimScenario, running: str, candidate: Assembly, registry: Registry, tell: Tell | None = None
) -> Report:
    """Play a scenario under its configuration *running*, with the candidate beside it; *tell* hears of differences.

    :raises PumiceError: the run was stopped.
    """
    simulation = Simulation(scenario.setting_of(running), assemble(scenario.configurations[running], registry))
    shadow = Shadow(candidate, beside=running, now=0.0, seed=scenario.setting.seed, evicted=lambda _: True)
    simulation.loop.observers.append(_Following(shadow, simulation, tell))
    simulation.run(scenario.workload())
    if simulation.failure:
        raise PumiceError(f"the run was stopped: {simulation.failure}")
    return shadow.report()
