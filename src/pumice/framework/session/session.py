"""Session: one instant of the cluster, the plugins opened on it, and everything they can be asked."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pumice.engine.hypernodes import HyperNodeTree, TopologyDomain, tree_of
from pumice.engine.scope import SCOPE_MARK
from pumice.errors import PluginError, PluginLoadError, UnknownName, shown
from pumice.framework.arguments import Arguments, arguments_of
from pumice.framework.compat import PUMICE, Compat
from pumice.framework.metrics import Metrics
from pumice.framework.names import hint
from pumice.framework.plugin import Plugin
from pumice.framework.points.callback import Callback, EventHandler, adapted
from pumice.framework.points.guard import FAILS, Call, Failures
from pumice.framework.points.handlers import Binds, Handlers
from pumice.framework.points.registration import Fn, Registration
from pumice.framework.points.table import BATCHED, POINTS
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.nominations import hold_rooms, holds
from pumice.framework.session.orders import Orders
from pumice.framework.session.outcome import Outcome
from pumice.framework.session.problems import learn_refusals, tell_problems
from pumice.framework.session.questions import PluginEntry, Questions
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.search import SEARCHED, Search
from pumice.framework.session.statement import Statement
from pumice.model.intents import Choice
from pumice.model.job import Job, JobMap
from pumice.model.node import NodeMap
from pumice.model.queue import QueueMap
from pumice.model.reason import Verdict
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

S = TaskStatus
V = TypeVar("V")


@dataclass(slots=True)
class Shard:
    """The nodes that are this scheduler's own; *hard* means no others may be used."""

    hard: bool
    nodes: frozenset[str]


