"""proportion: KAI's fair share of queues, the order that follows from it, and what may be reclaimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeAlias

from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.search.work_order import QueueClaim
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import (
    GPU,
    NOTHING,
    UNLIMITED,
    Amounts,
    QueueView,
    diverge,
    exceeds,
    finite,
    minus,
    plus,
    total,
    with_slack,
    within,
)
from pumice.kai.view.settings import UsageAccount
from pumice.kai.view.tasks import ACTIVE, TaskStage, TaskView
from pumice.kai.view.wording import over_limit, over_quota
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.codes import ReasonCode
from pumice.model.node import Node
from pumice.model.reason import PASS, Verdict, reject


@dataclass(slots=True)
class DividedShare:
    """One queue's part in the division of one resource."""

    uid: str
    quota: float
    limit: float
    weight: float
    request: float
    priority: int = 0
    creation: float = 0.0
    usage: float = 0.0
    """Its part of what there was in the past, 0 to 1."""
    fair: float = 0.0

    @property
    def requestable(self) -> float:
        """Its request, as far as permitted."""
        return min(self.request, finite(self.limit))


def divide(total: float, shares: Sequence[DividedShare], k: float = 1.0) -> float:
    """Give every queue its fair share of *total*; returns what is left."""
    left = total
    for s in shares:
        given = min(total if s.quota == UNLIMITED else s.quota, s.requestable)
        s.fair += given
        left -= given
    return divide_surplus(left, shares, k) if left > 0 else 0.0


def divide_surplus(total: float, shares: Sequence[DividedShare], k: float = 1.0) -> float:
    """Divide the rest after quotas: higher priorities first, by weight, less for much past use; returns the rest."""
    left = total
    buckets = [list(g) for _, g in groupby(sorted(shares, key=lambda s: -s.priority), key=lambda s: s.priority)]
    remainders: dict[str, float] = {}
    for bucket in buckets:
        left = _divide_bucket(left, bucket, k, remainders)
    for bucket in buckets:
        owed = [s for s in bucket if s.uid in remainders]
        for s in sorted(owed, key=lambda s: (-remainders[s.uid], s.creation, s.uid)):
            if left <= 0:
                return left
            unit = min(1.0, left)
            s.fair += unit
            left -= unit
    return left


def _divide_bucket(left: float, bucket: Sequence[DividedShare], k: float, remainders: dict[str, float]) -> float:
    while True:
        wanting = [s for s in bucket if s.requestable > s.fair]
        weights = sum(s.weight for s in wanting)
        if weights == 0:
            return left
        parts = {}
        for s in wanting:
            w = s.weight / weights
            parts[s.uid] = max(0.0, w + k * (w - s.usage))
        whole = sum(parts.values())
        if whole == 0:
            return left
        given, again = left, False
        for s in wanting:
            if left == 0:
                return left
            if s.weight == 0:
                continue
            want, share = s.requestable - s.fair, given * parts[s.uid] / whole
            if want <= share:
                got = want
                remainders.pop(s.uid, None)
            else:
                got = math.floor(share)
                if share - got > 0:
                    remainders[s.uid] = share - got
            s.fair += got
            left -= got
            again = again or want < share
        if not again or left == 0:
            return left


Standings: TypeAlias = Mapping[str, tuple[Amounts, Amounts]]
"""Queue -> (allocated, its part that cannot be evicted)."""


def units(job: JobView, tasks: Sequence[TaskView], goes: Callable[[TaskView], bool]) -> list[Amounts]:
    """The pieces of a victim: tasks beyond the minimum one by one, then the minimum as a whole."""
    first: list[Amounts] = []
    gang: list[Amounts] = []
    for podset in job.pod_sets():
        own = [t for t in tasks if t.podset.name == podset.name]
        gang += [t.accepted for t in own[: podset.minimum] if goes(t)]
        first += [t.accepted for t in own[podset.minimum :] if goes(t)]
    return first + ([total(gang)] if gang else [])


