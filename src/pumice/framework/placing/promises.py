"""Promised places that are known to stand are promised again at their jobs' turns, without a search.

A job that waits for room which was freed for it (`session/promised.py`) would be placed there again by looking at its
nodes: unless some node has idle room for it, something was placed on its own since, or its queue does not take it any
more. That is known by class and queue, as long as nothing else is placed in the session.
"""

from __future__ import annotations

from pumice.framework.placing.remembered import can_be_remembered
from pumice.framework.placing.turns import PLACING
from pumice.framework.session.nominations import IdleRoom, held_by_others
from pumice.framework.session.promised import Promise, Promised, promises_of
from pumice.framework.session.session import Session
from pumice.framework.session.statement import Repeated
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.queue import Queue


class PromisedAgain:
    """Makes the promises of the last session again that stand when an action begins."""

    def __init__(self, ssn: Session, known: Promised) -> None:
        self._ssn, self._known = ssn, known
        self._left = dict(known.jobs)
        """Job -> what it would be promised; without those whose turn it was."""
        self._statement: Repeated | None = None
        self._seen = len(ssn.outcome.intents), len(ssn.outcome.kept)
        self._placed: set[str] = set()
        """Nodes on which something was placed in this session."""
        self._taken: dict[tuple[str, int, int], bool] = {}
        """Queue, class and how many of it -> are they taken by the queue, and find no idle room?"""

    def promise(self, queue: Queue, job: Job) -> bool:
        """Promise a job the same places again; False, and nothing is changed, where it has to be placed anew."""
        known = self._left.pop(job.uid, None)
        if known is None or not self._stands(queue, known):
            return False
        if self._statement is None:
            self._statement = Repeated(self._ssn)
            self._statement.keep()
            self._seen = self._seen[0], self._seen[1] + 1
        for task, _ in known.places:
            self._statement.repeat(task)
        self._known.again.add(job.uid)
        self._ssn.outcome.refusals.add(job, known.refusal)
        return True

    def _stands(self, queue: Queue, known: Promise) -> bool:
        rooms, outcome = self._ssn.state.rooms, self._ssn.outcome
        if self._seen != (len(outcome.intents), len(outcome.kept)):
            self._look()
        if queue.dequeue_strategy == "fifo":  # those behind it are to be held back
            return False
        for task, node in known.places:
            held = rooms.get(task.uid)
            if held is None or held[1] is not node or node.name in self._placed:
                return False
        key = queue.name, known.klass.id, len(known.places)
        taken = self._taken.get(key)
        if taken is None:
            taken = self._taken[key] = self._is_taken(queue, known)
        return taken

    def _is_taken(self, queue: Queue, known: Promise) -> bool:
        """Does the queue take the job's tasks beside all others, held or promised, and has no node idle room for one?

        Both are the same for all jobs that wait for as many of the class, whoever of them is served first.
        """
        ssn, n, task = self._ssn, len(known.places), known.places[0][0]
        if ssn.view(IdleRoom).of(known.klass):
            return False
        with held_by_others(ssn, queue, known.job):
            return bool(ssn.allocatable(queue, task)) if n == 1 else ssn.allocatable_room(queue, task, n) >= n

    def _look(self) -> None:
        """Others were served: what is known of queues holds no longer, nor what was promised on their nodes."""
        outcome, (intents, kept) = self._ssn.outcome, self._seen
        for intent in outcome.intents[intents:]:
            if isinstance(intent, Bind):
                self._placed.add(intent.node)
        for statement in outcome.kept[kept:]:
            self._placed.update(op.node.name for op in statement.operations)
        self._taken.clear()
        self._seen = len(outcome.intents), len(outcome.kept)


def promised_again(ssn: Session) -> PromisedAgain | None:
    """What is promised again in a session; None where nothing is."""
    known: Promised | None = ssn.runtime.promised
    return PromisedAgain(ssn, known) if known is not None and known.jobs and can_repeat(ssn) else None


def can_repeat(ssn: Session) -> bool:
    """Does it follow from jobs, nodes and queues alone what is promised, and has nobody to be shown how?"""
    if ssn.thorough or ssn.environment or ssn.runtime.random_ties or not ssn.steady:
        return False
    if len([name for name in ssn.actions if name in PLACING]) > 1:  # the second would find them in the backlog
        return False
    return ssn.of_registrations(can_be_remembered)


def promises_made(ssn: Session) -> dict[str, Promise]:
    """When all actions are done: what may be promised again by the next session, beside what was promised again."""
    runtime, kept = ssn.runtime, ssn.outcome.kept
    if runtime.promised is not None:
        runtime.promised.settle(ssn)
    if not ssn.state.rooms or not kept or not can_repeat(ssn):
        return {}
    made = promises_of(ssn, kept)
    if made and runtime.promised is None:
        runtime.promised = Promised()
    return made


def keep_promises(ssn: Session, made: dict[str, Promise]) -> None:
    """When a session is over: keep what it promised, again or for the first time, for the next one."""
    runtime = ssn.runtime
    runtime.promised.keep(ssn, made)
    if not runtime.promised.jobs:
        runtime.promised = None
