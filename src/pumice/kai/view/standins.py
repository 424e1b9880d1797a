"""Views stand in for what they are views of: plugins are asked about them as about tasks and jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pumice.kai.view.jobs import JobView
from pumice.kai.view.subgroups import Member
from pumice.kai.view.tasks import TaskView
from pumice.model.job import Job, SubJob
from pumice.model.task import Task


def as_task(view: TaskView) -> Task:
    """The view where a task is asked for: whatever it does not have itself it has from its task."""
    return cast(Task, view)


def as_tasks(views: Sequence[TaskView]) -> Sequence[Task]:
    """The views where tasks are asked for."""
    return cast(Sequence[Task], views)


def as_job(view: JobView) -> Job:
    """The view where a job is asked for: whatever it does not have itself it has from its job."""
    return cast(Job, view)


def as_part(member: Member) -> SubJob:
    """A sub-group where a part of a job is asked for."""
    return cast(SubJob, member)
