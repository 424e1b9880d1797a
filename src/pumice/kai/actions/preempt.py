"""preempt: work of higher priority gets the place of work of lower priority in the same queue."""

from __future__ import annotations

from typing import ClassVar

from pumice.framework.plugin import Action
from pumice.framework.points import table as t
from pumice.framework.session.session import Session
from pumice.kai.search import helping
from pumice.kai.search.helping import help_in_turn
from pumice.kai.search.scenarios import VictimScenario
from pumice.kai.view.jobs import JobView
from pumice.kai.view.world import world_of


class KaiPreempt(Action):
    """Evicts or moves work of the same queue and a lower priority."""

    name = "preempt"
    asks: ClassVar = (
        *helping.ASKS,
        *(t.JOB_WITHIN_QUOTA, t.PREEMPT_VICTIM_FILTER, t.PREEMPT_SCENARIO_VALIDATOR),
        *(t.VICTIM_FILTER, t.SCENARIO_VALIDATOR),
    )

    def execute(self, ssn: Session) -> None:
        """Help every waiting job whose queue has work of lower priority."""
        world = world_of(ssn)

        lowest: dict[str, int] = {}
        """Queue -> the lowest priority of work in it that may be evicted, wherever it is; filled on first use."""

        def possible(job: JobView) -> bool:
            chunk = world.chunk(job, real=False)
            if not lowest:
                for each in world.jobs.values():
                    if each.preemptible:
                        lowest[each.queue.name] = min(each.priority, lowest.get(each.queue.name, each.priority))
            if chunk and job.priority <= lowest.get(job.queue.name, job.priority):
                return False
            return bool(ssn.job_within_quota(job, chunk))

        def admits(job: JobView, victim: JobView) -> bool:
            return (
                victim.priority < job.priority
                and bool(ssn.preempt_victim_filter(job, victim))
                and bool(ssn.victim_filter(job, victim))
            )

        def valid(scenario: VictimScenario) -> bool:
            return bool(ssn.preempt_scenario_validator(scenario)) and bool(ssn.scenario_validator(scenario))

        help_in_turn(
            ssn,
            self.name,
            possible=possible,
            reaches=lambda job, queue: queue is job.queue,
            admits=admits,
            valid=valid,
        )
