"""KAI-Scheduler's objects, the fields that a scheduler reads: PodGroups and Queues like any other, with more to say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from pumice.model import api
from pumice.model.mapping import frozen
from pumice.model.resources import LIMIT

GROUPS: Final = ("scheduling.run.ai/", "kai.scheduler/")
"""The API groups of KAI's kinds."""
POD_GROUP_VERSION: Final = "scheduling.run.ai/v2alpha2"
QUEUE_VERSION: Final = "scheduling.run.ai/v2"
KAI_QUEUE: Final = "default-queue"
"""The queue of pods that name none; an installation of KAI makes it and the one above it."""
KAI_PARENT_QUEUE: Final = "default-parent-queue"
TRAIN: Final = "train"
"""The PriorityClass of pods that name none."""
DEEPEST_SUB_GROUP: Final = 32
"""Levels of sub-groups. Functions that walk the tree recurse; real jobs have two or three levels."""


class TopologyConstraint(api._Struct, frozen=True):
    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(api._Struct, frozen=True):
    name: str
    parent: str | None = None
    min_member: int | None = None
    min_sub_group: int | None = None
    topology_constraint: TopologyConstraint | None = None


class KaiPodGroupSpec(api.PodGroupSpec, frozen=True):
    min_member: int = 1
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] | None = None
    topology_constraint: TopologyConstraint | None = None
    preemptibility: str = ""
    preemption_delay: str = ""
    staleness_grace_period: str = ""


class KaiPodGroup(api.PodGroup, frozen=True):
    """A PodGroup of ``scheduling.run.ai``."""

    api_version: str = ""
    spec: KaiPodGroupSpec = msgspec.field(default_factory=KaiPodGroupSpec)

    @property
    def fault(self) -> str:
        """The rule that it breaks, or nothing."""
        return super().fault or _fault_of_tree(self.spec.sub_groups or ())


def _fault_of_tree(groups: Sequence[SubGroup]) -> str:
    """The rule that a list of sub-groups breaks: unique names, existing parents, no cycle, a bounded depth."""
    parents: dict[str, str] = {}
    for group in groups:
        if not group.name:
            return "subGroups: a name must not be empty"
        if group.name in parents:
            return f"subGroups: each name must be unique, {group.name!r} occurs twice"
        parents[group.name] = group.parent or ""
    depths = {"": 0}
    for name in parents:
        path: list[str] = []
        while name not in depths:
            if name not in parents:
                return f"subGroups: {path[-1]!r} names the parent {name!r}, which does not exist"
            path.append(name)
            if len(path) > len(parents):
                return f"subGroups: the parents of {path[0]!r} form a cycle"
            name = parents[name]
        for below in reversed(path):
            depths[below] = depths[parents[below]] + 1
            if depths[below] > DEEPEST_SUB_GROUP:
                return f"subGroups: {below!r} must be at most {DEEPEST_SUB_GROUP} levels deep, got {depths[below]}"
    return ""


class QueueResource(api._Struct, frozen=True):
    """Quota, limit and weight of one resource; -1 is without limit."""

    quota: float = 0
    limit: float | None = None
    over_quota_weight: float = 0


class QueueResources(api._Struct, frozen=True):
    """cpu in thousandths, memory in millions of bytes, gpu in devices."""

    cpu: QueueResource = msgspec.field(default_factory=QueueResource)
    memory: QueueResource = msgspec.field(default_factory=QueueResource)
    gpu: QueueResource = msgspec.field(default_factory=QueueResource)


def _said(amount: float | None) -> float:
    return -1.0 if amount is None else amount


class KaiQueueSpec(api.QueueSpec, frozen=True):
    parent: str = msgspec.field(default="", name="parentQueue")
    priority: int = 100
    display_name: str = ""
    resources: QueueResources | None = None
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""

    def __post_init__(self) -> None:
        """Say in Volcano's words what can be said in them: quota is deserved, limit is capability."""
        super().__post_init__()
        given = self.resources or QueueResources()
        parts = {"cpu": (given.cpu, 1000), "memory": (given.memory, 1e-6), "nvidia.com/gpu": (given.gpu, 1)}
        for name, field in (("deserved", "quota"), ("capability", "limit")):
            amounts = {key: _said(getattr(part, field)) / unit for key, (part, unit) in parts.items()}
            # more than a ledger can hold is as good as no limit
            said = {k: v for k, v in amounts.items() if 0 <= v * (1 if k == "memory" else 1000) < LIMIT}
            force_setattr(self, name, frozen(said))
        force_setattr(self, "weight", max(int(max(self.weights)), 0))

    @property
    def unlimited(self) -> frozenset[str]:
        """The resources of which it deserves whatever there is."""
        given = self.resources or QueueResources()
        parts = {"cpu": given.cpu, "memory": given.memory, "nvidia.com/gpu": given.gpu}
        return frozenset(name for name, part in parts.items() if part.quota < 0)

    @property
    def weights(self) -> Iterable[float]:
        given = self.resources or QueueResources()
        return (given.cpu.over_quota_weight, given.memory.over_quota_weight, given.gpu.over_quota_weight)


class KaiQueueObject(api.QueueObject, frozen=True):
    """A Queue of ``scheduling.run.ai``."""

    api_version: str = ""
    spec: KaiQueueSpec = msgspec.field(default_factory=KaiQueueSpec)


KINDS: Final[dict[str, type[api._Object]]] = {"PodGroup": KaiPodGroup, "Queue": KaiQueueObject}
"""Kind -> KAI's form of it."""


def kind_of(kind: str, data: Mapping[str, Any]) -> type[api._Object] | None:
    """KAI's form of a kind, if the data are of one of its API groups."""
    version = data.get("apiVersion")
    return KINDS.get(kind) if isinstance(version, str) and version.startswith(GROUPS) else None
