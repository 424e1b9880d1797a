"""The decisions and findings of a session: intents, promises, and the reasons of unserved jobs.

* `Refusal`: the stage that stopped a job, and what was said; jobs that are refused together share one (`Refusals`).
* `Outcome`: intents, statements that stay applied, refusals, fit errors, conditions; it settles PodGroups at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from pumice.engine.diagnosis import FitError
from pumice.errors import words_of
from pumice.framework.points.guard import FAILS, let_pass
from pumice.model import native
from pumice.model.api import CONTRARY
from pumice.model.codes import ReasonCode
from pumice.model.intents import Intent, StatusUpdate
from pumice.model.job import Job
from pumice.model.limit import Limit
from pumice.model.reason import Verdict, Words
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.session.runtime import Runtime
    from pumice.framework.session.statement import Operation, Statement


class Stage(StrEnum):
    """How far a job came in a cycle."""

    ABSENT = "absent"
    """It has no PodGroup or no queue, so nobody looked at it."""
    ENQUEUE = "enqueue"
    """It was not let into its queue."""
    VALID = "valid"
    """It was not worth trying."""
    QUEUE = "queue"
    """Its queue may not take it now."""
    NODES = "nodes"
    """No node is good enough for one of its tasks."""
    TOPOLOGY = "topology"
    """It asks for a network topology that cannot be had."""
    READY = "ready"
    """Its tasks have places, but not enough of them, or they wait for room that is being released."""
    OBJECTION = "objection"
    """A plugin that follows placements objected to one of its."""
    BIND = "bind"
    """A preparation of a bind failed."""
    REFUSED = "refused"
    """A bind was refused, a cycle failed at it, or it lost surplus too often: it is tried again later."""
    EVICTION = "eviction"
    """A plan to make room for it was refused."""
    UNSEEN = "unseen"
    """No plugin refused it, and no action placed it."""
    SERVED = "served"
    """It has what it needs to run."""

    @property
    def code(self) -> ReasonCode:
        """The word for programs."""
        return _CODES[self]


_CODES: Final = {
    Stage.ABSENT: ReasonCode.NO_POD_GROUP,
    Stage.ENQUEUE: ReasonCode.NOT_LET_IN,
    Stage.VALID: ReasonCode.NOT_VALID,
    Stage.QUEUE: ReasonCode.QUEUE_REFUSED,
    Stage.NODES: ReasonCode.NO_NODE_FITS,
    Stage.TOPOLOGY: ReasonCode.TOPOLOGY_NOT_MET,
    Stage.READY: ReasonCode.GANG_NOT_READY,
    Stage.OBJECTION: ReasonCode.PLACEMENT_REFUSED,
    Stage.BIND: ReasonCode.BIND_NOT_PREPARED,
    Stage.REFUSED: ReasonCode.BIND_REFUSED,
    Stage.EVICTION: ReasonCode.PLAN_REFUSED,
    Stage.UNSEEN: ReasonCode.NOT_TRIED,
    Stage.SERVED: ReasonCode.SERVED,
}


def stage_of_invalid(said: Verdict) -> Stage:
    """The stage at which a job that is not worth trying was stopped: some reasons have their own."""
    stages: dict[str, Stage] = {
        ReasonCode.TOPOLOGY_NOT_MET: Stage.TOPOLOGY,
        ReasonCode.BIND_REFUSED: Stage.REFUSED,
        ReasonCode.SET_ASIDE: Stage.REFUSED,
        ReasonCode.SURPLUS_PAUSED: Stage.REFUSED,
    }
    return stages.get(said.reason, Stage.VALID)


class Refusal:
    """The stage that stopped a job and what was said, by whom, with what would help."""

    __slots__ = ("_advice", "_text", "_told", "code", "error", "limits", "placed", "plugin", "stage")

    def __init__(
        self,
        stage: Stage,
        text: str = "",
        plugin: str = "",
        error: FitError | None = None,
        advice: Words = "",
        limits: tuple[Limit, ...] = (),
        placed: int = 0,
        reason: str = "",
    ) -> None:
        self.code = reason or stage.code
        """The reason in one word: that of the plugin that refused, else that of the stage."""
        self.stage, self.plugin, self.error, self.limits = stage, plugin, error, limits
        self.placed = placed
        """How many of its tasks had found a place before one did not; all were taken back."""
        self._text, self._advice, self._told = text, advice, ""

    @classmethod
    def of(cls, stage: Stage, said: Verdict | str, plugin: str = "", otherwise: str = "") -> Refusal:
        """A refusal in the words of who refused; *otherwise* where he said none."""
        if isinstance(said, str):
            return cls(stage, said or otherwise, plugin)
        words = said.text or otherwise, said.plugin or plugin
        return cls(stage, *words, advice=said.advice, limits=said.limits, reason=said.reason)

    @property
    def text(self) -> str:
        """The reason, in words."""
        return self._text or (str(self.error) if self.error is not None else "")

    @property
    def advice(self) -> str:
        """The advice, in the words of the plugin that refused; empty without any."""
        if not callable(self._advice):
            return self._advice
        try:
            return words_of(self._advice())
        except FAILS as exc:  # a plugin's own code: what it would have advised is not worth the answer to why
            let_pass(exc)
            return ""

    @property
    def told(self) -> str:
        """The reason, with the numbers. Put together once: many jobs share a refusal."""
        if not self.limits:
            return self.text
        if not self._told:
            self._told = "; ".join([self.text, *map(str, self.limits)])
        return self._told

    def __repr__(self) -> str:
        return f"Refusal({self.stage!r}, {self.text!r}, {self.plugin!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and (self.stage, self.text, self.plugin) == (
            other.stage,
            other.text,
            other.plugin,
        )

    __hash__ = None  # type: ignore[assignment]


class Refusals(Mapping[str, Refusal]):
    """Job -> refusal. Jobs that were refused in groups are listed one by one only on request."""

    def __init__(self) -> None:
        self._known: dict[str, Refusal] = {}
        self._groups: list[tuple[Callable[[], Iterable[Job]], Refusal]] = []
        self._rest: dict[str, Refusal] = {}
        """Queue -> why all its remaining jobs were refused."""
        self._classes: dict[tuple[str, Hashable], Refusal] = {}
        """(queue, group of the backlog) -> why all its remaining jobs were refused."""

    def add(self, job: Job, refusal: Refusal) -> None:
        """One job was refused; a later refusal replaces an earlier one."""
        self._known[job.uid] = refusal

    def add_group(self, jobs: Callable[[], Iterable[Job]], refusal: Refusal, rest_of: str = "") -> None:
        """Several jobs were refused for one reason. *rest_of*: they are all who are left in that queue."""
        self._groups.append((jobs, refusal))
        if rest_of:
            self._rest.setdefault(rest_of, refusal)

    def add_class(self, queue: str, group: Hashable, jobs: Callable[[], Iterable[Job]], refusal: Refusal) -> None:
        """All remaining jobs in a group of a queue's backlog were refused."""
        self._groups.append((jobs, refusal))
        self._classes.setdefault((queue, group), refusal)

    def of(self, job: Job, group: Hashable = None) -> Refusal | None:
        """Why a waiting job was refused, without spelling out everybody else where that can be known.

        *group*: where the job stands in the backlog.
        """
        known = self._known.get(job.uid) or self._classes.get((job.queue, group))
        if known is not None:
            return known
        if len(self._groups) == 1 and job.queue in self._rest:
            return self._rest[job.queue]
        return self._spell_out().get(job.uid)

    def tells(self, job: Job) -> bool:
        """Report whether this job was refused by itself."""
        return job.uid in self._known

    def of_itself(self, job: Job) -> Refusal | None:
        """Why this job was refused by itself, not with others."""
        return self._known.get(job.uid)

    def discard(self, job: Job) -> None:
        """The job was served after all."""
        self._known.pop(job.uid, None)

    def _spell_out(self) -> dict[str, Refusal]:
        groups, self._groups = self._groups, []
        for jobs, refusal in groups:
            for job in jobs():
                self._known.setdefault(job.uid, refusal)
        return self._known

    def __getitem__(self, uid: str) -> Refusal:
        return self._spell_out()[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spell_out())

    def __len__(self) -> int:
        return len(self._spell_out())


