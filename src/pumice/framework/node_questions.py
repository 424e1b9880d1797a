"""Questions about nodes: does a task fit, how good is a place, which device, which hyper-node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pumice.engine.choose import Chooser
from pumice.engine.evaluate import Evaluator
from pumice.engine.rows import NodeRows
from pumice.engine.views import Filter, Floats, Scorer
from pumice.framework.chains import Chains, identity
from pumice.model.job import SubJob
from pumice.model.node import Node
from pumice.model.reason import Reason, Unfit, reason_of
from pumice.model.task import Task


class NodeQuestions(Chains):
    """Where can a task go. Mixed into `Session`."""

    @property
    def evaluator(self) -> Evaluator:
        """Answers about many nodes at once."""
        if self._evaluator is None:
            self._evaluator = self._make_evaluator()
        return self._evaluator

    def _make_evaluator(self) -> Evaluator:
        filters: list[Filter] = []
        scorers: list[Scorer] = []
        pairs = [(c, False) for tier in self.chain("predicate") for c in tier]
        pairs += [(c, True) for tier in self.chain("batch_predicate") for c in tier]
        position = {c_id: n for n, c_id in enumerate(self._positions("predicate", "batch_predicate"))} if pairs else {}
        for c, batch in sorted(pairs, key=lambda p: position[p[0].plugin]):
            filters.append(
                Filter(
                    *(c.plugin, position[c.plugin], c.fn, batch, c.scope, c.key, c.applies),
                    *(c.amounts_only, c.static_key, c.course),
                )
            )
        for point, batch in (("node_order", False), ("batch_node_order", True)):
            for tier in self.chain(point):
                for c in tier:
                    scorers.append(
                        Scorer(
                            c.plugin, c.fn, batch, c.scope, c.key, c.applies, c.normalize, c.amounts_only, c.static_key
                        )
                    )
        runtime = self.runtime
        kept = [(f.plugin, f.batch, f.scope) for f in filters] + [(s.plugin, s.batch, s.scope) for s in scorers]
        runtime.cache.use((self.signature, tuple(kept)))
        return Evaluator(self.state.table, filters, scorers, runtime.cache, self.contain)

    def _positions(self, *points: str) -> list[str]:
        """Plugins in the order in which they are asked."""
        if self._tiers is None:
            names = [c.plugin for p in points for tier in self.chain(p) for c in tier]
        else:
            asked = {c.plugin for p in points for tier in self.chain(p) for c in tier}
            order = [getattr(e.plugin, "name", e.name) for tier in self._tiers for e in tier]
            order += [e.name for tier in self._tiers for e in tier]
            names = [n for n in order if n in asked] + sorted(asked)
        return list(dict.fromkeys(names))

    @property
    def chooser(self) -> Chooser:
        """Chooses nodes."""
        if self._chooser is None:
            self._chooser = Chooser(
                self.evaluator,
                best_node=self._best_node if self.chain("best_node") else None,
                reduce=self._map_reduce if self.chain("node_map") else None,
                rng=self.runtime.rng(),
                score_single=not self.compat.unscored_single_candidate,
                pre_order=self._node_pre_order if self.chain("node_pre_order") else None,
            )
        return self._chooser

    def pre_predicate(self, task: Task) -> Reason | None:
        """Why the task can be placed nowhere, or None."""
        for tier in self.chain("pre_predicate"):
            for c in tier:
                try:
                    c.fn(task)
                except Unfit as no:
                    return Reason(c.plugin, no.text, no.code)
                except Exception as exc:
                    self.contain(c.plugin, c.point, exc, task)
                    return Reason(c.plugin, f"plugin {c.plugin} failed")
        return None

    def predicate(self, task: Task, node: Node) -> None:
        """Returns if the task fits the node (resources aside).

        :raises Unfit: it does not, and why.
        """
        reason = self.predicate_reason(task, node)
        if reason is not None:
            raise Unfit(reason.text, code=reason.code)

    def predicate_reason(self, task: Task, node: Node) -> Reason | None:
        """Why the task does not fit the node (resources aside), or None."""
        rows = NodeRows(self.state.table, np.array([node.row], dtype=np.intp))
        for f in self.evaluator.filters:
            if f.applies is None or f.applies(task):
                code = int(self.evaluator.ask_filter(f, task, rows)[0])
                if code:
                    return reason_of(code)
        return None

    def node_order(self, task: Task, node: Node) -> float:
        """The node's score for the task, all plugins together (scores that normalise see this node alone)."""
        view = self.evaluator.view(task)
        return float(self.chooser.scores(view, task, np.array([node.row], dtype=np.intp))[0])

    def batch_node_order(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        """The scores of several candidate nodes."""
        view = self.evaluator.view(task)
        index = np.array([n.row for n in nodes], dtype=np.intp)
        scores = self.chooser.scores(view, task, index)
        return {n.name: float(s) for n, s in zip(nodes, scores, strict=True)}

    def best_node(self, task: Task, scores: Mapping[str, float]) -> Node | None:
        """The node of a score table: a plugin's choice, else the highest score, ties by name."""
        chosen = self._best_node(task, dict(scores)) if self.chain("best_node") else None
        if chosen is None and scores:
            name = min(scores, key=lambda n: (-scores[n], n.encode()))
            chosen = self.state.table.by_name.get(name)
        return chosen

    def _best_node(self, task: Task, scores: dict[str, float]) -> Node | None:
        for tier in self.chain("best_node"):
            for c in tier:
                chosen = self._asked(c, identity, None, task, scores)
                if chosen is not None:
                    return self.state.table.by_name.get(chosen) if isinstance(chosen, str) else chosen
        return None

    def _map_reduce(self, task: Task, rows: NodeRows, _: Floats) -> Floats:
        total = np.zeros(len(rows))
        reducers = {c.plugin: c for tier in self.chain("node_reduce") for c in tier}
        for tier in self.chain("node_map"):
            for c in tier:
                mapped = {n.name: float(int(self._asked(c, float, 0.0, task, n) // 1)) for n in rows.nodes}
                reducer = reducers.get(c.plugin)
                if reducer is not None:
                    edited = self._asked(reducer, identity, None, task, mapped)
                    mapped = edited if isinstance(edited, dict) else mapped
                total = total + np.array([mapped.get(name, 0.0) for name in rows.names])
        return total

    def _node_pre_order(self, task: Task, rows: NodeRows) -> None:
        self._broadcast("node_pre_order", task, rows)

    def gpu_order(self, task: Task, node: Node, gpu: str) -> float | None:
        """A device's score, or None when a plugin drops it."""
        total = 0.0
        for tier in self.chain("gpu_order"):
            for c in tier:
                score = self._asked(c, float, float("nan"), task, node, gpu)
                if score != score:
                    return None
                total += score
        return total

    def pick_devices(self, task: Task, node: Node) -> tuple[int, ...]:
        """The devices that a task would get on a node, best `gpu_order` first, ties by index."""
        if not self.chain("gpu_order"):
            return ()

        def order(devices: Sequence[int]) -> list[int]:
            scored = [(self.gpu_order(task, node, str(d)), d) for d in devices]
            return [d for _, d in sorted((-s, d) for s, d in scored if s is not None)]

        return tuple(self.state.devices.pick(task, node, order))

    def bind_annotations(self, task: Task, node: Node) -> dict[str, str]:
        """Annotations to write with a bind."""
        out: dict[str, str] = {}
        for tier in self.chain("bind_request_mutate"):
            for c in tier:
                out.update(self._asked(c, dict, {}, task, node.name))
        return out

    # -- hyper-nodes ------------------------------------------------------------------------------------------------
    def hyper_node_order(self, sub_job: SubJob, groups: Mapping[str, Sequence[Node]]) -> dict[str, float]:
        """The score of each hyper-node for a sub-job."""
        total = dict.fromkeys(groups, 0.0)
        for tier in self.chain("hyper_node_order"):
            for c in tier:
                answer: dict[str, float] = self._asked(c, dict, {}, sub_job, groups)
                for name, score in answer.items():
                    total[name] = total.get(name, 0.0) + score
        return total

    def hyper_node_gradient(self, point: str, subject: Any, hyper_node: Any, purpose: str) -> list[list[Any]]:
        """The hyper-nodes to try, group by group: the first plugin decides."""
        for tier in self.chain(point):
            for c in tier:
                return self._asked(c, list, [[hyper_node]], subject, hyper_node, purpose)
        return [[hyper_node]]
