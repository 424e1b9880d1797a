"""What consolidation, reclaim and preempt have in common: waiting jobs in order, each helped once if it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from pumice.framework.points import table as t
from pumice.framework.session.refusals import Stage
from pumice.framework.session.rounds import surplus_pause
from pumice.framework.session.session import Session
from pumice.kai.search import ordering, placing, solver
from pumice.kai.search.ordering import WorkOrder
from pumice.kai.search.scenario import VictimScenario
from pumice.kai.search.signatures import Signatures
from pumice.kai.search.solver import Solved, Solver
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.wording import POD_ERRORS, JobError
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.reason import Verdict

ASKS: Final = (*ordering.ASKS, *placing.ASKS, *solver.ASKS, t.VICTIM_INVARIANT_PRE_PREDICATE)


def waiting(world: KaiWorld, *, evicting: bool, preemptible_only: bool = False) -> list[JobView]:
    """Jobs that could be served now; *evicting*: for whom others may be evicted by now."""
    return [
        job
        for job in world.kept.waiting.values()
        if job.pending
        and job.ready
        and not world.state.pauses(job.job.uid)
        and paused(world, job) is None
        and not (preemptible_only and not job.preemptible)
        and not (evicting and delayed(world, job))
    ]


def paused(world: KaiWorld, job: JobView) -> Verdict | None:
    """Return why surplus of a job is not placed for now; None if whatever waits of it may be placed."""
    if job.job.uid not in world.ssn.runtime.losses or not job.gang_satisfied:
        return None
    return surplus_pause(world.ssn, job.job)


def delayed(world: KaiWorld, job: JobView) -> bool:
    """Has nobody to make room for it yet?"""
    delay = job.preemption_delay
    if delay is None or delay <= 0:
        return False
    since = max(job.creation, job.last_eviction or 0.0)
    if world.now < since + delay:
        world.ssn.wake_at(since + delay)
        text = f"others are not evicted for it until {delay:g} s have passed since it was created or last evicted"
        if all(error.text != text for error in world.job_errors.get(job.job.uid, ())):
            world.refuse(job, Stage.EVICTION, text)
        return True
    return False


def help_in_turn(
    ssn: Session,
    action: str,
    *,
    eligible: Callable[[JobView], bool] | None = None,
    possible: Callable[[JobView], bool] | None = None,
    reaches: Callable[[JobView, QueueView], bool],
    admits: Callable[[JobView, JobView], bool],
    valid: Callable[[VictimScenario], bool],
    one_table: bool = False,
    preemptible_only: bool = False,
    start: Callable[[], object] | None = None,
    most: int = -1,
) -> None:
    """Look for victims on behalf of every waiting job that is *eligible*, and commit what is found.

    *possible*: can it be helped at all? One that cannot counts as tried in vain. *reaches*: are jobs of a queue looked
    at for it? *admits*: may the second be evicted or moved for the first? *most*: so many are looked at; -1: all.
    """
    world = world_of(ssn)
    finder = Solver(ssn, action, reaches, admits, valid, most)
    signatures = Signatures(world, one_table)
    invariant = cast(Callable[[TaskView], Verdict], ssn.victim_invariant_pre_predicate)
    jobs = waiting(world, evicting=True, preemptible_only=preemptible_only)
    order = WorkOrder(world, jobs, depth=world.settings.depth.get(action))
    while order:
        job = order.pop()
        if eligible is not None and not eligible(job):
            continue
        if not signatures.worth_trying(job):
            continue
        chunk = world.chunk(job, real=False)
        refused = next(((x, said) for x in chunk if not (said := invariant(x))), None)
        if refused is not None:
            task, said = refused
            text = f"Resources were not found for pod {task.task.key} due to: {said.text}"
            world.refuse(job, Stage.NODES, JobError(POD_ERRORS, text))
            continue
        if possible is not None and not possible(job):
            signatures.failed(job)
            continue
        if start is not None:
            start()
        result, plan = finder.solve(job)
        if plan is not None:
            finder.commit(plan)
        elif result is Solved.NO:
            signatures.failed(job)
        elif result is Solved.OVER:
            world.refuse(
                job, Stage.EVICTION, f"{action}: {result.value}; who waits behind it is looked at in another cycle"
            )
            break
    ssn.metrics.counter("pumice_kai_scenarios_total", finder.simulated, action=action)
