"""The plugin ``extender``: a policy that lives behind HTTP, and binds that are delegated to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import SKIP, Scope
from pumice.errors import MissingExtra, PumiceError
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answers import Answer
from pumice.extender.asking.calls import (
    AnswerUnusable,
    Caller,
    CallFailed,
    ExtenderSession,
    QuestionWriter,
    ReplayCallers,
    call,
)
from pumice.extender.asking.settings import PATHS, SETTINGS, Transport, read_settings
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import (
    BIND,
    JOB_ENQUEUEABLE,
    NEUTRAL,
    NO,
    ON_SESSION_CLOSE,
    ON_SESSION_OPEN,
    YES,
    Verb,
    VerbOutcome,
)
from pumice.framework.arguments import Arguments
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Event, EventHandler
from pumice.framework.session.session import Session
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind
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
    """The extender's answer to *verb* about *things*, in the form of its point."""
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
    """Report whether the extender is asked about these at all."""
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

        :raises Unfit: the extender failed and that may not be ignored. In kept answers, minus infinity in its place.
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


CALLERS: Final = "extender.callers"
"""Name in a session's environment: extender name -> what is asked instead of the network (replay)."""
_BINDER: Final = "_binder"
_KEPT: Final = "_kept"
"""Name in the plugin's memory: connections, and what was written; a cache, never saved."""


class Extender(Plugin):
    """Asks an HTTP service at every extension point for which a verb is configured (see docs/extender.md).

    May be listed several times, each entry with its own ``extender.name``. Without ``extender.urlPrefix`` it does
    nothing.
    """

    name = "extender"
    persistent = True
    declared = (*SETTINGS, *PATHS)
    repeatable = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.settings = read_settings(arguments)
        if self.settings.transport is not None and find_spec("aiohttp") is None:
            raise MissingExtra("the plugin extender", "aiohttp", "extender")
        if self.settings.name:
            self.name = f"extender/{self.settings.name}"
        self._extender: ExtenderSession | None = None

    def on_session_open(self, ssn: Session) -> None:
        """Tell the service of the cluster, then register what it answers."""
        self._extender = None
        settings, volcano = self.settings, ssn.compat.extender_answers
        if settings.transport is None or not settings.verbs:
            return
        caller, writer = self._kept(ssn, settings.transport, volcano=volcano)
        extender = self._extender = ExtenderSession(ssn, self.name, settings, caller, writer, volcano=volcano)
        if settings.transport.exposed:
            extender.warn_once(
                f"extender {self.name}: {settings.transport.url} is plain HTTP to another machine; use https"
            )
        if extender.has(ON_SESSION_OPEN) and not ssn.describes:
            try:
                extender.ask(ON_SESSION_OPEN, ssn.state)
            except CallFailed as failure:
                outcome = extender.outcome(ON_SESSION_OPEN)
                if outcome is VerbOutcome.NO:
                    self._hold(ssn, extender, f"extender {self.name} could not be told of the session: {failure.text}")
                if outcome is not VerbOutcome.YES:
                    return
        register(ssn, extender)
        if extender.has(BIND):
            ssn.register_binder(self.name, self._binder(extender, caller))

    def on_session_close(self, ssn: Session) -> None:
        """Tell the service, publish what was measured, and remember not to trust kept answers after failures."""
        extender = self._extender
        if extender is None:
            return
        if extender.has(ON_SESSION_CLOSE):
            extender.ask_many(ON_SESSION_CLOSE, [b"{}"])
        extender.closed = True
        extender.publish()
        if extender.failures:
            extender.memory["failing"] = extender.memory.get("failing", 0) + 1

    def _kept(self, ssn: Session, transport: Transport, *, volcano: bool) -> tuple[Caller, QuestionWriter]:
        """The connections and what was written before; kept as long as the scheduler runs."""
        settings = self.settings
        dialect = settings.dialect or ("volcano" if volcano else "documented")
        paths = tuple(sorted(settings.verbs.items()))
        key = (transport, paths, dialect, settings.names_only, volcano)
        memory = ssn.memory_of(self.name)
        kept: tuple[Any, Caller, QuestionWriter] | None = memory.get(_KEPT)
        if kept is None or kept[0] != key:
            if kept is not None:
                kept[1].close()
            callers: ReplayCallers | Mapping[str, Caller] = ssn.environment.get(CALLERS, {})
            caller = callers.get(self.name)
            if caller is None:
                from pumice.extender.asking.client import Client  # slow to load: only who asks over HTTP pays for it

                caller = Client(transport, dict(paths), DIALECTS[dialect], guarded=not volcano)
            kept = memory[_KEPT] = (key, caller, QuestionWriter(dialect, names_only=settings.names_only))
        kept[2].begin()
        return kept[1], kept[2]

    def _binder(self, extender: ExtenderSession, caller: Caller) -> ExtenderBinder:
        """The binder; it outlives the session, because binds are carried out after it."""
        binder: ExtenderBinder | None = extender.memory.get(_BINDER)
        if binder is None or binder.caller is not caller:
            binder = extender.memory[_BINDER] = ExtenderBinder(
                self.name, caller, extender.writer, extender.tasks.concerns
            )
        return binder

    def _hold(self, ssn: Session, extender: ExtenderSession, said: str) -> None:
        """No job that the extender manages is scheduled in this cycle; *said*: why not."""

        def job_valid(job: Job) -> Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else PASS

        def job_enqueueable(job: Job) -> int | Verdict:
            return reject(said, ReasonCode.EXTENDER_UNAVAILABLE) if extender.tasks.holds(job) else 0

        ssn.add_job_valid_fn(self.name, job_valid)
        if extender.has(JOB_ENQUEUEABLE):
            ssn.add_job_enqueueable_fn(self.name, job_enqueueable)


