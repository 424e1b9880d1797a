"""Promise: a persistent plugin decides in every cycle, and on every cluster, as one that was just built.

Enumerates the built-in plugins of both dialects, the plugins of the examples and the classes of the developer guide.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from digest_stories import BEGIN, Story, story
from digests import Cluster, Digest

from pumice import Arguments, EventHandler, Job, Plugin, Session
from pumice.config import from_data
from pumice.framework.registry import Registry, default_registry, set_default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import Assembly, assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.testing import cluster, job, queue

ROOT = Path(__file__).parents[2]
STORIES = {"volcano": (3, 8), "kai": tuple(range(0, 200, 8))}


def played(told: Story, assembly: Assembly, *, anew: bool, runtime: Runtime | None = None) -> list[str]:
    """What is decided and said in all cycles of a story; *anew*: plugins are built for each cycle."""
    digest, world, state, runtime = Digest(keeps=True), Cluster(), ClusterState(), runtime or Runtime()
    state.now = BEGIN.timestamp() + 3600
    state.apply_all([world.put(obj) for obj in told.objects])
    for step in told.steps:
        state.now += step.seconds
        state.apply_all(list(world.before()))
        events = [world.put(obj) for obj in step.put] + [world.gone(kind, key) for kind, key in step.gone]
        for which, outcome in step.ends:
            events += world.ends(which, outcome)
        state.apply_all(events)
        if anew:
            runtime.tiers = None
        report = run_cycle(state, assembly, runtime)
        digest.cycle(report)
        state.apply_all(list(world.carry_out(report.intents, late=step.late, fails=step.fails)))
    return digest.lines


def agrees(registry: Registry, plugin: str, dialect: str) -> None:
    """Two clusters one after the other, under one assembled conf, against plugins that are always new."""
    runtime = Runtime()
    for number in STORIES[dialect]:
        told = story(number, dialect)
        conf: dict[str, Any] = {**told.conf}
        if plugin not in str(conf.get("tiers", "")) and "tiers" in conf:
            conf["tiers"] = [*conf["tiers"], {"plugins": [{"name": plugin}]}]
        made = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
        anew = played(told, made, anew=True)
        assert played(told, made, anew=False) == anew
        assert played(told, made, anew=False, runtime=runtime) == anew
        runtime.memory.clear()
        runtime.kept.clear()
        runtime.nominations.clear()
        runtime.turns.clear()
        runtime.losses.clear()
        runtime.cycle = 0


@pytest.mark.parametrize("plugin", sorted(n for n in default_registry().plugins if not n.startswith("kai/")))
def test_of_ours(plugin: str) -> None:
    agrees(default_registry(), plugin, "volcano")


def test_of_ours_in_the_dialect_of_kai() -> None:
    agrees(default_registry(), "kai/proportion", "kai")


def examples() -> Registry:
    registry = Registry()
    registry.load_directory(ROOT / "examples" / "plugins")
    return registry


@pytest.mark.parametrize("plugin", sorted(n for n, info in examples().plugins.items() if not info.built_in))
def test_of_the_examples(plugin: str) -> None:
    agrees(examples(), plugin, "volcano")


def test_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "guides" / "plugin-development.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    joined = "".join(block if block.startswith("    ") else f"\n\n{block}" for block in found)
    before = default_registry()
    set_default_registry(before.copy())
    module = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", module)
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(joined, "guide", "exec"), vars(module))
        registry = default_registry()
    finally:
        set_default_registry(before)
    ours = [n for n in registry.plugins if n not in before.plugins]
    assert ours
    for plugin in ours:
        agrees(registry, plugin, "volcano")


def test_all_of_ours_are_persistent() -> None:
    ours = {name: info.build for name, info in default_registry().plugins.items() if info.built_in}
    assert [name for name, cls in ours.items() if not vars(cls).get("persistent")] == []


# -- how many are built ---------------------------------------------------------------------------------------------
told: Counter[str] = Counter()


class Stays(Plugin):
    """Serves all sessions."""

    name = "stays"
    persistent = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        told["built"] += 1

    def on_session_open(self, ssn: Session) -> None:
        told["opened"] += 1
        ssn.add_job_valid_fn(self.name, self._valid)
        ssn.add_event_handler(EventHandler(allocate=lambda event: told.update(["handled"])))

    def _valid(self, job: Job) -> bool:
        told[f"{type(self).__name__} asked"] += 1
        return True


class Below(Stays):
    """Made of a persistent plugin, and says nothing itself."""

    name = "below"


class Fails(Stays):
    """Fails when it is opened for the second time."""

    name = "fails"
    persistent = True
    _seen = False

    def on_session_open(self, ssn: Session) -> None:
        if self._seen:
            raise RuntimeError("no more")
        self._seen = True
        super().on_session_open(ssn)


class Objects(Stays):
    """Fails when it is asked."""

    name = "objects"
    persistent = True

    def _valid(self, job: Job) -> bool:
        raise RuntimeError("never")


def assembly(*plugins: type[Plugin]) -> Assembly:
    registry = default_registry().copy()
    for plugin in plugins:
        registry.register(plugin.name, plugin)
    names = [{"name": n} for n in ("priority", "gang", "predicates", "proportion", *(p.name for p in plugins))]
    conf: dict[str, Any] = {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": names}]}
    return assemble(from_data(conf, catalogue_of(registry)).conf, registry)


class World:
    """Three nodes; each cycle brings a job."""

    def __init__(self, made: Assembly) -> None:
        self.state, self.runtime, self.assembly, self.cycles = ClusterState(), Runtime(), made, 0
        self.state.apply_all([Seen(obj) for obj in [queue("default"), *cluster("3x8gpu")]])
        told.clear()

    def cycle(self) -> Any:
        self.cycles += 1
        self.state.apply_all([Seen(obj) for obj in job(f"j{self.cycles}", tasks=2, gpu=1)])
        return run_cycle(self.state, self.assembly, self.runtime)


@pytest.mark.parametrize(("plugin", "built"), [(Stays, 1), (Below, 3)])
def test_a_plugin_is_built_anew_unless_its_own_class_says_otherwise(plugin: type[Plugin], built: int) -> None:
    world = World(assembly(plugin))
    assert [len(world.cycle().binds) for _ in range(3)] == [2, 2, 2]
    assert (told["built"], told["opened"], told["handled"]) == (built, 3, 6)
    assert told[f"{plugin.__name__} asked"] >= 3


def test_a_plugin_that_fails_is_told_and_built_anew() -> None:
    world = World(assembly(Fails))
    world.cycle()
    report = world.cycle()
    assert ["no more" in error and "on_session_open" in error for error in report.errors] == [True]
    assert len(report.binds) == 2
    assert not world.cycle().errors
    assert told["built"] == 2


def test_a_plugin_that_fails_in_an_answer_is_built_anew() -> None:
    world = World(assembly(Stays, Objects))
    for _ in range(2):
        assert world.cycle().errors
    assert told["built"] == 4


def test_another_configuration_or_cluster_has_its_own_plugins() -> None:
    world = World(assembly(Stays))
    world.cycle()
    world.assembly = assembly(Stays)
    told.clear()
    world.cycle()
    assert told["built"] == 1
    other = World(world.assembly)
    other.runtime = world.runtime
    other.cycle()
    assert told["built"] == 1


class Leaves(Plugin):
    """Leaves behind whatever can be left in a session, and looks whether it is there in the next."""

    name = "leaves"
    persistent = True

    def on_session_open(self, ssn: Session) -> None:
        told["found"] += hasattr(ssn, "_mine")
        told["warned"] += len(ssn.warnings)
        told["fits"] += len(ssn.outcome.fit_errors)
        ssn._mine = 1  # type: ignore[attr-defined]
        ssn.metrics.gauge(f"mine_{told['opened']}", 1)
        told["opened"] += 1
        ssn.warnings.append("mine")
        ssn.outcome.fit_errors.of("mine")


def test_nothing_of_one_session_is_found_by_the_next() -> None:
    world = World(assembly(Leaves))
    first, second = world.cycle(), world.cycle()
    assert (told["opened"], told["found"], told["warned"], told["fits"]) == (2, 0, 0, 0)
    assert "mine_0" in [name for name, _ in first.gauges]
    assert "mine_0" not in [name for name, _ in second.gauges]
    assert second.warnings == ["mine"]
