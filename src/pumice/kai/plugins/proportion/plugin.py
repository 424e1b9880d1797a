"""The plugin: fair shares of the tree of queues, and the points that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.arguments import Argument
from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.kai.plugins.proportion.division import DividedShare, divide
from pumice.kai.plugins.proportion.legality import excess, may_be_robbed, reclaim_is_legal, units
from pumice.kai.plugins.proportion.standing import ClaimOrder, settle
from pumice.kai.search.scenario import VictimScenario
from pumice.kai.view.amounts import GPU, UNLIMITED, Amounts, plus, total, within
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.stage import ACTIVE, TaskStage
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.usage import UsageAccount
from pumice.kai.view.wording import over_limit, over_quota
from pumice.kai.view.world import KaiWorld, world_of
from pumice.model.codes import ReasonCode
from pumice.model.node import Node
from pumice.model.reason import PASS, Verdict, reject


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
        """Queue -> is there no limit to it?"""
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
        """Has no queue of its chain a limit, and does no quota bind it?"""
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
        """Could a scenario be legal at all? What queues may lose, and what is free, must be enough for the job.

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
        """The resources of which others must hold too much: those that are asked for (in KAI: any)."""
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
    """The resource in which a request goes beyond a limit; what is not asked for is not looked at."""
    for n in range(3):
        if request[n] > 0 and limits[n] != UNLIMITED and held[n] + request[n] > limits[n] + 1e-9:
            return n
    return None
