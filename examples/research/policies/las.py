"""Least attained service in levels, as in Tiresias (Gu et al., NSDI 2019): jobs that had little GPU time go first."""

from collections.abc import Sequence

from pumice import Argument, Job, Plugin, Session, Task

GPU = "nvidia.com/gpu"


class Las(Plugin):
    """Orders jobs by level, then by submission. A job in a better level may preempt jobs in worse ones.

    The service of a job is its GPUs times the time that it held them. A job is in level 0 until it has had the first
    threshold, in level 1 until the second, and so on.
    """

    name = "las"
    thresholds = Argument(["3600", "36000"], "Ends of the levels, ascending.", unit="seconds of one GPU")

    def on_session_open(self, ssn: Session) -> None:
        memory = ssn.memory
        self.served: dict[str, float] = memory.setdefault("served", {})
        passed = ssn.now - memory.get("since", ssn.now)
        for job, gpus in memory.get("held", {}).items():
            self.served[job] = self.served.get(job, 0.0) + gpus * passed
        ssn.add_job_order_key_fn(self.name, self.order)
        ssn.add_preemptable_fn(self.name, self.victims)

    def on_session_close(self, ssn: Session) -> None:
        held = {job.uid: float(job.allocated[GPU]) for job in ssn.jobs.values() if job.allocated[GPU]}
        served = {job: time for job, time in self.served.items() if job in ssn.jobs}
        ssn.memory.update(since=ssn.now, held=held, served=served)

    def level(self, job: Job) -> int:
        service = self.served.get(job.uid, 0.0)
        return sum(service >= float(threshold) for threshold in self.thresholds)

    def order(self, job: Job) -> tuple[int, float]:
        return self.level(job), job.creation

    def victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        level = self.level(preemptor.job)
        return [task for task in candidates if self.level(task.job) > level]
