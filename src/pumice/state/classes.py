"""Task classes: what makes two tasks the same to every built-in filter and score."""

from __future__ import annotations

import msgspec

from pumice.model.api import Affinity, Pod
from pumice.model.task import GPU_ANNOTATIONS, TaskClass

_encode = msgspec.msgpack.Encoder().encode


class ClassTable:
    """Interns classes by content."""

    def __init__(self) -> None:
        self._classes: dict[bytes, TaskClass] = {}
        self.sociable = False
        """Has any class inter-pod affinity or topology spread constraints?"""
        self.claiming = False
        """Has any class persistent volume claims?"""
        self.using_devices = False
        """Has any class device claims?"""

    def of(self, pod: Pod) -> TaskClass:
        """The class of a pod, made when first seen.

        :raises InvalidInput: a request that is no quantity.
        """
        spec = pod.spec
        notes = pod.metadata.annotations
        gpu = tuple(notes.get(a) for a in GPU_ANNOTATIONS) if notes else (None, None, None)
        namespaced = bool(spec.volumes or spec.resource_claims or spec.affinity or spec.topology_spread_constraints)
        key = _encode(
            (
                spec.containers,
                spec.init_containers,
                spec.node_selector,
                spec.affinity,
                spec.tolerations,
                spec.topology_spread_constraints,
                spec.overhead,
                spec.resources,
                spec.volumes,
                spec.resource_claims,
                gpu,
                pod.metadata.namespace if namespaced else "",
            )
        )
        known = self._classes.get(key)
        if known is None:
            known = TaskClass(len(self._classes) + 1, spec, pod.metadata.namespace, gpu)
            self._classes[key] = known
            if spec.topology_spread_constraints or (spec.affinity is not None and _has_pod_terms(spec.affinity)):
                self.sociable = True
            if any(v.persistent_volume_claim is not None or v.ephemeral is not None for v in spec.volumes or ()):
                self.claiming = True
            if spec.resource_claims:
                self.using_devices = True
        return known

    def __len__(self) -> int:
        return len(self._classes)


def _has_pod_terms(affinity: Affinity) -> bool:
    return affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
