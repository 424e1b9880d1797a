"""Software licences: each task of a job with the label ``licence`` takes one, and there are only so many."""

from __future__ import annotations

from pumice import Argument, Event, EventHandler, Plugin, Session

LABEL = "licence"


class Licences(Plugin):
    """Objects to a placement when no licence is left; the placement is then undone."""

    name = "licences"
    licences = Argument(2, "How many there are.")

    def on_session_open(self, ssn: Session) -> None:
        """Running tasks of the snapshot hold licences already."""
        self.left = self.licences
        for job in ssn.jobs.values():
            self.left -= sum(1 for task in job.tasks.values() if LABEL in task.labels and task.status.is_held)
        ssn.add_event_handler(EventHandler(allocate=self.allocated, deallocate=self.deallocated))

    def on_session_close(self, ssn: Session) -> None:
        """What is left is known to the next session."""
        ssn.memory["left"] = self.left

    def allocated(self, event: Event) -> None:
        if LABEL in event.task.labels:
            self.left -= 1
            if self.left < 0:
                event.err = "no licence left"

    def deallocated(self, event: Event) -> None:
        if LABEL in event.task.labels:
            self.left += 1
