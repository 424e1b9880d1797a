"""Questions about nodes: predicate, batchPredicate, prioritize, bestNode, gpuOrder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from pumice.engine.rows import NodeRows
from pumice.engine.scope import Scope
from pumice.extender import protocol as p
from pumice.extender.answers import Refusal, Scores
from pumice.extender.asking.caller import CallFailed
from pumice.extender.asking.context import ExtenderContext
from pumice.extender.protocol import Outcome
from pumice.framework.session.session import Session
from pumice.model.node import Node
from pumice.model.reason import FITS, Code, Unfit, reason_id
from pumice.model.task import Task

Reasons = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
REASON_LENGTH: Final = 500


class NodeHooks:
    """Registers what the extender says about nodes."""

    def __init__(self, ssn: Session, context: ExtenderContext) -> None:
        self._context = context
        self._instant = (-1, -1)
        self._known: dict[tuple[str, int], dict[int, int]] = {}
        self._devices: dict[tuple[str, str], dict[str, float] | None] = {}
        name, settings = context.name, context.settings
        applies = context.tasks.manages if settings.managed else None
        key = None if settings.scope is Scope.SESSION else self._key
        if context.has(p.BATCH_PREDICATE):
            ssn.add_batch_predicate_fn(name, self.batch_predicate, scope=settings.scope, key=key, applies=applies)
        elif context.has(p.PREDICATE):
            ssn.add_batch_predicate_fn(name, self.predicate, scope=settings.scope, key=key, applies=applies)
        if context.has(p.PRIORITIZE):
            ssn.add_batch_node_order_fn(name, self.prioritize, scope=settings.scope, key=key, applies=applies)
        if context.has(p.BEST_NODE):
            ssn.add_best_node_fn(name, self.best_node)
        if context.has(p.GPU_ORDER):
            ssn.add_gpu_order_fn(name, self.gpu_order)

    def _key(self, task: Task) -> Hashable:
        """Answers are kept per class, job and interest; those of a session that saw failures are not used again."""
        return task.job_key, self._context.tasks.concerns(task), self._context.memory.get("failing", 0)

    # -- filters --------------------------------------------------------------------------------------------------
    def predicate(self, task: Task, rows: NodeRows) -> Reasons:
        """One call per node, all on their way at once."""
        return self._filter(task, rows, self._ask_each)

    def batch_predicate(self, task: Task, rows: NodeRows) -> Reasons:
        """One call for all nodes."""
        return self._filter(task, rows, self._ask_all)

    def _filter(self, task: Task, rows: NodeRows, ask: Callable[[Task, NodeRows], list[int]]) -> Reasons:
        """A reason number per row. The same question about the same instant is asked once."""
        if not self._context.tasks.concerns(task):
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
        context = self._context
        bodies = context.writer.predicate(p.PREDICATE, task, rows)
        answers = context.calls.ask_many(p.PREDICATE, bodies)
        return [self._failure(one) if isinstance(one, CallFailed) else self._refusal(one) for one in answers]

    def _refusal(self, answer: Refusal) -> int:
        """The reason number of an answer; under ``compat: volcano`` a code without a text lets pass."""
        if not answer.text and (not answer.code or self._context.volcano):
            return FITS
        text = answer.text or f"refused with code {answer.code}"
        return reason_id(self._context.name, text[:REASON_LENGTH], _code(answer.code))

    def _ask_all(self, task: Task, rows: NodeRows) -> list[int]:
        context, verb = self._context, p.BATCH_PREDICATE
        try:
            answer = context.calls.ask(verb, context.writer.nodes(verb, task, rows))
            if answer.error:
                raise context.calls.unusable(verb, answer.error)
        except CallFailed as failure:
            return [self._failure(failure)] * len(rows)
        names = rows.names
        refused = answer.refused(names)
        unknown = (answer.errors.keys() | answer.codes.keys()) - set(names)
        if unknown:
            context.calls.odd(verb, f"the answer names nodes that were not asked about: {_few(unknown)}")
        return [
            reason_id(context.name, refused[name][1][:REASON_LENGTH], _code(refused[name][0]))
            if name in refused
            else FITS
            for name in names
        ]

    def _failure(self, failure: CallFailed) -> int:
        """The reason that a failed call is for the nodes it was about."""
        if self._context.outcome(p.VERBS[failure.verb]) is not Outcome.NO:
            return FITS
        return reason_id(self._context.name, str(failure)[:REASON_LENGTH], Code.ERROR)

    # -- scores ---------------------------------------------------------------------------------------------------
    def prioritize(self, task: Task, rows: NodeRows) -> Floats:
        """One call for all candidates.

        :raises Unfit: the extender failed and that may not be ignored. Where answers are kept, minus infinity instead.
        """
        context, verb = self._context, p.PRIORITIZE
        if not context.tasks.concerns(task):
            return np.zeros(len(rows))
        fails = context.outcome(verb) is Outcome.NO
        try:
            answer = context.calls.ask(verb, context.writer.nodes(verb, task, rows))
            problem = answer.error or ("" if isinstance(answer.scores, dict) else "the answer has no nodeScore")
            if problem:
                fails = fails or context.volcano  # to Volcano such an answer is an error even where errors are ignored
                raise context.calls.unusable(verb, problem)
        except CallFailed as failure:
            if not fails:
                return np.zeros(len(rows))
            if context.settings.scope is not Scope.SESSION:
                return np.full(len(rows), -np.inf)
            raise Unfit(str(failure)[:REASON_LENGTH], code=Code.ERROR) from failure
        return self._scores(answer, rows.names)

    def _scores(self, answer: Scores, names: list[str]) -> Floats:
        scores = answer.scores if isinstance(answer.scores, dict) else {}
        unknown = scores.keys() - set(names)
        if unknown:
            self._context.calls.odd(p.PRIORITIZE, f"the answer scores nodes that were not asked about: {_few(unknown)}")
        found = np.array([scores.get(name, 0.0) for name in names], dtype=np.float64)
        return found * self._context.settings.weight

    def best_node(self, task: Task, scores: dict[str, float]) -> str | None:
        """The node that the extender picks of those that were scored."""
        context, verb = self._context, p.BEST_NODE
        if not context.tasks.concerns(task):
            return None
        try:
            answer = context.calls.ask(verb, context.writer.question(verb, task, scores))
            if answer.error:
                raise context.calls.unusable(verb, answer.error)
        except CallFailed:
            return None  # nobody can refuse here: the choice is left to the scores
        if answer.node_name and answer.node_name not in scores:
            context.calls.odd(verb, f"the answer picks {answer.node_name!r}, which was not asked about")
            return None
        return answer.node_name or None

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float:
        """The device's score; one call for all devices of a node.

        :raises Unfit: the extender failed and that may not be ignored: the device is dropped.
        """
        context = self._context
        if not context.tasks.concerns(task):
            return 0.0
        key = (task.uid, node.name)
        if key not in self._devices:
            self._devices[key] = self._device_scores(task, node)
        scores = self._devices[key]
        if scores is None:
            raise Unfit("the extender did not score the devices", code=Code.ERROR)
        return scores.get(gpu, 0.0)

    def _device_scores(self, task: Task, node: Node) -> dict[str, float] | None:
        """Scores by device; None after a failure that is not ignored."""
        context, verb = self._context, p.GPU_ORDER
        try:
            answer = context.calls.ask(verb, context.writer.question(verb, task, node, node))
            if answer.error:
                raise context.calls.unusable(verb, answer.error)
        except CallFailed:
            return None if context.outcome(verb) is Outcome.NO else {}
        return answer.scores


def _code(number: int) -> Code:
    """The code of a refusal; 0 and unknown ones are errors."""
    return Code(number) if 1 <= number <= 5 else Code.ERROR


def _few(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")
