"""Conditions and events of jobs that are not admitted, and of pods that belong to no job: they have nothing else to
show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pumice.model import native
from pumice.model.api import Pod
from pumice.model.codes import ReasonCode
from pumice.model.events import ClusterEvent, Gone, Seen
from pumice.model.intents import Intent, Note, StatusUpdate
from pumice.model.job import Job
from pumice.model.status import JobPhase, TaskStatus
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.ports import Observer
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

ADMITTED = "Admitted"
"""The type of the condition that says whether the PodGroup was let into its queue."""
EVERY = 1.0
"""Seconds between two looks."""
AGAIN = 60.0
"""Seconds that pass at least before a job is told another reason: texts with numbers change with every cycle."""
MANY = 100
"""So many are told at one look; the others have their turn."""
PATIENCE = 5.0
"""Seconds for which a pod may wait for its PodGroup before it is told that there is none."""
_OUTSIDE = ("", JobPhase.PENDING)


class Admissions:
    """Conditions and events of PodGroups that are not let in: no pods are made for them that could say why."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[str, float]] = {}
        self._looked = float("-inf")

    def updates(self, report: CycleReport, state: ClusterState) -> list[Intent]:
        """The writes after a cycle."""
        found = list(self._let_in(report, state))
        if 0 <= state.now - self._looked < EVERY:
            return found
        self._looked = state.now
        for uid in [uid for uid in self._told if uid not in state.unadmitted]:
            del self._told[uid]
        told = 0
        for uid, job in state.unadmitted.items():
            refusal = report.refusals.get(uid)
            if refusal is None or job.group is None:
                continue
            by = f" ({refusal.plugin})" if refusal.plugin else ""
            text = f"not let into queue {job.queue}{by}: {refusal.told}"
            before = self._told.get(uid)
            if before is not None and (before[0] == text or 0 <= state.now - before[1] < AGAIN):
                continue
            self._told[uid] = (text, state.now)
            if not _says(job, "False", text):
                found += _condition(job, "False", ReasonCode.NOT_LET_IN, text)
                found.append(Note(job.kind, uid, "Warning", ReasonCode.UNSCHEDULABLE, text))
                told += 1
            if told >= MANY:
                break
        return found

    def _let_in(self, report: CycleReport, state: ClusterState) -> Iterator[Intent]:
        """Those that were told no, and are in now."""
        for intent in report.intents:
            if not isinstance(intent, StatusUpdate) or intent.kind != "PodGroup":
                continue
            if intent.status.get("phase", "") in _OUTSIDE:
                continue
            job = state.jobs.get(intent.key)
            if intent.key in self._told or (job is not None and _says(job, "False")):
                self._told.pop(intent.key, None)
                if job is not None:
                    yield from _condition(job, "True", ReasonCode.LET_IN, "let into its queue")


def _says(job: Job, status: str, message: str | None = None) -> bool:
    conditions = (job.group.status.conditions if job.group is not None else None) or ()
    return any(
        c.type in (ADMITTED, *native.SCHEDULED) and c.status == status and (message is None or c.message == message)
        for c in conditions
    )


def _condition(job: Job, status: str, reason: ReasonCode, text: str) -> list[StatusUpdate]:
    """The text to write; a group of Kubernetes' own has only one condition for it."""
    condition: dict[str, str] | None = {"type": ADMITTED, "status": status, "reason": reason, "message": text}
    if job.group is not None and job.kind == native.POD_GROUP:
        condition = native.condition(job.group.status.conditions, status, reason, text)
    return [StatusUpdate(job.kind, job.uid, {"conditions": [condition]})] if condition else []


class Ungrouped(Observer):
    """Events on pods of ours that no PodGroup will ever bring up: they name none, or one that does not exist."""

    def __init__(self) -> None:
        self._nameless: dict[str, tuple[str, float]] = {}
        """Pods that name no group: UID, and since when."""
        self._groupless: dict[str, float] = {}
        """Jobs that have pods and no PodGroup, and since when."""
        self._told: set[str] = set()
        self._looked = float("-inf")
        self.now = 0.0

    def handed(self, events: Sequence[ClusterEvent]) -> None:
        """Remember pods that name no group while they wait."""
        for event in events:
            match event:
                case Seen(object=Pod() as pod):
                    if _is_nameless(pod):
                        self._nameless.setdefault(pod.key, (pod.metadata.uid, self.now))
                    elif self._nameless:
                        self._nameless.pop(pod.key, None)
                case Gone(kind="Pod", key=key) if self._nameless:
                    self._nameless.pop(key, None)

    def notes(self, state: ClusterState) -> list[Note]:
        """The text now. Cost: pods without a group; and all jobs, where one of them has no PodGroup."""
        self.now = state.now
        if 0 <= state.now - self._looked < EVERY:
            return []
        self._looked = state.now
        found = [note for uid, note in self._due(state) if uid not in self._told][:MANY]
        keys = {note.key for note in found}
        self._told.update(state.task_by_key[key].uid for key in keys)
        if len(self._told) > 2 * len(state.tasks) + 1000:
            self._told &= state.tasks.keys()
        return found

    def _due(self, state: ClusterState) -> Iterator[tuple[str, Note]]:
        for key in self._nameless:
            task = state.task_by_key.get(key)
            ours = state.scheduler_names is None or (
                task is not None and task.pod.spec.scheduler_name in state.scheduler_names
            )
            if task is not None and ours and state.now - self._nameless[key][1] >= PATIENCE:
                text = f"it names no PodGroup in the annotation {GROUP_ANNOTATION}; without one it is not scheduled"
                yield task.uid, Note("Pod", key, "Warning", ReasonCode.NO_POD_GROUP, text)
        since: dict[str, float] = {}
        if len(state.jobs) > len(state.session_jobs) + len(state.queueless):
            for uid, job in state.jobs.items():
                if job.group is None:
                    since[uid] = self._groupless.get(uid, state.now)
        self._groupless = since
        for uid, begun in since.items():
            if state.now - begun >= PATIENCE:
                for task in state.jobs[uid].with_status(TaskStatus.PENDING).values():
                    yield (
                        task.uid,
                        Note("Pod", task.key, "Warning", ReasonCode.NO_POD_GROUP, f"PodGroup {uid} does not exist"),
                    )


def _is_nameless(pod: Pod) -> bool:
    waits = not pod.spec.node_name and pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None
    return waits and not group_named(pod.metadata.annotations, pod.spec)
