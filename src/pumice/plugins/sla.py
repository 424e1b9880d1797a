"""sla: a job that has waited long enough is let in and may wait for room, whatever later tiers say."""

from __future__ import annotations

from collections.abc import Hashable

from pumice import Argument, Arguments, InvalidInput, Job, Plugin, Session, keys

_ARGUMENT = "sla-waiting-time"
_ANNOTATIONS = (keys.SLA_WAITING, "sla-waiting-time")


class Sla(Plugin):
    """Puts jobs with a waiting time first, the earliest deadline ahead, and permits them once it has passed.

    A PodGroup's annotation ``volcano.sh/sla-waiting-time`` (or ``sla-waiting-time``) overrides the argument. A waiting
    time that is none, or not above 0, counts as not given. List the plugin before those that reject: a reject that
    comes first is final.
    """

    name = "sla"
    persistent = True
    for_all = Argument(
        "",
        "The longest wait of every job, such as `1h30m`.",
        name=_ARGUMENT,
        values="duration above 0",
        read=lambda arguments, key, _: str(arguments.get(key, "")),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._known: dict[str, float | None] = {}
        self._for_all = self._seconds(self.for_all)
        self._problem = ""
        if self.for_all and self._for_all is None:
            text = f"must be a duration above 0, got {self.for_all!r}; it is ignored"
            self._problem = f"sla: argument {_ARGUMENT}: {text}"

    def on_session_open(self, ssn: Session) -> None:
        self._now = ssn.now
        self._known.clear()
        if self._problem:
            ssn.warnings.append(self._problem)
        ssn.add_job_order_key_fn(self.name, self._order)
        ssn.add_job_enqueueable_fn(self.name, self._vote, key=self._waited)
        ssn.add_job_pipelined_fn(self.name, self._vote)

    def _seconds(self, text: str) -> float | None:
        """A written waiting time in seconds; None when it is none or not above 0."""
        if text not in self._known:
            try:
                seconds = Arguments({_ARGUMENT: text}).seconds(_ARGUMENT, 0.0)
            except InvalidInput:
                seconds = 0.0
            self._known[text] = seconds if seconds > 0 else None
        return self._known[text]

    def _waiting_time(self, job: Job) -> float | None:
        """How long the job may have to wait; None without a limit."""
        for key in _ANNOTATIONS:
            text = job.annotations.get(key)
            own = self._seconds(text) if text is not None else None
            if own is not None:
                return own
        return self._for_all

    def _order(self, job: Job) -> tuple[bool, float]:
        waiting = self._waiting_time(job)
        return (True, 0.0) if waiting is None else (False, job.creation + waiting)

    def _waited(self, job: Job) -> Hashable:
        waiting = self._waiting_time(job)
        return waiting is not None and self._now - job.creation >= waiting

    def _vote(self, job: Job) -> bool | None:
        return True if self._waited(job) else None
