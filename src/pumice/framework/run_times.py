"""Run times that users declare, and when their jobs should be over by them."""

from __future__ import annotations

import math
from functools import lru_cache

from pumice.config.durations import SECOND, parse_duration
from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.task import Task

RUN_TIME_ANNOTATION = keys.RUN_TIME_ANNOTATION
"""On a PodGroup (or a Job, from where it gets there): ``1h30m``."""


@lru_cache(maxsize=8192)
def _seconds(text: str) -> float:
    try:
        return parse_duration(text, days=True) / SECOND
    except InvalidInput:
        return math.inf


def declared_run_time(job: Job) -> float:
    """The declared run time in seconds; infinite where none is declared, or none that can be read."""
    text = job.annotations.get(RUN_TIME_ANNOTATION)
    return math.inf if text is None else _seconds(text)


def started_at(task: Task) -> float | None:
    """When a task began to run, as the cluster says; None if it does not say."""
    since = task.pod.status.start_time
    return since.timestamp() if since is not None else None
