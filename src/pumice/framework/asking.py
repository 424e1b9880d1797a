"""Asking: every point can be asked by name, and each answer is folded by its rule."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pumice.engine.choose import Chooser
from pumice.engine.evaluate import Evaluator
from pumice.engine.goheap import OrderedQueue
from pumice.engine.rows import NodeRows
from pumice.engine.views import Filter, Floats, Scorer
from pumice.framework import answers, folds
from pumice.framework.backlog import Backlog
from pumice.framework.callbacks import Callback
from pumice.framework.compat import Compat
from pumice.framework.points import POINTS
from pumice.framework.runtime import Runtime
from pumice.model.job import Job, SubJob
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import PASS, Reason, Unfit, Verdict, reason_of
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.session import PluginEntry

T = TypeVar("T")
A = TypeVar("A")


class Asking:
    """The questions of a session. Mixed into `Session`."""

    _registered: dict[str, dict[str, list[Callback]]]
    _tiers: Sequence[Sequence[PluginEntry]] | None
    state: ClusterState
    runtime: Runtime
    compat: Compat
    signature: object

    def _init_asking(self) -> None:
        self._chains: dict[str, list[list[Callback]]] = {}
        self._evaluator: Evaluator | None = None
        self._chooser: Chooser | None = None
        self._job_keys: dict[str, tuple[int, Any]] = {}
        self._keyed: dict[str, Callable[[Any], Any] | None] = {}
        self._preemptive: dict[Hashable, Verdict] = {}
        self._preemptive_at = -1

    def _ask_anew(self, point: str) -> None:
        """Somebody registered: forget what was made of the chains before."""
        self._chains.pop(point, None)
        self._keyed.pop(point, None)
        self._evaluator = None
        self._chooser = None

    # -- chains -----------------------------------------------------------------------------------------------------
    def chain(self, point: str) -> list[list[Callback]]:
        """The callbacks that are really asked at a point, tier by tier."""
        known = self._chains.get(point)
        if known is None:
            registered = self._registered.get(point, {})
            if not registered:
                known = []
            elif self._tiers is None:
                known = [[c for callbacks in registered.values() for c in callbacks]]
            else:
                flag = POINTS[point].flag
                known = []
                for tier in self._tiers:
                    callbacks: list[Callback] = []
                    for entry in tier:
                        own = self._lookup(registered, entry)
                        if own and (flag is None or entry.enabled(flag)):
                            callbacks += own
                    if callbacks:
                        known.append(callbacks)
            self._chains[point] = known
            self._keyed.pop(point, None)
        return known

    @staticmethod
    def _lookup(registered: Mapping[str, list[Callback]], entry: PluginEntry) -> list[Callback]:
        found = registered.get(entry.name)
        if found is None:
            found = registered.get(getattr(entry.plugin, "name", ""), [])
        return found

    def _asked(self, callback: Callback, shape: Callable[[Any], A], failed: A, *args: Any) -> A:
        """One callback's answer in its shape; if it fails, what its point's failure policy says."""
        try:
            return shape(callback.fn(*args))
        except Unfit:
            raise
        except Exception as exc:
            self.contain(callback.plugin, callback.point, exc, *_about(args))
            return failed

    def contain(
        self, plugin: str, point: str, exc: Exception, task: Task | None = None, node: Node | None = None
    ) -> None:
        raise NotImplementedError

    # -- orders -----------------------------------------------------------------------------------------------------
    def _compare(self, point: str, left: Any, right: Any, *more: Any) -> int:
        def ask(callback: Callback) -> int:
            if callback.sort_key:
                a, b = (self._asked(callback, _identity, 0, x) for x in (left, right))
                return (a > b) - (a < b)
            return self._asked(callback, answers.comparison, 0, left, right, *more)

        return folds.first_comparison(self.chain(point), ask)

    def _sort_key(self, point: str, fallback: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
        """A key for an order in which every plugin gives keys; None when one compares pairs."""
        if point not in self._keyed:
            chain = self.chain(point)
            functions = [c.fn for tier in chain for c in tier]
            if all(c.sort_key for tier in chain for c in tier):
                self._keyed[point] = _joined(functions, fallback)
            else:
                self._keyed[point] = None
        return self._keyed[point]

    def job_order(self, left: Job, right: Job) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("job_order", left, right)

    def job_less(self) -> Callable[[Job, Job], bool]:
        """The order of jobs, with creation time and UID as last resort."""
        key = self._sort_key("job_order", _job_fallback)
        if key is not None:
            cache = self._job_keys

            def keyed(job: Job) -> Any:
                held = cache.get(job._uid)
                if held is None or held[0] != job.version:
                    held = cache[job._uid] = (job.version, key(job))
                return held[1]

            return lambda left, right: keyed(left) < keyed(right)

        def less(left: Job, right: Job) -> bool:
            c = self.job_order(left, right)
            return c < 0 if c else _job_fallback(left) < _job_fallback(right)

        return less

    def job_key(self) -> Callable[[Job], Any]:
        """A sort key for jobs, whatever shape the plugins give their order in."""
        key = self._sort_key("job_order", _job_fallback)
        if key is not None:
            return key
        less = self.job_less()
        return cmp_to_key(lambda a, b: -1 if less(a, b) else 1)

    def reorder_jobs(self) -> None:
        """What the sort keys of jobs are made of has changed (not the jobs): order all waiting jobs anew."""
        self.runtime.backlog.forget()

    def backlog(self) -> Backlog:
        """The waiting jobs of every queue, in order and up to date."""
        keyed = self._sort_key("job_order", _job_fallback) is not None
        backlog = self.runtime.backlog
        backlog.sync(self.state, self.job_key(), (id(self.state), self.signature) if keyed else None)
        return backlog

    def task_order(self, left: Task, right: Task) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("task_order", left, right)

    def task_less(self, left: Task, right: Task) -> bool:
        """The order of tasks, with pod index, creation time and UID as last resort."""
        c = self.task_order(left, right)
        return c < 0 if c else _task_fallback(left, right) < 0

    def sorted_tasks(self, tasks: Iterable[Task]) -> list[Task]:
        """Tasks in order, first to last."""
        listed = list(tasks)
        if len(listed) < 2:
            return listed
        indexed = all(t.order is not None for t in listed)
        plain = not indexed and all(t.order is None for t in listed)
        key = self._sort_key("task_order", _task_key) if indexed or plain else None
        if key is not None:
            return sorted(listed, key=key)

        def compare(left: Task, right: Task) -> int:
            return -1 if self.task_less(left, right) else 1

        return sorted(listed, key=cmp_to_key(compare))

    def queue_order(self, left: Queue, right: Queue) -> int:
        """Below 0: left first. 0: no plugin tells them apart."""
        return self._compare("queue_order", left, right)

    def queue_less(self, left: Queue, right: Queue) -> bool:
        """The order of queues, with creation time and name as last resort."""
        c = self.queue_order(left, right)
        return c < 0 if c else (left._creation, left._name) < (right._creation, right._name)

    def victim_queue_less(self, left: Queue, right: Queue, preemptor: Queue) -> bool:
        """From which queue victims are taken first."""
        c = self._compare("victim_queue_order", left, right, preemptor)
        return c < 0 if c else not self.queue_less(left, right)

    def sub_job_less(self, left: SubJob, right: SubJob) -> bool:
        """The order of sub-jobs, with match index and UID as last resort."""
        c = self._compare("sub_job_order", left, right)
        return c < 0 if c else (left.match_index, left.uid) < (right.match_index, right.uid)

    def queue_heap(self, queues: Iterable[Queue] = ()) -> OrderedQueue[Queue]:
        """Queues to be popped in order."""
        return OrderedQueue(self.queue_less, queues)

    def job_heap(self, jobs: Iterable[Job] = ()) -> OrderedQueue[Job]:
        """Jobs to be popped in order."""
        return OrderedQueue(self.job_less(), jobs)

    # -- jobs -------------------------------------------------------------------------------------------------------
    def _verdict(self, point: str, *args: Any) -> Verdict:
        chain = self.chain(point)
        if not chain:
            return PASS
        failed = Verdict(False, "the plugin failed")
        return folds.all_pass(chain, lambda c: self._asked(c, answers.verdict, failed, *args))

    def _vote(self, point: str, *args: Any) -> Verdict:
        chain = self.chain(point)
        if not chain:
            return PASS
        said = ""

        def ask(callback: Callback) -> int:
            nonlocal said
            vote, said = self._asked(callback, _ballot, (-1, "the plugin failed"), *args)
            return vote

        verdict = folds.tiered_vote(chain, ask)
        return verdict if verdict.passed else verdict._replace(text=said)

    def job_ready(self, job: Job) -> Verdict:
        """May the job's placements be committed?"""
        return self._verdict("job_ready", job)

    def more_needed(self, job: Job) -> int:
        """How many more tasks must be placed, at least, before `job_ready` can be a yes; 1 when nobody can say."""
        return max((c.needs(job) for tier in self.chain("job_ready") for c in tier if c.needs), default=1)

    def sub_job_ready(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """May the sub-job's placements be kept? Jobs without policies are asked as a whole."""
        return self.job_ready(job) if sub_job is None else self._verdict("sub_job_ready", sub_job)

    def job_pipelined(self, job: Job) -> Verdict:
        """May the job wait for resources that are being released?"""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """May the sub-job wait? Jobs without policies are asked as a whole."""
        return self.job_pipelined(job) if sub_job is None else self._vote("sub_job_pipelined", sub_job)

    def job_valid(self, job: Job) -> Verdict:
        """Is the job worth trying?"""
        if job._problem:
            return Verdict(False, job._problem, "pumice", "Invalid")
        return self._verdict("job_valid", job)

    def job_enqueueable(self, job: Job) -> Verdict:
        """May the job be let into its queue?"""
        return self._vote("job_enqueueable", job)

    def enqueue_key(self, job: Job) -> Hashable | None:
        """Jobs of equal keys get equal votes until the next job is let in; None when somebody does not say."""
        keys = []
        for tier in self.chain("job_enqueueable"):
            for c in tier:
                if c.key is None:
                    return None
                keys.append(c.key(job))
        return tuple(keys)

    def job_enqueued(self, job: Job) -> None:
        """The job was let into its queue."""
        self._broadcast("job_enqueued", job)

    def job_starving(self, job: Job) -> bool:
        """Does the job need others to make room?"""
        return folds.first_tier_all(self.chain("job_starving"), lambda c: self._asked(c, answers.truth, False, job))

    def pre_job_allocation(self, job: Job) -> None:
        """An attempt to place the job begins."""
        self._broadcast("pre_job_allocation", job)

    def _broadcast(self, point: str, *args: Any) -> None:
        for tier in self.chain(point):
            for callback in tier:
                self._asked(callback, _identity, None, *args)

    # -- queues -----------------------------------------------------------------------------------------------------
    def overused(self, queue: Queue) -> str:
        """The plugin that says the queue is above its share, or nothing."""
        return folds.any_true(self.chain("overused"), lambda c: self._asked(c, answers.truth, True, queue))

    def allocatable(self, queue: Queue, task: Task) -> Verdict:
        """May the queue take the task?"""
        return self._verdict("allocatable", queue, task)

    def allocatable_by_class(self) -> bool:
        """Does `allocatable` depend on nothing but the queue and the class of a task?"""
        return all(c.room is not None for tier in self.chain("allocatable") for c in tier)

    def allocatable_room(self, queue: Queue, task: Task, wanted: int) -> int:
        """How many equal tasks in a row the queue would take, up to *wanted*; 0 when somebody cannot say."""
        room = wanted
        for tier in self.chain("allocatable"):
            for c in tier:
                if c.room is None:
                    return 0
                room = min(room, c.room(queue, task))
        return max(room, 0)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> Verdict:
        """May the queue reclaim for these tasks?"""
        chain = self.chain("preemptive")
        if len(tasks) != 1 or any(c.key is None for tier in chain for c in tier):
            return self._verdict("preemptive", queue, tasks)
        position = self.state.table.touched.position
        if self._preemptive_at != position:
            self._preemptive.clear()
            self._preemptive_at = position
        task = tasks[0]
        known = queue._name, task._class.id, *(c.key(task) for tier in chain for c in tier if c.key)
        answer = self._preemptive.get(known)
        if answer is None:
            answer = self._preemptive[known] = self._verdict("preemptive", queue, tasks)
        return answer

    # -- victims ----------------------------------------------------------------------------------------------------
    @property
    def _lenient(self) -> bool:
        """Does an empty answer about victims pass the decision on?"""
        return self.compat.victims_fold

    def victim_profiles(
        self, point: str
    ) -> list[tuple[Callable[[Job], Hashable], Callable[[Hashable, Hashable], bool]]]:
        """What plugins of the deciding tier declared about whose tasks they never let go: (profile, admits)."""
        tiers = self.chain(point)
        if not tiers or self._lenient:
            return []
        return [(c.profile, c.admits) for c in tiers[0] if c.profile is not None and c.admits is not None]

    def _victims(self, point: str, evictor: Any, candidates: Sequence[Task]) -> list[Task] | None:
        def ask(callback: Callback) -> tuple[Sequence[Task], int]:
            failed: tuple[Sequence[Task], int] = ((), -1)
            return self._asked(callback, answers.victims, failed, evictor, list(candidates))

        return folds.victims(self.chain(point), ask, as_volcano=self._lenient)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be preempted for the task; None when nobody decided."""
        return self._victims("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be reclaimed for the task; None when nobody decided."""
        return self._victims("reclaimable", reclaimer, candidates)

    def unified_evictable(self, context: Any, candidates: Sequence[Task]) -> list[Task] | None:
        """Who may be evicted by a gang action; None when nobody decided."""
        return self._victims("unified_evictable", context, candidates)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Running tasks that should go although nobody waits for their room."""
        return folds.union(self.chain("victim_tasks"), lambda c: self._asked(c, list, [], tasks))

    def victim_filter(self, pending: Job, victim: Job) -> bool:
        """May this job be a victim of that one at all?"""
        return self._verdict("victim_filter", pending, victim).passed

    def scenario_validator(self, scenario: Any) -> Verdict:
        """Is the whole plan acceptable?"""
        return self._verdict("scenario_validator", scenario)

    # -- nodes ------------------------------------------------------------------------------------------------------
    @property
    def evaluator(self) -> Evaluator:
        """Answers about many nodes at once."""
        if self._evaluator is None:
            self._evaluator = self._make_evaluator()
        return self._evaluator

    def _make_evaluator(self) -> Evaluator:
        filters: list[Filter] = []
        scorers: list[Scorer] = []
        position = {c_id: n for n, c_id in enumerate(self._positions("predicate", "batch_predicate"))}
        pairs = [(c, False) for tier in self.chain("predicate") for c in tier]
        pairs += [(c, True) for tier in self.chain("batch_predicate") for c in tier]
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
                chosen = self._asked(c, _identity, None, task, scores)
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
                    edited = self._asked(reducer, _identity, None, task, mapped)
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

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """The job that resources should be kept for."""
        for tier in self.chain("target_job"):
            for c in tier:
                return self._asked(c, _identity, None, jobs)  # type: ignore[no-any-return]
        return None

    def reserved_nodes(self) -> None:
        """Let plugins choose nodes to keep free."""
        self._broadcast("reserved_nodes")


def _identity(answer: Any) -> Any:
    return answer


def _ballot(answer: Any) -> tuple[int, str]:
    """A vote with what was said about it."""
    return answers.vote(answer), answer.text if isinstance(answer, Verdict) else ""


def _about(args: tuple[Any, ...]) -> tuple[Task | None, Node | None]:
    task = next((a for a in args if isinstance(a, Task)), None)
    node = next((a for a in args if isinstance(a, Node)), None)
    return task, node


def _joined(functions: Sequence[Callable[[Any], Any]], fallback: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if not functions:
        return fallback
    if len(functions) == 1:
        only = functions[0]
        return lambda x: (only(x), fallback(x))
    return lambda x: (*[f(x) for f in functions], fallback(x))


def _job_fallback(job: Job) -> tuple[float, bytes]:
    return job._creation, job._uid.encode()


def _task_key(task: Task) -> tuple[int, float, str]:
    return task.order if task.order is not None else 0, task._creation, task._uid


def _task_fallback(left: Task, right: Task) -> int:
    if left.order is not None and right.order is not None and left.order != right.order:
        return -1 if left.order < right.order else 1
    a, b = (left._creation, left._uid), (right._creation, right._uid)
    return (a > b) - (a < b)
