"""The job controller: expands jobs into pods, counts their run time, restarts what was lost, and ends them."""

from __future__ import annotations

import math
from collections import Counter, deque
from datetime import UTC, datetime
from typing import Protocol

from msgspec.structs import replace

from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.api import Metadata, PodGroup
from pumice.sim.cluster import SimCluster, SimPod
from pumice.sim.draws import stream
from pumice.sim.engine import EventLog, Rank, Timeline
from pumice.sim.jobs import JobSpec, PodKind, Work
from pumice.sim.results.records import JobOutcome, PodOutcome
from pumice.sim.speed import Costs, RunningGang, Speed
from pumice.workloads.grouping import job_group
from pumice.workloads.vcjob import POD_FAILED, TASK_COMPLETED, Reaction, reaction_to


class SimJob:
    """A job that was submitted and is not over."""

    __slots__ = (
        *("counted_at", "ends", "epoch", "failures", "finished", "key", "number", "pods", "queue", "quorum_since"),
        *("running", "saved", "spec", "speed", "start", "tries"),
    )

    def __init__(self, spec: JobSpec, number: int) -> None:
        self.spec, self.key, self.number = spec, spec.key, number
        self.pods: dict[str, SimPod] = {}
        """Those that are not over, by name."""
        self.finished: dict[str, SimPod] = {}
        self.queue: deque[tuple[PodKind, str]] = deque()
        """Pods that are created when others have ended."""
        self.running = 0
        self.start: float | None = None
        self.quorum_since: float | None = None
        """Since when the gang works at its speed; in the future while a restart or a change of its size takes time."""
        self.counted_at = -1.0
        """The instant at which that was said."""
        self.speed = 1.0
        self.epoch = 0
        """Grows when the gang falls; what was planned before is void then."""
        self.saved: dict[str, float] = {}
        """Work that need not be done again, of each pod that ran before; of the whole gang under an empty name."""
        self.ends: dict[float, list[SimPod]] = {}
        self.failures = 0
        self.tries: dict[str, int] = {}


class JobWatcher(Protocol):
    """The recorder of jobs and of every stay of a pod on a node."""

    def job_over(self, job: SimJob, end: float, outcome: JobOutcome) -> None: ...

    def stay_over(self, pod: SimPod, end: float, outcome: PodOutcome, lost_s: float) -> None: ...


