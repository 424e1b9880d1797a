"""Jobs and tasks as of a session's opening, and the times that are kept and written of them."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from pumice.kai.view.jobs import DEFAULT_PRIORITY, JobView
from pumice.kai.view.queues import NOTHING, Amounts, QueueView, plus
from pumice.kai.view.tasks import ALLOCATED, USED, TaskStage, TaskView
from pumice.model.api import PriorityClass
from pumice.model.intents import StatusUpdate
from pumice.model.job import Job
from pumice.model.kai import KaiPodGroup
from pumice.model.keys import LAST_EVICTION, LAST_START
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session
    from pumice.kai.view.world import KaiWorld


class WrittenTimes:
    """Times that this scheduler saw, from session to session; a job's PodGroup may say more."""

    def __init__(self, ssn: Session) -> None:
        self._ssn = ssn
        memory = ssn.memory_of("kai")
        self._started: dict[str, float] = memory.setdefault("started", {})
        self._evicted: dict[str, float] = memory.setdefault("evicted", {})
        self._noted: dict[tuple[str, str], str | None] = {}

    def recall(self, job: JobView) -> None:
        """Set the times of a job that is first looked at: the later of kept and written ones."""
        uid = job.job.uid
        if uid in self._started:
            job.last_start = max(job.last_start or 0.0, self._started[uid])
        if uid in self._evicted:
            job.last_eviction = max(job.last_eviction or 0.0, self._evicted[uid])

    def forget_all_but(self, jobs: Container[str]) -> None:
        """Keep nothing of jobs that are gone."""
        for kept in (self._started, self._evicted):
            for uid in [u for u in kept if u not in jobs]:
                del kept[uid]

    def started(self, job: JobView) -> None:
        """A job has just started."""
        job.last_start = self._started[job.job.uid] = now = self._ssn.state.now
        self.note(job, LAST_START, now)

    def lost_some(self, job: JobView) -> None:
        """Tasks of a job have just been evicted for somebody else."""
        job.last_eviction = self._evicted[job.job.uid] = self._ssn.state.now
        self.note(job, LAST_EVICTION, self._ssn.state.now)

    def note(self, job: JobView, what: str, at: float | None) -> None:
        """Have a time written on the PodGroup of a job, or (None) taken away, so that who comes after us knows it."""
        if not isinstance(job.job.group, KaiPodGroup):
            return
        text = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at is not None else None
        if job.job.annotations.get(what) == text:
            return
        if self._noted.get((job.job.uid, what), "") != text:
            self._noted[job.job.uid, what] = text
            self._ssn.outcome.intents.append(StatusUpdate(job.job.kind, job.job.uid, {}, {what: text}))


_APP: Final = "app"
_RESERVATION: Final = "kai-resource-reservation"
_SCALING: Final = "scaling-pod"
_KAI: Final = "kai-scheduler"


class KeptView:
    """The kept data of a state's jobs and tasks from session to session.

    Views of jobs; valid until the state says that the job changed (`ClusterState.followed`). All of it is made anew
    where nodes, queues, priority classes or settings changed.
    """

    def __init__(self, key: object) -> None:
        self.key = key
        self.tasks: dict[str, TaskView] = {}
        self.jobs: dict[str, JobView] = {}
        self.rows: dict[int, dict[str, TaskView]] = {}
        self.special: dict[str, TaskView] = {}
        """Tasks that count on their node beside what the node table has of them."""
        self.waiting: dict[str, JobView] = {}
        """Jobs that had tasks which wait when they were seen, or tasks of no sub-group."""
        self.stale: dict[str, JobView] = {}
        """Jobs that ran in vain when they were seen, or say that they did."""
        self.queueless: dict[str, Job] = {}
        self.sums: dict[str, list[int]] = {}
        """Leaf -> held, fixed and asked for, each (cpu, memory, GPU), in `_UNITS`: exact, whatever the order."""
        self.counted: dict[str, tuple[QueueView, tuple[int, ...]]] = {}
        """Job -> its queue, and its part in the sums."""
        self.came: list[tuple[int, str]] = []
        self.outsiders: list[TaskView] = []
        self.queues: dict[str, QueueView] = {}


