"""The watched kinds: where the API server keeps each kind, and whether a cluster must have it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import msgspec

from pumice.model import kai, native
from pumice.model.api import KINDS, AnyObject

T = TypeVar("T")
DEEPEST: Final = 100
"""Levels of nesting that are read where an object has more than the decoder can take; a server takes thousands."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class ObjectDecoder(Generic[T]):
    """Decodes a type. A value that is nested too deep for a decoder is read as null, and the rest is read."""

    __slots__ = ("_decode",)

    def __init__(self, kind: Any) -> None:
        self._decode: Any = msgspec.json.Decoder(kind).decode

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """The content of the data.

        :raises msgspec.MsgspecError: they are no JSON, or not of the type.
        """
        try:
            found: T = self._decode(data)
        except RecursionError:
            found = self._decode(shallow(bytes(data)))
        return found


def shallow(data: bytes) -> bytes:
    """JSON without what is nested deeper than `DEEPEST` levels: null stands there."""
    kept, level, out = 0, 0, []
    for token in _TOKEN.finditer(data):
        mark = data[token.start()]
        if mark in b"[{":
            level += 1
            if level == DEEPEST + 1:
                out.append(data[kept : token.start()])
        elif mark in b"]}":
            if level == DEEPEST + 1:
                out.append(b"null")
                kept = token.end()
            level -= 1
    return b"".join((*out, data[kept:]))


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind on the API server."""

    kind: str
    """As we call it: the kind on the server, before the first dot."""
    prefix: str
    """``/api/v1`` or ``/apis/GROUP/VERSION``."""
    plural: str
    needed: bool = True
    """Without it there is nothing to schedule; an optional one may be missing or forbidden."""
    versions: tuple[str, ...] = ()
    """All prefixes under which servers have it, newest first; none if there is just one."""
    form: str = ""
    """The name of its decoder, where kinds of one name have several forms."""

    def older(self) -> Resource:
        """The kind in its next older version; the newest after the oldest."""
        if not self.versions:
            return self
        at = self.versions.index(self.prefix) + 1
        return replace(self, prefix=self.versions[at % len(self.versions)])

    @property
    def collection(self) -> str:
        """The path of all objects of the kind."""
        return f"{self.prefix}/{self.plural}"

    def path(self, key: str, sub: str = "") -> str:
        """The path of one object: *key* is ``namespace/name`` or the bare name; *sub* a subresource."""
        namespace, _, name = key.rpartition("/")
        where = f"{self.prefix}/namespaces/{namespace}" if namespace else self.prefix
        return f"{where}/{self.plural}/{name}{'/' + sub if sub else ''}"


_CORE, _STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
_DRA = tuple(f"/apis/resource.k8s.io/{version}" for version in ("v1", "v1beta2", "v1beta1"))
_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
_NATIVE = tuple(f"/apis/{native.GROUP}/{version}" for version in ("v1beta1", "v1alpha2"))

RESOURCES: dict[str, Resource] = {
    r.kind: r
    for r in (
        # in the order in which first lists are applied: what others refer to comes first
        Resource("PriorityClass", "/apis/scheduling.k8s.io/v1", "priorityclasses"),
        Resource("Namespace", _CORE, "namespaces"),
        Resource("ResourceQuota", _CORE, "resourcequotas"),
        Resource("Queue", _VOLCANO, "queues"),
        Resource("HyperNode", "/apis/topology.volcano.sh/v1alpha1", "hypernodes", needed=False),
        Resource("Numatopology", "/apis/nodeinfo.volcano.sh/v1alpha1", "numatopologies", needed=False),
        Resource("Node", _CORE, "nodes"),
        Resource("StorageClass", _STORAGE, "storageclasses", needed=False),
        Resource("CSINode", _STORAGE, "csinodes", needed=False),
        Resource("CSIDriver", _STORAGE, "csidrivers", needed=False),
        Resource("CSIStorageCapacity", _STORAGE, "csistoragecapacities", needed=False),
        Resource("PersistentVolume", _CORE, "persistentvolumes", needed=False),
        Resource("PersistentVolumeClaim", _CORE, "persistentvolumeclaims", needed=False),
        Resource("DeviceClass", _DRA[0], "deviceclasses", needed=False, versions=_DRA),
        Resource("ResourceSlice", _DRA[0], "resourceslices", needed=False, versions=_DRA),
        Resource("ResourceClaim", _DRA[0], "resourceclaims", needed=False, versions=_DRA),
        Resource("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets", needed=False),
        Resource(native.WORKLOAD, _NATIVE[0], "workloads", needed=False, versions=_NATIVE),
        Resource(native.POD_GROUP, _NATIVE[0], "podgroups", needed=False, versions=_NATIVE),
        Resource("PodGroup", _VOLCANO, "podgroups"),
        Resource("Pod", _CORE, "pods"),
    )
}


_KAI: dict[str, Resource] = {
    r.kind: r
    for r in (
        Resource("Queue", "/apis/scheduling.run.ai/v2", "queues", form="KaiQueue"),
        Resource("Topology", "/apis/kai.scheduler/v1alpha1", "topologies", needed=False),
        Resource("NodeResourceTopology", "/apis/topology.node.k8s.io/v1alpha2", "noderesourcetopologies", needed=False),
        Resource("PodGroup", "/apis/scheduling.run.ai/v2alpha2", "podgroups", form="KaiPodGroup"),
    )
}


def resources_of(dialect: str) -> dict[str, Resource]:
    """The watched kinds for a conf of a dialect: KAI's has its own queues and groups in place of Volcano's."""
    if dialect != "kai":
        return RESOURCES
    before = {"Queue": ("Queue", "Topology", "NodeResourceTopology")}  # what jobs refer to is listed before them
    kinds = [k for kind in RESOURCES for k in before.get(kind, (kind,)) if kind not in ("HyperNode", "Numatopology")]
    return {kind: _KAI.get(kind) or RESOURCES[kind] for kind in kinds}


class ConfigMap(AnyObject, frozen=True):
    """Holds our conf; the scheduler's state knows nothing of it."""

    kind_name = "ConfigMap"
    data: dict[str, str] | None = None


