"""The questions of a session by name: ``ssn.job_ready(job)``. Those about nodes are answered by the engine."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic

import numpy as np

from pumice.engine.hypernodes import HyperNodeTree
from pumice.engine.rows import NodeRows
from pumice.framework.compat import Compat
from pumice.framework.points import table as t
from pumice.framework.points.callback import Callback
from pumice.framework.points.forms import ABSTAIN
from pumice.framework.points.guard import Call, Failures, compared, guarded, guarded_key, joined
from pumice.framework.points.point import A, P, Point
from pumice.framework.points.rules import Rule
from pumice.framework.points.table import POINTS
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.rounds import surplus_pause
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.search import Search
from pumice.model.codes import ReasonCode
from pumice.model.job import Job, SubJob
from pumice.model.native import NativePodGroup
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.reason import Reason, Unfit, Verdict, reason_of
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from pumice.framework.plugin import Action

STRICT = False
"""Tests set this: then an action can ask only what it declares. It costs a call per question."""


_ATTRIBUTES: Final[dict[str, str]] = {}
"""Point -> the attribute of the session by which it is asked; that of a hint has a name of its own."""


class PointAttribute(Generic[P, A]):
    """A point as an attribute of the session: bound when it is first asked, a plain function from then on."""

    def __init__(self, point: Point[P, Any, A]) -> None:
        self._point = point

    def __set_name__(self, _: type, name: str) -> None:
        _ATTRIBUTES[self._point.name] = name

    def __get__(self, ssn: Questions, _: type) -> Callable[P, A]:
        name = _ATTRIBUTES[self._point.name]
        bound = ssn.__dict__[name] = ssn.bind(self._point)
        return bound


@dataclass(slots=True)
class PluginEntry:
    """A plugin of a tier: its conf name, how it is built and which of its flags are on."""

    name: str
    build: Callable[[], Any]
    enabled: Callable[[str], bool]
    unasked: Container[str] = frozenset()
    """Points that no action asks: an author who registers there is warned."""
    plugin: Any = None
    """The plugin of the last session; a persistent one is opened again in the next. None if it was left out."""


_FAILED = object()
_SERVES_TOPOLOGY = (t.HYPER_NODE_GRADIENT_FOR_JOB, t.HYPER_NODE_GRADIENT_FOR_SUB_JOB)
_SERVE_IT = "a plugin that answers hyper_node_gradient_for_job (network-topology-aware does), or mode soft"


class Questions:
    """Which callbacks are really asked at a point, and asking them: every point can be asked by its name. The base of
    `Session`. Questions about nodes are answered by the engine.
    """

    runtime: Runtime
    compat: Compat
    failures: Failures
    signature: object
    acting: Action | None = None
    """The action that runs now."""
    translate: Callable[[Callback], Callback] | None = None
    """How callbacks are asked in a dialect that has views of its own; None: as they are."""
    _registered: dict[str, dict[str, list[Callback]]]
    _chains: dict[str, list[list[Callback]]]
    _bound: dict[str, Call]
    _keys: dict[str, Callable[[Any], Any] | None]
    _tiers: Sequence[Sequence[PluginEntry]] | None
    state: ClusterState
    search: Search
    _preemptive: dict[Hashable, Verdict]
    _preemptive_at: int
    wake_at: Callable[[float], None]

    # -- who is asked -----------------------------------------------------------------------------------------------
    def chain(self, point: str) -> list[list[Callback]]:
        """The callbacks that are really asked at a point, tier by tier."""
        known = self._chains.get(point)
        if known is None:
            registered = self._registered.get(point)
            if not registered:
                known = []
            elif self._tiers is None:
                known = [[c for callbacks in registered.values() for c in callbacks]]
            else:
                flag = POINTS[point].flag
                tiers = [[c for entry in tier for c in _answers(entry, registered, flag)] for tier in self._tiers]
                known = [tier for tier in tiers if tier]
            if self.translate is not None:
                known = [[self.translate(c) for c in tier] for tier in known]
            self._chains[point] = known
        return known

    def callbacks(self, point: Point[..., Any, Any]) -> list[Callback]:
        """The callbacks that are really asked at a point, in order, whatever their tiers."""
        return [c for tier in self.chain(point.at) for c in tier]

    def anybody(self, point: Point[..., Any, Any]) -> bool:
        """Report whether a plugin answers at a point."""
        at = point.at
        known = self._chains.get(at)
        return bool(self.chain(at) if known is None else known)

    # -- asking them ------------------------------------------------------------------------------------------------
    def rule_of(self, point: Point[..., Any, Any]) -> Rule:
        """The rule that holds at a point in this session."""
        switch = point.switch
        return switch[1] if switch is not None and getattr(self.compat, switch[0]) else point.rule

    def guarded(self, point: Point[..., Any, Any], callback: Callback) -> Call:
        """One callback's part in a point, guarded; an undeclared hint is one that says nothing."""
        rule = self.rule_of(point)
        failed = rule.failed[point.on_failure]
        fn = getattr(callback, point.part)
        if fn is None:
            return lambda *_: failed(callback.plugin)
        if callback.sort_key and point.part == "fn":
            return compared(guarded_key(self.failures, callback.plugin, point.name, fn, self._kinds(point.name)))
        count = point.arity[0] if point.part == "fn" else 0
        return guarded(self.failures, callback.plugin, point.name, fn, rule.read, failed, rule.refuses, count)

    def bind(self, point: Point[P, Any, A]) -> Callable[P, A]:
        """A point as one call, made of its declaration and of the callbacks of this session."""
        known = self._bound.get(point.name)
        if known is None:
            calls = [[self.guarded(point, c) for c in tier] for tier in self.chain(point.at)]
            known = self.rule_of(point).fold(calls, point.nobody)
            if STRICT:
                known = self._declared(point, known)
            self._bound[point.name] = known
        return known

    def _declared(self, point: Point[..., Any, Any], call: Call) -> Call:
        def asked(*args: Any) -> Any:
            self.may_ask(point)
            return call(*args)

        return asked

    def may_ask(self, *asked: Point[..., Any, Any]) -> None:
        """Nothing, unless an action that says what it asks now asks something else (looked at in tests only).

        :raises AssertionError: names the action and the point.
        """
        acting = self.acting
        if STRICT and acting is not None and acting.asks is not None:
            missing = {p.at for p in asked} - {p.name for p in acting.asks}
            assert not missing, f"action {acting.name} asks {', '.join(sorted(missing))}, which it does not declare"

    def ask(self, point: Point[P, Any, A], *args: P.args, **named: P.kwargs) -> A:
        """The answer of all plugins together to a question."""
        return self.bind(point)(*args, **named)

    def each(self, point: Point[P, Any, Any], *args: P.args, **_: P.kwargs) -> list[tuple[str, Any]]:
        """The answer of every plugin to a question, guarded and read but not folded: (plugin, answer) in asking
        order."""
        return [(c.plugin, self.guarded(point, c)(*args)) for c in self.callbacks(point)]

    def _ask_anew(self, point: str) -> None:
        """A new registration: forget the objects that were made of earlier callbacks."""
        for name in [n for n in self._bound if n.partition(".")[0] == point]:
            del self._bound[name]
            self._unbind(name)
        self._chains.pop(point, None)
        self._keys.pop(point, None)

    # -- orders by key ----------------------------------------------------------------------------------------------
    def _kinds(self, point: str) -> dict[str, int] | None:
        """Per plugin the kind of its keys, where keys of several kinds met at this point; else None."""
        return self.runtime.key_kinds.get(point)

    def sort_key(self, point: Point[..., Any, int], fallback: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
        """A key for an order in which every plugin gives keys; None when one compares pairs."""
        name = point.name
        if name not in self._keys:
            callbacks = self.callbacks(point)
            kinds = self._kinds(name)
            if all(c.sort_key for c in callbacks):
                keys = [guarded_key(self.failures, c.plugin, name, c.fn, kinds) for c in callbacks]
                self._keys[name] = joined(keys, fallback)
            else:
                self._keys[name] = None
        return self._keys[name]

    def mixed_keys(self, point: Point[..., Any, int]) -> None:
        """Keys of several kinds met: from now on each is compared with its kind before it."""
        self.runtime.key_kinds.setdefault(point.name, {})
        self._keys.pop(point.name, None)
        self._bound.pop(point.name, None)
        self._unbind(point.name)

    def _unbind(self, point: str) -> None:
        """Have a point bound anew when it is next asked by its attribute."""
        self.__dict__.pop(_ATTRIBUTES.get(point, point), None)

    def contain(
        self, plugin: str, point: str, exc: BaseException, task: Task | None = None, node: Node | None = None
    ) -> None:
        """A plugin failed: attribute it, log it once, count it, go on."""
        self.failures.contain(plugin, point, exc, task, node)

    # -- points by name ---------------------------------------------------------------------------------------------
    @property
    def budgets(self) -> Budgets:
        """The pods that disruption budgets permit."""
        raise NotImplementedError

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of hyper-nodes."""
        raise NotImplementedError

    job_order = PointAttribute(t.JOB_ORDER)
    task_order = PointAttribute(t.TASK_ORDER)
    queue_order = PointAttribute(t.QUEUE_ORDER)
    victim_queue_order = PointAttribute(t.VICTIM_QUEUE_ORDER)
    sub_job_order = PointAttribute(t.SUB_JOB_ORDER)
    cluster_order = PointAttribute(t.CLUSTER_ORDER)
    pre_predicate = PointAttribute(t.PRE_PREDICATE)
    hyper_node_order = PointAttribute(t.HYPER_NODE_ORDER)
    hyper_node_gradient_for_job = PointAttribute(t.HYPER_NODE_GRADIENT_FOR_JOB)
    hyper_node_gradient_for_sub_job = PointAttribute(t.HYPER_NODE_GRADIENT_FOR_SUB_JOB)
    gpu_order = PointAttribute(t.GPU_ORDER)
    node_pre_order = PointAttribute(t.NODE_PRE_ORDER)
    subset_nodes = PointAttribute(t.SUBSET_NODES)
    job_ready = PointAttribute(t.JOB_READY)
    job_pipelined = PointAttribute(t.JOB_PIPELINED)
    job_enqueueable = PointAttribute(t.JOB_ENQUEUEABLE)
    job_enqueued = PointAttribute(t.JOB_ENQUEUED)
    job_starving = PointAttribute(t.JOB_STARVING)
    victim_filter = PointAttribute(t.VICTIM_FILTER)
    scenario_validator = PointAttribute(t.SCENARIO_VALIDATOR)
    queue_claim_order = PointAttribute(t.QUEUE_CLAIM_ORDER)
    sub_group_order = PointAttribute(t.SUB_GROUP_ORDER)
    can_reclaim_resources = PointAttribute(t.CAN_RECLAIM_RESOURCES)
    job_within_capacity = PointAttribute(t.JOB_WITHIN_CAPACITY)
    job_within_quota = PointAttribute(t.JOB_WITHIN_QUOTA)
    task_within_capacity = PointAttribute(t.TASK_WITHIN_CAPACITY)
    victim_invariant_pre_predicate = PointAttribute(t.VICTIM_INVARIANT_PRE_PREDICATE)
    reclaim_victim_filter = PointAttribute(t.RECLAIM_VICTIM_FILTER)
    preempt_victim_filter = PointAttribute(t.PREEMPT_VICTIM_FILTER)
    reclaim_scenario_validator = PointAttribute(t.RECLAIM_SCENARIO_VALIDATOR)
    preempt_scenario_validator = PointAttribute(t.PREEMPT_SCENARIO_VALIDATOR)
    on_job_solution_start = PointAttribute(t.ON_JOB_SOLUTION_START)
    scenario_generator = PointAttribute(t.SCENARIO_GENERATOR)
    overused = PointAttribute(t.OVERUSED)
    allocatable = PointAttribute(t.ALLOCATABLE)
    target_job = PointAttribute(t.TARGET_JOB)
    reserved_nodes = PointAttribute(t.RESERVED_NODES)
    pre_job_allocation = PointAttribute(t.PRE_JOB_ALLOCATION)
    bind_request_mutate = PointAttribute(t.BIND_REQUEST_MUTATE)

    # -- nodes ------------------------------------------------------------------------------------------------------
    def predicate(self, task: Task, node: Node) -> None:
        """Returns if the task fits the node (resources aside).

        :raises Unfit: it does not, and why.
        """
        reason = self.search.objection(task, node)
        if reason is not None:
            raise Unfit(reason.text, code=reason.code)

    def batch_predicate(self, task: Task, nodes: Sequence[Node]) -> dict[str, Reason]:
        """The first objection to each of several nodes (resources aside); those without one are not listed."""
        codes = self.search.evaluator.first_objection(task, self._rows(nodes)).tolist()
        return {node.name: reason_of(code) for node, code in zip(nodes, codes, strict=True) if code}

    def node_order(self, task: Task, node: Node) -> float:
        """The node's score for the task, all plugins together (scores that normalise see this node alone)."""
        return self.batch_node_order(task, [node])[node.name]

    def batch_node_order(self, task: Task, nodes: Sequence[Node]) -> dict[str, float]:
        """The scores of several candidate nodes."""
        view = self.search.evaluator.view(task)
        scores = self.search.chooser.scores(view, task, self._rows(nodes).index)
        return {n.name: float(s) for n, s in zip(nodes, scores, strict=True)}

    def best_node(self, task: Task, scores: Mapping[str, float]) -> Node | None:
        """The node of a score table: a plugin's choice, else the highest score, ties by name."""
        chosen = self.search.best_node(task, dict(scores))
        if chosen is None and scores:
            name = min(scores, key=lambda n: (-scores[n], n.encode()))
            chosen = self.state.table.by_name.get(name)
        return chosen

    def _rows(self, nodes: Sequence[Node]) -> NodeRows:
        return NodeRows(self.state.table, np.array([n.row for n in nodes], dtype=np.intp))

    # -- jobs -------------------------------------------------------------------------------------------------------
    def job_valid(self, job: Job) -> Verdict:
        """Report whether the job is worth trying. One that breaks a rule is not, whatever plugins say."""
        if job.problem:
            return Verdict(False, job.problem, "pumice", "Invalid")
        if paused := self.state.pauses(job.uid):
            return Verdict(False, paused.text, "pumice", paused.code)
        if job.uid in self.runtime.losses and _has_its_gang(job) and (said := surplus_pause(self, job)) is not None:
            return said
        if job.has_topology and (said := self.unmet_topology(job)) is not None:
            return said
        if type(job.group) is NativePodGroup and job.group.spec.topology_key and not self.anybody(t.SUBSET_NODES):
            text = f"asks for one {job.group.spec.topology_key} for all its pods, which no plugin of this conf serves"
            return Verdict(
                False, text, "pumice", ReasonCode.TOPOLOGY_NOT_MET, advice="the plugin predicates in the conf"
            )
        return self.plugins_find_valid(job)

    plugins_find_valid = PointAttribute(t.JOB_VALID)

    def unmet_topology(self, job: Job) -> Verdict | None:
        """Why nobody can give the job the network topology that it asks for, whatever room there is; None if one can.

        A hard request that cannot be understood is not the same as none: the job waits, and says what is wrong.
        """
        wrong = self.hyper_nodes.misread(job)
        if wrong:
            return Verdict(False, wrong, "pumice", ReasonCode.TOPOLOGY_NOT_MET)
        if self.hyper_nodes.lenient or any(self.anybody(p) for p in _SERVES_TOPOLOGY):
            return None
        asked = (job.topology, *(p.network_topology for p in job.policies))
        if all(one is None or one.mode == "soft" for one in asked):
            return None
        text = "asks for a hard network topology, which no plugin of this conf serves"
        return Verdict(False, text, "pumice", ReasonCode.TOPOLOGY_NOT_MET, advice=_SERVE_IT)

    def sub_job_ready(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """Report whether the sub-job's placements may be kept. Jobs without policies are asked as a whole."""
        return self.job_ready(job) if sub_job is None else self.ask(t.SUB_JOB_READY, sub_job)

    def sub_job_pipelined(self, job: Job, sub_job: SubJob | None) -> Verdict:
        """Report whether the sub-job may wait. Jobs without policies are asked as a whole."""
        return self.job_pipelined(job) if sub_job is None else self.ask(t.SUB_JOB_PIPELINED, sub_job)

    def more_needed(self, job: Job) -> int:
        """Return how many more tasks must be placed, at least, before the job can be ready.

        The built-in gang refuses a job with less than its minimum; without it the number is 1.
        """
        return job.min_available - job.ready_count - job.pending_best_effort_count if self._asks_gang else 1

    def needed_to_keep(self, job: Job) -> int:
        """Return how many more tasks must be placed, at least, before anything of the job is kept.

        Tasks that wait for promised room count: a job that has enough of them is kept. The number is 1 if a plugin
        beside gang lets jobs wait with less than they need (sla does), or if no plugin is asked whether they may.
        """
        return self.more_needed(job) - job.waiting_count if self._gang_alone_lets_wait else 1

    @cached_property
    def _asks_gang(self) -> bool:
        return any(_is_gang(c) for c in self.callbacks(t.JOB_READY))

    @cached_property
    def _gang_alone_lets_wait(self) -> bool:
        waiting = self.callbacks(t.JOB_PIPELINED)
        return self._asks_gang and bool(waiting) and all(_is_gang(c) for c in waiting)

    enqueue_key = PointAttribute(t.ENQUEUE_KEY)

    # -- queues -----------------------------------------------------------------------------------------------------
    def allocatable_by_class(self) -> bool:
        """Report whether `allocatable` depends on nothing but the queue and the class of a task."""
        return all(c.max_tasks is not None for c in self.callbacks(t.ALLOCATABLE))

    def allocatable_room(self, queue: Queue, task: Task, wanted: int) -> int:
        """How many equal tasks in a row the queue would take, up to *wanted*; 0 when somebody cannot say."""
        room = self.max_tasks(queue, task)
        return wanted if room >= wanted else int(room)

    max_tasks = PointAttribute(t.MAX_TASKS)

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> Verdict:
        """Report whether the queue may reclaim for these tasks."""
        keys = self.bind(t.PREEMPTIVE_KEY)(tasks[0]) if len(tasks) == 1 else None
        if keys is None:
            return self.ask(t.PREEMPTIVE, queue, tasks)
        position = self.state.table.touched.position
        if self._preemptive_at != position:
            self._preemptive.clear()
            self._preemptive_at = position
        known = (queue.name, tasks[0].klass.id, *keys)
        answer = self._preemptive.get(known)
        if answer is None:
            answer = self._preemptive[known] = self.ask(t.PREEMPTIVE, queue, tasks)
        return answer

    # -- victims ----------------------------------------------------------------------------------------------------
    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """The tasks that may be preempted for the task, as far as disruption budgets permit; None without a
        decision."""
        return self.evictable(t.PREEMPTABLE, preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task] | None:
        """The tasks that may be reclaimed for the task, as far as disruption budgets permit; None without a
        decision."""
        return self.evictable(t.RECLAIMABLE, reclaimer, candidates)

    def unified_evictable(self, context: Any, candidates: Sequence[Task]) -> list[Task] | None:
        """The tasks that a gang action may evict, as far as disruption budgets permit; None without a decision."""
        return self.evictable(t.UNIFIED_EVICTABLE, context, candidates)

    def evictable(
        self,
        point: Point[[Any, Sequence[Task]], Any, list[Task] | None],
        evictor: Any,
        candidates: Sequence[Task],
        worth: Callable[[Task], float] | None = None,
    ) -> list[Task] | None:
        """The tasks that the plugins permit at a point, as far as budgets last: the first, or those of most *worth*."""
        chosen = self.ask(point, evictor, self.budgets.open(candidates))
        return chosen and self.budgets.together(chosen, worth)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Running tasks that should go although nobody waits for their room."""
        return self.budgets.together(list(self.bind(t.VICTIM_TASKS)(self.budgets.open(tasks))))

    def victim_keys(
        self, point: Point[[Task, Sequence[Task]], Any, list[Task] | None]
    ) -> list[tuple[str, Callable[[Job], Hashable], Callable[[Task, Task], bool]]]:
        """The declarations of plugins of the deciding tier: (plugin, key of a job, may the second task go for the
        first?)."""
        tiers = self.chain(point.name)
        if not tiers or self.rule_of(point) is not point.rule:
            return []
        found = []
        for c in tiers[0]:
            if c.key is not None:
                key = guarded(self.failures, c.plugin, f"{point.name}.key", c.key, _known, _unknown, parameters=1)
                found.append((c.plugin, key, _lets_go(key, self.guarded(point, c))))
        return found


def _has_its_gang(job: Job) -> bool:
    """Report whether all that a job needs has a place: whatever else waits is surplus."""
    return job.is_ready and job.roles_ready() and job.sub_jobs_ready()


def _is_gang(callback: Callback) -> bool:
    return getattr(callback.fn, "__module__", "") == "pumice.plugins.gang"


def _known(_: str, key: Hashable) -> Hashable:
    hash(key)
    return key


def _unknown(_: str) -> object:
    return _FAILED


def _lets_go(key: Callable[[Job], Hashable], choose: Callable[..., Any]) -> Callable[[Task, Task], bool]:
    """Report whether one task may go for another, as a plugin says. If a key fails, it may: the plugin is asked again
    in full."""

    def lets_go(preemptor: Task, victim: Task) -> bool:
        if _FAILED in (key(preemptor.job), key(victim.job)):
            return True
        chosen, said = choose(preemptor, [victim])
        return said == ABSTAIN or any(task is victim for task in chosen)

    return lets_go


def _answers(entry: PluginEntry, registered: dict[str, list[Callback]], flag: str | None) -> list[Callback]:
    """The answer of a plugin of the conf at a point that *flag* switches off."""
    found = registered.get(entry.name)
    if found is None:
        found = registered.get(getattr(entry.plugin, "name", ""))
    return found if found is not None and (flag is None or entry.enabled(flag)) else []
