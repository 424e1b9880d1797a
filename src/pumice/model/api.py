"""Kubernetes and Volcano objects, the fields that a scheduler reads. Decoding leaves everything else out.

``decode(kind, data)`` makes one from JSON-like data; a field of the wrong type is an `InvalidInput` that names object
and field. Lists and maps that an API server leaves out or sends as ``null`` are empty here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from pumice.errors import InvalidInput, decoder_words, shown
from pumice.model.mapping import Labels, frozen, labels_of
from pumice.model.quantity import milli

Quantity: TypeAlias = str | int | float
ResourceList: TypeAlias = dict[str, Quantity]
if TYPE_CHECKING:
    Texts: TypeAlias = Mapping[str, str]
else:
    Texts = dict[str, str]
"""Labels or annotations: decoded into a dict, and then made read-only."""


class _Struct(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True, dict=False, frozen=True):
    """Base of all objects: camel-case on the wire, defaults left out. None can be changed: `msgspec.structs.replace`
    makes another."""


class _Maps(_Struct, frozen=True):
    """An object with fields that are mappings or plain data: these cannot be changed either."""

    maps: ClassVar[tuple[str, ...]] = ()
    """The names of these fields."""

    def __post_init__(self) -> None:
        for name in self.maps:
            value = getattr(self, name)
            if value is not None:
                force_setattr(self, name, frozen(value))


class OwnerReference(_Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(_Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    resource_version: str = ""
    generation: int = 0

    def __post_init__(self) -> None:
        if self.labels is not None and self.labels.__class__ is not Labels:
            force_setattr(self, "labels", labels_of(self.labels))
        if self.annotations is not None and self.annotations.__class__ is not Labels:
            force_setattr(self, "annotations", labels_of(self.annotations))


class Requirement(_Struct, frozen=True):
    """One line of a selector: key, operator, values."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(_Maps, frozen=True):
    maps = ("match_labels",)
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Requirement, ...] | None = None


class NodeSelectorTerm(_Struct, frozen=True):
    match_expressions: tuple[Requirement, ...] | None = None
    match_fields: tuple[Requirement, ...] | None = None


class NodeSelector(_Struct, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] | None = None