class JobController:
    """Runs jobs on an embedded cluster."""

    def __init__(
        self,
        cluster: SimCluster,
        watcher: JobWatcher,
        *,
        seed: int = 0,
        pod_failures_every_s: float = 0.0,
        costs: Costs | None = None,
    ) -> None:
        self._cluster, self._watcher = cluster, watcher
        self._costs = costs or Costs()
        self._timeline: Timeline = cluster.timeline
        self._log: EventLog = cluster.log
        self._seed, self._failures_every = seed, pod_failures_every_s
        self.jobs: dict[str, SimJob] = {}
        """Jobs that are not over, by key, in the order of submission."""
        self.submitted = 0
        self.over = 0
        self._starts: Counter[str] = Counter()
        """How often each pod has started, where pods fail by chance."""
        cluster.owner = self

    # -- arriving ---------------------------------------------------------------------------------------------------
    def submit(self, spec: JobSpec) -> None:
        """A job arrives: its PodGroup and its pods are created."""
        job = SimJob(spec, self.submitted)
        self.jobs[job.key] = job
        self.submitted += 1
        now = self._timeline.now
        self._log.write(now, f"submit {job.key} queue={spec.queue} pods={spec.tasks} min={spec.min_available}")
        self._cluster.put(group_of(spec, now))
        job.queue.extend([(kind, name) for kind in spec.kinds for name in kind.names])
        self._create(job, spec.parallelism or len(job.queue))

    def _create(self, job: SimJob, count: int) -> None:
        """The next *count* pods that were not created yet."""
        placed, made = job.spec.placed, self._timeline.stamp
        for _ in range(min(count, len(job.queue))):
            kind, name = job.queue.popleft()
            pod = job.pods[name] = self._cluster.create_pod(job, kind, name, made)
            if placed and name in placed:
                self._cluster.place(pod, placed[name])

    def _create_again(self, pod: SimPod) -> None:
        """A pod of the same name and kind, to begin anew."""
        pod.job.pods[pod.name] = self._cluster.create_pod(pod.job, pod.kind, pod.name, self._timeline.stamp)

    # -- pods -------------------------------------------------------------------------------------------------------
    def pod_started(self, pod: SimPod) -> None:
        """A pod runs from now on."""
        job, now = pod.job, self._timeline.now
        spec = job.spec
        job.running += 1
        enough = job.running + len(job.finished) >= spec.min_available
        if enough and job.start is None:
            job.start = now
            self._log.write(now, f"start {job.key}")
        if pod.kind.failing_attempts or self._failures_every:
            self._plan_failure(job, pod, now)
        if spec.work is Work.GANG:
            if job.quorum_since is not None:
                self._resized(job)
            elif enough:
                self._count(job, self._restart_cost(job, ""))
            return
        left = max(pod.kind.run_s - job.saved.get(pod.name, 0.0), 0.0)
        end = now + self._restart_cost(job, pod.name) + self._costs.needed(left, spec.checkpoint_s)
        planned = job.ends.get(end)
        if planned is not None:
            planned.append(pod)
        elif end < math.inf:
            job.ends[end] = [pod]
            self._timeline.at(end, Rank.PODS, self._pods_done, job, end)

    # -- the run time of a gang -------------------------------------------------------------------------------------
    def _count(self, job: SimJob, pause: float) -> None:
        """Let the run time of a gang count after a *pause*, at the speed of the pods that it has."""
        now, spec = self._timeline.now, job.spec
        job.counted_at, job.quorum_since = now, now + pause
        if spec.speed is not None:
            job.speed = self._speed(job, spec.speed)
            self._log.write(now, f"speed {job.key} {job.speed:g}")
        left = max((math.inf if spec.run_s is None else spec.run_s) - job.saved.get("", 0.0), 0.0)
        end = job.quorum_since + self._costs.needed(left / job.speed, spec.checkpoint_s)
        self._timeline.at(end, Rank.PODS, self._gang_done, job, job.epoch)

    def _speed(self, job: SimJob, speed: Speed) -> float:
        nodes, pods = self._cluster.nodes, self._at_work(job)
        labels = [nodes[pod.node].object.metadata.labels or {} for pod in pods]
        models = tuple([found.get(keys.GPU_MODEL, "") for found in labels])
        on = tuple([pod.node for pod in pods])
        found = speed(RunningGang(job.key, job.spec.queue, len(pods), job.spec.tasks, models, on))
        if not 0 < found < math.inf:
            raise InvalidInput(f"speed of job {job.key}: must be a number above 0, got {found!r}")
        return float(found)

    def _at_work(self, job: SimJob) -> list[SimPod]:
        return [pod for pod in job.pods.values() if pod.started is not None and pod.node in self._cluster.nodes]

    def _resized(self, job: SimJob) -> None:
        """A gang that works has another number of pods. All that changes at one instant costs once."""
        now, resize = self._timeline.now, self._costs.resize
        if job.spec.speed is None and not resize:
            return
        if not self._at_work(job):
            return  # the last of them were on a node that fails, and are lost at this instant
        assert job.quorum_since is not None
        pause = max(job.quorum_since - now, 0.0) if job.counted_at == now else resize
        self._pause(job)
        self._count(job, pause)

    def _restart_cost(self, job: SimJob, name: str) -> float:
        return self._costs.restart if name in job.saved else 0.0

    def _elapsed(self, job: SimJob, pod: SimPod) -> float:
        """Seconds for which the work of a pod, or of its gang, has gone on."""
        if job.spec.work is Work.GANG:
            since = math.inf if job.quorum_since is None else job.quorum_since
        else:
            since = math.inf if pod.started is None else pod.started + self._restart_cost(job, pod.name)
        return max(self._timeline.now - since, 0.0)

    def _plan_failure(self, job: SimJob, pod: SimPod, now: float) -> None:
        kind = pod.kind
        if job.tries.get(pod.name, 0) < kind.failing_attempts:
            self._timeline.at(now + kind.fails_after_s, Rank.PODS, self._pod_fails, pod)
        if self._failures_every:
            self._starts[pod.key] += 1  # not the uid: it counts the pods of all jobs
            after = stream(self._seed, "pod", pod.key, self._starts[pod.key]).expovariate(1 / self._failures_every)
            self._timeline.at(now + round(after, 3), Rank.PODS, self._pod_fails, pod)

    def _gang_done(self, job: SimJob, epoch: int) -> None:
        if job.epoch == epoch and self.jobs.get(job.key) is job:
            self._finish(job, "completed")

    def _pods_done(self, job: SimJob, end: float) -> None:
        if self.jobs.get(job.key) is not job:
            return
        done = [p for p in job.ends.pop(end, ()) if job.pods.get(p.name) is p and not p.terminating]
        if len(done) == len(job.pods) and not job.queue:
            self._finish(job, "completed")
            return
        now = self._timeline.now
        for pod in done:
            del job.pods[pod.name]
            job.finished[pod.name] = pod
            job.running -= 1
            self._watcher.stay_over(pod, now, "completed", 0.0)
            self._cluster.end_pod(pod)
        self._create(job, len(done))
        for kind in {id(p.kind): p.kind for p in done}.values():
            if all(name in job.finished for name in kind.names):
                reaction = reaction_to(TASK_COMPLETED, kind.reactions, job.spec.reactions)
                if reaction is not None and self._apply(job, None, reaction):
                    return

    def _pod_fails(self, pod: SimPod) -> None:
        job = pod.job
        if job.pods.get(pod.name) is not pod or self.jobs.get(job.key) is not job or pod.terminating:
            return
        self._log.write(self._timeline.now, f"fail {pod.key}")
        job.tries[pod.name] = job.tries.get(pod.name, 0) + 1
        self._cluster.remove_pod(pod)
        self.pod_lost(pod, POD_FAILED, "failed")

    def pod_lost(self, pod: SimPod, event: str, outcome: PodOutcome) -> None:
        """A pod failed, was evicted, or went down with its node; it is gone from the cluster."""
        job = pod.job
        if self.jobs.get(job.key) is not job or job.pods.get(pod.name) is not pod:
            return
        spec = job.spec
        del job.pods[pod.name]
        if pod.started is not None:
            job.running -= 1
        reaction = reaction_to(event, pod.kind.reactions, spec.reactions)
        broken = spec.work is Work.GANG and job.quorum_since is not None and job.running < spec.min_available
        if reaction is None:
            reaction = Reaction.RESTART_JOB if broken else Reaction.RESTART_POD
        if event == POD_FAILED:
            job.failures += 1
            if job.failures > spec.retries and reaction in _RESTARTS:
                reaction = Reaction.ABORT_JOB
        self._leave(pod, outcome, self._lost(job, pod, reaction is Reaction.RESTART_JOB))
        if broken and reaction is not Reaction.RESTART_JOB:
            self._pause(job)
        if not self._apply(job, pod, reaction):
            self._create_again(pod)
            if spec.work is Work.GANG and job.quorum_since is not None:
                self._resized(job)

    def _apply(self, job: SimJob, pod: SimPod | None, reaction: Reaction) -> bool:
        """Do what a policy says; True if the job is over."""
        match reaction:
            case Reaction.COMPLETE_JOB if job.start is not None:
                self._finish(job, "completed")
                return True
            case Reaction.COMPLETE_JOB | Reaction.ABORT_JOB | Reaction.TERMINATE_JOB:
                self._finish(job, "failed")
                return True
            case Reaction.RESTART_JOB:
                self._restart(job, None)
            case Reaction.RESTART_TASK:
                self._restart(job, pod.kind if pod is not None else None)
            case _:
                pass
        return False

    def _restart(self, job: SimJob, kind: PodKind | None) -> None:
        """All pods of the job, or of one kind, begin again; those that wait go on waiting."""
        now = self._timeline.now
        again = [p for p in job.pods.values() if p.node and (kind is None or p.kind is kind)]
        losses = [self._lost(job, pod, True) for pod in again]
        if kind is None and job.quorum_since is not None:
            kept = self._costs.kept(now - job.quorum_since, job.spec.checkpoint_s)
            job.saved[""] = job.saved.get("", 0.0) + kept * job.speed
        job.epoch += 1
        job.quorum_since = None
        self._log.write(now, f"restart {job.key}")
        for pod, lost in zip(again, losses, strict=True):
            if pod.started is not None:
                job.running -= 1
            self._cluster.remove_pod(pod)
            self._leave(pod, "restarted", lost)
            self._create_again(pod)
        for pod in [p for p in job.finished.values() if kind is None or p.kind is kind]:
            del job.finished[pod.name]
            self._cluster.remove_pod(pod)
            self._create_again(pod)

    def _pause(self, job: SimJob) -> None:
        """Too few pods of the gang are left: its run time stands still until they are back."""
        if job.quorum_since is not None:
            done = self._costs.done(self._timeline.now - job.quorum_since, job.spec.checkpoint_s)
            job.saved[""] = job.saved.get("", 0.0) + done * job.speed
        job.epoch += 1
        job.quorum_since = None

    def _lost(self, job: SimJob, pod: SimPod, falls: bool) -> float:
        """Seconds of this stay whose work must be done again; what a checkpoint saved is remembered."""
        if pod.started is None:
            return 0.0
        spec, elapsed = job.spec, self._elapsed(job, pod)
        worked, kept = (find(elapsed, spec.checkpoint_s) for find in (self._costs.done, self._costs.kept))
        if spec.work is Work.GANG:
            return min(self._timeline.now - pod.started, worked - kept) if falls else 0.0
        job.saved[pod.name] = job.saved.get(pod.name, 0.0) + kept
        return worked - kept

    def _leave(self, pod: SimPod, outcome: PodOutcome, lost_s: float) -> None:
        if pod.started is not None:
            self._watcher.stay_over(pod, self._timeline.now, pod.fate or outcome, lost_s)

    # -- ending -----------------------------------------------------------------------------------------------------
    def _finish(self, job: SimJob, outcome: JobOutcome) -> None:
        now, spec = self._timeline.now, job.spec
        for pod in job.pods.values():
            if pod.started is not None:
                self._watcher.stay_over(pod, now, "completed" if outcome == "completed" else "failed", 0.0)
            self._cluster.remove_pod(pod)
        for pod in job.finished.values():
            self._cluster.remove_pod(pod)
        self._cluster.remove(spec.group.kind_name if spec.group is not None else "PodGroup", job.key)
        del self.jobs[job.key]
        self.over += 1
        self._log.write(now, f"end {job.key} {outcome}")
        self._watcher.job_over(job, now, outcome)
        job.pods, job.finished, job.ends = {}, {}, {}


_RESTARTS = (Reaction.RESTART_JOB, Reaction.RESTART_POD, Reaction.RESTART_TASK)


def group_of(spec: JobSpec, now: float) -> PodGroup:
    """The PodGroup of a job that was submitted *now*."""
    made = job_group(
        Metadata(
            name=spec.name,
            namespace=spec.namespace,
            uid=spec.key,
            creation_timestamp=datetime.fromtimestamp(now, UTC),
            labels=spec.labels,
            annotations=spec.annotations,
        ),
        minimum=spec.min_available,
        role_minimums=spec.role_minimums,
        resources=spec.min_resources,
        queue=spec.queue,
        priority_class=spec.priority_class,
    )
    if spec.group is None:
        return made
    asked = replace(
        spec.group.spec,
        **{name: getattr(made.spec, name) for name in ("min_member", "min_task_member", "min_resources", "queue")},
        priority_class_name=made.spec.priority_class_name,
    )
    return replace(spec.group, metadata=made.metadata, spec=asked, status=made.status)
