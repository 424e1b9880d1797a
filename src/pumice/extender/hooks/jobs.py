"""Questions about jobs and queues, and the events of placement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pumice.extender import translate
from pumice.extender.hooks.talk import Talk
from pumice.extender.port import CallFailed
from pumice.extender.wire.messages import AllocatableRequest, JobRequest, QueueRequest, QueuesRequest, VoteResponse
from pumice.extender.wire.verbs import (
    ALLOCATABLE,
    ALLOCATE_FUNC,
    DEALLOCATE_FUNC,
    JOB_ENQUEUEABLE,
    JOB_ENQUEUED,
    JOB_ORDER,
    JOB_PIPELINED,
    JOB_READY,
    JOB_VALID,
    QUEUE_ORDER,
    QUEUE_OVERUSED,
    TASK_ORDER,
    Verb,
)
from pumice.framework.points.events import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task

T = TypeVar("T")


class JobHooks:
    """Registers what the extender says about jobs and queues."""

    def __init__(self, ssn: Session, talk: Talk) -> None:
        self._ssn, self._talk = ssn, talk
        name = talk.name
        if talk.has(JOB_ENQUEUEABLE.name):
            ssn.add_job_enqueueable_fn(name, self.job_enqueueable)
        if talk.has(JOB_ENQUEUED.name):
            ssn.add_job_enqueued_fn(name, self.job_enqueued)
        if talk.has(JOB_READY.name):
            ssn.add_job_ready_fn(name, self.job_ready)
        if talk.has(JOB_PIPELINED.name):
            ssn.add_job_pipelined_fn(name, self.job_pipelined)
        if talk.has(JOB_VALID.name):
            ssn.add_job_valid_fn(name, self.job_valid)
        if talk.has(QUEUE_OVERUSED.name):
            ssn.add_overused_fn(name, self.overused)
        if talk.has(ALLOCATABLE.name):
            ssn.add_allocatable_fn(name, self.allocatable)
        if talk.has(ALLOCATE_FUNC.name) or talk.has(DEALLOCATE_FUNC.name):
            handler = EventHandler(
                allocate=self.allocated if talk.has(ALLOCATE_FUNC.name) else None,
                deallocate=self.deallocated if talk.has(DEALLOCATE_FUNC.name) else None,
            )
            ssn.add_event_handler(handler)

    # -- jobs -----------------------------------------------------------------------------------------------------
    def job_enqueueable(self, job: Job) -> int | Verdict:
        """A vote; a failure rejects, an ignored one abstains."""
        return self._vote(JOB_ENQUEUEABLE, job)

    def job_pipelined(self, job: Job) -> int | Verdict:
        """A vote; a failure rejects, an ignored one abstains."""
        return self._vote(JOB_PIPELINED, job)

    def _vote(self, verb: Verb[JobRequest, VoteResponse], job: Job) -> int | Verdict:
        talk = self._talk
        if talk.interest.bypassed(job):
            return 0
        try:
            vote = talk.conversation.ask(verb, talk.writer.job(verb, job)).status
        except CallFailed as failure:
            return talk.reading.ignored_vote if talk.ignores(verb.name) else reject(str(failure))
        return vote if vote >= 0 else reject(f"the extender says no to {verb.name}")

    def job_enqueued(self, job: Job) -> None:
        """Told; a failure changes nothing."""
        talk = self._talk
        if not talk.interest.bypassed(job):
            talk.conversation.ask_many(JOB_ENQUEUED, [talk.writer.job(JOB_ENQUEUED, job)])

    def job_ready(self, job: Job) -> Verdict:
        """May it be committed?"""
        talk = self._talk
        if talk.interest.bypassed(job):
            return PASS
        try:
            answer = talk.conversation.ask(JOB_READY, talk.writer.job(JOB_READY, job))
        except CallFailed as failure:
            ready = talk.reading.ignored_ready if talk.ignores(JOB_READY.name) else talk.reading.failed_ready
            return PASS if ready else reject(str(failure))
        return PASS if answer.status else reject(answer.message or "the extender says the job is not ready")

    def job_valid(self, job: Job) -> Verdict:
        """Is it worth trying?"""
        talk = self._talk
        if talk.interest.bypassed(job):
            return PASS
        try:
            answer = talk.conversation.ask(JOB_VALID, talk.writer.job(JOB_VALID, job))
        except CallFailed as failure:
            return PASS if talk.ignores(JOB_VALID.name) else reject(str(failure))
        if answer.status:
            return PASS
        return reject(answer.message or "the extender says the job is not valid", answer.reason)

    # -- queues ---------------------------------------------------------------------------------------------------
    def overused(self, queue: Queue) -> bool | Verdict:
        """Is it above its share? A failure says yes, an ignored one no."""
        talk = self._talk
        request = QueueRequest(queue=translate.wire_queue(queue))
        try:
            over = talk.conversation.ask(QUEUE_OVERUSED, talk.writer.request(QUEUE_OVERUSED, request)).overused
        except CallFailed as failure:
            return False if talk.ignores(QUEUE_OVERUSED.name) else Verdict(True, str(failure))
        return Verdict(True, f"the extender says that queue {queue.name} is above its share") if over else False

    def allocatable(self, queue: Queue, task: Task) -> Verdict:
        """May the queue take the task?"""
        talk = self._talk
        if not talk.interest.concerns(task):
            return PASS
        request = AllocatableRequest(queue=translate.wire_queue(queue), task=translate.wire_task(task))
        try:
            answer = talk.conversation.ask(ALLOCATABLE, talk.writer.request(ALLOCATABLE, request))
        except CallFailed as failure:
            return PASS if talk.ignores(ALLOCATABLE.name) else reject(str(failure))
        return PASS if answer.status else reject(answer.message or f"the extender keeps it out of {queue.name}")

    # -- events ---------------------------------------------------------------------------------------------------
    def allocated(self, event: Event) -> None:
        """Told of a placement; an objection, or a failure that is not ignored, undoes it."""
        self._tell(ALLOCATE_FUNC, event)

    def deallocated(self, event: Event) -> None:
        """Told of a placement's end."""
        self._tell(DEALLOCATE_FUNC, event)

    def _tell(self, verb: Verb[Any, Any], event: Event) -> None:
        talk = self._talk
        if talk.closed or not talk.interest.concerns(event.task):
            return
        try:
            error = talk.conversation.ask(verb, talk.writer.one_task(verb, event.task)).error
        except CallFailed as failure:
            if not talk.ignores(verb.name):
                event.err = str(failure)
            return
        if error:
            event.err = error


