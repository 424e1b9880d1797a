"""Elastic sharing as in Max-Min and AFS (Hwang et al., NSDI 2021): what is free goes to the job that has least."""

from collections.abc import Sequence

from pumice import Job, Plugin, Session, Task, TaskStatus

RUNNING = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED)


class Elastic(Plugin):
    """Lets a job start with its minimum, grow while there is room, and give back what it has above its minimum.

    Jobs with fewer pods go first. A job that cannot start takes pods of the jobs that have most, down to one more than
    it will have itself.
    """

    name = "elastic-share"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, self.order)
        ssn.add_preemptable_fn(self.name, self.victims)

    def pods(self, job: Job) -> int:
        return job.count(*RUNNING)

    def order(self, job: Job) -> tuple[int, float]:
        return self.pods(job), job.creation

    def victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Pods above the minimum of their job, of the largest jobs first."""
        wanted = preemptor.job
        if self.pods(wanted) >= wanted.min_available:
            return []
        spare: dict[str, int] = {}
        chosen = []
        for task in sorted(candidates, key=lambda task: (-self.pods(task.job), task.job.uid, task.name)):
            floor = max(task.job.min_available, wanted.min_available)
            left = spare.setdefault(task.job.uid, self.pods(task.job) - floor)
            if left > 0:
                spare[task.job.uid] = left - 1
                chosen.append(task)
        return chosen
