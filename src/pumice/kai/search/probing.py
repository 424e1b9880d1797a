"""How much of a job can be helped: parts of its next piece are tried, larger ones by what smaller ones needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pumice.kai.search.accumulating import SearchContext
from pumice.kai.search.ordering import WorkOrder
from pumice.kai.search.scenario import distinct
from pumice.kai.search.sieves import Sieve
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import ACTIVE
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.tasks import TaskView

if TYPE_CHECKING:
    from pumice.kai.search.solver import Solver


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
