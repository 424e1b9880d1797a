"""One function per verb: what the served policies say to it. A point that nobody registered gets the neutral answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any, Final

from pumice.extender.server.knowledge import Knowledge
from pumice.extender.server.session import ServedSession
from pumice.extender.wire import messages as m
from pumice.extender.wire import verbs as v
from pumice.extender.wire.objects import Wire, WireNode, WireTask, WireVictims
from pumice.framework.points import Point
from pumice.framework.points import table as t
from pumice.model.intents import Bind
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.reason import Unfit, reason_of
from pumice.model.task import Task

_UNSEEN: Final = "the extender has not seen this node yet"


class Answering:
    """Answers questions on one session. *dialect* is that of the question: what it tells differs."""

    def __init__(self, knowledge: Knowledge, session: ServedSession, dialect: str) -> None:
        self._knowledge, self._ssn = knowledge, session
        self._ledgers_told = dialect != "kube"
        self._sums_told = dialect in ("documented", "both")

    # -- nodes ----------------------------------------------------------------------------------------------------
    def predicate(self, request: m.PredicateRequest) -> m.PredicateResponse:
        refused = self._all_refusals(request.task, [request.node])
        if not refused:
            return m.PredicateResponse()
        code, text = refused[request.node.name]
        return m.PredicateResponse(text=text, code=code)

    def batch_predicate(self, request: m.NodesRequest) -> m.BatchPredicateResponse:
        return m.BatchPredicateResponse.to(request, self._all_refusals(request.task, request.nodes, request.names_only))

    def _all_refusals(
        self, told: WireTask, nodes: list[WireNode], names_only: bool = False
    ) -> dict[str, tuple[int, str]]:
        """Code and reason by node name; a node that the cluster has not shown is refused for now."""
        known = self._nodes(nodes, names_only)
        refused = self._refusals(self._knowledge.task(told), known)
        if len(known) < len(nodes):
            names = {node.name for node in known}
            refused |= {node.name: (2, _UNSEEN) for node in nodes if node.name not in names}
        return refused

    def _refusals(self, task: Task, nodes: list[Node]) -> dict[str, tuple[int, str]]:
        """Code and reason by node name; the first objection counts."""
        ssn = self._ssn
        if not nodes:
            return {}
        before = ssn.pre_predicate(task)
        if not before:
            return {node.name: (int(before.code), _said(before.text)) for node in nodes}
        refused = {}
        for node, number in zip(nodes, ssn.objections(task, nodes), strict=True):
            if number:
                reason = reason_of(number)
                refused[node.name] = (int(reason.code), _said(reason.text))
        return refused

    def prioritize(self, request: m.NodesRequest) -> m.PrioritizeResponse:
        nodes, task = self._nodes(request.nodes, request.names_only), self._knowledge.task(request.task)
        if not nodes:
            return m.PrioritizeResponse(scores={})
        try:
            scores = self._ssn.all_scores(task, nodes)
        except Unfit as no:
            return m.PrioritizeResponse(scores={}, error=_said(no.text))
        return m.PrioritizeResponse(scores=scores)

    def best_node(self, request: m.BestNodeRequest) -> m.BestNodeResponse:
        task = self._knowledge.task(request.task)
        chosen = self._ssn.search.best_node(task, dict(request.scores))
        return m.BestNodeResponse(node_name=chosen.name if chosen is not None else "")

    def gpu_order(self, request: m.GpuOrderRequest) -> m.GpuOrderResponse:
        nodes, task = self._nodes([request.node]), self._knowledge.task(request.task)
        if not nodes or not self._ssn.anybody(t.GPU_ORDER):
            return m.GpuOrderResponse()
        node = nodes[0]
        scores = {gpu.index: self._ssn.gpu_order(task, node, gpu.index) for gpu in request.gpus}
        return m.GpuOrderResponse(scores={index: score for index, score in scores.items() if score is not None})

    # -- victims --------------------------------------------------------------------------------------------------
    def preemptable(self, request: m.VictimsRequest) -> m.VictimsResponse:
        return self._victims(t.PREEMPTABLE, request)

    def reclaimable(self, request: m.VictimsRequest) -> m.VictimsResponse:
        return self._victims(t.RECLAIMABLE, request)

    def _victims(self, point: Point[..., Any, Any], request: m.VictimsRequest) -> m.VictimsResponse:
        evictor = self._knowledge.task(request.evictor)
        evictees = [self._knowledge.task(task) for task in request.evictees]
        chosen = self._ssn.evictable(point, evictor, evictees)
        if chosen is None:
            return m.VictimsResponse(status=0, victims=[])
        return m.VictimsResponse(status=1, victims=_echoed(request.evictees, chosen))

    def victim_tasks(self, request: m.TasksRequest) -> m.VictimsResponse:
        tasks = [self._knowledge.task(task) for task in request.tasks]
        return m.VictimsResponse(status=1, victims=_echoed(request.tasks, self._ssn.victim_tasks(tasks)))

    def preempt(self, request: m.PreemptRequest) -> m.PreemptResponse:
        task = self._knowledge.task(request.task)
        if not self._ssn.anybody(t.PREEMPTABLE):
            return m.PreemptResponse(candidates=request.candidates)
        kept: dict[str, WireVictims] = {}
        for node, victims in request.candidates.items():
            tasks = [self._knowledge.task(one) for one in victims.tasks]
            allowed = self._ssn.preemptable(task, tasks)
            if allowed is None or len(allowed) == len(tasks):
                kept[node] = victims
        return m.PreemptResponse(candidates=kept)

    # -- jobs and queues ------------------------------------------------------------------------------------------
    def job_enqueueable(self, request: m.JobRequest) -> m.VoteResponse:
        return self._vote(t.JOB_ENQUEUEABLE, self._knowledge.job(request.job))

    def job_pipelined(self, request: m.JobRequest) -> m.VoteResponse:
        return self._vote(t.JOB_PIPELINED, self._knowledge.job(request.job))

    def _vote(self, point: Point[..., Any, Any], job: Job) -> m.VoteResponse:
        """One tier's vote: a reject counts above a permit."""
        votes = [0 if said is None else 1 if said.passed else -1 for _, said in self._ssn.each(point, job)]
        return m.VoteResponse(status=min(votes, default=0) if min(votes, default=0) < 0 else max(votes, default=0))

    def job_enqueued(self, request: m.JobRequest) -> m.Acknowledged:
        self._ssn.job_enqueued(self._knowledge.job(request.job))
        return m.Acknowledged()

    def job_ready(self, request: m.JobRequest) -> m.VerdictResponse:
        return _verdict(self._ssn.job_ready(self._knowledge.job(request.job)))

    def job_valid(self, request: m.JobRequest) -> m.VerdictResponse:
        job = self._knowledge.job(request.job)
        return _verdict(self._ssn.ask(t.JOB_VALID, job))

    def queue_overused(self, request: m.QueueRequest) -> m.OverusedResponse:
        queue = self._knowledge.queue(request.queue, sums_told=self._sums_told)
        return m.OverusedResponse(overused=bool(self._ssn.overused(queue)))

    def allocatable(self, request: m.AllocatableRequest) -> m.VerdictResponse:
        queue = self._knowledge.queue(request.queue, sums_told=self._sums_told)
        return _verdict(self._ssn.allocatable(queue, self._knowledge.task(request.task)))

    # -- orders ---------------------------------------------------------------------------------------------------
    def job_order(self, request: m.JobsRequest) -> m.OrderResponse:
        jobs = [self._knowledge.job(job) for job in request.jobs]
        return self._ranks(t.JOB_ORDER, jobs, [job.uid for job in jobs])

    def task_order(self, request: m.TasksRequest) -> m.OrderResponse:
        tasks = [self._knowledge.task(task) for task in request.tasks]
        return self._ranks(t.TASK_ORDER, tasks, [task.uid for task in tasks])

    def queue_order(self, request: m.QueuesRequest) -> m.OrderResponse:
        queues = [self._knowledge.queue(queue, sums_told=self._sums_told) for queue in request.queues]
        return self._ranks(t.QUEUE_ORDER, queues, [queue.name for queue in queues])

    def _ranks(self, point: Point[..., Any, int], things: Sequence[Any], names: Sequence[str]) -> m.OrderResponse:
        """Ranks by place in the order; those that nobody tells apart share one."""
        ssn = self._ssn
        if not ssn.anybody(point):
            return m.OrderResponse()

        def compare(left: int, right: int) -> int:
            return ssn.ask(point, things[left], things[right])

        order = sorted(range(len(things)), key=cmp_to_key(compare))
        ranks: dict[str, float] = {}
        rank = 0
        for at, this in enumerate(order):
            if at and compare(order[at - 1], this):
                rank += 1
            ranks[names[this]] = rank
        return m.OrderResponse(ranks=ranks)

    # -- events ---------------------------------------------------------------------------------------------------
    def allocate_func(self, request: m.TaskRequest) -> m.ErrorResponse:
        return self._tell(request, "allocate")

    def deallocate_func(self, request: m.TaskRequest) -> m.ErrorResponse:
        return self._tell(request, "deallocate")

    def _tell(self, request: m.TaskRequest, which: str) -> m.ErrorResponse:
        """Tell the handlers; like those in process they see the place that a task gives back."""
        task = self._knowledge.task(request.task, moved=True)
        state = self._knowledge.state
        with state.shown_at(task, state.nodes.get(request.task.node_name)):
            handlers = self._ssn.handlers
            said = handlers.allocated(task)[0] if which == "allocate" else handlers.deallocated(task)
        return m.ErrorResponse(error=said)

    def bind(self, request: m.BindRequest) -> m.ErrorResponse:
        """A policy binds only if it registered a binder; a bind that nobody did must not look done."""
        task = request.task
        intent = Bind(f"{task.namespace}/{task.name}", task.uid, request.node.name)
        for binder in self._ssn.binds.binders.values():
            try:
                binder.bind(intent)
            except Exception as exc:
                return m.ErrorResponse(error=f"{type(exc).__name__}: {exc}")
            return m.ErrorResponse()
        return m.ErrorResponse(error="no policy that is served here binds pods")

    def _nodes(self, nodes: list[WireNode], names_only: bool = False) -> list[Node]:
        """The nodes of a question, in its order, without those that the cluster has not shown."""
        find = self._knowledge.named if names_only else self._knowledge.found
        found = (find(node, ledgers_told=self._ledgers_told) for node in nodes)
        return [node for node in found if node is not None]


