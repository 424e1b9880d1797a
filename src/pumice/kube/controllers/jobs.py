"""The job controller: looks at one vcjob and does what is missing for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from pumice.clock import Clock
from pumice.errors import InvalidInput
from pumice.kube.admission import ADMITTED
from pumice.kube.controllers.pod_groups import create_group, group_key, group_of, mend_group
from pumice.kube.controllers.store import BATCH, COMMANDS, GROUPS, JOBS, PODS, Command, OwnedPod, Store, VcJob, owner_of
from pumice.kube.controllers.work import WorkQueue
from pumice.kube.errors import ApiRefused
from pumice.kube.kinds import DECODERS, Resource
from pumice.kube.writer import ApiWriter, all_of
from pumice.model.api import AnyObject, PodGroup
from pumice.model.codes import ReasonCode
from pumice.model.intents import Note
from pumice.model.task import ROLE_KEY
from pumice.workloads.lifecycle import (
    FINISHED,
    GROUPLESS,
    PENDING,
    RESTARTING,
    RUNNING,
    JobSeen,
    LifecyclePlan,
    PodSeen,
    next_step,
)
from pumice.workloads.vcjob import (
    PLUGINS,
    Reaction,
    Role,
    answers_of,
    blocks_of,
    gaps_of,
    map_name,
    minimum_of,
    pod_body,
    problems_of,
    roles_of,
    service_bodies,
    wants_service,
)

CONDITIONS = 20
"""So many changes of phase are kept."""


def phase_of(job: VcJob) -> str:
    """The phase of a job; a new one is pending."""
    return (job.status.get("state") or {}).get("phase") or PENDING


def status_of(job: VcJob, plan: LifecyclePlan, minimum: int, now: float) -> dict[str, Any]:
    """The status that follows from a plan. Equal to the one that stands if nothing is news."""
    old = job.status
    counts = plan.counts
    status: dict[str, Any] = {"state": _state(job, plan, now), "minAvailable": minimum}
    numbers = {
        "pending": counts.of("Pending"),
        "running": counts.of("Running"),
        "succeeded": counts.of("Succeeded"),
        "failed": counts.of("Failed"),
        "unknown": counts.of("Unknown"),
        "terminating": counts.leaving,
        "version": plan.version,
        "retryCount": plan.retries,
    }
    status.update({name: number for name, number in numbers.items() if number})
    tasks = {role: {"phase": dict(sorted(by.items()))} for role, by in sorted(counts.phases.items()) if by}
    if tasks:
        status["taskStatusCount"] = tasks
    used = {f"plugin-{name}": name for name in sorted(job.spec.plugins or {}) if name in PLUGINS}
    kept = {**(old.get("controlledResources") or {}), **used}
    if kept:
        status["controlledResources"] = kept
    conditions = old.get("conditions") or []
    if plan.phase != (old.get("state") or {}).get("phase"):
        conditions = [*conditions, {"status": plan.phase, "lastTransitionTime": status["state"]["lastTransitionTime"]}]
    status["conditions"] = conditions[-CONDITIONS:]
    return status


def _state(job: VcJob, plan: LifecyclePlan, now: float) -> dict[str, Any]:
    old = job.status.get("state") or {}
    if old.get("phase") == plan.phase and old.get("reason") != ReasonCode.INVALID_SPEC:
        return dict(old)
    state = {"phase": plan.phase, "lastTransitionTime": _time(now)}
    gaps = gaps_of(job.spec)
    if plan.why:
        state |= {"reason": plan.why.partition(":")[0], "message": plan.why}
    elif gaps:
        state |= {"reason": ReasonCode.UNSUPPORTED, "message": "; ".join(gaps)}
    return state


def refused_status(job: VcJob, wrong: Sequence[str], now: float) -> dict[str, Any]:
    """The status of a job that cannot be run as written; all else stays as it was."""
    old = job.status.get("state") or {}
    state = {"phase": phase_of(job), "reason": ReasonCode.INVALID_SPEC, "message": "; ".join(wrong)}
    same = old.get("reason") == ReasonCode.INVALID_SPEC and "lastTransitionTime" in old
    state["lastTransitionTime"] = old["lastTransitionTime"] if same else _time(now)
    return {**job.status, "state": state}


def status_body(job: VcJob, status: dict[str, Any]) -> dict[str, Any]:
    """The patch: it counts only if the job is still the one that we looked at."""
    meta = job.metadata
    who = {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"apiVersion": BATCH, "kind": "Job", "metadata": who, "status": status}


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_RESOURCES = {
    "ConfigMap": Resource("ConfigMap", "/api/v1", "configmaps"),
    "Service": Resource("Service", "/api/v1", "services"),
    "NetworkPolicy": Resource("NetworkPolicy", "/apis/networking.k8s.io/v1", "networkpolicies"),
}


class JobServices:
    """Sees that what the job plugin ``svc`` promises is there. It goes with the job."""

    def __init__(self, writer: ApiWriter, complain: Callable[[VcJob, str], None]) -> None:
        self._writer, self._complain = writer, complain
        self._seen: dict[str, int] = {}
        """Job's uid -> the generation of its spec for which everything is there."""

    async def ensure(self, job: VcJob, roles: Sequence[Role]) -> None:
        """Make what is missing; a job that changed gets a new list of hosts."""
        meta = job.metadata
        if not wants_service(job.spec) or self._seen.get(meta.uid) == meta.generation:
            return
        hosts = map_name(meta.name, meta.uid, meta.generation)
        for kind, body in service_bodies(meta.name, meta.namespace, job.spec, roles, hosts).items():
            body["metadata"] |= {"namespace": meta.namespace, "ownerReferences": [owner_of(job)]}
            made = await self._writer.create_object(_RESOURCES[kind], meta.namespace, body)
            if made is not None or kind == "ConfigMap":  # nobody else has a map of that name
                continue
            key = f"{meta.namespace}/{body['metadata']['name']}"
            there = (await self._writer.read_object(_RESOURCES[kind], key) or {}).get("metadata") or {}
            if all(owner.get("uid") != meta.uid for owner in there.get("ownerReferences") or ()):
                self._complain(job, f"{kind} {key} exists and is not of this job")
        self._seen[meta.uid] = meta.generation

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._seen.pop(uid, None)


