"""Names of Volcano and KAI, and what they are called here: the hints of error messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_OTHERWISE: Final = {
    "resreq": "requests",
    "init_resreq": "requests",
    "res_req": "requests",
    "req_name": "name",
    "is_preemptible_job": "preemptible",
    "requires_gpus": "requires_gpu",
    "is_require_any_kind_of_gpu": "requires_gpu",
    "task_role": "role",
    "get_float64": "float",
    "get_gpu_utilization": "gpu_utilization",
    "task_status_index": "with_status",
    "node_list": "nodes",
    "total_resource": "total",
    "allocate_func": "allocate",
    "deallocate_func": "deallocate",
    "pod_group": "group",
    "is_job_over_capacity_fn": "job_within_capacity",
    "add_is_job_over_capacity_fn": "add_job_within_capacity_fn",
    "is_non_preemptible_job_over_queue_quota_fn": "job_within_quota",
    "add_is_non_preemptible_job_over_queue_quota_fn": "add_job_within_quota_fn",
    "is_task_allocation_on_node_over_capacity_fn": "task_within_capacity",
    "add_is_task_allocation_on_node_over_capacity_fn": "add_task_within_capacity_fn",
}
"""Names that are not merely spelt otherwise, in our spelling."""
_ITSELF: Final = frozenset({"Job", "Node", "Pod", "PodGroup", "Queue", "Task"})
"""The wrapper of an API object in Go; here its labels and annotations stand on the object itself."""


def snake(name: str) -> str:
    """A name of Go as it would be spelt here: ``AddPredicateFn`` is ``add_predicate_fn``."""
    return _WORDS.sub("_", name.replace("GPUs", "Gpus")).lower()


def hint(name: str, known: Iterable[str]) -> str:
    """The suggestion in place of *name*, to be put behind a message; empty without a near name."""
    names = {n for n in known if not n.startswith("_")}
    spelt = snake(name)
    bare = spelt.removesuffix("_fns").removesuffix("_fn")
    tried = (spelt, _OTHERWISE.get(spelt, ""), spelt.removesuffix("s"), bare, bare.removeprefix("get_"))
    found = next((f"here it is {n!r}" for n in tried if n in names and n != name), "")
    if name in _ITSELF and "labels" in names and (not found or name.startswith("Pod")):
        found += f"{', and' if found else 'here'} its labels and annotations are attributes of its own"
    if found:
        return f"; {found}"
    close = difflib.get_close_matches(spelt, sorted(names), n=1, cutoff=0.75)
    return f"; did you mean {close[0]!r}?" if close else ""


def unknown(exc: AttributeError, ours: tuple[type, ...]) -> str:
    """The hint for a name that one of our own objects does not have, whatever the cluster; else nothing."""
    if not exc.name or not isinstance(exc.obj, ours) or hasattr(type(exc.obj), exc.name):
        return ""
    return hint(exc.name, dir(type(exc.obj))) or "; there is no such name"
