"""Session: one instant of the cluster, the plugins opened on it, and everything they can be asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pumice.engine.choose import FitError
from pumice.engine.scope import Scope
from pumice.errors import PluginError, PluginLoadError
from pumice.framework.asking import Asking
from pumice.framework.budgets import Budgets
from pumice.framework.callbacks import Callback, adapted
from pumice.framework.compat import PUMICE, Compat
from pumice.framework.failures import Failures
from pumice.framework.hypernodes import HyperNodeTree, tree_of
from pumice.framework.metrics import Metrics
from pumice.framework.nominations import hold_rooms, holds, nominate
from pumice.framework.plugin import Arguments, EventHandler
from pumice.framework.points import POINTS
from pumice.framework.problems import tell_problems
from pumice.framework.refusals import Refusal, Refusals
from pumice.framework.refused import learn_refusals
from pumice.framework.registration import Fn, Registration
from pumice.framework.runtime import Runtime
from pumice.framework.statement import Kind, Operation, Statement
from pumice.framework.telling import Telling
from pumice.model.intents import Bind, Choice, Evict, Intent, Nominate, StatusUpdate
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

log = logging.getLogger("pumice.framework")
S = TaskStatus


@dataclass(slots=True)
class PluginEntry:
    """A plugin of a tier: its object, its conf name and which of its flags are on."""

    name: str
    build: Callable[[], Any]
    enabled: Callable[[str], bool]
    plugin: Any = None


@dataclass(slots=True)
class Shard:
    """The nodes that are this scheduler's own; *hard* means no others may be used."""

    hard: bool
    nodes: frozenset[str]


