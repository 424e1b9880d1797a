"""Promise: the table of caches in docs/architecture.md is complete, as far as a cache shows in the source by its name.

Enumerates all modules of the packages that decide. A cache shows as a function with ``lru_cache`` or ``cache``, a
container of a module that is filled later, an attribute with the name of a cache, or an entry of ``Runtime.kept``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from pumice.framework.session.runtime import Runtime

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pumice"
PACKAGES = ("engine", "framework", "state", "model", "scheduler", "actions", "plugins", "kai")
NAMES = re.compile(r"_?(cache|cached|memo|memos|known|kept)(_\w+)?")
MAKERS = {"lru_cache", "cache", "cached_property"}
CONTAINERS = {"dict", "set", "list", "defaultdict", "OrderedDict", "WeakValueDictionary", "WeakKeyDictionary"}
MOST_ROWS = 15


WHERE: dict[str, tuple[str, ...]] = {
    "node cache": (
        "engine/views.py",
        "framework/session/runtime.py",
    ),
    "unschedulable classes": ("engine/views.py",),
    "pending order": ("framework/session/pending_queue.py",),
    "last report": ("scheduler/report.py",),
    "plugins": ("framework/session/session.py",),
    "hyper-nodes": (
        "framework/session/session.py",
        "framework/placing/topology.py",
    ),
    "indexes": (
        "engine/affinity/neighbours.py",
        "framework/session/budgets.py",
        "framework/session/problems.py",
        "plugins/predicates/",
        "plugins/nodeorder/",
        "plugins/numa_aware/",
    ),
    "KAI's view": ("kai/view/",),
    "node columns": ("state/table.py",),
    "interned values": (
        "state/classes.py",
        "model/mapping.py",
        "model/reason.py",
        "model/resources.py",
    ),
    "texts": (
        "model/patterns.py",
        "model/quantity.py",
        "framework/metrics.py",
        "framework/points/forms.py",
        "framework/quota.py",
        "framework/run_times.py",
        "plugins/gang.py",
    ),
    "code": (
        "framework/points/callback.py",
        "framework/session/questions.py",
        "framework/registry.py",
        "scheduler/assembly.py",
        "scheduler/trying.py",
    ),
    "classes read": (
        "model/task.py",
        "plugins/binpack.py",
        "plugins/sla.py",
    ),
    "session answers": (
        "framework/session/outcome.py",
        "framework/session/outcome.py",
        "framework/evicting/",
        "framework/points/handlers.py",
        "plugins/network_topology_aware/",
        "plugins/nodegroup.py",
        "plugins/usage.py",
        "kai/plugins/",
        "kai/search/",
    ),
}
"""Row of the table -> the modules, and folders of plugins, that hold the cache."""


def section() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return text.partition("\n## Caches\n")[2].partition("\n## ")[0]


def rows() -> list[list[str]]:
    lines = [line for line in section().splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def is_listed(module: str) -> bool:
    return any(module.startswith(place) for places in WHERE.values() for place in places)


def _is_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict | ast.Set | ast.List):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return False
    return value.func.id in CONTAINERS and (not value.args or value.func.id == "defaultdict")


def caches_of(tree: ast.Module) -> list[str]:
    """Names of what looks like a cache in a module."""
    found = []
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_container(statement.value):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            found.append(ast.unparse(target))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = {ast.unparse(d).partition("(")[0].rpartition(".")[2] for d in node.decorator_list}
            if names & (MAKERS - {"cached_property"}):
                found.append(node.name)
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if (
                isinstance(target, ast.Attribute)
                and ast.unparse(target.value) == "self"
                and NAMES.fullmatch(target.attr)
            ):
                found.append(target.attr)
        if isinstance(node, ast.Attribute) and node.attr == "kept" and ast.unparse(node.value).endswith("runtime"):
            found.append("runtime.kept")
    return found


def modules() -> dict[str, list[str]]:
    found = {}
    for package in PACKAGES:
        for path in sorted((SOURCE / package).rglob("*.py")):
            if names := caches_of(ast.parse(path.read_text(encoding="utf-8"))):
                found[path.relative_to(SOURCE).as_posix()] = names
    return found


def test_every_cache_has_a_row() -> None:
    assert {name: names for name, names in modules().items() if not is_listed(name)} == {}


def test_every_row_says_key_value_validity_and_size() -> None:
    assert 1 < len(rows()) <= MOST_ROWS
    assert all(len(row) == 4 and all(row) for row in rows())
    assert [re.sub(r"`| \(.*\)", "", row[0]) for row in rows()] == [*WHERE]
    assert [place for places in WHERE.values() for place in places if not (SOURCE / place).exists()] == []


def test_whatever_outlives_a_session_is_a_fact_or_in_the_table() -> None:
    assert [f.name for f in fields(Runtime) if f"`{f.name}`" not in section()] == []


@pytest.mark.parametrize(
    "source",
    [
        "_FOUND: dict[str, int] = {}",
        "@lru_cache(maxsize=8)\ndef parsed(text): ...",
        "class A:\n    def __init__(self):\n        self._known_rows = {}",
        "def of(ssn):\n    return ssn.runtime.kept.get('x')",
    ],
)
def test_a_new_cache_would_be_found(source: str) -> None:
    assert caches_of(ast.parse(source))


def test_what_is_no_cache_is_not() -> None:
    assert not caches_of(ast.parse("_NAMES = {'a': 1}\nclass A:\n    def __init__(self):\n        self.jobs = {}"))
