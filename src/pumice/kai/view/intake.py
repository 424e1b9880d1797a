"""Jobs and tasks as of a session's opening: how they come into its mind, and what they count in queues and on nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from pumice.kai.view.amounts import NOTHING, plus
from pumice.kai.view.jobs import DEFAULT_PRIORITY, JobView
from pumice.kai.view.stage import ALLOCATED, USED, TaskStage
from pumice.kai.view.tasks import TaskView
from pumice.model.api import PriorityClass
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.kai.view.world import KaiWorld

_APP: Final = "app"
_RESERVATION: Final = "kai-resource-reservation"
_SCALING: Final = "scaling-pod"
_KAI: Final = "kai-scheduler"


def take_in(world: KaiWorld) -> None:
    """Have a world see the jobs and tasks of its state; jobs whose queue does not exist are set aside."""
    state = world.state
    classes = state.kind("PriorityClass")
    default = next((cast(PriorityClass, c).value for c in classes.values() if _is_default(c)), DEFAULT_PRIORITY)
    pooled = world.settings.pool is not None
    for job in state.jobs.values():
        if job.group is None or (pooled and not world.settings.in_pool(job.group.metadata.labels or {})):
            continue
        queue = world.queues.get(job.queue)
        if queue is None:
            world.queueless.append(job)
            continue
        named = classes.get(job.group.spec.priority_class_name)
        priority = cast(PriorityClass, named).value if named is not None else default
        tasks = [_see(world, t) for t in job.tasks.values()]
        view = world.jobs[job.uid] = JobView(job, queue, priority, tasks, flat=world.flat_gangs)
        world.times.recall(view)
        _count(world, view)
    world.times.forget_all_but(state.jobs)
    for task in state.tasks.values():
        if task.uid in world.tasks:
            continue
        seen = _see(world, task)
        if _is_foreign(world, task):
            world.others.append(seen)
        if task.labels.get(_APP) == _RESERVATION:
            _leave_gpus(world, seen)
    for uid, (_, node) in state.rooms.items():
        if uid in world.tasks:
            world.nodes.lift(world.tasks[uid], node)


def _is_foreign(world: KaiWorld, task: Task) -> bool:
    """Is a pod, of no job that is seen, of another scheduler? KAI's helpers count as its own."""
    if task.labels.get(_APP) in (_RESERVATION, _SCALING):
        return False
    ours = world.state.scheduler_names
    if ours is None:  # whoever names a job is ours
        return not task.job_key and task.pod.spec.scheduler_name != _KAI
    return task.pod.spec.scheduler_name not in ours


def _leave_gpus(world: KaiWorld, view: TaskView) -> None:
    """The pod that stands for a shared GPU holds none beside it: the GPU is taken by those who share it."""
    if view.stage in USED and view.node is not None:
        world.nodes.give_back(view, view.node)


def _see(world: KaiWorld, task: Task) -> TaskView:
    claims = world.claims.counted(task) if world.claims is not None else ()
    view = world.tasks[task.uid] = TaskView(task, world.now - world.settings.stuck_after, claims)
    initial = world.settings.initial.get(task.key) if world.settings.initial else None
    if initial is not None:
        _begin_at(world, view, *initial)
    node = view.node
    if node is None:
        return view
    ledger, request = world.nodes, view.request
    if view.stage in USED:
        ledger.tasks.setdefault(node.row, {})[view.uid] = view
    if request.shared is not None and view.stage in USED:
        if not view.groups:
            view.groups = tuple(f"{task.name}-gpu{i}" for i in range(request.devices))
        ledger.share_out(node.row, view, request.shared, view.stage, view.groups, 1)
    if request.claimed and view.stage in USED and node.row in ledger.by_claim:
        ledger.claim(node.row, view, view.stage, 1)
    if view.stage is TaskStage.STUCK:
        ledger.add(node.row, request.booked, 0, -1)
    if view.stage in ALLOCATED:
        view.accepted = world.counted(request, node)
    return view


def _begin_at(world: KaiWorld, view: TaskView, stage: TaskStage, node: str) -> None:
    """A task is taken to be elsewhere, and at another stage, than the cluster says."""
    found = world.state.table.by_name.get(node)
    if found is None:
        return
    view.stage, view.node = stage, found
    if view.request.shared is None:
        world.nodes.book(view, found, stage, (), 1)


def _count(world: KaiWorld, job: JobView) -> None:
    """Count what a job has and asks for in its queues."""
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
    cpu, memory, gpu = wanted
    for queue in job.queue.chain():
        if held is not NOTHING:
            has = queue.allocated
            queue.allocated = (has[0] + held[0], has[1] + held[1], has[2] + held[2])
        if fixed is not NOTHING:
            queue.non_preemptible = plus(queue.non_preemptible, fixed)
        asks = queue.request
        queue.request = (asks[0] + cpu, asks[1] + memory, asks[2] + gpu)


def _is_default(obj: Any) -> bool:
    return bool(obj.global_default)
