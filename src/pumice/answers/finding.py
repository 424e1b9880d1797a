"""The job, or the queue, that somebody means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.state.cluster import ClusterState

JOB_NAME_LABELS = (keys.JOB_NAME, keys.BATCH_JOB_NAME, "job-name")
"""Where pods say which Job made them."""


class NoSuchThing(InvalidInput):
    """There is no such job or queue, or more than one is meant."""


def find_job(state: ClusterState, name: str, namespace: str = "") -> Job:
    """The job called ``namespace/name``, or by its bare name where only one has it; within *namespace* if one is given.

    The name may be that of its PodGroup, of the Job that it was made of, or of one of its pods.
    :raises NoSuchThing: there is none, or several; says which ones.
    """
    within, _, bare = name.rpartition("/")
    if namespace and within and within != namespace:
        raise NoSuchThing(f"job {name!r}: is not in namespace {namespace!r}")
    within = within or namespace
    if within and f"{within}/{bare}" in state.jobs:
        return state.jobs[f"{within}/{bare}"]
    jobs = [job for job in state.jobs.values() if within in ("", job.namespace)]
    for called in (_groups, _owners, _pods):
        found = sorted(job.uid for job in jobs if bare in called(job))
        if len(found) == 1:
            return state.jobs[found[0]]
        if found:
            raise NoSuchThing(f"job {name!r}: must say which one, {' or '.join(found)}")
    if left := [
        t for t in state.task_by_key.values() if not t.job_key and bare == t.name and within in ("", t.namespace)
    ]:
        raise NoSuchThing(f"job {name!r}: pod {left[0].key} is in no PodGroup, so that nothing here schedules it")
    names = {known for job in jobs for known in (*_groups(job), *_owners(job))}
    near = nearest(bare, sorted(names)) or nearest(name, [job.uid for job in jobs])
    raise NoSuchThing(f"no job named {name!r}{_hint(near)}")


def find_queue(state: ClusterState, name: str) -> Queue:
    """The queue of a name.

    :raises NoSuchThing: there is none; says which one is near.
    """
    if name in state.queues:
        return state.queues[name]
    raise NoSuchThing(f"no queue named {name!r}{_hint(nearest(name, state.queues))}")


def _hint(near: str | None) -> str:
    return f"; did you mean {near!r}?" if near else ""


def _groups(job: Job) -> Iterable[str]:
    return (job.name,)


def _owners(job: Job) -> Iterator[str]:
    for owner in (job.group.metadata.owner_references if job.group is not None else None) or ():
        yield owner.name
    for task in job.tasks.values():
        for label in JOB_NAME_LABELS:
            if label in task.labels:
                yield task.labels[label]


def _pods(job: Job) -> Iterator[str]:
    return (task.name for task in job.tasks.values())