OCCUPIED = 10.0
"""Seconds until it is looked again whether a pod's name has become free."""

Say = Callable[[Note, str], None]


class JobReconciler:
    """Brings vcjobs forward. Its memory is their status; here is only what the watches have not shown yet."""

    def __init__(self, store: Store, writer: ApiWriter, say: Say, clock: Clock, *, scheduler: str) -> None:
        self._store, self._writer, self._say, self._clock, self._scheduler = store, writer, say, clock, scheduler
        self._removed: set[str] = set()
        """UIDs of pods that we deleted and that are still to be seen."""
        self._noticed: set[str] = set()
        """UIDs of pods that are leaving, which was noticed."""
        self._lost: dict[str, list[PodSeen]] = {}
        """Job's uid -> pods that went by themselves since it was looked at."""
        self._obeyed: set[str] = set()
        """UIDs of commands that were carried out and are still to be seen."""
        self._told: set[str] = set()
        """UIDs of jobs that were told what is not supported."""
        self._services = JobServices(writer, lambda job, text: self._note(job, ReasonCode.PLUGIN_ERROR, text))
        self.queue = WorkQueue("job", self.look)
        store.listen(self._changed)

    def _changed(self, obj: AnyObject) -> None:
        namespace = obj.metadata.namespace
        match obj:
            case VcJob():
                if not self._store.has(obj):
                    self._services.forget(obj.metadata.uid)
                    self._told.discard(obj.metadata.uid)
                    self._lost.pop(obj.metadata.uid, None)
                self.queue.add(obj.key)
            case OwnedPod() if obj.job is not None:
                self._notice(obj, f"{namespace}/{obj.job.name}", obj.job.uid)
                self.queue.add(f"{namespace}/{obj.job.name}")
            case PodGroup():
                for owner in obj.metadata.owner_references or ():
                    if owner.kind == "Job":
                        self.queue.add(f"{namespace}/{owner.name}")
            case Command() if obj.target.kind == "Job":
                if not self._store.has(obj):
                    self._obeyed.discard(obj.metadata.uid)
                self.queue.add(f"{namespace}/{obj.target.name}")

    def _notice(self, pod: OwnedPod, key: str, job: str) -> None:
        """Remember a pod that goes before its job, once, unless we sent it away.

        Lost pods from before the start show in the counters.
        """
        uid, gone, owner = pod.metadata.uid, not self._store.has(pod), self._store.job(key)
        if (gone or pod.metadata.deletion_timestamp is not None) and uid not in self._noticed:
            self._noticed.add(uid)
            there = owner is not None and owner.metadata.uid == job
            if there and uid not in self._removed and self._store.synced.is_set():
                self._lost.setdefault(job, []).append(pod.seen(_role(pod), True))
        if gone:
            self._removed.discard(uid)
            self._noticed.discard(uid)

    async def look(self, key: str) -> None:
        """Look at one job and do what is next."""
        job = self._store.job(key)
        if job is None:
            namespace, _, name = key.partition("/")
            for late in self._store.commands_for("Job", name, namespace):
                await self._writer.delete(COMMANDS, late.key, late.metadata.uid)
        if job is None or job.metadata.deletion_timestamp is not None:
            return
        wrong = [*problems_of(job.metadata.name, job.spec), *blocks_of(job.spec)]
        if wrong:
            await self._refuse(job, wrong)
            return
        self._tell_gaps(job)
        roles = roles_of(job.spec)
        minimum = minimum_of(job.spec, roles)
        group = await self._group(job, roles, minimum)
        self._tell_refusal(job, group)
        command, asked = self._asked(job)
        seen = self._seen(job, roles, minimum, group)
        plan = next_step(seen, asked)
        if phase_of(job) in (PENDING, RUNNING, RESTARTING):
            await self._services.ensure(job, roles)
        if not await self._write(job, plan, minimum):
            return
        del self._lost.get(job.metadata.uid, [])[: len(seen.lost)]
        await self._carry_out(job, plan)
        if command is not None:
            self._obeyed.add(command.metadata.uid)
            await self._writer.delete(COMMANDS, command.key, command.metadata.uid)
        if plan.phase in FINISHED and plan.phase == phase_of(job):
            await self._expire(job)

    # -- seeing -----------------------------------------------------------------------------------------------------
    def _seen(self, job: VcJob, roles: Sequence[Role], minimum: int, group: PodGroup | None) -> JobSeen:
        counted, meta = job.status.get("taskStatusCount") or {}, job.metadata
        pods = self._store.pods_of(meta.namespace, meta.uid)
        return JobSeen(
            roles=roles,
            minimum=minimum,
            pods=[pod.seen(_role(pod), pod.metadata.uid in self._removed) for pod in pods],
            answers=answers_of(job.spec.policies),
            min_success=job.spec.min_success,
            max_retry=job.spec.max_retry,
            phase=phase_of(job),
            version=int(job.status.get("version") or 0),
            retries=int(job.status.get("retryCount") or 0),
            counted={role: sum((state.get("phase") or {}).values()) for role, state in counted.items()},
            lost=tuple(self._lost.get(job.metadata.uid, ())),
            group_phase=(group.status.phase or PENDING) if group is not None else "",
        )

    def _asked(self, job: VcJob) -> tuple[Command | None, Reaction | None]:
        """The first command about the job that was not carried out yet."""
        for command in self._store.commands_for("Job", job.metadata.name, job.metadata.namespace):
            if command.target.uid in ("", job.metadata.uid) and command.metadata.uid not in self._obeyed:
                try:
                    return command, Reaction(command.action)
                except ValueError:
                    self._note(
                        job, ReasonCode.UNSUPPORTED, f"command {command.metadata.name}: no action {command.action!r}"
                    )
                    return command, None
        return None, None

    # -- doing ------------------------------------------------------------------------------------------------------
    async def _group(self, job: VcJob, roles: Sequence[Role], minimum: int) -> PodGroup | None:
        """The job's PodGroup as it stands; made, mended or removed where that is due."""
        group = self._store.group(group_key(job))
        if group is not None and all(o.uid != job.metadata.uid for o in group.metadata.owner_references or ()):
            self._note(job, ReasonCode.POD_GROUP_ERROR, f"PodGroup {group.key} exists and is not of this job")
            return None
        if phase_of(job) in GROUPLESS:
            if group is not None:
                await self._writer.delete(GROUPS, group.key, group.metadata.uid)
            return None
        try:
            wanted = group_of(job, roles, minimum, self._store.priority)
        except InvalidInput as exc:
            self._note(job, ReasonCode.POD_GROUP_ERROR, str(exc))
            return group
        if group is not None:
            await mend_group(self._writer, wanted, group)
        else:
            answer = await create_group(self._writer, wanted, [owner_of(job)])
            if answer is not None:
                self._store.take(DECODERS["PodGroup"].decode(answer))
        return group

    async def _write(self, job: VcJob, plan: LifecyclePlan, minimum: int) -> bool:
        """Write the status if it is news; False if the job changed in between and must be looked at again."""
        status = status_of(job, plan, minimum, self._clock.now())
        if status == job.status:
            return True
        if plan.phase != phase_of(job):
            said = f"{phase_of(job)} -> {plan.phase}" + (f" ({plan.why})" if plan.why else "")
            self._note(job, ReasonCode.EXECUTE_ACTION if plan.why else ReasonCode.PHASE_CHANGED, said, "Normal")
        return await self._replace(job, status_body(job, status))

    async def _replace(self, job: VcJob, body: dict[str, object]) -> bool:
        answer = await self._writer.replace_status(JOBS, job.key, body)
        if answer is None:
            self.queue.add(job.key, 1.0)
            return False
        self._store.take(DECODERS["Job"].decode(answer))
        return True

    async def _carry_out(self, job: VcJob, plan: LifecyclePlan) -> None:
        for last in (False, True):
            await all_of(self._remove(job, pod) for pod in plan.remove if (pod.phase == "Failed") is last)
        if not plan.create:
            return
        try:
            await all_of(self._create(job, plan, role, index) for role, index in plan.create)
        except ApiRefused as no:
            self._note(job, ReasonCode.FAILED_CREATE, f"Error creating pods: {no}")
            raise

    async def _remove(self, job: VcJob, pod: PodSeen) -> None:
        key = f"{job.metadata.namespace}/{pod.name}"
        self._removed.add(pod.uid)
        try:
            await self._writer.delete(PODS, key, pod.uid)
        except Exception:
            self._removed.discard(pod.uid)
            raise
        there = self._store.pod(key)
        if there is None or there.metadata.uid != pod.uid:  # it was seen to go before we could send it away
            self._removed.discard(pod.uid)

    async def _create(self, job: VcJob, plan: LifecyclePlan, role: Role, index: int) -> None:
        meta = job.metadata
        body = pod_body(
            msgspec.to_builtins(meta),
            job.spec,
            role,
            index,
            version=plan.version,
            group=f"{meta.name}-{meta.uid}",
            scheduler=self._scheduler,
        )
        body["metadata"]["ownerReferences"] = [owner_of(job)]
        answer = await self._writer.create_object(PODS, meta.namespace, body)
        if answer is not None:
            self._store.take(DECODERS[OwnedPod.kind_name].decode(answer))
            return
        name = body["metadata"]["name"]
        there = await self._writer.read_object(PODS, f"{meta.namespace}/{name}")
        owners = ((there or {}).get("metadata") or {}).get("ownerReferences") or ()
        if there is not None and all(owner.get("uid") != meta.uid for owner in owners):
            self._note(job, ReasonCode.FAILED_CREATE, f"pod {name} exists and is not of this job")
        self.queue.add(job.key, OCCUPIED)

    async def _expire(self, job: VcJob) -> None:
        """Delete a finished job when its time to live is over, and look again when it will be."""
        since = (job.status.get("state") or {}).get("lastTransitionTime")
        if since is None or job.spec.ttl_seconds_after_finished is None:
            return
        end = datetime.fromisoformat(since).timestamp() + job.spec.ttl_seconds_after_finished
        left = end - self._clock.now()
        if left > 0:
            self.queue.add(job.key, left + 0.05)
        else:
            await self._writer.delete(JOBS, job.key, job.metadata.uid)

    # -- saying -----------------------------------------------------------------------------------------------------
    async def _refuse(self, job: VcJob, wrong: list[str]) -> None:
        """Say what is wrong with a job; nothing of it is touched until it was changed."""
        status = refused_status(job, wrong, self._clock.now())
        if status != job.status:
            self._note(job, ReasonCode.INVALID_SPEC, "; ".join(wrong))
            await self._replace(job, status_body(job, status))

    def _tell_gaps(self, job: VcJob) -> None:
        gaps = gaps_of(job.spec)
        if gaps and job.metadata.uid not in self._told:
            self._told.add(job.metadata.uid)
            self._note(job, ReasonCode.UNSUPPORTED, "; ".join(gaps))

    def _tell_refusal(self, job: VcJob, group: PodGroup | None) -> None:
        """Say why the PodGroup of a job that has no pods yet was not let in: nobody looks for it there."""
        for condition in (group.status.conditions if group is not None else None) or ():
            if condition.type == ADMITTED and condition.status == "False" and phase_of(job) == PENDING:
                self._note(job, ReasonCode.UNSCHEDULABLE, condition.message)

    def _note(self, job: VcJob, reason: ReasonCode, message: str, kind: str = "Warning") -> None:
        self._say(Note("Job", job.key, kind, reason, message), job.metadata.uid)


def _role(pod: OwnedPod) -> str:
    return (pod.metadata.annotations or {}).get(ROLE_KEY, "")
