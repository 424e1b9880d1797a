"""Policies, what each caller told them, and their answers: everything of the server but HTTP."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final, cast

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.told_state import AnsweredCluster, FollowedState, NotTold, StateView, ToldState
from pumice.extender.answers import Answer
from pumice.extender.dialects import DIALECTS, QuestionReader, VerbQuestion
from pumice.extender.dialects.messages import Cluster, TaskMessage, uid_of
from pumice.extender.protocol import BIND, ON_SESSION_CLOSE, ON_SESSION_OPEN, VOLCANO_VERBS, PartKind, Verb, carriers
from pumice.framework.arguments import Arguments
from pumice.framework.compat import Compat, compat_of
from pumice.framework.plugin import Plugin
from pumice.framework.points import Point
from pumice.framework.points import table as t
from pumice.framework.points.guard import Failures
from pumice.framework.registry import PluginInfo, build
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import HelpfulSession
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.reason import FITS, Reason, Unfit, reason_of
from pumice.model.task import Task
from pumice.ports import Binder
from pumice.state.cluster import ClusterState
from pumice.state.table import NodeTable

_UNSEEN: Final = (a.UNSCHEDULABLE, "the extender has not seen this node yet")
_FITS: Final = a.NodeRefusal()
_NONE: Final = (0, "")


class ServedFailures(Failures):
    """As in the scheduler, but what was not told is kept for the answer."""

    def __init__(self, session: ServedSession) -> None:
        super().__init__(session.runtime.health, session.runtime.told, session.metrics)
        self._session = session

    def contain(self, plugin: str, point: str, exc: BaseException, *about: Any, **more: Any) -> None:
        if isinstance(exc, NotTold):
            self._session.untold = exc
        else:
            super().contain(plugin, point, exc, *about, **more)


class ServedSession(HelpfulSession):
    """A session without tiers on what calls have told. Reading what was not told ends in `untold`."""

    def __init__(self, told: ToldState, runtime: Runtime, compat: Compat) -> None:
        self.untold: NotTold | None = None
        view = StateView(told.state, told.table, complete=told.complete, followed=told.followed)
        super().__init__(cast("ClusterState", view), runtime=runtime, compat=compat)
        if not told.complete:  # who asks knows the cluster's disruption budgets, and minds them
            self.budgets = Budgets(self.state, as_volcano=True)

    def _make_failures(self) -> Failures:
        return ServedFailures(self)


class ServedRows(NodeRows):
    """Rows of nodes that are at hand."""

    __slots__ = ("nodes",)

    def __init__(self, table: NodeTable, nodes: list[Node]) -> None:
        super().__init__(table, np.array([node.row for node in nodes], dtype=np.intp))
        self.nodes = nodes  # type: ignore[misc]  # nobody looks them up


class Responder:
    """Answers questions on one session over what was told. A rule is given the question and what its parts speak of."""

    def __init__(self, told: ToldState, session: ServedSession) -> None:
        self._told, self._ssn = told, session
        self._made: dict[PartKind, Callable[[Any], Any]] = {
            PartKind.TASK: told.task,
            PartKind.NODE: told.node,
            PartKind.JOB: told.job,
            PartKind.QUEUE: told.queue,
        }
        """The view of a policy on a part; others see it as told."""

    def respond(self, asked: VerbQuestion) -> Answer:
        """The answer to a question.

        :raises NotTold: it names what was not told; what a policy reads of that kind stands in ``session.untold``.
        """
        if asked.verb.answer is a.Error:
            return a.Error(error=self._event(asked))
        things = []
        for part in asked.verb.parts:
            told, made = asked.parts[part.name], self._made.get(part.kind)
            things.append(told if made is None else [made(one) for one in told] if part.many else made(told))
        return _RULES[asked.verb.answer](self, asked, *things)

    # -- verdicts, votes, orders ----------------------------------------------------------------------------------
    def _verdict(self, asked: VerbQuestion, *things: Any) -> Answer:
        said = self._ssn.ask(_point(asked), *things)
        if said.passed:
            return a.VerdictAnswer(status=True)
        return a.VerdictAnswer(status=False, reason=said.reason, message=said.text)

    def _overused(self, asked: VerbQuestion, *things: Any) -> Answer:
        said = self._ssn.ask(_point(asked), *things)
        return a.Overused(overused=bool(said), message=getattr(said, "text", "") if said else "")

    def _vote(self, asked: VerbQuestion, *things: Any) -> Answer:
        """One tier's vote: a reject counts above a permit."""
        votes = [said for _, said in self._ssn.each(_point(asked), *things) if said is not None]
        rejected = next((said for said in votes if not said.passed), None)
        if rejected is not None:
            return a.Vote(status=-1, message=rejected.text)
        return a.Vote(status=int(bool(votes)))

    def _acknowledge(self, asked: VerbQuestion, *things: Any) -> Answer:
        self._ssn.ask(_point(asked), *things)
        return a.Acknowledged()

    def _ranks(self, asked: VerbQuestion, listed: Sequence[Any]) -> Answer:
        """Ranks by place in the order; equal ones share a rank."""
        if not self._ssn.anybody(_point(asked)):
            return a.Ranks()
        compare = self._ssn.bind(_point(asked))
        order = sorted(listed, key=cmp_to_key(compare))
        ranks: dict[str, float] = {}
        rank = 0
        for at, this in enumerate(order):
            if at and compare(order[at - 1], this):
                rank += 1
            ranks[this.uid] = rank
        return a.Ranks(ranks=ranks)

    # -- nodes; those that the cluster has not shown are None -------------------------------------------------------
    def _predicate(self, _: VerbQuestion, task: Task, node: Node | None) -> Answer:
        ((code, text),) = self._objections(task, [node]) if node is not None else (_UNSEEN,)
        return a.NodeRefusal(text=text, code=code) if text else _FITS

    def _objections(self, task: Task, nodes: list[Node]) -> Sequence[tuple[int, str]]:
        """Code and text of the first objection to each node; no text for none."""
        before = self._ssn.pre_predicate(task)
        if not before:
            return [(int(before.code), before.text or "refused")] * len(nodes)
        numbers = self._ssn.search.evaluator.first_objection(task, self._rows(nodes)).tolist()
        return [_NONE if number == FITS else _said(reason_of(number)) for number in numbers]

    def _rows(self, nodes: list[Node]) -> NodeRows:
        return ServedRows(cast("NodeTable", self._told.table), nodes)

    def _batch_predicate(self, asked: VerbQuestion, task: Task, nodes: Sequence[Node | None]) -> Answer:
        """Code and reason by node name, the first objection; a node that the cluster has not shown is refused."""
        known = [node for node in nodes if node is not None]
        said = iter(self._objections(task, known) if known else ())
        names = [told.node.metadata.name for told in asked.parts["nodes"]]
        refused = {
            name: (code, text)
            for name, node in zip(names, nodes, strict=True)
            for code, text in (next(said) if node is not None else _UNSEEN,)
            if text
        }
        echo = asked.echo()
        return a.NodeRefusals(
            errors={name: text for name, (_, text) in refused.items()},
            codes={name: code for name, (code, _) in refused.items()},
            fitting=[name for name in names if name not in refused],
            echoed=echo and [raw for name, raw in zip(names, echo, strict=True) if name not in refused],
        )

    def _prioritize(self, _: VerbQuestion, task: Task, nodes: Sequence[Node | None]) -> Answer:
        """Scores by node, all plugins together."""
        known = [node for node in nodes if node is not None]
        if not known:
            return a.Scores(scores={})
        ssn, evaluator, rows = self._ssn, self._ssn.search.evaluator, self._rows(known)
        total, everybody = np.zeros(len(known)), np.ones(len(known), dtype=np.bool_)
        try:
            ssn.node_pre_order(task, rows)
            for scorer in evaluator.scorers:
                if evaluator.guard.applies(scorer, task):
                    part = evaluator.ask_scorer(scorer, task, rows)
                    total = scorer.merge(total, evaluator.guard.normalized(scorer, task, part, everybody))
            if ssn.anybody(t.NODE_MAP):
                total = total + ssn.search.map_reduce(task, rows)
        except Unfit as no:
            return a.Scores(scores={}, error=no.text or "refused")
        return a.Scores(scores={node.name: score for node, score in zip(known, total.tolist(), strict=True)})

    def _best_node(self, _: VerbQuestion, task: Task, scores: dict[str, float]) -> Answer:
        chosen = self._ssn.ask(t.BEST_NODE, task, dict(scores))
        return a.BestNode(node_name=chosen.name if isinstance(chosen, Node) else chosen or "")

    def _gpu_order(self, _: VerbQuestion, task: Task, node: Node | None, gpus: Sequence[Any]) -> Answer:
        if node is None or not self._ssn.anybody(t.GPU_ORDER):
            return a.GpuScores()
        scores = {gpu.index: self._ssn.gpu_order(task, node, gpu.index) for gpu in gpus}
        return a.GpuScores(scores={gpu: score for gpu, score in scores.items() if score is not None})

    # -- victims --------------------------------------------------------------------------------------------------
    def _victims(self, asked: VerbQuestion, *things: Any) -> Answer:
        """The tasks of the question that may go, as they came."""
        if asked.verb is p.VICTIM_TASKS:
            chosen: Sequence[Task] | None = self._ssn.victim_tasks(*things)
        else:
            chosen = self._ssn.evictable(_point(asked), *things)
        if chosen is None:
            return a.Victims(status=0, uids=[])
        raw = dict(zip((task.uid for task in things[-1]), asked.echo() or (), strict=True))
        uids = [task.uid for task in chosen if task.uid in raw]
        return a.Victims(status=1, uids=uids, echoed=[raw[uid] for uid in uids])

    def _preempt(self, _: VerbQuestion, task: Task, candidates: dict[str, tuple[list[TaskMessage], int]]) -> Answer:
        kept: dict[str, tuple[list[str], int]] = {}
        for node, (victims, violations) in candidates.items():
            if self._ssn.anybody(t.PREEMPTABLE):
                tasks = [self._told.task(one) for one in victims]
                allowed = self._ssn.preemptable(task, tasks)
                if allowed is not None and len(allowed) < len(tasks):
                    continue
            kept[node] = ([uid_of(one.pod) for one in victims], violations)
        return a.Candidates(candidates=kept)

    # -- events ---------------------------------------------------------------------------------------------------
    def _event(self, asked: VerbQuestion) -> str:
        """The objection to a placement, or its end, or a bind; like handlers in process, these handlers see the place.

        A policy binds only if it registered a binder; a bind that nobody did must not look done.
        """
        if asked.verb is p.BIND:
            binder = next(iter(self._ssn.binds.binders.values()), None)
            return carried_out(binder, bind_of(asked)) if binder else "no policy that is served here binds pods"
        told: TaskMessage = asked.parts["task"]
        task, state, handlers = self._told.task(told, moved=True), self._told.state, self._ssn.handlers
        with state.shown_at(task, state.nodes.get(told.node)):
            return handlers.allocated(task)[0] if asked.verb is p.ALLOCATE_FUNC else handlers.deallocated(task)