# -- binds ------------------------------------------------------------------------------------------------------------
class BindRefused(PumiceError):
    """The extender did not bind the pod."""

    def __init__(self, text: str, *, retryable: bool) -> None:
        super().__init__(text)
        self.retryable = retryable


class ExtenderBinder:
    """Binds pods through an extender. A bind may be sent twice, so the service must take the second as done.

    If the result of a bind is unknown (a time-out, a lost connection), *read_back* asks the cluster (intended bind ->
    the node of the pod, empty if none). Without it the bind is sent once more.
    """

    def __init__(self, name: str, caller: Caller, writer: QuestionWriter, wants: Callable[[Task], bool]) -> None:
        self.name = name
        self.read_back: Callable[[Bind], str] | None = None
        self.caller, self._writer, self._wants = caller, writer, wants
        self._tasks: dict[str, bytes] = {}

    def wants(self, task: Task) -> bool:
        """Report whether the bind of *task* is this binder's. If so, the task is remembered as it is now."""
        if not self._wants(task):
            return False
        self._tasks[task.uid] = bytes(self._writer.whole(task))
        return True

    def bind(self, intent: Bind) -> None:
        """Bind, or raise.

        :raises BindRefused: the extender said no (not retryable), or cannot be reached (retryable).
        """
        body = self._writer.bind(intent, self._tasks.pop(intent.uid, None))
        try:
            error = call(self.caller, BIND, body).error
        except CallFailed as failure:
            if failure.kind not in ("timeout", "reset"):
                raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure
            error = self._again(intent, body)
        if error:
            text = f"pod {intent.pod}: the extender {self.name} refused to bind it: {error}"
            raise BindRefused(text, retryable=False)

    def _again(self, intent: Bind, body: bytes) -> str:
        """The result of a bind whose answer was lost."""
        if self.read_back is not None and self.read_back(intent) == intent.node:
            return ""
        try:
            return call(self.caller, BIND, body).error
        except CallFailed as failure:
            if self.read_back is not None and self.read_back(intent) == intent.node:
                return ""
            raise BindRefused(f"pod {intent.pod}: {failure}", retryable=True) from failure


def close_clients(memory: Mapping[str, Mapping[str, Any]]) -> None:
    """Close the connections that a runtime's memory holds; they are made anew when needed."""
    for entries in memory.values():
        kept = entries.get(_KEPT)
        if isinstance(kept, tuple) and len(kept) == 3:
            kept[1].close()
