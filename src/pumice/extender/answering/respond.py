"""What the served policies say to a question: one rule for each kind of answer.

A point that nobody registered gets the neutral answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final

from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.served_session import ServedSession
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answers import Answer
from pumice.extender.dialects import Question
from pumice.extender.dialects.task_message import TaskMessage, uid_of
from pumice.extender.protocol import PartKind
from pumice.framework.points import Point
from pumice.framework.points import table as t
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task
from pumice.ports import Binder

_UNSEEN: Final = (a.UNSCHEDULABLE, "the extender has not seen this node yet")
_FITS: Final = a.NodeRefusal()


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

    def respond(self, asked: Question) -> Answer:
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
    def _verdict(self, asked: Question, *things: Any) -> Answer:
        said = self._ssn.ask(_point(asked), *things)
        if said.passed:
            return a.VerdictAnswer(status=True)
        return a.VerdictAnswer(status=False, reason=said.reason, message=said.text)

    def _overused(self, asked: Question, *things: Any) -> Answer:
        said = self._ssn.ask(_point(asked), *things)
        return a.Overused(overused=bool(said), message=getattr(said, "text", "") if said else "")

    def _vote(self, asked: Question, *things: Any) -> Answer:
        """One tier's vote: a reject counts above a permit."""
        votes = [said for _, said in self._ssn.each(_point(asked), *things) if said is not None]
        rejected = next((said for said in votes if not said.passed), None)
        if rejected is not None:
            return a.Vote(status=-1, message=rejected.text)
        return a.Vote(status=int(bool(votes)))

    def _acknowledge(self, asked: Question, *things: Any) -> Answer:
        self._ssn.ask(_point(asked), *things)
        return a.Acknowledged()

    def _ranks(self, asked: Question, listed: Sequence[Any]) -> Answer:
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
    def _predicate(self, _: Question, task: Task, node: Node | None) -> Answer:
        ((code, text),) = self._ssn.objections(task, [node]) if node is not None else (_UNSEEN,)
        return a.NodeRefusal(text=text, code=code) if text else _FITS

    def _batch_predicate(self, asked: Question, task: Task, nodes: Sequence[Node | None]) -> Answer:
        """Code and reason by node name, the first objection; a node that the cluster has not shown is refused."""
        known = [node for node in nodes if node is not None]
        said = iter(self._ssn.objections(task, known) if known else ())
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

    def _prioritize(self, _: Question, task: Task, nodes: Sequence[Node | None]) -> Answer:
        known = [node for node in nodes if node is not None]
        try:
            return a.Scores(scores=self._ssn.all_scores(task, known) if known else {})
        except Unfit as no:
            return a.Scores(scores={}, error=no.text or "refused")

    def _best_node(self, _: Question, task: Task, scores: dict[str, float]) -> Answer:
        chosen = self._ssn.ask(t.BEST_NODE, task, dict(scores))
        return a.BestNode(node_name=chosen.name if isinstance(chosen, Node) else chosen or "")

    def _gpu_order(self, _: Question, task: Task, node: Node | None, gpus: Sequence[Any]) -> Answer:
        if node is None or not self._ssn.anybody(t.GPU_ORDER):
            return a.GpuScores()
        scores = {gpu.index: self._ssn.gpu_order(task, node, gpu.index) for gpu in gpus}
        return a.GpuScores(scores={gpu: score for gpu, score in scores.items() if score is not None})

    # -- victims --------------------------------------------------------------------------------------------------
    def _victims(self, asked: Question, *things: Any) -> Answer:
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

    def _preempt(self, _: Question, task: Task, candidates: dict[str, tuple[list[TaskMessage], int]]) -> Answer:
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
    def _event(self, asked: Question) -> str:
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


def bind_of(asked: Question) -> Bind:
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


def _point(asked: Question) -> Point[..., Any, Any]:
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
