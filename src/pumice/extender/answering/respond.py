"""What the served policies say to a question: one rule per kind of answer, and a few verbs of their own.

A point that nobody registered gets the neutral answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final

from pumice.extender import answers as a
from pumice.extender import protocol as p
from pumice.extender.answering.reader import Question
from pumice.extender.answering.served_session import ServedSession
from pumice.extender.answering.told_state import ToldState
from pumice.extender.answers import Answer
from pumice.extender.dialects.task_message import TaskMessage, uid_of
from pumice.extender.protocol import PartKind, Verb
from pumice.framework.points import Point
from pumice.framework.points import table as t
from pumice.model.intents import Bind
from pumice.model.node import Node
from pumice.model.reason import Unfit
from pumice.model.task import Task

_UNSEEN: Final = "the extender has not seen this node yet"


class Responder:
    """Answers questions on one session over what was told."""

    def __init__(self, told: ToldState, session: ServedSession) -> None:
        self._told, self._ssn = told, session

    def respond(self, question: Question) -> Answer:
        """The answer to a question.

        :raises NotTold: it names what was not told; what a policy reads of that kind stands in ``session.untold``.
        """
        verb = question.verb
        special = _SPECIAL.get(verb.name)
        if special is not None:
            return special(self, question)
        by_kind: dict[PartKind, Callable[[Any], Any]] = {
            PartKind.TASK: self._told.task,
            PartKind.NODE: self._told.node,
            PartKind.JOB: self._told.job,
            PartKind.QUEUE: self._told.queue,
        }
        things = [
            [by_kind[part.kind](one) for one in told] if part.many else by_kind[part.kind](told)
            for part in verb.parts
            for told in (question.parts[part.name],)
        ]
        return _GENERIC[verb.answer](self, verb, things)

    def _task(self, asked: Question, part: str = "task") -> Task:
        return self._told.task(asked.parts[part])

    def _tasks(self, told: Sequence[TaskMessage]) -> list[Task]:
        return [self._told.task(one) for one in told]

    # -- by the kind of answer ------------------------------------------------------------------------------------
    def _verdict(self, verb: Verb[Any], things: list[Any]) -> a.VerdictAnswer:
        said = self._ssn.ask(_point(verb), *things)
        if said.passed:
            return a.VerdictAnswer(status=True)
        return a.VerdictAnswer(status=False, reason=said.reason, message=said.text)

    def _overused(self, verb: Verb[Any], things: list[Any]) -> a.Overused:
        said = self._ssn.ask(_point(verb), *things)
        return a.Overused(overused=bool(said), message=getattr(said, "text", "") if said else "")

    def _vote(self, verb: Verb[Any], things: list[Any]) -> a.Vote:
        """One tier's vote: a reject counts above a permit."""
        votes = [said for _, said in self._ssn.each(_point(verb), *things) if said is not None]
        rejected = next((said for said in votes if not said.passed), None)
        if rejected is not None:
            return a.Vote(status=-1, message=rejected.text)
        return a.Vote(status=int(bool(votes)))

    def _acknowledge(self, verb: Verb[Any], things: list[Any]) -> a.Acknowledged:
        self._ssn.ask(_point(verb), *things)
        return a.Acknowledged()

    def _ranks(self, verb: Verb[Any], things: list[Any]) -> a.Ranks:
        """Ranks by place in the order; those that nobody tells apart share one."""
        point, listed = _point(verb), things[0]
        if not self._ssn.anybody(point):
            return a.Ranks()
        compare = self._ssn.bind(point)
        order = sorted(listed, key=cmp_to_key(compare))
        ranks: dict[str, float] = {}
        rank = 0
        for at, this in enumerate(order):
            if at and compare(order[at - 1], this):
                rank += 1
            ranks[this.uid] = rank
        return a.Ranks(ranks=ranks)

    # -- nodes ----------------------------------------------------------------------------------------------------
    def _predicate(self, asked: Question) -> a.NodeRefusal:
        node, task = self._told.node(asked.parts["node"]), self._task(asked)
        if node is None:
            return a.NodeRefusal(text=_UNSEEN, code=a.UNSCHEDULABLE)
        ((code, text),) = self._ssn.objections(task, [node])
        return a.NodeRefusal(text=text, code=code) if text else _FITS

    def _batch_predicate(self, asked: Question) -> a.NodeRefusals:
        """Code and reason by node name, the first objection; a node that the cluster has not shown is refused."""
        nodes = [self._told.node(one) for one in asked.parts["nodes"]]
        known = [node for node in nodes if node is not None]
        task = self._task(asked)
        said = iter(self._ssn.objections(task, known) if known else ())
        names = [told.node.metadata.name for told in asked.parts["nodes"]]
        refused = {
            name: (code, text)
            for name, node in zip(names, nodes, strict=True)
            for code, text in (next(said) if node is not None else (a.UNSCHEDULABLE, _UNSEEN),)
            if text
        }
        echo = asked.echo()
        return a.NodeRefusals(
            errors={name: text for name, (_, text) in refused.items()},
            codes={name: code for name, (code, _) in refused.items()},
            fitting=[name for name in names if name not in refused],
            echoed=echo and [raw for name, raw in zip(names, echo, strict=True) if name not in refused],
        )

    def _prioritize(self, asked: Question) -> a.Scores:
        nodes, task = self._nodes(asked.parts["nodes"]), self._task(asked)
        if not nodes:
            return a.Scores(scores={})
        try:
            return a.Scores(scores=self._ssn.all_scores(task, nodes))
        except Unfit as no:
            return a.Scores(scores={}, error=no.text or "refused")

    def _best_node(self, asked: Question) -> a.BestNode:
        chosen = self._ssn.ask(t.BEST_NODE, self._task(asked), dict(asked.parts["nodeScore"]))
        return a.BestNode(node_name=chosen.name if isinstance(chosen, Node) else chosen or "")

    def _gpu_order(self, asked: Question) -> a.GpuScores:
        nodes, task = self._nodes([asked.parts["node"]]), self._task(asked)
        if not nodes or not self._ssn.anybody(t.GPU_ORDER):
            return a.GpuScores()
        scores = {gpu.index: self._ssn.gpu_order(task, nodes[0], gpu.index) for gpu in asked.parts["gpus"]}
        return a.GpuScores(scores={gpu: score for gpu, score in scores.items() if score is not None})

    def _nodes(self, told: list[Any]) -> list[Node]:
        """The nodes of a question, in its order, without those that the cluster has not shown."""
        return [node for node in map(self._told.node, told) if node is not None]

    # -- victims --------------------------------------------------------------------------------------------------
    def _victims(self, asked: Question) -> a.Victims:
        evictor, evictees = self._task(asked, "evictor"), self._tasks(asked.parts["evictees"])
        chosen = self._ssn.evictable(_point(asked.verb), evictor, evictees)
        return a.Victims(status=0, uids=[]) if chosen is None else _echoed(asked, evictees, chosen)

    def _victim_tasks(self, asked: Question) -> a.Victims:
        tasks = self._tasks(asked.parts["tasks"])
        return _echoed(asked, tasks, self._ssn.victim_tasks(tasks))

    def _preempt(self, asked: Question) -> a.Candidates:
        task = self._task(asked)
        kept: dict[str, tuple[list[str], int]] = {}
        candidates: dict[str, tuple[list[TaskMessage], int]] = asked.parts["candidates"]
        for node, (victims, violations) in candidates.items():
            if self._ssn.anybody(t.PREEMPTABLE):
                tasks = self._tasks(victims)
                allowed = self._ssn.preemptable(task, tasks)
                if allowed is not None and len(allowed) < len(tasks):
                    continue
            kept[node] = ([uid_of(one.pod) for one in victims], violations)
        return a.Candidates(candidates=kept)

    # -- events ---------------------------------------------------------------------------------------------------
    def _placed(self, asked: Question) -> a.Error:
        return self._tell(asked.parts["task"], allocated=True)

    def _freed(self, asked: Question) -> a.Error:
        return self._tell(asked.parts["task"], allocated=False)

    def _tell(self, told: TaskMessage, *, allocated: bool) -> a.Error:
        """Tell the handlers; like those in process they see the place that a task gives back."""
        task = self._told.task(told, moved=True)
        state, handlers = self._told.state, self._ssn.handlers
        with state.shown_at(task, state.nodes.get(told.node)):
            said = handlers.allocated(task)[0] if allocated else handlers.deallocated(task)
        return a.Error(error=said)

    def _bind(self, asked: Question) -> a.Error:
        """A policy binds only if it registered a binder; a bind that nobody did must not look done."""
        for binder in self._ssn.binds.binders.values():
            try:
                binder.bind(bind_of(asked.parts))
            except Exception as exc:
                return a.Error(error=f"{type(exc).__name__}: {exc}")
            return a.Error()
        return a.Error(error="no policy that is served here binds pods")


