"""consolidation: running work is moved together so that waiting work fits; nobody loses a place."""

from __future__ import annotations

from typing import ClassVar

from pumice.framework.plugin import Action
from pumice.framework.session.session import Session
from pumice.kai.search import helping
from pumice.kai.search.helping import help_in_turn, victims_among
from pumice.kai.search.ordering import WorkOrder
from pumice.kai.search.scenario import Scenario
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import Stage
from pumice.kai.view.world import World, world_of


class Consolidation(Action):
    """Moves work that may be evicted, if every piece of it has a new place before anybody is touched."""

    name = "consolidation"
    asks: ClassVar = helping.ASKS

    def execute(self, ssn: Session) -> None:
        """Help every waiting job that may itself be moved."""
        world = world_of(ssn)
        most = world.settings.max_consolidation_preemptees
        if most == 0:
            return

        def victims(job: JobView) -> list[JobView]:
            found = victims_among(world.jobs.values(), lambda v: v is not job)
            return found if most < 0 or len(found) <= most else list(WorkOrder(world, found, victims=True))[:most]

        def valid(scenario: Scenario) -> bool:
            return all(t.stage is not Stage.RELEASING for t in scenario.victims)

        help_in_turn(
            ssn,
            self.name,
            eligible=lambda job: _might_fit(world, job),
            victims=victims,
            valid=valid,
            one_table=True,
            preemptible_only=True,
        )


def _might_fit(world: World, job: JobView) -> bool:
    """Are there GPUs enough for the job in all, wherever they are?"""
    ledger = world.nodes
    wanted = sum(world.asked_at_least(t.request)[2] for t in world.chunk(job, real=False))
    free = 0.0
    for row in ledger.order.tolist():
        free += max(ledger.idle_gpus(row) + ledger.releasing_gpus(row), 0.0)
        size = int(ledger.memory[row])
        for gpu in ledger.shared.get(row, {}).values():
            if gpu.whole()[1] != 1 and size:
                free += max(size - gpu.allocated + gpu.releasing, 0) / size
    return wanted <= free + 1e-9
