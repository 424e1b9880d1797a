"""shuffle: evict running tasks that a plugin wants elsewhere, although nobody waits for their room."""

from __future__ import annotations

from pumice.framework.plugin import Action
from pumice.framework.points import table as points
from pumice.framework.points.table import VICTIM_TASKS
from pumice.framework.session.session import Session
from pumice.framework.session.statement import ASKS as STATEMENT_ASKS
from pumice.model.status import TaskStatus


class Shuffle(Action):
    """Evicts what `victim_tasks` names among the running tasks."""

    name = "shuffle"
    asks = (points.VICTIM_TASKS, *STATEMENT_ASKS)

    def execute(self, ssn: Session) -> None:
        """Ask once about all running tasks and evict those named."""
        if not ssn.anybody(VICTIM_TASKS):
            return
        running = [t for job in ssn.jobs.values() for t in job.with_status(TaskStatus.RUNNING).values()]
        statement = ssn.statement()
        victims = ssn.victim_tasks(sorted(running, key=lambda t: t.uid))
        named = {task.uid for task in victims}
        for task in victims:
            whole = task.job.with_status(TaskStatus.RUNNING) if task.job is not None and task.job.together else {}
            if task.status is TaskStatus.RUNNING and named.issuperset(whole):
                statement.evict(task, self.name)
        statement.commit()
