"""consolidation: running work is moved together so that waiting work fits; nobody loses a place."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from pumice.framework.plugin import Action
from pumice.framework.session.session import Session
from pumice.kai.search import helping
from pumice.kai.search.helping import help_in_turn
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.view.jobs import JobView
from pumice.kai.view.queues import GPU
from pumice.kai.view.tasks import TaskStage
from pumice.kai.view.world import KaiWorld, world_of


class Consolidation(Action):
    """Moves work that may be evicted, if every piece of it has a new place before anybody is touched."""

    name = "consolidation"
    asks: ClassVar = helping.ASKS

    def execute(self, ssn: Session) -> None:
        """Help every waiting job (in KAI: that may itself be moved)."""
        world = world_of(ssn)
        most = world.settings.max_consolidation_preemptees
        if most == 0:
            return

        def valid(scenario: VictimScenario) -> bool:
            return all(t.stage is not TaskStage.RELEASING for t in scenario.victims)

        help_in_turn(
            ssn,
            self.name,
            possible=lambda job: _might_fit(world, job),
            reaches=lambda job, queue: True,
            admits=lambda job, victim: victim is not job,
            valid=valid,
            one_table=True,
            most=most,
            preemptible_only=ssn.compat.kai_movable_only,
        )


def _might_fit(world: KaiWorld, job: JobView) -> bool:
    """Report whether there are GPUs enough for the job in all, on any nodes."""
    ledger = world.nodes
    wanted = memory = 0.0
    for task in world.chunk(job, real=False):
        wanted += task.request.quota[GPU]
        if task.request.shared is not None:
            memory += task.request.shared.devices * task.request.shared.memory
    free = np.where(world.ready_rows, ledger.free_gpus(), 0.0)
    return wanted <= np.add.reduce(free) + 1e-9 and memory <= int(ledger.free_gpu_memory()[world.ready_rows].sum())
