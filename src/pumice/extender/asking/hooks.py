"""What the extender says at each point: most follows from the table, nodes, events and orders have their own way."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answers import Answer
from pumice.extender.asking.caller import CallFailed
from pumice.extender.asking.calls import AnswerUnusable, ExtenderSession
from pumice.extender.protocol import NEUTRAL, NO, YES, Verb, VerbOutcome
from pumice.framework.points.events import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.reason import FITS, PASS, Code, Unfit, Verdict, reason_id, reject
from pumice.model.task import Task

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
REASON_LENGTH: Final = 500
_UNASKED: Final = -1

FAILED: Final[Mapping[type[Answer], Callable[[VerbOutcome, str], Any]]] = {
    a.Vote: lambda outcome, text: reject(text) if outcome is NO else int(outcome is YES),
    a.VerdictAnswer: lambda outcome, text: reject(text) if outcome is NO else PASS,
    a.Overused: lambda outcome, text: Verdict(True, text) if outcome is NO else False,
    a.Victims: lambda outcome, _: ([], {NO: -1, NEUTRAL: 0, YES: 1}[outcome]),
    a.Candidates: lambda outcome, _: ([], {NO: -1, NEUTRAL: 0, YES: 1}[outcome]),
    a.Acknowledged: lambda outcome, text: None,
}
"""The answers whose hooks follow from the table, and what a failed call, with its text, is at their points."""


def register(ssn: Session, extender: ExtenderSession) -> None:
    """Register every verb that is configured."""
    for verb in p.VERBS.values():
        if extender.has(verb) and verb.points and verb.answer in FAILED:
            ssn.add(verb.points[0], extender.name, _asks(extender, verb))
    NodeHooks(ssn, extender)
    _tell_events(ssn, extender)
    _order(ssn, extender)


# -- what the table says ----------------------------------------------------------------------------------------------
def _asks(extender: ExtenderSession, verb: Verb[Any]) -> Callable[..., Any]:
    if verb is p.VICTIM_TASKS:  # takes the victims alone
        return lambda tasks: ask(extender, verb, [task for task in tasks if extender.tasks.concerns(task)])[0]
    if len(verb.parts) == 1:
        return lambda thing: ask(extender, verb, thing)
    return lambda thing, other: ask(extender, verb, thing, other)


def ask(extender: ExtenderSession, verb: Verb[Any], *things: Any) -> Any:
    """What the extender says to *verb* about *things*, in the form that its point takes."""
    failed, asked = FAILED[verb.answer], things[-1]
    if not _concerns(extender, things):
        return failed(NEUTRAL, "")
    try:
        among = [task.uid for task in asked] if isinstance(asked, list) else None
        answer = extender.ask(verb, *things, among=among)
    except CallFailed as failure:
        return failed(extender.outcome(verb), str(failure))
    no = f"the extender says no to {verb}"
    match answer:
        case a.Vote():
            return answer.status if answer.status >= 0 else reject(answer.message or no)
        case a.VerdictAnswer():
            return PASS if answer.status else reject(answer.message or no, answer.reason)
        case a.Overused():
            return Verdict(True, answer.message or no) if answer.overused else False
        case a.Victims(status=status) if verb is not p.VICTIM_TASKS:
            silent = status == 0 or (status < 0 and not extender.volcano)
            return [] if silent else _victims(answer, asked), status
        case a.Victims() | a.Candidates():
            return _victims(answer, asked), 1
        case _:
            return None


def _concerns(extender: ExtenderSession, things: Sequence[Any]) -> bool:
    """Is the extender asked about these at all?"""
    for thing in things:
        if isinstance(thing, Job):
            return not extender.tasks.bypasses(thing)
        if isinstance(thing, Task):
            return extender.tasks.concerns(thing)
    return not isinstance(things[0], list) or bool(things[0])


def _victims(answer: Answer, asked: Sequence[Task]) -> list[Task]:
    """The tasks asked about that the answer names, in its order."""
    by_uid = {task.uid: task for task in asked}
    return [by_uid[uid] for uid in dict.fromkeys(answer.named()) if uid in by_uid]


# -- events and orders ------------------------------------------------------------------------------------------------
def _tell_events(ssn: Session, extender: ExtenderSession) -> None:
    """Tell the service of placements and of their end; an objection, or a failure that counts, undoes a placement."""

    def telling(verb: Verb[a.Error]) -> Callable[[Event], None] | None:
        def tell(event: Event) -> None:
            if extender.closed or not extender.tasks.concerns(event.task):
                return
            try:
                error = extender.ask(verb, event.task).error
            except CallFailed as failure:
                error = str(failure) if extender.outcome(verb) is NO else ""
            if error:
                event.err = error

        return tell if extender.has(verb) else None

    placed, undone = telling(p.ALLOCATE_FUNC), telling(p.DEALLOCATE_FUNC)
    if placed or undone:
        ssn.add_event_handler(EventHandler(allocate=placed, deallocate=undone))


def _order(ssn: Session, extender: ExtenderSession) -> None:
    """Register the extender's orders: it is asked once for all jobs, for all queues, for all tasks of a job."""
    ranked: dict[tuple[str, str], Mapping[str, float]] = {}
    among: dict[Verb[a.Ranks], Callable[[Any], Mapping[str, Any]]] = {
        p.JOB_ORDER: lambda _: ssn.jobs,
        p.QUEUE_ORDER: lambda _: ssn.queues,
        p.TASK_ORDER: lambda task: task.job.tasks if task.job is not None else {task.uid: task},
    }

    def rank(verb: Verb[a.Ranks], one: Any) -> float | None:
        """The rank of *one* among all that it is ordered with; none after a failure, which leaves it to others."""
        key = (verb.name, one.job_key if isinstance(one, Task) else "")
        if key not in ranked:
            things = among[verb](one)
            try:
                ranked[key] = extender.ask(verb, [things[name] for name in sorted(things)]).ranks
            except CallFailed:
                ranked[key] = {}
        return ranked[key].get(one.uid)

    def comparing(verb: Verb[a.Ranks]) -> Callable[[Any, Any], int]:
        def compare(left: Any, right: Any) -> int:
            first, second = rank(verb, left), rank(verb, right)
            return 0 if first is None or second is None else (first > second) - (first < second)

        return compare

    for verb in filter(extender.has, among):
        ssn.add(verb.points[0], extender.name, comparing(verb))


