"""The service of answers: a state, a configuration, and dry cycles over them. One thread owns it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pumice.answers.jobs import (
    JobRow,
    NoSuchThing,
    Obstacles,
    WaitingAnswer,
    find_job,
    find_queue,
    is_waiting,
    job_rows,
)
from pumice.answers.queues import FairnessAnswer, Snapshot, Source, Standing, fairness_of, snapshot_of, standing_of
from pumice.answers.supposition import WhatIf, there_is
from pumice.answers.visibility import VisibleNames
from pumice.answers.what_if import WhatIfQuestion
from pumice.answers.when.forecast import Forecasts, TryQuestion, WhenQuestion, verdict_of
from pumice.answers.when.forward import NO_SCENE, Scene
from pumice.answers.when.learned import Learned
from pumice.answers.when.scene import lanes_of, scene_of
from pumice.answers.why import Evicted, QueueEffect, TriedJob, TryAnswer, WhyAnswer
from pumice.errors import InvalidInput
from pumice.extender.asking.calls import EXCHANGES
from pumice.extender.plugin import CALLERS
from pumice.framework.explaining.explain import Explanation, Stage, explain
from pumice.framework.session.session import Session
from pumice.model.api import AnyObject, Pod, PodGroup, with_namespace
from pumice.model.intents import Bind, Evict
from pumice.model.job import Job
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.saved.cycle import held_objects
from pumice.scheduler.loop import Loop
from pumice.scheduler.recording import NextCycle, record
from pumice.scheduler.report import CycleReport
from pumice.scheduler.watchdog import Watchdog
from pumice.state.cluster import ClusterState
from pumice.state.groups import priority_of

MOST_PODS: Final = 10_000
"""Pods that are tried at once, at most."""


def candidates(state: ClusterState, objects: Iterable[AnyObject]) -> list[AnyObject]:
    """PodGroups and pods to be tried on a cluster, complete: PodGroups first, as if submitted now.

    :raises InvalidInput: another kind, an existing object, a pod of another scheduler.
    """
    stamp = datetime.fromtimestamp(state.now, UTC)
    groups: dict[str, AnyObject] = {}
    pods: dict[str, Pod] = {}
    for given in objects:
        if not isinstance(given, (PodGroup, Pod)):
            raise InvalidInput(
                f"{given.kind_name} {given.key}: only PodGroups, pods and the Jobs that they are made of can be tried"
            )
        obj = with_namespace(given, "default")
        name = f"{obj.kind_name} {obj.key}"
        into: Mapping[str, AnyObject] = groups if isinstance(obj, PodGroup) else pods
        there = state.jobs[obj.key].group if isinstance(obj, PodGroup) and obj.key in state.jobs else None
        if there is not None or obj.key in into or (isinstance(obj, Pod) and obj.key in state.task_by_key):
            raise InvalidInput(f"{name}: is there already; `pumice why` says how it stands")
        meta = msgspec.structs.replace(
            obj.metadata, uid=f"try:{obj.key}", creation_timestamp=stamp, deletion_timestamp=None
        )
        if isinstance(obj, PodGroup):
            groups[obj.key] = _group(obj, meta)
        else:
            pods[obj.key] = _pod(state, obj, meta)
    if len(pods) > MOST_PODS:
        raise InvalidInput(f"{len(pods)} pods: at most {MOST_PODS} can be tried at once")
    _complete(groups, pods.values())
    return [*groups.values(), *pods.values()]


def _group(obj: PodGroup, meta: object) -> PodGroup:
    return msgspec.structs.replace(obj, metadata=meta, status=type(obj.status)())


def _pod(state: ClusterState, obj: Pod, meta: object) -> Pod:
    spec, ours = obj.spec, state.scheduler_names
    if ours is not None and spec.scheduler_name not in ours:
        raise InvalidInput(
            f"Pod {obj.key}: its schedulerName is {spec.scheduler_name!r}, and only {' or '.join(sorted(ours))} is ours"
        )
    if spec.priority is None:
        spec = msgspec.structs.replace(spec, priority=priority_of(state, spec.priority_class_name))
    return msgspec.structs.replace(
        obj, metadata=meta, spec=msgspec.structs.replace(spec, node_name=""), status=type(obj.status)(phase="Pending")
    )


def _complete(groups: Mapping[str, AnyObject], pods: Iterable[Pod]) -> None:
    if not groups:
        raise InvalidInput("there is no PodGroup among what is to be tried, and no Job that one is made of")
    for pod in pods:
        group = group_named(pod.metadata.annotations, pod.spec)
        if f"{pod.metadata.namespace}/{group}" not in groups:
            said = f"PodGroup {group!r}, which is not among what is to be tried" if group else "no PodGroup"
            raise InvalidInput(f"Pod {pod.key}: names {said}, in the annotation {GROUP_ANNOTATION}")


MOST_ROWS: Final = 1000
"""Waiting jobs that an answer names, at most."""


@dataclass(slots=True)
class Answers:
    """Answers questions about one instant of a cluster. Each costs a dry cycle; nothing is changed by any."""

    cycle: NextCycle
    """The decisions of the next cycle. It is only ever run dry."""
    watchdog: Watchdog | None = None
    source: Source = "scheduler"
    learned: Learned | None = None
    """The knowledge of past run times, if any was collected."""
    forecasts: Forecasts | None = None
    """The kept forecast, for repeated questions."""

    @classmethod
    def of_loop(cls, loop: Loop, learned: Learned | None = None, forecasts: Forecasts | None = None) -> Answers:
        """Return the answers of what a running scheduler knows."""
        begun = NextCycle(loop.state, loop.assembly, loop.runtime, loop.shard, loop.environment or {})
        return cls(begun, loop.watchdog, learned=learned, forecasts=forecasts)

    @property
    def state(self) -> ClusterState:
        """The known state of the cluster."""
        return self.cycle.state

    # -- questions --------------------------------------------------------------------------------------------------
    def why(self, name: str, namespace: str = "") -> WhyAnswer:
        """Why a job waits.

        :raises NoSuchThing: there is no such job.
        """
        return self._of_job(find_job(self.state, name, namespace), played=False)[0]

    def when(self, name: str, namespace: str = "") -> WhenQuestion:
        """When a job will likely start, as a question that any thread may answer; why it waits is known already.

        :raises NoSuchThing: there is no such job.
        """
        job = find_job(self.state, name, namespace)
        kept, wanted = None, True
        if self.forecasts is not None:
            kept, wanted = self.forecasts.last(job.uid, self.state.now)
        why, scene = self._of_job(job, played=wanted)
        return WhenQuestion(why, scene, self.learned, self.forecasts, kept)

    def _of_job(self, job: Job, *, played: bool) -> tuple[WhyAnswer, Scene]:
        """Why a job waits. With *played*, if it waits for room, also the scene to play."""
        found: list[tuple[Explanation, Scene]] = []
        taken: list[Snapshot] = []

        def inspect(ssn: Session) -> None:
            why = explain(ssn, job)
            found.append((why, scene_of(ssn) if played and verdict_of(why) == "range" else NO_SCENE))
            if job.queue in ssn.queues:
                taken.append(snapshot_of(ssn.queues[job.queue]))

        report = self._dry(inspect=inspect)
        why, scene = found[0]
        answer = WhyAnswer(
            explanation=why,
            now=self.state.now,
            since=job.creation or None,
            standing=standing_of(taken[0], report.gauges) if taken else None,
            source=self.source,
        )
        if scene is not NO_SCENE:
            scene = replace(scene, lanes=lanes_of(self.state.queues, report.gauges))
        return answer, scene

    def standings(self, names: Iterable[str] | None = None) -> list[Standing]:
        """How queues stand, by name; all of them if none is named.

        :raises NoSuchThing: there is no queue of a name.
        """
        wanted = sorted(self.state.queues) if names is None else [find_queue(self.state, name).name for name in names]
        taken: list[Snapshot] = []
        report = self._dry(inspect=lambda ssn: taken.extend(snapshot_of(ssn.queues[name]) for name in wanted))
        return [standing_of(snapshot, report.gauges) for snapshot in taken]

    def fairness(self) -> FairnessAnswer:
        """Queues below their share while others borrow, and unused shares."""
        taken: list[Snapshot] = []
        reasons: dict[str, Counter[str]] = {}

        def inspect(ssn: Session) -> None:
            taken.extend(snapshot_of(queue) for _, queue in sorted(ssn.queues.items()))
            obstacles = Obstacles(ssn)
            for job in ssn.state.jobs.values():
                if code := obstacles.code(job):
                    reasons.setdefault(job.queue, Counter())[code] += 1

        gauges = self._dry(inspect=inspect).gauges
        return fairness_of(
            [standing_of(snapshot, gauges) for snapshot in taken],
            {queue: dict(found.most_common()) for queue, found in reasons.items()},
            self.cycle.assembly.conf.actions,
            self.state.now,
            self.source,
        )

    def waiting(
        self, queue: str = "", namespaces: Collection[str] | None = None, *, most: int = MOST_ROWS
    ) -> WaitingAnswer:
        """Pending jobs, the longest wait first: of one queue or all, of these namespaces or all. At most *most* rows.

        :raises NoSuchThing: there is no queue of that name.
        """
        if queue:
            find_queue(self.state, queue)
        rows: list[JobRow] = []
        reasons: Counter[str] = Counter()

        def inspect(ssn: Session) -> None:
            obstacles = Obstacles(ssn)
            jobs = [
                job
                for job in ssn.state.jobs.values()
                if queue in ("", job.queue) and (namespaces is None or job.namespace in namespaces) and is_waiting(job)
            ]
            reasons.update(map(obstacles.code, jobs))
            jobs.sort(key=lambda job: (job.creation, job.uid))
            rows.extend(job_rows(ssn, jobs[:most]))

        self._dry(inspect=inspect)
        waiting = reasons.total()
        del reasons[""]  # those that start now
        return WaitingAnswer(
            waiting=waiting,
            rows=rows,
            reasons=dict(reasons.most_common()),
            now=self.state.now,
            source=self.source,
        )

    def attempt(self, objects: Sequence[AnyObject]) -> TryAnswer:
        """The result of new jobs in the next cycle, if nothing else happens.

        :raises InvalidInput: objects that cannot be tried; names the object, and the rule.
        """
        return self.attempt_and_wait(objects).tried

    def attempt_and_wait(self, objects: Sequence[AnyObject]) -> TryQuestion:
        """The same; and when they would start, as a question that any thread may answer.

        :raises InvalidInput: as above.
        """
        begun = time.perf_counter()
        added = candidates(self.state, objects)
        keys = [obj.key for obj in added if isinstance(obj, PodGroup)]
        found: dict[str, TriedJob] = {}
        taken: dict[str, Snapshot] = {}
        by_them: dict[str, dict[str, float]] = {}
        scenes: list[Scene] = []

        def inspect(ssn: Session) -> None:
            problems = [
                f"{obj.kind_name} {obj.key}: {ssn.state.problems[obj.kind_name, obj.key]}"
                for obj in added
                if (obj.kind_name, obj.key) in ssn.state.problems
            ]
            if problems:
                raise InvalidInput("; ".join(problems))
            for key in keys:
                found[key] = _tried(ssn, key)
                name = found[key].queue
                if name in ssn.queues:
                    taken[name] = snapshot_of(ssn.queues[name])
                    mine = by_them.setdefault(name, {})
                    for resource, amount in ssn.state.jobs[key].allocated.as_written().items():
                        mine[resource] = mine.get(resource, 0) + amount
            scenes.append(scene_of(ssn) if not all(job.starts for job in found.values()) else NO_SCENE)

        report = self._dry(added=added, inspect=inspect)
        for intent in report.intents:
            if isinstance(intent, Bind) and intent.job in found:
                found[intent.job].placed[intent.pod] = intent.node
        for key in keys:
            found[key].promised.update(report.pipelined.get(key, {}))
        tried = TryAnswer(
            jobs=[found[key] for key in keys],
            evicted=[
                Evicted(
                    pod=i.pod,
                    job=self.state.task_by_key[i.pod].job_key if i.pod in self.state.task_by_key else "",
                    node=i.node,
                    action=i.action,
                    beneficiary=i.beneficiary,
                )
                for i in report.intents
                if isinstance(i, Evict) and i.beneficiary in found
            ],
            queues=[
                QueueEffect(after=standing_of(taken[name], report.gauges), by_them=by_them[name])
                for name in sorted(taken)
            ],
            now=self.state.now,
            source=self.source,
            milliseconds=round((time.perf_counter() - begun) * 1000, 1),
        )
        scene = scenes[0]
        if scene is not NO_SCENE:
            scene = replace(scene, lanes=lanes_of(self.state.queues, report.gauges))
        return TryQuestion(tried, scene, self.learned)

    def what_if(self, asked: WhatIf) -> WhatIfQuestion:
        """The changed decisions under a supposition, as a question that any thread may answer.

        :raises NoSuchThing: a queue, a node or a job that is not there.
        :raises InvalidInput: nothing to change.
        """
        asked.check()
        state = self.state
        nodes = (*(more.like for more in asked.more), *asked.drained)
        named: list[tuple[str, str, Mapping[str, Any]]] = [("queue", name, state.queues) for name in asked.queues]
        named += [("node", name, state.nodes) for name in nodes]
        for kind, name, known in named:
            if wrong := there_is(kind, name, known):
                raise NoSuchThing(wrong)
        if asked.job:
            asked = msgspec.structs.replace(asked, job=find_job(state, asked.job).uid)
        cycle, conf = self.cycle, self.cycle.assembly.conf
        instant = record(
            state, conf, cycle.runtime, shard=cycle.shard, environment=self._told_of_cluster(), objects=False
        )
        objects = [obj for listed in held_objects(state).values() for obj in listed]
        return WhatIfQuestion(asked, instant, objects, cycle.assembly.registry, self.learned, self.source)

    def _told_of_cluster(self) -> dict[str, Any]:
        """The environment of plugins beside the cluster's objects, without the stand-ins for extenders."""
        return {name: value for name, value in self.cycle.environment.items() if name not in (CALLERS, EXCHANGES)}

    def look(self, inspect: Callable[[Session], None]) -> CycleReport:
        """The decisions of the next cycle; *inspect* is shown its session, and must only read."""
        return self._dry(inspect=inspect)

    def names(self) -> VisibleNames:
        """The objects of the cluster that not every caller may see."""
        state = self.state
        namespaces = {*state.kind("Namespace"), *state.namespaces, *(job.namespace for job in state.jobs.values())}
        return VisibleNames(frozenset(namespaces), frozenset(state.nodes))

    def _dry(self, added: Sequence[AnyObject] = (), inspect: Callable[[Session], None] | None = None) -> CycleReport:
        with self.watchdog.cycle() if self.watchdog is not None else nullcontext():
            return self.cycle.dry_run(inspect, added)


def _tried(ssn: Session, key: str) -> TriedJob:
    job = ssn.state.jobs[key]
    why = explain(ssn, job)
    starts = why.stage is Stage.SERVED
    return TriedJob(
        job=key,
        queue=job.queue,
        starts=starts,
        tasks=len(job.tasks),
        min_available=job.min_available,
        placed={},
        promised={},
        why=None if starts else why,
    )
