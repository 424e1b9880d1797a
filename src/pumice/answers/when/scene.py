"""A session as a scene that can be played forward: what runs where, what waits, what is free, what queues may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from operator import itemgetter

from pumice.answers.queues import Gauges
from pumice.answers.when.forward import Amounts, Holder, Lane, Place, Pods, PodShape, Scene, Waiter, amounts_sum
from pumice.answers.when.learned import size_of
from pumice.answers.when.run_times import Kind
from pumice.framework.explaining.explain import waits
from pumice.framework.quota import published
from pumice.framework.run_times import declared_run_time, started_at
from pumice.framework.session.session import Session
from pumice.model.gpu import WHOLE
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.resources import CPU, MEMORY, Resources, dim
from pumice.model.status import IS_ALLOCATED, TaskStatus
from pumice.model.task import GPU_RESOURCES, Task
from pumice.state.cluster import ClusterState

NO_LIMIT = 2**62
RUNNING, RELEASING = TaskStatus.RUNNING, TaskStatus.RELEASING
NOTHING: Amounts = (0, 0, 0)
GRACE = 30.0
"""So many seconds a pod takes to end that is evicted only now: what Kubernetes gives it unless it says otherwise."""
_GPU_DIMS = [dim(name) for name in GPU_RESOURCES]


def scene_of(ssn: Session) -> Scene:
    """Running pods with their nodes, pending jobs in order, and free amounts, after the actions of a session."""
    state = ssn.state
    free = _free(state)
    shapes = _Shapes(ssn)
    holders, waiting = [], []
    for job in state.session_jobs.values():
        if job.ready_count:
            places = shapes.places(job, free)
            if places:
                since = next((at for at in map(started_at, job.with_status(RUNNING).values()) if at), state.now)
                kind = Kind(job.queue, size_of(amounts_sum(map(itemgetter(1), places))))
                holders.append(Holder(kind, places, since, declared_run_time(job), job.creation or since, job.uid))
        if job.with_status(RELEASING):
            holders.extend(_leaving(job, shapes, state.now))
        if waits(job) and not job.is_ready and (not job.tasks or len(job.tasks) >= job.min_available):
            waiting.append(job)
    queue = []
    for job in ssn.orders.sorted_jobs(waiting):
        asks, pods = shapes.asked(job)
        kind = Kind(job.queue, size_of(asks))
        queue.append(Waiter(job.uid, kind, pods, declared_run_time(job), job.creation or state.now))
    return Scene(state.now, free, holders, queue)


def _leaving(job: Job, shapes: _Shapes, now: float) -> Iterator[Holder]:
    """Its pods that are being removed: each holds its room until it is gone."""
    for task in job.with_status(RELEASING).values():
        if task.node is not None:
            each, gone = shapes.each(task), task.pod.metadata.deletion_timestamp
            left = GRACE if gone is None else max(gone.timestamp() - now, 1.0)  # a second at least, be it overdue
            yield Holder(Kind(job.queue, size_of(each)), [(task.node.name, each)], now, left, now, task.uid)


def _free(state: ClusterState) -> dict[str, Amounts]:
    """The free amounts of nodes that take pods."""
    table = state.table
    gpus = [d for d in _GPU_DIMS if d < len(table.idle)]
    amounts = zip(
        table.idle[CPU].tolist(), table.idle[MEMORY].tolist(), table.idle[gpus].sum(axis=0).tolist(), strict=True
    )
    rows = [(int(cpu), int(memory), int(gpu)) for cpu, memory, gpu in amounts]
    return {name: rows[node.row] for name, node in state.nodes.items() if not node.unschedulable}


class _Shapes:
    """The requests and permitted nodes of pods, computed once for each class."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        self._each: dict[int, Amounts] = {}
        self._shapes: dict[int, PodShape] = {}

    def each(self, task: Task) -> Amounts:
        """The requests of one pod."""
        found = self._each.get(task.klass.id)
        if found is None:
            found = self._each[task.klass.id] = _each(task)
        return found

    def places(self, job: Job, free: dict[str, Amounts]) -> list[Place]:
        """The nodes of its pods, with the amounts of each; shares of GPUs, which no node's ledger counts, go off
        *free*.

        Asked about every pod of the cluster: what equal pods have in common is looked at once for a row of them.
        """
        found: list[Place] = []
        last, each, shares = None, NOTHING, False
        for task in job.tasks.values():
            node, klass = task.node, task.klass
            if node is None or not IS_ALLOCATED[task.status]:
                continue
            if klass is not last:
                last, each, shares = klass, self.each(task), klass.gpu is not None and not klass.gpu.whole
            name = node.name
            found.append((name, each))
            if shares and name in free:
                cpu, memory, gpus = free[name]
                free[name] = cpu, memory, gpus - each[2]
        return found

    def _shape(self, task: Task) -> PodShape:
        found = self._shapes.get(task.klass.id)
        if found is None:
            found = self._shapes[task.klass.id] = PodShape(self.each(task), _nodes_for(self._ssn, task))
        return found

    def asked(self, job: Job) -> tuple[Amounts, Pods]:
        """The total requests of a job, and the pods that it needs to start."""
        if not job.tasks:  # not let in, so there are no pods of it yet
            least = _amounts(job.min_resources or Resources())
            many = max(job.min_available, 1)
            return least, ((many, PodShape(tuple(-(-amount // many) for amount in least))),)
        if len(job.tasks) == 1:
            (task,) = job.tasks.values()
            return self.each(task), ((1, self._shape(task)),)
        missing = [task for task in job.tasks.values() if not IS_ALLOCATED[task.status]]
        needed = missing[: max(job.min_available - job.ready_count, 1)]
        first = {task.klass.id: task for task in reversed(needed)}
        counts = Counter(task.klass.id for task in needed)
        pods = tuple((count, self._shape(first[number])) for number, count in counts.items())
        return amounts_sum(map(self.each, job.tasks.values())), pods


def _nodes_for(ssn: Session, task: Task) -> frozenset[str] | None:
    """The nodes that a task may be on, however full they are; None: all."""
    if not ssn.nodes or not ssn.search.by_rows:
        return None
    good = ssn.search.evaluator.view(task).open_rows()
    if good is None:
        return None
    names = [name for name, node in ssn.nodes.items() if good[node.row]]
    return None if len(names) == len(ssn.nodes) else frozenset(names)


def lanes_of(queues: Mapping[str, Queue], gauges: Gauges) -> dict[str, Lane]:
    """The amounts of queues: their limits, and their shares as the cluster's plugins published them."""
    deserved = {name: published(gauges, name, "deserved") for name in queues}
    shared = any(deserved.values())
    found = {}
    for name, queue in queues.items():
        most = None
        if queue.capability.dims():
            most = tuple(NO_LIMIT if at is None else at for at in _named(queue.capability))
        part = _amounts(Resources.parse(deserved[name])) if shared else None
        if part is not None or most is not None:
            found[name] = Lane(part, most)
    return found


def _each(task: Task) -> Amounts:
    """The requests of one pod; GPUs in thousandths, shares included."""
    requests, gpu = task.klass.requests, task.klass.gpu
    gpus = gpu.devices * (gpu.milli or WHOLE) if gpu is not None else 0
    return int(requests.get(CPU)), int(requests.get(MEMORY)), gpus


def _amounts(found: Resources) -> Amounts:
    return tuple(at or 0 for at in _named(found))


def _named(found: Resources) -> tuple[int | None, int | None, int | None]:
    """CPU, memory and GPUs; None for what it does not name."""
    known = found.amounts
    gpus = [int(known[d]) for d in _GPU_DIMS if d in known]
    return (
        int(known[CPU]) if CPU in known else None,
        int(known[MEMORY]) if MEMORY in known else None,
        sum(gpus) if gpus else None,
    )
