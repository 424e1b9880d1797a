"""sjf: the shortest job goes first, by declared run time."""

from __future__ import annotations

from pumice import Plugin, Session, declared_run_time


class ShortestJobFirst(Plugin):
    """Orders jobs by the run time they declare (``pumice.dev/run-time``), shortest first, the rest last."""

    name = "sjf"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_job_order_key_fn(self.name, declared_run_time)
