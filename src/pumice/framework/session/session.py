"""Session: one instant of the cluster, the plugins opened on it, and everything they can be asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pumice.engine.hypernodes import HyperNodeTree, TopologyDomain, tree_of
from pumice.errors import PluginError, UnknownName
from pumice.framework.arguments import Arguments, arguments_of
from pumice.framework.compat import PUMICE, Compat
from pumice.framework.metrics import Metrics
from pumice.framework.names import hint
from pumice.framework.points.callback import Callback
from pumice.framework.points.guard import Failures
from pumice.framework.points.handlers import Binds, Handlers
from pumice.framework.session.asking import PluginEntry
from pumice.framework.session.budgets import Budgets
from pumice.framework.session.nominations import hold_rooms, holds
from pumice.framework.session.opening import PluginOpening
from pumice.framework.session.orders import Orders
from pumice.framework.session.outcome import Outcome
from pumice.framework.session.problems import tell_problems
from pumice.framework.session.refused_writes import learn_refusals
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.search import Search
from pumice.framework.session.statement import Statement
from pumice.model.job import Job, JobMap
from pumice.model.node import NodeMap
from pumice.model.queue import QueueMap
from pumice.model.reason import Verdict
from pumice.model.resources import Resources
from pumice.model.status import TaskStatus
from pumice.state.cluster import ClusterState

S = TaskStatus
V = TypeVar("V")


@dataclass(slots=True)
class Shard:
    """The nodes that are this scheduler's own; *hard* means no others may be used."""

    hard: bool
    nodes: frozenset[str]


class Session(PluginOpening):
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
        self.shard = shard
        self.thorough, self._tells = thorough, tells
        self.given_environment: Mapping[str, Any] = environment or {}
        self.wakes_at = math.inf
        self.domain: TopologyDomain | None = None
        """The hyper-node in which nodes are being looked for; None: everywhere."""
        self.simulates = False
        """Are queues asked for the sums alone, whatever their state? So in the dry runs of Volcano's preempt."""
        self.forgot_turns = False
        """Was what is remembered of evictions gone through in this cycle?"""
        self.timings: dict[tuple[str, str], float] = {}
        self.warnings: list[str] = []
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
        self._begin_opening()
        self._begin_asking()
        state.refresh()

    @cached_property
    def budgets(self) -> Budgets:
        """Whom disruption budgets let go, counted along the plans of this session."""
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
        """What all nodes offer."""
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
        """What went wrong in plugins."""
        return self.failures.errors

    def action_arguments(self, action: str) -> Arguments:
        """The arguments that the configuration gives an action."""
        given = self._action_arguments(action) if self._action_arguments else {}
        return arguments_of(given, f"action {action}", self.compat)

    @property
    def describes(self) -> bool:
        """Is this session only to find out who registers where? Then nobody outside is to be called."""
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
    def hyper_nodes(self) -> HyperNodeTree:
        """The tree of hyper-nodes; made anew when one of them or a node changed."""
        state, lenient = self.state, self.compat.unserved_topology
        key = (id(state), state.versions.get("HyperNode", 0), state.table.changed.position, lenient)
        known: tuple[object, HyperNodeTree] | None = self.runtime.kept.get("hyper-nodes")
        if known is None or known[0] != key:
            known = self.runtime.kept["hyper-nodes"] = (key, tree_of(state, lenient=lenient))
        return known[1]

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
        self.state.changed_jobs.update(self._told)  # nobody is told: that is for the next session

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
