"""KAI's orders of jobs, sub-groups and tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.view.jobs import GroupSet, JobView, Member
from pumice.kai.view.tasks import ACTIVE, TaskView
from pumice.kai.view.world import world_of
from pumice.model import keys
from pumice.model.task import Task

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")


class KaiPriority(Plugin):
    """Jobs of higher priority go first."""

    name = "priority"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """By priority."""
        world = world_of(ssn)

        def rank(job: JobView) -> int:
            seen = job if job.__class__ is JobView else world.job_of(job)
            return -(seen if seen is not None else job).priority

        ssn.add_job_order_key_fn(self.name, rank)


class Elastic(Plugin):
    """Jobs below their minimum go first, then those at it, then those above."""

    name = "elastic"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """By how far the minimum is reached."""
        world = world_of(ssn)

        def rank(job: JobView) -> int:
            seen = job if job.__class__ is JobView else world.job_of(job)
            return _reached(seen) if seen is not None else 0

        ssn.add_job_order_key_fn(self.name, rank)


def _reached(job: JobView) -> int:
    only = job.only
    if only is not None:
        placed = only.stage in ACTIVE
        return 0 if placed < job.least else 1 + (placed > job.least)
    above = False
    for podset in job.pod_sets():
        active = podset.active
        if active < podset.minimum:
            return 0
        above = above or active > podset.minimum
    return 2 if above else 1


class SubGroupOrder(Plugin):
    """Sub-groups below what they need go first, then those that are less beyond it."""

    name = "subgrouporder"
    persistent = True

    def sub_group_order(self, left: Member, right: Member) -> int:
        """By how far what is needed is reached."""
        a, need_a = _standing(left)
        b, need_b = _standing(right)
        below_a, below_b = a < need_a, b < need_b
        if below_a or below_b:
            return below_b - below_a
        if (need_a > 0) != (need_b > 0):
            return -1 if need_a > 0 else 1
        one, two = (a, b) if need_a == 0 else (a * need_b, b * need_a)
        return (one > two) - (one < two)


def _standing(member: Member) -> tuple[int, int]:
    if isinstance(member, GroupSet):
        return member.satisfied_members, member.need
    return member.active, member.minimum


class TaskOrder(Plugin):
    """Tasks with a larger number in their task-priority label go first, those without the label last."""

    name = "taskorder"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """By the label."""
        ssn.add_task_order_key_fn(self.name, _rank)


def _rank(task: TaskView) -> tuple[int, int]:
    text = _labels(task).get(keys.TASK_PRIORITY_LABEL)
    if text is None:
        return 2, 0
    return (0, -int(text)) if _NUMBER.fullmatch(text) else (1, 0)


class Kubeflow(Plugin):
    """Masters and launchers of Kubeflow's jobs go before workers."""

    name = "kubeflow"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """By the role."""
        ssn.add_task_order_key_fn(self.name, _follows)


def _follows(task: TaskView) -> bool:
    return _labels(task).get(keys.KUBEFLOW_ROLE) not in ("master", "launcher")


class Ray(Plugin):
    """Heads of Ray's clusters go before workers."""

    name = "ray"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        """By the kind of node."""
        ssn.add_task_order_key_fn(self.name, _works)


def _works(task: TaskView) -> bool:
    return _labels(task).get(keys.RAY_NODE_TYPE) != "head"


def _labels(task: TaskView | Task) -> Mapping[str, str]:
    return (task.task if isinstance(task, TaskView) else task).labels