def reclaim_is_legal(
    job: JobView,
    request: Amounts,
    victims: Iterable[tuple[JobView, Sequence[Amounts]]],
    standings: Standings,
    multiplier: float,
    counts: Sequence[int],
) -> bool:
    """Report whether the job may have all of this go. *victims*: what goes of each, in pieces; *counts*: excess of
    which resources."""
    left: dict[str, Amounts] = {}

    def remaining(queue: QueueView) -> Amounts:
        return left.get(queue.name, standings[queue.name][0])

    mine_involved = _resources([request])
    involved: dict[QueueView, set[int]] = {}
    for victim, pieces in victims:
        theirs_involved = _resources(pieces)
        for unit in pieces:
            mine, theirs = diverge(job.queue, victim.queue)
            has = remaining(theirs)
            fair = exceeds(has, theirs.allocatable, counts)
            in_quota = within(plus(standings[mine.name][0], request), mine.quota)
            if not fair and not (in_quota and exceeds(has, theirs.quota, counts)):
                return False
            for queue in victim.queue.chain():
                left[queue.name] = minus(remaining(queue), unit)
                involved.setdefault(queue, set(mine_involved)).update(theirs_involved)
    return _within_bounds(job, request, left, standings, involved, multiplier)


def may_lose(queue: QueueView, request: Amounts, other: QueueView, counts: Sequence[int]) -> bool:
    """Report whether anything of the other queue may go, and not only move, for a request of the first. As things stand
    now."""
    mine, theirs = diverge(queue, other)
    if mine is theirs:
        return False
    if exceeds(theirs.allocated, theirs.allocatable, counts):
        return True
    return within(plus(mine.allocated, request), mine.quota) and exceeds(theirs.allocated, theirs.quota, counts)


def excess(queue: QueueView, request: Amounts, others: Iterable[QueueView], counts: Sequence[int]) -> dict[str, float]:
    """Queue next to the first one's chain -> GPUs that it holds beyond what it is left with; those that may lose some.

    The last piece that goes may be larger than what is left of the excess.
    """
    found: dict[str, float] = {}
    for other in others:
        mine, theirs = diverge(queue, other)
        if theirs.name in found or not may_lose(queue, request, other, counts):
            continue
        has = theirs.allocated
        bounds = [theirs.allocatable]
        if within(plus(mine.allocated, request), mine.quota):
            bounds.append(theirs.quota)
        if any(exceeds(has, bound, [n for n in counts if n != GPU]) for bound in bounds):
            found[theirs.name] = has[GPU]  # as long as it holds too much of another resource, GPUs may go
        else:
            found[theirs.name] = has[GPU] - min(finite(bound[GPU]) for bound in bounds)
    return found


def _resources(amounts: Iterable[Amounts]) -> set[int]:
    """Which resources there is something of."""
    return {n for a in amounts for n in range(3) if a[n] > 0}


def _within_bounds(
    job: JobView,
    request: Amounts,
    left: Mapping[str, Amounts],
    standings: Standings,
    involved: Mapping[QueueView, Iterable[int]],
    multiplier: float,
) -> bool:
    for queue in job.queue.chain():
        held, fixed = standings[queue.name]
        mine = plus(left.get(queue.name, held), request)
        for sibling, resources in involved.items():
            if sibling is queue or sibling.parent is not queue.parent:
                continue
            theirs = left[sibling.name]
            for n in resources:
                if _overtakes(mine[n], queue.fair_share[n], theirs[n], sibling.fair_share[n], multiplier):
                    return False
        if not job.preemptible and exceeds(plus(fixed, request), queue.quota):
            return False
    return True


def _overtakes(mine: float, share: float, theirs: float, their_share: float, multiplier: float) -> bool:
    """Report whether the reclaimer, above its share, would be as saturated as the giving queue."""
    ratio = mine / share if share else (float("inf") if mine > 0 else 0.0)
    if ratio <= 1 or their_share <= 0:
        return False
    return multiplier * ratio >= theirs / their_share


def may_be_robbed(queue: QueueView, request: Amounts, other: QueueView, counts: Sequence[int]) -> bool:
    """Report whether anything can be reclaimed from the other queue, for a request of the first."""
    mine, theirs = diverge(queue, other)
    if exceeds(plus(mine.allocated, request), mine.quota):
        return exceeds(theirs.allocated, theirs.allocatable, counts)
    limited = [n for n in range(3) if request[n] > 0 and theirs.quota[n] != -1]
    if any(theirs.allocated[n] > theirs.quota[n] for n in limited):
        return True
    return not any(theirs.allocated[n] < theirs.quota[n] for n in limited)


_NO_SHARE = 1000.0
"""The value of holding a unit if the queue may hold none."""