CONFIG_MAPS = Resource("ConfigMap", _CORE, "configmaps")
_DECODED: dict[str, type[AnyObject]] = {
    **KINDS,
    "ConfigMap": ConfigMap,
    **{f"Kai{kind}": cls for kind, cls in kai.KINDS.items()},
}


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class RawList(msgspec.Struct):
    """A list whose items are decoded one by one, so that a bad one spoils nothing."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


RAW_LIST: ObjectDecoder[RawList] = ObjectDecoder(RawList)
WATCH_LINE: ObjectDecoder[WatchLine] = ObjectDecoder(WatchLine)
# made here, in the importing thread: decoders of a type must not be made by two threads at once
DECODERS: dict[str, ObjectDecoder[Any]] = {kind: ObjectDecoder(cls) for kind, cls in _DECODED.items()}


def _list_decoder(kind: str, cls: type[AnyObject]) -> ObjectDecoder[Any]:
    items: Any = list[cls] | None  # type: ignore[valid-type]
    return ObjectDecoder(msgspec.defstruct(f"{kind}List", [("metadata", ListMeta), ("items", items, None)]))


LISTS: dict[str, ObjectDecoder[Any]] = {kind: _list_decoder(kind, cls) for kind, cls in _DECODED.items()}


def declare(cls: type[AnyObject]) -> None:
    """Let a kind be followed that the scheduler knows nothing of. For modules while they are imported."""
    DECODERS[cls.kind_name] = ObjectDecoder(cls)
    LISTS[cls.kind_name] = _list_decoder(cls.kind_name, cls)


class _OnlyMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Bookmark(msgspec.Struct):
    """The metadata of any object."""

    metadata: _OnlyMeta = msgspec.field(default_factory=_OnlyMeta)


BOOKMARK: ObjectDecoder[Bookmark] = ObjectDecoder(Bookmark)
