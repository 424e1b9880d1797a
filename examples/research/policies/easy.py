"""EASY backfilling (Lifka, JSSPP 1995): later jobs go first if they do not delay the first that waits."""

import math

from pumice import Argument, Job, Plugin, Session, Verdict, reject

RUN_TIME = "pumice.dev/run-time"


class Easy(Plugin):
    """Lets jobs start by submission; behind the first that lacks room, only those that leave it its reservation.

    It counts one resource of the whole cluster, as of a machine of interchangeable processors, and plans with the run
    times that jobs declare.
    """

    name = "easy"
    resource = Argument("cpu", "What is scarce.")

    def on_session_open(self, ssn: Session) -> None:
        self.chosen = self.choose(ssn)
        ssn.add_job_valid_fn(self.name, self.may_start)

    def may_start(self, job: Job) -> Verdict | None:
        if job.uid in self.chosen or job.allocated[self.resource]:
            return None
        return reject("would delay the first job that waits")

    def choose(self, ssn: Session) -> set[str]:
        """The jobs that may start now."""
        jobs, free, ends = (
            sorted(ssn.jobs.values(), key=lambda job: (job.creation, job.uid)),
            ssn.total[self.resource],
            [],
        )
        for job in jobs:
            if job.allocated[self.resource]:
                free -= job.allocated[self.resource]
                ends.append((max(ssn.now, began(job) + length(job)), job.allocated[self.resource]))
        chosen: set[str] = set()
        shadow, spare = math.inf, math.inf  # when the first that waits can start, and what it leaves over then
        for job in jobs:
            need = job.total_request[self.resource]
            if job.allocated[self.resource]:
                continue
            if need <= free and (ssn.now + length(job) <= shadow or need <= spare):
                free -= need
                spare -= need if ssn.now + length(job) > shadow else 0
                ends.append((ssn.now + length(job), need))
                chosen.add(job.uid)
            elif shadow == math.inf:
                later = free
                for end, amount in sorted(ends):
                    later += amount
                    if later >= need and shadow == math.inf:
                        shadow = end
                    if end <= shadow:
                        spare = later - need
        return chosen


def length(job: Job) -> float:
    """The seconds that a job declares."""
    return float(job.annotations.get(RUN_TIME, "inf").removesuffix("s"))


def began(job: Job) -> float:
    """When the first pod of a job that runs was started."""
    starts = [task.pod.status.start_time for task in job.tasks.values()]
    return min((start.timestamp() for start in starts if start is not None), default=0.0)