class OrderHooks:
    """Registers the extender's orders: it is asked once for all, and gives ranks."""

    def __init__(self, ssn: Session, talk: Talk) -> None:
        self._ssn, self._talk = ssn, talk
        self._jobs: dict[str, float] | None = None
        self._queues: dict[str, float] | None = None
        self._tasks: dict[str, dict[str, float]] = {}
        if talk.has(JOB_ORDER.name):
            ssn.add_job_order_fn(talk.name, self.job_order)
        if talk.has(QUEUE_ORDER.name):
            ssn.add_queue_order_fn(talk.name, self.queue_order)
        if talk.has(TASK_ORDER.name):
            ssn.add_task_order_fn(talk.name, self.task_order)

    def job_order(self, left: Job, right: Job) -> int:
        """By rank; one call for all jobs of the session."""
        if self._jobs is None:
            self._jobs = self._ranks(JOB_ORDER, self._talk.writer.jobs(JOB_ORDER, _sorted(self._ssn.jobs)))
        return _compare(self._jobs, left.uid, right.uid)

    def queue_order(self, left: Queue, right: Queue) -> int:
        """By rank; one call for all queues."""
        if self._queues is None:
            request = QueuesRequest(queues=[translate.wire_queue(queue) for queue in _sorted(self._ssn.queues)])
            self._queues = self._ranks(QUEUE_ORDER, self._talk.writer.request(QUEUE_ORDER, request))
        return _compare(self._queues, left.name, right.name)

    def task_order(self, left: Task, right: Task) -> int:
        """By rank; one call for all tasks of a job."""
        ranks = {**self._of_job(left), **(self._of_job(right) if right.job is not left.job else {})}
        return _compare(ranks, left.uid, right.uid)

    def _of_job(self, task: Task) -> dict[str, float]:
        ranks = self._tasks.get(task.job_key)
        if ranks is None:
            tasks = list(_sorted(task.job.tasks)) if task.job is not None else [task]
            ranks = self._ranks(TASK_ORDER, self._talk.writer.tasks(TASK_ORDER, tasks))
            self._tasks[task.job_key] = ranks
        return ranks

    def _ranks(self, verb: Verb[Any, Any], body: bytes) -> dict[str, float]:
        """Ranks by UID or name; none after a failure, which leaves the order to the other plugins."""
        try:
            ranks: dict[str, float] = self._talk.conversation.ask(verb, body).ranks
        except CallFailed:
            return {}
        return ranks


def _sorted(things: Any) -> Iterable[Any]:
    return [things[name] for name in sorted(things)]


def _compare(ranks: dict[str, float], left: str, right: str) -> int:
    a, b = ranks.get(left), ranks.get(right)
    if a is None or b is None:
        return 0
    return (a > b) - (a < b)