class Session(Registration, Questions):
    """One scheduling session.

    A plugin sees the cluster, registers, and may ask every point by its name. The other needs of actions are in parts
    of their own: `orders` (the order of jobs), `search` (nodes), `outcome` (decisions, and reasons). Built by hand
    without tiers, every registration counts as one enabled tier in order: open a plugin on it with `open_plugin` and
    ask (``ssn.predicate(task, node)``, ``ssn.job_ready(job)``).
    """

    metrics: Metrics
    """The figures that plugins publish."""
    warnings: list[str]
    """Notes for authors of plugins."""

    def __new__(cls, *_: Any, ours: bool = False, **__: Any) -> Session:
        """*ours*: only what comes with Pumice asks in this session."""
        return object.__new__(cls if ours or cls is not Session else HelpfulSession)

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
        thorough: bool = False,
        tells: bool = True,
        ours: bool = False,
    ) -> None:
        """*thorough*: every pending job is looked at, also those that are known to wait in vain. *tells*: jobs that
        change are told of; nobody asks that in a dry cycle.
        """
        self.state = state
        self.compat = compat
        self.runtime = runtime if runtime is not None else Runtime()
        self.actions = tuple(actions)
        self.signature = signature
        self.shard = shard
        self.thorough, self._tells = thorough, tells
        self.given_environment: Mapping[str, Any] = environment or {}
        self.wakes_at = math.inf
        self.domain: TopologyDomain | None = None
        """The hyper-node in which nodes are being looked for; None: everywhere."""
        self.simulates = False
        """Whether queues are asked for the sums alone, whatever their state. So in the dry runs of Volcano's
        preempt."""
        self.forgot_turns = False
        """Whether the record of evictions was cleaned up in this cycle."""
        self.timings: dict[tuple[str, str], float] = {}
        self.warnings = []
        self.metrics = Metrics(self.runtime.metered)
        self.failures = self._make_failures()
        self.handlers = Handlers(self.failures, state, raising_objects=compat.raising_handlers)
        self.binds = Binds(self.failures)
        self.orders = Orders(self)
        self.search = Search(self)
        self.outcome = Outcome(state, self.runtime)
        self._tiers, self._action_arguments = tiers, action_arguments
        self._preemptive: dict[Hashable, Verdict] = {}
        self._preemptive_at = -1
        self._views: dict[Callable[[Session], Any], Any] = {}
        self._told: dict[str, Job] = {}
        self._registered: dict[str, dict[str, list[Callback]]] = {}
        self._chains: dict[str, list[list[Callback]]] = {}
        self._bound: dict[str, Call] = {}
        self._keys: dict[str, Callable[[Any], Any] | None] = {}
        self._opened: list[tuple[str, Any]] = []
        self._added: list[tuple[str, str]] = []
        """(Point, name) for what the plugin that is being opened registered."""
        self._opening = ""
        self._opening_entry: PluginEntry | None = None
        state.refresh()

    @cached_property
    def budgets(self) -> Budgets:
        """The pods that disruption budgets permit, counted along the plans of this session."""
        return Budgets(self.state, as_volcano=self.compat.disruption_budgets, kept=self.runtime.kept)

    def _make_failures(self) -> Failures:
        return Failures(self.runtime.health, self.runtime.told, self.metrics)

    # -- what plugins see -------------------------------------------------------------------------------------------
    @property
    def jobs(self) -> JobMap:
        """Jobs with a PodGroup and a queue, by UID."""
        return self.state.session_jobs

    @property
    def nodes(self) -> NodeMap:
        """Nodes by name."""
        return self.state.nodes

    @property
    def queues(self) -> QueueMap:
        """Queues by name."""
        return self.state.queues

    @property
    def total(self) -> Resources:
        """The amounts that all nodes offer."""
        return self.state.total_resources()

    @property
    def now(self) -> float:
        """The time of this session, in seconds. If it is read, the next cycle is run even if nothing changes."""
        self.wakes_at = 0.0
        return self.state.now

    @property
    def environment(self) -> Mapping[str, Any]:
        """Facts beside the cluster's objects: node usage, enabled features. They count as `now` does."""
        if self.given_environment:
            self.wakes_at = 0.0
        return self.given_environment

    @property
    def errors(self) -> list[PluginError]:
        """The failures of plugins."""
        return self.failures.errors

    def action_arguments(self, action: str) -> Arguments:
        """The arguments that the configuration gives an action."""
        given = self._action_arguments(action) if self._action_arguments else {}
        return arguments_of(given, f"action {action}", self.compat)

    @property
    def describes(self) -> bool:
        """Report whether this session only finds out which plugin registers where. Then nobody outside is to be
        called."""
        return bool(self.given_environment.get("describes"))

    def plugins_without(self, *flags: str) -> frozenset[str]:
        """The plugins of the tiers for which none of these flags is on."""
        return frozenset(
            e.name for tier in self._tiers or () for e in tier if not any(e.enabled(flag) for flag in flags)
        )

    def plugin_order(self) -> list[str]:
        """The names under which plugins of the tiers may register, in the conf's order; empty without tiers."""
        entries = [e for tier in self._tiers or () for e in tier]
        return [*(getattr(e.plugin, "name", e.name) for e in entries), *(e.name for e in entries)]

    def configured(self, plugin: str) -> bool:
        """Report whether a plugin of that name is among the tiers."""
        return any(e.name == plugin for tier in self._tiers or () for e in tier)

    def plugins(self) -> list[Any]:
        """The plugins of the tiers that were opened, in the conf's order."""
        return [e.plugin for tier in self._tiers or () for e in tier if e.plugin is not None]

    def registered(self) -> Mapping[str, Sequence[Callback]]:
        """Point -> everything that was registered there, asked or not."""
        return {
            point: [c for callbacks in known.values() for c in callbacks] for point, known in self._registered.items()
        }

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of hyper-nodes; made anew when one of them or a node changed."""
        state, lenient = self.state, self.compat.unserved_topology
        key = (id(state), state.versions.get("HyperNode", 0), state.table.changed.position, lenient)
        known: tuple[object, HyperNodeTree] | None = self.runtime.kept.get("hyper-nodes")
        if known is None or known[0] != key:
            known = self.runtime.kept["hyper-nodes"] = (key, tree_of(state, lenient=lenient))
        return known[1]

    # -- what the plugin that is being opened has ---------------------------------------------------------------------
    @property
    def opening(self) -> str:
        """The plugin that is being opened or closed, or nothing."""
        return self._opening

    def flag(self, name: str) -> bool:
        """Report whether a flag (``enableHierarchy``) is on for the plugin being opened. Off in a session built by
        hand."""
        return self._opening_entry is not None and self._opening_entry.enabled(name)

    @property
    def log(self) -> logging.Logger:
        """The logger of the plugin being opened."""
        return logging.getLogger(f"pumice.plugins.{self._opening}" if self._opening else "pumice.plugins")

    @property
    def memory(self) -> dict[str, Any]:
        """The memory of the plugin being opened (or asked at close).

        A plugin of yours that asks for it is run in every cycle: it may count them.
        """
        entry = self._opening_entry
        if entry is not None and not type(entry.plugin).__module__.startswith("pumice."):
            self.wake_at(0.0)
        return self.memory_of(self._opening)

    def memory_of(self, plugin: str) -> dict[str, Any]:
        """The memory of a plugin between sessions."""
        return self.runtime.memory.setdefault(plugin, {})

    def wake_at(self, time: float) -> None:
        """Have the next cycle run at *time* at the latest, even if nothing changes; 0: in any case.

        For callbacks that depend on a server, a file or a clock of their own. Reading `now` or `environment` counts by
        itself.
        """
        if time < self.wakes_at:
            self.wakes_at = time

    def keep_sum(self, name: str, contribution: Callable[[Job], Resources]) -> Resources:
        """The sum of what every job contributes, as of the session's opening, without asking about all jobs each cycle.

        For `on_session_open`. *contribution* is asked again about jobs that change, so it must depend on the job alone.
        A function of a module is followed from cycle to cycle; a method is asked about every job in each.

        :raises PluginLoadError: the sum has no name, or what is handed over is no function.
        """
        _check_name("keep_sum", name)
        _check_function("keep_sum", contribution)
        kept = self.state.keep_sum(f"{self._opening}/{name}", contribution)
        for exc in kept.take_failures():
            self.failures.contain(self._opening, "keep_sum", exc, fn=contribution)
        return kept.total

    # -- registering ------------------------------------------------------------------------------------------------
    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register a callback at a point. A second one under the same name replaces the first, as in Volcano.

        At the points for many nodes at once a plugin may register several, beside each other.

        :raises PluginLoadError: there is no such point, or what is handed over fits no form of it.
        """
        rule = POINTS.get(point)
        if rule is None:
            near = hint(point, POINTS)
            raise PluginLoadError(
                f"extension point {point!r}: there is none of that name{near}; `pumice plugin points` lists them"
            )
        if fn is None:
            if not callable(name):
                raise PluginLoadError(f"{rule.register}: needs a function, got {fn!r} for {name!r}")
            fn, name = name, getattr(getattr(name, "__self__", None), "name", "") or self._opening
        elif not isinstance(name, str):
            raise PluginLoadError(f"{rule.register}: the name must be text, got {name!r}")
        if isinstance(marked := getattr(fn, SCOPE_MARK, None), tuple):
            declared |= {"scope": marked[0], "key": declared.get("key") or marked[1]}
        shaped = fn if declared.get("sort_key") and callable(fn) else adapted(rule, name, fn)
        callback = Callback(name, point, shaped, **declared)
        at_point = self._registered.setdefault(point, {})
        if point in BATCHED and (point, name) in self._added:
            at_point[name] = [c for c in at_point[name] if not _same(c, callback)] + [callback]
        else:
            at_point[name] = [callback]
        self._added.append((point, name))
        if self._chains:
            self._forget_chain(point)
        if self._opening_entry is not None and point in self._opening_entry.unasked:
            self.warnings.append(f"plugin {name!r} registers at {point}, which no action asks")

    def add_event_handler(self, handler: EventHandler) -> None:
        """Be told of every virtual placement and its undoing.

        :raises PluginLoadError: it is no `EventHandler`.
        """
        if not isinstance(handler, EventHandler):
            raise PluginLoadError(f"add_event_handler: needs an EventHandler, got {shown(handler)}")
        handler.plugin = handler.plugin or self._opening
        self.handlers.add(handler)

    def register_binder(self, name: str, binder: Any) -> None:
        """Offer a binder; a later one of the same name replaces it.

        :raises PluginLoadError: it has no name, or it is none.
        """
        _check_name("register_binder", name)
        if binder is None:
            raise PluginLoadError("register_binder: needs a binder, an object with bind(intent), got None")
        self.binds.offer(name, binder)

    def prepare_binds(self, fn: Callable[[Task], Sequence[Choice]]) -> None:
        """Let *fn* say what must be done for the claims of a task before it is bound.

        :raises PluginLoadError: it is no function.
        """
        _check_function("prepare_binds", fn)
        self.binds.prepare(self._opening, fn)

    # -- opening and closing plugins -----------------------------------------------------------------------------------
    def _open_plugins(self) -> None:
        """Open every plugin of the tiers, in order; build those that no earlier session has left."""
        ill = self.runtime.health
        for tier in self._tiers or ():
            for entry in tier:
                if not _is_persistent(entry.plugin):
                    entry.plugin = None
                if ill and (health := ill.get(entry.name)) is not None and health.quarantined:
                    entry.plugin = None
                    continue
                self._opening_entry, self._added = entry, []
                try:
                    if entry.plugin is None:
                        entry.plugin = entry.build()
                    self._open(entry.plugin, entry.name)
                except FAILS as exc:
                    plugin, entry.plugin = entry.plugin, None
                    self._leave_out(entry.name, plugin, exc)
        self._opening_entry = None

    def _forget_chain(self, point: str) -> None:
        self._ask_anew(point)
        if point in SEARCHED:
            self.search.forget()

    def _leave_out(self, name: str, plugin: Any, exc: BaseException) -> None:
        """A plugin could not be opened: it is as if it were not there."""
        self._withdraw(name)
        self.failures.contain(name, "on_session_open", exc, fn=getattr(plugin, "on_session_open", None))

    def _withdraw(self, name: str) -> None:
        """Take back what the plugin registered that is being opened."""
        self._opening = ""
        for point, registered in self._added:
            self._registered[point].pop(registered, None)
            self._forget_chain(point)
        self.handlers.drop(name)
        self.binds.drop(name)

    def open_plugin(self, plugin: Any, name: str = "") -> None:
        """Open one plugin: register the methods named after points, then let it register by itself.

        :raises PluginLoadError: what it registers fits no form of a point.
        """
        name = name or getattr(plugin, "name", "") or type(plugin).__name__
        self._added = []
        try:
            self._open(plugin, name)
        except PluginLoadError:
            raise
        except FAILS as exc:
            self._leave_out(name, plugin, exc)

    def _open(self, plugin: Any, name: str) -> None:
        self._opening = name
        started = time.perf_counter()
        try:
            for point in _points_of(type(plugin)):
                self.add(point, name, getattr(plugin, point))
            opened = getattr(plugin, "on_session_open", None)
            if opened is not None:
                opened(self)
        finally:
            self._opening = ""
            self.timings["open", name] = self.timings.get(("open", name), 0.0) + time.perf_counter() - started
            if _closes(plugin):
                self._opened.append((name, plugin))

    def close_plugins(self) -> None:
        """Tell every plugin that was opened, once, that the session ends."""
        opened, self._opened = self._opened, []
        clock, timings, timed = time.perf_counter, self.timings, self.runtime.metered
        begun = clock()
        for name, plugin in opened:
            self._opening = name
            try:
                plugin.on_session_close(self)
            except FAILS as exc:
                self.failures.contain(name, "on_session_close", exc, fn=plugin.on_session_close)
            if timed:
                over = clock()
                timings["close", name] = over - begun
                begun = over
        self._opening = ""

    # -- opening and closing ----------------------------------------------------------------------------------------
    def open(self) -> Session:
        """Build and open every plugin of the tiers, in order; one that cannot be is left out, and it is told."""
        self.runtime.cycle += 1
        if self.state.refused or self.state.stopped:
            learn_refusals(self)
        if self.runtime.nominations:
            hold_rooms(self)
        self._open_plugins()
        return self

    def close(self) -> None:
        """Close the plugins, settle phases and conditions, then undo everything that was not committed."""
        self.close_plugins()
        tell_problems(self)
        self.outcome.settle(self.changed_jobs())
        self._told, self.state.changed_jobs = self.state.changed_jobs, {}
        self.undo()
        self.outcome.intents += self.failures.judge()

    def break_off(self) -> None:
        """Close the plugins of a cycle that failed; what it did to tasks is for the caller to take back."""
        self.close_plugins()
        self.state.changed_jobs.update(self._told)  # no handler is told: the next session tells them

    def undo(self) -> None:
        """Take back what was not committed, and end the session in the state. Nothing is left half applied."""
        self.outcome.undo()
        for op in reversed(self.outcome.promises):
            if op.task.status is S.PIPELINED:
                self.state.move(op.task, S.PENDING, None)
        self.state.end_session()

    def release(self) -> None:
        """Let go of everything that leads back here, so that a session that is over needs no garbage collector.

        Nothing can be asked any more. Plugins are built anew if one of them failed.
        """
        if self.failures.failed:
            self.runtime.tiers = None
        self.search.forget()
        vars(self).clear()

    def changed_jobs(self) -> list[Job]:
        """Jobs that changed since the last session closed, by events or by this session, and that are to be told of."""
        return [job for job in self.state.changed_jobs.values() if job.in_session] if self._tells else []

    # -- deciding ---------------------------------------------------------------------------------------------------
    def view(self, make: Callable[[Session], V]) -> V:
        """The object that *make* makes of this session, made once: another view of the cluster, shared by its users."""
        if make not in self._views:
            self._views[make] = make(self)
        found: V = self._views[make]
        return found

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def reopen_best_effort(self) -> None:
        """Take back committed promises to tasks that ask for nothing: backfill finds them a place now.

        If a pod was evicted for the task, the promise stands.
        """
        kept = holds(self)
        promises = self.outcome.promises
        for op in [op for op in promises if op.task.best_effort and op.task.status is S.PIPELINED]:
            if kept and op.evicted:
                continue
            promises.remove(op)
            self.state.move(op.task, S.PENDING, None)
            self.handlers.deallocated(op.task, op.node)


