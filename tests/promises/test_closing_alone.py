"""Promise: a plugin that says it closes alone looks at nothing but state, outcome and changed jobs when it closes.

Enumerates every built-in plugin that declares it. Whatever a plugin kept of the last session is made unusable, and it
is shown what it is shown where no session was opened: any other look fails.
"""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from pumice import Plugin, Session
from pumice.config import from_data
from pumice.framework.registry import Registry, default_registry
from pumice.framework.session.outcome import Outcome
from pumice.framework.session.runtime import Runtime
from pumice.model.api import PodSpec
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.telling import Closing
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, queue

DECLARED = sorted(
    name
    for name, info in default_registry().plugins.items()
    if isinstance(info.build, type) and vars(info.build).get("closes_alone")
)


class Gone:
    """What a plugin kept of a session that is over."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError(f"reads {name} of a session that is over")

    def _used(self, *_: object) -> NoReturn:
        raise AssertionError("reads of a session that is over")

    __contains__ = __getitem__ = __iter__ = __len__ = __bool__ = _used


class Last:
    """A session that is over, and what it was made of."""

    def __init__(self, ssn: Session) -> None:
        self.plugins = {entry.name: entry.plugin for tier in ssn._tiers or () for entry in tier}
        outcome = {name: getattr(ssn.outcome, name) for name in _names(ssn.outcome)}
        self._parts = [ssn, *(part for part in outcome.values() if not isinstance(part, (ClusterState, Runtime)))]
        self._met: set[int] = set()

    def let_go(self, owner: object) -> None:
        """Make unusable what a plugin, and what it is made of, holds of it: itself, its outcome, parts of that."""
        self._met.add(id(owner))
        for name in _names(owner):
            value = getattr(owner, name)
            if isinstance(value, (Session, Outcome)) or any(value is part for part in self._parts):
                object.__setattr__(owner, name, Gone())
            elif id(value) not in self._met and type(value).__module__.startswith(("pumice.plugins", __name__)):
                self.let_go(value)


def _names(thing: object) -> list[str]:
    """The attributes that hold what a thing is made of."""
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
    return [name for name in (*getattr(thing, "__dict__", ()), *slots) if hasattr(thing, name)]


def closes(name: str, registry: Registry) -> None:
    """Run a cycle with the plugin, and let it close on its own."""
    named = [{"name": n} for n in dict.fromkeys(("priority", "gang", "predicates", name))]
    conf: dict[str, Any] = {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": named}]}
    assembly = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
    state, runtime = ClusterState(), Runtime(metered=False)
    objects = [queue("default"), *cluster("2x4cpu"), *job("runs", tasks=2, cpu=1, on="node-0")]
    objects += [*job("starts", tasks=2, cpu=1), *job("wide", cpu=9), *job("few", tasks=1, min_available=3, cpu=1)]
    objects += [*job("asks-nothing", tasks=2, cpu=0, spec=PodSpec(node_selector={"no": "where"}))]
    for obj in objects:
        state.apply(Seen(obj))
    seen: list[Last] = []
    run_cycle(state, assembly, runtime, inspect=lambda ssn: seen.append(Last(ssn)))
    plugin: Any = seen[0].plugins[name]
    seen[0].let_go(plugin)
    plugin.on_session_close(Closing(state, runtime, list(state.session_jobs.values())))


@pytest.mark.parametrize("name", DECLARED)
def test_it_reads_nothing_else_when_it_closes(name: str) -> None:
    closes(name, default_registry())


class Keeps(Plugin):
    """Says that it closes alone, and looks into the session that it was opened for."""

    name = "keeps"
    closes_alone = True
    looks = "queues"

    def on_session_open(self, ssn: Session) -> None:
        self._ssn = ssn

    def on_session_close(self, ssn: Session) -> None:
        getattr(self._ssn, self.looks)


class KeepsPart(Keeps):
    """Looks into a part of its outcome."""

    def on_session_open(self, ssn: Session) -> None:
        self._errors = ssn.outcome.fit_errors

    def on_session_close(self, ssn: Session) -> None:
        self._errors.get("a")


class Asks(Keeps):
    """Looks at more of what it is given."""

    def on_session_close(self, ssn: Session) -> None:
        len(ssn.queues)


@pytest.mark.parametrize("odd", [Keeps, KeepsPart, Asks])
def test_one_that_looks_at_more_is_found(odd: type[Plugin]) -> None:
    registry = default_registry().copy()
    registry.register(odd.name, odd)
    with pytest.raises((AssertionError, AttributeError)):
        closes(odd.name, registry)


def test_those_that_declare_it_are_known() -> None:
    assert {"capacity", "drf", "gang", "proportion"} <= set(DECLARED)
