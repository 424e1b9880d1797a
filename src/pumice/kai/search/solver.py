"""The search for victims: how much of a job can be helped, which pods go or move for it, and what it may cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.framework.points import table as t
from pumice.framework.points.guard import FAILS
from pumice.framework.session.session import Session
from pumice.kai.search.placing import Placer
from pumice.kai.search.scenarios import SearchContext, VictimScenario, distinct
from pumice.kai.search.sieves import Sieve
from pumice.kai.search.work_order import RankedJobs, WorkOrder, rank
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import QueueView
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.tasks import ACTIVE, TaskView
from pumice.kai.view.world import KaiWorld, world_of

COST: Final = 0.005
"""Seconds that a scenario counts as; about what playing one takes in a cluster of a thousand nodes."""
GENERATORS: Final = {"sg-nodelocalgreedy": "NodeLocalGreedy", "sg-multinodegang": "MultiNodeGang"}
"""Plugin -> the name under which its scenarios have a budget."""


class SearchBudget:
    """The budget of one run of an action: of all of it, of the job at hand, and of the generator at hand."""

    def __init__(self, action: str, given: Mapping[str, object]) -> None:
        """*given*: durations in seconds, as the settings have them."""
        self._action = _scenarios(_named(given, "maxActionSearchDuration", action, 300.0))
        self._most, self._least = (
            _plain(given, "maxJobSearchDuration", 240.0),
            _plain(given, "minJobSearchDuration", 0.0),
        )
        self._given = given
        self._job = self._generator = math.inf
        self._of_job, self._of_generator = _scenarios(self._most), dict[str, float]()

    def begin_job(self) -> bool:
        """A job's search begins; False where nothing is left for it."""
        self._job = max(min(self._action, self._of_job), self._least / COST)
        return self._job > 0

    def begin_generator(self, plugin: str) -> None:
        """A generator is asked on behalf of the job."""
        own = self._of_generator.get(plugin)
        if own is None:
            name = GENERATORS.get(plugin.rpartition("/")[2], plugin)
            given = _named(
                self._given, "maxGeneratorSearchDuration", name, 30.0 if name == "NodeLocalGreedy" else 120.0
            )
            own = self._of_generator[plugin] = _scenarios(given)
        self._generator = min(self._job, own)

    def spend(self) -> None:
        """A scenario was played."""
        self._action -= 1
        self._job -= 1
        self._generator -= 1

    @property
    def over(self) -> bool:
        """Report whether the search for the job is over."""
        return self._job <= 0

    @property
    def left(self) -> bool:
        """Report whether budget is left for the job and for the generator."""
        return self._job > 0 and self._generator > 0


def _scenarios(seconds: float) -> float:
    return math.ceil(seconds / COST) if seconds else math.inf


def _plain(given: Mapping[str, object], key: str, default: float) -> float:
    value = given.get(key, default)
    return float(value) if isinstance(value, (int, float)) else default


def _named(given: Mapping[str, object], key: str, name: str, default: float) -> float:
    table = given.get(key)
    if not isinstance(table, Mapping):
        return default
    value = table.get(name, default if name in GENERATORS.values() else table.get("default", default))
    return float(value)


class PieceSearch:
    """One generator's search on behalf of one job: how much of its next piece can be helped, and by whom."""

    def __init__(
        self,
        solver: Solver,
        job: JobView,
        chunk: list[TaskView],
        candidates: Callable[[], WorkOrder],
        failed: set[object],
        taken: dict[str, tuple[list[TaskView], bool]],
        number: int,
    ) -> None:
        """*number*: whose scenarios are tried."""
        self._solver, self._job, self._chunk = solver, job, chunk
        self._candidates, self._failed, self._taken, self._number = candidates, failed, taken, number
        self.generators = number + 1
        """How many generators there are, as far as they have been asked."""
        self._begun = False
        self._recorded: list[Sequence[TaskView]] = []
        self._needs_all = False
        """Report whether each victim of the last scenario that held leaves its place; else fewer may be enough."""
        self._world = solver.world
        self._feasible = solver.feasible(job)

    def run(self) -> ChangePlan | None:
        """A plan for the whole piece, found by way of smaller ones: by doubling, and by halving after a failure."""
        n, budget = len(self._chunk), self._solver.budget
        good, bad, k = 0, n + 1, 1
        while bad - good > 1:
            plan = self._probe(k)
            if plan is not None and k == n and self._needs_all and budget.left:
                budget.spend()  # in KAI it is played once more, with the same result
                return plan
            if plan is not None:
                plan.discard()
                good = k
            else:
                bad = k
                if not good:
                    return None
            k = (good + bad) // 2 if bad <= n else min(2 * k, n)
        return self._probe(n)

    def _least_with(self, tasks: Sequence[TaskView]) -> JobView:
        """The job with these of its waiting tasks, wanting no more."""
        uids = {x.uid for x in tasks} | {x.uid for x in self._job.tasks.values() if x.stage in ACTIVE}
        return self._job.part(uids, least=True)

    def _probe(self, k: int) -> ChangePlan | None:
        tasks = self._chunk[:k]
        part = self._job if self._job.is_least else self._least_with(tasks)
        feasible = self._feasible.copy()
        for task in (x for piece in self._recorded for x in piece):
            if task.node is not None:
                feasible[task.node.row] = True
        sieve = Sieve(self._world, part, tasks, [x for piece in self._recorded for x in piece], feasible)
        context = SearchContext(
            world=self._world,
            job=part,
            tasks=tasks,
            recorded=list(self._recorded),
            feasible=feasible,
            victims=self._candidates,
            accepts=sieve.accepts,
            might=sieve.might,
            node_might=lambda: self._solver.scattered(self._job) or sieve.node_might(),
            taken=self._taken,
        )
        given = self._solver.scenarios(context)
        self.generators = len(given)
        if self._number >= len(given):
            return None
        plugin, scenarios = given[self._number]
        budget = self._solver.budget
        if not self._begun:
            self._begun = True
            budget.begin_generator(plugin)
        for scenario in scenarios:
            if not budget.left:
                return None
            mark = scenario.mark
            if mark in self._failed:
                continue
            budget.spend()
            plan = self._solver.simulate(scenario, feasible)
            if plan is not None:
                self._recorded = scenario.moved()
                self._needs_all = distinct(x for p in self._recorded for x in p) == scenario.victims
                return plan
            self._failed.add(mark)
        return None