def bind_of(asked: VerbQuestion) -> Bind:
    """The object of a bind question."""
    pod = asked.parts["task"].pod
    return Bind(pod.key, pod.metadata.uid, asked.parts["node"].node.metadata.name)


def carried_out(binder: Binder, intent: Bind) -> str:
    """Bind; why it was not done, or nothing: whatever a binder raises means that it did not bind."""
    try:
        binder.bind(intent)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return ""


def _said(reason: Reason) -> tuple[int, str]:
    return int(reason.code), reason.text or "refused"


def _point(asked: VerbQuestion) -> Point[..., Any, Any]:
    return t.POINTS[asked.verb.points[0]]


_RULES: Final[dict[type[Answer], Callable[..., Answer]]] = {
    a.VerdictAnswer: Responder._verdict,
    a.Overused: Responder._overused,
    a.Vote: Responder._vote,
    a.Acknowledged: Responder._acknowledge,
    a.Ranks: Responder._ranks,
    a.NodeRefusal: Responder._predicate,
    a.NodeRefusals: Responder._batch_predicate,
    a.Scores: Responder._prioritize,
    a.BestNode: Responder._best_node,
    a.GpuScores: Responder._gpu_order,
    a.Victims: Responder._victims,
    a.Candidates: Responder._preempt,
}
"""Kind of answer -> the rule that gives it, whatever the verb; the session verbs are answered by ``PolicyServer``."""


