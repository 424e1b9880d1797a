"""Shortest job first by declared run time (Smith, Naval Research Logistics Quarterly 1956)."""

from pumice import Job, Plugin, Session

RUN_TIME = "pumice.dev/run-time"


class Shortest(Plugin):
    """Orders jobs by the seconds that they declare; those that declare none come last."""

    name = "shortest"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, self.length)

    def length(self, job: Job) -> float:
        return float(job.annotations.get(RUN_TIME, "inf").removesuffix("s"))