_UNIT: Final = 2**80
_UNITS: Final = (1, 1, _UNIT)


def take_in(world: KaiWorld, kept: KeptView | None) -> KeptView:
    """Have a world see the jobs and tasks of its state; jobs whose queue does not exist are set aside."""
    state = world.state
    changes, state.followed = state.followed, {}
    if kept is None or changes is None or state.follower is not kept:
        kept = KeptView(world.kept_key)
        kept.queues = world.queues
        changed: Iterable[str] = list(state.jobs)
    else:
        world.queues = kept.queues
        changed = list(changes)
        for row, uid in kept.came:
            kept.rows.get(row, {}).pop(uid, None)
        for view in kept.outsiders:
            _forget(kept, view)
    state.follower = kept
    world.tasks, world.jobs, world.kept = kept.tasks, kept.jobs, kept
    world.nodes.tasks, kept.came = kept.rows, world.nodes.came
    if state.leaving:
        changed = dict.fromkeys([*changed, *(t.job_key for t in state.leaving.values())])
    classes = state.kind("PriorityClass")
    default = next((cast(PriorityClass, c).value for c in classes.values() if _is_default(c)), DEFAULT_PRIORITY)
    for uid in changed:
        _follow(world, kept, uid, classes, default)
    if changed:
        world.times.forget_all_but(state.jobs)
    world.queueless = list(kept.queueless.values())
    sums: dict[str, list[int]] = {}
    for name, own in kept.sums.items():
        for queue in world.queues[name].chain():
            known = sums.get(queue.name)
            sums[queue.name] = list(own) if known is None else [a + b for a, b in zip(known, own, strict=True)]
    for name, queue in world.queues.items():
        queue.allocated, queue.non_preemptible, queue.request = _amounts(sums.get(name))
        queue.usage = queue.fair_share = NOTHING
    kept.outsiders = []
    for task in state.tasks.values():
        if task.uid in kept.tasks:
            continue
        seen = _see(world, kept, task)
        kept.outsiders.append(seen)
        if _is_foreign(world, task):
            world.others.append(seen)
        if task.labels.get(_APP) == _RESERVATION:
            kept.special[seen.uid] = seen
    for view in kept.special.values():
        _count_on_node(world, view)
    for uid, (_, node) in state.rooms.items():
        if uid in world.tasks:
            world.nodes.lift(world.tasks[uid], node)
    return kept


def _amounts(sums: list[int] | None) -> list[Amounts]:
    if sums is None:
        return [NOTHING, NOTHING, NOTHING]
    return [(float(sums[n]), float(sums[n + 1]), sums[n + 2] / _UNIT) for n in (0, 3, 6)]


def _forget(kept: KeptView, view: TaskView) -> None:
    uid = view.uid
    if kept.tasks.get(uid) is view:  # else the pod is of another job by now
        del kept.tasks[uid]
        kept.special.pop(uid, None)
        if view.began is not None:
            kept.rows.get(view.began.row, {}).pop(uid, None)


def _follow(world: KaiWorld, kept: KeptView, uid: str, classes: Any, default: int) -> None:
    """See a job as it is now."""
    state = world.state
    old, job = kept.jobs.get(uid), state.jobs.get(uid)
    kept.waiting.pop(uid, None)
    kept.stale.pop(uid, None)
    kept.queueless.pop(uid, None)
    if old is not None:
        for view in (*old.tasks.values(), *old.unknown):
            _forget(kept, view)
        _add(kept, *kept.counted.pop(uid), -1)
        if old.job is not job:
            del kept.jobs[uid]  # another job of the same name stands behind all others
    if job is None or job.group is None or not world.settings.in_pool(job.group.metadata.labels or {}):
        kept.jobs.pop(uid, None)
        return
    queue = world.queues.get(job.queue)
    if queue is None:
        kept.jobs.pop(uid, None)
        kept.queueless[uid] = job
        return
    named = classes.get(job.group.spec.priority_class_name)
    priority = cast(PriorityClass, named).value if named is not None else default
    tasks = [_see(world, kept, t) for t in job.tasks.values()]
    made = kept.jobs[uid] = JobView(job, queue, priority, tasks, job.problem or job.left_out, flat=world.flat_gangs)
    world.times.recall(made)
    if made.pending or made.unknown:
        kept.waiting[uid] = made
    if made.stale or made.stale_since is not None:
        kept.stale[uid] = made
    kept.counted[uid] = (queue, part := _count(world, made))
    _add(kept, queue, part, 1)


