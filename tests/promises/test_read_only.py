"""What plugins see cannot be changed by them: nothing that is reachable from a session or from a callback's arguments.

Found by reflection: every slot of every sealed class, every field of every Kubernetes object, every mapping and every
array, so that what is added later is covered too. An object of a class that nobody knows here fails.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from pumice.engine.rows import Columns, ImaginedNode, LabelColumns, NodeRows
from pumice.extender.answering import (
    told_state,  # so that its classes are among the sealed ones
)
from pumice.framework.plugin import Plugin
from pumice.model import api, kai, native
from pumice.model.mapping import ReadOnlyMap
from pumice.model.node import Node
from pumice.model.resources import Resources
from pumice.model.sealed import Sealed
from pumice.model.task import Task
from pumice.testing import Scenario, job, node, pod, queue, session

DEPTH: Final = 6
VALUES: Final = (str, bytes, int, float, bool, type(None), datetime, Enum, frozenset, np.generic, np.dtype)
VIEWS: Final = (Resources, NodeRows, Columns, LabelColumns)
"""Made for whoever asks: their public attributes cannot be set, and what they give is looked at in turn."""
FOR_PLUGINS: Final = {"memo"}
"""Written by plugins: what they derive from a class of tasks."""
MUTATORS: Final[dict[str, tuple[Any, ...]]] = {
    "__setitem__": ("new", 1),
    "__delitem__": ("new",),
    "__ior__": ({"new": 1},),
    "clear": (),
    "pop": ("new",),
    "popitem": (),
    "setdefault": ("new", 1),
    "update": ({"new": 1},),
}


def world() -> Any:
    """A session in which every kind of thing is there."""
    group = {
        "metadata": {"name": "parts", "namespace": "default", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {
            "queue": "q",
            "minMember": 1,
            "minResources": {"cpu": 1},
            "minTaskMember": {"main": 1},
            "networkTopology": {"mode": "hard"},
            "subGroupPolicy": [
                {
                    "name": "p",
                    "matchLabelKeys": ["part"],
                    "labelSelector": {
                        "matchLabels": {"kind": "x"},
                        "matchExpressions": [{"key": "kind", "operator": "In", "values": ["x"]}],
                    },
                }
            ],
        },
        "status": {"phase": "Inqueue", "conditions": [{"type": "Scheduled"}]},
    }
    member = {
        "metadata": {
            "name": "parts-main-0",
            "namespace": "default",
            "labels": {"kind": "x", "part": "0"},
            "annotations": {"scheduling.k8s.io/group-name": "parts"},
            "ownerReferences": [{"kind": "Job", "name": "parts"}],
        },
        "spec": {
            "nodeSelector": {"zone": "a"},
            "overhead": {"cpu": "100m"},
            "tolerations": [{"key": "k"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}, "limits": {"cpu": 2}}, "ports": [{}]}],
            "volumes": [{"name": "v", "csi": {"driver": "d", "parts": [{"a": ["b"]}]}}],
            "schedulingGates": [{"name": "g"}],
        },
        "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled"}]},
    }
    offered = queue("q", capability={"cpu": 8}, deserved={"cpu": 4})
    machine = node("n1", cpu=16, gpu=2, labels={"zone": "a"}, annotations={"x": "y"}, taints=["k=v:PreferNoSchedule"])
    return session(
        *(machine, offered, api.decode("PodGroup", group), api.decode("Pod", member)),
        *(job("train", tasks=2, queue="q", on="n1", gpu=1), pod("alone", on="n1", annotations={"gpu-fraction": "0.5"})),
    )


def roots() -> dict[str, Any]:
    """What a plugin starts from: what the session shows, and what callbacks are given."""
    ssn = world()
    task = next(iter(ssn.jobs["default/train"].tasks.values()))
    table = ssn.state.table
    return {
        "ssn.jobs": ssn.jobs,
        "ssn.nodes": ssn.nodes,
        "ssn.queues": ssn.queues,
        "ssn.total": ssn.total,
        "namespace": ssn.state.namespace("default"),
        "pending": ssn.jobs["default/parts"].with_status(next(iter(ssn.jobs["default/parts"].tasks.values())).status),
        "whole": ssn.jobs["default/train"].whole(),
        "imagined": ImaginedNode(ssn.nodes["n1"], task, 2),
        "rows": NodeRows(table),
        "some rows": NodeRows(table, np.array([0])),
        "rows with more": NodeRows(table, np.array([0]), np.array([1]), task.klass),
        "idle": NodeRows(table).idle[0],
        "some idle": NodeRows(table, np.array([0])).idle[0],
        "a column": NodeRows(table)._take(table.pod_count),
        "a matrix": NodeRows(table)._matrix("idle", slice(0, 2)),
    }


def attributes(thing: Any) -> list[str]:
    """The public attributes that are no methods."""
    names = thing.__struct_fields__ if isinstance(thing, msgspec.Struct) else dir(type(thing))
    return [n for n in names if not n.startswith("_") and not callable(getattr(type(thing), n, None))]


def parts(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        yield from ((f"{path}[{key!r}]", value) for key, value in list(thing.items())[:3])
    elif isinstance(thing, tuple):
        yield from ((f"{path}[{n}]", value) for n, value in enumerate(thing[:3]))
    elif isinstance(thing, (Sealed, msgspec.Struct, *VIEWS)):
        for name in attributes(thing):
            if name not in FOR_PLUGINS and hasattr(thing, name):
                yield f"{path}.{name}", getattr(thing, name)


def reachable() -> Iterator[tuple[str, Any, Any]]:
    """(path, thing, the thing it was read from) of everything within reach, each object once."""
    seen: dict[int, Any] = {}
    level: list[tuple[str, Any, Any]] = [(path, thing, None) for path, thing in roots().items()]
    for _ in range(DEPTH):
        following: list[tuple[str, Any, Any]] = []
        for path, thing, owner in level:
            if id(thing) not in seen and not isinstance(thing, VALUES):
                seen[id(thing)] = thing
                yield path, thing, owner
                following += [(name, part, thing) for name, part in parts(path, thing)]
        level = following


def problems_of(path: str, thing: Any, owner: Any) -> Iterator[str]:
    """What of it could be changed."""
    if isinstance(thing, (Sealed, msgspec.Struct, *VIEWS)):
        yield from _attributes_that_change(path, thing)
    elif isinstance(thing, ReadOnlyMap):
        yield from _mutators_that_work(path, thing)
    elif isinstance(thing, np.ndarray):
        if thing.flags.writeable and not _own_copy(path, thing, owner):
            yield f"{path}: an array that can be written"
    elif isinstance(thing, (list, dict, set)):
        if not _own_copy(path, thing, owner):
            yield f"{path}: a {type(thing).__name__} that can be written"
    elif not isinstance(thing, (tuple, types.MappingProxyType)):
        yield f"{path}: a {type(thing).__name__}, of which nobody here knows whether it can be written"


def _own_copy(path: str, thing: Any, owner: Any) -> bool:
    """Is it made anew for everyone who asks?"""
    name = path.rpartition(".")[2]
    if owner is None or not hasattr(owner, name):
        return isinstance(thing, np.ndarray) and thing.base is None and bool(thing.flags.owndata)
    again = getattr(owner, name)
    return again is not thing and not (isinstance(thing, np.ndarray) and np.shares_memory(again, thing))


def _attributes_that_change(path: str, thing: Any) -> Iterator[str]:
    for name in {*attributes(thing), *slots_of(type(thing)), "something_new"}:
        if isinstance(thing, VIEWS) and name.startswith("_"):
            continue
        attempts: dict[str, Callable[[str], None]] = {
            "set": lambda n: setattr(thing, n, 1),
            "deleted": lambda n: delattr(thing, n),
        }
        for how, attempt in attempts.items():
            try:
                attempt(name)
            except (AttributeError, TypeError):
                continue
            yield f"{path}.{name} can be {how}"


def _mutators_that_work(path: str, thing: ReadOnlyMap[Any, Any]) -> Iterator[str]:
    before = dict(thing)
    for name, arguments in MUTATORS.items():
        try:
            getattr(thing, name)(*arguments)
        except TypeError:
            pass
        else:
            yield f"{path}.{name} works"
    if dict(thing) != before:
        yield f"{path}: was changed"


def slots_of(cls: type) -> list[str]:
    return [slot for base in cls.__mro__ for slot in base.__dict__.get("__slots__", ()) if isinstance(slot, str)]


def by_name(classes: Iterator[type[Any]]) -> list[type[Any]]:
    return sorted(set(classes), key=lambda cls: cls.__qualname__)


def sealed_classes(cls: type[Any] = Sealed) -> Iterator[type[Any]]:
    for sub in cls.__subclasses__():
        if "_draft" in sub.__dict__ and sub.__module__.startswith("pumice."):
            yield sub
        yield from sealed_classes(sub)


def structs(cls: type[Any] = api._Struct) -> Iterator[type[Any]]:
    """The model's; what controllers and commands make of them for themselves is in no plugin's reach."""
    for sub in cls.__subclasses__():
        if sub.__module__.startswith("pumice.model."):
            yield sub
        yield from structs(sub)


def test_nothing_within_a_plugins_reach_can_be_changed() -> None:
    found = list(reachable())
    assert len(found) > 150
    assert [text for path, thing, owner in found for text in problems_of(path, thing, owner)] == []


def test_every_kind_of_thing_was_reached() -> None:
    """What is sealed and not met here was not tried either."""
    met = {type(thing) for _, thing, _ in reachable()}
    not_shown = {told_state.UntoldJob, told_state.UntoldNode, told_state.UntoldSums, Sealed}
    assert {cls.__name__ for cls in set(sealed_classes()) - met - not_shown if cls.__name__ != "TaskGroup"} == set()
    assert {api.Pod, api.PodGroup, api.NodeObject, api.QueueObject, api.Metadata, api.Container} <= met


@pytest.mark.parametrize("cls", by_name(sealed_classes()), ids=lambda c: c.__name__)
def test_every_sealed_class_has_slots_alone_and_the_seal(cls: type) -> None:
    assert cls.__setattr__ is Sealed.__setattr__
    assert cls.__delattr__ is Sealed.__delattr__
    assert not hasattr(cls, "__dict__") or "__dict__" not in slots_of(cls)
    assert cls.__dictoffset__ == 0


@pytest.mark.parametrize("cls", by_name(structs()), ids=lambda c: c.__name__)
def test_every_kubernetes_object_is_frozen_to_the_bottom(cls: type[msgspec.Struct]) -> None:
    assert cls.__struct_config__.frozen
    hints = typing.get_type_hints(cls, vars(api) | vars(kai) | vars(native) | vars(typing))
    for name in cls.__struct_fields__:
        said = str(hints[name])
        assert "list[" not in said, f"{cls.__name__}.{name}: {said}"
        if "dict[" in said and cls.__module__ == api.__name__:
            assert name in getattr(cls, "maps", ()) or issubclass(cls, api.Metadata), f"{cls.__name__}.{name}: {said}"


class Vandal(Plugin):
    """Tries to write whatever a callback is given."""

    name = "vandal"
    given: typing.ClassVar[list[Any]] = []

    def predicate(self, task: Task, node: Node) -> None:
        Vandal.given += [task, node]

    def job_order(self, left: Any, right: Any) -> int:
        Vandal.given += [left, right]
        return 0

    def batch_node_order(self, task: Task, rows: NodeRows) -> Any:
        Vandal.given += [task, rows]
        return [0.0] * len(rows)

    def overused(self, queue: Any) -> bool:
        Vandal.given.append(queue)
        return False


def test_what_callbacks_are_given_can_be_changed_no_more_than_the_rest(scenario: Scenario) -> None:
    Vandal.given = []
    scenario.node("n1", cpu=4).node("n2", cpu=4).job("a", tasks=2, cpu=1).job("b", cpu=1)
    scenario.run(plugins=["gang", Vandal])
    kinds = {type(thing).__name__ for thing in Vandal.given}
    assert {"Job", "Node", "NodeRows", "Queue"} <= kinds
    for thing in Vandal.given:
        assert list(_attributes_that_change(repr(thing), thing)) == []
