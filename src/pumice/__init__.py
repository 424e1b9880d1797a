"""Pumice: a batch scheduler for Kubernetes. The names here are the ones that policies are written with."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.engine.rows import NodeRows
    from pumice.engine.scope import SKIP, Scope, scope
    from pumice.engine.views import same_class
    from pumice.errors import InvalidInput, PluginError, PluginLoadError, PumiceError
    from pumice.framework import quota
    from pumice.framework.plugin import Action, Argument, ArgumentMap, Arguments, Event, EventHandler, Plugin
    from pumice.framework.registry import register_plugin_builder
    from pumice.framework.run_times import declared_run_time
    from pumice.framework.session.session import Session
    from pumice.model import keys
    from pumice.model.codes import ReasonCode
    from pumice.model.job import Job, SubJob
    from pumice.model.node import Node
    from pumice.model.queue import Queue
    from pumice.model.reason import Unfit, Verdict, reason_id, reject
    from pumice.model.resources import Resources
    from pumice.model.status import TaskStatus
    from pumice.model.task import Task
    from pumice.sim.api import plan, read_scenario, simulate, sweep, tune
    from pumice.sim.scenario import SimScenario
    from pumice.sim.study import Study

__all__ = [
    "SKIP",
    "Action",
    "Argument",
    "ArgumentMap",
    "Arguments",
    "Event",
    "EventHandler",
    "InvalidInput",
    "Job",
    "Node",
    "NodeRows",
    "Plugin",
    "PluginError",
    "PluginLoadError",
    "PumiceError",
    "Queue",
    "ReasonCode",
    "Resources",
    "Scope",
    "Session",
    "SimScenario",
    "Study",
    "SubJob",
    "Task",
    "TaskStatus",
    "Unfit",
    "Verdict",
    "declared_run_time",
    "keys",
    "plan",
    "quota",
    "read_scenario",
    "reason_id",
    "register_plugin_builder",
    "reject",
    "same_class",
    "scope",
    "simulate",
    "sweep",
    "tune",
]

_HOME = {
    "pumice.engine.views": ("same_class",),
    "pumice.engine.rows": ("NodeRows",),
    "pumice.engine.scope": ("SKIP", "Scope", "scope"),
    "pumice.errors": ("InvalidInput", "PluginError", "PluginLoadError", "PumiceError"),
    "pumice.framework.plugin": ("Action", "Argument", "ArgumentMap", "Arguments", "Event", "EventHandler", "Plugin"),
    "pumice.framework.registry": ("register_plugin_builder",),
    "pumice.framework.session.session": ("Session",),
    "pumice.framework.quota": ("quota",),
    "pumice.framework.run_times": ("declared_run_time",),
    "pumice.model.codes": ("ReasonCode",),
    "pumice.model.keys": ("keys",),
    "pumice.model.job": ("Job", "SubJob"),
    "pumice.model.node": ("Node",),
    "pumice.model.queue": ("Queue",),
    "pumice.model.reason": ("Unfit", "Verdict", "reason_id", "reject"),
    "pumice.model.resources": ("Resources",),
    "pumice.model.status": ("TaskStatus",),
    "pumice.model.task": ("Task",),
    "pumice.sim.api": ("plan", "read_scenario", "simulate", "sweep", "tune"),
    "pumice.sim.scenario": ("SimScenario",),
    "pumice.sim.study": ("Study",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that importing one small part of pumice costs only that part."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'pumice' has no attribute {name!r}; it has {', '.join(__all__)}")
    module = import_module(_MODULE_OF[name])
    value = globals()[name] = getattr(module, name, module)  # `keys` and `quota` are modules
    return value


def __dir__() -> list[str]:
    return [*__all__]