class PreferredTerm(_Struct, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(_Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(_Struct, frozen=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedPodAffinityTerm(_Struct, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(_Struct, frozen=True):
    required: tuple[PodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Struct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(_Struct, frozen=True):
    key: str
    effect: str
    value: str = ""


class ResourceRequirements(_Maps, frozen=True):
    maps = ("requests", "limits")
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ContainerPort(_Struct, frozen=True):
    container_port: int = 0
    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(_Struct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: tuple[ContainerPort, ...] | None = None
    restart_policy: str | None = None


class ClaimVolume(_Struct, frozen=True):
    claim_name: str


class EphemeralVolume(_Struct, frozen=True):
    """A volume whose claim is named after the pod and the volume."""


class Volume(_Maps, frozen=True):
    maps = ("csi",)
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: dict[str, Any] | None = None

    @property
    def is_placed(self) -> bool:
        """Report whether it says where a pod can be."""
        return self.persistent_volume_claim is not None or self.ephemeral is not None or self.csi is not None


class SpreadConstraint(_Struct, frozen=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class SchedulingGate(_Struct, frozen=True):
    name: str


class PodResourceClaim(_Struct, frozen=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(_Struct, frozen=True):
    """The PodGroup of Kubernetes' own that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(_Maps, frozen=True):
    maps = ("node_selector", "overhead")
    containers: tuple[Container, ...] | None = None
    init_containers: tuple[Container, ...] | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    scheduler_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] | None = None
    scheduling_group: SchedulingGroup | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] | None = None
    """Those that say where a pod can be. The others (tokens, config maps, empty ones) are left out: of each pod's
    token the name is another."""
    resource_claims: tuple[PodResourceClaim, ...] | None = None
    host_network: bool = False
    restart_policy: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.volumes:
            placed = tuple([v for v in self.volumes if v.is_placed])
            if len(placed) < len(self.volumes):
                force_setattr(self, "volumes", placed or None)


class Condition(_Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStatus(_Maps, frozen=True):
    maps = ("allocated_resources",)
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class ResourceClaimStatus(_Struct, frozen=True):
    name: str
    resource_claim_name: str | None = None


class PodStatus(_Maps, frozen=True):
    maps = ("allocated_resources",)
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] | None = None
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[ResourceClaimStatus, ...] | None = None


class _Object(_Struct, frozen=True):
    kind_name: ClassVar[str] = ""
    namespaced: ClassVar[bool] = False
    """Whether a namespace holds it, rather than the cluster."""
    metadata: Metadata = msgspec.field(default_factory=Metadata)

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-wide object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace or self.namespaced else meta.name


class Pod(_Object, frozen=True):
    """A pod. The spec of a bound pod asks for what its node keeps for it (`held_by`)."""

    kind_name = "Pod"
    namespaced = True
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    def __post_init__(self) -> None:
        status = self.status
        told = status.container_statuses or status.init_container_statuses or status.resources
        if told and self.spec.node_name:
            force_setattr(self, "spec", held_by(self))


def held_by(pod: Pod) -> PodSpec:
    """The spec of a bound pod with the requests that its node keeps for it.

    While a pod is resized in place, each request is the largest of spec, allocated and actual, as kube-scheduler counts
    them. The spec does not count when the node refused the new size as infeasible.
    """
    spec, status = pod.spec, pod.status
    refused = any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions or ())
    told = {one.name: one for one in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}

    def kept(container: Container) -> Container:
        one = told.get(container.name)
        held = container.resources if one is None else _held(container.resources, one, refused)
        return container if held is container.resources else replace(container, resources=held)

    containers = tuple([kept(c) for c in spec.containers or ()])
    first = tuple([kept(c) if c.restart_policy == "Always" else c for c in spec.init_containers or ()])
    whole = _held(spec.resources, status, refused) if spec.resources is not None else None
    if containers == (spec.containers or ()) and first == (spec.init_containers or ()) and whole == spec.resources:
        return spec
    return replace(spec, containers=containers, init_containers=first or None, resources=whole)


def _held(
    asked: ResourceRequirements | None, told: ContainerStatus | PodStatus, refused: bool
) -> ResourceRequirements | None:
    """The requirements with the requests that count; the same object when the node keeps no more than they ask for."""
    if told.resources is None:
        return asked
    wanted, actual = (asked.requests if asked else None) or {}, told.resources.requests or {}
    allocated = told.allocated_resources or {}
    held: ResourceList = {}
    try:
        for amounts in (actual, allocated) if refused else (wanted, actual, allocated):
            for name, amount in amounts.items():
                if name not in held or milli(amount) > milli(held[name]):
                    held[name] = amount
    except InvalidInput:  # the spec still counts
        return asked
    if isinstance(told, PodStatus):  # requests of the whole pod: only those that its spec names
        held = {name: held.get(name, amount) for name, amount in wanted.items()}
    return asked if held == wanted else replace(asked or ResourceRequirements(), requests=held)


class NodeSpec(_Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] | None = None


class ContainerImage(_Struct, frozen=True):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeStatus(_Maps, frozen=True):
    maps = ("allocatable", "capacity")
    allocatable: ResourceList | None = None
    capacity: ResourceList | None = None
    conditions: tuple[Condition, ...] | None = None
    images: tuple[ContainerImage, ...] | None = None


class NodeObject(_Object, frozen=True):
    kind_name = "Node"
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class NetworkTopology(_Struct, frozen=True):
    mode: str = ""
    highest_tier_allowed: int | None = None
    highest_tier_name: str | None = None


class SubGroupPolicy(_Struct, frozen=True):
    name: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    sub_group_size: int | None = None
    min_sub_groups: int | None = None
    network_topology: NetworkTopology | None = None


class PodGroupSpec(_Maps, frozen=True):
    maps = ("min_task_member", "min_resources")
    min_member: int = 0
    min_task_member: dict[str, int] | None = None
    min_resources: ResourceList | None = None
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] | None = None


CONTRARY: Final = {"Scheduled": "Unschedulable", "Unschedulable": "Scheduled"}
"""Conditions of a PodGroup that are never both True: type -> the other."""


class PodGroupStatus(_Struct, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] | None = None
    running: int = 0
    succeeded: int = 0
    failed: int = 0


class PodGroup(_Object, frozen=True):
    kind_name = "PodGroup"
    namespaced = True
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)

    @property
    def fault(self) -> str:
        """The rule that it breaks, or nothing."""
        return f"minMember must not be negative, got {self.spec.min_member}" if self.spec.min_member < 0 else ""


class Guarantee(_Maps, frozen=True):
    maps = ("resource",)
    resource: ResourceList | None = None


class QueueSpec(_Maps, frozen=True):
    maps = ("capability", "deserved", "affinity")
    weight: int = 0
    capability: ResourceList | None = None
    deserved: ResourceList | None = None
    guarantee: Guarantee | None = None
    priority: int = 0
    parent: str = ""
    affinity: dict[str, Any] | None = None
    reclaimable: bool | None = None
    dequeue_strategy: str = ""

    @property
    def weights(self) -> Iterable[float]:
        """Every weight by which something is shared between queues."""
        return (self.weight,)


class QueueStatus(_Maps, frozen=True):
    maps = ("allocated",)
    state: str = ""
    allocated: ResourceList | None = None


class QueueObject(_Object, frozen=True):
    kind_name = "Queue"
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class PriorityClass(_Object, frozen=True):
    kind_name = "PriorityClass"
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class QuotaStatus(_Maps, frozen=True):
    maps = ("hard", "used")
    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(_Object, frozen=True):
    kind_name = "ResourceQuota"
    namespaced = True
    spec: QuotaStatus = msgspec.field(default_factory=QuotaStatus)
    status: QuotaStatus = msgspec.field(default_factory=QuotaStatus)


class BudgetSpec(_Struct, frozen=True):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(_Maps, frozen=True):
    maps = ("disrupted_pods",)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, str] | None = None
    """Pods, by name, whose eviction is counted in ``disruptions_allowed`` already."""


class PodDisruptionBudget(_Object, frozen=True):
    kind_name = "PodDisruptionBudget"
    namespaced = True
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class ExactMatch(_Struct, frozen=True):
    name: str = ""


class RegexMatch(_Struct, frozen=True):
    pattern: str = ""


class MemberSelector(_Struct, frozen=True):
    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(_Struct, frozen=True):
    type: str = "Node"
    selector: MemberSelector = msgspec.field(default_factory=MemberSelector)


class HyperNodeSpec(_Struct, frozen=True):
    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] | None = None


class HyperNode(_Object, frozen=True):
    kind_name = "HyperNode"
    spec: HyperNodeSpec = msgspec.field(default_factory=HyperNodeSpec)


class TopologyLevel(_Struct, frozen=True):
    node_label: str
    alias: str = ""


class TopologySpec(_Struct, frozen=True):
    levels: tuple[TopologyLevel, ...] | None = None


class Topology(_Object, frozen=True):
    """Levels of node labels, the widest first (``kai.scheduler``)."""

    kind_name = "Topology"
    spec: TopologySpec = msgspec.field(default_factory=TopologySpec)


class NamespaceObject(_Object, frozen=True):
    kind_name = "Namespace"


class _Loose(_Object, _Maps, frozen=True):
    """An object whose parts are read as plain data by the one plugin that needs it."""

    maps: ClassVar[tuple[str, ...]] = ("spec", "status")
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class PersistentVolume(_Loose, frozen=True):
    kind_name = "PersistentVolume"


class PersistentVolumeClaim(_Loose, frozen=True):
    kind_name = "PersistentVolumeClaim"
    namespaced = True


class StorageClass(_Object, _Maps, frozen=True):
    kind_name = "StorageClass"
    maps = ("allowed_topologies",)
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[dict[str, Any], ...] | None = None


class CSINode(_Loose, frozen=True):
    kind_name = "CSINode"


class CSIDriver(_Loose, frozen=True):
    kind_name = "CSIDriver"


class CSIStorageCapacity(_Object, frozen=True):
    kind_name = "CSIStorageCapacity"
    namespaced = True
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None
    node_topology: LabelSelector | None = None


class ResourceSlice(_Loose, frozen=True):
    kind_name = "ResourceSlice"


class ResourceClaim(_Loose, frozen=True):
    kind_name = "ResourceClaim"
    namespaced = True


class DeviceClass(_Loose, frozen=True):
    kind_name = "DeviceClass"


class Numatopology(_Loose, frozen=True):
    kind_name = "Numatopology"


class NodeResourceTopology(_Object, _Maps, frozen=True):
    """The NUMA zones of a node (``topology.node.k8s.io``); the object has the node's name."""

    kind_name = "NodeResourceTopology"
    maps: ClassVar[tuple[str, ...]] = ("zones", "attributes")
    topology_policies: tuple[str, ...] | None = None
    zones: tuple[dict[str, Any], ...] | None = None
    attributes: tuple[dict[str, Any], ...] | None = None


AnyObject: TypeAlias = _Object
T = TypeVar("T", bound=_Object)

KINDS: dict[str, type[_Object]] = {
    cls.kind_name: cls
    for cls in (
        *(Pod, NodeObject, PodGroup, QueueObject, PriorityClass, ResourceQuota, PodDisruptionBudget, HyperNode),
        *(NamespaceObject, PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIStorageCapacity),
        *(CSIDriver, ResourceSlice, ResourceClaim, DeviceClass, Numatopology, NodeResourceTopology, Topology),
    )
}


def class_of(kind: str, data: Mapping[str, Any]) -> type[_Object] | None:
    """The type of each kind by API group; None if no code reads that kind."""
    from pumice.model import kai, native  # which are made of what stands here

    return kai.kind_of(kind, data) or KINDS.get(native.kind_of(kind, data))


def decode(kind: str, data: Mapping[str, Any]) -> AnyObject:
    """One object from JSON-like data (an API server's answer, a manifest, a test case).

    :raises InvalidInput: an unknown kind, a field of the wrong type, or too deep a nesting; names kind and object.
    """
    cls = class_of(kind, data)
    if cls is None:
        raise InvalidInput(f"kind {kind!r}: not one of {', '.join(sorted(KINDS))}")
    try:
        return msgspec.convert(data, cls, strict=True)
    except (msgspec.ValidationError, RecursionError) as exc:
        meta = data.get("metadata") if isinstance(data, Mapping) else None
        name = meta.get("name", "?") if isinstance(meta, Mapping) else "?"
        why = "nested too deep" if isinstance(exc, RecursionError) else decoder_words(exc)
        quote = "; in YAML quote it: n, no, off and 12 are no text" if "must be text, got " in why else ""
        raise InvalidInput(f"{kind} {shown(name)}: {why}{quote}") from exc


def make_known(*types: Any) -> None:
    """Have made, now and in this thread, whatever reads these types.

    msgspec makes it where a type is read for the first time; a process in which two threads do that at once can crash.
    So modules whose types several threads read call this while they are imported.
    """
    for one in types:
        msgspec.json.Decoder(one)


_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder().decode


def with_namespace(obj: T, namespace: str) -> T:
    """The object, in this namespace if it names none."""
    if obj.metadata.namespace:
        return obj
    return replace(obj, metadata=replace(obj.metadata, namespace=namespace))


def to_data(obj: AnyObject) -> dict[str, Any]:
    """The object as JSON-like data, defaults left out."""
    data: dict[str, Any] = _read(_write(obj))
    return data


from pumice.model import native as _native  # noqa: E402, F401  it adds its kinds to KINDS
