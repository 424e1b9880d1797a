"""The hooks that follow from the table alone: a question, its answer, and what a failed call is taken for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answers import Answer
from pumice.extender.asking.caller import CallFailed
from pumice.extender.asking.context import ExtenderContext
from pumice.extender.protocol import Outcome, Verb
from pumice.framework.points.events import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.reason import PASS, Verdict, reject
from pumice.model.task import Task

Outcomes = Callable[[Outcome, str], Any]
"""What a failed call, with its text, is at a point."""


def _vote(outcome: Outcome, text: str) -> int | Verdict:
    return reject(text) if outcome is Outcome.NO else int(outcome is Outcome.YES)


def _verdict(outcome: Outcome, text: str) -> Verdict:
    return reject(text) if outcome is Outcome.NO else PASS


def _overused(outcome: Outcome, text: str) -> bool | Verdict:
    return Verdict(True, text) if outcome is Outcome.NO else False


def _victims(outcome: Outcome, _: str) -> tuple[list[Task], int]:
    return [], {Outcome.NO: -1, Outcome.NEUTRAL: 0, Outcome.YES: 1}[outcome]


def _nothing(outcome: Outcome, text: str) -> None:
    return None


FAILED: Final[Mapping[type[Answer], Outcomes]] = {
    a.Vote: _vote,
    a.Verdict: _verdict,
    a.Overused: _overused,
    a.Victims: _victims,
    a.Candidates: _victims,
    a.Acknowledged: _nothing,
}
"""The answers whose hooks follow from the table."""


class Hooks:
    """Registers every verb that needs nothing but its row of the table."""

    def __init__(self, ssn: Session, context: ExtenderContext) -> None:
        self._context = context
        for verb in p.VERBS.values():
            if context.has(verb) and verb.points and verb.answer in FAILED:
                ssn.add(verb.points[0], context.name, self._asks(verb))

    def _asks(self, verb: Verb[Any]) -> Callable[..., Any]:
        if len(verb.parts) == 1:
            return lambda thing: self.ask(verb, thing)
        return lambda thing, other: self.ask(verb, thing, other)

    def ask(self, verb: Verb[Any], *things: Any) -> Any:
        """What the extender says to *verb* about *things*, in the form that its point takes."""
        context, failed = self._context, FAILED[verb.answer]
        if verb is p.VICTIM_TASKS:
            things = ([task for task in things[0] if context.tasks.concerns(task)],)
        if not self._concerns(things):
            return _read(verb, failed(Outcome.NEUTRAL, ""))
        try:
            if verb is p.PREEMPT:
                body = context.writer.preempt(things[0], things[1])
            else:
                body = context.writer.question(verb, *things)
            answer = context.calls.ask(verb, body)
        except CallFailed as failure:
            return _read(verb, failed(context.outcome(verb), str(failure)))
        return self._means(verb, answer, things)

    def _concerns(self, things: Sequence[Any]) -> bool:
        """Is the extender asked about these at all?"""
        tasks = self._context.tasks
        for thing in things:
            if isinstance(thing, Job):
                return not tasks.bypasses(thing)
            if isinstance(thing, Task):
                return tasks.concerns(thing)
        return not isinstance(things[0], list) or bool(things[0])

    def _means(self, verb: Verb[Any], answer: Answer, things: Sequence[Any]) -> Any:
        no = verb.no.format(*things)
        match answer:
            case a.Vote():
                return answer.status if answer.status >= 0 else reject(answer.message or no)
            case a.Verdict():
                return PASS if answer.status else reject(answer.message or no, answer.reason)
            case a.Overused():
                return Verdict(True, answer.message or no) if answer.overused else False
            case a.Victims():
                if verb is p.VICTIM_TASKS:
                    return self._known(verb, answer.uids or [], things[0])
                if answer.status == 0 or (answer.status < 0 and not self._context.volcano):
                    return [], answer.status
                return self._known(verb, answer.uids or [], things[1]), answer.status
            case a.Candidates():
                uids = [uid for uids, _ in answer.candidates.values() for uid in uids]
                return self._known(verb, uids, things[1]), 1
            case _:
                return None

    def _known(self, verb: Verb[Any], uids: Sequence[str], asked: Sequence[Task]) -> list[Task]:
        """The tasks asked about that have these UIDs, in the answer's order; others are reported."""
        by_uid = {task.uid: task for task in asked}
        unknown = [uid for uid in uids if uid not in by_uid]
        if unknown:
            self._context.calls.odd(verb, f"the answer names victims that were not asked about: {unknown[:3]}")
        return [by_uid[uid] for uid in dict.fromkeys(uids) if uid in by_uid]


