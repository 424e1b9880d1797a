"""Promise: plugins are asked with the same objects in both dialects, and run in both.

A plugin that answers at every point reads every public attribute of whatever it is given. Plugins of the examples, of
the guide, and those of ours that both dialects may name are run in both.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from digest_stories import BEGIN, story
from digests import Cluster

from pumice import EventHandler, Job, Node, Plugin, Queue, Session, Task
from pumice.config import from_data
from pumice.config.kai import DEFAULT_PLUGINS
from pumice.engine.rows import NodeRows
from pumice.errors import InvalidInput
from pumice.framework.point_examples import Examples
from pumice.framework.points import table
from pumice.framework.points.point import Point
from pumice.framework.registry import Registry, default_registry, set_default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.reason import Verdict
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState

ROOT = Path(__file__).parents[2]
STORIES = {"volcano": (3, 8), "kai": (0, 40, 96)}
OF_THE_MODEL = (Task, Job, Queue, Node)
KAIS_OWN: dict[str, tuple[str, ...]] = {
    "QueueClaim": ("queue", "job", "victim", "gone"),
    "VictimScenario": ("job", "tasks", "pieces", "victims"),
    "SearchContext": (),
    "PodSet": (),
    "GroupSet": (),
}
"""Classes that only KAI's points hand over -> what they hold of the state's own objects."""


POINTS = {point.name: point for point in vars(table).values() if isinstance(point, Point)}


class Reader(Examples):
    """Looks at every public attribute of what it is given, and answers so that nothing is refused."""

    name = "reader"

    def on_session_open(self, ssn: Session) -> None:
        ssn.add_event_handler(EventHandler(lambda e: look(e.task), lambda e: look(e.task)))


SEEN: set[str] = set()


def look(given: Any) -> None:
    """Read all that a plugin may read of an object, and note its class."""
    kind = type(given)
    if isinstance(given, (list, tuple)) and kind.__name__ not in KAIS_OWN:
        for each in given:
            look(each)
        return
    SEEN.add(kind.__name__)
    if kind.__name__ in KAIS_OWN:
        for name in KAIS_OWN[kind.__name__]:
            look(getattr(given, name))
        return
    assert not kind.__module__.startswith("pumice.kai") or isinstance(given, NodeRows), kind
    if isinstance(given, NodeRows):
        assert public(given) == public(NodeRows), "rows have attributes of their own"
    if isinstance(given, (*OF_THE_MODEL, NodeRows)):
        for name in public(given):
            getattr(given, name)


def public(obj: Any) -> set[str]:
    return {name for name in dir(obj) if not name.startswith("_")}


def reading(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def read(self: Any, *args: Any) -> Any:
        for arg in args:
            look(arg)
        silence = POINTS[method.__name__].nobody
        if method.__name__ in ("target_job", "reserved_nodes") or (isinstance(silence, Verdict) and silence):
            return silence
        return method(self, *args)

    return read


for _name, _method in list(vars(Examples).items()):
    if not _name.startswith("_") and callable(_method):
        setattr(Reader, _name, reading(_method))


def run(registry: Registry, plugin: str, dialect: str) -> None:
    """Play stories with a plugin beside those of the dialect; nothing may fail."""
    for number in STORIES[dialect]:
        told = story(number, dialect)
        conf: dict[str, Any] = {**told.conf}
        if dialect == "kai":
            conf["tiers"] = [{"plugins": [*({"name": n} for n in DEFAULT_PLUGINS)]}]
        if f"'{plugin}'" not in str(conf["tiers"]):
            tier = {"plugins": [{"name": plugin}]}  # in KAI's dialect the first answer counts
            conf["tiers"] = [tier, *conf["tiers"]] if dialect == "kai" else [*conf["tiers"], tier]
        made = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
        world, state, runtime = Cluster(), ClusterState(), Runtime()
        state.now = BEGIN.timestamp() + 3600
        state.apply_all([world.put(obj) for obj in told.objects])
        for step in told.steps:
            state.now += step.seconds
            events = [world.put(obj) for obj in step.put] + [world.gone(kind, key) for kind, key in step.gone]
            state.apply_all([*world.before(), *events])
            report = run_cycle(state, made, runtime)
            assert report.errors == []
            state.apply_all(list(world.carry_out(report.intents, late=step.late, fails=step.fails)))


@pytest.mark.parametrize("dialect", STORIES)
def test_every_public_attribute_can_be_read_of_what_points_and_handlers_are_given(dialect: str) -> None:
    registry = default_registry().copy()
    registry.register("reader", Reader)
    SEEN.clear()
    run(registry, "reader", dialect)
    assert {kind.__name__ for kind in OF_THE_MODEL} <= SEEN


def of_both() -> Iterator[str]:
    """Plugins of ours that a conf of KAI may name as well."""
    registry = default_registry()
    for plugin in sorted(n for n in registry.plugins if not n.startswith("kai/")):
        name = f"volcano/{plugin}" if f"kai/{plugin}" in registry.plugins else plugin
        conf = {"dialect": "kai", "tiers": [{"plugins": [{"name": name}]}]}
        try:
            from_data(conf, catalogue_of(registry))
        except InvalidInput:
            continue
        yield name


@pytest.mark.parametrize("plugin", [n for n in of_both() if n != "extender"])
def test_plugins_of_ours_run_in_both(plugin: str) -> None:
    run(default_registry(), plugin.removeprefix("volcano/"), "volcano")
    run(default_registry(), plugin, "kai")


def examples() -> Registry:
    registry = Registry()
    registry.load_directory(ROOT / "examples" / "plugins")
    return registry


@pytest.mark.parametrize("dialect", STORIES)
@pytest.mark.parametrize("plugin", sorted(n for n, info in examples().plugins.items() if not info.built_in))
def test_plugins_of_the_examples_run_in_both(plugin: str, dialect: str) -> None:
    run(examples(), plugin, dialect)


def python_of(page: str) -> str:
    """The blocks of Python on a page, and what it writes into files of plugins."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    found += re.findall(r"^cat > plugins/\w+\.py <<'EOF'\n(.*?)^EOF$", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("    ") else f"\n\n{block}" for block in found)


@pytest.mark.parametrize("dialect", STORIES)
@pytest.mark.parametrize("page", ["guides/plugin-development.md", "tutorial.md"])
def test_plugins_of_the_pages_run_in_both(
    page: str, dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = default_registry()
    set_default_registry(before.copy())
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    monkeypatch.chdir(tmp_path)
    try:
        exec(compile(python_of(page), "page", "exec"), vars(module))
        registry = default_registry()
    finally:
        set_default_registry(before)
    for made in vars(module).values():
        named = isinstance(made, type) and issubclass(made, Plugin) and made.__module__ == "page"
        if named and made.name and made.name not in registry.plugins:
            registry.register(made.name, made)
    ours = [n for n in registry.plugins if n not in before.plugins]
    assert ours
    for plugin in ours:
        run(registry, plugin, dialect)
