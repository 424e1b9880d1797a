"""cdp: a pod that has just started is left alone for a while."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model import keys
from pumice.model.status import TaskStatus
from pumice.model.task import Task


class Cdp(Plugin):
    """Protects running pods from eviction until their cooldown since they were scheduled is over.

    The time stands in the label ``volcano.sh/cooldown-time`` of the pod, else in the annotation of that name.
    """

    name = "cdp"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        now = ssn.now

        def rested(_: object, candidates: Sequence[Task]) -> list[Task]:
            return [task for task in candidates if not is_cooling(task, now)]

        ssn.add_preemptable_fn(self.name, rested)
        ssn.add_reclaimable_fn(self.name, rested)


def is_cooling(task: Task, now: float) -> bool:
    """Report whether the task was scheduled so recently that it is to be left alone."""
    written = task.labels.get(keys.COOLDOWN_TIME, task.annotations.get(keys.COOLDOWN_TIME))
    if written is None or task.status is not TaskStatus.RUNNING:
        return False
    try:
        seconds = parse_duration(written) / SECOND
    except InvalidInput:
        return False  # what cannot be read protects nobody
    for condition in task.pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            since = condition.last_transition_time
            return since is not None and now < since.timestamp() + seconds
    return False