class FitErrors(dict[str, dict[str, FitError]]):
    """Job -> task -> why it fits nowhere."""

    def of(self, uid: str) -> dict[str, FitError]:
        """The findings about the tasks of a job; can be changed."""
        return self.setdefault(uid, {})


S = TaskStatus
_BOUND, _FAILED, _RELEASING = int(S.BOUND), int(S.FAILED), int(S.RELEASING)
_RUNNING, _SUCCEEDED = int(S.RUNNING), int(S.SUCCEEDED)


def status_of(job: Job, unschedulable: bool, nominated: Container[str] = ()) -> dict[str, Any]:
    """Phase and counters that the PodGroup should show. *unschedulable*: the condition was written in this session.

    *nominated*: tasks for which room was freed. Their jobs are let in, or nobody could take that room when it is there.
    """
    counts = job.counts
    running, failed, succeeded = counts[_RUNNING], counts[_FAILED], counts[_SUCCEEDED]
    if running and unschedulable:
        phase: str = JobPhase.UNKNOWN
    else:
        scheduled = running + counts[_BOUND] + failed + succeeded
        if counts[_RELEASING]:
            for task in job.with_status(S.RELEASING).values():
                scheduled += bool(task.pod.spec.node_name) or task.node is not None
        if scheduled >= job.min_available:
            phase = JobPhase.COMPLETED if scheduled == failed + succeeded else JobPhase.RUNNING
        elif job.phase == JobPhase.INQUEUE or (nominated and any(uid in nominated for uid in job.tasks)):
            phase = JobPhase.INQUEUE
        else:
            phase = JobPhase.PENDING
    return {"phase": str(phase), "running": running, "failed": failed, "succeeded": succeeded}