# -- nodes ------------------------------------------------------------------------------------------------------------
class NodeHooks:
    """Registers what the extender says about nodes: filters, scores, the choice of a node and of a device."""

    def __init__(self, ssn: Session, extender: ExtenderSession) -> None:
        self._extender = extender
        self._instant = (-1, -1)
        self._known: dict[tuple[str, int], Reasons] = {}
        self._devices: dict[tuple[str, str], Mapping[str, float] | None] = {}
        name, settings = extender.name, extender.settings
        key = self._key if settings.managed or settings.scope is not Scope.SESSION else None
        if extender.has(p.BATCH_PREDICATE) or extender.has(p.PREDICATE):
            ssn.add_batch_predicate_fn(name, self.filter, scope=settings.scope, key=key)
        if extender.has(p.PRIORITIZE):
            ssn.add_batch_node_order_fn(name, self.prioritize, scope=settings.scope, key=key)
        if extender.has(p.BEST_NODE):
            ssn.add_best_node_fn(name, self.best_node)
        if extender.has(p.GPU_ORDER):
            ssn.add_gpu_order_fn(name, self.gpu_order)

    def _key(self, task: Task) -> Hashable:
        """Answers are kept per class, job and interest; those of a session that saw failures are not used again."""
        if self._extender.settings.managed and not self._extender.tasks.manages(task):
            return SKIP
        return task.job_key, self._extender.tasks.concerns(task), self._extender.memory.get("failing", 0)

    def filter(self, task: Task, rows: NodeRows) -> Reasons:
        """A reason number per row. The same question about the same instant is asked once."""
        if not self._extender.tasks.concerns(task):
            return np.zeros(len(rows), dtype=np.int32)
        ask = self._ask_all if self._extender.has(p.BATCH_PREDICATE) else self._ask_each
        if rows.extra is not None:
            return ask(task, rows)
        table, index = rows._table, rows.index
        instant = (table.touched.position, table.changed.position)
        if instant != self._instant:
            self._instant, self._known = instant, {}
        known = self._known.get((task.uid, task.status))
        if known is None:
            known = self._known[task.uid, task.status] = np.full(table.size, _UNASKED, dtype=np.int32)
        fresh = index[known[index] == _UNASKED]
        if len(fresh):
            known[fresh] = ask(task, rows if len(fresh) == len(index) else NodeRows(table, fresh))
        return known[index]

    def _ask_each(self, task: Task, rows: NodeRows) -> Reasons:
        """One call per node, all on their way at once; to Volcano a code without a text lets pass."""
        answers = self._extender.ask_many(p.PREDICATE, self._extender.writer.predicate(p.PREDICATE, task, rows))
        found = np.zeros(len(rows), dtype=np.int32)
        for at, one in enumerate(answers):
            if isinstance(one, CallFailed):
                found[at] = self._failure(one)
            elif one.text or (one.code and not self._extender.volcano):
                found[at] = self._reason(one.text or f"refused with code {one.code}", one.code)
        return found

    def _ask_all(self, task: Task, rows: NodeRows) -> Reasons:
        """One call for all nodes."""
        verb, writer = p.BATCH_PREDICATE, self._extender.writer
        found, names = np.zeros(len(rows), dtype=np.int32), writer.names(rows)
        try:
            answer = self._extender.ask_body(verb, writer.nodes(verb, task, rows), names)
        except CallFailed as failure:
            found[:] = self._failure(failure)
            return found
        if answer.errors or answer.codes or answer.fitting is not None:
            refused = answer.refused(names)
            for at, name in enumerate(names):
                if name in refused:
                    code, text = refused[name]
                    found[at] = self._reason(text, code)
        return found

    def _reason(self, text: str, code: int) -> int:
        """The reason number of a refusal; code 0 and unknown ones are errors."""
        return reason_id(self._extender.name, text[:REASON_LENGTH], Code(code) if 1 <= code <= 5 else Code.ERROR)

    def _failure(self, failure: CallFailed) -> int:
        """The reason that a failed call is for the nodes it was about."""
        fails = self._extender.outcome(p.VERBS[failure.verb]) is NO
        return self._reason(str(failure), Code.ERROR) if fails else FITS

    def prioritize(self, task: Task, rows: NodeRows) -> Floats:
        """One call for all candidates.

        :raises Unfit: the extender failed and that may not be ignored. Where answers are kept, minus infinity instead.
        """
        extender, verb = self._extender, p.PRIORITIZE
        if not extender.tasks.concerns(task):
            return np.zeros(len(rows))
        names = extender.writer.names(rows)
        try:
            scores = extender.ask_body(verb, extender.writer.nodes(verb, task, rows), names).scores or {}
        except CallFailed as failure:
            # to Volcano an answer without scores is an error even where errors are ignored
            told = extender.volcano and isinstance(failure, AnswerUnusable)
            if extender.outcome(verb) is not NO and not told:
                return np.zeros(len(rows))
            if extender.settings.scope is not Scope.SESSION:
                return np.full(len(rows), -np.inf)
            raise Unfit(str(failure)[:REASON_LENGTH], code=Code.ERROR) from failure
        found = np.array(list(map(scores.get, names)), dtype=np.float64)  # a node without a score: None, here NaN
        found[np.isnan(found)] = 0.0
        return found * extender.settings.weight

    def best_node(self, task: Task, scores: dict[str, float]) -> str | None:
        """The node that the extender picks of those that were scored; after a failure the scores choose."""
        if not self._extender.tasks.concerns(task):
            return None
        try:
            picked = self._extender.ask(p.BEST_NODE, task, scores, among=scores).node_name
        except CallFailed:
            return None
        return picked if picked in scores else None

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        """The device's score; one call for all devices of a node.

        :raises Unfit: the extender failed and that may not be ignored: the device is dropped.
        """
        if not self._extender.tasks.concerns(task):
            return 0.0
        key = (task.uid, node.name)
        if key not in self._devices:
            try:
                self._devices[key] = self._extender.ask(p.GPU_ORDER, task, node, node).scores
            except CallFailed:
                self._devices[key] = None if self._extender.outcome(p.GPU_ORDER) is NO else {}
        scores = self._devices[key]
        if scores is None:
            raise Unfit("the extender did not score the devices", code=Code.ERROR)
        return scores.get(gpu, 0.0)