class HelpfulSession(Session):
    """A session for plugins other than ours: for a missing attribute the error names a near one.

    Every attribute of such a class is read at a fifth of the speed, so ours do without.
    """

    if not TYPE_CHECKING:  # a type checker should find these names missing

        def __getattr__(self, name: str) -> NoReturn:
            """:raises UnknownName: the session has no such name; says which was perhaps meant."""
            if name.startswith("_"):
                raise AttributeError(f"'Session' object has no attribute {name!r}", name=name, obj=self)
            raise UnknownName(f"the session has no {name!r}{hint(name, dir(type(self)))}")


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str):
        raise PluginLoadError(f"{what}: the name must be text, got {shown(name)}")


def _check_function(what: str, fn: object) -> None:
    if not callable(fn):
        raise PluginLoadError(f"{what}: needs a function, got {shown(fn)}")


def _is_persistent(plugin: Any) -> bool:
    """Report whether a plugin serves several sessions, as its own class says."""
    return bool(vars(type(plugin)).get("persistent"))


def _closes(plugin: Any) -> bool:
    """Report whether a plugin has anything to do when a session closes."""
    closing = getattr(plugin, "on_session_close", None)
    return closing is not None and getattr(closing, "__func__", None) is not Plugin.on_session_close


_POINTS_OF: dict[type, list[str]] = {}


def _points_of(cls: type) -> list[str]:
    """Methods of a plugin class that are named after a point."""
    known = _POINTS_OF.get(cls)
    if known is None:
        known = _POINTS_OF[cls] = [name for name in POINTS if callable(getattr(cls, name, None))]
    return known


def _same(one: Callback, other: Callback) -> bool:
    """Report whether two callbacks of a plugin are one that was registered twice; another key concerns other tasks."""
    return (one.fn, one.scope, one.key) == (other.fn, other.scope, other.key)