_SENT = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)


class Outcome:
    """The result of one session while it is made."""

    def __init__(self, state: ClusterState, runtime: Runtime) -> None:
        self._state, self._runtime = state, runtime
        self.intents: list[Intent] = []
        self.kept: list[Statement] = []
        """Statements that stay applied until the session closes."""
        self.promises: list[Operation] = []
        """Committed places on room that is being released."""
        self.refusals = Refusals()
        self.fit_errors = FitErrors()
        """Job -> task -> why it fits nowhere."""
        self.conditions: dict[str, list[dict[str, str]]] = {}

    # -- why not ----------------------------------------------------------------------------------------------------
    def refuse(self, job: Job, stage: Stage, said: Verdict | str, plugin: str = "") -> None:
        """Remember why a job was not served, in the words of who refused it."""
        self.refusals.add(job, Refusal.of(stage, said, plugin))

    def refusal_of(self, job: Job) -> Refusal | None:
        """Why a waiting job was not served in this cycle."""
        runtime = self._runtime
        return self.refusals.of(job, runtime.pending.group_of(job) or runtime.admissions.group_of(job))

    def refused_write(self, job: Job) -> str:
        """Why the last plan or bind for a job was stopped, in words; nothing if none was, or it may be tried again."""
        stopped = self._state.stopped.get(job.uid)
        return stopped.text if stopped is not None else ""

    def unfit(self, job: Job, task: Task, error: FitError) -> None:
        """Remember why a task fits nowhere, and in which state of the nodes."""
        error.at = self._state.table.touched.position
        self.fit_errors.of(job.uid)[task.uid] = error

    def set_condition(self, job: Job, kind: str, status: str, reason: ReasonCode, message: str) -> None:
        """Write a condition of a job's PodGroup when the session closes."""
        condition = {"type": kind, "status": status, "reason": reason, "message": message}
        mine = self.conditions.get(job.uid)
        if mine is None:
            self.conditions[job.uid] = [condition]
        else:
            mine[:] = [*(c for c in mine if c["type"] != kind), condition]

    # -- the end ----------------------------------------------------------------------------------------------------
    def settle(self, jobs: Iterable[Job]) -> None:
        """Phases, counters and conditions of the PodGroups of jobs."""
        for job in jobs:
            group = job.group
            if group is None:
                continue
            before, conditions = group.status, self.conditions.get(job.uid, ())
            unschedulable = False
            for c in conditions:
                unschedulable |= c["type"] == "Unschedulable"
            status = status_of(job, unschedulable, self._runtime.nominations)
            if group.kind_name == native.POD_GROUP:
                self._settle_natively(job, conditions)
                if status["phase"] != job.phase:
                    self._state.set_phase(job, status["phase"])
                continue
            known = before.conditions
            fresh = [c for c in conditions if not _has_condition(known, c)] if known else list(conditions)
            if fresh or (before.phase, before.running, before.failed, before.succeeded) != tuple(status.values()):
                if fresh:
                    status["conditions"] = fresh
                self.intents.append(StatusUpdate("PodGroup", job.uid, status))
            if status["phase"] != job.phase:
                self._state.set_phase(job, status["phase"])

    def _settle_natively(self, job: Job, conditions: Sequence[Mapping[str, str]]) -> None:
        """Say in a group of Kubernetes' own whether it was scheduled; phases and counters it does not have."""
        assert job.group is not None
        known = job.group.status.conditions
        if job.count(*_SENT) >= job.min_available:
            fresh = native.condition(known, "True", ReasonCode.SCHEDULED, "")
        else:
            said = next((c["message"] for c in conditions if c["type"] == "Unschedulable"), "")
            refusal = self.refusal_of(job) if not said else None
            said = said or (str(refusal.error or refusal.told) if refusal is not None else "")
            fresh = native.condition(known, "False", ReasonCode.UNSCHEDULABLE, said) if said else None
        if fresh is not None:
            self.intents.append(StatusUpdate(job.kind, job.uid, {"conditions": [fresh]}))

    def undo(self) -> None:
        """Take back everything that was kept, newest first."""
        while self.kept:
            self.kept.pop().discard()


def _has_condition(existing: Sequence[Any], new: Mapping[str, str]) -> bool:
    """Report whether a condition is written already, and none that contradicts it."""
    kind = new["type"]
    contrary = CONTRARY.get(kind) if new["status"] == "True" else None
    if contrary is not None and any(c.type == contrary and c.status == "True" for c in existing):
        return False
    for c in existing:
        if c.type == kind and (c.status, c.reason, c.message) == (new["status"], new["reason"], new["message"]):
            return True
    return False
