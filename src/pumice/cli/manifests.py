"""The cluster that manifests stand for, where nobody runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice import manifests
from pumice.errors import InvalidInput, decoder_words
from pumice.manifests import ManifestDocument
from pumice.model import api
from pumice.model.events import Seen
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.sim.expand import expanded
from pumice.sim.job_manifests import job_of, jobs_of, read_job
from pumice.sim.run import default_queue
from pumice.state.cluster import ClusterState
from pumice.words import counted
from pumice.workloads.grouping import OWN_GROUP, own_group

SCHEDULERS: Final = ("", "pumice", "volcano", "kai-scheduler")
"""The schedulers whose pending pods get a PodGroup, as the controllers make it."""
_NAMED: Final = 10
"""At most so many pods are named in a warning."""


def read_objects(paths: Sequence[Path]) -> tuple[list[api.AnyObject], list[str]]:
    """Every object below the paths in the order of the files, and the kinds that a scheduler does not read.

    Jobs whose pods are not among the objects come last, as the PodGroup and the pods that a job controller makes of
    them.
    :raises InvalidInput: a path that does not exist, or a document that is not a Kubernetes object; names the file.
    """
    there = manifests.read(paths)
    found = [placed.object for placed in there.objects]
    running = jobs_of(obj for obj in found if isinstance(obj, api.Pod))
    for document in there.jobs:
        job = read_job(document.data, document.place, _created(document))
        if job.key not in running:
            found += expanded(job)
    return found, sorted(there.unread)


def _created(document: ManifestDocument) -> float:
    """When an object was created, in seconds; 0 where it does not say."""
    try:
        meta = msgspec.convert(document.data.get("metadata") or {}, api.Metadata)
    except msgspec.ValidationError as exc:
        raise InvalidInput(f"{document.place}: Job: {decoder_words(exc)}") from exc
    return meta.creation_timestamp.timestamp() if meta.creation_timestamp is not None else 0.0


def grouped(objects: Iterable[api.AnyObject]) -> tuple[list[api.AnyObject], list[str]]:
    """The objects with a PodGroup of its own for each pending pod that names none; and what is left out, in words.

    Pods of one Job or controller share a group. Pods that name another scheduler are left out.
    """
    found: list[api.AnyObject] = []
    groups: dict[str, api.PodGroup] = {}
    others: dict[str, list[str]] = {}
    for obj in objects:
        if isinstance(obj, api.Pod) and obj.status.phase == "Pending" and not obj.spec.node_name:
            meta, notes = obj.metadata, obj.metadata.annotations or {}
            if group_named(notes, obj.spec):
                pass
            elif obj.spec.scheduler_name not in SCHEDULERS:
                others.setdefault(obj.spec.scheduler_name, []).append(obj.key)
            else:
                owner = next((o for o in meta.owner_references or () if o.controller), None)
                name = job_of(obj) or f"{OWN_GROUP}{owner.uid if owner is not None else meta.uid or meta.name}"
                group, _ = own_group(meta, obj.spec, name, {})
                stamped = replace(group.metadata, creation_timestamp=meta.creation_timestamp)
                groups.setdefault(group.key, replace(group, metadata=stamped))
                obj = replace(obj, metadata=replace(meta, annotations={**notes, GROUP_ANNOTATION: name}))
        found.append(obj)
    there = {obj.key for obj in found if isinstance(obj, api.PodGroup)}
    warnings = [
        f"{counted(len(pods), 'pod')} {'was' if len(pods) == 1 else 'were'} left out, of scheduler {name!r}: "
        f"{', '.join(pods[:_NAMED])}{', …' if len(pods) > _NAMED else ''}"
        for name, pods in sorted(others.items())
    ]
    return [*(group for key, group in groups.items() if key not in there), *found], warnings


def state_of(objects: Sequence[api.AnyObject]) -> ClusterState:
    """The cluster that the objects make up; its clock stands at the newest creation time among them.

    The queue ``default`` is there as in every cluster, whether they name it or not.
    """
    state = ClusterState()
    stamps = [o.metadata.creation_timestamp for o in objects if o.metadata.creation_timestamp is not None]
    state.now = max((s.timestamp() for s in stamps), default=0.0)
    for obj in objects:
        state.apply(Seen(obj))
    if "default" not in state.queues:
        state.apply(Seen(default_queue()))
    return state
