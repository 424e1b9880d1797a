"""stalegangeviction: what is left of a gang that lost too many members goes, once it had its time to recover."""

from __future__ import annotations

from typing import ClassVar

from pumice.framework.plugin import Action
from pumice.framework.session.session import Session
from pumice.kai.view.statement import ChangePlan
from pumice.kai.view.tasks import ACTIVE
from pumice.kai.view.world import world_of
from pumice.model.keys import STALE_SINCE


class StaleGangEviction(Action):
    """Evicts gangs that run in vain."""

    name = "stalegangeviction"
    asks: ClassVar = ()

    def execute(self, ssn: Session) -> None:
        """Look at every job that was stale or changed, in the order of their UIDs."""
        world = world_of(ssn)
        memory = ssn.memory_of("kai/stalegangeviction")
        since: dict[str, float] = memory.setdefault("since", {})
        changed = world.state.followed or {}
        for uid in sorted({*world.kept.stale, *since, *changed} & world.jobs.keys()):
            job = world.jobs[uid]
            world.look_again(job)
            if not job.stale:
                job.stale_since = None
                since.pop(uid, None)
                world.times.note(job, STALE_SINCE, None)
                continue
            grace = job.grace if job.grace is not None else world.settings.staleness_grace
            if job.stale_since is None:
                job.stale_since = since.setdefault(uid, world.now)
                world.times.note(job, STALE_SINCE, job.stale_since)
            if grace < 0 or job.job.left_out:
                continue
            if world.now - job.stale_since < grace:
                ssn.wake_at(job.stale_since + grace)
                continue
            plan = ChangePlan(world)
            for task in [t for t in job.tasks.values() if t.stage in ACTIVE]:
                plan.evict(task, self.name)
            plan.commit()
        for uid in [u for u in since if u not in world.jobs]:
            del since[uid]
