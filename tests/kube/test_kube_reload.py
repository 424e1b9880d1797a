"""Conf and plugins change under a running scheduler."""

from __future__ import annotations

from pathlib import Path

from kube_bed import until
from kube_world import World, all_bound

CONF = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: keeper
"""
PLUGIN = """
from pumice import Plugin, Unfit


class Keeper(Plugin):
    name = "keeper"

    def predicate(self, task, node):
        if task.name.startswith({0!r}):
            raise Unfit("kept back")
"""


def test_a_changed_plugin_and_a_changed_file_are_taken_up_by_the_running_process(world: World, tmp_path: Path) -> None:
    conf, plugins = tmp_path / "scheduler.conf", tmp_path / "plugins"
    plugins.mkdir()
    conf.write_text(CONF)
    (plugins / "keeper.py").write_text(PLUGIN.format("a"))
    world.node("n1")
    world.gang("a", 1)
    world.gang("b", 1)
    scheduler = world.scheduler(f"--scheduler-conf={conf}", f"--plugins-dir={plugins}")
    all_bound(world, "b-0")
    assert set(world.bound()) == {"b-0"}
    (plugins / "keeper.py").write_text("class Keeper(")
    until(lambda: "the plugins cannot be used" in scheduler.log, 20, "the broken file is reported")
    assert "keeper.py:1" in scheduler.log
    (plugins / "keeper.py").write_text(PLUGIN.format("c"))
    all_bound(world, "a-0")
    world.gang("c", 1)
    world.gang("d", 1)
    all_bound(world, "d-0")
    assert "c-0" not in world.bound()
    conf.write_text(CONF.replace("  - name: keeper\n", ""))
    all_bound(world, "c-0")
    assert scheduler.stop() == 0
