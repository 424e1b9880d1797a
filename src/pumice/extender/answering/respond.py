"""The session on which policies are served, and what they say to a question: one rule for each kind of answer.

A point that nobody registered gets the neutral answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final, cast

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answering.untold import NotTold, StateView
from pumice.extender.answers import Answer
from pumice.extender.dialects import VerbQuestion
from pumice.extender.dialects.task_message import TaskMessage, uid_of
from pumice.extender.protocol import PartKind
from pumice.framework.compat import Compat
from pumice.framework.points import Point
from pumice.framework.points import table as t
from pumice.framework.points.guard import Failures
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
        """What a policy sees of a part; others it sees as they are told."""

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
        """Ranks by place in the order; those that nobody tells apart share one."""
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
        """What is against a placement, or its end, or a bind; like those in process handlers see the place.

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
    """What a bind question wants to be bound."""
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
