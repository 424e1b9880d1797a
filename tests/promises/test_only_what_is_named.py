"""A program loads the plugins and actions that its conf names, and what it does; nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pytest

from pumice.actions.allocate import Allocate
from pumice.config import DEFAULT_CONF
from pumice.framework import registry
from pumice.framework.points import POINTS
from pumice.framework.registry import GROUPS, Registry
from pumice.scheduler.assembly import who

EVICTING = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""
KAI = "dialect: kai\nactions: allocate, consolidation, reclaim, preempt, stalegangeviction\n"
ASSEMBLES = """
import json, sys
from pumice.config import load
from pumice.framework.registry import default_registry
from pumice.scheduler.assembly import assemble, catalogue_of
registry = default_registry()
made = assemble(load(sys.stdin.read(), catalogue_of(registry), "<conf>").conf, registry)
print(json.dumps([[i.name for tier in made.plugins for i, _, _ in tier], made.conf.actions, list(sys.modules)]))
"""
WITH_A_PLUGIN_OF_ONES_OWN = """
import json, sys
sys.path.insert(0, TOOLS)
from pumice import Plugin
from pumice_bench.shapes import gangs
from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.yamls import load

class Mine(Plugin):
    name = "mine"

    def on_session_open(self, ssn):
        ssn.add_predicate_fn(self.name, lambda task, node: None)
        ssn.add_node_order_fn(self.name, lambda task, node: 1.0)

registry = default_registry()
registry.register("mine", Mine)
conf = load(sys.stdin.read(), "<conf>")
conf["tiers"][-1]["plugins"].append({"name": "mine"})
made = assemble(from_data(conf, catalogue_of(registry)).conf, registry)
shape, state = gangs(10, 2), ClusterState()
state.apply_all(Seen(obj) for obj in [*shape.objects, *shape.cycles[0][0]])
before = set(sys.modules)
run = run_cycle(state, made, Runtime())
assert len(run.binds) == 200 and not run.errors, run
print(json.dumps([made.conf.actions, list(sys.modules), sorted(set(sys.modules) - before)]))
""".replace("TOOLS", repr(str(Path(__file__).parents[2] / "tools")))
OFFERED = {
    (kind, prefix + entry.name): entry
    for group, prefix in GROUPS.items()
    for kind in ("plugins", "actions")
    for entry in entry_points(group=f"{group}.{kind}")
}


@pytest.mark.parametrize("text", [DEFAULT_CONF, EVICTING, KAI], ids=["by default", "evicting", "of KAI"])
def test_what_no_conf_names_is_not_loaded(text: str) -> None:
    run = subprocess.run([sys.executable, "-c", ASSEMBLES], input=text, capture_output=True, text=True, check=True)
    plugins, actions, modules = json.loads(run.stdout)
    named = {("plugins", name) for name in plugins} | {("actions", name) for name in actions}
    assert named <= set(OFFERED)
    mine = {OFFERED[one].module for one in named}
    assert mine <= set(modules)
    if text != KAI:
        assert [module for module in modules if module.startswith(("pumice.kai.", "pumice.extender."))] == []
        # the module of a plugin may hold what another needs; of these nobody needs one
        others = {entry.module for one, entry in OFFERED.items() if one not in named} - mine
        assert {m for m in others & set(modules) if m.startswith("pumice.plugins.")} == set()


@pytest.mark.parametrize("text", [DEFAULT_CONF, EVICTING], ids=["by default", "evicting"])
def test_beside_a_plugin_of_ones_own_no_action_is_loaded_that_is_not_named_and_nothing_in_a_cycle(text: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITH_A_PLUGIN_OF_ONES_OWN], input=text, capture_output=True, text=True, check=True
    )
    actions, modules, in_the_cycle = json.loads(run.stdout)
    mine = {OFFERED["actions", name].module for name in actions}
    others = {entry.module for (kind, _), entry in OFFERED.items() if kind == "actions"} - mine
    assert mine <= set(modules)
    assert others & set(modules) == set()
    assert [module for module in in_the_cycle if module.startswith("pumice.")] == []


NOT_FOR_A_START = (
    *("pumice.kai.", "pumice.extender.", "pumice.answers.", "pumice.history.", "pumice.saved.", "pumice.sim."),
    *("pumice.dashboard.", "starlette", "uvicorn", "rich", "pyarrow", "scipy"),
)
FILTER = "pumice.answers.visibility"
"""Statuses and events are filtered by it before they are written."""


def test_a_scheduler_that_starts_loads_nothing_that_serves_answers_or_writes_down() -> None:
    loads = "import sys, pumice.cli.run, pumice.kube.service; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    modules = run.stdout.split()
    assert "pumice.scheduler.loop" in modules
    assert [module for module in modules if module.startswith(NOT_FOR_A_START) and module != FILTER] == []


def test_plugins_of_ours_answer_only_what_some_action_of_ours_asks() -> None:
    """So nobody is told of it, and no action is loaded to find it out."""
    everybody = who(Registry())
    assert set(everybody.answers) <= set(everybody.asks) <= set(POINTS)


def test_a_broken_offer_is_named_by_whoever_looks_through_them_and_by_nobody_else() -> None:
    known = Registry()
    known.actions.offer("absent", EntryPoint("absent", "pumice.no_such:Action", "pumice.actions"))
    before = list(known.actions._held)
    assert known.action("allocate") is not None
    assert list(known.actions._held) == before
    assert "absent" not in known.copy().actions
    assert ("action", "absent") in known.broken
    assert list(known.actions) == [name for name in before if name != "absent"]
    assert len(known.actions) == len(before) - 1


def test_an_entry_point_of_another_library_is_loaded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such are found once a package like importlib_metadata is imported, as Dask does it."""

    class Foreign:
        name, group, value = "allocate", "pumice.actions", "pumice.actions.allocate:Allocate"

        def load(self) -> object:
            return Allocate

    class Found:
        def select(self, group: str) -> list[Any]:
            return [Foreign()] if group == Foreign.group else []

    monkeypatch.setattr(registry, "entry_points", Found)
    assert dict(Registry().actions) == {"allocate": Allocate}
    assert Registry().action("allocate") is Allocate