_Standing: TypeAlias = tuple[bool, bool, int, bool, float, float]
"""The compared parts of a claim, the first difference first; the smaller one goes first.

Whether its queue holds more than its share. Whether it would, with the job, hold more than its quota. The priority of
the queue, turned round. Whether it would hold a resource of which it may hold nothing. Its dominant share with the job,
and without those who would go. Its dominant share.
"""


class _Bounds(NamedTuple):
    """The measure of a queue: it is the same during a session."""

    share: Amounts
    """Its fair share, with what sums of fractions may be off."""
    quota: Amounts
    """Its quota, likewise; infinite where there is none."""
    most: Amounts
    """The amount of each resource that counts as all of it."""
    barred: bool
    """Whether it may hold nothing of some resource."""


class ClaimOrder:
    """Compares claims of queues."""

    def __init__(self, world: KaiWorld, offered: Amounts) -> None:
        self._world, self._offered = world, offered
        self._of_all = world.ssn.compat.kai_over_share
        self._bounds: dict[str, _Bounds] = {}
        self._known: dict[tuple[str, bool], tuple[Amounts, Amounts, Amounts, _Standing]] = {}
        """Queue, and whether victims are taken -> what it holds, what is asked for, what would go, as of last time, and
        what follows."""

    def compare(self, left: QueueClaim, right: QueueClaim) -> int:
        """Below 0: the left one goes first."""
        one, two = self._of(left), self._of(right)
        return settle(left.queue, right.queue) if one == two else -1 if one < two else 1

    def _of(self, claim: QueueClaim) -> _Standing:
        if claim.job is None:
            return self.standing(claim.queue, NOTHING, claim.released)
        return self.standing(claim.queue, self._world.next_request(claim.job), NOTHING)

    def standing(self, queue: QueueView, request: Amounts, gone: Amounts) -> _Standing:
        """The deciding difference, unless it is the same for two claims: of *request* more, or when *gone* is given
        back."""
        held, key = queue.allocated, (queue.name, request is NOTHING)
        known = self._known.get(key)
        if known is not None and known[0] is held and known[1] == request and known[2] == gone:
            return known[3]
        share, quota, most, barred = self._bounds.get(queue.name) or self._measure(queue)
        cpu, memory, gpu = held
        more = (cpu + request[0], memory + request[1], gpu + request[2])
        if self._of_all:  # as KAI sees it
            over = cpu > share[0] and memory > share[1] and gpu > share[2]
        else:
            over = cpu > share[0] or memory > share[1] or gpu > share[2]
        found = (
            over,
            more[0] > quota[0] or more[1] > quota[1] or more[2] > quota[2],
            -queue.priority,
            barred and _uses_nothing_allowed(queue, more),
            _dominant((more[0] - gone[0], more[1] - gone[1], more[2] - gone[2]), most),
            _dominant(held, most),
        )
        self._known[key] = (held, request, gone, found)
        return found

    def _measure(self, queue: QueueView) -> _Bounds:
        share, allowed = queue.fair_share, queue.allocatable
        cpu, memory, gpu = (o if a in (UNLIMITED, math.inf) else a for a, o in zip(allowed, self._offered, strict=True))
        found = self._bounds[queue.name] = _Bounds(
            share if self._of_all else with_slack(share), with_slack(queue.quota), (cpu, memory, gpu), 0 in allowed
        )
        return found


def settle(a: QueueView, b: QueueView) -> int:
    """Which of two queues with the same standing goes first: the one that may hold less, if one of them may."""
    if a.allocatable != b.allocatable:
        one, two = _as_limits(a.allocatable), _as_limits(b.allocatable)
        if within(one, two):
            return -1
        if within(two, one):
            return 1
    return 0


def _dominant(held: Amounts, most: Amounts) -> float:
    """The largest part that is held of a resource."""
    largest = 0.0
    for n in (0, 1, 2):
        part = held[n] / most[n] if most[n] else held[n] * _NO_SHARE
        if part > largest:
            largest = part
    return largest


def _as_limits(allocatable: Amounts) -> Amounts:
    """The limit of a queue, to be compared with another limit: without a limit, it is more than any."""
    cpu, memory, gpu = allocatable
    return (finite(cpu), finite(memory), finite(gpu))


def _uses_nothing_allowed(queue: QueueView, held: Amounts) -> bool:
    """Report whether it would hold a resource of which it may hold nothing."""
    return any(amount > 0 and allowed == 0 for amount, allowed in zip(held, queue.allocatable, strict=True))


