"""The cluster that manifests stand for, where nobody runs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice import manifests
from pumice.errors import InvalidInput, decoder_words
from pumice.manifests import ManifestDocument
from pumice.model import api, keys
from pumice.model.events import Seen
from pumice.model.kai import KAI_QUEUE
from pumice.model.task import GROUP_ANNOTATION, group_named
from pumice.sim.expand import expanded
from pumice.sim.job_manifests import job_of, jobs_of, joining_pods, read_job
from pumice.sim.run import default_queue, kai_queues
from pumice.state.cluster import ClusterState
from pumice.words import counted
from pumice.workloads.grouping import KAI_SCHEDULER, OWN_GROUP, is_grouped_by_kai, kai_group, own_group

SCHEDULERS: Final = ("", "pumice", "volcano", KAI_SCHEDULER)
"""The schedulers whose pending pods get a PodGroup, as the controllers make it."""
_SKIPPED: Final = f"with {keys.KAI_SKIP_GROUPER} and without a PodGroup ({keys.POD_GROUP_ANNOTATION})"
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
        created = _created(document)
        job = read_job(document.data, document.place, created)
        if job.key in running:
            continue
        joining = joining_pods(document.data, job)
        if joining is None:
            found += expanded(job)
        for pod in joining or ():
            stamp = datetime.fromtimestamp(created, UTC) if created else None
            found.append(replace(pod, metadata=replace(pod.metadata, creation_timestamp=stamp)))
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
    left: dict[str, list[str]] = {}
    for obj in objects:
        if isinstance(obj, api.Pod) and obj.status.phase == "Pending" and not obj.spec.node_name:
            meta, notes = obj.metadata, obj.metadata.annotations or {}
            if group_named(notes, obj.spec):
                pass
            elif notes.get(keys.KAI_SKIP_GROUPER) == "true":
                left.setdefault(_SKIPPED, []).append(obj.key)
            elif obj.spec.scheduler_name not in SCHEDULERS:
                left.setdefault(f"of scheduler {obj.spec.scheduler_name!r}", []).append(obj.key)
            else:
                owner = next((o for o in meta.owner_references or () if o.controller), None)
                name = job_of(obj) or f"{OWN_GROUP}{owner.uid if owner is not None else meta.uid or meta.name}"
                group: api.PodGroup
                if is_grouped_by_kai(obj.spec, meta.labels, notes):
                    group = kai_group(name, meta, meta, obj.spec)
                else:
                    group, _ = own_group(meta, obj.spec, name, {})
                stamped = replace(group.metadata, creation_timestamp=meta.creation_timestamp)
                groups.setdefault(group.key, replace(group, metadata=stamped))
                obj = replace(obj, metadata=replace(meta, annotations={**notes, GROUP_ANNOTATION: name}))
        found.append(obj)
    there = {obj.key for obj in found if isinstance(obj, api.PodGroup)}
    warnings = [
        f"{counted(len(pods), 'pod')} {'was' if len(pods) == 1 else 'were'} left out, {why}: "
        f"{', '.join(pods[:_NAMED])}{', …' if len(pods) > _NAMED else ''}"
        for why, pods in sorted(left.items())
    ]
    return [*(group for key, group in groups.items() if key not in there), *found], warnings


def state_of(objects: Sequence[api.AnyObject]) -> ClusterState:
    """The cluster that the objects make up; its clock stands at the newest creation time among them.

    The queue ``default`` is there as in every cluster, whether they name it or not, and if a job is in KAI's
    ``default-queue``, that one too.
    """
    state = ClusterState()
    stamps = [o.metadata.creation_timestamp for o in objects if o.metadata.creation_timestamp is not None]
    state.now = max((s.timestamp() for s in stamps), default=0.0)
    for obj in objects:
        state.apply(Seen(obj))
    if "default" not in state.queues:
        state.apply(Seen(default_queue()))
    if any(job.queue == KAI_QUEUE for job in state.jobs.values()) and KAI_QUEUE not in state.queues:
        for queue in kai_queues():
            if queue.metadata.name not in state.queues:
                state.apply(Seen(queue))
    return state
