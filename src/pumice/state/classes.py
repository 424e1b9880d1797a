"""Task classes: what makes two tasks the same to every built-in filter and score."""

from __future__ import annotations

from enum import Enum
from itertools import count
from operator import attrgetter
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from pumice.model.api import Pod, PodSpec
from pumice.model.task import GPU_ANNOTATIONS, TaskClass
from pumice.state.writing import find

_FRACTION, _MEMORY, _DEVICES = GPU_ANNOTATIONS
_NO_GPU = (None, None, None)
_encode = msgspec.msgpack.Encoder().encode
_PARTS: Final = attrgetter(
    *("containers", "init_containers", "node_selector", "affinity", "tolerations", "topology_spread_constraints"),
    *("overhead", "resources", "volumes", "resource_claims"),
)
"""The parts of a pod's spec that a class has."""


class Feature(Enum):
    """A part of a pod's spec, or of its group's, that some filter or score is there for. A part that no class uses is
    not evaluated."""

    NODE_SELECTION = "node selector or required node affinity"
    PREFERRED_NODES = "preferred node affinity"
    NEIGHBOURS = "inter-pod affinity or topology spread"
    HOST_PORTS = "host ports"
    VOLUME_CLAIMS = "persistent volume claims"
    DEVICE_CLAIMS = "device claims"
    DEVICE_CLASSES = "device classes, which may stand for extended resources"
    GROUP_DOMAIN = "a topology key of a group"


class ClassTable:
    """Interns classes by content, for as long as a task has them. Numbers are not given twice."""

    def __init__(self) -> None:
        self._classes: WeakValueDictionary[bytes, TaskClass] = WeakValueDictionary()
        self._numbers = count(1)
        self._last: tuple[object, object, str, TaskClass] | None = None
        """The spec and the annotations of the last pod that was asked about, its namespace, and its class."""
        self.features: set[Feature] = set()
        """The parts that the specs of all classes seen so far use, and whether a device class was seen."""

    def of(self, pod: Pod) -> TaskClass:
        """The class of a pod, made when first seen.

        :raises InvalidInput: a request that is no quantity.
        """
        spec, meta, last = pod.spec, pod.metadata, self._last
        notes = meta.annotations
        if last is not None and last[0] is spec and last[1] is notes and last[2] == meta.namespace:
            return last[3]  # objects of which nothing changes: pods of one job often share them
        gpu = (find(notes, _FRACTION), find(notes, _MEMORY), find(notes, _DEVICES)) if notes else _NO_GPU
        namespaced = bool(spec.volumes or spec.resource_claims or spec.affinity or spec.topology_spread_constraints)
        key = _encode((_PARTS(spec), gpu, meta.namespace if namespaced else ""))
        known = self._classes.get(key)
        if known is None:
            known = TaskClass(next(self._numbers), spec, pod.metadata.namespace, gpu)
            self._classes[key] = known
            self.features |= features_of(spec)
        self._last = spec, notes, meta.namespace, known
        return known

    def __len__(self) -> int:
        return len(self._classes)


def features_of(spec: PodSpec) -> set[Feature]:
    """The parts that a pod's spec uses."""
    out: set[Feature] = set()
    affinity = spec.affinity
    nodes = affinity.node_affinity if affinity is not None else None
    if spec.node_selector or (nodes is not None and nodes.required is not None):
        out.add(Feature.NODE_SELECTION)
    if nodes is not None and nodes.preferred:
        out.add(Feature.PREFERRED_NODES)
    if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
        out.add(Feature.NEIGHBOURS)
    if spec.topology_spread_constraints:
        out.add(Feature.NEIGHBOURS)
    if any(p.host_port for c in (*(spec.containers or ()), *(spec.init_containers or ())) for p in c.ports or ()):
        out.add(Feature.HOST_PORTS)
    if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes or ()):
        out.add(Feature.VOLUME_CLAIMS)
    if spec.resource_claims:
        out.add(Feature.DEVICE_CLAIMS)
    return out
