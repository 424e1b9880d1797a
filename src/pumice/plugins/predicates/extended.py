"""Extended resources that device classes stand for: a pod asks for an amount, and a claim is made for it.

A device class names such a resource (``extendedResourceName``), and each class stands for one more that is named after
it. If the device plugin of a node offers the resource, a pod takes it from there; else devices of the class serve it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from pumice.engine.rows import NodeRows
from pumice.model import keys
from pumice.model.api import Container, DeviceClass, Metadata, OwnerReference, PodSpec, ResourceClaim
from pumice.model.intents import MadeClaim
from pumice.model.quantity import milli
from pumice.model.reason import Unfit
from pumice.model.resources import known_dim
from pumice.model.task import Task
from pumice.plugins.predicates.allotment import Key
from pumice.plugins.predicates.slices import Slices
from pumice.state.cluster import ClusterState
from pumice.state.nodes import offer_by_classes

NAMED_AFTER_CLASS: Final = "deviceclass.resource.kubernetes.io/"
UNMADE: Final = "<extended-resources>"
"""Ends the name of a claim that is not on the server yet; no name of an object contains such signs."""


class ExtendedResources:
    """Which resources device classes stand for, what nodes offer of them, and the claims of pods that ask for them."""

    def __init__(self, state: ClusterState, slices: Slices) -> None:
        self._state, self._slices = state, slices
        self._classes: dict[str, DeviceClass] = {}
        """Resource -> the device class that serves it; valid until a device class changes."""
        self._classes_at = -1
        self._made: dict[str, ResourceClaim] = {}
        """UID of a pod -> the claim that was made for it; valid until a claim changes."""
        self._made_at = -1
        self._offered_at: tuple[object, ...] = ()

    def classes(self) -> Mapping[str, DeviceClass]:
        """Return the device class of each resource; of several that name one the newest, then the first by name."""
        version = self._state.versions.get("DeviceClass", 0)
        if version != self._classes_at:
            known = [c for c in self._state.kind("DeviceClass").values() if isinstance(c, DeviceClass)]
            known.sort(key=lambda c: c.metadata.name, reverse=True)
            known.sort(key=lambda c: c.metadata.creation_timestamp.timestamp() if c.metadata.creation_timestamp else 0)
            self._classes_at, self._classes = version, {NAMED_AFTER_CLASS + c.metadata.name: c for c in known}
            for one in known:
                if name := one.spec.get("extendedResourceName"):
                    self._classes[str(name)] = one
        return self._classes

    def asked(self, task: Task) -> tuple[str, ...]:
        """Return the resources of a task that a device class stands for."""
        classes = self.classes()
        if not classes:
            return ()
        spec = task.klass.spec
        return tuple(sorted({name for c in _containers(spec) for name, n in _amounts(c) if n and name in classes}))

    def of_devices(self, names: tuple[str, ...], node_name: str) -> tuple[str, ...]:
        """Return those of the resources that devices serve on a node, because its device plugin offers none."""
        node = self._state.nodes.get(node_name)
        offered = (node.object.status.allocatable or {}) if node is not None else {}
        return tuple(name for name in names if not milli(offered.get(name, 0)))

    def parts(self, task: Task, rows: NodeRows) -> Iterator[tuple[tuple[str, ...], Any]]:
        """Yield the rows by which of a task's resources devices serve there: the resources, and the rows' positions."""
        names = self.asked(task)
        served = [self.of_devices(names, node.name) for node in rows.nodes] if names else []
        if not served:
            yield (), slice(None)
        for some in sorted(set(served)):
            yield some, np.array([at for at, one in enumerate(served) if one == some], dtype=np.intp)

    def claim(self, task: Task, names: tuple[str, ...]) -> ResourceClaim:
        """Return the claim for some of a task's resources: the one that was made for it, or one to be made.

        :raises Unfit: the one that was made asks for something else.
        """
        requests = self.made(task, names).requests
        found = self._claims().get(task.uid)
        if found is not None:
            if (found.spec.get("devices") or {}).get("requests") != requests:
                raise Unfit(f'resourceclaim "{found.metadata.name}" was made for other extended resources')
            return found
        owner = OwnerReference(kind="Pod", name=task.name, uid=task.uid, controller=True)
        meta = Metadata(name=f"{task.name}{UNMADE}", namespace=task.namespace, owner_references=(owner,))
        return ResourceClaim(metadata=meta, spec={"devices": {"requests": requests}})

    def made(self, task: Task, names: tuple[str, ...]) -> MadeClaim:
        """Return what the claim for some of a task's resources asks for, and which container uses which request."""
        classes, spec = self.classes(), task.klass.spec
        requests: list[dict[str, Any]] = []
        uses: list[dict[str, str]] = []
        for name in names:
            asked, used = _requests(spec, name, classes[name].metadata.name)
            requests += asked
            uses += used
        return MadeClaim(tuple(sorted(requests, key=lambda r: str(r["name"]))), tuple(uses))

    def key_of(self, uid: str) -> str | None:
        """Return the key of the claim that was made for a pod, None if the server has none."""
        found = self._claims().get(uid)
        return None if found is None else found.key

    def offer(self, passing: Callable[[DeviceClass], set[Key]]) -> None:
        """Let the nodes offer, of each resource that a pod named, as many as they have devices of its class."""
        state = self._state
        named = {name: one for name, one in self.classes().items() if known_dim(name) is not None}
        if not named and not state.class_offers:
            return
        stamp = (self._slices.version, self._classes_at, tuple(named), state.table.changed.position)
        if stamp == self._offered_at:
            return
        found: dict[str, Counter[str]] = {}
        rows = NodeRows(state.table, np.array(sorted(node.row for node in state.nodes.values()), dtype=np.intp))
        devices = {name: passing(one) for name, one in named.items()}
        for node, present in zip(rows.nodes, self._slices.present(rows), strict=True):
            offers = Counter({name: sum(d.key in some for d in present) for name, some in devices.items()})
            if own := self.of_devices(tuple(offers), node.name):
                found[node.name] = Counter({name: offers[name] for name in own if offers[name]})
        offer_by_classes(state, found)
        self._offered_at = (*stamp[:3], state.table.changed.position)

    def _claims(self) -> Mapping[str, ResourceClaim]:
        version = self._state.versions.get("ResourceClaim", 0)
        if version != self._made_at:
            self._made_at, self._made = version, {}
            for claim in self._state.kind("ResourceClaim").values():
                meta = claim.metadata
                if (
                    isinstance(claim, ResourceClaim)
                    and (meta.annotations or {}).get(keys.EXTENDED_RESOURCE_CLAIM) == "true"
                ):
                    self._made |= {o.uid: claim for o in meta.owner_references or () if o.controller}
        return self._made


