"""Pod conditions that people and autoscalers read: PodScheduled is False, and why.

The reason ``Unschedulable`` calls an autoscaler, so only pods that no node takes have it. Those that a queue refuses,
or whose gang is held back, are told under the reason of what stopped them: another node would not help them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pumice.engine.fit_error import FitError
from pumice.framework.session.refusals import Stage
from pumice.model.codes import ReasonCode
from pumice.model.intents import StatusUpdate
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

AGAIN = 10.0
"""Seconds that pass at least before the pods of a job that fits nowhere are told another reason."""
AGAIN_REFUSED = 60.0
"""The same for jobs that were refused otherwise: numbers of queues change with every cycle."""
MANY = 100
"""So many jobs that were refused otherwise are told after one cycle; the others have their turn."""
_AT_NODES = (Stage.NODES, Stage.ABSENT, Stage.UNSEEN, Stage.SERVED)


@dataclass(frozen=True, slots=True)
class _Why:
    """Why the pods of a job wait."""

    reason: ReasonCode
    text: str
    again: float
    errors: Mapping[str, FitError]
    """What is known of single tasks, by UID."""


class PodConditions:
    """What to write into pods that wait: at once when they are new, seldom when only the reason changes."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[float, int]] = {}

    def updates(self, report: CycleReport, state: ClusterState) -> list[StatusUpdate]:
        """The conditions to write after a cycle; none for pods that have them already."""
        found: list[StatusUpdate] = []
        told: dict[str, tuple[float, int]] = {}
        refused = 0
        for uid, why in _waiting(report):
            job = state.jobs.get(uid)
            if job is None:
                continue
            pending = job.with_status(TaskStatus.PENDING)
            before = self._told.get(uid)
            if before is not None and before[1] == len(pending) and 0 <= state.now - before[0] < why.again:
                told[uid] = before
                continue
            if why.reason is not ReasonCode.UNSCHEDULABLE and pending:
                refused += 1
                if refused > MANY:
                    continue
            told[uid] = (state.now, len(pending))
            for task in pending.values():
                if not task.pod.spec.scheduling_gates:
                    found.extend(_update(task, why.reason, str(why.errors.get(task.uid, why.text)), state.now))
        self._told = told
        return found


def _waiting(report: CycleReport) -> Iterator[tuple[str, _Why]]:
    """Jobs that were not served, with what stopped them; those refused with others of their class too."""
    for uid, errors in report.fit_errors.items():
        if errors:
            yield uid, _Why(ReasonCode.UNSCHEDULABLE, str(next(iter(errors.values()))), AGAIN, errors)
    for uid, refusal in report.refusals.items():
        if report.fit_errors.get(uid):
            continue
        if refusal.error is not None:
            yield uid, _Why(ReasonCode.UNSCHEDULABLE, str(refusal.error), AGAIN, {})
        elif refusal.stage not in _AT_NODES and uid not in report.pipelined and refusal.told:
            by = f" ({refusal.plugin})" if refusal.plugin else ""
            yield uid, _Why(refusal.stage.code, f"{refusal.told}{by}", AGAIN_REFUSED, {})


def _update(task: Task, reason: ReasonCode, why: str, now: float) -> list[StatusUpdate]:
    """The update that says why, unless the pod says so already."""
    since = datetime.fromtimestamp(now, UTC)
    for present in task.pod.status.conditions or ():
        if present.type == "PodScheduled" and present.status == "False":
            if (present.reason, present.message) == (reason, why):
                return []
            since = present.last_transition_time or since
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": why,
        "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return [StatusUpdate("Pod", task.key, {"conditions": [condition]})]