class Session(Registration, Asking, Failures, Telling):
    """One scheduling session.

    Built by hand without tiers, every registration counts as one enabled tier in order: open a plugin on it with
    `open_plugin` and ask (``ssn.predicate(task, node)``, ``ssn.job_ready(job)``).
    """

    def __init__(
        self,
        state: ClusterState,
        *,
        tiers: Sequence[Sequence[PluginEntry]] | None = None,
        actions: Sequence[str] = (),
        action_arguments: Callable[[str], Mapping[str, Any]] | None = None,
        compat: Compat = PUMICE,
        runtime: Runtime | None = None,
        shard: Shard | None = None,
        signature: object = None,
        environment: Mapping[str, Any] | None = None,
    ) -> None:
        self.state = state
        self.compat = compat
        self.runtime = runtime if runtime is not None else Runtime()
        self.shard = shard
        self.environment = environment or {}
        """What a plugin may know beside the cluster's objects: node usage, enabled features."""
        self.actions = tuple(actions)
        self.signature = signature
        self._tiers = tiers
        self._action_arguments = action_arguments
        self.metrics = Metrics()
        self.budgets = Budgets(state, as_volcano=compat.disruption_budgets, kept=self.runtime.kept)
        self.intents: list[Intent] = []
        self.handlers: list[EventHandler] = []
        self.binders: dict[str, Any] = {}
        self._preparing: list[Callable[[Task], Sequence[Choice]]] = []
        self.kept: list[Statement] = []
        self.fit_errors: dict[str, dict[str, FitError]] = {}
        self.refusals = Refusals()
        self.conditions: dict[str, list[dict[str, str]]] = {}
        self.timings: dict[tuple[str, str], float] = {}
        self.warnings: list[str] = []
        self.errors: list[PluginError] = []
        self._registered: dict[str, dict[str, list[Callback]]] = {}
        self._opening = ""
        self._opening_entry: PluginEntry | None = None
        self._opened: list[tuple[str, Any]] = []
        self._failed: set[str] = set()
        self._pipelines: list[Operation] = []
        state.refresh()
        self._changed: dict[str, Job] = dict(state.changed_jobs)
        self._init_asking()

    # -- what plugins see -------------------------------------------------------------------------------------------
    @property
    def jobs(self) -> Mapping[str, Job]:
        """Jobs with a PodGroup and a queue, by UID."""
        return self.state.session_jobs

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return self.state.table.by_name

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Queues by name."""
        return self.state.queues

    @property
    def total(self) -> Resources:
        """What all nodes offer."""
        return self.state.total_resources()

    @property
    def now(self) -> float:
        """The time of this session, in seconds."""
        return self.state.now

    @property
    def memory(self) -> dict[str, Any]:
        """What the plugin being opened (or asked at close) keeps between sessions."""
        return self.runtime.memory.setdefault(self._opening, {})

    def memory_of(self, plugin: str) -> dict[str, Any]:
        """What a plugin keeps between sessions."""
        return self.runtime.memory.setdefault(plugin, {})

    @property
    def log(self) -> logging.Logger:
        """The logger of the plugin being opened."""
        return logging.getLogger(f"pumice.plugins.{self._opening}" if self._opening else "pumice.plugins")

    def action_arguments(self, action: str) -> Arguments:
        """The arguments that the configuration gives an action."""
        given = self._action_arguments(action) if self._action_arguments else {}
        return Arguments(given, owner=f"action {action}")

    @property
    def describes(self) -> bool:
        """Is this session only to find out who registers where? Then nobody outside is to be called."""
        return bool(self.environment.get("describes"))

    # -- registering ------------------------------------------------------------------------------------------------
    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register a callback at a point. A second one under the same name replaces the first, unless *also*."""
        rule = POINTS.get(point)
        if rule is None:
            raise PluginLoadError(f"extension point {point!r}: not one of {', '.join(sorted(POINTS))}")
        if fn is None:
            if not callable(name):
                raise PluginLoadError(f"{rule.register}: needs a function, got {name!r}")
            fn, name = name, getattr(getattr(name, "__self__", None), "name", "") or self._opening
        elif not isinstance(name, str):
            raise PluginLoadError(f"{rule.register}: the name must be text, got {name!r}")
        also = declared.pop("also", False)
        shaped = fn if declared.get("sort_key") else adapted(point, name, fn)
        callback = Callback(name, point, shaped, **declared)
        at_point = self._registered.get(point)
        if at_point is None:
            self._registered[point] = {name: [callback]}
        elif also and name in at_point:
            at_point[name].append(callback)
        else:
            at_point[name] = [callback]
        if self._chains or self._evaluator is not None:
            self._ask_anew(point)
        if not rule.asked:
            self.warnings.append(f"plugin {name!r} registers at {point}, which no action asks")

    def add_event_handler(self, handler: EventHandler) -> None:
        """Be told of every virtual placement and its undoing."""
        handler.plugin = handler.plugin or self._opening
        self.handlers.append(handler)

    def register_binder(self, name: str, binder: Any) -> None:
        """Offer a binder; a later one of the same name replaces it."""
        self.binders[name] = binder

    def prepare_binds(self, fn: Callable[[Task], Sequence[Choice]]) -> None:
        """Let *fn* say what must be done for the claims of a task before it is bound."""
        self._preparing.append(fn)

    # -- opening and closing ----------------------------------------------------------------------------------------
    def open(self) -> Session:
        """Build and open every plugin of the tiers, in order."""
        self.runtime.cycle += 1
        if self.state.refused:
            learn_refusals(self)
        if self.runtime.nominations:
            hold_rooms(self)
        for tier in self._tiers or ():
            for entry in tier:
                health = self.runtime.health.get(entry.name)
                if health is not None and health.quarantined:
                    continue
                entry.plugin = entry.build()
                self._opening_entry = entry
                self.open_plugin(entry.plugin, entry.name)
        self._opening_entry = None
        return self

    def flag(self, name: str) -> bool:
        """Is a flag (``enableHierarchy``) on for the plugin being opened? Off in a session built by hand."""
        return self._opening_entry is not None and self._opening_entry.enabled(name)

    def plugins_without(self, *flags: str) -> frozenset[str]:
        """The plugins of the tiers for which none of these flags is on."""
        return frozenset(
            e.name for tier in self._tiers or () for e in tier if not any(e.enabled(flag) for flag in flags)
        )

    def configured(self, plugin: str) -> bool:
        """Is a plugin of that name among the tiers?"""
        return any(e.name == plugin for tier in self._tiers or () for e in tier)

    def open_plugin(self, plugin: Any, name: str = "") -> None:
        """Open one plugin: register the methods named after points, then let it register by itself."""
        name = name or getattr(plugin, "name", "") or type(plugin).__name__
        self._opening = name
        started = time.perf_counter()
        try:
            for point, attribute in _auto_methods(type(plugin)):
                method = getattr(plugin, attribute)
                self.add(
                    point,
                    name,
                    method,
                    scope=getattr(method, "__pumice_scope__", Scope.SESSION),
                    key=getattr(method, "__pumice_key__", None),
                )
            opened = getattr(plugin, "on_session_open", None)
            if opened is not None:
                opened(self)
        except PluginLoadError:
            raise
        except Exception as exc:
            self.contain(name, "on_session_open", exc)
        finally:
            self._opening = ""
        self.timings["open", name] = self.timings.get(("open", name), 0.0) + time.perf_counter() - started
        self._opened.append((name, plugin))

    def close(self) -> None:
        """Close the plugins, settle phases and conditions, then undo everything that was not committed."""
        self._close_plugins()
        tell_problems(self)
        self._settle()
        for statement in reversed(self.kept):
            statement.discard()
        for op in reversed(self._pipelines):
            if op.task.status is S.PIPELINED:
                self.state.set_status(op.task, S.PENDING, None)
        self.state.end_session()
        self._judge()

    def break_off(self) -> None:
        """Close the plugins of a cycle that failed; what it did to tasks is for the caller to take back."""
        self._close_plugins()
        self.state.changed_jobs.update(self._changed)  # what was not told of them is told by the next session

    def _close_plugins(self) -> None:
        """Tell every plugin that was opened, once, that the session is over."""
        opened, self._opened = self._opened, []
        for name, plugin in opened:
            self._opening = name
            started = time.perf_counter()
            try:
                closing = getattr(plugin, "on_session_close", None)
                if closing is not None:
                    closing(self)
            except Exception as exc:
                self.contain(name, "on_session_close", exc)
            self.timings["close", name] = time.perf_counter() - started
        self._opening = ""

    def retire(self) -> None:
        """Let go of everything that leads back here, so that a session that is over needs no garbage collector.

        Nothing can be asked any more; what was found out (`fit_errors`, `refusals`, `intents`) has been taken over.
        """
        if self._chooser is not None:
            self._chooser.forget()
        self._chooser = self._evaluator = self._entries = self._tiers = None
        self._registered, self._chains, self._keyed, self._job_keys = {}, {}, {}, {}
        self._opened, self.handlers, self.kept, self._pipelines, self.binders = [], [], [], [], {}
        self.fit_errors, self.refusals, self.errors = {}, Refusals(), []

    def changed_jobs(self) -> list[Job]:
        """Jobs that changed since the last session closed, by events or by this session."""
        self._changed.update(self.state.dirty)
        return [j for j in self._changed.values() if j.in_session]

    def _settle(self) -> None:
        """Phases and counters of the PodGroups that changed."""
        from pumice.framework.phases import status_of

        for job in self.changed_jobs():
            conditions = self.conditions.get(job.uid, [])
            before = job.group.status if job.group else None
            status = status_of(job, any(c["type"] == "Unschedulable" for c in conditions))
            if before is None:
                continue
            counters = (before.phase, before.running, before.failed, before.succeeded)
            new = (status["phase"], status["running"], status["failed"], status["succeeded"])
            fresh = [c for c in conditions if not _has_condition(before.conditions or [], c)]
            if counters != new or fresh:
                if fresh:
                    status["conditions"] = fresh
                self.intents.append(StatusUpdate("PodGroup", job.uid, status))
            if status["phase"] != job.phase:
                self.state.set_phase(job, status["phase"])
        self.state.changed_jobs.clear()

    # -- deciding ---------------------------------------------------------------------------------------------------
    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def commit(self, operations: Sequence[Operation]) -> None:
        """Turn operations into intents (called by `Statement.commit`)."""
        state = self.state
        freed = {op.task.job_key for op in operations if op.kind is Kind.EVICT}
        for op in operations:
            task = op.task
            if op.kind is Kind.ALLOCATE:
                notes = self.bind_annotations(task, op.node)
                claims = tuple(c for fn in self._preparing for c in fn(task)) if self._preparing else ()
                needed = _still_needed(task.job) if claims and task.job is not None else 0
                state.confirm(task)
                binder = self.binder_of(task)
                self.intents.append(Bind(task.key, task.uid, op.node.name, task.job_key, notes, binder, claims, needed))
            elif op.kind is Kind.EVICT:
                self.budgets.commit(task)
                state.assume(task)
                helped = op.for_task
                self.intents.append(
                    Evict(
                        task.key,
                        task.uid,
                        op.node.name,
                        op.reason,
                        task.job_key,
                        helped.job_key if helped is not None else "",
                        helped.key if helped is not None else "",
                    )
                )
            else:
                self._pipelines.append(op)
                if freed:
                    nominate(self, task, op.node, freed)
                if op.evicted:
                    self.intents.append(Nominate(task.key, task.uid, op.node.name))

    def reopen_best_effort(self) -> None:
        """Take back committed promises to tasks that ask for nothing: backfill finds them a place now.

        Where somebody was evicted for the task, the promise stands.
        """
        kept = holds(self)
        for op in [op for op in self._pipelines if op.task.best_effort and op.task.status is S.PIPELINED]:
            if kept and op.evicted:
                continue
            self._pipelines.remove(op)
            self.state.set_status(op.task, S.PENDING, None)
            self.tell_deallocated(op.task, op.node)

    def binder_of(self, task: Task) -> str:
        """Which registered binder wants to bind the task; nothing for the cluster's own."""
        for name, binder in self.binders.items():
            wants = getattr(binder, "wants", None)
            if wants is None or wants(task):
                return name
        return ""

    def wants_topology(self, job: Job) -> bool:
        """Must the job be placed by hyper-nodes?"""
        return job.has_topology and self.hyper_nodes.limits(job)

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of hyper-nodes; made anew when one of them or a node changed."""
        state = self.state
        key = (id(state), state.versions.get("HyperNode", 0), state.table.changed.position)
        known = self.runtime.hyper_nodes
        if known is None or known[0] != key:
            known = self.runtime.hyper_nodes = (key, tree_of(state))
        return known[1]

    def set_phase(self, job: Job, phase: str) -> None:
        """Let a job into another phase."""
        self.state.set_phase(job, phase)

    def refuse(self, job: Job, stage: str, text: str, plugin: str = "") -> None:
        """Remember why a job was not served."""
        self.refusals.add(job, Refusal(stage, text, plugin))

    def refusal_of(self, job: Job) -> Refusal | None:
        """Why a waiting job was not served in this cycle."""
        runtime = self.runtime
        return self.refusals.of(job, runtime.backlog.group_of(job) or runtime.admissions.group_of(job))

    def unfit(self, job: Job, task: Task, error: FitError) -> None:
        """Remember why a task fits nowhere, and in which state of the nodes."""
        error.at = self.state.table.touched.position
        self.fit_errors.setdefault(job.uid, {})[task.uid] = error

    def set_condition(self, job: Job, kind: str, status: str, reason: str, message: str) -> None:
        """Write a condition of a job's PodGroup when the session closes."""
        mine = self.conditions.setdefault(job.uid, [])
        mine[:] = [c for c in mine if c["type"] != kind]
        mine.append({"type": kind, "status": status, "reason": reason, "message": message})


def _still_needed(job: Job) -> int:
    """How many tasks of a job must still be bound to complete its minimum."""
    return max(0, job.min_available - job.count(S.BOUND, S.RUNNING, S.SUCCEEDED))


def _has_condition(existing: Sequence[Any], new: Mapping[str, str]) -> bool:
    return any(
        c.type == new["type"] and (c.status, c.reason, c.message) == (new["status"], new["reason"], new["message"])
        for c in existing
    )


_AUTO: dict[type, list[tuple[str, str]]] = {}


def _auto_methods(cls: type) -> list[tuple[str, str]]:
    """Methods of a plugin class that are named after a point."""
    known = _AUTO.get(cls)
    if known is None:
        known = _AUTO[cls] = [(name, name) for name in POINTS if callable(getattr(cls, name, None))]
    return known