def bind_of(parts: dict[str, Any]) -> Bind:
    """What a bind question wants to be bound."""
    pod = parts["task"].pod
    return Bind(pod.key, pod.metadata.uid, parts["node"].node.metadata.name)


_FITS: Final = a.NodeRefusal()


def _point(verb: Verb[Any]) -> Point[..., Any, Any]:
    return t.POINTS[verb.points[0]]


def _echoed(asked: Question, tasks: Sequence[Task], chosen: Sequence[Task]) -> a.Victims:
    """The tasks of the question that were chosen, as they came."""
    raw = dict(zip((task.uid for task in tasks), asked.echo() or (), strict=True))
    uids = [task.uid for task in chosen if task.uid in raw]
    return a.Victims(status=1, uids=uids, echoed=[raw[uid] for uid in uids])


_GENERIC: Final[dict[type[Answer], Callable[[Responder, Verb[Any], list[Any]], Answer]]] = {
    a.VerdictAnswer: Responder._verdict,
    a.Overused: Responder._overused,
    a.Vote: Responder._vote,
    a.Acknowledged: Responder._acknowledge,
    a.Ranks: Responder._ranks,
}
"""Kind of answer -> the rule that gives it, whatever the verb."""

_SPECIAL: Final[dict[str, Callable[[Responder, Question], Answer]]] = {
    p.PREDICATE.name: Responder._predicate,
    p.BATCH_PREDICATE.name: Responder._batch_predicate,
    p.PRIORITIZE.name: Responder._prioritize,
    p.BEST_NODE.name: Responder._best_node,
    p.GPU_ORDER.name: Responder._gpu_order,
    p.PREEMPTABLE.name: Responder._victims,
    p.RECLAIMABLE.name: Responder._victims,
    p.VICTIM_TASKS.name: Responder._victim_tasks,
    p.PREEMPT.name: Responder._preempt,
    p.ALLOCATE_FUNC.name: Responder._placed,
    p.DEALLOCATE_FUNC.name: Responder._freed,
    p.BIND.name: Responder._bind,
}
"""Verb -> how it is answered where no rule fits; the session verbs are answered by ``PolicyServer``."""
