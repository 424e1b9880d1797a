"""Kubernetes' own groups of pods (``scheduling.k8s.io``): PodGroups like any other, said in other words.

A pod names its group in ``spec.schedulingGroup``. The kinds are called by their full names, as kubectl does, because
Volcano has a PodGroup too and Kueue a Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from pumice.model import api, keys

GROUP: Final = "scheduling.k8s.io"
POD_GROUP: Final = f"PodGroup.{GROUP}"
WORKLOAD: Final = f"Workload.{GROUP}"
SCHEDULED: Final = ("PodGroupScheduled", "PodGroupInitiallyScheduled")
"""The condition that says whether a group was scheduled: in v1alpha2, and since."""


class GangPolicy(api._Struct, frozen=True):
    min_count: int = 0


class PodGroupPolicy(api._Maps, frozen=True):
    """One of the two."""

    maps = ("basic",)
    basic: dict[str, Any] | None = None
    gang: GangPolicy | None = None


class TopologyKey(api._Struct, frozen=True):
    key: str


class GroupConstraints(api._Struct, frozen=True):
    topology: tuple[TopologyKey, ...] | None = None


class WorkloadTemplate(api._Struct, frozen=True):
    """The Workload of whose template a group was made."""

    workload_name: str = ""


class TemplateReference(api._Struct, frozen=True):
    workload: WorkloadTemplate | None = None


class NativePodGroupSpec(api.PodGroupSpec, frozen=True):
    maps = ("disruption_mode",)
    scheduling_policy: PodGroupPolicy = msgspec.field(default_factory=PodGroupPolicy)
    scheduling_constraints: GroupConstraints | None = None
    disruption_mode: str | dict[str, Any] | None = None
    """``Pod`` or ``PodGroup``; since v1beta1 ``{single: {}}`` or ``{all: {}}``."""
    priority: int | None = None
    pod_group_template_ref: TemplateReference | None = None
    workload_ref: WorkloadTemplate | None = None

    def __post_init__(self) -> None:
        """Say in Volcano's words what can be said in them; what only Volcano's have is no field of these."""
        super().__post_init__()
        for name in ("min_task_member", "min_resources", "network_topology", "sub_group_policy"):
            force_setattr(self, name, None)
        gang = self.scheduling_policy.gang
        force_setattr(self, "min_member", gang.min_count if gang is not None else 1)
        force_setattr(self, "queue", "")

    @property
    def workload(self) -> str:
        """The name of the Workload that it belongs to, or nothing."""
        old = self.pod_group_template_ref
        named = self.workload_ref or (old.workload if old is not None else None)
        return named.workload_name if named is not None else ""

    @property
    def together(self) -> bool:
        """Report whether it must be evicted as a whole."""
        mode = self.disruption_mode
        return mode == "PodGroup" or (isinstance(mode, Mapping) and "all" in mode)

    @property
    def topology_key(self) -> str:
        """The node label of which all its pods must find the same value, or nothing."""
        asked = self.scheduling_constraints.topology if self.scheduling_constraints is not None else None
        return asked[0].key if asked else ""


class NativePodGroup(api.PodGroup, frozen=True):
    """A PodGroup of Kubernetes' own."""

    kind_name = POD_GROUP
    spec: NativePodGroupSpec = msgspec.field(default_factory=NativePodGroupSpec)

    @property
    def workload_key(self) -> str:
        """The key of the Workload that it belongs to, or nothing."""
        return f"{self.metadata.namespace}/{self.spec.workload}" if self.spec.workload else ""

    @property
    def fault(self) -> str:
        """The rule that it breaks, or nothing."""
        policy, asked = self.spec.scheduling_policy, self.spec.scheduling_constraints
        if (policy.gang is None) == (policy.basic is None):
            return "spec.schedulingPolicy must be one of basic and gang"
        if policy.gang is not None and policy.gang.min_count < 1:
            return f"spec.schedulingPolicy.gang.minCount must be at least 1, got {policy.gang.min_count}"
        if asked is not None and len(asked.topology or ()) > 1:
            return f"spec.schedulingConstraints.topology must be one constraint, got {len(asked.topology or ())}"
        return ""


class Workload(api._Object, frozen=True):
    """The template of the groups of a workload. Its annotations and labels hold for all of them."""

    kind_name = WORKLOAD
    namespaced = True


def kind_of(kind: str, data: Mapping[str, Any]) -> str:
    """The full name of a kind that Kubernetes has under a name that others use too; the name itself of all others."""
    version = data.get("apiVersion")
    if isinstance(version, str) and version.startswith(f"{GROUP}/") and kind in ("PodGroup", "Workload"):
        return f"{kind}.{GROUP}"
    return kind


def said_of(workload: api.AnyObject | None, group: api.PodGroup) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of a group; what a scheduler reads of its Workload holds unless it says otherwise."""
    own = group.metadata
    labels, notes = dict(own.labels or {}), dict(own.annotations or {})
    if workload is not None:
        above = workload.metadata
        labels = {**{k: v for k, v in (above.labels or {}).items() if k in keys.KEYS}, **labels}
        notes = {**{k: v for k, v in (above.annotations or {}).items() if k in keys.KEYS}, **notes}
    return labels, notes


def condition(known: tuple[api.Condition, ...] | None, status: str, reason: str, message: str) -> dict[str, str] | None:
    """The condition to write about the scheduling of a group; None if it says so already, or was scheduled once."""
    for old in known or ():
        if old.type in SCHEDULED:
            same = (old.status, old.reason, old.message) == (status, reason, message)
            if same or old.status == "True":
                return None
    return {"type": SCHEDULED[0], "status": status, "reason": reason, "message": message}


api.KINDS.update({cls.kind_name: cls for cls in (NativePodGroup, Workload)})