class KaiProportion(Plugin):
    """Queues get their quota, and what is left by priority, weight and past use; reclaim goes by these shares.

    ``relcaimerSaturationMultiplier`` is spelt as in KAI.
    """

    name = "proportion"
    persistent = True
    k = Argument(1.0, "Weight of past use; 0 and less: none.", name="kValue")
    multiplier = Argument(
        1.0,
        "How much less saturated a queue must stay than the one that it reclaims from.",
        name="relcaimerSaturationMultiplier",
        minimum=1,
        lenient=True,
    )

    def on_session_open(self, ssn: Session) -> None:
        """Divide, and answer by the result."""
        self._standings: dict[str, tuple[Amounts, Amounts]] = {}
        self._free: dict[str, bool] = {}
        """Queue -> whether it has no limit."""
        self._robbed: tuple[tuple[int, int], dict[str, bool]] = ((0, -1), {})
        """Job and version of the world -> from which queues may be reclaimed for it."""
        self._world: KaiWorld = world_of(ssn)
        self._any_excess = ssn.compat.kai_any_excess
        offered = self._world.total()
        self._count_past_use(ssn, offered)
        roots = [q for q in self._world.queues.values() if q.parent is None]
        share_out(offered, roots, max(self.k, 0.0))
        standing = ClaimOrder(self._world, offered)
        ssn.add_queue_claim_order_fn(self.name, standing.compare)
        self._world.orders.keys_of_claims[standing.compare] = (standing.standing, settle)
        ssn.add_can_reclaim_resources_fn(self.name, self._can_reclaim)
        ssn.add_on_job_solution_start_fn(self.name, self._remember)
        ssn.add_reclaim_victim_filter_fn(self.name, self._may_be_victim)
        ssn.add_reclaim_scenario_validator_fn(self.name, self._is_legal)
        ssn.add_job_within_capacity_fn(self.name, self._job_within_capacity)
        ssn.add_job_within_quota_fn(self.name, self._job_within_quota)
        ssn.add_task_within_capacity_fn(self.name, self._task_within_capacity)

    def _count_past_use(self, ssn: Session, offered: Amounts) -> None:
        settings, queues = self._world.settings.usage, self._world.queues
        if settings is None:
            return
        account = UsageAccount(ssn.memory_of("kai/usage"), settings)
        held = {name: queue.allocated for name, queue in queues.items()}
        for name, share in account.update(ssn.now, held, offered).items():
            if name in queues:
                queues[name].usage = share

    # -- capacity ---------------------------------------------------------------------------------------------------
    def _job_within_capacity(self, job: JobView, tasks: Sequence[TaskView]) -> Verdict:
        return PASS if self._is_free(job) else self._judge(job, self._at_least(tasks))

    def _is_free(self, job: JobView) -> bool:
        """Report whether no queue of its chain has a limit, and no quota binds it."""
        if not job.preemptible:
            return False
        known = self._free.get(job.queue.name)
        if known is None:
            known = all(limit == UNLIMITED for queue in job.queue.chain() for limit in queue.limit)
            self._free[job.queue.name] = known
        return known

    def _job_within_quota(self, job: JobView, tasks: Sequence[TaskView]) -> Verdict:
        said = self._over_quota(job, self._at_least(tasks))
        return PASS if said is None else said

    def _task_within_capacity(self, task: TaskView, node: Node) -> Verdict:
        task = self._world.task_of(task)
        request = self._world.counted(task.request, node)
        return self._judge(task.job, request)

    def _at_least(self, tasks: Sequence[TaskView]) -> Amounts:
        asked = self._world.asked_at_least
        return asked(tasks[0].request) if len(tasks) == 1 else total(asked(t.request) for t in tasks)

    def _judge(self, job: JobView, request: Amounts) -> Verdict:
        said = self._over_limit(job, request)
        if said is None:
            said = self._over_quota(job, request)
        return PASS if said is None else said

    def _over_limit(self, job: JobView, request: Amounts) -> Verdict | None:
        for queue in job.queue.chain():
            name = _beyond(queue.allocated, request, queue.limit)
            if name is not None:
                return reject(over_limit(queue, name, queue.allocated, request), reason=ReasonCode.OVER_LIMIT)
        return None

    def _over_quota(self, job: JobView, request: Amounts) -> Verdict | None:
        if job.preemptible:
            return None
        for queue in job.queue.chain():
            name = _beyond(queue.non_preemptible, request, queue.quota)
            if name is not None:
                text = over_quota(queue, name, queue.non_preemptible, request)
                return reject(text, reason=ReasonCode.NON_PREEMPTIBLE_OVER_QUOTA)
        return None

    # -- reclaim ----------------------------------------------------------------------------------------------------
    def _can_reclaim(self, job: JobView) -> bool:
        queue, request = job.queue, self._world.next_request(job)
        if not within(plus(queue.allocated, request), queue.fair_share):
            return False
        if not job.preemptible and not within(plus(queue.non_preemptible, request), queue.quota):
            return False
        return self._somebody_may_go(job, request)

    def _somebody_may_go(self, job: JobView, request: Amounts) -> bool:
        """Report whether a scenario could be legal at all. The amounts that queues may lose, and the free ones, must be
        enough for the job.

        Without this every set of victims would be played before it is found that none is legal.
        """
        world, counts = self._world, self._counting(request)
        chunk = world.chunk(job, real=False)
        least = self._at_least(chunk)[GPU]
        for task in chunk:
            if task.request.claims:  # who shares a claim needs no room for it
                return True
        if not least:
            return True
        holding = [q for q in world.queues.values() if q.is_leaf and q.allocated[GPU]]
        spare = excess(job.queue, request, holding, counts)
        missing = least - float(world.nodes.free_gpus()[world.ready_rows].sum())
        if missing <= 1e-9 or missing < sum(spare.values()):
            return True
        if not spare or any(world.nodes.shared.values()) or any(t.request.shared or t.request.mig for t in chunk):
            return bool(spare)  # who leaves a shared GPU may free more than he held
        return missing < sum(spare.values()) + sum(self._largest_piece(name) for name in spare)

    def _largest_piece(self, queue: str) -> float:
        """GPUs at most that go at once from a queue, or from those below it: all that one job holds."""
        jobs = [j for j in self._world.jobs.values() if any(q.name == queue for q in j.queue.chain())]
        return max((sum(t.accepted[GPU] for t in j.tasks.values() if t.stage in ACTIVE) for j in jobs), default=0.0)

    def _remember(self) -> None:
        self._standings = {q.name: (q.allocated, q.non_preemptible) for q in self._world.queues.values()}

    def _may_be_victim(self, job: JobView, victim: JobView) -> bool:
        mark = (id(job), self._world.version)
        if self._robbed[0] != mark:
            self._robbed = (mark, {})
        known = self._robbed[1]
        name = victim.queue.name
        if name not in known:
            request = self._world.next_request(job)
            known[name] = may_be_robbed(job.queue, request, victim.queue, self._counting(request))
        return known[name]

    def _is_legal(self, scenario: VictimScenario) -> bool:
        moved = self._world.settings.consolidating_reclaim

        def goes(task: TaskView) -> bool:
            return task.stage is TaskStage.RELEASING or not moved

        victims = [(job, units(job, tasks, goes)) for job, tasks in scenario.by_job()]
        counts = self._counting(scenario.request)
        return reclaim_is_legal(scenario.job, scenario.request, victims, self._standings, self.multiplier, counts)

    def _counting(self, request: Amounts) -> Sequence[int]:
        """The resources of which others must hold too much: the requested ones (in KAI: any)."""
        return range(3) if self._any_excess else [n for n in range(3) if request[n] > 0]


def share_out(offered: Amounts, queues: Sequence[QueueView], k: float) -> None:
    """Give every queue of a tree its fair share, from the top."""
    fair: dict[str, list[float]] = {q.name: [0.0, 0.0, 0.0] for q in queues}
    for n in range(3):
        shares = [
            DividedShare(q.uid, q.quota[n], q.limit[n], q.weight[n], q.request[n], q.priority, q.creation, q.usage[n])
            for q in queues
        ]
        divide(offered[n], shares, k)
        for q, s in zip(queues, shares, strict=True):
            fair[q.name][n] = s.fair
    for q in queues:
        cpu, memory, gpu = fair[q.name]
        q.fair_share = (cpu, memory, gpu)
        if q.children:
            share_out(q.fair_share, q.children, k)


def _beyond(held: Amounts, request: Amounts, limits: Amounts) -> int | None:
    """The resource in which a request goes beyond a limit; resources without a request are not looked at."""
    for n in range(3):
        if request[n] > 0 and limits[n] != UNLIMITED and held[n] + request[n] > limits[n] + 1e-9:
            return n
    return None
