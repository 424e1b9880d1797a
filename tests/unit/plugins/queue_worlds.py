"""Small clusters with queues: what the tests of the queue plugins are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pumice.framework.compat import VOLCANO
from pumice.framework.plugin import Arguments, Plugin
from pumice.framework.session.questions import PluginEntry
from pumice.framework.session.session import Session
from pumice.model import api
from pumice.model.api import AnyObject
from pumice.model.events import Seen
from pumice.state.cluster import ClusterState

Spec = Mapping[str, Any]


def queue(name: str, *, state: str = "Open", annotations: Mapping[str, str] | None = None, **spec: Any) -> AnyObject:
    """A queue; *guarantee* is the plain resource list."""
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": spec["guarantee"]}
    data = {"metadata": {"name": name, "annotations": dict(annotations or {})}, "spec": {"weight": 1, **spec}}
    return api.decode("Queue", {**data, "status": {"state": state} if state else {}})


def opened(
    plugin: Plugin, *objects: AnyObject | list[AnyObject], hierarchy: bool = False, volcano: bool = False
) -> Session:
    """A session on these objects with one plugin opened; all its flags are on."""
    state = ClusterState()
    for given in objects:
        for obj in given if isinstance(given, list) else [given]:
            state.apply(Seen(obj))
    assert not state.problems, state.problems
    entry = PluginEntry(plugin.name, lambda: plugin, lambda flag: hierarchy or flag != "enableHierarchy")
    options: dict[str, Any] = {"compat": VOLCANO} if volcano else {}
    return Session(state, tiers=[[entry]], **options).open()


def no_arguments() -> Arguments:
    """What a plugin gets when the configuration says nothing."""
    return Arguments({})
