"""The public test kit: builders, a session by hand, a scenario runner with assertions, and a pytest fixture.

A project that has pumice installed gets the fixture ``scenario`` without doing anything; the laws that hold for every
cycle are checked when a test that uses it ends. Names are imported when first used: the pytest plugin is loaded in
every test run of such a project, and must not load the scheduler with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.testing.builders import cluster, job, node, pod, priority_class, queue
    from pumice.testing.check import check_plugin
    from pumice.testing.scenario import ConfWarning, Cycle, Scenario, Why
    from pumice.testing.world import session, task_of

__all__ = [
    "ConfWarning",
    "Cycle",
    "Scenario",
    "Why",
    "check_plugin",
    "cluster",
    "job",
    "node",
    "pod",
    "priority_class",
    "queue",
    "session",
    "task_of",
]

_HOME = {
    "builders": ("cluster", "job", "node", "pod", "priority_class", "queue"),
    "check": ("check_plugin",),
    "scenario": ("ConfWarning", "Cycle", "Scenario", "Why"),
    "world": ("session", "task_of"),
}
_MODULE_OF = {name: f"pumice.testing.{module}" for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pumice.testing' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return [*__all__]
