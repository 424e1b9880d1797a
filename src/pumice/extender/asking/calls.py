"""One extender during one session: questions in one dialect, what it may still be asked, and what went wrong."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec

from pumice.engine.rows import ImaginedNode, NodeRows
from pumice.errors import InvalidInput, PumiceError, without_passwords
from pumice.extender import gojson
from pumice.extender.answers import Answer, of_value
from pumice.extender.asking.settings import ExtenderSettings, TaskFilter
from pumice.extender.dialects import DIALECTS
from pumice.extender.dialects.dialect import HOLE
from pumice.extender.dialects.kube import Kube
from pumice.extender.protocol import BIND, ON_SESSION_OPEN, PREEMPT, MessagePart, PartKind, Verb, VerbOutcome
from pumice.framework.session.session import Session
from pumice.model.api import Pod
from pumice.model.codes import ReasonCode
from pumice.model.intents import Bind, Note
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.task import Task
from pumice.state.table import NodeTable

A = TypeVar("A", bound=Answer)
X = TypeVar("X")
Body = bytes | Sequence[bytes]
"""A question as it is sent, in pieces where it may be large."""


class CallFailed(PumiceError):
    """A call brought no usable answer. The message says which extender, which verb, and why.

    *kind* is one word for metrics: ``refused``, ``timeout``, ``reset``, ``status``, ``answer``, ``large``, ``tls``,
    ``breaker``, ``budget`` or ``request``.
    """

    retryable = True

    def __init__(self, verb: str, kind: str, text: str) -> None:
        text = without_passwords(text)
        super().__init__(f"extender {verb}: {text}")
        self.verb, self.kind, self.text = verb, kind, text


class Observation(NamedTuple):
    """One call: how long it took and how it ended (``ok``, or the kind of failure)."""

    verb: str
    seconds: float
    outcome: str


class Caller:
    """Carries questions to one service. Bodies are ready to be sent; answers are read in any dialect."""

    spent = 0.0
    """Seconds spent waiting for answers, in all."""

    def observed(self) -> list[Observation]:
        """The calls since this was last asked."""
        return []

    @property
    def circuit(self) -> str:
        """``closed`` (calls go out), ``open`` (none does) or ``half-open`` (one may try)."""
        return "closed"

    def call_many(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None = None) -> list[A | CallFailed]:
        """The answers to many questions, in their order; they are on their way at the same time.

        *deadline*: seconds for all of them (``None``: the service's own limit for each).
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections, if there are any."""


def call(caller: Caller, verb: Verb[A], body: Body, deadline: float | None = None) -> A:
    """The answer to one question.

    :raises CallFailed: there is no usable answer.
    """
    answer = caller.call_many(verb, [body], deadline)[0]
    if isinstance(answer, CallFailed):
        raise answer
    return answer


# -- exchanges as data: kept with a saved cycle, and answered from when it is run again ------------------------------
def whole(body: Body) -> bytes:
    """A question in one piece."""
    return body if isinstance(body, bytes) else b"".join(body)


def exchange(extender: str, verb: Verb[Any], body: Body, answer: Answer | CallFailed) -> dict[str, Any]:
    """One exchange as plain data: the question as it was sent, the answer in the documented dialect."""
    said: dict[str, Any] = {"extender": extender, "verb": verb.name, "request": msgspec.json.decode(whole(body))}
    if isinstance(answer, CallFailed):
        return {**said, "failure": {"kind": answer.kind, "text": answer.text}}
    dialect = DIALECTS["kube" if verb is PREEMPT else "documented"]
    return {**said, "response": msgspec.json.decode(dialect.write_answer(verb, answer))}


class Recording(Generic[X]):
    """Exchanges by what was asked: the same question gets the answers that it got, in order, the last again and again.

    *loose*: one that was not asked then (another order of tasks, say) gets the next answer to the same verb or path.
    *once*: but only one that was not given yet.
    """

    def __init__(self, *, loose: bool, once: bool = False) -> None:
        self._loose, self._once = loose, once
        self._exact: dict[tuple[str, bytes], deque[X]] = {}
        self._left: dict[str, list[X]] = {}

    def add(self, what: str, question: bytes, exchange: X) -> None:
        """One more exchange, after those that are there."""
        self._exact.setdefault((what, canonical(question)), deque()).append(exchange)
        self._left.setdefault(what, []).append(exchange)

    def answer(self, what: str, question: bytes) -> X | None:
        """The answer, or None."""
        left = self._left.get(what, [])
        known = self._exact.get((what, canonical(question)))
        if known:
            one = known.popleft() if len(known) > 1 else known[0]
            if self._once:
                left[:] = [other for other in left if other is not one]
            return one
        if not (self._loose and left):
            return None
        return left.pop(0) if self._once or len(left) > 1 else left[0]


class ReplayCaller(Caller):
    """Answers from the exchanges of a saved cycle."""

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._known: Recording[dict[str, Any]] = Recording(loose=True, once=True)
        for one in exchanges:
            self._known.add(one["verb"], msgspec.json.encode(one["request"]), one)

    def call_many(self, verb: Verb[A], bodies: Sequence[Body], deadline: float | None = None) -> list[A | CallFailed]:
        return [self._one(verb, whole(body)) for body in bodies]

    def _one(self, verb: Verb[A], body: bytes) -> A | CallFailed:
        one = self._known.answer(verb.name, body)
        if one is None:
            return CallFailed(verb.name, "replay", "this question was not asked when the exchanges were recorded")
        if "failure" in one:
            return CallFailed(verb.name, one["failure"]["kind"], one["failure"]["text"])
        return of_value(verb.name, verb.answer, one["response"])


class ReplayCallers:
    """Extender name -> what answers for it; for ``plugin.CALLERS`` in a session's environment.

    Every name has one: an extender of which nothing was recorded gets no connection, its calls fail.
    """

    def __init__(self, exchanges: Iterable[dict[str, Any]]) -> None:
        self._by_name: dict[str, list[dict[str, Any]]] = {}
        for one in exchanges:
            self._by_name.setdefault(one["extender"], []).append(one)

    def get(self, name: str) -> ReplayCaller:
        return ReplayCaller(self._by_name.get(name, ()))


def canonical(body: bytes) -> bytes:
    """JSON in which the order of keys does not count; other text as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body


_KEPT: Final = 20_000
"""The numbers of tasks with kept JSON, and of kinds of nodes with kept amounts."""
_LISTS_KEPT: Final = 8
"""Sets of rows whose names are kept."""


class _Form(NamedTuple):
    """A node's JSON as long as its object is the same: up to each hole and after the last; and what it has any of."""

    object: object
    parts: list[bytes]
    has: frozenset[int]


class QuestionWriter:
    """Writes the questions of one extender.

    A node's JSON is kept until its row or a listed pod changes, a task's until its pod, status, place or queue changes.
    A question about one task and many nodes costs one task and the changed nodes.
    """

    def __init__(self, dialect: str, *, names_only: bool = False) -> None:
        self.dialect: Final = dialect
        self._talks, self._names_only = DIALECTS[dialect], names_only
        self._table: NodeTable | None = None
        self._at = (0, 0)
        self._nodes: dict[int, bytes] = {}
        self._forms: dict[int, _Form] = {}
        self._pods: dict[int, list[Pod]] = {}
        """The pods that a node's JSON lists, where it lists any."""
        self._ledgers: dict[Hashable, list[bytes]] = {}
        """The values in the holes of nodes with equal amounts, but for their tasks."""
        self._tasks: dict[str, tuple[object, int, str, str, bytes]] = {}
        self._listed: dict[bytes, tuple[list[str], list[bytes]]] = {}
        """The names of some rows, and these in JSON."""
        self._asked: tuple[tuple[object, ...], list[bytes]] = ((), [])
        self._looked = False

    def begin(self) -> None:
        """A session begins: pods may have changed that stand on nodes which did not."""
        self._asked, self._looked = ((), []), False

    # -- questions ------------------------------------------------------------------------------------------------
    def question(self, verb: Verb[Any], *things: Any) -> bytes:
        """The question of *verb* about *things*, one for each of its parts.

        :raises CallFailed: something in it cannot be written, such as an infinite score; an error like any other.
        """
        try:
            if verb is ON_SESSION_OPEN:
                return gojson.encode(self._talks.snapshot(things[0], self))
            if verb is PREEMPT:
                return cast("Kube", self._talks).preempt(*things, names_only=self._names_only)
            parts = [self._part(part, thing) for part, thing in zip(verb.parts, things, strict=True)]
            return b"".join(self._talks.question(verb, parts))
        except InvalidInput as error:
            raise CallFailed(verb.name, "request", f"request: {error}") from error

    def predicate(self, verb: Verb[Any], task: Task, rows: NodeRows) -> list[bytes]:
        """One body per row."""
        self._forget_changed(rows._table)
        head = self.task(task)
        return [b"".join(self._talks.question(verb, [head, node[1:]])) for node in self._rows(task, rows)]

    def nodes(self, verb: Verb[Any], task: Task, rows: NodeRows) -> list[bytes]:
        """One body for all rows (batchPredicate, prioritize: the same, so it is written once for both)."""
        self._forget_changed(rows._table)
        extra = rows.extra
        head = self.task(task)
        key = (head, task.klass.id, self._at, rows.index.tobytes(), extra.tobytes() if extra is not None else b"")
        if key != self._asked[0]:
            named = self._names_only and extra is None
            nodes = self._rows(task, rows)
            nodes[:1] = [one[1:] for one in nodes[:1]]
            self._asked = (key, self._talks.question(verb, [head, nodes], names_only=named))
        return self._asked[1]

    def names(self, rows: NodeRows) -> list[str]:
        """The names of rows; made once for the same rows of the same table."""
        return self._named(rows)[0]

    def _named(self, rows: NodeRows) -> tuple[list[str], list[bytes]]:
        self._forget_changed(rows._table)
        if rows.extra is not None:  # these are told in full, and never again
            return rows.names, []
        listed = rows.index.tobytes()
        known = self._listed.get(listed)
        if known is None:
            if len(self._listed) >= _LISTS_KEPT:
                self._listed.clear()
            names = rows.names
            known = self._listed[listed] = (
                names,
                [b"," + self._name(name) for name in names] if self._names_only else [],
            )
        return known

    def bind(self, intent: Bind, task: bytes | None) -> bytes:
        """The question to bind a pod."""
        return self._talks.bind(BIND, intent, task)

    # -- parts ----------------------------------------------------------------------------------------------------
    def _part(self, part: MessagePart, thing: Any) -> bytes | list[bytes]:
        if part.many and part.kind is not PartKind.GPU:
            return [b",".join([self._one(part.kind, one) for one in thing])] if thing else []
        return self._one(part.kind, thing)

    def _one(self, kind: PartKind, thing: Any) -> bytes:
        match kind, thing:
            case PartKind.TASK, Task():
                return self.task(thing)
            case PartKind.NODE, Node():
                return self._name(thing.name) if self._names_only else gojson.encode(self._talks.node(thing, self))
            case PartKind.JOB, Job():
                return gojson.encode(self._talks.job(thing, self, named=self._names_only))
            case PartKind.QUEUE, Queue():
                return gojson.encode(self._talks.queue(thing))
            case PartKind.GPU, Node():
                return gojson.encode([{"index": str(at), "used": 0, "memory": 0} for at in range(int(thing.gpus))])
            case PartKind.SCORES, Mapping():
                return gojson.encode(gojson.numbers(thing))
            case _:
                raise TypeError(f"{kind.value}: cannot be written from {thing!r}")

    def task(self, task: Task) -> bytes:
        """A task's JSON; its names alone where only these are sent."""
        if not self._names_only or self.dialect == "kube":
            return bytes(self.whole(task))
        return gojson.encode(self._talks.named(task))

    def whole(self, task: Task) -> msgspec.Raw:
        """A task's JSON, never its names alone."""
        queue = task.job.queue if task.job is not None else ""
        known = self._tasks.get(task.uid)
        if known is not None and known[0] is task.pod and known[1:4] == (task.status, task.node_name, queue):
            return msgspec.Raw(known[4])
        if len(self._tasks) >= _KEPT:
            self._tasks.clear()
        body = gojson.encode(self._talks.task(task))
        self._tasks[task.uid] = (task.pod, task.status, task.node_name, queue, body)
        return msgspec.Raw(body)

    def on(self, node: Node, *more: Task) -> msgspec.Raw:
        """The JSON of the tasks on a node, and of some *more*, by their keys."""
        tasks = {task.key: self.whole(task) for task in (*node.tasks.values(), *more)}
        return msgspec.Raw(gojson.encode(gojson.sorted_map(tasks)))

    def _rows(self, task: Task, rows: NodeRows) -> list[bytes]:
        """The nodes' JSON, each after a comma; imagined ones are always told in full: nobody can look them up."""
        table, known, out = rows._table, self._nodes, []
        if rows.extra is not None:
            standing: dict[int, bytes] = {}
            for node, more in zip(rows.nodes, rows.extra.tolist(), strict=True):
                if self._talks.lists_tasks and node.row not in standing:
                    standing[node.row] = bytes(self.on(node, task))
                out.append(self._write_node(table, node, standing.get(node.row, b""), task, more))
            return out
        if self._names_only:
            return [*self._named(rows)[1]]
        index = rows.index.tolist()
        for row in set(index) - known.keys() if len(known) < len(table.by_name) else ():
            if (one := table.nodes[row]) is not None:
                known[row] = self._write_node(table, one, bytes(self.on(one)) if self._talks.lists_tasks else b"")
                if self._talks.lists_tasks and one.tasks:
                    self._pods[row] = [task.pod for task in one.tasks.values()]
        return [known[row] for row in index]

    def _write_node(self, table: NodeTable, node: Node, tasks: bytes, like: Task | None = None, more: int = 0) -> bytes:
        """A comma and a node's JSON, the *tasks* on it in it if these are listed; as with *more* tasks *like* one."""
        form = self._forms.get(node.row)
        if form is None or form.object is not node.object:
            parts = (b"," + gojson.encode(self._talks.node_form(node))).split(bytes(HOLE))
            form = self._forms[node.row] = _Form(node.object, parts, frozenset(node.capacity.amounts))
        key = (table.amounts_of(node.row), form.has, like and like.klass, more)
        held = self._ledgers.get(key)
        if held is None:
            if len(self._ledgers) >= _KEPT:
                self._ledgers.clear()
            now = self._talks.ledgers(node if like is None else ImaginedNode(node, like, more))
            held = self._ledgers[key] = [gojson.encode(amounts) for amounts in now.values()]
        return b"".join(chain.from_iterable(zip(form.parts, (*held, tasks, b""), strict=False)))

    def _name(self, name: str) -> bytes:
        return gojson.encode(self._talks.named_node(name))

    def _forget_changed(self, table: NodeTable) -> None:
        """Drop what was written of rows that changed since."""
        at = (table.touched.position, table.changed.position)
        if not self._looked:
            self._looked = True
            if table is self._table and self._talks.lists_tasks:
                self._forget_moved(table)
        if table is self._table and at == self._at:
            return
        touched = table.touched.since(self._at[0]) if table is self._table else None
        changed = table.changed.since(self._at[1]) if table is self._table else None
        if touched is None or changed is None or changed:
            self._listed.clear()
        if touched is None or changed is None:
            self._nodes.clear()
            self._forms.clear()
            self._pods.clear()
        else:
            for row in touched | changed:
                self._forget_node(row)
            for row in changed:
                self._forms.pop(row, None)
        self._table, self._at = table, at

    def _forget_moved(self, table: NodeTable) -> None:
        """Drop what was written of nodes on which a pod is no longer the object that it was."""
        for row, pods in list(self._pods.items()):
            node = table.nodes[row]
            now = node.tasks.values() if node is not None else ()
            if len(now) != len(pods) or not all(task.pod is pod for task, pod in zip(now, pods, strict=True)):
                self._forget_node(row)

    def _forget_node(self, row: int) -> None:
        self._nodes.pop(row, None)
        self._pods.pop(row, None)


BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the latency histogram, in seconds."""
EXCHANGES: Final = "extender.exchanges"
"""Name in a session's environment: a list that takes every exchange, to be saved with the cycle."""
_LOGGED: Final = 3
"""Failures of one verb that are logged in one session; all are counted."""


class AnswerUnusable(CallFailed):
    """An answer came that says, or shows, that it is none."""


class ExtenderSession:
    """Asks one extender during one session, within its budget; logs and counts what fails."""

    def __init__(
        self,
        ssn: Session,
        name: str,
        settings: ExtenderSettings,
        caller: Caller,
        writer: QuestionWriter,
        *,
        volcano: bool,
    ) -> None:
        """*volcano*: answers and failures mean what they mean to Volcano (``compat: volcano``)."""
        self._ssn, self.name, self.settings, self._caller, self.writer = ssn, name, settings, caller, writer
        self.volcano = volcano
        self.tasks = TaskFilter(settings)
        self.memory: dict[str, Any] = ssn.memory_of(name)
        """Kept between sessions."""
        self.closed = False
        """The service was told that the session is over; later undoing is not told."""
        self.failures = 0
        self._log = logging.getLogger(f"pumice.plugins.{name}")
        self._begun = caller.spent
        self._logged: Counter[str] = Counter()
        self._told: set[str] = set()
        self._record: list[dict[str, Any]] | None = ssn.environment.get(EXCHANGES)

    @property
    def spent(self) -> float:
        """Seconds that this session has waited for answers."""
        return self._caller.spent - self._begun

    def has(self, verb: Verb[Any]) -> bool:
        """Report whether the verb is configured."""
        return verb.name in self.settings.verbs

    def outcome(self, verb: Verb[Any]) -> VerbOutcome:
        """The replacement for the answer of a failed *verb*."""
        return verb.outcome(ignored=self.settings.ignores(verb.name), volcano=self.volcano)

    # -- asking ---------------------------------------------------------------------------------------------------
    def ask(self, verb: Verb[A], *things: Any, among: Collection[str] | None = None) -> A:
        """The answer to the question of *verb* about *things*. Names in the answer should be *among* these.

        :raises CallFailed: there is none; it is logged and counted already.
        """
        return self.ask_body(verb, self.writer.question(verb, *things), among)

    def ask_body(self, verb: Verb[A], body: Body, among: Collection[str] | None = None) -> A:
        """As ``ask``, for a question that is written already."""
        answer = self.ask_many(verb, [body])[0]
        if not isinstance(answer, CallFailed) and answer.problem:
            answer = AnswerUnusable(verb.name, "answer", answer.problem)
            self._failed(answer)
        if isinstance(answer, CallFailed):
            raise answer
        if among is not None and (named := answer.named()):
            strangers = sorted(set(named).difference(among))
            if strangers:
                more = f" and {len(strangers) - 3} more" if len(strangers) > 3 else ""
                self._odd(verb, f"the answer names what was not asked about: {', '.join(strangers[:3])}{more}")
        return answer

    def ask_many(self, verb: Verb[A], bodies: Sequence[Body]) -> list[A | CallFailed]:
        """The answers to many questions that go out together."""
        budget = self.settings.session_budget
        left = None if budget is None else budget - self.spent
        if left is not None and left <= 0:
            said = f"the session's budget of {budget} s is spent"
            failure = CallFailed(verb.name, "budget", f"not asked: {said}")
            self._tell(ReasonCode.BUDGET_SPENT, f"extender {self.name}: {said}")
            self._ssn.metrics.counter("pumice_extender_errors_total", extender=self.name, verb=verb.name, kind="budget")
            self._failed(failure, len(bodies))
            return [failure] * len(bodies)
        answers = self._caller.call_many(verb, bodies, left)
        if self._record is not None:
            self._record += [
                exchange(self.name, verb, body, answer) for body, answer in zip(bodies, answers, strict=True)
            ]
        failed = [answer for answer in answers if isinstance(answer, CallFailed)]
        if failed:
            self._failed(failed[0], len(failed))
            if any(failure.kind == "breaker" for failure in failed):
                self._tell(ReasonCode.CIRCUIT_OPEN, f"extender {self.name}: failed too often, not asked for a while")
        return answers

    # -- reporting ------------------------------------------------------------------------------------------------
    def _failed(self, failure: CallFailed, times: int = 1) -> None:
        """Log a failure, the first few of each verb."""
        self.failures += times
        if self._logged[failure.verb] < _LOGGED:
            outcome = "ignored" if self.settings.ignores(failure.verb) else "the decision fails"
            more = f" ({times} times)" if times > 1 else ""
            self._log.warning("%s%s: %s", failure, more, outcome)
        self._logged[failure.verb] += 1

    def _odd(self, verb: Verb[Any], text: str) -> None:
        """Report an answer that was understood but holds something that cannot be."""
        self._ssn.metrics.counter("pumice_extender_odd_answers_total", extender=self.name, verb=verb.name)
        if self._logged[f"odd {verb.name}"] < _LOGGED:
            self._log.warning("extender %s: %s", verb.name, text)
            self._ssn.warnings.append(f"extender {self.name}: {verb.name}: {text}")
        self._logged[f"odd {verb.name}"] += 1

    def warn_once(self, text: str) -> None:
        """Warn, in the first session that sees it."""
        text = without_passwords(text)
        warned: list[str] = self.memory.setdefault("warned", [])
        if text not in warned:
            warned.append(text)
            self._log.warning("%s", text)
            self._ssn.warnings.append(text)

    def publish(self) -> None:
        """Publish what was measured since the last time."""
        metrics, labels = self._ssn.metrics, {"extender": self.name}
        errors: Counter[tuple[str, str]] = Counter()
        for verb, seconds, outcome in self._caller.observed():
            metrics.histogram("pumice_extender_request_seconds", seconds, BUCKETS, verb=verb, **labels)
            if outcome != "ok":
                errors[verb, outcome] += 1
        for (verb, kind), times in errors.items():
            metrics.counter("pumice_extender_errors_total", times, verb=verb, kind=kind, **labels)
        metrics.gauge("pumice_extender_session_seconds", self.spent, **labels)
        metrics.gauge("pumice_extender_circuit_open", float(self._caller.circuit != "closed"), **labels)

    def _tell(self, reason: ReasonCode, text: str) -> None:
        """A note and a line in the cycle's report, once per session."""
        if reason in self._told:
            return
        self._told.add(reason)
        self._ssn.warnings.append(text)
        self._ssn.outcome.intents.append(Note("Plugin", self.name, "Warning", reason, text))
