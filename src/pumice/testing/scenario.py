"""Scenario: a cluster, some cycles of the real scheduler on it, and assertions about what it decided.

The scheduler is the real one (configuration, plugins, actions, statements, intents); the cluster around it carries
intents out at once. Time stands still until `advance` moves it, and nothing is random.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeAlias

import numpy as np
import numpy.typing as npt

from pumice.config import DEFAULT_CONF, from_data, load
from pumice.errors import InvalidInput
from pumice.framework.compat import PUMICE
from pumice.framework.plugin import Plugin
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject, NodeObject, Pod, PodGroup, QueueObject
from pumice.model.events import ClusterEvent
from pumice.model.intents import Bind, Evict, Intent, Nominate
from pumice.model.job import Job
from pumice.model.node import Node
from pumice.model.resources import dim_name
from pumice.model.status import TaskStatus
from pumice.model.task import Task
from pumice.notebook import html_table
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import builders
from pumice.testing.world import Given, World, flat, with_default_queue


class Watch:
    """Looks at the state before and after each cycle and remembers every broken law."""

    def __init__(self) -> None:
        self._idle: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._broken: list[str] = []
        self._cycle = 0

    def before(self, state: ClusterState) -> None:
        """A cycle begins."""
        self._cycle += 1
        self._idle = state.table.idle.copy()

    def after(self, state: ClusterState, assembly: Assembly, report: CycleReport) -> None:
        """A cycle ended; its intents are not carried out yet."""
        found = [*self._over_committed(state), *_for_nothing(assembly, report)]
        if any(info.name == "gang" for tier in assembly.plugins for info, _, _ in tier):
            found += _half_gangs(state, report)
        self._broken += [f"cycle {self._cycle}: {text}" for text in found + violations(state)]

    def broken(self, state: ClusterState) -> list[str]:
        """Every law that was broken so far, or is now."""
        return self._broken + violations(state)

    def _over_committed(self, state: ClusterState) -> list[str]:
        """Nodes that the cycle itself took more from than they had."""
        table, before = state.table, self._idle
        now = table.idle[: before.shape[0], : before.shape[1]]
        out = []
        for d, row in np.argwhere((now < 0) & (now < before)).tolist():
            node = table.nodes[row]
            name = node.name if node is not None else f"row {row}"
            out.append(f"node {name}: {dim_name(d)} is over-committed by {-int(now[d, row])}")
        return out


def _half_gangs(state: ClusterState, report: CycleReport) -> list[str]:
    jobs = {state.jobs[i.job] for i in report.intents if isinstance(i, Bind) and i.job in state.jobs}
    return [
        f"job {job.uid}: {job.ready_count} tasks have a place, its gang needs {job.min_available}"
        for job in sorted(jobs, key=lambda j: j.uid)
        if not job.is_ready
    ]


def _for_nothing(assembly: Assembly, report: CycleReport) -> list[str]:
    """Evictions whose beneficiary got nothing for them."""
    if assembly.compat != PUMICE:
        return []
    helped = {i.job for i in report.intents if isinstance(i, Bind)} | set(report.pipelined)
    return [
        f"pod {i.pod} was evicted for {i.beneficiary}, which got no place"
        for i in report.intents
        if isinstance(i, Evict) and i.beneficiary and i.beneficiary not in helped
    ]


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job was not served: the reason that stopped it, who gave it, and what its tasks ran into on the nodes."""

    reason: str = ""
    plugin: str = ""
    stage: str = ""
    tasks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Everything that was said."""
        said = list(dict.fromkeys(t for t in (self.reason, *self.tasks) if t))
        return "; ".join(t for t in said if not any(t is not other and other.startswith(t) for other in said))

    def __bool__(self) -> bool:
        return bool(self.text)


class Cycle:
    """One cycle's outcome. Names of jobs and pods in ``default`` may be given without their namespace."""

    def __init__(self, report: CycleReport) -> None:
        self.report = report
        self.looked_at = False
        """Whether the test has asked for `errors`."""

    @property
    def intents(self) -> Sequence[Intent]:
        """The decisions: binds, evictions and nominations, in order."""
        return [i for i in self.report.intents if isinstance(i, (Bind, Evict, Nominate))]

    @property
    def updates(self) -> Sequence[Intent]:
        """The written statuses and notes."""
        return [i for i in self.report.intents if not isinstance(i, (Bind, Evict, Nominate))]

    @property
    def binds(self) -> dict[str, str]:
        """Pod -> node."""
        return self.report.binds

    @property
    def evictions(self) -> list[str]:
        """Evicted pods, in order."""
        return self.report.evictions

    @property
    def pipelined(self) -> dict[str, str]:
        """Pod -> node, for tasks that wait for room that is being released."""
        return {pod: node for tasks in self.report.pipelined.values() for pod, node in tasks.items()}

    @property
    def errors(self) -> list[str]:
        """The errors of plugins. A test that asks for it knows of the cycle's errors, and no longer fails of them."""
        self.looked_at = True
        return self.report.errors

    def gauge(self, name: str, **labels: str) -> float | None:
        """The value of a gauge that a plugin published, or None."""
        return self.report.gauges.get((name, tuple(sorted(labels.items()))))

    def counter(self, name: str, **labels: str) -> float:
        """The value of a counter that a plugin published."""
        return self.report.counters.get((name, tuple(sorted(labels.items()))), 0)

    def why(self, job: str) -> Why:
        """Why a job was not served; empty when nothing stood in its way."""
        uid = job if "/" in job else f"default/{job}"
        refusal = self.report.refusals.get(uid)
        unfit = tuple(dict.fromkeys(str(error) for error in self.report.fit_errors.get(uid, {}).values()))
        if refusal is not None:
            return Why(refusal.text, refusal.plugin, refusal.stage, unfit)
        return Why(unfit[0] if unfit else "", "", "nodes" if unfit else "", unfit)

    def _repr_html_(self) -> str:
        waiting = [(uid, self.why(uid)) for uid in dict.fromkeys([*self.report.refusals, *self.report.fit_errors])]
        rows = [[pod, "placed", node] for pod, node in self.binds.items()]
        rows += [[pod, "placed when room is free", node] for pod, node in self.pipelined.items()]
        rows += [[pod, "evicted", ""] for pod in self.evictions]
        rows += [[uid, "pending", why.text] for uid, why in waiting]
        return html_table(("pod or job", "decision", "node or reason"), rows, "Cycle", self.report.errors)