def _read(verb: Verb[Any], said: Any) -> Any:
    """In the form of the point: victim_tasks takes the victims alone."""
    return said[0] if verb is p.VICTIM_TASKS else said


class EventHooks:
    """Tells the service of placements and of their end."""

    def __init__(self, ssn: Session, context: ExtenderContext) -> None:
        self._context = context
        placed, undone = context.has(p.ALLOCATE_FUNC), context.has(p.DEALLOCATE_FUNC)
        if placed or undone:
            allocate = (lambda event: self._tell(p.ALLOCATE_FUNC, event)) if placed else None
            deallocate = (lambda event: self._tell(p.DEALLOCATE_FUNC, event)) if undone else None
            ssn.add_event_handler(EventHandler(allocate=allocate, deallocate=deallocate))

    def _tell(self, verb: Verb[a.Error], event: Event) -> None:
        """An objection, or a failure that is not ignored, undoes a placement."""
        context = self._context
        if context.closed or not context.tasks.concerns(event.task):
            return
        try:
            error = context.calls.ask(verb, context.writer.question(verb, event.task)).error
        except CallFailed as failure:
            error = str(failure) if context.outcome(verb) is Outcome.NO else ""
        if error:
            event.err = error


class OrderHooks:
    """Registers the extender's orders: it is asked once for all, and gives ranks."""

    def __init__(self, ssn: Session, context: ExtenderContext) -> None:
        self._context = context
        self._ranked: dict[tuple[str, str], dict[str, float]] = {}
        if context.has(p.JOB_ORDER):
            ssn.add_job_order_fn(context.name, lambda le, ri: self._order(p.JOB_ORDER, lambda _: ssn.jobs, le, ri))
        if context.has(p.QUEUE_ORDER):
            ssn.add_queue_order_fn(
                context.name, lambda le, ri: self._order(p.QUEUE_ORDER, lambda _: ssn.queues, le, ri)
            )
        if context.has(p.TASK_ORDER):
            ssn.add_task_order_fn(context.name, lambda le, ri: self._order(p.TASK_ORDER, _siblings, le, ri))

    def _order(self, verb: Verb[a.Ranks], among: Callable[[Any], Mapping[str, Any]], left: Any, right: Any) -> int:
        """By rank; one call for all jobs, for all queues, for all tasks of a job. A failure leaves it to others."""
        first, second = (self._ranks(verb, among, one).get(one.uid) for one in (left, right))
        return 0 if first is None or second is None else (first > second) - (first < second)

    def _ranks(self, verb: Verb[a.Ranks], among: Callable[[Any], Mapping[str, Any]], one: Any) -> dict[str, float]:
        key = (verb.name, one.job_key if isinstance(one, Task) else "")
        if key not in self._ranked:
            things: Mapping[str, Any] = among(one)
            ordered: Iterable[Any] = [things[name] for name in sorted(things)]
            try:
                self._ranked[key] = self._context.calls.ask(verb, self._context.writer.question(verb, ordered)).ranks
            except CallFailed:
                self._ranked[key] = {}
        return self._ranked[key]


def _siblings(task: Task) -> Mapping[str, Task]:
    return task.job.tasks if task.job is not None else {task.uid: task}
