"""allocate: the next piece of every waiting job, queue by queue, on room that is free or being freed."""

from __future__ import annotations

from typing import ClassVar

from pumice.framework.plugin import Action
from pumice.framework.session.outcome import Stage
from pumice.framework.session.session import Session
from pumice.kai.search import placing, work_order
from pumice.kai.search.helping import paused, waiting
from pumice.kai.search.placing import Placer
from pumice.kai.search.work_order import WorkOrder
from pumice.kai.view.jobs import JobView
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.tasks import ALLOCATED, TaskStage
from pumice.kai.view.wording import strays, unreadable, unready
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.codes import ReasonCode
from pumice.model.reason import reject


class KaiAllocate(Action):
    """Places jobs in pieces: the gang first, then one pod or sub-group at a time, in the order of the queues."""

    name = "allocate"
    asks: ClassVar = (*work_order.ASKS, *placing.ASKS)

    def execute(self, ssn: Session) -> None:
        """Serve every job that waits, until nobody can be served."""
        world, placer = world_of(ssn), Placer(ssn)
        _tell_incomplete(world)
        order = WorkOrder(world, waiting(world, evicting=False), depth=world.settings.depth.get(self.name))
        while order:
            job = order.pop()
            if (said := paused(world, job)) is not None:
                ssn.outcome.refuse(job.job, Stage.REFUSED, said)
                continue
            _place(world, placer, order, job)


def _place(world: KaiWorld, placer: Placer, order: WorkOrder, job: JobView) -> None:
    """Place the next piece of a job, and put the job back where more of it waits."""
    plan = ChangePlan(world)
    held = job.holds
    if not placer.place(plan, world.nodes.there, job, promises=False):
        plan.discard()
        return
    if job.only is None and _waits_in_part(job):
        plan.convert_to_pipelined(job)
    if not plan.commit():
        return
    if not held and not job.waits_for_room:
        world.times.started(job)
    if job.pending:
        order.push(job)


def _tell_incomplete(world: KaiWorld) -> None:
    """Say of jobs that are not tried what of them is missing, or cannot be used."""
    odd = {key for kind, key in world.state.problems if kind == "Pod"}
    wrong = {j for j in world.jobs.values() if any(t.task.key in odd for t in j.tasks.values())} if odd else set()
    for job in world.kept.waiting.values() if not wrong else world.jobs.values():
        if stopped := world.state.pauses(job.job.uid):
            world.ssn.outcome.refuse(job.job, Stage.REFUSED, reject(stopped.text, stopped.code))
            continue
        if (said := paused(world, job)) is not None:
            world.ssn.outcome.refuse(job.job, Stage.REFUSED, said)
            continue
        lacks = job.pending and not job.ready
        if not lacks and not job.unknown and job not in wrong:
            continue
        missing = unready(job) if lacks else ""
        why = unreadable(job) if job in wrong else ""
        text = "; ".join(filter(None, (missing, strays(job), why)))
        if text:
            code = ReasonCode.INVALID if why or job.job.problem else ReasonCode.NOT_ENOUGH_TASKS
            world.ssn.outcome.refuse(job.job, Stage.VALID, reject(text, code))


def _waits_in_part(job: JobView) -> bool:
    """Report whether a pod set would start with less than its minimum."""
    return any(
        any(t.stage is TaskStage.PIPELINED for t in p.tasks) and p.count(ALLOCATED) < p.minimum for p in job.pod_sets()
    )