Policy = type[Plugin] | Callable[[], Any]
Builders = Sequence[Callable[[], Any]]
SECOND_THOUGHT: Final = 0.05
"""Seconds that the watch is given before a cluster that is followed is said to have no node for a pod."""
MOST_CALLERS: Final = 16
"""Callers whose sessions are kept; the longest silent caller is forgotten first."""
_LARGE: Final = 256 * 1024
"""Bytes from which a question is read beside the event loop."""


class CallerSession:
    """The policies as opened for one caller, on what that caller told.

    They are opened when a session opens, or when the first question comes; what they keep in ``ssn.memory`` stays.
    """

    def __init__(self, builders: Builders, compat: Compat, told: ToldState) -> None:
        self.told = told
        self._builders, self._compat = builders, compat
        self._runtime = Runtime()
        self._session: ServedSession | None = None
        self._blocked: NotTold | None = None

    def load(self, told: ToldState) -> None:
        """A session opens on another cluster."""
        self.close()
        self.told = told
        self._open()

    def respond(self, question: VerbQuestion) -> Answer:
        """The answer to a question. The one place where what was not told becomes an error.

        :raises NotTold: the question names, or a policy reads, what was never told.
        """
        session = self.current()
        try:
            answer = self._responder.respond(question)
            if session.untold is not None:
                raise session.untold
        finally:
            session.untold = None
        return answer

    def current(self) -> ServedSession:
        """A session on the cluster as it is known now.

        :raises NotTold: a policy needs more of the cluster than it was told.
        """
        if self.told.renewed() or self._session is None:
            self._open()
        assert self._session is not None
        if self._blocked is not None:
            raise self._blocked
        return self._session

    def _open(self) -> None:
        """Open fresh policies. One that reads what was not told is answered for with 409 until a snapshot comes."""
        session = open_session(self._builders, self.told, self._runtime, self._compat)
        self._runtime.cycle += 1
        self._blocked, session.untold = session.untold, None
        self._session, self._responder = session, Responder(self.told, session)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._blocked is None:
            session.close_plugins()