def _add(kept: KeptView, queue: QueueView, part: tuple[int, ...], sign: int) -> None:
    sums = kept.sums.get(queue.name)
    if sums is None:
        sums = kept.sums[queue.name] = [0] * 9
    for n, v in enumerate(part):
        if v:
            sums[n] += sign * v


def _is_foreign(world: KaiWorld, task: Task) -> bool:
    """Report whether a pod, of no visible job, is of another scheduler. KAI's helpers count as its own."""
    if task.labels.get(_APP) in (_RESERVATION, _SCALING):
        return False
    ours = world.state.scheduler_names
    if ours is None:  # whoever names a job is ours
        return not task.job_key and task.pod.spec.scheduler_name != _KAI
    return task.pod.spec.scheduler_name not in ours


def _see(world: KaiWorld, kept: KeptView, task: Task) -> TaskView:
    claims = world.claims.counted(task) if world.claims is not None else ()
    view = kept.tasks[task.uid] = TaskView(task, world.now - world.settings.stuck_after, claims, world.state.devices)
    if view.stage is TaskStage.RELEASING and (deleted := task.pod.metadata.deletion_timestamp) is not None:
        world.ssn.wake_at(deleted.timestamp() + world.settings.stuck_after)
    node = view.began = view.node
    if node is None:
        return view
    request, used = view.request, view.stage in USED
    if used:
        kept.rows.setdefault(node.row, {})[view.uid] = view
    if request.shared is not None and used:
        if not view.groups:
            view.groups = tuple(f"{task.name}-gpu{i}" for i in range(request.devices))
        kept.special[view.uid] = view
    if view.stage is TaskStage.STUCK or (request.claimed and used and node.row in world.nodes.by_claim):
        kept.special[view.uid] = view
    if view.stage in ALLOCATED:
        view.accepted = world.counted(request, node)
    return view


def _count_on_node(world: KaiWorld, view: TaskView) -> None:
    """The amounts of a task on its node beside those of the node table."""
    ledger, request, node = world.nodes, view.request, view.node
    if node is None:
        return
    if request.shared is not None and view.stage in USED:
        ledger.share_out(node.row, view, request.shared, view.stage, view.groups, 1)
    if request.claimed and view.stage in USED and node.row in ledger.by_claim:
        ledger.claim(node.row, view, view.stage, 1)
    if view.stage is TaskStage.STUCK:
        ledger.add(node.row, request.booked, 0, -1)
    if view.task.labels.get(_APP) == _RESERVATION and view.job_less and view.stage in USED:
        ledger.give_back(view, node)  # the GPU that it stands for is taken by those who share it


def _count(world: KaiWorld, job: JobView) -> tuple[int, ...]:
    """The amounts of a job: held, fixed, and requested or held."""
    held = fixed = asked = NOTHING
    for task in job.tasks.values():
        if task.stage in ALLOCATED:
            held = plus(held, task.accepted) if held is not NOTHING else task.accepted
            if not job.preemptible:
                fixed = plus(fixed, task.accepted)
        elif task.stage is TaskStage.PENDING:
            wants = world.asked(task.request)
            asked = plus(asked, wants) if asked is not NOTHING else wants
    wanted = plus(held, asked) if held is not NOTHING else asked
    return _exact(held, fixed, wanted)


@lru_cache(4096)
def _exact(held: Amounts, fixed: Amounts, wanted: Amounts) -> tuple[int, ...]:
    return tuple(
        [round(v * scale) for amounts in (held, fixed, wanted) for v, scale in zip(amounts, _UNITS, strict=True)]
    )


def _is_default(obj: Any) -> bool:
    return bool(obj.global_default)