Bools = npt.NDArray[np.bool_]
ASKS: Final = (t.SCENARIO_GENERATOR,)


class Solved(Enum):
    """The result of a search."""

    YES = "solved"
    NO = "nobody's leaving helps"
    NOTHING = "nothing to place"
    UNASKED = "no plugin gives scenarios"
    OVER = "the budget of the search is spent"


class Solver:
    """Looks for victims on behalf of jobs, for one action."""

    def __init__(
        self,
        ssn: Session,
        reason: str,
        reaches: Callable[[JobView, QueueView], bool],
        admits: Callable[[JobView, JobView], bool],
        valid: Callable[[VictimScenario], bool],
        most: int = -1,
    ) -> None:
        """*reaches*: are jobs of a queue looked at for one? *admits*: may the second be evicted or moved for the first?
        *most*: so many are looked at; -1: all.
        """
        self._ssn, self._reason, self._most = ssn, reason, most
        self.world: KaiWorld = world_of(ssn)
        self._placer = Placer(ssn)
        self._reaches, self._admits, self._valid = reaches, admits, valid
        self._waiting = RankedJobs(self.world, lambda j: j.pending, victims=False)
        self._giving = RankedJobs(self.world, lambda j: j.preemptible and j.active and not j.job.left_out, victims=True)
        self.budget = SearchBudget(reason, self.world.settings.budgets)
        self._generators = [
            (c.plugin, ssn.guarded(t.SCENARIO_GENERATOR, c)) for c in ssn.callbacks(t.SCENARIO_GENERATOR)
        ]
        self.simulated = 0
        self._wide: dict[str, JobView] | None = None
        """Jobs on several nodes that may go; None: nobody has looked yet."""

    def solve(self, job: JobView) -> tuple[Solved, ChangePlan | None]:
        """A plan that places the next piece of the job, not committed yet; None where there is none."""
        world = self.world
        chunk = world.chunk(job, real=False)
        if not chunk:
            return Solved.NOTHING, None
        if not self._generators:
            return Solved.UNASKED, None
        if not self.budget.begin_job():
            return Solved.OVER, None
        before = job.active_count
        admitted: dict[str, bool] = {}
        self._waiting.listed()  # put in order before anybody is imagined to be gone
        failed: set[object] = set()
        taken: dict[str, tuple[list[TaskView], bool]] = {}
        number, known = 0, 1
        while number < known:
            search = PieceSearch(self, job, chunk, lambda: self._candidates(job, admitted), failed, taken, number)
            plan = search.run()
            if plan is not None:
                if job.gang_satisfied and job.active_count > before:
                    return Solved.YES, plan
                if world.flat_gangs:
                    self._learn(_touched(plan))
                    return Solved.NO, None
                plan.discard()
            if self.budget.over:
                return Solved.OVER, None
            number, known = number + 1, search.generators
        return Solved.NO, None

    def commit(self, plan: ChangePlan) -> None:
        """Make a plan true, and know who has changed by it."""
        touched = _touched(plan)
        plan.commit()
        self._learn(touched)

    def _learn(self, touched: Sequence[JobView]) -> None:
        """These jobs are not what they were: they have new places in order."""
        self._waiting.learn(touched)
        self._giving.learn(touched)
        if self._wide is None:
            return
        for job in touched:
            self._wide.pop(job.job.uid, None)
            if _is_wide(job):
                self._wide[job.job.uid] = job

    def scattered(self, job: JobView) -> bool:
        """Report whether a candidate victim for this job holds room on several nodes."""
        if self._wide is None:
            self._wide = {each.job.uid: each for each in self.world.jobs.values() if _is_wide(each)}
        return any(self._reaches(job, queue) for queue in {each.queue for each in self._wide.values()})

    def _candidates(self, job: JobView, known: dict[str, bool]) -> WorkOrder:
        """The possible victims of a job, the worst first; each is checked in its turn, unless it is *known*."""

        def admits(victim: JobView) -> bool:
            uid = victim.job.uid
            if uid not in known:
                known[uid] = self._admits(job, victim)
            return known[uid]

        reached = {
            name: jobs for name, jobs in self._giving.listed().items() if jobs and self._reaches(job, jobs[0][1].queue)
        }
        order = WorkOrder.of_listed(self.world, reached, victims=True, admits=admits)
        return WorkOrder(self.world, islice(order, self._most), victims=True) if self._most >= 0 else order

    def scenarios(self, context: SearchContext) -> list[tuple[str, Iterator[VictimScenario]]]:
        """Every generator's scenarios; nothing of them is made until it is asked for."""
        given = [(plugin, generate(context)) for plugin, generate in self._generators]
        return [(plugin, self._contained(plugin, scenarios)) for plugin, scenarios in given if scenarios is not None]

    def _contained(self, plugin: str, scenarios: Iterator[VictimScenario]) -> Iterator[VictimScenario]:
        """The scenarios of a plugin, as far as it gives any."""
        while True:
            try:
                scenario = next(scenarios, None)
            except FAILS as exc:
                self._ssn.contain(plugin, t.SCENARIO_GENERATOR.name, exc)
                return
            if scenario is None:
                return
            yield scenario

    # -- trying -----------------------------------------------------------------------------------------------------
    def simulate(self, scenario: VictimScenario, feasible: Bools) -> ChangePlan | None:
        """The world after it; None, with the world as it was, if the result is not good enough."""
        if not scenario.victims:
            return None
        self.simulated += 1
        world = self.world
        plan = ChangePlan(world)
        nodes = feasible.copy()
        for task in scenario.victims:
            if task.node is not None:
                nodes[task.node.row] = True
            plan.evict(task, self._reason, scenario.job.whole)
        if self._replace(plan, scenario, nodes) and self._valid(scenario):
            return plan
        plan.discard()
        return None

    def _replace(self, plan: ChangePlan, scenario: VictimScenario, nodes: Bools) -> bool:
        """Place the job and, where there is room, its victims, in the order in which they would be served."""
        victims = {job.job.uid: job for job, _ in scenario.by_job()}
        mine = scenario.job.job.uid
        for job in self._in_turn(scenario, victims):
            own = job.job.uid == mine
            if not self._placer.place(plan, nodes, scenario.job if own else job, promises=True) and own:
                return False
        return True

    def _in_turn(self, scenario: VictimScenario, victims: Mapping[str, JobView]) -> Iterator[JobView]:
        """A job and its victims, as they are served beside all others that wait; each is placed before the next."""
        if all(victim.queue is scenario.job.queue for victim in victims.values()):
            yield from sorted([*victims.values(), scenario.job], key=rank(self.world, victims=False))
            return
        order = self._order(scenario, victims.values())
        left = {scenario.job.job.uid: scenario.job, **victims}
        while len(left) > 1:  # other pending jobs are not placed here: they only have their turn
            job = order.pop()
            if left.pop(job.job.uid, None) is not None:
                yield job
            else:
                order.pass_likes(job)
        yield from left.values()

    def _order(self, scenario: VictimScenario, victims: Iterable[JobView]) -> WorkOrder:
        mine = scenario.job.job.uid
        taken = {mine, *(v.job.uid for v in victims)}
        return WorkOrder.of_listed(
            self.world,
            self._waiting.listed(),
            admits=lambda job: job.job.uid not in taken,
            more=[*victims, scenario.job],
        )

    def feasible(self, job: JobView) -> Bools:
        """The nodes that could take tasks of a job without anybody leaving."""
        ledger = self.world.nodes
        if any(x.request.cpu_only for x in job.tasks.values()):
            return ledger.there.copy()
        return ledger.has_free_gpus() & ledger.there


def _is_wide(job: JobView) -> bool:
    """Report whether it may be a victim and holds room on several nodes."""
    return (
        job.only is None and job.preemptible and len({t.node_name for t in job.tasks.values() if t.stage in ACTIVE}) > 1
    )


def _touched(plan: ChangePlan) -> list[JobView]:
    """The jobs that a plan changes; not those whose tasks are left in place."""
    return list({id(op.task.job): op.task.job for op in plan.operations if op.valid}.values())
