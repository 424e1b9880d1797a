"""reclaim: a queue below its share gets what other queues hold beyond theirs."""

from __future__ import annotations

from typing import ClassVar

from pumice.framework.plugin import Action
from pumice.framework.points import table as t
from pumice.framework.session.session import Session
from pumice.kai.search import helping
from pumice.kai.search.helping import help_in_turn
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.view.jobs import JobView


class KaiReclaim(Action):
    """Evicts or moves work of other queues, where the plugins find the whole of it legal."""

    name = "reclaim"
    asks: ClassVar = (
        *helping.ASKS,
        *(t.CAN_RECLAIM_RESOURCES, t.ON_JOB_SOLUTION_START, t.RECLAIM_VICTIM_FILTER, t.RECLAIM_SCENARIO_VALIDATOR),
        *(t.VICTIM_FILTER, t.SCENARIO_VALIDATOR),
    )

    def execute(self, ssn: Session) -> None:
        """Help every waiting job whose queue may reclaim."""

        def admits(job: JobView, victim: JobView) -> bool:
            asked = job, victim
            return bool(ssn.reclaim_victim_filter(*asked)) and bool(ssn.victim_filter(*asked))

        def valid(scenario: VictimScenario) -> bool:
            return bool(ssn.reclaim_scenario_validator(scenario)) and bool(ssn.scenario_validator(scenario))

        help_in_turn(
            ssn,
            self.name,
            eligible=lambda job: bool(ssn.can_reclaim_resources(job)),
            reaches=lambda job, queue: queue is not job.queue,
            admits=admits,
            valid=valid,
            start=ssn.on_job_solution_start,
        )
