"""Pod conditions that people and autoscalers read: PodScheduled is False, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pumice.engine.choose import FitError
from pumice.model.codes import ReasonCode
from pumice.model.intents import StatusUpdate
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

AGAIN = 10.0
"""Seconds that pass at least before the pods of a job are told another reason."""


class PodConditions:
    """What to write into pods that fit nowhere: at once when they are new, seldom when only the reason changes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def updates(self, report: CycleReport, state: ClusterState) -> list[StatusUpdate]:
        """The conditions to write after a cycle; none for pods that have them already."""
        found: list[StatusUpdate] = []
        told: dict[str, tuple[float, int]] = {}
        for uid, errors in _unfit(report):
            job = state.jobs.get(uid)
            if job is None:
                continue
            pending = job.with_status(TaskStatus.PENDING)
            before = self._told.get(uid)
            if before is not None and before[1] == len(pending) and state.now - before[0] < AGAIN:
                told[uid] = before
                continue
            told[uid] = (state.now, len(pending))
            first = next(iter(errors.values()))
            for task in pending.values():
                if not task.pod.spec.scheduling_gates:
                    found.extend(_update(task, str(errors.get(task.uid, first)), state.now))
        self._told = told
        return found


def _unfit(report: CycleReport) -> Iterator[tuple[str, Mapping[str, FitError]]]:
    """Jobs of which something fits nowhere, with the errors by task; those refused with others of their class too."""
    for uid, errors in report.fit_errors.items():
        if errors:
            yield uid, errors
    for uid, refusal in report.refusals.items():
        if refusal.error is not None and not report.fit_errors.get(uid):
            yield uid, {"": refusal.error}


def _update(task: Task, why: str, now: float) -> list[StatusUpdate]:
    """The update that says why, unless the pod says so already."""
    since = datetime.fromtimestamp(now, UTC)
    for present in task.pod.status.conditions or ():
        if present.type == "PodScheduled" and present.status == "False":
            if (present.reason, present.message) == (ReasonCode.UNSCHEDULABLE, why):
                return []
            since = present.last_transition_time or since
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": ReasonCode.UNSCHEDULABLE,
        "message": why,
        "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return [StatusUpdate("Pod", task.key, {"conditions": [condition]})]
