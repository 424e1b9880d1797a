"""What may stay in a redacted cycle, and what is never saved at all.

A text of an object stays if it is one of the words below, a number, quantity, duration or time, a name that was given
in place of another, the name of a node, a UID, or if the conf names it. Every other text gets a name of its own, the
same everywhere and in the same order. So a field that nobody thought of gives nothing away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pumice.model import keys
from pumice.model.codes import ReasonCode

NEVER_SAVED: Final = frozenset(
    {"volumeAttributes", "opaque", "parameters", "secretRef", "nodePublishSecretRef", "nodeStageSecretRef"}
    | {"controllerPublishSecretRef", "controllerExpandSecretRef", "nodeExpandSecretRef"}
)
"""Fields that drivers read and schedulers do not: passwords and tokens stand in them."""
WORDS: Final = frozenset(
    """
In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute TCP UDP SCTP Always
OnFailure Never DoNotSchedule ScheduleAnyway Honor Ignore hard soft Node HyperNode Pod Job ReplicaSet
StatefulSet DaemonSet PodGroup Pending Running Succeeded Failed Unknown Inqueue Completed Open Closed
Closing Available Bound Released Lost ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod
Filesystem Block Immediate WaitForFirstConsumer PreemptLowerPriority IfHealthyBudget AlwaysAllow
ExactCount All True False Ready PodScheduled ContainersReady Initialized DisruptionTarget
MemoryPressure DiskPressure PIDPressure NetworkUnavailable Scheduled Unschedulable default root
kube-system kube-public kube-node-lease volcano-system system-cluster-critical system-node-critical
pods pod linux windows amd64 arm64 preemptible non-preemptible metadata.name fifo traverse cpu memory
ephemeral-storage storage requests limits nvidia.com amd.com gpu LeastAllocated MostAllocated
RequestedToCapacityRatio
""".split()  # noqa: SIM905
) | frozenset(map(str, ReasonCode))
_KEYED: Final = frozenset({"key", "topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"})
_KEPT_FIELDS: Final = frozenset({"uid", "resourceVersion"})
_ATTRIBUTES: Final = frozenset({"attributes", "capacity"})
_DROPPED_FIELDS: Final = NEVER_SAVED | {"message", "nodeID"}
_PLAIN: Final = re.compile(
    r"|[-+]?[0-9]{1,18}(?:\.[0-9]{0,9})?(?:[eE][-+]?[0-9]{1,3}|[A-Za-zµ%]{1,2})?"
    r"|(?:[0-9]{1,9}(?:\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h|d)){1,6}|v?[0-9]+(?:\.[0-9]+){1,3}|true|false|True|False"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,18}(?:Z|[-+][0-9]{2}:[0-9]{2})"
)
_PART: Final = re.compile(r'[^\s,;:/={}\[\]"|]+')
"""Annotations hold lists, paths and JSON: each part of one is a text by itself."""
_CEL: Final = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*")
_CEL_WORDS: Final = frozenset(
    """
device attributes capacity driver allowMultipleAllocations true false null in has all exists exists_one
map filter size startsWith endsWith contains matches quantity semver isGreaterThan isLessThan compareTo
int string double bool lowerAscii upperAscii orValue cel bind
""".split()  # noqa: SIM905
)


def without_secrets(data: Any) -> Any:
    """Data of an object without what is never saved."""
    if isinstance(data, dict):
        return {key: without_secrets(value) for key, value in data.items() if key not in NEVER_SAVED}
    if isinstance(data, list):
        return [without_secrets(value) for value in data]
    return data


def plain(text: str) -> bool:
    """Is it a number, quantity, duration, time or truth value?"""
    return _PLAIN.fullmatch(text) is not None


def said_in(conf: Any) -> set[str]:
    """Every text of a conf, and every part of one between signs."""
    found: set[str] = set()
    for text in _texts(conf):
        found |= {text, *re.split(r"[\s,;:=|]+", text)}
    return found


def _texts(data: Any) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _texts(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _texts(value)


def each_text(data: Any, rename: Callable[[str], str], field: str = "") -> Any:
    """A copy of an object's data with *rename* called for every text that is neither field nor key.

    Messages, what is never saved and annotations that nobody reads are not in it.
    """
    if isinstance(data, dict):
        found = {}
        for key, value in data.items():
            if key in _DROPPED_FIELDS or (field == "annotations" and key not in keys.KEYS) or key == keys.LAST_APPLIED:
                continue
            if field == "annotations" and isinstance(value, str):
                found[key] = _PART.sub(lambda match: rename(match[0]), value)
                continue
            if field in _ATTRIBUTES:
                key = _qualified(key, rename)
            elif field == "minTaskMember":
                key = rename(key)
            found[key] = each_text(value, rename, key)
        return found
    if isinstance(data, (list, tuple)):
        return [each_text(value, rename, field) for value in data]
    if not isinstance(data, str) or field in _KEYED or field in _KEPT_FIELDS:
        return data
    if field == "expression":
        return _CEL.sub(lambda match: _cel_word(match[0], rename), data)
    if field == "matchAttribute":
        return _qualified(data, rename)
    return rename(data)


def _qualified(name: str, rename: Callable[[str], str]) -> str:
    """The name of a device's attribute; its domain is that of a driver."""
    domain, slash, own = name.rpartition("/")
    return f"{rename(domain)}/{own}" if slash else name


def _cel_word(word: str, rename: Callable[[str], str]) -> str:
    if word[0] in "\"'":
        return f'"{rename(word[1:-1])}"'
    return word if word in _CEL_WORDS else rename(word).replace("-", "_")


def attribute_names(objects: Mapping[str, list[dict[str, Any]]]) -> set[str]:
    """What devices' attributes and capacities are called, without their domains: expressions name them."""
    found: set[str] = set()

    def look(data: Any, field: str) -> None:
        if isinstance(data, dict):
            if field in _ATTRIBUTES:
                found.update(key.rpartition("/")[2] for key in data)
            for key, value in data.items():
                look(value, key)
        elif isinstance(data, list):
            for value in data:
                look(value, field)

    look(objects.get("ResourceSlice", []), "")
    return found