PluginSpec: TypeAlias = str | type[Plugin] | tuple[str | type[Plugin], Mapping[str, Any]] | Mapping[str, Any]
"""A plugin of a scenario: its name, its class, either with arguments, or an entry as in a conf file."""
Plugins: TypeAlias = Sequence[PluginSpec | Sequence[PluginSpec]]
"""One tier, or a list of tiers. It is one sequence, so that a checker infers a list of names and classes."""
ACTIONS = ("enqueue", "allocate", "backfill")
P = ParamSpec("P")


class ConfWarning(UserWarning):
    """A scenario's configuration says something in vain: a misspelt flag, an argument that nobody reads."""


def _adding(build: Callable[P, Given]) -> Callable[Concatenate[Scenario, P], Scenario]:
    """A method that adds what a builder makes, with the builder's own parameters."""

    def add(self: Scenario, /, *args: P.args, **options: P.kwargs) -> Scenario:
        return self.add(build(*args, **options))

    made = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    add.__signature__ = made.replace(  # type: ignore[attr-defined]
        parameters=[own, *made.parameters.values()], return_annotation="Scenario"
    )
    add.__name__, add.__qualname__ = build.__name__, f"Scenario.{build.__name__}"
    add.__doc__ = f"Add what `pumice.testing.{build.__name__}` makes.\n\n    {build.__doc__}"
    return add