class PolicyServer:
    """Some policies behind the protocol, for callers that are kept apart. One thread at a time."""

    def __init__(
        self,
        policies: Sequence[Policy],
        *,
        dialect: str = "",
        compat: str | None = None,
        cluster: AnsweredCluster | None = None,
    ) -> None:
        """*policies*: Plugin classes (built without arguments) or functions that build one. *cluster*: is followed,
        so that questions need not tell of it, and binds the pods that no policy binds.

        :raises InvalidInput: none at all, or one that cannot be built.
        """
        if not policies:
            raise InvalidInput("policies: at least one must be served")
        self._builders = [_builder(policy) for policy in policies]
        self.names = [_name(builder()) for builder in self._builders]
        self._compat = compat_of(compat)
        self._reader = QuestionReader(dialect)
        self._followed = FollowedState(cluster) if cluster is not None else None
        self._callers: OrderedDict[str, CallerSession] = OrderedDict()

    # -- questions ------------------------------------------------------------------------------------------------
    def answer(self, verb: Verb[Any], body: bytes, caller: str = "") -> bytes:
        """The answer to a question of *caller*, in its dialect.

        :raises WireError: the question cannot be read.
        :raises NotTold: a policy read something that was never told.
        :raises InvalidInput: an object in the question breaks a rule.
        :raises NotReady: the cluster that is followed was not read yet.
        """
        question = self._reader.read(verb, body)
        if question.verb is ON_SESSION_OPEN:
            answer: Answer = self._opened(self._loaded(question.parts["snapshot"]), caller)
        else:
            answer = self._respond(question, caller)
        return question.dialect.write_answer(question.verb, answer)

    async def asked(self, verb: Verb[Any], body: bytes, caller: str = "") -> bytes:
        """As `answer`, without keeping others waiting: what is large is read, and loaded, beside the event loop.

        In a cluster that is followed, pods are bound meanwhile. The server looks again before it refuses every node:
        the caller follows the same cluster and may have seen the end of a pod a moment earlier. A refused pod may not
        be asked about again for minutes.
        """
        if len(body) >= _LARGE:
            question = await asyncio.to_thread(self._reader.read, verb, body)
        elif self._followed is None and verb is not ON_SESSION_OPEN:  # nearly always
            return self.answer(verb, body, caller)
        else:
            question = self._reader.read(verb, body)
        if question.verb is ON_SESSION_OPEN:
            told = await asyncio.to_thread(self._loaded, question.parts["snapshot"])
            answer: Answer = self._opened(told, caller)
        elif self._followed is not None and question.verb is BIND:
            answer = await self._bind(self._followed, question)
        else:
            answer = self._respond(question, caller)
            if self._followed is not None and isinstance(answer, a.NodeRefusals) and not answer.fitting:
                await asyncio.sleep(SECOND_THOUGHT)
                answer = self._respond(question, caller)
        return question.dialect.write_answer(question.verb, answer)

    def _respond(self, question: VerbQuestion, caller: str) -> Answer:
        session = self._caller(caller)
        if question.verb is ON_SESSION_CLOSE:
            session.close()
            return a.Acknowledged()
        return session.respond(question)

    def _loaded(self, cluster: Cluster) -> ToldState:
        told = self._followed or ToldState()
        told.load(cluster)
        return told

    def _opened(self, told: ToldState, caller: str) -> Answer:
        self._caller(caller).load(told)
        return a.Acknowledged()

    def _caller(self, caller: str) -> CallerSession:
        """The session of a caller; all callers about a followed cluster share one."""
        key = caller if self._followed is None else ""
        known = self._callers.get(key)
        if known is None:
            known = self._callers[key] = CallerSession(self._builders, self._compat, self._followed or ToldState())
            if len(self._callers) > MOST_CALLERS:
                self._callers.popitem(last=False)[1].close()
        self._callers.move_to_end(key)
        return known

    async def _bind(self, followed: FollowedState, question: VerbQuestion) -> Answer:
        binder = next(iter(self._caller("").current().binds.binders.values()), followed.cluster)
        intent = bind_of(question)
        error = await asyncio.to_thread(carried_out, binder, intent)
        if not error:
            followed.bound(intent)
        return a.Error(error=error)

    def trouble(self) -> str:
        """Why questions cannot be answered, or nothing."""
        return self._followed.cluster.trouble() if self._followed is not None else ""

    # -- what is served -------------------------------------------------------------------------------------------
    def points(self) -> dict[str, set[Scope]]:
        """The points at which the policies register, with the scopes they declare; found on an empty cluster."""
        told = ToldState()
        told.followed = told.complete = True
        session = open_session(self._builders, told, Runtime(), self._compat)
        found = {point: {callback.scope for callback in callbacks} for point, callbacks in session.registered().items()}
        if session.handlers:
            found["event handlers"] = {Scope.SESSION}
        return found

    def not_carried(self, dialect: str) -> list[str]:
        """Points of the policies that callers in *dialect* do not ask: a real Volcano has twelve verbs, no more."""
        asked = VOLCANO_VERBS if dialect == "volcano" else DIALECTS[dialect].carries
        return sorted(point for point in self.points() if not asked & set(carriers(point)))

    def needs_one_worker(self) -> list[str]:
        """Points that keep several workers from answering alike: not declared STATIC or NODE."""
        return sorted(point for point, scopes in self.points().items() if Scope.SESSION in scopes)


def open_session(builders: Builders, told: ToldState, runtime: Runtime, compat: Compat) -> ServedSession:
    """A session on what was told, with the policies opened on it."""
    session = ServedSession(told, runtime, compat)
    for builder in builders:
        plugin = builder()
        session.open_plugin(plugin, _name(plugin))
    return session


def _builder(policy: Policy) -> Callable[[], Any]:
    if isinstance(policy, type) and issubclass(policy, Plugin):
        info = PluginInfo(policy.name or policy.__name__, policy, f"{policy.__module__}.{policy.__qualname__}")
        return lambda: build(info, Arguments({}, owner=info.name))
    return policy


def _name(plugin: Any) -> str:
    return getattr(plugin, "name", "") or type(plugin).__name__