def _containers(spec: PodSpec) -> tuple[Container, ...]:
    return (*(spec.init_containers or ()), *(spec.containers or ()))


def _amounts(container: Container) -> Iterator[tuple[str, int]]:
    """The whole amounts that a container asks for, by name."""
    requests = (container.resources.requests if container.resources is not None else None) or {}
    for name in sorted(requests):
        whole, rest = divmod(milli(requests[name]), 1000)
        yield name, 0 if rest else whole


def _requests(spec: PodSpec, name: str, class_name: str) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """A pod's request for one resource: requests for devices, and the containers that use them.

    A container that runs on has a request of its own. An init container that ends shares its requests with those that
    start after it. The excess of the largest of them is one more request, which all of them may use.
    """
    containers = _containers(spec)
    ends = [
        at < len(spec.init_containers or ()) and one.restart_policy != "Always" for at, one in enumerate(containers)
    ]
    own: dict[int, dict[str, Any]] = {}
    uses: list[dict[str, str]] = []

    def request(at: int, count: int) -> dict[str, Any]:
        index = [n for n, _ in _amounts(containers[at])].index(name)
        exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
        return {"name": f"container-{at}-request-{index}", "exactly": exactly}

    def use(at: int, of: Mapping[str, Any]) -> None:
        uses.append({"containerName": containers[at].name, "resourceName": name, "requestName": of["name"]})

    for at, one in enumerate(containers):
        if not ends[at] and (count := dict(_amounts(one)).get(name, 0)):
            own[at] = request(at, count)
            use(at, own[at])
    more: list[dict[str, Any]] = []
    for at, one in enumerate(containers):
        left = dict(_amounts(one)).get(name, 0) if ends[at] else 0
        for later in range(at, len(containers)):
            if left > 0 and later in own:
                use(at, own[later])
                left -= own[later]["exactly"]["count"]
        if left > 0:
            more.append(request(at, left))
            use(at, more[-1])
    if not more:
        return list(own.values()), uses
    largest = max(more, key=lambda one: int(one["exactly"]["count"]))
    names = {one["name"] for one in more}
    shared = [{**one, "requestName": largest["name"]} if one["requestName"] in names else one for one in uses]
    return [largest, *own.values()], shared
