"""Persistent volume claims of a task: what they are bound to, and which volumes could still be bound to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.model import keys, quantity
from pumice.model.api import LabelSelector, NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim, StorageClass
from pumice.model.selectors import label_selector_matches
from pumice.model.task import Task
from pumice.state.cluster import ClusterState

_BOUND_NOTE: Final = keys.BIND_COMPLETED
_SELECTED_NOTE: Final = keys.SELECTED_NODE
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


@dataclass(slots=True)
class TaskClaim:
    """A claim of a task. *volume* is the bound one; there is no *object* where the claim does not exist."""

    key: str
    object: PersistentVolumeClaim | None
    volume: str = ""
    foreign: bool = False
    """It has the name of a claim that is to be made for the pod, but was not."""

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.object.spec if self.object is not None else {}

    @property
    def class_name(self) -> str:
        return str(self.spec.get("storageClassName") or "")

    @property
    def size(self) -> int:
        asked = ((self.spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
        return quantity.value(asked)

    @property
    def for_many_nodes(self) -> bool:
        """Report whether pods on several nodes may use it at once."""
        return any(mode in ("ReadWriteMany", "ReadOnlyMany") for mode in self.spec.get("accessModes") or ())

    @property
    def for_one_pod(self) -> bool:
        """Report whether only one pod may use it at a time."""
        return "ReadWriteOncePod" in (self.spec.get("accessModes") or ())

    @property
    def uid(self) -> str:
        return self.object.metadata.uid if self.object is not None else ""

    @property
    def selected_node(self) -> str:
        """The node for which a volume is being made, or nothing."""
        notes = self.object.metadata.annotations if self.object is not None else None
        return (notes or {}).get(_SELECTED_NOTE, "")


def claim_names(task: Task) -> Iterator[tuple[str, bool]]:
    """The names of a task's claims, and whether they are made for it: those are named after the pod."""
    for volume in task.klass.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            yield f"{task.name}-{volume.name}", True


def has_claims(task: Task) -> bool:
    """Report whether the task uses claims."""
    return any(v.persistent_volume_claim or v.ephemeral for v in task.klass.spec.volumes or ())


def claims_of(state: ClusterState, task: Task) -> list[TaskClaim]:
    """The task's claims, each with the volume it is bound to."""
    known = state.kind("PersistentVolumeClaim")
    out = []
    for name, is_own in claim_names(task):
        key = f"{task.namespace}/{name}"
        found = known.get(key)
        claim = TaskClaim(key, found if isinstance(found, PersistentVolumeClaim) else None)
        if isinstance(found, PersistentVolumeClaim):
            volume = str(found.spec.get("volumeName") or "")
            settled = _BOUND_NOTE in (found.metadata.annotations or {}) or found.status.get("phase") == "Bound"
            claim.volume = volume if settled else ""
            owners = [owner.uid for owner in found.metadata.owner_references or ()]
            claim.foreign = is_own and task.uid not in owners
        out.append(claim)
    return out


def waits_for_consumer(state: ClusterState, claim: TaskClaim) -> bool:
    """Report whether the claim is to be bound only when a pod that uses it has a node. Not where its owner named a
    volume."""
    storage = storage_class(state, claim)
    late = storage is not None and storage.volume_binding_mode == "WaitForFirstConsumer"
    return late and not claim.spec.get("volumeName")


def storage_class(state: ClusterState, claim: TaskClaim) -> StorageClass | None:
    """The storage class of a claim."""
    found = state.kind("StorageClass").get(claim.class_name)
    return found if isinstance(found, StorageClass) else None


def node_terms(volume: PersistentVolume) -> Sequence[NodeSelectorTerm] | None:
    """The node selector of a volume; None when it can be used anywhere."""
    required = (volume.spec.get("nodeAffinity") or {}).get("required")
    if required is None:
        return None
    return [msgspec.convert(t, NodeSelectorTerm) for t in required.get("nodeSelectorTerms") or ()]


def suits(volume: PersistentVolume, claim: TaskClaim) -> bool:
    """Report whether the claim could be bound to the volume, on any node."""
    spec, wanted = volume.spec, claim.spec
    holder = spec.get("claimRef")
    if holder is not None:
        if f"{holder.get('namespace', '')}/{holder.get('name', '')}" != claim.key:
            return False
        if claim.object is not None and holder.get("uid", claim.object.metadata.uid) != claim.object.metadata.uid:
            return False
    elif volume.status.get("phase", "Available") != "Available":
        return False
    if str(spec.get("storageClassName") or "") != claim.class_name:
        return False
    if spec.get("volumeMode", "Filesystem") != wanted.get("volumeMode", "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    if wanted.get("selector") is not None:
        selector = msgspec.convert(wanted["selector"], LabelSelector)
        if not label_selector_matches(selector, volume.metadata.labels or {}):
            return False
    return volume_size(volume) >= claim.size


def volume_size(volume: PersistentVolume) -> int:
    """Its capacity in bytes."""
    return quantity.value((volume.spec.get("capacity") or {}).get("storage", 0))
