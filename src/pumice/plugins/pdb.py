"""pdb: nobody is evicted against a disruption budget."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.framework.plugin import Plugin
from pumice.framework.session.session import Session
from pumice.model.task import Task


class Pdb(Plugin):
    """Protects pods whose PodDisruptionBudget allows no more evictions."""

    name = "pdb"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        budgets = ssn.budgets

        def permitted(_: object, candidates: Sequence[Task]) -> list[Task]:
            return budgets.permitted(candidates)

        ssn.add_preemptable_fn(self.name, permitted)
        ssn.add_reclaimable_fn(self.name, permitted)
        ssn.add_victim_tasks_fn(self.name, budgets.named)
