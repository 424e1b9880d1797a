"""What a session decides and finds out: intents, promises, and why those who wait do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pumice.engine.diagnosis import FitError
from pumice.framework.session.fit_errors import FitErrors
from pumice.framework.session.phases import status_of
from pumice.framework.session.refusals import Refusal, Refusals, Stage
from pumice.framework.session.runtime import Runtime
from pumice.model import native
from pumice.model.api import CONTRARY
from pumice.model.codes import ReasonCode
from pumice.model.intents import Intent, StatusUpdate
from pumice.model.job import Job
from pumice.model.reason import Verdict
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.session.statement import Operation, Statement


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
