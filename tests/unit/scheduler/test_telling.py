"""Jobs that have only to be told of have no session opened for it, and the same is told of them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from pumice import Plugin, Session
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import PodStatus
from pumice.model.events import Seen
from pumice.model.intents import StatusUpdate
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, queue

PLUGINS = ("priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder")


class Closes(Plugin):
    """Is steady, has something to do at the end, and does not say what it needs for it."""

    name = "closes"
    steady = True
    told: ClassVar[list[str]] = []

    def on_session_reopen(self, ssn: Session) -> bool:
        return True

    def on_session_close(self, ssn: Session) -> None:
        self.told.extend(job.uid for job in ssn.changed_jobs())


class Alone(Closes):
    """Needs nothing but the jobs."""

    name = "alone"
    steady = True
    closes_alone = True

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


class Heir(Alone):
    """Made of one that says what it needs, and says nothing itself."""

    name = "heir"
    steady = True

    def on_session_reopen(self, ssn: Session) -> bool:
        return True


class Fails(Alone):
    """Says that it needs nothing, and fails."""

    name = "fails"
    steady = True
    closes_alone = True
    fails: ClassVar[bool] = False

    def on_session_reopen(self, ssn: Session) -> bool:
        return True

    def on_session_close(self, ssn: Session) -> None:
        if self.fails:
            raise ValueError("no")


class World:
    """Two nodes, one of them in use; "wide" fits nowhere, and "new" is bound in the last cycle."""

    def __init__(self, *plugins: type[Plugin], metered: bool = False) -> None:
        registry = default_registry().copy()
        for plugin in plugins:
            registry.register(plugin.name, plugin)
        named = [{"name": n} for n in (*PLUGINS, *(p.name for p in plugins))]
        conf: dict[str, Any] = {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": named}]}
        self.assembly = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
        self.state, self.runtime = ClusterState(), Runtime(metered=metered)
        self.take_in(
            [
                queue("default"),
                *cluster("2x8gpu"),
                *job("other", gpu=4, on="node-0"),
                *job("wide", gpu=9, phase="Inqueue"),
            ]
        )
        self.cycle()
        self.cycle()
        self.take_in(job("new", tasks=2, gpu=2, phase="Inqueue"))
        assert len(self.cycle().binds) == 2

    def take_in(self, objects: list[Any]) -> None:
        for obj in objects:
            self.state.apply(Seen(obj))

    def starts(self) -> None:
        self.take_in(job("new", tasks=2, gpu=2, phase="Inqueue", on=["node-0", "node-0"]))

    def cycle(self, **given: Any) -> CycleReport:
        return run_cycle(self.state, self.assembly, self.runtime, **given)


def said(report: CycleReport) -> tuple[Any, ...]:
    """Everything that is told in a report."""
    waiting = [(uid, r.stage, r.text, r.told) for uid, r in report.refusals.items()]
    return report.intents, waiting, {u: [str(e) for e in es.values()] for u, es in report.fit_errors.items()}


def test_a_job_that_starts_is_told_of_without_a_session_as_a_session_would() -> None:
    it, run = World(), World(metered=True)
    for one in (it, run):
        one.starts()
    told, ran = it.cycle(), run.cycle()
    assert not told.timings and ran.timings
    assert said(told) == said(ran)
    assert [i.status["phase"] for i in told.intents if isinstance(i, StatusUpdate)] == ["Running"]
    assert it.state.jobs["default/new"].phase == "Running"
    assert said(it.cycle()) == said(run.cycle())


def test_what_starts_later_is_served_after_any_number_of_such_cycles() -> None:
    it = World()
    it.starts()
    for _ in range(3):
        it.cycle()
    it.take_in(job("next", tasks=2, gpu=4))
    assert len(it.cycle().binds) == 2


class Restless(Closes):
    """Has every cycle run."""

    name = "restless"

    def on_session_reopen(self, ssn: Session) -> bool:
        return False


def over(phase: str) -> list[Any]:
    """A job of which the pod has ended."""
    group, pod = job("one", gpu=4, on="node-1")
    return [group, replace(pod, status=PodStatus(phase=phase))]


LIVES: dict[str, list[list[Any]]] = {
    "comes and waits to be let in": [job("one", gpu=12, min_resources={"nvidia.com/gpu": "99"})],
    "comes without a place for it": [job("one", gpu=12)],
    "was let in and has no place": [job("one", gpu=12, phase="Inqueue")],
    "is bound": [job("one", gpu=4)],
    "is bound in part": [job("one", tasks=5, gpu=4, min_available=1)],
    "starts": [job("one", gpu=4, phase="Inqueue", on="node-1")],
    "starts again": [job("one", gpu=4, phase="Running", on="node-1"), job("one", gpu=4, phase="Pending")],
    "lacks pods": [job("one", tasks=1, gpu=4, min_available=2)],
    "ends": [job("one", gpu=4, phase="Running", on="node-1"), over("Succeeded")],
    "fails": [job("one", gpu=4, phase="Running", on="node-1"), over("Failed")],
}


@pytest.mark.parametrize("metered", [False, True])
@pytest.mark.parametrize("life", list(LIVES))
def test_a_job_is_told_of_once_for_each_time_that_it_changes(life: str, metered: bool) -> None:
    it = World(Restless, metered=metered)
    for objects in LIVES[life]:
        it.take_in(objects)
        Restless.told.clear()
        phases = [i.status["phase"] for i in it.cycle().intents if isinstance(i, StatusUpdate)]
        assert "default/one" in Restless.told
        Restless.told.clear()
        assert [i for i in it.cycle().intents if isinstance(i, StatusUpdate)] == [], phases
        assert "default/one" not in Restless.told, f"the phase that it was told to have is no news: {phases}"


@pytest.mark.parametrize(("plugin", "alone"), [(Closes, False), (Alone, True), (Heir, False)])
def test_a_plugin_closes_alone_only_where_its_own_class_says_so(plugin: type[Closes], alone: bool) -> None:
    it = World(plugin)
    it.starts()
    plugin.told.clear()
    assert bool(it.cycle().timings) is not alone
    assert "default/new" in plugin.told


def test_a_cycle_that_somebody_wants_to_see_has_a_session() -> None:
    it, seen = World(), list[float]()
    it.starts()
    it.cycle(inspect=lambda ssn: seen.append(ssn.now))
    assert seen


def test_one_that_fails_alone_is_contained_in_a_session_and_the_rest_is_told() -> None:
    it = World(Fails)
    it.starts()
    Fails.fails = True
    try:
        report = it.cycle()
    finally:
        Fails.fails = False
    assert report.errors and "fails" in report.errors[0]
    assert [i.status["phase"] for i in report.intents if isinstance(i, StatusUpdate)] == ["Running"]
