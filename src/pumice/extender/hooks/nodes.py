"""Questions about nodes: predicate, batchPredicate, prioritize, bestNode, gpuOrder."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.extender import translate
from pumice.extender.hooks.talk import Talk
from pumice.extender.port import CallFailed
from pumice.extender.reading import REASON_LENGTH, code_of
from pumice.extender.wire.messages import BestNodeRequest, GpuOrderRequest, PrioritizeResponse
from pumice.extender.wire.verbs import BATCH_PREDICATE, BEST_NODE, GPU_ORDER, PREDICATE, PRIORITIZE
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import FITS, Code, Unfit, reason_id
from pumice.model.task import Task

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class NodeHooks:
    """Registers what the extender says about nodes."""

    def __init__(self, ssn: Session, talk: Talk) -> None:
        self._ssn, self._talk = ssn, talk
        self._instant = (-1, -1)
        self._known: dict[tuple[str, int], dict[int, int]] = {}
        self._devices: dict[tuple[str, str], dict[str, float]] = {}
        name, settings = talk.name, talk.settings
        applies = talk.interest.manages if settings.managed else None
        key = None if settings.scope is Scope.SESSION else self._key
        if talk.has(BATCH_PREDICATE.name):
            ssn.add_batch_predicate_fn(name, self.batch_predicate, scope=settings.scope, key=key, applies=applies)
        elif talk.has(PREDICATE.name):
            ssn.add_batch_predicate_fn(name, self.predicate, scope=settings.scope, key=key, applies=applies)
        if talk.has(PRIORITIZE.name):
            ssn.add_batch_node_order_fn(name, self.prioritize, scope=settings.scope, key=key, applies=applies)
        if talk.has(BEST_NODE.name):
            ssn.add_best_node_fn(name, self.best_node)
        if talk.has(GPU_ORDER.name):
            ssn.add_gpu_order_fn(name, self.gpu_order)

    def _key(self, task: Task) -> Hashable:
        """Answers are kept per class, job and interest; those of a session that saw failures are not used again."""
        return task.job_key, self._talk.interest.concerns(task), self._talk.memory.get("failing", 0)

    # -- filters --------------------------------------------------------------------------------------------------
    def predicate(self, task: Task, rows: NodeRows) -> Reasons:
        """One call per node, all on their way at once."""
        return self._filter(task, rows, self._ask_each)

    def batch_predicate(self, task: Task, rows: NodeRows) -> Reasons:
        """One call for all nodes."""
        return self._filter(task, rows, self._ask_all)

    def _filter(self, task: Task, rows: NodeRows, ask: Callable[[Task, NodeRows], list[int]]) -> Reasons:
        """A reason number per row. The same question about the same instant is asked once."""
        if not self._talk.interest.concerns(task):
            return np.zeros(len(rows), dtype=np.int32)
        if rows.extra is not None:
            return np.array(ask(task, rows), dtype=np.int32)
        table = rows.table
        instant = (table.touched.position, table.changed.position)
        if instant != self._instant:
            self._instant, self._known = instant, {}
        known = self._known.setdefault((task.uid, task.status), {})
        listed = rows.index.tolist()
        fresh = [row for row in listed if row not in known]
        if fresh:
            answers = ask(task, NodeRows(table, np.array(fresh, dtype=np.intp)))
            known.update(zip(fresh, answers, strict=True))
        return np.array([known[row] for row in listed], dtype=np.int32)

    def _ask_each(self, task: Task, rows: NodeRows) -> list[int]:
        talk = self._talk
        bodies = talk.writer.predicate(task, rows)
        out = []
        for answer in talk.conversation.ask_many(PREDICATE, bodies):
            if isinstance(answer, CallFailed):
                out.append(self._failure(answer))
            else:
                refused = talk.reading.refusal(answer)
                out.append(FITS if refused is None else reason_id(talk.name, *refused))
        return out

    def _ask_all(self, task: Task, rows: NodeRows) -> list[int]:
        talk = self._talk
        try:
            answer = talk.conversation.ask(BATCH_PREDICATE, talk.writer.nodes(BATCH_PREDICATE, task, rows))
            if answer.error:
                failure = CallFailed(BATCH_PREDICATE.name, "answer", answer.error)
                talk.conversation.failed(failure)
                raise failure
        except CallFailed as failure:
            return [self._failure(failure)] * len(rows)
        names = rows.names
        refused = answer.refusals(names)
        unknown = (answer.errors.keys() | answer.codes.keys()) - set(names)
        if unknown:
            talk.conversation.odd(BATCH_PREDICATE, f"the answer names nodes that were not asked about: {_few(unknown)}")
        return [
            reason_id(talk.name, refused[name][1][:REASON_LENGTH], code_of(refused[name][0]))
            if name in refused
            else FITS
            for name in names
        ]

    def _failure(self, failure: CallFailed) -> int:
        """The reason that a failed call is for the nodes it was about."""
        if self._talk.ignores(failure.verb):
            return FITS
        return reason_id(self._talk.name, str(failure)[:REASON_LENGTH], Code.ERROR)

    # -- scores ---------------------------------------------------------------------------------------------------
    def prioritize(self, task: Task, rows: NodeRows) -> Floats:
        """One call for all candidates.

        :raises Unfit: the extender failed and that may not be ignored. Where answers are kept, minus infinity instead.
        """
        talk = self._talk
        if not talk.interest.concerns(task):
            return np.zeros(len(rows))
        ignored = talk.ignores(PRIORITIZE.name)
        try:
            answer = talk.conversation.ask(PRIORITIZE, talk.writer.nodes(PRIORITIZE, task, rows))
            problem = talk.reading.score_problem(answer)
            if problem:
                ignored = ignored and talk.reading.score_errors_ignorable
                failure = CallFailed(PRIORITIZE.name, "answer", problem)
                talk.conversation.failed(failure)
                raise failure
        except CallFailed as failure:
            if ignored:
                return np.zeros(len(rows))
            if talk.settings.scope is not Scope.SESSION:
                return np.full(len(rows), -np.inf)
            raise Unfit(str(failure)[:REASON_LENGTH], code=Code.ERROR) from failure
        return self._scores(answer, rows.names)

    def _scores(self, answer: PrioritizeResponse, names: list[str]) -> Floats:
        scores = answer.scores if isinstance(answer.scores, dict) else {}
        unknown = scores.keys() - set(names)
        if unknown:
            self._talk.conversation.odd(
                PRIORITIZE, f"the answer scores nodes that were not asked about: {_few(unknown)}"
            )
        weight = self._talk.settings.weight
        return np.array([scores.get(name, 0.0) for name in names], dtype=np.float64) * weight

    def best_node(self, task: Task, scores: dict[str, float]) -> str | None:
        """The node that the extender picks of those that were scored."""
        talk = self._talk
        if not talk.interest.concerns(task):
            return None
        request = BestNodeRequest(task=translate.wire_task(task), scores=scores)
        try:
            answer = talk.conversation.ask(BEST_NODE, talk.writer.request(BEST_NODE, request))
            if answer.error:
                failure = CallFailed(BEST_NODE.name, "answer", answer.error)
                talk.conversation.failed(failure)
                raise failure
        except CallFailed as failure:
            if talk.ignores(BEST_NODE.name):
                return None
            raise Unfit(str(failure)[:REASON_LENGTH], code=Code.ERROR) from failure
        if answer.node_name and answer.node_name not in scores:
            talk.conversation.odd(BEST_NODE, f"the answer picks {answer.node_name!r}, which was not asked about")
            return None
        return answer.node_name or None

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        """The device's score; one call for all devices of a node. NaN (the device is dropped) after a failure."""
        talk = self._talk
        if not talk.interest.concerns(task):
            return 0.0
        key = (task.uid, node.name)
        if key not in self._devices:
            request = GpuOrderRequest(
                task=translate.wire_task(task), node=translate.wire_node(node), gpus=translate.wire_gpus(node)
            )
            try:
                answer = talk.conversation.ask(GPU_ORDER, talk.writer.request(GPU_ORDER, request))
                self._devices[key] = answer.scores
            except CallFailed:
                self._devices[key] = {} if talk.ignores(GPU_ORDER.name) else {gpu: float("nan")}
        return self._devices[key].get(gpu, 0.0)


def _few(names: set[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
