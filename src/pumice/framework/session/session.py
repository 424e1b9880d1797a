"""Session: one instant of the cluster, the plugins opened on it, and everything they can be asked."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pumice.engine.hypernodes import HyperNodeTree, TopologyDomain, tree_of
from pumice.engine.scope import Scope
from pumice.errors import PluginError, PluginLoadError, UnknownName, shown
from pumice.framework.arguments import Arguments, arguments_of
from pumice.framework.compat import PUMICE, Compat
from pumice.framework.metrics import Metrics
from pumice.framework.names import hint
from pumice.framework.plugin import Plugin
from pumice.framework.points.binds import Binds
from pumice.framework.points.callback import Callback, adapted
from pumice.framework.points.events import EventHandler
from pumice.framework.points.guard import FAILS, Failures
from pumice.framework.points.handlers import Handlers
from pumice.framework.points.registration import Fn, Registration
from pumice.framework.points.table import POINTS
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.eviction_refusals import learn_refusals
from pumice.framework.session.nominations import hold_rooms, holds
from pumice.framework.session.opened import Left, PluginEntry
from pumice.framework.session.orders import Orders
from pumice.framework.session.outcome import Outcome
from pumice.framework.session.problems import tell_problems
from pumice.framework.session.questions import Questions
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.search import SEARCHED, Search
from pumice.framework.session.statement import Statement
from pumice.model.intents import Choice
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.queue import Queue
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

    A plugin sees the cluster, registers, and may ask every point by its name. What actions need beside that stands in
    parts of their own: `orders` (who goes first), `search` (where to), `outcome` (what was decided, and why not more).
    Built by hand without tiers, every registration counts as one enabled tier in order: open a plugin on it with
    `open_plugin` and ask (``ssn.predicate(task, node)``, ``ssn.job_ready(job)``).
    """

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
        """*thorough*: everybody who waits is looked at, also who is known to wait in vain. *tells*: jobs that change
        are told of; nobody asks that in a dry cycle.
        """
        self.state = state
        self.compat = compat
        self.runtime = runtime if runtime is not None else Runtime()
        self.actions = tuple(actions)
        self.signature = signature
        self.metrics = Metrics(self.runtime.metered)
        self.failures = self._make_failures()
        self.handlers = self._no_handlers()
        self.binds = Binds(self.failures)
        self.orders = Orders(self)
        self.search = Search(self)
        self._tiers, self._action_arguments = tiers, action_arguments
        self._registered: dict[str, dict[str, list[Callback]]] = {}
        self._left = Left()
        self._may_stand = True
        self._steady: bool | None = None
        self._opened: list[tuple[str, Any]] = []
        self._preemptive: dict[Hashable, Verdict] = {}
        self._views: dict[Callable[[Session], Any], Any] = {}
        self._begin(shard, environment, thorough=thorough, tells=tells)
        self._begin_asking()
        self._own = frozenset((*vars(self), "_own"))

    def _begin(
        self, shard: Shard | None, environment: Mapping[str, Any] | None, *, thorough: bool, tells: bool
    ) -> None:
        """What is of one cycle alone."""
        state = self.state
        self.shard = shard
        self.thorough, self._tells = thorough, tells
        self.environment = environment or {}
        """What a plugin may know beside the cluster's objects: node usage, enabled features."""
        self.acting = None
        self.domain: TopologyDomain | None = None
        """The hyper-node in which nodes are being looked for; None: everywhere."""
        self.simulates = False
        """Are queues asked for the sums alone, whatever their state? So in the dry runs of Volcano's preempt."""
        self.forgot_turns = False
        """Was what is remembered of evictions gone through in this cycle?"""
        self.metrics.wanted = self.runtime.metered
        self.outcome = Outcome(state, self.runtime)
        self.timings: dict[tuple[str, str], float] = {}
        self.warnings: list[str] = []
        self._opening = ""
        self._opening_entry: PluginEntry | None = None
        self._preemptive_at = -1
        state.refresh()
        self._told: dict[str, Job] = {}

    def again(
        self, shard: Shard | None, environment: Mapping[str, Any] | None, *, thorough: bool, tells: bool
    ) -> Session:
        """The same for the next cycle: what was made of registrations stands, what was found out is gone (`rest`)."""
        self._begin(shard, environment, thorough=thorough, tells=tells)
        return self

    def _no_handlers(self) -> Handlers:
        return Handlers(self.failures, self.state, raising_objects=self.compat.raising_handlers)

    @cached_property
    def budgets(self) -> Budgets:
        """Whom disruption budgets let go, counted along the plans of this session."""
        return Budgets(self.state, as_volcano=self.compat.disruption_budgets, kept=self.runtime.kept)

    def _make_failures(self) -> Failures:
        return Failures(self.runtime.health, self.runtime.told, self.metrics)

    # -- what plugins see -------------------------------------------------------------------------------------------
    @property
    def jobs(self) -> Mapping[str, Job]:
        """Jobs with a PodGroup and a queue, by UID."""
        return self.state.session_jobs

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return self.state.nodes

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
        return self.memory_of(self._opening)

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

    def memory_of(self, plugin: str) -> dict[str, Any]:
        """What a plugin keeps between sessions."""
        return self.runtime.memory.setdefault(plugin, {})

    @property
    def log(self) -> logging.Logger:
        """The logger of the plugin being opened."""
        return logging.getLogger(f"pumice.plugins.{self._opening}" if self._opening else "pumice.plugins")

    @property
    def errors(self) -> list[PluginError]:
        """What went wrong in plugins."""
        return self.failures.errors

    def action_arguments(self, action: str) -> Arguments:
        """The arguments that the configuration gives an action."""
        given = self._action_arguments(action) if self._action_arguments else {}
        return arguments_of(given, f"action {action}", self.compat)

    @property
    def describes(self) -> bool:
        """Is this session only to find out who registers where? Then nobody outside is to be called."""
        return bool(self.environment.get("describes"))

    def flag(self, name: str) -> bool:
        """Is a flag (``enableHierarchy``) on for the plugin being opened? Off in a session built by hand."""
        return self._opening_entry is not None and self._opening_entry.enabled(name)

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
        """Is a plugin of that name among the tiers?"""
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
    def opening(self) -> str:
        """The plugin that is being opened or closed, or nothing."""
        return self._opening

    @property
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of hyper-nodes; made anew when one of them or a node changed."""
        state, lenient = self.state, self.compat.unserved_topology
        key = (id(state), state.versions.get("HyperNode", 0), state.table.changed.position, lenient)
        known = self.runtime.hyper_nodes
        if known is None or known[0] != key:
            known = self.runtime.hyper_nodes = (key, tree_of(state, lenient=lenient))
        return known[1]

    # -- registering ------------------------------------------------------------------------------------------------
    def add(self, point: str, name: str | Fn, fn: Fn | None = None, **declared: Any) -> None:
        """Register a callback at a point. A second one under the same name replaces the first, unless *also*.

        :raises PluginLoadError: there is no such point, or what is handed over fits no form of it.
        """
        rule = POINTS.get(point)
        if rule is None:
            near = hint(point, POINTS)
            raise PluginLoadError(
                f"extension point {point!r}: there is none of that name{near}; `pumice points` lists them"
            )
        if fn is None:
            if not callable(name):
                raise PluginLoadError(f"{rule.register}: needs a function, got {fn!r} for {name!r}")
            fn, name = name, getattr(getattr(name, "__self__", None), "name", "") or self._opening
        elif not isinstance(name, str):
            raise PluginLoadError(f"{rule.register}: the name must be text, got {name!r}")
        also = declared.pop("also", False)
        shaped = fn if declared.get("sort_key") and callable(fn) else adapted(rule, name, fn)
        callback = Callback(name, point, shaped, **declared)
        at_point = self._registered.setdefault(point, {})
        if self._opening_entry is None or (name in at_point and (point, name) not in self._left.at):
            self._may_stand = False  # outside of an opening, or in the place of another plugin
        if also and name in at_point:
            at_point[name].append(callback)
        else:
            at_point[name] = [callback]
        self._left.at.append((point, name))
        if self._chains:
            self._forget_chain(point)
        if self._opening_entry is not None and point in self._opening_entry.unasked:
            warning = f"plugin {name!r} registers at {point}, which no action asks"
            self.warnings.append(warning)
            self._left.warnings.append(warning)

    def add_event_handler(self, handler: EventHandler) -> None:
        """Be told of every virtual placement and its undoing.

        :raises PluginLoadError: it is no `EventHandler`.
        """
        if not isinstance(handler, EventHandler):
            raise PluginLoadError(f"add_event_handler: needs an EventHandler, got {shown(handler)}")
        handler.plugin = handler.plugin or self._opening
        self._left.lasts = False
        self.handlers.add(handler)

    def register_binder(self, name: str, binder: Any) -> None:
        """Offer a binder; a later one of the same name replaces it.

        :raises PluginLoadError: it has no name, or it is none.
        """
        _check_name("register_binder", name)
        if binder is None:
            raise PluginLoadError("register_binder: needs a binder, an object with bind(intent), got None")
        self._left.lasts = False
        self.binds.offer(name, binder)

    def prepare_binds(self, fn: Callable[[Task], Sequence[Choice]]) -> None:
        """Let *fn* say what must be done for the claims of a task before it is bound.

        :raises PluginLoadError: it is no function.
        """
        _check_function("prepare_binds", fn)
        self._left.lasts = False
        self.binds.prepare(self._opening, fn)

    # -- opening and closing ----------------------------------------------------------------------------------------
    def open(self, *, holds_rooms: bool = True) -> Session:
        """Build and open every plugin of the tiers, in order; one that cannot be is left out, and it is told.

        *holds_rooms*: the room of nominations is held at once; else before anybody is given a place (`hold_rooms`).
        """
        self.runtime.cycle += 1
        if self.state.refused:
            learn_refusals(self)
        if self.runtime.nominations and holds_rooms:
            hold_rooms(self)
        kept = self._steady
        clock, timings, timed = time.perf_counter, self.timings, self.runtime.metered
        ill = self.runtime.health
        begun = clock()
        for tier in self._tiers or ():
            for entry in tier:
                if ill and (health := ill.get(entry.name)) is not None and health.quarantined:
                    continue
                self._opening_entry = entry
                if entry.left is not None and self._goes_on(entry, entry.left):
                    if timed:
                        over = clock()
                        timings["open", entry.name] = over - begun
                        begun = over
                    continue
                kept = None
                entry.plugin, entry.left = None, None
                self._left = Left()
                try:
                    entry.plugin = entry.build()
                    self._open(entry.plugin, entry.name)
                    self._left.lasts &= "on_session_reopen" in vars(type(entry.plugin))
                    self._left.closes = _closes(entry.plugin)
                    entry.left = self._left
                except FAILS as exc:
                    self._leave_out(entry.name, entry.plugin, exc)
                begun = clock()
        self._opening_entry, self._steady = None, kept
        return self

    def _goes_on(self, entry: PluginEntry, left: Left) -> bool:
        """Does a plugin of the last session serve this one too? If not, what it registered is taken back."""
        plugin, name = entry.plugin, entry.name
        try:
            if left.lasts:
                self._opening = name
                if plugin.on_session_reopen(self):
                    if left.closes:
                        self._opened.append((name, plugin))
                    self.warnings += left.warnings
                    return True
        except FAILS as exc:
            self.failures.contain(name, "on_session_reopen", exc, fn=plugin.on_session_reopen)
        finally:
            self._opening = ""
        for point, registered in dict.fromkeys(left.at):
            del self._registered[point][registered]
            self._forget_chain(point)
        return False

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
        for point, registered in self._left.at:
            self._registered[point].pop(registered, None)
            self._forget_chain(point)
        self.handlers.drop(name)
        self.binds.drop(name)

    def open_plugin(self, plugin: Any, name: str = "") -> None:
        """Open one plugin: register the methods named after points, then let it register by itself.

        :raises PluginLoadError: what it registers fits no form of a point.
        """
        name = name or getattr(plugin, "name", "") or type(plugin).__name__
        self._left = Left()
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
                method = getattr(plugin, point)
                scope = getattr(method, "__pumice_scope__", Scope.SESSION)
                self.add(point, name, method, scope=scope, key=getattr(method, "__pumice_key__", None))
            opened = getattr(plugin, "on_session_open", None)
            if opened is not None:
                opened(self)
        finally:
            self._opening = ""
            self.timings["open", name] = self.timings.get(("open", name), 0.0) + time.perf_counter() - started
            if _closes(plugin):
                self._opened.append((name, plugin))

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
        self.state.changed_jobs.update(self._told)  # nobody is told: that is for the next session

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

    def undo(self) -> None:
        """Take back what was not committed, and end the session in the state. Nothing is left half applied."""
        self.outcome.undo()
        for op in reversed(self.outcome.promises):
            if op.task.status is S.PIPELINED:
                self.state.move(op.task, S.PENDING, None)
        self.state.end_session()

    def rest(self) -> bool:
        """The cycle is over: let go of what it found out. May the next one, on the same state and of the same tiers, go
        on with this session? Not where a plugin failed, or registered in the place of another.
        """
        if self._tiers is None or self.failures.failed or not self._may_stand:
            return False
        if len(vars(self)) != len(self._own) + len(self._attributes):
            for name in [n for n in vars(self) if n not in self._own and n not in self._attributes]:
                del vars(self)[name]  # of this cycle, or a plugin's
        if not self.metrics.untouched:
            self.metrics = Metrics(self.runtime.metered)
        self.failures.forget(self.metrics)
        self.search.rest()
        self.orders.forget()
        if self.handlers:
            self.handlers = self._no_handlers()
        if self.binds:
            self.binds = Binds(self.failures)
        if self._views:
            self._views = {}
        if self._preemptive:
            self._preemptive = {}
        self.outcome.release()
        self._told = {}
        return True

    @property
    def steady(self) -> bool:
        """Would the plugins of this session give the same cluster the same answers again?"""
        if self._steady is None:
            self._steady = all(
                entry.left is not None and entry.left.lasts and vars(type(entry.plugin)).get("steady", False)
                for tier in self._tiers or ()
                for entry in tier
            )
        return self._steady

    def retire(self) -> None:
        """Let go of everything that leads back here, so that a session that is over needs no garbage collector.

        Nothing can be asked any more; what was found out has been taken over.
        """
        self.search.forget()
        self._unbind_all()
        self._tiers = self._entries = None
        self._registered, self._chains, self._bound, self._keys, self._opened = {}, {}, {}, {}, []
        self.handlers, self.binds = self._no_handlers(), Binds(self.failures)
        self._views = {}
        self.outcome.release()
        self.failures.errors = []
        del self.orders, self.search

    def changed_jobs(self) -> list[Job]:
        """Jobs that changed since the last session closed, by events or by this session, and that are to be told of."""
        return [job for job in self.state.changed_jobs.values() if job.in_session] if self._tells else []

    # -- deciding ---------------------------------------------------------------------------------------------------
    def view(self, make: Callable[[Session], V]) -> V:
        """What *make* makes of this session, made once: another way to look at the cluster, shared by who needs it."""
        if make not in self._views:
            self._views[make] = make(self)
        found: V = self._views[make]
        return found

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def reopen_best_effort(self) -> None:
        """Take back committed promises to tasks that ask for nothing: backfill finds them a place now.

        Where somebody was evicted for the task, the promise stands.
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
    """A session in which others than we ask: who asks for a name that it lacks is told which was perhaps meant.

    Of a class that says so every attribute is read at a fifth of the speed, so that ours do without.
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


def _closes(plugin: Any) -> bool:
    """Has a plugin anything to do when a session closes?"""
    closing = getattr(plugin, "on_session_close", None)
    return closing is not None and getattr(closing, "__func__", None) is not Plugin.on_session_close


_POINTS_OF: dict[type, list[str]] = {}


def _points_of(cls: type) -> list[str]:
    """Methods of a plugin class that are named after a point."""
    known = _POINTS_OF.get(cls)
    if known is None:
        known = _POINTS_OF[cls] = [name for name in POINTS if callable(getattr(cls, name, None))]
    return known
