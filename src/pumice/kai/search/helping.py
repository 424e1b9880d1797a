"""The common loop of consolidation, reclaim and preempt: pending jobs in order, each helped once if possible."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, cast

from pumice.framework.points import table as t
from pumice.framework.session.outcome import Stage
from pumice.framework.session.rounds import surplus_pause
from pumice.framework.session.session import Session
from pumice.kai.search import placing, solver, work_order
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.search.solver import Solved, Solver
from pumice.kai.search.work_order import WorkOrder
from pumice.kai.view.jobs import GroupSet, JobView, Member
from pumice.kai.view.queues import QueueView
from pumice.kai.view.tasks import ACTIVE, TaskStage, TaskView
from pumice.kai.view.wording import POD_ERRORS, JobError
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.api import PodSpec
from pumice.model.reason import Verdict

_Amounts = dict[int, float]
_PENDING: Final = TaskStage.PENDING


class Signatures:
    """Remembers who could not be helped: per queue, or (*one_table*) for all of them together."""

    def __init__(self, world: KaiWorld, one_table: bool) -> None:
        self._on, self._one_table = world.settings.signatures, one_table
        self._known: dict[Hashable, list[_Amounts]] = {}

    def _key(self, job: JobView) -> Hashable:
        if job.likeness is None:
            job.likeness = _likeness(job)
        return ("" if self._one_table else job.queue.name, job.likeness)

    def worth_trying(self, job: JobView) -> bool:
        """Report whether no job like it is known to have failed with as much or less."""
        if not self._on:
            return True
        known = self._known.get(self._key(job))
        if known is None:
            return True
        only = job.only
        if only is not None and len(known) == 1 and known[0] is only.request.amounts and only.stage is _PENDING:
            return False  # it asks for the very same
        mine = _requests(job)
        if len(mine) < len(known):
            return True
        return any(a is not b and _at_most(a, b) and a != b for a, b in zip(mine, known, strict=False))

    def failed(self, job: JobView) -> None:
        """It could not be helped: whoever is like it and asks for no less cannot be either."""
        if not self._on:
            return
        key, mine = self._key(job), _requests(job)
        known = self._known.get(key)
        if known is None or (
            len(mine) <= len(known) and all(_at_most(a, b) for a, b in zip(mine, known, strict=False))
        ):
            self._known[key] = mine


def _requests(job: JobView) -> list[_Amounts]:
    found = [t.request.amounts for t in job.tasks.values() if t.stage is TaskStage.PENDING]
    return sorted(found, key=lambda a: sorted(a.items())) if len(found) > 1 else found


def _at_most(a: _Amounts, b: _Amounts) -> bool:
    return all(v <= b.get(d, 0.0) for d, v in a.items())


def _likeness(job: JobView) -> Hashable:
    """For jobs with one pending task and no topology, it follows from the task's class, and is kept there."""
    only = job.only
    if only is None or only.stage in ACTIVE or not job.anywhere:
        return _signature(job.root, ())
    memo = only.task.klass.memo
    known: Hashable = memo.get("kai.likeness")
    if known is None:
        known = memo["kai.likeness"] = _signature(job.root, ())
    return known


def _signature(member: Member, above: Sequence[Hashable]) -> Hashable:
    constraint = member.topology
    if isinstance(member, GroupSet):
        return tuple(sorted(repr(_signature(m, (*above, constraint))) for m in member.members))
    placeless = sorted(repr(_task_signature(t)) for t in member.tasks if t.stage not in ACTIVE)
    return (constraint, tuple(above), tuple(placeless)) if placeless else ()


def _task_signature(task: TaskView) -> Hashable:
    klass = task.task.klass
    known: Hashable = klass.memo.get("kai.signature")
    if known is None:
        known = klass.memo["kai.signature"] = _class_signature(klass.spec)
    return known


def _class_signature(spec: PodSpec) -> str:
    ports = [(p.host_port, p.protocol, p.host_ip) for c in spec.containers or () for p in c.ports or () if p.host_port]
    return repr(
        (
            *(spec.volumes, spec.node_selector, spec.affinity, spec.priority_class_name, spec.priority),
            *([(t.key, t.operator, t.value, t.effect) for t in spec.tolerations or ()],),
            *(spec.topology_spread_constraints, ports),
        )
    )


ASKS: Final = (*work_order.ASKS, *placing.ASKS, *solver.ASKS, t.VICTIM_INVARIANT_PRE_PREDICATE)


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
    """Report whether no room was made for it yet."""
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
    """Look for victims for every pending job that is *eligible*, and commit the result.

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