def _said(text: str) -> str:
    return text or "refused"


def _echoed(asked: list[WireTask], chosen: Sequence[Task]) -> list[WireTask]:
    """The tasks of the request, because Volcano evicts what it reads here."""
    by_uid = {task.uid: task for task in asked}
    return [by_uid[task.uid] for task in chosen if task.uid in by_uid]


def _verdict(verdict: Any) -> m.VerdictResponse:
    if verdict.passed:
        return m.VerdictResponse(status=True)
    return m.VerdictResponse(status=False, reason=verdict.reason, message=verdict.text)


Answer = Callable[[Answering, Any], Wire]

ANSWERS: Final[dict[str, Answer]] = {
    v.PREDICATE.name: Answering.predicate,
    v.BATCH_PREDICATE.name: Answering.batch_predicate,
    v.PRIORITIZE.name: Answering.prioritize,
    v.BEST_NODE.name: Answering.best_node,
    v.GPU_ORDER.name: Answering.gpu_order,
    v.PREEMPTABLE.name: Answering.preemptable,
    v.RECLAIMABLE.name: Answering.reclaimable,
    v.VICTIM_TASKS.name: Answering.victim_tasks,
    v.PREEMPT.name: Answering.preempt,
    v.JOB_ENQUEUEABLE.name: Answering.job_enqueueable,
    v.JOB_PIPELINED.name: Answering.job_pipelined,
    v.JOB_ENQUEUED.name: Answering.job_enqueued,
    v.JOB_READY.name: Answering.job_ready,
    v.JOB_VALID.name: Answering.job_valid,
    v.QUEUE_OVERUSED.name: Answering.queue_overused,
    v.ALLOCATABLE.name: Answering.allocatable,
    v.JOB_ORDER.name: Answering.job_order,
    v.TASK_ORDER.name: Answering.task_order,
    v.QUEUE_ORDER.name: Answering.queue_order,
    v.ALLOCATE_FUNC.name: Answering.allocate_func,
    v.DEALLOCATE_FUNC.name: Answering.deallocate_func,
    v.BIND.name: Answering.bind,
}
"""Verb -> how it is answered; the session verbs are answered by ``Served``."""