class Scenario:
    """A cluster that a test builds, runs cycles on, and asks questions of.

    A queue ``default`` is there from the start. *recreate*: evicted pods come back as new ones that wait.
    """

    def __init__(self, *objects: Given, recreate: bool = False, registry: Registry | None = None) -> None:
        self._registry = (registry or default_registry()).copy()
        self._world = World(recreate=recreate)
        self.state = ClusterState()
        self.runtime = Runtime()
        self.cycles: list[Cycle] = []
        self._assembly: Assembly | None = None
        self._watch = Watch()
        self._queued = False
        if objects:
            self.add(*objects)

    # -- building ----------------------------------------------------------------------------------------------------
    def add(self, *objects: Given) -> Scenario:
        """Add or change objects; lists of them too."""
        listed = flat(objects)
        if not self._queued:
            self._queued = True
            listed = with_default_queue(listed)
        for obj in listed:
            self._tell(self._world.put(obj))
        return self

    node = _adding(builders.node)
    cluster = _adding(builders.cluster)
    queue = _adding(builders.queue)
    job = _adding(builders.job)
    pod = _adding(builders.pod)

    def plugins_from(self, directory: str | Path) -> Scenario:
        """Make the plugins of a directory known, as ``--plugins-dir`` does."""
        self._registry.load_directory(Path(directory))
        return self

    # -- what happens in the cluster ---------------------------------------------------------------------------------
    def finish(self, pod: str, *, failed: bool = False) -> Scenario:
        """A pod ends."""
        return self._tell(self._world.pod_changed(_key(pod), phase="Failed" if failed else "Succeeded"))

    def delete(self, pod: str) -> Scenario:
        """A pod is deleted: the next cycle sees it terminate, the one after that finds it gone."""
        return self._tell(self._world.pod_deleted(_key(pod)))

    def remove(self, pod: str) -> Scenario:
        """A pod is gone at once."""
        return self._tell(self._world.remove(Pod, _key(pod)))

    def remove_job(self, name: str) -> Scenario:
        """A PodGroup is gone at once; its pods stay."""
        return self._tell(self._world.remove(PodGroup, _key(name)))

    def remove_node(self, name: str) -> Scenario:
        """A node is gone at once."""
        return self._tell(self._world.remove(NodeObject, name))

    def remove_queue(self, name: str) -> Scenario:
        """A queue is gone at once; its jobs stay."""
        return self._tell(self._world.remove(QueueObject, name))

    def advance(self, seconds: float) -> Scenario:
        """Let time pass."""
        self.state.now += seconds
        return self

    def _tell(self, events: Iterable[ClusterEvent]) -> Scenario:
        self.state.apply_all(events)
        return self

    # -- running -----------------------------------------------------------------------------------------------------
    def run(
        self,
        cycles: int = 1,
        *,
        actions: Sequence[str] | None = None,
        plugins: Plugins | None = None,
        conf: str | Mapping[str, Any] | None = None,
        compat: str | None = None,
        dialect: str | None = None,
    ) -> Cycle:
        """Run cycles and carry out what they decide; the last one is returned.

        *plugins*: one tier, or a list of tiers. *dialect*: ``kai`` for KAI's actions and, without *plugins*, KAI's
        plugins. *conf*: a whole configuration, as text or data, instead of these three; a plugin of it may be a class.
        The given conf stays in force for later runs; the first is the default configuration. A setting without effect
        is a Python warning, `ConfWarning`.

        :raises ConfigError: the configuration cannot be used, or a plugin cannot work whatever the cluster.
        """
        given = (actions, plugins, conf, dialect)
        if self._assembly is None or any(what is not None for what in given):
            self._assembly = self._configure(*given, compat)
            self.runtime.forget()
        if cycles < 1:
            raise InvalidInput(f"cycles: must be at least 1, got {cycles}")
        for _ in range(cycles):
            self._one(self._assembly)
        return self.cycles[-1]

    def _one(self, assembly: Assembly) -> None:
        self._tell(self._world.settle())
        self._watch.before(self.state)
        report = run_cycle(self.state, assembly, self.runtime, details=True)
        self._watch.after(self.state, assembly, report)
        self.cycles.append(Cycle(report))
        self._tell(self._world.carry_out(report.intents, self.state.now))

    def _configure(
        self,
        actions: Sequence[str] | None,
        plugins: Plugins | None,
        conf: str | Mapping[str, Any] | None,
        dialect: str | None,
        compat: str | None,
    ) -> Assembly:
        if conf is not None and dialect is not None:
            raise InvalidInput("dialect: a whole conf is given, so write it there")
        if conf is None and plugins is None and dialect is None:
            conf = DEFAULT_CONF
        if isinstance(conf, str):
            loaded = load(conf, catalogue_of(self._registry), source="scenario")
        else:
            data: dict[str, Any] = dict(conf) if conf is not None else {} if dialect is None else {"dialect": dialect}
            if conf is None and (actions or dialect is None):
                data["actions"] = ", ".join(actions or ACTIONS)
            if plugins is not None:
                data["tiers"] = [{"plugins": [self._registry.entry(p) for p in tier]} for tier in _tiers(plugins)]
            data = self._registry.with_names(data)
            loaded = from_data(data, catalogue_of(self._registry), source="scenario")
        for problem in loaded.warnings:
            warnings.warn(str(problem), ConfWarning, stacklevel=3)
        return assemble(loaded.conf, self._registry, compat)

    # -- looking -----------------------------------------------------------------------------------------------------
    @property
    def objects(self) -> list[AnyObject]:
        """Everything in the cluster now."""
        return self._world.objects

    def task(self, name: str) -> Task:
        """A pod as plugins see it."""
        found = self.state.task_by_key.get(_key(name))
        if found is None:
            raise InvalidInput(f"pod {_key(name)!r}: not in this scenario; there are {_names(self.state.task_by_key)}")
        return found

    def job_of(self, name: str) -> Job:
        """A job as plugins see it."""
        found = self.state.jobs.get(_key(name))
        if found is None:
            raise InvalidInput(f"job {_key(name)!r}: not in this scenario; there are {_names(self.state.jobs)}")
        return found

    def node_of(self, name: str) -> Node:
        """A node as plugins see it."""
        found = self.state.nodes.get(name)
        if found is None:
            raise InvalidInput(f"node {name!r}: not in this scenario; there are {_names(self.state.nodes)}")
        return found

    @property
    def last(self) -> Cycle:
        """The last cycle."""
        if not self.cycles:
            raise InvalidInput("scenario: no cycle was run yet")
        return self.cycles[-1]

    # -- asserting ---------------------------------------------------------------------------------------------------
    def assert_bound(self, what: str, to: str | Sequence[str] | None = None) -> None:
        """A pod, or every pod of a job, has a node; *to*: this one, or one of these."""
        for task in self._tasks(what):
            assert task.node_name, f"{task.key} is {task.status.title}, not bound: {self._why(task)}"
            allowed = None if to is None else [to] if isinstance(to, str) else list(to)
            if allowed is not None:
                assert task.node_name in allowed, f"{task.key} is on {task.node_name}, not on {' or '.join(allowed)}"

    def assert_evicted(self, *pods: str) -> None:
        """Exactly these pods were evicted, in all cycles together; without names: none was."""
        want = sorted(_key(p) for p in pods)
        got = sorted(pod for cycle in self.cycles for pod in cycle.evictions)
        assert got == want, f"evicted were {got or 'none'}, not {want or 'none'}"

    def assert_pending(self, what: str, because: str = "") -> None:
        """A pod, or every pod of a job, still waits; *because* is part of the reason that the last cycle gives."""
        for task in self._tasks(what):
            place = f" on {task.node_name}" if task.node_name else ""
            assert task.status is TaskStatus.PENDING, f"{task.key} is {task.status.title}{place}, not pending"
            reason = self._why(task)
            assert because in reason, f"{task.key} waits because {reason!r}, which does not say {because!r}"

    def assert_settled(self, after: int = 0, *, cycles: int = 5) -> None:
        """After so many more cycles nothing changes any more: *cycles* further ones decide nothing."""
        if after:
            self.run(after)
        for n in range(1, cycles + 1):
            decided = self.run().intents
            assert not decided, f"cycle {n} of {cycles} that should change nothing decided {decided}"

    def stays_settled(self, cycles: int = 5) -> None:
        """Nothing changes any more: so many further cycles decide nothing."""
        self.assert_settled(cycles=cycles)

    def assert_invariants(self) -> None:
        """Nothing over-committed, no half gang, nobody evicted for nothing, every sum the sum of its parts."""
        broken = self._watch.broken(self.state)
        assert not broken, "broken laws: " + "; ".join(broken)

    def assert_no_errors(self) -> None:
        """No plugin failed, but in cycles whose `Cycle.errors` the test has looked at.

        The scheduler contains a plugin's failure and decides without it, so a test could pass although its plugin
        did nothing. The fixture ``scenario`` asks this when a test ends.
        """
        failed = [error for cycle in self.cycles if not cycle.looked_at for error in cycle.report.errors]
        said = "; ".join(dict.fromkeys(failed))
        assert not failed, f"plugins failed, and the test has not looked at the errors of that cycle: {said}"

    def _tasks(self, what: str) -> list[Task]:
        key = _key(what)
        if key in self.state.task_by_key:
            return [self.state.task_by_key[key]]
        if key in self.state.jobs:
            return list(self.state.jobs[key].tasks.values())
        known = _names([*self.state.jobs, *self.state.task_by_key])
        raise InvalidInput(f"{key!r}: neither a job nor a pod of this scenario; there are {known}")

    def _why(self, task: Task) -> str:
        return self.last.why(task.job.uid).text if self.cycles and task.job is not None else ""


def _tiers(plugins: Plugins) -> list[Sequence[PluginSpec]]:
    if plugins and all(isinstance(p, (list, tuple)) and not _is_pair(p) for p in plugins):
        return list(plugins)  # type: ignore[arg-type]
    return [list(plugins)]  # type: ignore[arg-type]


def _is_pair(spec: object) -> bool:
    return isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], Mapping)


def _key(name: str) -> str:
    return name if "/" in name else f"default/{name}"


def _names(of: Iterable[str]) -> str:
    return ", ".join(sorted(of)) or "none"
